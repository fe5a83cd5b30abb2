@consumer
Feature: Whatever way a handler fails, the message is retried and the process lives

  Background:
    Given a classic queue "jobs"
    And "worker" consumes "jobs" with a ladder of 100ms, 100ms

  @FLR-001 @must @source:C34
  Scenario: A bare failure is a failure
    Most handlers do not know verdicts; what they throw is an error, and it is retried.

    Given "worker" always fails "m1"
    When "m1" is published to "jobs"
    Then "worker" is given "m1" 3 times, as attempts 1, 2, 3
    And "m1" is parked once

  @FLR-002 @must @nothing @source:C46
  Scenario: A failure without a value is a failure
    A failure path that reads the message of an error that is not there fails itself.

    Given "worker" always fails "m1" without a value
    When "m1" is published to "jobs"
    Then "worker" is given "m1" 3 times, as attempts 1, 2, 3
    And "m1" is parked once

  @FLR-003 @must @panic @source:C33
  Scenario: A panic in the handler is a failure
    A handler's bug costs one message its attempts, and not the process all of its consumers.

    Given "worker" always fails "m1" by a panic
    When "m1" is published to "jobs"
    Then "worker" is given "m1" 3 times, as attempts 1, 2, 3
    And "m1" is parked once

  @FLR-004 @must @verdicts @source:C44
  Scenario: A Retry verdict equals a bare failure
    A handler may say "worth another attempt"; it cannot say "for ever".

    Given "worker" always fails "m1" by a Retry verdict
    When "m1" is published to "jobs"
    Then "worker" is given "m1" 3 times, as attempts 1, 2, 3
    And "m1" is parked once

  @FLR-005 @must @verdicts @wrapped @source:C45
  Scenario: A wrapped Retry verdict is a Retry
    Applications wrap errors on their way up; the verdict inside still counts.

    Given "worker" always fails "m1" by a wrapped Retry verdict
    When "m1" is published to "jobs"
    Then "worker" is given "m1" 3 times, as attempts 1, 2, 3
    And "m1" is parked once

  @FLR-006 @must @verdicts @wrapped @source:C45
  Scenario: A wrapped Park verdict parks at once
    Taken for a bare failure, it would cost every attempt and end in the same place, late.

    Given "worker" always fails "m1" by a wrapped Park verdict
    When "m1" is published to "jobs"
    Then "worker" is given "m1" once, as attempts 1
    And "m1" is parked once
    And "m1" made no hop

  @FLR-007 @must @source:C33
  Scenario: A hundred failures cost nothing but themselves
    What leaks a little at each failure is seen only after many: channels, consumers, a place in the prefetch.

    Given "worker" always fails "bad*"
    When the messages "bad1" to "bad100" are published to "jobs"
    Then 100 messages "bad*" are parked once each
    When the messages "good1" to "good10" are published to "jobs"
    Then "worker" handled 10 messages "good*"
    And no channel was opened after the first failure

  @FLR-008 @must @nothing @panic @verdicts @source:C33 @source:C34
  Scenario: After every kind of failure the consumer goes on
    Each kind takes its own way through the failure path, and each must come out of it.

    Given "worker" always fails "a*"
    And "worker" always fails "b*" without a value
    And "worker" always fails "c*" by a panic
    And "worker" always fails "d*" by a Park verdict
    When these messages are published to "jobs"
      | message |
      | a1      |
      | b1      |
      | c1      |
      | d1      |
      | m1      |
    Then "worker" handled "m1"
    And "a1" is parked once
    And "b1" is parked once
    And "c1" is parked once
    And "d1" is parked once
    When "m2" is published to "jobs"
    Then "worker" handled "m2"
