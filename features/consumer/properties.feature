@consumer
Feature: What the publisher wrote on a message survives its retries and its parking

  Background:
    Given a classic queue "jobs"
    And "worker" consumes "jobs" with a ladder of 100ms, 100ms

  @PRP-001 @must @source:C40 @bug:B26
  Scenario: The properties survive a hop
    A copy without its content type cannot be decoded, one without reply-to cannot be answered.

    Given "worker" fails "m1" once, then handles it
    When "m1" is published to "jobs" with
      | content-type     | application/json |
      | content-encoding | identity         |
      | correlation-id   | call-17          |
      | reply-to         | answers          |
      | priority         | 5                |
      | type             | order.created    |
      | app-id           | shop             |
      | timestamp        | 1700000000       |
      | header tenant    | string eu-1      |
    Then "worker" handled "m1"
    And every delivery of "m1" to "worker" has the body and the properties that it was published with

  @PRP-002 @must @source:C40 @bug:B26
  Scenario: The properties survive parking
    A parked request can still be answered while its caller lives; a parked event can still be replayed as it was.

    Given "worker" always fails "m1"
    When "m1" is published to "jobs" with
      | content-type     | application/json |
      | content-encoding | identity         |
      | correlation-id   | call-17          |
      | reply-to         | answers          |
      | priority         | 5                |
      | type             | order.created    |
      | app-id           | shop             |
      | timestamp        | 1700000000       |
      | header tenant    | string eu-1      |
    Then "m1" is parked once
    And the parked "m1" has the body and the properties that it was published with

  @PRP-003 @must @source:C40 @bug:B26
  Scenario: Headers of every type survive hops and parking
    A header that changes its type on the way is another header to whoever reads it.

    Given "worker" always fails "m1"
    When "m1" is published to "jobs" with
      | header a-bool      | bool true                         |
      | header a-int8      | int8 -8                           |
      | header a-uint8     | uint8 200                         |
      | header a-int16     | int16 -1600                       |
      | header a-uint16    | uint16 60000                      |
      | header a-int32     | int32 -320000                     |
      | header a-uint32    | uint32 4000000000                 |
      | header a-int64     | int64 -6400000000                 |
      | header a-float     | float 0.5                         |
      | header a-double    | double 0.25                       |
      | header a-decimal   | decimal 12345 2                   |
      | header a-string    | string grüezi                     |
      | header a-long      | string of 3000 bytes              |
      | header a-bytes     | bytes 00ff10                      |
      | header a-timestamp | timestamp 1700000000              |
      | header a-void      | void                              |
      | header a-array     | array one two three               |
      | header a-table     | table inner=value                 |
    Then "m1" is parked once
    And every delivery of "m1" to "worker" has the body and the properties that it was published with
    And the parked "m1" has the body and the properties that it was published with

  @PRP-004 @must @source:C39 @bug:B05
  Scenario: The publisher's expiration does not shorten the wait
    The expiration was for the source queue; on the copy it would end the wait early, or the message.

    Given a classic queue "mail"
    And "mailer" consumes "mail" with a ladder of 800ms in process "mailing"
    And "mailer" fails "m1" once, then handles it
    When "m1" is published to "mail" with
      | expiration | 300 |
    Then "mailer" handled "m1"
    And each wait of "m1" for "mailer" is at least its rung and at most its rung and 2s
    And no copy of "m1" has an expiration

  @PRP-005 @must @source:C39 @bug:B05
  Scenario: The publisher's expiration does not end a parked message
    A parked message that evaporates after the publisher's expiration was not kept.

    Given "worker" parks "m1"
    When "m1" is published to "jobs" with
      | expiration | 20000 |
    Then "m1" is parked once
    And no copy of "m1" has an expiration

  @PRP-006 @must @source:C39 @bug:B27
  Scenario: A retry copy is persistent though the original was not
    A message that waits out its rung should be there after the broker's restart.

    Given "worker" fails "m1" once, then handles it
    When "m1" is published to "jobs" with
      | delivery-mode | transient |
    Then "worker" handled "m1"
    And every copy of "m1" is persistent

  @PRP-007 @must @source:C40
  Scenario: An empty body stays empty
    An empty body is a message too, and on the wire it is a header without a body frame.

    Given "worker" always fails "m1"
    When "m1" is published to "jobs" with an empty body
    Then "m1" is parked once
    And the parked "m1" has the body and the properties that it was published with

  @PRP-008 @must @source:C40
  Scenario: A binary body stays as it is
    Bytes are not text: whatever decodes and encodes them on the way changes them.

    Given "worker" always fails "m1"
    When "m1" is published to "jobs" with a body of all 256 bytes
    Then "m1" is parked once
    And every delivery of "m1" to "worker" has the body and the properties that it was published with
    And the parked "m1" has the body and the properties that it was published with

  @PRP-009 @must @source:C40
  Scenario: A body of a mebibyte survives its ladder
    It is cut into frames on the wire, and must be whole again at every stop.

    Given "worker" always fails "m1"
    When "m1" is published to "jobs" with a body of 1048576 bytes
    Then "m1" is parked once
    And every delivery of "m1" to "worker" has the body and the properties that it was published with
    And the parked "m1" has the body and the properties that it was published with
