@chaos
Feature: A process that dies, ends or stands still takes no message with it

  @PRC-001 @must @source:C23
  Scenario: Killed while it handles a message
    The message was nobody's failure: it comes again as the attempt that it was.

    Given a classic queue "jobs"
    And the consumer's process is started again whenever it dies
    And "worker" consumes "jobs"
    And "worker" holds "m1" in the handler
    When "m1" is published to "jobs"
    And "worker" has "m1" in the handler
    And the consumer's process is killed
    And "worker" lets go of "m1"
    Then "worker" is given "m1" twice, as attempts 1, 1
    And "m1" has a fate 1 to 1 times
    And "worker" goes on

  @PRC-002 @must @source:C23 @source:F02
  Scenario: Killed three times in a row by what may be the same message
    A crash is not a failure that the handler reported. Whoever counts it as one parks messages because the
    machine was out of memory.

    Given a classic queue "jobs"
    And the consumer's process is started again whenever it dies
    And "worker" consumes "jobs" with a ladder of 100ms, 100ms
    And "worker" holds "m1" in the handler
    When "m1" is published to "jobs"
    And "worker" has "m1" in the handler
    And the consumer's process is killed
    And "worker" has "m1" in the handler
    And the consumer's process is killed
    And "worker" has "m1" in the handler
    And the consumer's process is killed
    And "worker" lets go of "m1" and fails it
    Then "worker" is given "m1" 6 times, as attempts 1, 1, 1, 1, 2, 3
    And "m1" is parked once
    And "worker" goes on

  @PRC-003 @must @source:C31
  Scenario: Dead while a message is in its hop
    Nobody lives who knows of the retry. It is the broker that holds the message and brings it home.

    Given a classic queue "jobs"
    And "worker" consumes "jobs" with a ladder of 500ms, 100ms
    And "worker" fails "m1" once, then handles it
    When "m1" is published to "jobs"
    And "worker" acks "m1"
    And the consumer's process is killed
    Then "worker" is not given "m1" for 800ms
    When the consumer's process is started again
    Then "worker" is given "m1" twice, as attempts 1, 2
    And "m1" has a fate 1 to 1 times
    And "worker" goes on

  @PRC-004 @must @source:C31
  Scenario: Killed when the retry copy has left, before its confirm
    The copy and the original are both in the broker. One more is allowed, none is not.

    Given a classic queue "jobs"
    And the consumer's process is started again whenever it dies
    And "worker" consumes "jobs" with a ladder of 100ms, 100ms
    And "worker" fails "m1" once, then handles it
    And the consumer's process is killed at the publish of the retry copy of "m1"
    When "m1" is published to "jobs"
    Then "m1" has come to its end
    And "m1" has a fate 1 to 2 times
    And "worker" goes on

  @PRC-005 @must @source:C31
  Scenario: Killed at the confirm of the retry copy, before the ack
    The consumer was about to release the original and never did.

    Given a classic queue "jobs"
    And the consumer's process is started again whenever it dies
    And "worker" consumes "jobs" with a ladder of 100ms, 100ms
    And "worker" fails "m1" once, then handles it
    And the consumer's process is killed at the confirm of the retry copy of "m1"
    When "m1" is published to "jobs"
    Then "m1" has come to its end
    And "m1" has a fate 1 to 2 times
    And "worker" goes on

  @PRC-006 @must @source:C31
  Scenario: Killed when the ack of the retried original has left
    Everything was done: the copy is safe and the original released. Nothing of it may be done again.

    Given a classic queue "jobs"
    And the consumer's process is started again whenever it dies
    And "worker" consumes "jobs" with a ladder of 1s, 100ms
    And "worker" fails "m1" once, then handles it
    And the consumer's process is killed at the first ack of "m1"
    When "m1" is published to "jobs"
    Then "worker" is given "m1" twice, as attempts 1, 2
    And "m1" has a fate 1 to 1 times
    And "worker" goes on

  @PRC-007 @must @verdicts @source:C31 @source:C36
  Scenario: Killed when the parked copy has left, before its confirm
    The same at the end of the road, where nothing comes after that could notice a loss.

    Given a classic queue "jobs"
    And the consumer's process is started again whenever it dies
    And "worker" consumes "jobs"
    And "worker" parks "m1"
    And the consumer's process is killed at the publish of the parked copy of "m1"
    When "m1" is published to "jobs"
    Then "m1" has come to its end
    And "m1" has a fate 1 to 2 times
    And "worker" goes on

  @PRC-008 @must @verdicts @source:C31 @source:C36
  Scenario: Killed at the confirm of the parked copy, before the ack
    The message is parked and still in its queue. It is parked once more, and not forgotten.

    Given a classic queue "jobs"
    And the consumer's process is started again whenever it dies
    And "worker" consumes "jobs"
    And "worker" parks "m1"
    And the consumer's process is killed at the confirm of the parked copy of "m1"
    When "m1" is published to "jobs"
    Then "m1" has come to its end
    And "m1" has a fate 1 to 2 times
    And "worker" goes on

  @PRC-009 @must @verdicts @source:C31 @source:C36
  Scenario: Killed three times in a row while it parks
    Each time the copy may have arrived: one more a death, at most.

    Given a classic queue "jobs"
    And the consumer's process is started again whenever it dies
    And "worker" consumes "jobs"
    And "worker" parks "m1"
    And the consumer's process is killed at the first publish of the parked copy of "m1"
    And the consumer's process is killed at the second publish of the parked copy of "m1"
    And the consumer's process is killed at the third publish of the parked copy of "m1"
    When "m1" is published to "jobs"
    Then "m1" has come to its end
    And the fault has fired 3 times
    And "m1" has a fate 1 to 4 times
    And "worker" goes on

  @PRC-010 @must @source:C31
  Scenario: Killed in the middle of a copy's content
    Half a message is none: the broker drops it with the connection, and its original is all that is left.

    Given a classic queue "jobs"
    And the consumer's process is started again whenever it dies
    And "worker" consumes "jobs" with a ladder of 1s
    And "worker" always fails "m1"
    And the consumer's process is killed inside the publish of the retry copy of "m1"
    And the consumer's process is killed inside the publish of the parked copy of "m1"
    When "m1" is published to "jobs" with a body of 300000 bytes
    Then "m1" is parked once
    And the parked "m1" carries attempt 2
    And "worker" goes on

  @PRC-011 @must @source:A21
  Scenario: Killed in start-up, before it is subscribed
    What it had declared by then is there already when it comes again, and must not be in its way.

    Given a classic queue "jobs"
    And the consumer's process is started again whenever it dies
    And the consumer's process is killed at the first basic.consume on "jobs"
    When "worker" starts to consume "jobs"
    And the fault has fired
    And the messages "m1" to "m5" are published to "jobs"
    Then "worker" handled 5 messages "m*"
    And "jobs" has 1 consumers
    And "worker" goes on

  @PRC-012 @must @source:C31 @bug:B41
  Scenario: Killed with messages everywhere
    Some in handlers, some on their way to be retried, some in their hop, some never begun.

    Given a classic queue "jobs"
    And the consumer's process is started again whenever it dies
    And "worker" consumes "jobs" with a ladder of 200ms, 400ms and a prefetch of 10
    And "worker" always fails "bad*"
    And the consumer's process is killed at the 10th publish of a copy of "bad*"
    When 20 messages "bad*" and 60 messages "m*" are published in turn to "jobs"
    Then each of "bad*" has come to its end
    And each of "m*" has come to its end
    And each of "bad*" has a fate 1 to 2 times
    And each of "m*" has a fate 1 to 2 times
    And "worker" goes on

  @PRC-013 @must @source:A24 @bug:B40
  Scenario: SIGTERM with messages in the handler loses and repeats none
    A deployment ends the process at any moment. What is in hand is finished or given back, and each message
    comes to one end.

    Given a classic queue "jobs"
    And "worker" consumes "jobs" with a ladder of 100ms and a prefetch of 5
    And "worker" holds "m*" in the handler
    When the messages "m1" to "m10" are published to "jobs"
    And "worker" has 5 messages "m*" in the handler
    And the consumer's process gets SIGTERM and "worker" lets go of "m*"
    And the consumer's process is started again
    Then "worker" handled 10 messages "m*"
    And each of "m*" has a fate 1 to 1 times
    And "worker" goes on

  @PRC-014 @should @source:A24
  Scenario: SIGTERM waits for the handlers that run
    Work that is nearly done is not thrown away and done again by another: its outcome counts.

    Given a classic queue "jobs"
    And "worker" consumes "jobs" with a ladder of 100ms and a prefetch of 5
    And "worker" holds "m*" in the handler
    When the messages "m1" to "m5" are published to "jobs"
    And "worker" has 5 messages "m*" in the handler
    And the consumer's process gets SIGTERM and "worker" lets go of "m*"
    And the consumer's process is started again
    Then "worker" is given each of "m*" once
    And each of "m*" has a fate 1 to 1 times
    And "worker" goes on

  @PRC-015 @must @source:A24 @source:C31 @bug:B40
  Scenario: SIGTERM while messages are about to fail
    Their failure path needs the broker, twice: for the copy and for the ack. A process that closes its connection
    as soon as the handler is done leaves both behind.

    Given a classic queue "jobs"
    And "worker" consumes "jobs" with a ladder of 100ms, 100ms and a prefetch of 5
    And "worker" holds "m*" in the handler
    When the messages "m1" to "m5" are published to "jobs"
    And "worker" has 5 messages "m*" in the handler
    And the consumer's process gets SIGTERM and "worker" lets go of "m*" and fails them
    And the consumer's process is started again
    Then 5 messages "m*" are parked once each
    And "worker" goes on

  @PRC-016 @must @verdicts @source:C31 @bug:B40
  Scenario: SIGTERM between the confirm of the parked copy and the ack
    The copy is safe, and a process that ends in order has the time for one ack. Without it, every deployment
    would leave a few copies more.

    Given a classic queue "jobs"
    And "worker" consumes "jobs"
    And "worker" parks "m1"
    And the consumer's process gets SIGTERM at the confirm of the parked copy of "m1"
    When "m1" is published to "jobs"
    And the consumer's process has ended
    And the consumer's process is started again
    Then "m1" is parked once
    And "worker" is given "m1" once
    And "worker" goes on

  @PRC-017 @must @source:C31 @bug:B40
  Scenario: SIGTERM between the publish of the retry copy and its confirm
    The copy is under way. To end in order is to wait for the answer, and to ack then.

    Given a classic queue "jobs"
    And "worker" consumes "jobs" with a ladder of 100ms, 100ms
    And "worker" fails "m1" once, then handles it
    And the consumer's process gets SIGTERM at the publish of the retry copy of "m1"
    When "m1" is published to "jobs"
    And the consumer's process has ended
    And the consumer's process is started again
    Then "worker" is given "m1" twice, as attempts 1, 2
    And "m1" has a fate 1 to 1 times
    And "worker" goes on

  @PRC-018 @must @source:A24
  Scenario: SIGTERM while nothing happens
    A process that is asked to end and does not is killed, sooner or later, and then with something in its hands.

    Given a classic queue "jobs"
    And "worker" consumes "jobs"
    When the consumer's process gets SIGTERM
    And "m1" is published to "jobs"
    And the consumer's process is started again
    Then "worker" handled "m1"
    And "worker" goes on

  @PRC-019 @must @slow @source:C23 @source:A13 @bug:B08
  Scenario: Paused for longer than the heartbeat allows
    A machine that swaps, or a container that is frozen. The broker has given everything back by the time the
    process wakes up and goes on as if nothing had been.

    Given a classic queue "jobs"
    And "worker" consumes "jobs" with a ladder of 100ms and a prefetch of 2
    And "worker" holds "m*" in the handler
    When the messages "m1" to "m3" are published to "jobs"
    And "worker" has 2 messages "m*" in the handler
    And the consumer's process is paused
    Then the broker gives up the link within 12s
    When the consumer's process goes on
    Then "worker" consumes again
    And "worker" is given "m1" at least 2 times
    When "worker" lets go of the first call of "m1"
    Then "worker" does not ack "m1" for 500ms
    When "worker" lets go of "m*"
    Then "worker" handled 3 messages "m*"
    And each of "m*" has a fate 1 to 1 times
    And "jobs" has 1 consumers
    And "worker" goes on

  @PRC-020 @must @slow @verdicts @source:C31 @bug:B08
  Scenario: Paused at the confirm of the parked copy, for longer than the heartbeat allows
    It wakes up with a confirm in its hands and an ack to send, on a connection that ended long ago.

    Given a classic queue "jobs"
    And "worker" consumes "jobs"
    And "worker" parks "m1"
    And the consumer's process is paused at the confirm of the parked copy of "m1"
    When "m1" is published to "jobs"
    And the fault has fired
    Then the broker gives up the link within 12s
    When the consumer's process goes on
    Then "m1" has come to its end
    And "m1" has a fate 1 to 2 times
    And "worker" goes on

  @PRC-021 @must @source:C23
  Scenario: Paused for a moment
    A second of standing still is no loss of anything: no message comes twice, and no connection is given up.

    Given a classic queue "jobs"
    And "worker" consumes "jobs" with a ladder of 100ms, 100ms and a prefetch of 2
    And "worker" always fails "bad*"
    When the messages "m1" to "m5" are published to "jobs"
    And the consumer's process is paused
    And the messages "bad1" to "bad3" are published to "jobs"
    Then "worker" does not ack "bad1" for 1s
    When the consumer's process goes on
    Then 3 messages "bad*" are parked once each
    And "worker" is given each of "bad*" 3 times, as attempts 1, 2, 3
    And "worker" handled 5 messages "m*"
    And "worker" is given each of "m*" once
    And the consumer has as many connections and channels as before the fault
    And "worker" goes on
