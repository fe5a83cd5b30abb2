package toxics

import (
	"testing"

	"github.com/parkproof/parkproof/scenarios/ledger"
	"github.com/parkproof/parkproof/toxics/frame"
)

func TestTold(t *testing.T) {
	of := func(ids ...string) (targets []ledger.Target) {
		for _, id := range ids {
			targets = append(targets, ledger.Target{Message: id, Exchange: "x", Key: "k"})
		}
		return targets
	}
	for _, c := range []struct {
		sighting ledger.Sighting
		want     string
	}{
		{ledger.Sighting{Method: "channel.open"}, "channel.open, from the consumer's connection 2"},
		{
			ledger.Sighting{Method: "basic.publish", Role: ledger.RolePublishing, Targets: of("m1")},
			`basic.publish of m1 on exchange "x", from the consumer's connection 2 (publishing)`,
		},
		{
			ledger.Sighting{Method: "basic.publish", Targets: []ledger.Target{{Message: "m1", Key: "parked"}}},
			`basic.publish of m1 to queue "parked", from the consumer's connection 2`,
		},
		{
			ledger.Sighting{Method: "basic.deliver", FromBroker: true, Role: ledger.RoleConsuming, Targets: []ledger.Target{{Message: "m1", Exchange: "x", Key: "k", Queue: "q"}}},
			`basic.deliver of m1 on queue "q", from the broker, on the consumer's connection 2 (consuming)`,
		},
		{
			ledger.Sighting{Method: "queue.declare", Role: ledger.RoleConsuming | ledger.RolePublishing, Targets: []ledger.Target{{Queue: "q"}}},
			`queue.declare on queue "q", from the consumer's connection 2 (consuming and publishing)`,
		},
		{ // a message that nobody knows is not named
			ledger.Sighting{Method: "basic.ack", FromBroker: true, Targets: []ledger.Target{{}}},
			"basic.ack, from the broker, on the consumer's connection 2",
		},
		{
			ledger.Sighting{Method: "basic.ack", FromBroker: true, Targets: of("m1", "", "m2", "m3")},
			"basic.ack of m1, m2, m3, from the broker, on the consumer's connection 2",
		},
		{
			ledger.Sighting{Method: "basic.ack", FromBroker: true, Targets: of("m1", "m2", "m3", "m4", "m5")},
			"basic.ack of m1, m2, m3 and 2 more, from the broker, on the consumer's connection 2",
		},
	} {
		if got := told(2, &c.sighting); got != c.want {
			t.Errorf("%s\nwant\n%s", got, c.want)
		}
	}
}

func TestRoleName(t *testing.T) {
	for role, want := range map[ledger.Role]string{
		0: "", ledger.RoleConsuming: "consuming", ledger.RolePublishing: "publishing",
		ledger.RoleConsuming | ledger.RolePublishing: "consuming and publishing",
	} {
		if got := RoleName(role); got != want {
			t.Errorf("%d: %q", role, got)
		}
	}
}

// What fired stands in the ledger for each message that it struck, or once.
func TestFiringsInTheLedger(t *testing.T) {
	b := newBroken(t)
	confirming(b.client, b.broker, 1)
	b.faults.Arm(Fault{Trigger: Trigger{Method: "basic.ack", FromBroker: true}, Action: Hold, Text: "held"})
	b.faults.Arm(Fault{Trigger: Trigger{Method: "channel.open"}, Action: Hold, Text: "kept"})
	b.faults.Arm(Fault{Trigger: publishing("m4"), Action: CutBefore, Text: "cut"})
	publish(b.client, b.broker, 1, "m1")
	publish(b.client, b.broker, 1, "m2")
	b.broker.say(1, &frame.BasicAck{DeliveryTag: 2, Multiple: true})
	b.await("held", func(e ledger.Event) bool { return e.Kind == ledger.Fired && e.Message == "m2" })
	b.client.send(method(t, 2, &frame.ChannelOpen{}), published(t, 1, "m4"))
	b.broker.endsWithout()
	var got []ledger.Event
	for _, e := range b.ledger.Events() {
		if e.Kind == ledger.Fired {
			got = append(got, e)
		}
	}
	want := []ledger.Event{
		{Message: "m1", Channel: 1, Text: "held: basic.ack of m1, m2, from the broker, on the consumer's connection 1 (publishing)"},
		{Message: "m2", Channel: 1, Text: "held: basic.ack of m1, m2, from the broker, on the consumer's connection 1 (publishing)"},
		{Channel: 2, Text: "kept: channel.open, from the consumer's connection 1 (publishing)"},
		// A cut strikes whatever is on the connection.
		{Channel: 1, Text: `cut: basic.publish of m4 to queue "q", from the consumer's connection 1 (publishing)`},
	}
	if len(got) != len(want) {
		t.Fatalf("%d firings, want %d", len(got), len(want))
	}
	for i, e := range got {
		if w := want[i]; e.Message != w.Message || e.Channel != w.Channel || e.Text != w.Text || e.Process != "p" || e.Conn != 1 {
			t.Errorf("%+v\nwant\n%+v", e, w)
		}
	}
}
