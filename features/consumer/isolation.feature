@consumer
Feature: A failed message comes back only to the consumer that failed it

  @ISO-001 @must @source:C32 @bug:B04
  Scenario: A retry is not broadcast again
    A retry that is published to the original exchange reaches every queue bound to it, so one
    subscriber's failure becomes everybody's duplicate.

    Given a fanout exchange "orders"
    And "billing" consumes "orders" with a ladder of 100ms, 100ms
    And "audit" consumes "orders"
    And "billing" fails "m1" twice, then handles it
    When "m1" is published to "orders"
    Then "billing" is given "m1" 3 times, as attempts 1, 2, 3
    And "audit" is given "m1" once
    And nothing was published to "orders" but "m1" itself

  @ISO-002 @must @source:C32 @bug:B04
  Scenario: A retry from a topic exchange reaches no other subscriber
    A witness bound to the same exchange sees whatever is published there.

    Given a topic exchange "events"
    And "billing" consumes "events" with the key "order.*"
    And a witness queue "witness" bound to "events" with the key "#"
    And "billing" always fails "m1"
    When "m1" is published to "events" with the key "order.created"
    Then "m1" is parked once
    And "witness" holds "m1" once
    And nothing was published to "events" but "m1" itself

  @ISO-003 @must @source:C32 @bug:B04
  Scenario: A retry from a direct exchange reaches no other queue of its key
    Two queues can share a key; only one of them failed.

    Given a direct exchange "tasks"
    And "worker" consumes "tasks" with the key "urgent"
    And a witness queue "witness" bound to "tasks" with the key "urgent"
    And "worker" always fails "m1"
    When "m1" is published to "tasks" with the key "urgent"
    Then "m1" is parked once
    And "witness" holds "m1" once
    And nothing was published to "tasks" but "m1" itself

  @ISO-004 @must @source:C32 @bug:B04
  Scenario: A retry from a headers exchange reaches no other queue of its headers
    The headers that routed the message are still on the copy; they must not route it again.

    Given a headers exchange "reports"
    And "worker" consumes "reports" with the header "format" as "pdf"
    And a witness queue "witness" bound to "reports" with the header "format" as "pdf"
    And "worker" always fails "m1"
    When "m1" is published to "reports" with
      | header format | string pdf |
    Then "m1" is parked once
    And "witness" holds "m1" once
    And nothing was published to "reports" but "m1" itself

  @ISO-005 @must @source:C32 @bug:B04
  Scenario: A retry does not travel on from exchange to exchange
    Behind an exchange there may be another, with subscribers that nobody here knows.

    Given a fanout exchange "orders"
    And a fanout exchange "archive"
    And the exchange "archive" is bound to the exchange "orders"
    And "billing" consumes "orders"
    And a witness queue "witness" bound to "archive"
    And "billing" always fails "m1"
    When "m1" is published to "orders"
    Then "m1" is parked once
    And "witness" holds "m1" once
    And nothing was published to "orders" but "m1" itself
    And nothing was published to "archive" but "m1" itself

  @ISO-006 @must @source:C32 @bug:B28
  Scenario: A retry is not copied to the CC of its original
    The CC header routes whatever carries it; a copy with it reaches the others once more.

    Given a classic queue "jobs"
    And "worker" consumes "jobs"
    And a witness queue "witness"
    And "worker" always fails "m1"
    When "m1" is published to "jobs" with
      | header CC | array witness |
    Then "m1" is parked once
    And "witness" holds "m1" once

  @ISO-007 @must @source:C32 @bug:B28
  Scenario: A retry is not copied to the BCC of its original
    The broker strips BCC before it delivers, so that a copy cannot know it; it must not come back either.

    Given a classic queue "jobs"
    And "worker" consumes "jobs"
    And a witness queue "witness"
    And "worker" always fails "m1"
    When "m1" is published to "jobs" with
      | header BCC | array witness |
    Then "m1" is parked once
    And "witness" holds "m1" once

  @ISO-008 @must @source:C32
  Scenario: Two subscribers that fail the same event are retried apart
    They share the retry queue, not the message: each gets its own attempts and its own parked copy.

    Given a fanout exchange "orders"
    And "billing" consumes "orders" with a ladder of 100ms, 100ms
    And "stock" consumes "orders"
    And "billing" always fails "m1"
    And "stock" fails "m1" once, then handles it
    When "m1" is published to "orders"
    Then "billing" is given "m1" 3 times, as attempts 1, 2, 3
    And "stock" is given "m1" twice, as attempts 1, 2
    And "m1" is parked once for "billing"
    And "stock" handled "m1"

  @ISO-009 @must @source:C33
  Scenario: A sibling on the same queue goes on
    Several consumers share a queue's work; the failure of one message must not cost one of them its place.

    Given a classic queue "jobs"
    And "worker" consumes "jobs" with a ladder of 100ms and a prefetch of 1
    And "helper" consumes "jobs"
    And "worker" and "helper" always fail "bad"
    When "bad" is published to "jobs"
    And "bad" has been parked
    And the messages "m1" to "m10" are published to "jobs"
    Then "worker" and "helper" together handled 10 messages "m*"
    And "jobs" has 2 consumers

  @ISO-010 @must @source:C33
  Scenario: Siblings on other queues of the same connection go on
    One poison message that seals a channel silences every consumer on it, and none of them shows it.

    Given a classic queue "jobs"
    And a classic queue "mail"
    And a fanout exchange "orders"
    And "worker" consumes "jobs" with a ladder of 100ms
    And "mailer" consumes "mail"
    And "billing" consumes "orders"
    And "worker" always fails "bad"
    When "bad" is published to "jobs"
    And "bad" has been parked
    And "m1" is published to "jobs"
    And "m2" is published to "mail"
    And "m3" is published to "orders"
    Then "worker" handled "m1"
    And "mailer" handled "m2"
    And "billing" handled "m3"
    And no consumer was cancelled

  @ISO-011 @must @source:C33
  Scenario: A new consumer can be started after a poison message
    A channel that was sealed by a failure takes no further consumer, and only a restart shows why.

    Given a classic queue "jobs"
    And a classic queue "mail"
    And "worker" consumes "jobs" with a ladder of 100ms
    And "worker" always fails "bad"
    When "bad" is published to "jobs"
    And "bad" has been parked
    And "mailer" starts to consume "mail"
    And "m1" is published to "mail"
    Then "mailer" handled "m1"

  @ISO-012 @must @source:F13
  Scenario: The messages behind a poison message keep flowing
    With one message at a time, whatever blocks the first blocks them all.

    Given a classic queue "jobs"
    And "worker" consumes "jobs" with a ladder of 200ms, 200ms and a prefetch of 1
    And "worker" always fails "bad"
    When "bad" is published to "jobs"
    And the messages "m1" to "m20" are published to "jobs"
    Then "worker" handled 20 messages "m*"
    And "bad" is parked once

  @ISO-013 @must @source:C32
  Scenario: Parking reaches nobody else either
    The parked copy goes to its queue and nowhere else.

    Given a fanout exchange "orders"
    And "billing" consumes "orders" with a ladder of 100ms
    And a witness queue "witness" bound to "orders"
    And "billing" parks "m1"
    When "m1" is published to "orders"
    Then "m1" is parked once
    And "witness" holds "m1" once
    And nothing was published to "orders" but "m1" itself
