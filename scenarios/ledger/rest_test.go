package ledger

import (
	"slices"
	"testing"

	"github.com/parkproof/parkproof/toxics/frame"
)

// TestAtRest goes through a message's life on a ladder of one rung, and asks at each point whether
// anything can still happen.
func TestAtRest(t *testing.T) {
	l := New()
	terms := Terms{Consumers: map[string]string{"worker": "jobs"}, ParkedQueue: func(q string) string { return "parked." + q }}
	b := NewBook(&terms)
	declare := func(queue string, args frame.Table) Event {
		return Event{Kind: QueueDeclared, Process: "p", Queue: queue, Method: &frame.QueueDeclare{Queue: queue, Durable: true, Arguments: args}}
	}
	publish := func(process, key string) Event {
		return Event{Kind: Published, Process: process, Message: "m1", Key: key, Confirms: true, Content: &Content{}}
	}
	var delivered, published int
	for _, step := range []struct {
		name  string
		event func() Event
		rest  bool
	}{
		{"source declared", func() Event { return declare("jobs", nil) }, true},
		{"retry queue declared", func() Event {
			return declare("retry", frame.Table{{Key: "x-message-ttl", Value: int32(100)}, {Key: "x-dead-letter-exchange", Value: ""}})
		}, true},
		{"parking queue declared", func() Event { return declare("parked.jobs", nil) }, true},
		{"consuming", func() Event { return Event{Kind: Consuming, Process: "p", Queue: "jobs", Consumer: "tag"} }, true},
		{"published: it will be delivered", func() Event { return publish("", "jobs") }, false},
		{"delivered: it will be settled", func() Event { return Event{Kind: Delivered, Process: "p", Queue: "jobs", Message: "m1"} }, false},
		{"copy on its way", func() Event { return publish("p", "retry") }, false},
		{"copy confirmed: it will come home", func() Event { return Event{Kind: Confirmed, Process: "p", Covers: []int{published}} }, false},
		{"original acked", func() Event { return Event{Kind: Acked, Process: "p", Covers: []int{delivered}} }, false},
		{"come home: it will be settled", func() Event { return Event{Kind: Delivered, Process: "p", Queue: "jobs", Message: "m1"} }, false},
		{"parked copy on its way", func() Event { return publish("p", "parked.jobs") }, false},
		{"parked copy confirmed", func() Event { return Event{Kind: Confirmed, Process: "p", Covers: []int{published}} }, false},
		{"acked: all is done", func() Event { return Event{Kind: Acked, Process: "p", Covers: []int{delivered}} }, true},
		{"another one published", func() Event { return publish("", "jobs") }, false},
		{"but the consumer cancels itself", func() Event { return Event{Kind: Cancelled, Process: "p", Queue: "jobs", Consumer: "tag"} }, true},
		{"and consumes again", func() Event { return Event{Kind: Consuming, Process: "p", Queue: "jobs", Consumer: "tag"} }, false},
		{"it loses its channel: it may come back", func() Event { return Event{Kind: ChannelClosed, Process: "p"} }, false},
	} {
		e := step.event()
		seq := l.Add(e)
		switch e.Kind {
		case Delivered:
			delivered = seq
		case Published:
			published = seq
		}
		b.Update(l.Events())
		if got := b.AtRest(); got != step.rest {
			t.Errorf("%s: at rest is %t, want %t", step.name, got, step.rest)
		}
	}
}

func TestRunsAway(t *testing.T) {
	l := New()
	b := NewBook(&Terms{})
	for n := range runaway + 1 {
		b.Update(l.Events())
		if b.RunsAway() {
			t.Fatalf("%d deliveries of a message are taken for a loop", n)
		}
		l.Add(Event{Kind: Delivered, Process: "p", Queue: "jobs", Message: "m1"})
	}
	b.Update(l.Events())
	if !b.RunsAway() {
		t.Errorf("%d deliveries of a message are not taken for a loop", runaway+1)
	}
}

func TestAConsumerThatCancelsItself(t *testing.T) {
	consuming := Event{Kind: Consuming, Process: "p", Queue: "jobs", Consumer: "tag"}
	cancelled := Event{Kind: Cancelled, Process: "p", Queue: "jobs", Consumer: "tag"}
	byBroker := cancelled
	byBroker.Broker = true
	stop := Event{Kind: StopAsked, Process: "p"}
	stopOne := Event{Kind: StopAsked, Process: "p", Consumer: "worker"}
	for name, tt := range map[string]struct {
		events []Event
		found  bool
	}{
		"and does not come back":         {[]Event{consuming, cancelled, stop}, true},
		"and comes back":                 {[]Event{consuming, cancelled, consuming, stop, cancelled}, false},
		"when its process is to stop":    {[]Event{consuming, stop, cancelled}, false},
		"when it is to stop":             {[]Event{consuming, stopOne, cancelled, stop}, false},
		"no: the broker cancels it":      {[]Event{consuming, byBroker, stop}, false},
		"and its process ends by itself": {[]Event{consuming, cancelled, {Kind: ProcessExited, Process: "p"}}, true},
	} {
		t.Run(name, func(t *testing.T) {
			l := New()
			for _, e := range tt.events {
				l.Add(e)
			}
			account := Balance(l.Events(), Terms{Consumers: map[string]string{"worker": "jobs"}, Drained: true})
			found := slices.ContainsFunc(account.Findings, func(f Finding) bool {
				return f.Guarantee == ConsumerGoesOn && f.Text == `the consumer cancelled its own consumer of queue "jobs", and did not come back`
			})
			if found != tt.found {
				t.Errorf("found is %t, want %t: %+v", found, tt.found, account.Findings)
			}
		})
	}
}
