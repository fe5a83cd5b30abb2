@consumer
Feature: A parked message remembers where it came from

  @ORG-001 @must @source:C38 @source:C12
  Scenario: The origin of an event survives the whole ladder
    After one hop the delivery's exchange is empty and its key is the queue: who reads the origin then writes nonsense.

    Given a fanout exchange "orders"
    And "billing" consumes "orders" with a ladder of 100ms, 100ms, 100ms
    And "billing" always fails "m1"
    When "m1" is published to "orders" with the key "order.created"
    Then "m1" is parked once
    And the origin of the parked "m1" is the exchange "orders" and the key "order.created"

  @ORG-002 @must @source:C38
  Scenario: The origin's topic key survives the whole ladder
    The key is half of the address; a replay without it reaches the wrong queues.

    Given a topic exchange "events"
    And "billing" consumes "events" with the key "order.#"
    And "billing" always fails "m1"
    When "m1" is published to "events" with the key "order.eu.created"
    Then "m1" is parked once
    And the origin of the parked "m1" is the exchange "events" and the key "order.eu.created"

  @ORG-003 @must @verdicts @source:C38
  Scenario: A message that is parked at once has its origin
    Without a failure before, nothing has been written yet: the delivery itself still knows.

    Given a fanout exchange "orders"
    And "billing" consumes "orders"
    And "billing" parks "m1"
    When "m1" is published to "orders" with the key "order.created"
    Then "m1" is parked once
    And the origin of the parked "m1" is the exchange "orders" and the key "order.created"

  @ORG-004 @must @source:C38
  Scenario: The origin is on the message from its first failure
    It has to be, since the hop wipes it out; a later failure must not overwrite it with the hop's.

    Given a direct exchange "tasks"
    And "worker" consumes "tasks" with the key "urgent"
    And "worker" fails "m1" twice, then handles it
    When "m1" is published to "tasks" with the key "urgent"
    Then "worker" handled "m1"
    And every copy of "m1" carries the exchange "tasks" and the key "urgent"

  @ORG-005 @must @source:C38
  Scenario: The origin of a task is the default exchange and its queue
    An empty exchange is the true origin here, and its key is the queue.

    Given a classic queue "jobs"
    And "worker" consumes "jobs"
    And "worker" always fails "m1"
    When "m1" is published to "jobs"
    Then "m1" is parked once
    And the origin of the parked "m1" is the exchange "" and the key "jobs"
