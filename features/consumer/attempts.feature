@consumer
Feature: Attempts are counted on the message, by the library's own header

  Background:
    Given a classic queue "jobs"
    And "worker" consumes "jobs" with a ladder of 100ms, 100ms, 100ms

  @ATT-001 @must @source:C35 @bug:B22
  Scenario: A message without headers is retried and parked
    Other clients publish without a header table; a library that reads a header from nothing dies of them.

    Given "worker" always fails "m1"
    When "m1" is published to "jobs" without properties
    Then "worker" is given "m1" 4 times, as attempts 1, 2, 3, 4
    And "m1" is parked once

  @ATT-002 @must @source:C35 @bug:B22
  Scenario: A message with an empty header table is retried and parked
    An empty table and none at all are different on the wire, and mean the same.

    Given "worker" always fails "m1"
    When "m1" is published to "jobs" with
      | headers | none |
    Then "worker" is given "m1" 4 times, as attempts 1, 2, 3, 4
    And "m1" is parked once

  @ATT-003 @must @source:C37 @bug:B23
  Scenario: The attempt is read from an integer of every width
    A count that another tool wrote back as int64 or int16 is still a count.

    Given "worker" always fails "w*"
    When these messages are published to "jobs"
      | message | the attempt header |
      | w1      | int8 3             |
      | w2      | uint8 3            |
      | w3      | int16 3            |
      | w4      | uint16 3           |
      | w5      | int32 3            |
      | w6      | uint32 3           |
      | w7      | int64 3            |
    Then 7 messages "w*" are parked once each
    And "worker" is given each of "w*" twice, as attempts 3, 4

  @ATT-004 @must @source:C37 @bug:B23
  Scenario: An attempt header that is a text counts as absent
    A header that is no positive integer says nothing; the message starts at its first attempt.

    Given "worker" always fails "t*"
    When these messages are published to "jobs"
      | message | the attempt header |
      | t1      | string 3           |
      | t2      | string soon        |
      | t3      | string             |
    Then 3 messages "t*" are parked once each
    And "worker" is given each of "t*" 4 times, as attempts 1, 2, 3, 4

  @ATT-005 @must @source:C37 @bug:B23
  Scenario: An attempt header that is zero or negative counts as absent
    Taken as it stands, a negative count gives a message more attempts than its ladder has.

    Given "worker" always fails "n*"
    When these messages are published to "jobs"
      | message | the attempt header |
      | n1      | int32 -1           |
      | n2      | int64 -9000000000  |
      | n3      | int32 0            |
    Then 3 messages "n*" are parked once each
    And "worker" is given each of "n*" 4 times, as attempts 1, 2, 3, 4

  @ATT-006 @must @source:C37 @bug:B23
  Scenario: An attempt header of another type counts as absent
    Whatever stands there, the delivery is settled and the message keeps its attempts.

    Given "worker" always fails "o*"
    When these messages are published to "jobs"
      | message | the attempt header |
      | o1      | double 3           |
      | o2      | bool true          |
      | o3      | void               |
      | o4      | table              |
      | o5      | array              |
      | o6      | timestamp 3        |
    Then 6 messages "o*" are parked once each
    And "worker" is given each of "o*" 4 times, as attempts 1, 2, 3, 4

  @ATT-007 @must @source:C13 @bug:B01
  Scenario: The library's own count is trusted over x-death
    x-death counts differently from version to version, and any client can write it.

    Given "worker" always fails "m1"
    When "m1" is published to "jobs" with an x-death that counts 9 for its queue
    Then "worker" is given "m1" 4 times, as attempts 1, 2, 3, 4
    And "m1" is parked once

  @ATT-008 @must @source:C36 @bug:B36
  Scenario: A message that arrives at its last attempt is parked when it fails
    The limit is read as well as written: a header at the ladder's end ends the ladder.

    Given "worker" always fails "m*"
    When these messages are published to "jobs"
      | message | the attempt header |
      | m1      | int32 4            |
      | m2      | int32 99           |
    Then 2 messages "m*" are parked once each
    And "worker" is given each of "m*" once

  @ATT-009 @must @source:C37
  Scenario: The first delivery carries no attempt, each copy carries its own
    The header is the library's word to its users: handlers read it to know how often this was tried.

    Given "worker" always fails "m1"
    When "m1" is published to "jobs"
    Then "m1" is parked once
    And the attempt header of "m1" reads none, 2, 3, 4 as "worker" is given it

  @ATT-010 @must @source:C37
  Scenario: The parked copy carries the attempt that failed
    Who looks at a parked message wants to know how often it was tried.

    Given "worker" always fails "m1"
    And "worker" parks "m2"
    When "m1" is published to "jobs"
    And "m2" is published to "jobs"
    Then the parked "m1" carries attempt 4
    And the parked "m2" carries attempt 1

  @ATT-011 @must @source:C37 @bug:B38
  Scenario: A redelivery without a recorded failure repeats its number
    A consumer that stops hands back what it had not settled; that is no failure of the message.

    Given "worker" holds "m1" in the handler
    When "m1" is published to "jobs"
    And "worker" has "m1" in the handler
    And the consumer's process is closed without finishing and started again
    Then "worker" is given "m1" twice, as attempts 1, 1
    When "worker" lets go of "m1"
    Then "worker" handled "m1"

  @ATT-012 @must @source:C37 @bug:B35
  Scenario: The count outlives the process
    A count in memory starts again with each deploy, and a poison message never parks.

    Given "worker" holds "m1" in the handler
    When "m1" is published to "jobs"
    And "worker" has "m1" in the handler
    And the process of "worker" is asked to close and it fails "m1"
    And the consumer's process is started again
    Then "worker" is given "m1" 4 times, as attempts 1, 2, 3, 4
    And "m1" is parked once
