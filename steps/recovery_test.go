package steps

import (
	"testing"

	"github.com/parkproof/parkproof/scenarios/ledger"
)

func TestMostSubscriptions(t *testing.T) {
	numbered := func(events ...ledger.Event) []ledger.Event {
		for i := range events {
			events[i].Seq = i + 1
		}
		return events
	}
	consuming := func(conn int, queue string) ledger.Event {
		return ledger.Event{Kind: ledger.Consuming, Process: "consumer", Conn: conn, Channel: 1, Queue: queue, Consumer: queue}
	}
	fired := ledger.Event{Kind: ledger.Fired}
	stop := ledger.Event{Kind: ledger.StopAsked, Process: "consumer"}
	lost := ledger.Event{Kind: ledger.ConnectionLost, Process: "consumer", Conn: 2}
	for _, tt := range []struct {
		name   string
		events []ledger.Event
		want   int
	}{
		{"nothing more", numbered(consuming(2, "jobs")), 0},
		{"a second one", numbered(consuming(2, "jobs"), consuming(3, "jobs")), 2},
		{"one in the place of the first", numbered(consuming(2, "jobs"), lost, consuming(3, "jobs")), 1},
		{"one of another queue", numbered(consuming(2, "jobs"), consuming(3, "mail")), 0},
		{"after another fault", numbered(consuming(2, "jobs"), fired, consuming(3, "jobs")), 0},
		{"after a stop", numbered(consuming(2, "jobs"), stop, consuming(3, "jobs")), 0},
	} {
		if got := mostSubscriptions(tt.events, 1, "consumer", "jobs"); got != tt.want {
			t.Errorf("%s: %d, want %d", tt.name, got, tt.want)
		}
	}
}
