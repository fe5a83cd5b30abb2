@chaos
Feature: A cut link costs a redelivery, never a message

  @CUT-001 @must @concurrent:2 @source:C23 @source:A13 @bug:B08
  Scenario: A handler that outlives its connection does no harm to the next one
    Its delivery tag belongs to a channel that is gone. Acked on the new channel, it is another message's tag,
    or none, and the broker closes that channel too.

    Given a classic queue "jobs"
    And "worker" consumes "jobs" with a ladder of 100ms and a prefetch of 2
    And "worker" holds "m1" in the handler
    When "m1" is published to "jobs"
    And "worker" has "m1" in the handler
    And the link is cut
    And "worker" consumes again
    And the messages "m2" to "m5" are published to "jobs"
    And "worker" lets go of "m1"
    Then "worker" is given "m1" twice
    And "worker" handled 5 messages "m*"
    And each of "m*" has a fate 1 to 1 times
    And "worker" goes on

  @CUT-002 @must @concurrent:2 @source:C23 @bug:B08
  Scenario: A handler that outlives its connection and then fails
    Its original is back in the queue, so its failure has nothing left to release.

    Given a classic queue "jobs"
    And "worker" consumes "jobs" with a ladder of 100ms, 100ms
    And "worker" holds "m1" in the handler
    When "m1" is published to "jobs"
    And "worker" has "m1" in the handler
    And the link is cut
    And "worker" consumes again
    And "worker" is given "m1" at least 2 times
    And "worker" lets go of "m1" and fails it
    Then "m1" has come to its end
    And "m1" has a fate 1 to 2 times
    And "worker" goes on

  @CUT-003 @must @source:C31
  Scenario: Cut between the publish of the retry copy and its confirm
    The broker has the copy, and nobody told the consumer: the original must stay.

    Given a classic queue "jobs"
    And "worker" consumes "jobs" with a ladder of 100ms, 100ms
    And "worker" fails "m1" once, then handles it
    And the connection is cut after the publish of the retry copy of "m1"
    When "m1" is published to "jobs"
    Then "m1" has come to its end
    And "m1" has a fate 1 to 2 times
    And "worker" goes on

  @CUT-004 @must @verdicts @source:C31
  Scenario: Cut between the publish of the parked copy and its confirm
    The same at the end of the road: parked perhaps twice, never not at all.

    Given a classic queue "jobs"
    And "worker" consumes "jobs"
    And "worker" parks "m1"
    And the connection is cut after the publish of the parked copy of "m1"
    When "m1" is published to "jobs"
    Then "m1" has come to its end
    And "m1" has a fate 1 to 2 times
    And "worker" goes on

  @CUT-005 @must @source:C49
  Scenario: Cut before the retry copy has left
    The broker never had the copy, so nothing was recorded: the message comes again as the attempt that it was.

    Given a classic queue "jobs"
    And "worker" consumes "jobs" with a ladder of 100ms, 100ms
    And "worker" always fails "m1"
    And the connection is cut before the publish of the retry copy of "m1"
    When "m1" is published to "jobs"
    Then "m1" is parked once
    And the parked "m1" carries attempt 3
    And "worker" is given "m1" at most 4 times
    And "worker" goes on

  @CUT-006 @must @source:C31 @bug:B40
  Scenario: Cut between confirm and ack, five times in a row
    Each such cut leaves the copy and the original, and so one more of the message. It must not be two more,
    and none of them may climb further than its ladder.

    Given a classic queue "jobs"
    And "worker" consumes "jobs" with a ladder of 100ms, 100ms and a prefetch of 1
    And "worker" always fails "m1"
    And the connection is cut before the first ack of "m1"
    And the connection is cut before the second ack of "m1"
    And the connection is cut before the third ack of "m1"
    And the connection is cut before the 4th ack of "m1"
    And the connection is cut before the 5th ack of "m1"
    When "m1" is published to "jobs"
    And the fault has fired 5 times
    Then "m1" has come to its end
    And "m1" has a fate 1 to 6 times
    And "worker" is given "m1" at most 18 times
    And "worker" goes on

  @CUT-007 @must @verdicts @concurrent:50 @source:C31 @bug:B41
  Scenario: Cut with the confirms of many parked copies outstanding
    A prefetch's worth of messages is on its way at once, and the whole of it is in doubt.

    Given a classic queue "jobs"
    And "worker" consumes "jobs" with a ladder of 100ms and a prefetch of 50
    And "worker" parks "m*"
    And every confirm of a copy of "m*" is held
    When the messages "m1" to "m50" are published to "jobs"
    And 50 unconfirmed copies of "m*" are under way
    And the fault has fired
    And the link is cut
    And what is held is released
    Then each of "m*" has come to its end
    And each of "m*" has a fate 1 to 2 times
    And "worker" goes on

  @CUT-008 @must @source:C23
  Scenario: Cut in the middle of a delivery
    Half a message must not reach the handler, and must not be taken for one that was delivered.

    Given a classic queue "jobs"
    And "worker" consumes "jobs"
    And the connection is cut inside the delivery of "m1"
    When "m1" is published to "jobs" with a body of 300000 bytes
    Then "worker" handled "m1"
    And "worker" is given "m1" once
    And "m1" has a fate 1 to 1 times
    And "worker" goes on

  @CUT-009 @must @source:C31
  Scenario: Cut in the middle of the copy's content
    The broker throws half a message away; the original must still be there.

    Given a classic queue "jobs"
    And "worker" consumes "jobs" with a ladder of 100ms, 100ms
    And "worker" always fails "m1"
    And the connection is cut inside the publish of the retry copy of "m1"
    And the connection is cut inside the publish of the parked copy of "m1"
    When "m1" is published to "jobs" with a body of 300000 bytes
    Then "m1" has come to its end
    And "m1" has a fate 1 to 2 times
    And the parked "m1" carries attempt 3
    And "worker" goes on

  @CUT-010 @must @source:C23 @bug:B38
  Scenario: Cut before the first delivery
    The broker counts the message as delivered and sends it again, marked as redelivered. That mark is no
    failure, and the first try is still to come.

    Given a classic queue "jobs"
    And "worker" consumes "jobs" with a ladder of 100ms, 100ms
    And "worker" always fails "m1"
    And the connection is cut before the first delivery of "m1"
    When "m1" is published to "jobs"
    Then "worker" is given "m1" 3 times, as attempts 1, 2, 3
    And "m1" is parked once
    And "worker" goes on

  @CUT-011 @must @source:A21
  Scenario: Cut in start-up, before the source queue is declared
    A consumer that is started while the network comes up must come up too, or say that it has not.

    Given a classic queue "jobs"
    And the consumer's process is started again whenever it dies
    And the connection is cut before the first queue.declare on "jobs"
    When "worker" starts to consume "jobs"
    And the fault has fired
    Then "worker" goes on

  @CUT-012 @must @source:A21 @bug:B19
  Scenario: Cut in start-up, when the broker has taken the subscription and not said so
    The consumer subscribes again, and the broker has let go of the first: there is one, and not two.

    Given a classic queue "jobs"
    And the consumer's process is started again whenever it dies
    And the connection is cut after the first basic.consume on "jobs"
    When "worker" starts to consume "jobs"
    And the fault has fired
    And the messages "m1" to "m10" are published to "jobs"
    Then "worker" handled 10 messages "m*"
    And "worker" goes on

  @CUT-013 @must @source:C31
  Scenario: Cut at the publish, and its sender cannot know it
    The copy arrives, and the connection is reset at the consumer: for it the publish has failed, and for the
    broker it has not.

    Given a classic queue "jobs"
    And "worker" consumes "jobs" with a ladder of 100ms, 100ms
    And "worker" always fails "m1"
    And the connection is cut at the publish of the parked copy of "m1", unseen by its sender
    When "m1" is published to "jobs"
    Then "m1" has come to its end
    And "m1" has a fate 1 to 2 times
    And "worker" goes on

  @CUT-014 @must @source:C31
  Scenario: Cut at the ack, and its sender cannot know it
    The broker has let the original go while the consumer believes that it comes again: it must not wait for it.

    Given a classic queue "jobs"
    And "worker" consumes "jobs" with a ladder of 100ms, 100ms
    And "worker" fails "m1" once, then handles it
    And the connection is cut at the first ack of "m1", unseen by its sender
    When "m1" is published to "jobs"
    Then "m1" has come to its end
    And "m1" has a fate 1 to 2 times
    And "worker" goes on

  @CUT-015 @must @verdicts @source:A21 @bug:B03
  Scenario: The publishing connection is lost while nothing fails
    Nothing shows it until the next message fails, which is when it is needed.

    Given a classic queue "jobs"
    And "worker" consumes "jobs"
    And "worker" parks "m*"
    When "m1" is published to "jobs"
    And "worker" acks "m1"
    And the publishing connection is cut
    And "m2" is published to "jobs"
    Then "m1" is parked once
    And "m2" is parked once
    And "worker" goes on

  @CUT-016 @must @verdicts @source:C31 @bug:B03
  Scenario: The publishing connection is lost while the parked copy is on its way
    The way of the acks is whole, and an ack would be taken. It must not be sent: the copy has arrived or has
    not, and nobody can say.

    Given a classic queue "jobs"
    And "worker" consumes "jobs"
    And "worker" parks "m*"
    And the connection is cut before the publish of the parked copy of "m1" on the publishing connection
    And the connection is cut after the publish of the parked copy of "m2" on the publishing connection
    When "m1" is published to "jobs"
    Then "m1" is parked once
    And "worker" acks "m1"
    When "m2" is published to "jobs"
    Then "m2" has come to its end
    And "m2" has a fate 1 to 2 times
    And "worker" goes on

  @CUT-017 @must @verdicts @source:C31
  Scenario: The consuming connection is lost while the parked copy waits for its confirm
    The copy will be confirmed and its original can no longer be acked: there is one more, which is allowed,
    and the confirm must release nothing on the new connection.

    Given a classic queue "jobs"
    And "worker" consumes "jobs"
    And "worker" parks "m1"
    And every confirm of a copy of "m1" is held
    When "m1" is published to "jobs"
    And a parked copy of "m1" is published
    And the fault has fired
    And the consuming connection is cut
    And what is held is released
    Then "m1" has come to its end
    And "m1" has a fate 1 to 2 times
    And "worker" goes on

  @CUT-018 @must @source:A21 @source:C23
  Scenario: All connections are lost in the middle of twenty failures
    Some wait in their handler, some for their confirm and some in a retry queue.

    Given a classic queue "jobs"
    And "worker" consumes "jobs" with a ladder of 300ms, 300ms and a prefetch of 5
    And "worker" always fails "m*"
    When the messages "m1" to "m20" are published to "jobs"
    And a retry copy of "m1" is confirmed
    And the link is cut
    Then each of "m*" has come to its end
    And each of "m*" has a fate 1 to 2 times
    And "worker" goes on

  @CUT-019 @must @source:C32
  Scenario: A subscriber that is cut off while it retries draws in no other
    What the one has to do again is the one's: its neighbour got the event once, and that was all.

    Given a fanout exchange "orders"
    And "billing" consumes "orders" with a ladder of 100ms, 100ms
    And "audit" consumes "orders" in process "auditor"
    And "billing" always fails "m1"
    And the connection is cut after the publish of the retry copy of "m1"
    When "m1" is published to "orders"
    Then "m1" has come to its end
    And "audit" is given "m1" once
    And nothing was published to "orders" but "m1" itself
    And "billing" goes on

  @CUT-020 @must @source:A21 @source:A23 @bug:B19
  Scenario: A link that flaps ten times leaves one consumer and nothing open
    A consumer that subscribes once too often, or leaves a channel behind, at each loss is found out by the
    tenth.

    Given a classic queue "jobs"
    And "worker" consumes "jobs" with a ladder of 100ms
    And "worker" always fails "bad*"
    When "bad1" is published to "jobs"
    And "bad1" has come to its end
    And the link is cut 10 times, each time once "worker" consumes again
    And "bad2" is published to "jobs"
    And "bad2" has come to its end
    Then the consumer has as many connections and channels as before the fault
    And "jobs" has 1 consumer
    And "worker" goes on

  @CUT-021 @must @source:A21 @source:A23 @bug:B19 @bug:B57
  Scenario: A link that flaps ten times while messages fail loses none of them
    Each loss finds messages in all places at once.

    Given a classic queue "jobs"
    And "worker" consumes "jobs" with a ladder of 200ms, 400ms and a prefetch of 10
    And "worker" always fails "bad*"
    When 30 messages "bad*" and 100 messages "m*" are published in turn to "jobs"
    And the link is cut 10 times, each time once "worker" consumes again
    Then each of "bad*" has come to its end
    And each of "m*" has come to its end
    And each of "bad*" has a fate 1 to 11 times
    And the consumer has as many connections and channels as before the fault
    And "worker" goes on

  @CUT-022 @must @source:A21 @source:A22 @bug:B57
  Scenario: A recovery that is cut itself, three times in a row
    The second loss comes while the first is being dealt with. Two recoveries at once end in a panic or in two
    consumers, one that gives up ends in none.

    Given a classic queue "jobs"
    And "worker" consumes "jobs"
    And the connection is cut before the first connection.open
    And the connection is cut before the first queue.declare on "jobs"
    And the connection is cut after the first basic.consume on "jobs"
    When the link is cut
    And the messages "m1" to "m10" are published to "jobs"
    Then "worker" handled 10 messages "m*"
    And the consumer has as many connections and channels as before the fault
    And "jobs" has 1 consumer
    And "worker" goes on

  @CUT-023 @must @source:A21 @source:A27 @bug:B18
  Scenario: Four consumers come back each, after connects that were refused and one that was cut short
    The connection is back and some of the subscriptions are not: a queue grows, and the health check is green.

    Given a classic queue "jobs"
    And a classic queue "mail"
    And a classic queue "bills"
    And a classic queue "files"
    And "worker" consumes "jobs"
    And "mailer" consumes "mail"
    And "billing" consumes "bills"
    And "filer" consumes "files"
    And the connection is cut before the first connection.open
    When new connections are refused
    And the link is cut
    And the messages "m1" to "m10" are published to "jobs"
    Then "worker" is not given "m1" for 1s
    When new connections are accepted again
    And the messages "n1" to "n10" are published to "mail"
    And the messages "o1" to "o10" are published to "bills"
    And the messages "p1" to "p10" are published to "files"
    Then "worker" handled 10 messages "m*"
    And "mailer" handled 10 messages "n*"
    And "billing" handled 10 messages "o*"
    And "filer" handled 10 messages "p*"
    And "worker" goes on
    And "mailer" goes on
    And "billing" goes on
    And "filer" goes on

  @CUT-024 @must @source:A21 @bug:B62
  Scenario: Five consumers of one process come back five times
    A recovery that knows its consumers by a tag they share brings back the last of them alone.

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
    And "worker1" always fails "bad*"
    When "bad1" is published to "jobs1"
    And "bad1" has come to its end
    And the consuming connection is cut
    Then "worker1" goes on
    And "worker2" goes on
    And "worker3" goes on
    And "worker4" goes on
    And "worker5" goes on
    When the consuming connection is cut
    Then "worker1" goes on
    And "worker2" goes on
    And "worker3" goes on
    And "worker4" goes on
    And "worker5" goes on
    And the consumer has as many connections and channels as before the fault

  @CUT-025 @must @source:A21 @bug:B62
  Scenario: Five consumers of one queue come back as five
    Fewer share the work of all, and nothing says so.

    Given a classic queue "jobs"
    And "worker1" consumes "jobs"
    And "worker2" consumes "jobs"
    And "worker3" consumes "jobs"
    And "worker4" consumes "jobs"
    And "worker5" consumes "jobs"
    When the link is cut
    And "worker1" consumes again
    And the messages "m1" to "m20" are published to "jobs"
    Then "worker1" handled 20 messages "m*"
    And "worker1" is not given "m1" again for 500ms
    And "jobs" has 5 consumers
    And the consumer has as many connections and channels as before the fault
