package toxics

import (
	"testing"

	"github.com/parkproof/parkproof/scenarios/ledger"
)

func TestTriggerFits(t *testing.T) {
	publish := ledger.Sighting{
		Method: "basic.publish", HasContent: true, Channel: 1, Role: ledger.RolePublishing,
		Targets: []ledger.Target{{Message: "m1", Exchange: "x", Key: "k"}},
	}
	// A confirm of two publishes, one of them of a message that nobody knows.
	confirm := ledger.Sighting{
		FromBroker: true, Method: "basic.ack", Role: ledger.RoleConsuming | ledger.RolePublishing,
		Targets: []ledger.Target{{Message: "m1", Exchange: "retry"}, {Message: "m2", Key: "parked"}, {}},
	}
	declare := ledger.Sighting{Method: "queue.declare", Targets: []ledger.Target{{Queue: "q"}}}
	flow := ledger.Sighting{Method: "channel.open"}

	toParked := func(of ledger.Target) bool { return of.Key == "parked" }
	toRetry := func(of ledger.Target) bool { return of.Exchange == "retry" }
	yes := func(*ledger.Sighting) bool { return true }
	no := func(*ledger.Sighting) bool { return false }

	for _, c := range []struct {
		name       string
		trigger    Trigger
		connection int
		sighting   ledger.Sighting
		fits       bool
	}{
		{"an empty one fits what comes from the client", Trigger{}, 1, publish, true},
		{"even without a target", Trigger{}, 1, flow, true},
		{"not what comes from the broker", Trigger{}, 1, confirm, false},
		{"from the broker", Trigger{FromBroker: true}, 1, confirm, true},
		{"not from the client", Trigger{FromBroker: true}, 1, publish, false},

		{"connection", Trigger{Connection: 2}, 2, publish, true},
		{"another connection", Trigger{Connection: 2}, 1, publish, false},

		{"role", Trigger{Role: ledger.RolePublishing}, 1, publish, true},
		{"another role", Trigger{Role: ledger.RoleConsuming}, 1, publish, false},
		{"one of both roles", Trigger{Role: ledger.RoleConsuming, FromBroker: true}, 1, confirm, true},
		{"either role", Trigger{Role: ledger.RoleConsuming | ledger.RolePublishing}, 1, publish, true},
		{"no role yet", Trigger{Role: ledger.RolePublishing}, 1, declare, false},

		{"method", Trigger{Method: "basic.publish"}, 1, publish, true},
		{"another method", Trigger{Method: "basic.ack"}, 1, publish, false},

		{"message", Trigger{Message: "m1"}, 1, publish, true},
		{"another message", Trigger{Message: "m2"}, 1, publish, false},
		{"a message's beginning without a star", Trigger{Message: "m"}, 1, publish, false},
		{"a pattern", Trigger{Message: "m*"}, 1, publish, true},
		{"the whole name and a star", Trigger{Message: "m1*"}, 1, publish, true},
		{"another pattern", Trigger{Message: "n*"}, 1, publish, false},
		{"a star is any message", Trigger{Message: "*"}, 1, publish, true},
		{"but a message", Trigger{Message: "*"}, 1, declare, false},
		{"and a command with one", Trigger{Message: "*"}, 1, flow, false},
		{"one of many messages", Trigger{Message: "m2", FromBroker: true}, 1, confirm, true},
		{"none of many", Trigger{Message: "m3", FromBroker: true}, 1, confirm, false},

		{"where", Trigger{Where: toParked, FromBroker: true}, 1, confirm, true},
		{"where nothing is", Trigger{Where: toParked}, 1, publish, false},
		{"where, without targets", Trigger{Where: func(ledger.Target) bool { return true }}, 1, flow, false},
		{"message and place of the same", Trigger{Message: "m2", Where: toParked, FromBroker: true}, 1, confirm, true},
		{"message of one, place of another", Trigger{Message: "m2", Where: toRetry, FromBroker: true}, 1, confirm, false},

		{"inside a content", Trigger{Inside: true}, 1, publish, true},
		{"inside what has none", Trigger{Inside: true}, 1, declare, false},
		{"inside another message's", Trigger{Inside: true, Message: "m2"}, 1, publish, false},

		{"exactly", Trigger{Exactly: yes}, 1, publish, true},
		{"exactly another", Trigger{Exactly: no}, 1, publish, false},
		{"exactly, of another message", Trigger{Exactly: yes, Message: "m2"}, 1, publish, false},

		{"the occurrence is no matter of one command", Trigger{Occurrence: 7}, 1, publish, true},
		{
			"all of it", Trigger{
				Connection: 3, Role: ledger.RolePublishing, Method: "basic.publish", Message: "m*",
				Where: func(of ledger.Target) bool { return of.Exchange == "x" && of.Key == "k" }, Exactly: yes, Inside: true,
			}, 3, publish, true,
		},
	} {
		if got := c.trigger.fits(c.connection, &c.sighting); got != c.fits {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}

func TestMatches(t *testing.T) {
	for _, c := range []struct {
		pattern, message string
		matches          bool
	}{
		{"m1", "m1", true},
		{"m1", "m10", false},
		{"m1*", "m10", true},
		{"m*", "m", true},
		{"*", "m", true},
		{"*", "", true},
		{"m*", "", false},
		{"", "", true},
		{"a*b", "a*b", true}, // a star is one at the end only
		{"a*b", "axb", false},
	} {
		if got := Matches(c.pattern, c.message); got != c.matches {
			t.Errorf("%q, %q: %v", c.pattern, c.message, got)
		}
	}
}
