@chaos
Feature: A broker that goes away and comes back finds its consumers, and they their messages

  @own-broker @must @source:C20 @source:C23 @source:A21
  Scenario Outline: The broker is <event> while a message of a <type> queue is in mid-ladder
    The attempt is in a header of the copy, and the copy is on the broker's disk. Nobody else remembers that there
    was a failure.

    Given a <type> queue "jobs"
    And "worker" consumes "jobs" with a ladder of 100ms, <hop>
    And "worker" always fails "m1"
    When "m1" is published to "jobs"
    And "worker" has failed "m1" twice
    And "worker" is not given "m1" again for 1s
    And the broker is <does>
    Then "m1" has come to its end
    And "m1" has a fate 1 to <most> times
    And "worker" is given "m1" at most <given> times
    And the parked "m1" carries attempt 3
    And every copy of "m1" is persistent
    And "jobs" has 1 consumer
    And "worker" goes on

    @NOD-001
    Examples: in order
      | event     | does      | type    | hop | most | given |
      | restarted | restarted | classic | 2s  | 1    | 3     |

    @NOD-002
    Examples: by a kill
      | event  | does                     | type    | hop | most | given |
      | killed | killed and started again | classic | 2s  | 2    | 6     |

    @NOD-003 @quorum
    Examples: by a kill, of the type quorum
      | event  | does                     | type   | hop | most | given |
      | killed | killed and started again | quorum | 15s | 2    | 6     |

  @own-broker @must @verdicts @source:C31 @source:C36 @source:A21
  Scenario Outline: The broker is <event> with a parked copy from a <type> queue unconfirmed
    It has written the copy or it has not, and took the answer along. The original must be there for the case that
    it has not.

    Given a <type> queue "jobs"
    And "worker" consumes "jobs"
    And "worker" parks "m1"
    And every confirm of a copy of "m1" is held
    When "m1" is published to "jobs"
    And 1 unconfirmed copy of "m1" is under way
    And the fault has fired
    And the broker is <does>
    And what is held is released
    Then "m1" has come to its end
    And "m1" has a fate 1 to 2 times
    And "worker" goes on

    @NOD-004
    Examples: in order
      | event     | does      | type    |
      | restarted | restarted | classic |

    @NOD-005 @quorum
    Examples: by a kill, of the type quorum
      | event  | does                     | type   |
      | killed | killed and started again | quorum |

  @NOD-006 @own-broker @must @verdicts @source:C20 @source:C39 @source:C43
  Scenario: What is parked stays parked, through a restart and through a kill
    Somebody will look at it next week. A parking queue that is not durable, or a copy that is not persistent, is gone by then.

    Given a classic queue "jobs"
    And "worker" consumes "jobs"
    And "worker" parks "bad*"
    When the messages "bad1" to "bad5" are published to "jobs"
    And "worker" has failed 5 messages "bad*"
    And the broker is restarted
    And "worker" consumes again
    And the broker is killed and started again
    Then 5 messages "bad*" are parked once each
    And the parking queue of "worker" is durable
    And "worker" goes on

  @own-broker @must @source:C20 @source:C16 @bug:B52
  Scenario Outline: The broker is <event> for longer than twenty messages have to wait
    Their time is over when it starts. They are due at once, and not dropped since nobody was there to move
    them when they were.

    Given a classic queue "jobs"
    And "worker" consumes "jobs" with a ladder of 6s and a prefetch of 20
    And "worker" fails "m*" once, then handles it
    When the messages "m1" to "m20" are published to "jobs"
    And "worker" has failed 20 messages "m*"
    And "worker" is not given "m20" again for 1s
    And the broker is <event>
    And the broker stays down for 5s
    And the broker is started again
    Then each of "m*" is given to "worker" within 11s of the broker's start
    And each of "m*" has come to its end
    And each of "m*" has a fate 1 to <most> times
    And "worker" goes on

    @NOD-007
    Examples: in order
      | event   | most |
      | stopped | 1    |

    @NOD-008
    Examples: by a kill
      | event  | most |
      | killed | 2    |

  @NOD-009 @own-broker @must @source:A21 @source:A22 @source:A23 @bug:B57
  Scenario: Three restarts in a row find an idle consumer back
    The channel's end and the connection's end come both and three times. Closing twice what is there once ends the
    process.

    Given a classic queue "jobs"
    And "worker" consumes "jobs"
    When the broker is restarted
    And "worker" consumes again
    And the broker is restarted
    And "worker" consumes again
    And the broker is restarted
    Then "worker" goes on
    And the consumer has as many connections and channels as before the fault
    And "jobs" has 1 consumer

  @NOD-010 @own-broker @must @source:A21 @source:A22 @source:C49 @bug:B57
  Scenario: Three restarts in a row find a busy consumer back
    Each finds messages waiting, in the handler, between copy and ack, and in their hop.

    Given a classic queue "jobs"
    And "worker" consumes "jobs" with a ladder of 300ms, 500ms and a prefetch of 5
    And "worker" always fails "bad*"
    When 20 messages "bad*" and 60 messages "m*" are published in turn to "jobs"
    And the broker is restarted
    And the broker is restarted
    And the broker is restarted
    Then each of "bad*" has come to its end
    And each of "m*" has come to its end
    And each of "bad*" has a fate 1 to 4 times
    And the consumer has as many connections and channels as before the fault
    And "jobs" has 1 consumer
    And "worker" goes on

  @NOD-011 @own-broker @must @quorum @source:A21 @source:A27 @bug:B18
  Scenario: After a restart four consumers of four queues are back, each once
    Queues come up one after the other. A subscription that is tried too early must be tried again, and not be
    forgotten since the others are there.

    Given a classic queue "jobs"
    And a quorum queue "mail"
    And a classic queue "bills"
    And a quorum queue "files"
    And "worker" consumes "jobs"
    And "mailer" consumes "mail"
    And "billing" consumes "bills"
    And "filer" consumes "files"
    When the broker is restarted
    And the messages "m1" to "m10" are published to "jobs"
    And the messages "n1" to "n10" are published to "mail"
    And the messages "o1" to "o10" are published to "bills"
    And the messages "p1" to "p10" are published to "files"
    Then "worker" handled 10 messages "m*"
    And "mailer" handled 10 messages "n*"
    And "billing" handled 10 messages "o*"
    And "filer" handled 10 messages "p*"
    And there is exactly one consumer of "jobs" within 10s
    And there is exactly one consumer of "mail" within 10s
    And there is exactly one consumer of "bills" within 10s
    And there is exactly one consumer of "files" within 10s
    And the consumer has as many connections and channels as before the fault

  @NOD-012 @own-broker @must @concurrent:2 @quorum @source:A13 @source:C23 @bug:B08
  Scenario: A handler that outlives the broker's restart does no harm on the new connection
    The handler's delivery tag was given by a broker that is gone. The new one has given the same number to somebody else.

    Given a quorum queue "jobs"
    And "worker" consumes "jobs" with a ladder of 100ms and a prefetch of 2
    And "worker" holds "m1" in the handler
    When "m1" is published to "jobs"
    And "worker" has "m1" in the handler
    And the broker is restarted
    And "worker" consumes again
    And the messages "m2" to "m5" are published to "jobs"
    And "worker" lets go of "m1"
    Then "worker" is given "m1" twice
    And "worker" handled 5 messages "m*"
    And each of "m*" has a fate 1 to 1 times
    And "worker" goes on

  @NOD-013 @own-broker @must @source:A21 @bug:B45
  Scenario: A broker that stands still for longer than the heartbeat is given up, and found again
    The sockets are open and nothing comes. Whoever waits on them for an error waits for ever.

    Given a classic queue "jobs"
    And "worker" consumes "jobs" with a ladder of 100ms, 100ms
    And "worker" always fails "m1"
    And "worker" holds "m2" in the handler
    When "m2" is published to "jobs"
    And "worker" has "m2" in the handler
    And the broker is paused
    Then the broker is missed by the consumer within 8s
    When the broker continues
    And "m1" is published to "jobs"
    Then "worker" consumes again
    When "worker" lets go of "m2"
    Then "m1" has come to its end
    And "m2" has come to its end
    And each of "m*" has a fate 1 to 1 times
    And "worker" goes on

  @NOD-014 @own-broker @should @source:C31 @source:C23
  Scenario: A broker that stands still for a moment is waited for
    A pause of a second is a busy disk, and no reason to reconnect or to publish anything twice.

    Given a classic queue "jobs"
    And "worker" consumes "jobs" with a ladder of 100ms, 100ms
    And "worker" holds "m1" in the handler
    When "m1" is published to "jobs"
    And "worker" has "m1" in the handler
    And the broker is paused
    And "worker" lets go of "m1" and fails it
    And the broker stays down for 1s
    And the broker continues
    Then "worker" is given "m1" 3 times, as attempts 1, 2, 3
    And "m1" is parked once
    And the consumer has as many connections and channels as before the fault
    And "worker" goes on

  @NOD-015 @own-broker @must @verdicts @concurrent:4 @source:C31 @source:C33 @bug:B20
  Scenario: A broker that takes no copies holds up what fails, and nothing else
    Under a memory alarm the broker stops to read from who publishes. A copy that it has not taken releases
    nothing, and the messages that do not fail go through.

    Given a classic queue "jobs"
    And "worker" consumes "jobs" with a ladder of 100ms, 100ms and a prefetch of 10
    And "worker" holds "bad*" in the handler
    And "worker" holds "m*" in the handler
    When the messages "bad1" to "bad3" are published to "jobs"
    And the messages "m1" to "m4" are published to "jobs"
    And "worker" has 7 messages "*" in the handler
    And a memory alarm is raised
    And "worker" lets go of "bad*" and fails it
    Then the consumer is told that it is blocked
    When "worker" lets go of "m*"
    Then "worker" handled 4 messages "m*"
    And "worker" acks none of "bad*" for 2s
    When the memory alarm is cleared
    Then the consumer is told that it is no longer blocked
    And 3 messages "bad*" are parked once each
    And the consumer has as many connections and channels as before the fault
    And "worker" goes on

  @NOD-016 @own-broker @must @source:C31 @source:A24 @bug:B20
  Scenario: A consumer can be closed while the broker takes no copies
    The copy is in a socket that nobody reads, and so is whatever says goodbye. A close that waits for an answer
    waits for the operator.

    Given a classic queue "jobs"
    And "worker" consumes "jobs" with a ladder of 100ms, 100ms
    And "worker" holds "m1" in the handler
    When "m1" is published to "jobs"
    And "worker" has "m1" in the handler
    And a memory alarm is raised
    And "worker" lets go of "m1" and fails it
    Then the consumer is told that it is blocked
    When the consumer's process is closed without finishing and started again
    And the memory alarm is cleared
    Then "m1" has come to its end
    And "m1" has a fate 1 to 2 times
    And "worker" goes on

  @NOD-017 @own-broker @must @quorum @source:C03 @source:A21 @bug:B52
  Scenario: The broker is killed for longer than a message of a quorum queue has to wait
    A classic retry queue is up before the quorum queue that its messages come home to, and what is due is dropped:
    seen on 3.8.9, 3.10.8, 4.0.5 and 4.3.6, with twenty of twenty. That is the broker's doing and allowed here; the
    consumer has to be there for what comes next.

    Given a quorum queue "jobs"
    And "worker" consumes "jobs" with a ladder of 6s
    And "worker" fails "m1" once, then handles it
    And the broker may lose "m1"
    When "m1" is published to "jobs"
    And "worker" has failed "m1"
    And "worker" is not given "m1" again for 1s
    And the broker is killed
    And the broker stays down for 5s
    And the broker is started again
    Then "worker" goes on
    And "m1" has a fate 0 to 2 times
    And there is exactly one consumer of "jobs" within 10s
