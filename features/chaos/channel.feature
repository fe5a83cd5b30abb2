@chaos
Feature: A channel or a queue that goes away is missed, and only there

  @CHN-001 @must @source:A03 @source:A21 @source:A27 @bug:B43
  Scenario: The broker closes the consuming channel while nothing happens
    The connection stays open and its health is good. The deliveries have stopped, and nothing but the channel's
    end says so.

    Given a classic queue "jobs"
    And "worker" consumes "jobs"
    When the broker is made to close the consuming channel
    And the messages "m1" to "m5" are published to "jobs"
    Then "worker" handled 5 messages "m*"
    And the consumer has as many connections and channels as before the fault
    And "jobs" has 1 consumers
    And "worker" goes on

  @CHN-002 @must @source:A11 @source:A13 @bug:B43 @bug:B08
  Scenario: The broker closes the consuming channel under a handler that then succeeds
    Its delivery tag died with the channel. On the next one the same number is another message, which would be
    acked unread.

    Given a classic queue "jobs"
    And "worker" consumes "jobs" with a ladder of 100ms and a prefetch of 2
    And "worker" holds "m*" in the handler
    When the messages "m1" to "m3" are published to "jobs"
    And "worker" has 2 messages "m*" in the handler
    And the broker is made to close the consuming channel
    Then "worker" consumes again
    And "worker" is given "m1" at least 2 times
    When "worker" lets go of the first call of "m1"
    Then "worker" does not ack "m1" for 500ms
    When "worker" lets go of "m*"
    Then "worker" handled 3 messages "m*"
    And each of "m*" has a fate 1 to 1 times
    And "worker" goes on

  @CHN-003 @must @source:A11 @source:C31 @bug:B43
  Scenario: The broker closes the consuming channel under a handler that then fails
    The original is in its queue again. Whatever the failure path still does, it has nothing left to release.

    Given a classic queue "jobs"
    And "worker" consumes "jobs" with a ladder of 100ms, 100ms
    And "worker" holds "m1" in the handler
    When "m1" is published to "jobs"
    And "worker" has "m1" in the handler
    And the broker is made to close the consuming channel
    Then "worker" consumes again
    When "worker" lets go of "m1" and fails it
    Then "m1" has come to its end
    And "m1" has a fate 1 to 2 times
    And "worker" goes on

  @CHN-004 @must @verdicts @source:A13 @source:C31 @bug:B43
  Scenario: The broker closes the consuming channel while parked copies wait for their confirms
    The confirms come, and their originals can no longer be acked. On the new channel these acks would be errors, and
    close that one too.

    Given a classic queue "jobs"
    And "worker" consumes "jobs" with a ladder of 100ms and a prefetch of 10
    And "worker" parks "m*"
    And every confirm of a copy of "m*" is held
    When the messages "m1" to "m10" are published to "jobs"
    And 10 unconfirmed copies of "m*" are under way
    And the fault has fired
    And the broker is made to close the consuming channel
    And what is held is released
    Then each of "m*" has come to its end
    And each of "m*" has a fate 1 to 2 times
    And "worker" goes on

  @CHN-005 @must @source:A21 @source:A22 @source:A23 @bug:B43
  Scenario: The broker closes the consuming channel five times in a row
    Each time one channel goes and one comes. What is left behind each time is counted here, and so is what gives up
    after the third.

    Given a classic queue "jobs"
    And "worker" consumes "jobs"
    When the broker is made to close the consuming channel
    And the broker is made to close the consuming channel
    And the broker is made to close the consuming channel
    And the broker is made to close the consuming channel
    And the broker is made to close the consuming channel
    And the messages "m1" to "m5" are published to "jobs"
    Then "worker" handled 5 messages "m*"
    And the consumer has as many connections and channels as before the fault
    And "jobs" has 1 consumers
    And "worker" goes on

  @CHN-006 @must @source:A21 @source:A23 @bug:B57
  Scenario: The channel is closed and its connection lost within the same moment, three times
    Two signs of one loss. Whoever acts on each recovers twice, or tears down twice what is there once.

    Given a classic queue "jobs"
    And "worker" consumes "jobs"
    When the broker is made to close the consuming channel
    And the link is cut
    And the broker is made to close the consuming channel
    And the link is cut
    And the broker is made to close the consuming channel
    And the link is cut
    And the messages "m1" to "m5" are published to "jobs"
    Then "worker" handled 5 messages "m*"
    And the consumer has as many connections and channels as before the fault
    And "jobs" has 1 consumers
    And "worker" goes on

  @CHN-007 @should @source:C33
  Scenario: A channel that is closed takes no other consumer with it
    What the broker holds against one consumer is no reason to interrupt the one beside it, in the same process.

    Given a classic queue "jobs"
    And a classic queue "mail"
    And "worker" consumes "jobs"
    And "mailer" consumes "mail"
    And "mailer" holds "n1" in the handler
    When "n1" is published to "mail"
    And "mailer" has "n1" in the handler
    And the broker is made to close the consuming channel of "worker"
    Then "worker" consumes again
    When "mailer" lets go of "n1"
    Then "mailer" is given "n1" once
    And "worker" goes on
    And "mailer" goes on

  @CHN-008 @must @source:A03 @source:C49
  Scenario: The exchange for retries is gone when a message fails
    The broker answers such a publish by closing the channel, not by refusing the message. The message must stay,
    lose no attempt, and go its way once the exchange is there again, whoever makes it.

    Given a classic queue "jobs"
    And "worker" consumes "jobs" with a ladder of 100ms, 100ms
    And "worker" fails "m0" once, then handles it
    And "worker" always fails "m1"
    When "m0" is published to "jobs"
    Then "worker" handled "m0"
    When the retry exchange of 100ms is deleted
    And "m1" is published to "jobs"
    And a retry copy of "m1" is published
    And the retry exchange of 100ms is made again
    Then "m1" is parked once
    And the parked "m1" carries attempt 3
    And "worker" goes on

  @CHN-009 @must @source:A03 @source:C33 @source:C49
  Scenario: The exchange for retries is gone when ten messages fail at once
    The first publish closes the channel, and the others on it are answered by nobody. And those that do not fail have
    nothing to do with it.

    Given a classic queue "jobs"
    And "worker" consumes "jobs" with a ladder of 100ms, 100ms and a prefetch of 20
    And "worker" holds "bad*" in the handler
    When the messages "bad1" to "bad10" are published to "jobs"
    And "worker" has 10 messages "bad*" in the handler
    And the retry exchange of 100ms is deleted
    And "worker" lets go of "bad*" and fails it
    And the messages "m1" to "m20" are published to "jobs"
    Then "worker" handled 20 messages "m*"
    And "worker" is given each of "m*" once
    When the retry exchange of 100ms is made again
    Then 10 messages "bad*" are parked once each
    And "worker" goes on

  @must @source:A12 @source:A26 @bug:B44
  Scenario Outline: A <type> queue is deleted under its consumer and made again
    The broker says so with a cancel that nobody asked for. A consumer that takes no notice is connected,
    healthy and idle for ever.

    Given a <type> queue "jobs"
    And "worker" consumes "jobs"
    When the queue "jobs" is deleted
    And the broker cancels "worker"
    And the queue "jobs" is made again
    Then "worker" consumes again
    When the messages "m1" to "m3" are published to "jobs"
    Then "worker" handled 3 messages "m*"
    And the consumer has as many connections and channels as before the fault
    And there is exactly one consumer of "jobs" within 5s
    And "worker" goes on

    @CHN-010
    Examples: of the type classic
      | type    |
      | classic |

    @CHN-011 @quorum
    Examples: of the type quorum
      | type   |
      | quorum |

  @CHN-012 @must @source:A12 @source:A26 @bug:B44
  Scenario: The queue is deleted three times in a row
    Each time a cancel, and each time one consumer less. After the third there is one, not none and not three.

    Given a classic queue "jobs"
    And "worker" consumes "jobs"
    When the queue "jobs" is deleted
    And the broker cancels "worker"
    And the queue "jobs" is made again
    Then "worker" consumes again
    When the queue "jobs" is deleted
    And the broker cancels "worker"
    And the queue "jobs" is made again
    Then "worker" consumes again
    When the queue "jobs" is deleted
    And the broker cancels "worker"
    And the queue "jobs" is made again
    And the messages "m1" to "m3" are published to "jobs"
    Then "worker" handled 3 messages "m*"
    And the consumer has as many connections and channels as before the fault
    And there is exactly one consumer of "jobs" within 5s
    And "worker" goes on

  @CHN-013 @must @source:A12 @source:C18 @bug:B44
  Scenario: The queue is deleted while a message is in its hop, and is there when it comes home
    What waits for its retry is in another queue and outlives this one. It comes home by name and goes on counting.

    Given a classic queue "jobs"
    And "worker" consumes "jobs" with a ladder of 1s, 100ms
    And "worker" always fails "m1"
    When "m1" is published to "jobs"
    And "worker" acks "m1"
    And the queue "jobs" is deleted
    And the broker cancels "worker"
    And the queue "jobs" is made again
    Then "worker" is given "m1" 3 times, as attempts 1, 2, 3
    And "m1" is parked once
    And "worker" goes on

  @CHN-014 @must @source:C18 @source:A12
  Scenario: The queue is gone when a message comes home to it
    With nobody there to make the queue again, the broker drops the message, and a waiting one went with its queue. That is
    the broker's doing and allowed here. The consumer has to come up as on its first day.

    Given a classic queue "jobs"
    And "worker" consumes "jobs" with a ladder of 300ms and a prefetch of 1
    And "worker" fails "m1" once, then handles it
    And the broker may lose "m1"
    When "m1" is published to "jobs"
    And "worker" acks "m1"
    And the consumer's process is killed
    And the queue "jobs" is deleted
    Then "worker" is not given "m1" for 800ms
    When the queue "jobs" is made again
    And the consumer's process is started again
    And the messages "m2" to "m4" are published to "jobs"
    Then "worker" handled 3 messages "m*"
    And "jobs" has 1 consumers
    And "worker" goes on

  @CHN-015 @must @source:A12 @bug:B44
  Scenario: The queue is deleted under a handler that then succeeds
    The message went with its queue and lives on in the handler alone. Its ack is harmless, where it
    is sent on the channel that it belongs to.

    Given a classic queue "jobs"
    And "worker" consumes "jobs"
    And "worker" holds "m1" in the handler
    When "m1" is published to "jobs"
    And "worker" has "m1" in the handler
    And the queue "jobs" is deleted
    And the broker cancels "worker"
    And the queue "jobs" is made again
    Then "worker" consumes again
    When "worker" lets go of "m1"
    Then "worker" is given "m1" once
    And "worker" goes on

  @CHN-016 @must @source:A12 @source:C31 @bug:B44
  Scenario: The queue is deleted under a handler that then fails
    The copy is all that is left of the message. It goes through its hop, and home to the queue that there is
    by then.

    Given a classic queue "jobs"
    And "worker" consumes "jobs" with a ladder of 100ms, 100ms
    And "worker" holds "m1" in the handler
    And the broker may lose "m1"
    When "m1" is published to "jobs"
    And "worker" has "m1" in the handler
    And the queue "jobs" is deleted
    And the broker cancels "worker"
    And the queue "jobs" is made again
    Then "worker" consumes again
    When "worker" lets go of "m1" and fails it
    Then "worker" is given "m1" at most 3 times
    And "worker" goes on
