package steps

import (
	"context"
	"maps"
	"slices"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/parkproof/parkproof/scenarios/ledger"
	"github.com/parkproof/parkproof/toxics/frame"
)

func TestOpenConnections(t *testing.T) {
	events := []ledger.Event{
		{Kind: ledger.ConnectionOpened, Conn: 1}, // parkproof's own
		{Kind: ledger.ConnectionOpened, Conn: 2, Process: "consumer"},
		{Kind: ledger.ConnectionOpened, Conn: 3, Process: "consumer"},
		{Kind: ledger.ConnectionLost, Conn: 4, Process: "consumer", Broker: true}, // refused, and never open
		{Kind: ledger.ChannelClosed, Conn: 2, Channel: 1, Process: "consumer"},
		{Kind: ledger.ConnectionOpened, Conn: 5, Process: "other"},
		{Kind: ledger.ConnectionClosed, Conn: 3, Process: "consumer"},
		{Kind: ledger.ConnectionLost, Conn: 5, Process: "other"},
		{Kind: ledger.ConnectionOpened, Conn: 6, Process: "other"},
	}
	if open := slices.Sorted(maps.Keys(openConnections(events))); !slices.Equal(open, []int{2, 6}) {
		t.Errorf("%v are open", open)
	}
}

// TestYoungQuorumQueuesAreWaitedFor: a kill would leave them broken.
func TestYoungQuorumQueuesAreWaitedFor(t *testing.T) {
	declared := func(name, kind string, passive bool) ledger.Event {
		return ledger.Event{Kind: ledger.QueueDeclared, Queue: name, Method: &frame.QueueDeclare{
			Queue: name, Passive: passive, Arguments: frame.Table{{Key: amqp.QueueTypeArg, Value: kind}},
		}}
	}
	for _, tt := range []struct {
		name   string
		events []ledger.Event
		waits  bool
	}{
		{"none", nil, false},
		{"a classic one", []ledger.Event{declared("jobs", "classic", false)}, false},
		{"one that was only asked for", []ledger.Event{declared("jobs", "quorum", true)}, false},
		{"one that is gone again", []ledger.Event{declared("jobs", "quorum", false), {Kind: ledger.QueueDeleted, Queue: "jobs"}}, false},
		{"one", []ledger.Event{declared("jobs", "quorum", false)}, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := &World{Ledger: ledger.New()}
			w.book = ledger.NewBook(&w.terms)
			for _, e := range tt.events {
				w.Ledger.Add(e)
			}
			ctx, cancel := context.WithTimeout(t.Context(), quorumAge+10*time.Second)
			defer cancel()
			began := time.Now()
			if err := w.quorumAges(ctx); err != nil {
				t.Fatal(err)
			}
			if took := time.Since(began); (took > quorumAge/2) != tt.waits {
				t.Errorf("it took %s", took)
			}
			w.Ledger.Add(declared("jobs", "quorum", false)) // again, which makes it no younger
			began = time.Now()
			if err := w.quorumAges(ctx); err != nil {
				t.Fatal(err)
			}
			if took := time.Since(began); tt.waits && took > quorumAge/2 {
				t.Errorf("a queue that was declared again was waited for, %s", took)
			}
		})
	}
	w := &World{Ledger: ledger.New()}
	w.book = ledger.NewBook(&w.terms)
	w.Ledger.Add(declared("jobs", "quorum", false))
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if err := w.quorumAges(over); err == nil {
		t.Error("an interruption is no error")
	}
}

func TestNothingIsAskedOfABrokerThatIsAway(t *testing.T) {
	w := &World{Ledger: ledger.New()}
	w.leave()
	if !w.isAway() {
		t.Error("it is not away")
	}
	for name, ask := range map[string]func() (*amqp.Channel, error){
		"publisher": w.publisher, "topology": w.topology, "drainer": w.drainer, "spare": w.spare,
	} {
		if ch, err := ask(); ch != nil || err != errAway {
			t.Errorf("%s: %v, %v", name, ch, err)
		}
	}
	if n, err := w.drain("jobs"); n != 0 || err != nil {
		t.Errorf("draining: %d, %v", n, err)
	}
	if err := w.disconnect(); err != nil {
		t.Errorf("disconnecting what was never connected: %v", err)
	}
}
