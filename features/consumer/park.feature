@consumer
Feature: What cannot be processed is parked, and kept

  Background:
    Given a classic queue "jobs"
    And "worker" consumes "jobs" with a ladder of 100ms, 100ms, 100ms

  @PRK-001 @must @source:C36
  Scenario: The exhausted message is parked once and not given again
    Parking is the end: what is parked waits for a person, not for the consumer.

    Given "worker" always fails "m1"
    When "m1" is published to "jobs"
    Then "m1" is parked once
    And "worker" is not given "m1" again for 300ms

  @PRK-002 @must @verdicts @source:C44
  Scenario: A Park verdict at the first delivery parks at once
    A message that will never be processed need not climb the ladder first.

    Given "worker" parks "m1"
    When "m1" is published to "jobs"
    Then "worker" is given "m1" once, as attempts 1
    And "m1" is parked once
    And "m1" made no hop

  @PRK-003 @must @verdicts @source:C44
  Scenario: A Park verdict after a failure parks at that attempt
    The verdict counts whenever it comes.

    Given "worker" fails "m1" once, then parks it
    When "m1" is published to "jobs"
    Then "worker" is given "m1" twice, as attempts 1, 2
    And the parked "m1" carries attempt 2

  @PRK-004 @must @source:C38
  Scenario: The parked message says where, why and when
    It is read by somebody who was not there: without queue, reason and time there is only a body.

    Given "worker" always fails "m1" with the reason "no total on order"
    When "m1" is published to "jobs"
    Then "m1" is parked once
    And the parked "m1" carries the queue of "worker"
    And the parked "m1" carries the reason "no total on order"
    And the parked "m1" carries the time of its parking

  @PRK-005 @must @source:C41
  Scenario: Each source queue has a parking queue of its own
    The depth of a parking queue is how anyone notices that a consumer is in trouble, and which.

    Given a classic queue "mail"
    And "mailer" consumes "mail"
    And "worker" parks "m1"
    And "mailer" parks "m2"
    When "m1" is published to "jobs"
    And "m2" is published to "mail"
    Then "m1" is parked once for "worker"
    And "m2" is parked once for "mailer"

  @PRK-006 @must @source:C39
  Scenario: A parked copy is persistent though the original was not
    A transient message in a durable queue is gone with the broker's next restart, and parking is for keeping.

    Given "worker" parks "m1"
    When "m1" is published to "jobs" with
      | delivery-mode | transient |
    Then "m1" is parked once
    And the parked "m1" is persistent

  @PRK-007 @must @source:C38
  Scenario: A reason of a megabyte does not keep a message from being parked
    An error text can hold a whole response; what cannot be written into a header must not block the queue.

    Given "worker" always fails "m1" with a reason of 1000000 bytes
    When "m1" is published to "jobs"
    Then "worker" is given "m1" 4 times, as attempts 1, 2, 3, 4
    And "m1" is parked once

  @PRK-008 @must @source:C31
  Scenario: The original is released only after the parked copy is safe
    Until the broker confirms it, the parked copy may not exist; an ack before that can leave no copy at all.

    Given "worker" parks "m*"
    When the messages "m1" to "m20" are published to "jobs"
    Then 20 messages "m*" are parked once each
    And every original of "m*" was released after its copy was safe

  @PRK-009 @must @source:C31
  Scenario: The original is released only after the retry copy is safe
    A crash between the two leaves two copies, never none.

    Given "worker" fails "m*" once, then handles it
    When the messages "m1" to "m20" are published to "jobs"
    Then "worker" handled 20 messages "m*"
    And every original of "m*" was released after its copy was safe

  @PRK-010 @must @source:C39 @source:C43
  Scenario: The parking queue is durable
    A parking queue that goes with the broker's next restart keeps nothing.

    Then the parking queue of "worker" is durable

  @PRK-011 @must @source:C36
  Scenario: Parking needs no consumer that is still there
    A parked message stays when the consumer stops; nothing about it is bound to the process.

    Given "worker" parks "m1"
    When "m1" is published to "jobs"
    And "worker" has failed "m1"
    And the consumer's process is closed
    Then "m1" is parked once
