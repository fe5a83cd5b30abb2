@chaos
Feature: A message whose copy has nowhere to go stays where it is

  @TGT-001 @must @verdicts @source:C19 @source:C36 @source:C49 @bug:B12
  Scenario: The parking queue is gone when a message is parked
    The broker drops such a copy and confirms it all the same. The original must neither be released for it nor
    run around at full speed until somebody makes the queue again.

    Given a classic queue "jobs"
    And "worker" consumes "jobs"
    And "worker" parks "m1"
    When the parking queue of "worker" is deleted
    And "m1" is published to "jobs"
    And a parked copy of "m1" is published
    Then "worker" does not ack "m1" for 4s
    And "worker" is given "m1" at most 12 times
    When the parking queue of "worker" is made again
    Then "m1" is parked once
    And "worker" goes on

  @TGT-002 @must @source:C19 @source:C33 @source:C36 @bug:B12
  Scenario: The parking queue is gone at the end of a ladder
    The message has no attempt left, and gets no further one for having nowhere to go. Its neighbours go by.

    Given a classic queue "jobs"
    And "worker" consumes "jobs" with a ladder of 100ms, 100ms and a prefetch of 10
    And "worker" always fails "bad1"
    When the parking queue of "worker" is deleted
    And "bad1" is published to "jobs"
    And a parked copy of "bad1" is published
    And the messages "m1" to "m20" are published to "jobs"
    Then "worker" handled 20 messages "m*"
    And "worker" is given each of "m*" once
    When the parking queue of "worker" is made again
    Then "bad1" is parked once
    And the parked "bad1" carries attempt 3
    And "worker" is given "bad1" at most 12 times
    And "worker" goes on

  @TGT-003 @must @verdicts @concurrent:10 @source:C19 @source:C49 @bug:B12
  Scenario: The parking queue is gone when ten messages are parked at once
    Each is returned by itself. The confirm that follows a return is no confirm, for none of the ten.

    Given a classic queue "jobs"
    And "worker" consumes "jobs" with a ladder of 100ms and a prefetch of 10
    And "worker" parks "m*"
    When the parking queue of "worker" is deleted
    And the messages "m1" to "m10" are published to "jobs"
    And a parked copy of each of "m*" is returned
    Then "worker" acks none of "m*" for 2s
    When the parking queue of "worker" is made again
    Then 10 messages "m*" are parked once each
    And "worker" is given "m1" at most 12 times
    And "worker" is given "m10" at most 12 times
    And "worker" goes on

  @TGT-004 @must @verdicts @source:C19 @source:C42 @bug:B12
  Scenario: The parking queue is gone, and a consumer that starts makes it again
    What is declared at the start heals what was deleted before. The message that waited for it is parked, by the second
    process.

    Given a classic queue "jobs"
    And "worker" consumes "jobs"
    And "worker" parks "m1"
    When the parking queue of "worker" is deleted
    And "m1" is published to "jobs"
    And a parked copy of "m1" is published
    And the consumer's process is closed without finishing and started again
    Then "m1" is parked once
    And "worker" goes on

  @TGT-005 @must @source:A03 @source:A23 @source:C49 @bug:B12
  Scenario: The retry exchange goes away three times, and each time a message needs it
    Each such publish costs a channel. A consumer that opens two for one that it lost, or forgets to close what
    it gives up, is found out by the third.

    Given a classic queue "jobs"
    And "worker" consumes "jobs" with a ladder of 100ms, 100ms
    And "worker" parks "m0"
    And "worker" always fails "bad*"
    When "m0" is published to "jobs"
    And "m0" has come to its end
    And the retry exchange of 100ms is deleted
    And "bad1" is published to "jobs"
    And a retry copy of "bad1" is published
    And the retry exchange of 100ms is made again
    And "bad1" has come to its end
    And the retry exchange of 100ms is deleted
    And "bad2" is published to "jobs"
    And a retry copy of "bad2" is published
    And the retry exchange of 100ms is made again
    And "bad2" has come to its end
    And the retry exchange of 100ms is deleted
    And "bad3" is published to "jobs"
    And a retry copy of "bad3" is published
    And the retry exchange of 100ms is made again
    Then 3 messages "bad*" are parked once each
    And "worker" is given "bad3" at most 6 times
    And the consumer has as many connections and channels as before the fault
    And there is exactly one consumer of "jobs" within 5s
    And "worker" goes on

  @TGT-006 @must @source:C19 @source:C49
  Scenario: The retry queue is gone and its exchange is not
    An exchange without a queue takes everything and keeps nothing. Its confirm says that the broker has dealt with the copy,
    which it has.

    Given a classic queue "jobs"
    And "worker" consumes "jobs" with a ladder of 100ms, 100ms
    And "worker" always fails "m1"
    When the retry queue of 100ms is deleted
    And "m1" is published to "jobs"
    And a retry copy of "m1" is published
    Then "worker" does not ack "m1" for 3s
    When the retry queue of 100ms is made again
    Then "m1" is parked once
    And the parked "m1" carries attempt 3
    And "worker" is given "m1" at most 12 times
    And "worker" goes on

  @TGT-007 @must @source:C19 @source:C33 @source:C41
  Scenario: The retry queue that two consumers share is gone for both, and back for both
    One queue a delay serves all source queues: when it is gone, all of them wait, each with its own message.

    Given a classic queue "jobs"
    And a classic queue "mail"
    And "worker" consumes "jobs" with a ladder of 100ms, 100ms
    And "mailer" consumes "mail" with a ladder of 100ms, 100ms
    And "worker" always fails "m1"
    And "mailer" always fails "n1"
    When the retry queue of 100ms is deleted
    And "m1" is published to "jobs"
    And "n1" is published to "mail"
    And a retry copy of "m1" is published
    And a retry copy of "n1" is published
    Then "worker" does not ack "m1" for 1s
    And "mailer" does not ack "n1" for 1s
    When the retry queue of 100ms is made again
    Then "m1" is parked once for "worker"
    And "n1" is parked once for "mailer"
    And the parked "m1" carries attempt 3
    And the parked "n1" carries attempt 3
    And "worker" goes on
    And "mailer" goes on
