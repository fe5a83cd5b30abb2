@chaos
Feature: A link that is dead, slow or broken up costs time, never a message

  @LNK-001 @must @slow @source:A21 @bug:B45
  Scenario: A link that goes dead while nothing happens
    No packet says that the other side is gone. A consumer that waits to be told waits for ever, connected to
    nothing, while its queue grows.

    Given a classic queue "jobs"
    And "worker" consumes "jobs"
    When the link is blackholed
    Then the consumer gives up the link within 7s
    When the toxics are removed
    And the messages "m1" to "m5" are published to "jobs"
    Then "worker" handled 5 messages "m*"
    And "jobs" has 1 consumers
    And "worker" goes on

  @LNK-002 @must @slow @source:A21 @source:C23 @bug:B45 @bug:B08
  Scenario: A link that goes dead while a handler is busy
    What the handler does then is done for a connection that is gone: the message comes again, and nothing of the
    old delivery may be said on the new connection.

    Given a classic queue "jobs"
    And "worker" consumes "jobs"
    And "worker" holds "m1" in the handler
    When "m1" is published to "jobs"
    And "worker" has "m1" in the handler
    And the link is blackholed
    Then the consumer gives up the link within 7s
    When the toxics are removed
    Then "worker" consumes again
    And "worker" is given "m1" at least 2 times
    When "worker" lets go of the first call of "m1"
    Then "worker" does not ack "m1" for 500ms
    When "worker" lets go of "m1"
    Then "worker" is given "m1" twice
    And "m1" has a fate 1 to 1 times
    And "worker" goes on

  @LNK-003 @must @slow @source:A21 @bug:B45
  Scenario: A link that is dead towards the consumer alone, with a handler busy
    Everything that the consumer sends arrives, so the broker sees a consumer in good health and keeps what it
    has sent to it. Only the consumer can find out, and an ack that it still sends counts.

    Given a classic queue "jobs"
    And "worker" consumes "jobs"
    And "worker" holds "m1" in the handler
    When "m1" is published to "jobs"
    And "worker" has "m1" in the handler
    And the link is blackholed to the consumer
    And "worker" lets go of "m1"
    Then "worker" acks "m1"
    When the messages "m2" to "m5" are published to "jobs"
    Then the consumer gives up the link within 7s
    When the toxics are removed
    Then "worker" handled 5 messages "m*"
    And "m1" has a fate 1 to 1 times
    And "worker" goes on

  @LNK-004 @must @slow @source:C23 @bug:B45
  Scenario: A link that is dead towards the broker alone, with a handler busy
    The consumer hears the broker and is heard by nobody. Its ack is lost on the way, and the broker, which has
    heard nothing for too long, gives the message out again.

    Given a classic queue "jobs"
    And "worker" consumes "jobs"
    And "worker" holds "m1" in the handler
    When "m1" is published to "jobs"
    And "worker" has "m1" in the handler
    And the consuming connection is blackholed to the broker
    And "worker" lets go of "m1"
    Then the broker gives up the consuming connection within 12s
    And "worker" is given "m1" twice
    And "worker" goes on

  @LNK-005 @must @slow @source:C31 @source:C49 @bug:B03
  Scenario: The publishing connection is dead while a message is retried
    The copy went nowhere, and an ack on the connection that lives would be taken. Then the message would be gone.

    Given a classic queue "jobs"
    And "worker" consumes "jobs" with a ladder of 100ms, 100ms
    And "worker" fails "m0" once, then handles it
    And "worker" holds "m1" in the handler
    When "m0" is published to "jobs"
    Then "worker" handled "m0"
    When "m1" is published to "jobs"
    And "worker" has "m1" in the handler
    And the publishing connection is blackholed
    And "worker" lets go of "m1" and fails it
    Then "worker" does not ack "m1" for 3s
    When the toxics are removed
    Then "m1" has come to its end
    And "m1" has a fate 1 to 2 times
    And "worker" goes on

  @LNK-006 @must @slow @source:C31 @bug:B03 @bug:B41
  Scenario: The publishing connection brings no confirms while a message is retried
    The copy has arrived, and only its confirm is missing. The copy goes on its way, and the original waits for its
    answer or for the end of the connection, and is not acked.

    Given a classic queue "jobs"
    And "worker" consumes "jobs" with a ladder of 500ms, 100ms
    And "worker" fails "m0" once, then handles it
    And "worker" holds "m1" in the handler
    When "m0" is published to "jobs"
    Then "worker" handled "m0"
    When "m1" is published to "jobs"
    And "worker" has "m1" in the handler
    And the publishing connection is blackholed to the consumer
    And "worker" lets go of "m1" and fails it
    And "worker" holds "m1" in the handler
    And a retry copy of "m1" is published
    Then "worker" does not ack "m1" for 3s
    When the toxics are removed
    And "worker" lets go of "m1"
    Then "m1" has come to its end
    And "m1" has a fate 1 to 2 times
    And "worker" goes on

  @LNK-007 @must @slow @source:C49 @bug:B03
  Scenario: The publishing connection takes nothing away while a message is retried
    Its heartbeats stay away too, so in the end the broker closes it. The copy was never there: its
    original is all that there is of the message.

    Given a classic queue "jobs"
    And "worker" consumes "jobs" with a ladder of 100ms, 100ms
    And "worker" holds "m1" in the handler
    When "m1" is published to "jobs"
    And "worker" has "m1" in the handler
    And the publishing connection is blackholed to the broker
    And "worker" lets go of "m1" and fails it
    Then the broker gives up the publishing connection within 12s
    And "m1" is parked once
    And the parked "m1" carries attempt 3
    And "worker" goes on

  @LNK-008 @must @slow @source:C31
  Scenario: A link that is slow both ways while twenty messages fail
    Slow is not broken: nobody may lose patience, hand a message back or publish it twice.

    Given a classic queue "jobs"
    And "worker" consumes "jobs" with a ladder of 100ms, 100ms
    And "worker" always fails "m*"
    And the link has the toxic "latency" with latency=300
    And the link has the toxic "bandwidth" with rate=100
    When the messages "m1" to "m20" are published to "jobs"
    Then 20 messages "m*" are parked once each
    And "worker" is given each of "m*" 3 times, as attempts 1, 2, 3
    And "worker" goes on

  @LNK-009 @should @source:C23 @source:C31
  Scenario: A link so narrow that a message takes its time
    A message that is half there is no message, and heartbeats that queue up behind it are no silence.

    Given a classic queue "jobs"
    And "worker" consumes "jobs" with a ladder of 100ms, 100ms
    And "worker" fails "m*" once, then handles it
    And the link has the toxic "bandwidth" with rate=50
    When "m1" is published to "jobs" with a body of 60000 bytes
    And "m2" is published to "jobs" with a body of 60000 bytes
    Then "worker" is given "m1" twice, as attempts 1, 2
    And "worker" is given "m2" twice, as attempts 1, 2
    And every delivery of "m1" to "worker" has the body and the properties that it was published with
    And "worker" goes on

  @LNK-010 @must @source:A21 @source:C31
  Scenario: Frames that come in pieces of three bytes
    Where frames begin and end is no matter of packets. A library that takes one for the other goes astray at the
    first slow link, from the first byte of a connection.

    Given a classic queue "jobs"
    And "worker" consumes "jobs" with a ladder of 100ms, 100ms
    And "worker" always fails "m*"
    And the link has the toxic "slicer" with average_size=3, size_variation=1, delay=50
    When the link is cut
    Then "worker" consumes again
    When "m1" is published to "jobs" with a body of all 256 bytes
    And "m2" is published to "jobs" with an empty body
    Then "m1" is parked once
    And "m2" is parked once
    And the parked "m1" has the body and the properties that it was published with
    And "worker" goes on

  @LNK-011 @must @source:C23
  Scenario: A link that ends in the middle of what it brings
    The last delivery is torn. It is the broker's again, with all that were not acked, and none is handled half.

    Given a classic queue "jobs"
    And "worker" consumes "jobs" with a ladder of 100ms and a prefetch of 5
    And the consuming connection has the toxic "limit_data" to the consumer with bytes=2500
    When the messages "m1" to "m40" are published to "jobs"
    Then "worker" handled 40 messages "m*"
    And the fault has fired
    And each of "m*" has a fate 1 to 2 times
    And "worker" goes on

  @LNK-012 @must @source:C31
  Scenario: A link that ends in the middle of what it takes away
    The last copy is torn, and those before it may have arrived without a confirm that could tell.

    Given a classic queue "jobs"
    And "worker" consumes "jobs" with a ladder of 100ms, 100ms
    And "worker" always fails "m*"
    And the publishing connection has the toxic "limit_data" to the broker with bytes=3000
    When the messages "m1" to "m20" are published to "jobs"
    Then each of "m*" has come to its end
    And the fault has fired
    And each of "m*" has a fate 1 to 2 times
    And "worker" goes on

  @LNK-013 @must @slow @source:C23 @bug:B45
  Scenario: A consumer that learns late that the broker has closed its connection
    Its acks go into a connection that ended seconds ago. The messages are somebody's again by then, perhaps its own.

    Given a classic queue "jobs"
    And "worker" consumes "jobs"
    And "worker" holds "m1" in the handler
    When "m1" is published to "jobs"
    And "worker" has "m1" in the handler
    And the link has the toxic "slow_close" to the consumer with delay=1500
    And the consuming connection is blackholed to the broker
    Then the broker gives up the consuming connection within 12s
    When "worker" lets go of "m1"
    Then "worker" is given "m1" twice
    And "m1" has a fate 1 to 1 times
    And "worker" goes on

  @LNK-014 @must @source:A21 @source:C23
  Scenario: A link that is reset, and whose successors are reset too
    A reset throws away what was on its way in both directions. Coming back meets the same fate until
    the network is mended, and after that it must not take long.

    Given a classic queue "jobs"
    And "worker" consumes "jobs" with a ladder of 100ms, 100ms
    And "worker" holds "m1" in the handler
    When "m1" is published to "jobs"
    And "worker" has "m1" in the handler
    And the link has the toxic "reset_peer" with timeout=0
    And "worker" lets go of "m1" and fails it
    And "m2" is published to "jobs"
    And the fault has fired
    When the toxics are removed
    Then "m1" has come to its end
    And "worker" handled "m2"
    And "m1" has a fate 1 to 2 times
    And "worker" goes on

  @LNK-015 @must @source:A21 @source:A22 @source:C31
  Scenario: Nobody is there when a message comes home from its hop
    The consumer is refused for longer than the wait. The message waits in its queue, and its count
    goes on where it was.

    Given a classic queue "jobs"
    And "worker" consumes "jobs" with a ladder of 400ms, 100ms
    And "worker" always fails "m1"
    When "m1" is published to "jobs"
    And "worker" acks "m1"
    And new connections are refused
    And the link is cut
    Then "worker" is not given "m1" for 1500ms
    When new connections are accepted again
    Then "worker" is given "m1" 3 times, as attempts 1, 2, 3
    And "m1" is parked once
    And "worker" goes on
