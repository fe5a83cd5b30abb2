@consumer
Feature: A failed message is tried again after each rung of the ladder

  Background:
    Given a classic queue "jobs"
    And "worker" consumes "jobs" with a ladder of 100ms, 100ms, 100ms

  @RTY-001 @must @source:C37
  Scenario: A message that failed once is given again
    A failure is often a dependency that was away for a moment; one more attempt is what retry is for.

    Given "worker" fails "m1" once, then handles it
    When "m1" is published to "jobs"
    Then "worker" is given "m1" twice, as attempts 1, 2
    And "worker" handled "m1"

  @RTY-002 @must @source:C37
  Scenario: Success at the third attempt ends it
    Who succeeds is done: a retry after the success would be an effect that happens twice.

    Given "worker" fails "m1" twice, then handles it
    When "m1" is published to "jobs"
    Then "worker" is given "m1" 3 times, as attempts 1, 2, 3
    And "worker" handled "m1"
    And "m1" is not parked

  @RTY-003 @must @source:C37
  Scenario: Success at the last attempt is a success
    The last attempt counts like any other; a library that parks before it has tried loses an attempt.

    Given "worker" fails "m1" 3 times, then handles it
    When "m1" is published to "jobs"
    Then "worker" is given "m1" 4 times, as attempts 1, 2, 3, 4
    And "worker" handled "m1"
    And "m1" is not parked

  @RTY-004 @must @source:C36 @source:C37
  Scenario: After the last rung the message is parked
    With three rungs there are four attempts, and the message that failed them all is kept, not deleted.

    Given "worker" always fails "m1"
    When "m1" is published to "jobs"
    Then "worker" is given "m1" 4 times, as attempts 1, 2, 3, 4
    And "m1" is parked once

  @RTY-005 @must @source:C37
  Scenario: Each wait is at least its rung
    A retry that comes early hammers what is already down; one that comes much too late has been forgotten.

    Given "worker" always fails "m1"
    When "m1" is published to "jobs"
    Then "m1" is parked once
    And each wait of "m1" for "worker" is at least its rung and at most its rung and 2s

  @RTY-006 @must @slow @source:C31 @doc:ttl
  Scenario: A waiting message holds nobody up
    A message that waits in the handler, or unacked, takes a place of the prefetch from those that could be handled.

    Given a classic queue "mail"
    And "mailer" consumes "mail" with a ladder of 2500ms and a prefetch of 1 in process "mailing"
    And "mailer" fails "slow" once, then handles it
    When "slow" is published to "mail"
    And "mailer" has failed "slow"
    And "quick" is published to "mail"
    Then "mailer" handled "quick" before it is given "slow" again
    And "mailer" handled "slow"

  @RTY-007 @should @source:C47
  Scenario: Retries of one rung keep their order
    Order is not kept across a failure, yet messages that fail together come back in the order in which they failed.

    Given a classic queue "steps"
    And "walker" consumes "steps" with a ladder of 300ms and a prefetch of 1 in process "walking"
    And "walker" fails "s*" once, then handles it
    When the messages "s1" to "s5" are published to "steps"
    Then "walker" is given the messages "s1" to "s5" in this order as attempt 2
    And "walker" handled 5 messages "s*"

  @RTY-008 @must @slow @source:F13 @source:C33
  Scenario: A thousand poison messages do not stop a thousand good ones
    Poison seldom comes alone: a bad deploy of a producer makes thousands, and the good ones among them must flow.

    Given a classic queue "stream"
    And "reader" consumes "stream" with a ladder of 100ms and a prefetch of 300 in process "reading"
    And "reader" always fails "bad*"
    When 1000 messages "bad*" and 1000 messages "good*" are published in turn to "stream"
    Then "reader" handled 1000 messages "good*"
    And 1000 messages "bad*" are parked once each

  @RTY-009 @must @source:C37
  Scenario: A ladder of one rung gives two attempts
    The number of attempts follows from the ladder; a count kept beside it is free to disagree with it.

    Given a classic queue "short"
    And "brief" consumes "short" with a ladder of 100ms in process "briefly"
    And "brief" always fails "m1"
    When "m1" is published to "short"
    Then "brief" is given "m1" twice, as attempts 1, 2
    And "m1" is parked once

  @RTY-010 @should @source:C16 @source:B34
  Scenario: Every rung of a ladder of different delays is waited out
    A message that waits in a queue of its own delay is held up by no longer wait before it.

    Given a classic queue "stairs"
    And "climber" consumes "stairs" with a ladder of 300ms, 50ms, 150ms in process "climbing"
    And "climber" always fails "m*"
    When the messages "m1" to "m3" are published to "stairs"
    Then 3 messages "m*" are parked once each
    And each wait of "m1" for "climber" is at least its rung and at most its rung and 2s
    And each wait of "m3" for "climber" is at least its rung and at most its rung and 2s

  @RTY-011 @must @source:B37
  Scenario: A failing message is not given again at once
    A message that is requeued at once comes back at once: a loop at full speed, for as long as it fails.

    Given "worker" always fails "m1"
    When "m1" is published to "jobs"
    Then "m1" is parked once
    And "worker" is given "m1" at most 4 times

  @RTY-012 @must @quorum @source:C31
  Scenario: A quorum queue's messages climb the same ladder
    The source queue's type is its owner's choice; on a quorum queue the broker counts deliveries of its own.

    Given a quorum queue "ledgers"
    And "keeper" consumes "ledgers"
    And "keeper" always fails "m1"
    When "m1" is published to "ledgers"
    Then "keeper" is given "m1" 4 times, as attempts 1, 2, 3, 4
    And "m1" is parked once
