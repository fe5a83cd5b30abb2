@chaos
Feature: The broker's confirm decides what becomes of the original

  @CNF-001 @must @verdicts @source:C31 @bug:B03
  Scenario: Nothing is acked while the confirm of the parked copy is missing
    Until the broker has confirmed it, the parked copy may not exist, and the original is all there is.

    Given a classic queue "jobs"
    And "worker" consumes "jobs"
    And "worker" parks "m1"
    And every confirm of a copy of "m1" is held
    When "m1" is published to "jobs"
    And a parked copy of "m1" is published
    Then "worker" does not ack "m1" for 1s
    When what is held is released
    Then "worker" acks "m1"
    And "m1" is parked once
    And "worker" goes on

  @CNF-002 @must @concurrent:2 @source:C31
  Scenario: Nothing is acked while the confirm of the retry copy is missing
    The copy may be home again before its confirm is: then there are two of the message for a while, and only
    the one whose confirm has come may go.

    Given a classic queue "jobs"
    And "worker" consumes "jobs" with a ladder of 100ms, 100ms
    And "worker" fails "m1" once, then handles it
    And the first confirm of a copy of "m1" is held
    When "m1" is published to "jobs"
    And a retry copy of "m1" is published
    And the fault has fired
    Then "worker" is given "m1" twice, as attempts 1, 2
    And 1 unconfirmed copy of "m1" is under way
    When what is held is released
    Then "worker" handled "m1"
    And every original of "m1" was released after its copy was safe
    And "m1" has a fate 1 to 1 times
    And "worker" goes on

  @CNF-003 @must @source:C31
  Scenario: Confirms that come late are waited for
    A broker with a slow disk confirms late; whoever does not wait has acked what may yet be refused.

    Given a classic queue "jobs"
    And "worker" consumes "jobs" with a ladder of 100ms, 100ms and a prefetch of 20
    And "worker" always fails "m*"
    And every confirm of a copy of "m*" is delayed by 300ms
    When the messages "m1" to "m20" are published to "jobs"
    Then 20 messages "m*" are parked once each
    And every original of "m*" was released after its copy was safe
    And "worker" goes on

  @CNF-004 @must @verdicts @concurrent:100 @broker:>=3.10 @source:C31
  Scenario: One confirm for many copies releases all of them
    The broker may answer for all publishes up to one with a single confirm; a consumer that takes it for
    one alone never acks the others.

    Given a classic queue "jobs"
    And "worker" consumes "jobs" with a ladder of 100ms and a prefetch of 100
    And "worker" parks "m*"
    And every publish of the parked copy of "m*" is held
    When the messages "m1" to "m100" are published to "jobs"
    And the fault has fired 100 times
    And what is held is released
    Then 100 messages "m*" are parked once each
    And the broker has confirmed many copies of "m*" at once
    And every original of "m*" was released after its copy was safe
    And "worker" goes on

  @CNF-005 @must @concurrent:2 @source:C31 @bug:B41
  Scenario: A later confirm does not speak for a retry copy whose own is missing
    Confirms are told apart by their number; whoever counts them takes the second for the first and acks what
    nobody has confirmed.

    Given a classic queue "jobs"
    And "worker" consumes "jobs" with a ladder of 100ms, 100ms
    And "worker" fails "m*" once, then handles it
    And the first confirm of a copy of "m1" is dropped
    When "m1" is published to "jobs"
    And the fault has fired
    And "m2" is published to "jobs"
    Then "worker" handled "m2"
    And 1 unconfirmed copy of "m1" is under way
    When the link is cut
    Then "m1" has come to its end
    And "m1" has a fate 1 to 2 times
    And "m2" has a fate 1 to 1 times
    And "worker" goes on

  @CNF-006 @must @verdicts @concurrent:2 @source:C31 @bug:B41
  Scenario: A later confirm does not speak for a parked copy whose own is missing
    The message that parks last is confirmed first, and still says nothing of the others.

    Given a classic queue "jobs"
    And "worker" consumes "jobs"
    And "worker" parks "m*"
    And the first confirm of a copy of "m1" is dropped
    When "m1" is published to "jobs"
    And the fault has fired
    And the messages "m2" to "m10" are published to "jobs"
    And "worker" has failed "m10"
    Then "worker" does not ack "m1" for 500ms
    When the link is cut
    Then each of "m*" has come to its end
    And "m1" has a fate 1 to 2 times
    And "worker" goes on

  @CNF-007 @should @slow @verdicts @source:C49 @bug:B41
  Scenario: A confirm that never comes is not waited for without end
    A message that waits for ever keeps its place in the prefetch; a hundred of them stop the consumer, on a
    connection that looks healthy.

    Given a classic queue "jobs"
    And "worker" consumes "jobs"
    And "worker" parks "m1"
    And the first confirm of a copy of "m1" is dropped
    When "m1" is published to "jobs"
    And the fault has fired
    Then "worker" does not ack "m1" for 1s
    And "worker" settles "m1" within 60s
    And "m1" has come to its end
    And "m1" has a fate 1 to 2 times
    And "worker" goes on

  @CNF-008 @must @verdicts @source:C49 @bug:B12
  Scenario: A parked copy that the broker refuses leaves the original in its queue
    A full parking queue answers with a nack. Whoever takes any answer for a yes loses exactly the messages
    that were to be kept.

    Given a classic queue "jobs"
    And "worker" consumes "jobs"
    And "worker" parks "m*"
    And the parking queue of "worker" takes at most 1 message and refuses more
    When "m1" is published to "jobs"
    And a parked copy of "m1" is confirmed
    And "m2" is published to "jobs"
    And a parked copy of "m2" is refused
    Then "worker" does not ack "m2" for 1s
    And "worker" is given "m2" at most 10 times
    When the limit of the parking queue of "worker" is lifted
    Then "m1" is parked once
    And "m2" is parked once
    And "worker" goes on

  @CNF-009 @must @source:C49
  Scenario: A retry copy that the broker refuses is tried again, as the same attempt
    What was not published is no recorded failure: the message must neither be lost nor lose a rung.

    Given a classic queue "jobs"
    And "worker" consumes "jobs" with a ladder of 100ms, 200ms
    And "worker" always fails "m1"
    And the retry queue of 100ms takes at most 0 messages and refuses more
    When "m1" is published to "jobs"
    And a retry copy of "m1" is refused
    Then "worker" does not ack "m1" for 500ms
    When the limit of the retry queue of 100ms is lifted
    Then "m1" is parked once
    And the parked "m1" carries attempt 3
    And every original of "m1" was released after its copy was safe
    And "worker" goes on

  @CNF-010 @must @verdicts @concurrent:5 @source:C33 @source:C49
  Scenario: Messages that are refused hold up only themselves
    One full parking queue must not stop the messages that need no parking.

    Given a classic queue "jobs"
    And "worker" consumes "jobs" with a ladder of 100ms and a prefetch of 5
    And "worker" parks "bad*"
    And the parking queue of "worker" takes at most 0 messages and refuses more
    When the messages "bad1" to "bad3" are published to "jobs"
    And a parked copy of each of "bad*" is refused
    And the messages "m1" to "m50" are published to "jobs"
    Then "worker" handled 50 messages "m*"
    When the limit of the parking queue of "worker" is lifted
    Then 3 messages "bad*" are parked once each
    And "worker" goes on

  @CNF-011 @must @concurrent:3 @source:C33
  Scenario: A confirm that is missing holds up only its own message
    While one copy waits for its confirm, what is simply handled goes on.

    Given a classic queue "jobs"
    And "worker" consumes "jobs" with a ladder of 100ms and a prefetch of 3
    And "worker" always fails "bad"
    And every confirm of a copy of "bad" is held
    When "bad" is published to "jobs"
    And the fault has fired
    And the messages "m1" to "m20" are published to "jobs"
    Then "worker" handled 20 messages "m*"
    When what is held is released
    Then "bad" is parked once
    And "worker" goes on

  @CNF-012 @must @verdicts @source:C49 @source:C19 @bug:B11 @bug:B12
  Scenario: A parked copy that is returned is not parked, though it is confirmed
    The broker confirms what it could not route, too; only the return before it says that it is gone.

    Given a classic queue "jobs"
    And "worker" consumes "jobs"
    And "worker" parks "m1"
    When the parking queue of "worker" is deleted
    And "m1" is published to "jobs"
    And a parked copy of "m1" is returned
    Then "worker" does not ack "m1" for 1s
    And "worker" is given "m1" at most 10 times
    When the link is cut
    Then "m1" is parked once
    And "worker" goes on

  @CNF-013 @must @verdicts @concurrent:50 @source:C49 @source:C19 @bug:B11
  Scenario: Fifty returns, and then their confirms all together
    Where a library hands on returns and confirms by two ways, the confirm is soon read first.

    Given a classic queue "jobs"
    And "worker" consumes "jobs" with a ladder of 100ms and a prefetch of 50
    And "worker" parks "m*"
    And every confirm of a copy of "m*" is held
    When the parking queue of "worker" is deleted
    And the messages "m1" to "m50" are published to "jobs"
    And a parked copy of each of "m*" is returned
    And 50 unconfirmed copies of "m*" are under way
    And what is held is released
    Then "worker" acks none of "m*" for 1s
    When the link is cut
    Then 50 messages "m*" are parked once each
    And "worker" goes on

  @CNF-014 @must @concurrent:10 @source:C31 @bug:B21
  Scenario: Many fail at once while confirms come late, in pieces, and then not at all
    A library that reads confirms with a lock held that the next publish waits for stands still exactly
    here, for good.

    Given a classic queue "jobs"
    And "worker" consumes "jobs" with a ladder of 100ms, 100ms and a prefetch of 10
    And "worker" fails "m*" once, then handles it
    And the link has the toxic "latency" to the consumer with latency=200
    And the link has the toxic "slicer" to the consumer with average_size=8, size_variation=4, delay=20
    When the messages "m1" to "m10" are published to "jobs"
    And 10 unconfirmed copies of "m*" are under way
    And the link is cut
    And the toxics are removed
    Then each of "m*" has come to its end
    And each of "m*" has a fate 1 to 2 times
    And "worker" goes on

  @CNF-015 @must @concurrent:100 @source:C31 @bug:B41
  Scenario: Confirms of a hundred copies are outstanding when the publishing connection is lost
    The copies have arrived and nobody is told. Each of those that wait must be told that no answer comes,
    and no message may be forgotten.

    Given a classic queue "jobs"
    And "worker" consumes "jobs" with a ladder of 100ms and a prefetch of 100
    And "worker" fails "m*" once, then handles it
    And every confirm of a copy of "m*" is held
    When the messages "m1" to "m100" are published to "jobs"
    And 100 unconfirmed copies of "m*" are under way
    Then "worker" acks none of "m*" for 500ms
    When the publishing connection is cut
    And what is held is released
    Then each of "m*" has come to its end
    And each of "m*" has a fate 1 to 2 times
    And "worker" goes on
