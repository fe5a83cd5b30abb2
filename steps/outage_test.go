package steps

import (
	"testing"

	"github.com/parkproof/parkproof/scenarios/ledger"
)

// TestStartedIsWhenThereIsAConsumerAgain: a message that is home before its consumer is not late, and one
// that a consumer got while parkproof itself was not connected yet has come.
func TestStartedIsWhenThereIsAConsumerAgain(t *testing.T) {
	const broke = 2
	consumes := func(process, queue string) ledger.Event {
		return ledger.Event{Kind: ledger.Consuming, Conn: 2, Channel: 1, Process: process, Queue: queue, Consumer: queue}
	}
	fired := ledger.Event{Kind: ledger.Fired, Text: "the broker was killed"}
	for _, tt := range []struct {
		name   string
		events []ledger.Event
		place  int // of the event that it starts with, 0 for none
	}{
		{"not back", []ledger.Event{consumes("consumer", "jobs"), fired}, 0},
		{"another is back", []ledger.Event{consumes("consumer", "jobs"), fired, consumes("other", "jobs"), consumes("consumer", "mail")}, 0},
		{"back", []ledger.Event{{}, fired, {}, consumes("consumer", "jobs")}, 4},
		{"back twice", []ledger.Event{
			{}, fired, consumes("consumer", "jobs"), {Kind: ledger.ConnectionLost, Conn: 2, Process: "consumer"}, consumes("consumer", "jobs"),
		}, 3},
	} {
		l := ledger.New()
		for _, e := range tt.events {
			l.Add(e)
		}
		events := l.Events()
		at, found := started(events, broke, "consumer", "jobs")
		if found != (tt.place > 0) || found && at != events[tt.place-1].At {
			t.Errorf("%s: %s, %t", tt.name, at, found)
		}
	}
}

func TestNoStartIsWaitedForWhereThereWasNone(t *testing.T) {
	w := &World{Ledger: ledger.New(), consumers: map[string]*consumer{
		"worker": {queue: "jobs", process: &consumerProcess{name: "consumer"}},
	}}
	w.book = ledger.NewBook(&w.terms)
	if err := w.givenSinceStart(t.Context(), "m*", "worker", "1s"); err == nil {
		t.Error("the broker was not started, and the step took it for started")
	}
	if err := w.isMissed(t.Context(), "1s"); err == nil {
		t.Error("the broker is there, and the step took it for away")
	}
}
