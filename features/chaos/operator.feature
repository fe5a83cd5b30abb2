@chaos @slow
Feature: An operator who closes connections loses nobody a message or a consumer

  @OPR-001 @must @source:A21 @bug:B18
  Scenario: The operator closes the connections of an idle consumer
    The broker says goodbye and gives a reason. It reads like an orderly end, and is none that the application
    asked for.

    Given a classic queue "jobs"
    And "worker" consumes "jobs"
    When the operator closes the connections of the consumer
    And the messages "m1" to "m5" are published to "jobs"
    Then "worker" handled 5 messages "m*"
    And the consumer has as many connections and channels as before the fault
    And there is exactly one consumer of "jobs" within 10s
    And "worker" goes on

  @OPR-002 @must @concurrent:2 @source:A13 @source:C23 @bug:B08
  Scenario: The operator closes the connections under a handler that then succeeds
    The message goes back to its queue, and comes again to a consumer that has it in hand already.

    Given a classic queue "jobs"
    And "worker" consumes "jobs" with a ladder of 100ms and a prefetch of 2
    And "worker" holds "m1" in the handler
    When "m1" is published to "jobs"
    And "worker" has "m1" in the handler
    And the operator closes the connections of the consumer
    And "worker" consumes again
    And the messages "m2" to "m5" are published to "jobs"
    And "worker" lets go of "m1"
    Then "worker" is given "m1" at least 2 times
    And "worker" handled 5 messages "m*"
    And each of "m*" has a fate 1 to 1 times
    And "worker" goes on

  @OPR-003 @must @source:C23 @source:C31 @bug:B08
  Scenario: The operator closes the connections under a handler that then fails
    There is nothing to release for this failure, and what comes again is the attempt that it was.

    Given a classic queue "jobs"
    And "worker" consumes "jobs" with a ladder of 100ms, 100ms
    And "worker" holds "m1" in the handler
    When "m1" is published to "jobs"
    And "worker" has "m1" in the handler
    And the operator closes the connections of the consumer
    And "worker" consumes again
    And "worker" lets go of "m1" and fails it
    Then "m1" has come to its end
    And "m1" has a fate 1 to 2 times
    And "worker" goes on

  @OPR-004 @must @source:C31 @source:A21
  Scenario: The operator closes the connections while a message is in its hop
    The hop is between two queues of the broker. No connection takes part in it.

    Given a classic queue "jobs"
    And "worker" consumes "jobs" with a ladder of 2s, 100ms
    And "worker" always fails "m1"
    When "m1" is published to "jobs"
    And "worker" acks "m1"
    And the operator closes the connections of the consumer
    Then "worker" is given "m1" at least 3 times
    And "m1" has come to its end
    And "m1" has a fate 1 to 2 times
    And "worker" goes on

  @OPR-005 @must @verdicts @source:C31 @source:C36
  Scenario: The operator closes the connections while parked copies wait for their confirms
    An orderly close answers no confirm that is outstanding. Ten copies are in doubt, and their originals all come
    again; where the connections are closed one after the other, perhaps twice.

    Given a classic queue "jobs"
    And "worker" consumes "jobs" with a ladder of 100ms and a prefetch of 10
    And "worker" parks "m*"
    And every confirm of a copy of "m*" is held
    When the messages "m1" to "m10" are published to "jobs"
    And 10 unconfirmed copies of "m*" are under way
    And the fault has fired
    And the operator closes the connections of the consumer
    And what is held is released
    Then each of "m*" has come to its end
    And each of "m*" has a fate 1 to 3 times
    And "worker" goes on

  @OPR-006 @must @source:A21 @source:A22 @source:A23 @bug:B19
  Scenario: The operator closes the connections four times in a row
    Each time the consumer comes back once and leaves nothing behind, and it waits no longer than after the first.

    Given a classic queue "jobs"
    And "worker" consumes "jobs"
    When the operator closes the connections of the consumer 4 times, each time once "worker" consumes again
    And the messages "m1" to "m5" are published to "jobs"
    Then "worker" handled 5 messages "m*"
    And the consumer has as many connections and channels as before the fault
    And there is exactly one consumer of "jobs" within 10s
    And "worker" goes on

  @OPR-007 @must @source:A21 @bug:B62
  Scenario: The operator closes the connections, and five consumers come back as five
    A recovery that keeps its consumers by a name that they share brings back one.

    Given a classic queue "jobs1"
    And a classic queue "jobs2"
    And a classic queue "jobs3"
    And a classic queue "jobs4"
    And a classic queue "jobs5"
    And "worker1" consumes "jobs1"
    And "worker2" consumes "jobs2"
    And "worker3" consumes "jobs3"
    And "worker4" consumes "jobs4"
    And "worker5" consumes "jobs5"
    When the operator closes the connections of the consumer
    Then "worker1" goes on
    And "worker2" goes on
    And "worker3" goes on
    And "worker4" goes on
    And "worker5" goes on
    And the consumer has as many connections and channels as before the fault
