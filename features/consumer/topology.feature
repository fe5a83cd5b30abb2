@consumer
Feature: What a consumer declares is there before it is needed, and no more than is needed

  @TOP-001 @must @source:C42 @source:A25
  Scenario: The source queue is declared first, and consuming begins last
    What is consumed before its retry and parking queues exist has nowhere to go when it fails.

    Given a fanout exchange "orders"
    And "billing" consumes "orders" with a ladder of 100ms, 200ms
    Then "billing" declared its source queue before its retry and parking queues
    And "billing" began to consume after everything was declared

  @TOP-002 @must @counts-queues @source:C41
  Scenario: Retry queues are as many as distinct delays, not consumers
    A retry queue for each consumer multiplies with every service; one for each delay does not.

    Given a classic queue "jobs"
    And a classic queue "mail"
    And a classic queue "prints"
    And "worker" consumes "jobs" with a ladder of 100ms, 100ms, 250ms
    And "mailer" consumes "mail"
    And "printer" consumes "prints"
    Then there are 2 retry queues
    And there are 3 parking queues

  @TOP-003 @must @counts-queues @source:C41 @source:C22
  Scenario: Consumers with equal ladders share their retry queues
    Two processes that declare the same names with the same arguments are one topology.

    Given a classic queue "jobs"
    And a classic queue "mail"
    And "worker" consumes "jobs" with a ladder of 100ms, 200ms in process "one"
    And "mailer" consumes "mail" with a ladder of 100ms, 200ms in process "two"
    And "worker" always fails "m1"
    And "mailer" always fails "m2"
    When "m1" is published to "jobs"
    And "m2" is published to "mail"
    Then "m1" is parked once for "worker"
    And "m2" is parked once for "mailer"
    And there are 2 retry queues

  @TOP-004 @must @counts-queues @source:C41
  Scenario: Consumers with different ladders do not disturb each other
    Each process keeps its own rungs; where they meet in one retry queue, each message goes home.

    Given a classic queue "jobs"
    And a classic queue "mail"
    And "worker" consumes "jobs" with a ladder of 100ms, 200ms in process "one"
    And "mailer" consumes "mail" with a ladder of 200ms, 50ms, 50ms in process "two"
    And "worker" always fails "m1"
    And "mailer" always fails "m2"
    When "m1" is published to "jobs"
    And "m2" is published to "mail"
    Then "worker" is given "m1" 3 times, as attempts 1, 2, 3
    And "mailer" is given "m2" 4 times, as attempts 1, 2, 3, 4
    And "m1" is parked once for "worker"
    And "m2" is parked once for "mailer"
    And there are 3 retry queues

  @TOP-005 @must @concurrent:5 @source:C48 @source:C06
  Scenario: A changed ladder in a rolling deploy brings waiting messages home
    During a deploy the old and the new version run side by side, and messages wait in the old one's queues.

    Given a classic queue "jobs"
    And "old" consumes "jobs" with a ladder of 300ms in process "old"
    And "old" holds "m*" in the handler
    When the messages "m1" to "m5" are published to "jobs"
    And "old" has 5 messages "m*" in the handler
    And "new" starts to consume "jobs" with a ladder of 50ms, 50ms in process "new"
    And the process of "old" is asked to close and it fails "m*"
    Then "new" is given each of "m*" once, as attempts 2
    And "new" handled 5 messages "m*"

  @TOP-006 @must @source:C05 @bug:B16
  Scenario: A retry queue that exists with other arguments is a clear error at start
    It cannot be redeclared, and a consumer that starts without it has nowhere to send its failures.

    Given a classic queue "jobs"
    And the retry queue of 100ms exists already with other arguments
    When "worker" tries to consume "jobs" with a ladder of 100ms
    Then "worker" is refused with an error that names the retry queue of 100ms
    And the consumer declares at most 10 times in 1s

  @TOP-007 @must @exclusive @source:C43
  Scenario: An exclusive source queue is retried while its consumer lives
    A subscriber without a name has an exclusive queue; its failures deserve their attempts too.

    Given a fanout exchange "orders"
    And "listener" consumes "orders" from an exclusive queue with a ladder of 100ms, 100ms
    And "listener" fails "m1" twice, then handles it
    When "m1" is published to "orders"
    Then "listener" is given "m1" 3 times, as attempts 1, 2, 3
    And "listener" handled "m1"

  @TOP-008 @must @exclusive @source:C43
  Scenario: The parking queue of an exclusive queue goes with it
    A durable parking queue behind a queue of one connection is one more queue for ever at every start.

    Given a fanout exchange "orders"
    And "listener" consumes "orders" from an exclusive queue with a ladder of 100ms
    And "listener" always fails "m1"
    When "m1" is published to "orders"
    Then "listener" is given "m1" twice, as attempts 1, 2
    And a copy of "m1" is confirmed in the parking queue of "listener"
    When the consumer's process is closed
    Then the parking queue of "listener" is gone

  @TOP-009 @must @source:C42
  Scenario: Nothing is declared in the failure path
    A declaration that fails there fails at three in the morning, under load, with the message in hand.

    Given a classic queue "jobs"
    And "worker" consumes "jobs" with a ladder of 100ms, 200ms
    And "worker" always fails "m1"
    When "m1" is published to "jobs"
    Then "m1" is parked once
    And nothing was declared after "worker" began to consume

  @TOP-010 @must @source:C22 @source:C42
  Scenario: Starting again on what is there already works
    Every restart declares again; equal declarations are answered, not refused.

    Given a classic queue "jobs"
    And "worker" consumes "jobs" with a ladder of 100ms, 200ms
    And "worker" always fails "m1"
    When the consumer's process is closed and started again
    And "m1" is published to "jobs"
    Then "m1" is parked once

  @TOP-011 @must @source:A25 @source:A07
  Scenario: No more messages are held than the prefetch allows
    The prefetch is set before consuming begins, or the first deliveries come without a limit.

    Given a classic queue "jobs"
    When the messages "m1" to "m30" are published to "jobs"
    And "worker" starts to consume "jobs" with a ladder of 100ms and a prefetch of 4
    Then "worker" handled 30 messages "m*"
    And "worker" never held more than 4 messages unsettled

  @TOP-012 @must @source:C43 @source:C17
  Scenario: A retry queue is durable, holds for its rung, and does not expire
    It never has a consumer, so that an expiry would delete it with all that waits in it.

    Given a classic queue "jobs"
    And "worker" consumes "jobs" with a ladder of 100ms, 200ms
    Then every retry queue is durable, holds messages for its rung and has no expiry of its own

  @TOP-013 @must @source:A24
  Scenario: A consumer that is stopped is given nothing more
    Stop means stop: what comes later belongs to whoever consumes then.

    Given a classic queue "jobs"
    And a classic queue "mail"
    And "worker" consumes "jobs" with a ladder of 100ms
    And "mailer" consumes "mail"
    When "worker" is stopped
    And "m1" is published to "jobs"
    And "m2" is published to "mail"
    Then "mailer" handled "m2"
    And "worker" is not given "m1" for 300ms
    And "jobs" keeps "m1"

  @TOP-014 @must @source:A24
  Scenario: A consumer that stops finishes what it has in hand
    A deploy is no failure: what the handler is working on is settled before the process goes.

    Given a classic queue "jobs"
    And "worker" consumes "jobs" with a ladder of 100ms
    And "worker" holds "m1" in the handler
    When "m1" is published to "jobs"
    And "worker" has "m1" in the handler
    And the consumer's process is asked to close and "worker" lets go of "m1"
    Then "worker" handled "m1"
    And "worker" is given "m1" once
