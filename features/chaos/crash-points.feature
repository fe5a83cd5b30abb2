# Each scenario is a path. "parkproof explore" records what passes over the wire between its beginning and
# its end, and runs it again for every point on it, broken there in every way.
@chaos @path
Feature: Every crash point

  @must @source:C31
  Scenario Outline: A message that is handled at once (<type>)
    A message must survive a break at any moment of its delivery and its ack, and the consumer must go on.

    Given the consumer's process is started again whenever it dies
    And a <type> queue "jobs"
    And "worker" consumes "jobs" with a ladder of 50ms, 50ms, 50ms and a prefetch of 1
    When the path begins
    And "m1" is published to "jobs"
    Then "m1" has come to its end
    When the path ends
    Then "worker" goes on

    @CRP-001
    Examples: on a classic queue
      | type    |
      | classic |

    @CRP-005 @quorum
    Examples: on a quorum queue
      | type   |
      | quorum |

  @must @source:C31 @source:C33
  Scenario Outline: A whole ladder, to parking (<type>)
    On the way through every rung there is always at least one copy; a break may add one, and never takes the last.

    Given the consumer's process is started again whenever it dies
    And a <type> queue "jobs"
    And "worker" consumes "jobs" with a ladder of 50ms, 50ms, 50ms and a prefetch of 1
    And "worker" always fails "m1"
    When the path begins
    And "m1" is published to "jobs"
    Then "m1" has come to its end
    When the path ends
    Then "worker" goes on

    @CRP-002
    Examples: on a classic queue
      | type    |
      | classic |

    @CRP-006 @quorum
    Examples: on a quorum queue
      | type   |
      | quorum |

  @must @verdicts @source:C31
  Scenario Outline: A message that is parked at once (<type>)
    Parking is publish, confirm and ack, and a break between any two of them must leave the message in a queue.

    Given the consumer's process is started again whenever it dies
    And a <type> queue "jobs"
    And "worker" consumes "jobs" with a ladder of 50ms, 50ms, 50ms and a prefetch of 1
    And "worker" parks "m1"
    When the path begins
    And "m1" is published to "jobs"
    Then "m1" has come to its end
    When the path ends
    Then "worker" goes on

    @CRP-003
    Examples: on a classic queue
      | type    |
      | classic |

    @CRP-007 @quorum
    Examples: on a quorum queue
      | type   |
      | quorum |

  @must @source:C31
  Scenario Outline: Starting up and declaring (<type>)
    A consumer that is interrupted half-way through its declarations must come to consume all the same, and once.

    Given the consumer's process is started again whenever it dies
    And a <type> queue "jobs"
    When the path begins
    And "worker" consumes "jobs" with a ladder of 50ms, 50ms, 50ms and a prefetch of 1
    And the path ends
    And "m1" is published to "jobs"
    Then "m1" has come to its end
    And "worker" goes on

    @CRP-004
    Examples: on a classic queue
      | type    |
      | classic |

    @CRP-008 @quorum
    Examples: on a quorum queue
      | type   |
      | quorum |
