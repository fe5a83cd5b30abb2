package steps

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/parkproof/parkproof/scenarios/ledger"
	"github.com/parkproof/parkproof/toxics/frame"
)

func (w *World) declarationSteps(s Words) {
	s.Step(`^"([^"]*)" declared its source queue before its retry and parking queues$`, w.sourceFirst)
	s.Step(`^"([^"]*)" began to consume after everything was declared$`, w.consumeLast)
	s.Step(`^nothing was declared after "([^"]*)" began to consume$`, w.nothingDeclaredAfter)
	s.Step(`^there are (\d+) retry queues$`, func(n int) error {
		if delays := w.fixedDelays(); delays > 0 {
			n = delays
		}
		return w.queueCount(n, "retry queues", w.conventions().RetryQueue, w.conventions().isRetryQueue)
	})
	s.Step(`^there are (\d+) parking queues$`, func(n int) error {
		return w.queueCount(n, "parking queues", w.conventions().ParkedQueue, w.conventions().isParkedQueue)
	})
	s.Step(`^the retry queue of (\w+) exists already with other arguments$`, w.otherRetryQueue)
	s.Step(`^every retry queue is durable, holds messages for its rung and has no expiry of its own$`, w.retryQueuesAsRungs)
	s.Step(`^nothing was published to "([^"]*)" but "([^"]*)" itself$`, w.nothingPublishedTo)
}

// asked are the requests of a process that declare, bind or consume, as they went out.
func (w *World) asked(p *consumerProcess) []ledger.Event {
	var events []ledger.Event
	for _, e := range w.Ledger.Events() {
		if e.Process == p.name && e.Kind == ledger.Asked {
			events = append(events, e)
		}
	}
	return events
}

// declares is the queue that a request declares, other than by asking whether it is there.
func declares(e ledger.Event) (string, bool) {
	m, ok := e.Method.(*frame.QueueDeclare)
	return e.Queue, ok && !m.Passive
}

func (w *World) sourceFirst(_ context.Context, name string) error {
	c, err := w.consumer(name)
	if err != nil {
		return err
	}
	conv := w.conventions()
	source := false
	for _, e := range w.asked(c.process) {
		queue, ok := declares(e)
		switch {
		case !ok:
		case queue == c.queue || queue == "" && c.exclusive:
			source = true
		case !source && (conv.isParkedQueue(queue) || conv.isRetryQueue(queue)):
			return &Failure{Expected: fmt.Sprintf("the source queue %q to be declared first", c.queue), Seen: fmt.Sprintf("%q was declared before it", queue)}
		}
	}
	if !source {
		return &Failure{Expected: fmt.Sprintf("the source queue %q to be declared", c.queue), Seen: "it was not"}
	}
	return nil
}

func (w *World) consumeLast(_ context.Context, name string) error {
	c, err := w.consumer(name)
	if err != nil {
		return err
	}
	consuming := false
	for _, e := range w.asked(c.process) {
		switch e.Method.(type) {
		case *frame.BasicConsume:
			consuming = consuming || e.Queue == c.queue
		case *frame.QueueDeclare, *frame.QueueBind, *frame.ExchangeDeclare, *frame.BasicQos:
			if consuming {
				return &Failure{Expected: fmt.Sprintf("%q to consume after all else", name), Seen: e.Text + " after it began to consume"}
			}
		}
	}
	if !consuming {
		return &Failure{Expected: fmt.Sprintf("%q to consume queue %q", name, c.queue), Seen: "no such consume on the wire"}
	}
	return nil
}

func (w *World) nothingDeclaredAfter(_ context.Context, name string) error {
	c, err := w.consumer(name)
	if err != nil {
		return err
	}
	w.finally(func() error {
		consuming := false
		for _, e := range w.asked(c.process) {
			switch m := e.Method.(type) {
			case *frame.BasicConsume:
				consuming = true
			case *frame.QueueDeclare:
				if consuming && !m.Passive {
					return &Failure{Expected: "no queue to be declared in the failure path", Seen: fmt.Sprintf("queue %q was declared after consuming began", e.Queue)}
				}
			case *frame.ExchangeDeclare:
				if consuming && !m.Passive {
					return &Failure{Expected: "no exchange to be declared in the failure path", Seen: fmt.Sprintf("exchange %q was declared after consuming began", e.Exchange)}
				}
			case *frame.QueueBind:
				if consuming {
					return &Failure{Expected: "no queue to be bound in the failure path", Seen: fmt.Sprintf("queue %q was bound after consuming began", e.Queue)}
				}
			}
		}
		return nil
	})
	return nil
}

func (w *World) queueCount(want int, what, convention string, is func(string) bool) error {
	if err := needs(convention, what); err != nil {
		return err
	}
	var names []string
	w.look(func(b *ledger.Book) bool {
		for name := range b.Topology.Queues {
			if is(name) {
				names = append(names, name)
			}
		}
		return true
	})
	slices.Sort(names)
	if len(names) != want {
		return &Failure{Expected: fmt.Sprintf("%d %s", want, what), Seen: fmt.Sprintf("%d: %s", len(names), orNone(names))}
	}
	return nil
}

// fixedDelays is how many distinct delays there are in the ladders of a library that has its own; 0
// for one that takes the case's.
func (w *World) fixedDelays() int {
	delays := map[time.Duration]bool{}
	for _, p := range w.allProcesses() {
		if p.fixedLadder() {
			for _, rung := range p.rungs() {
				delays[rung] = true
			}
		}
	}
	return len(delays)
}

// retryQueue is the name of the retry queue of a delay, or of the first one of a library that has a
// ladder of its own. A case that asks for it has one source queue.
func (w *World) retryQueue(d time.Duration) string {
	d = w.ownRung(d)
	source := ""
	for name, is := range w.declared {
		if is.kind == "queue" {
			source = w.physical(name)
		}
	}
	return w.conventions().retryQueue(source, d)
}

// ownRung is the delay, or the first one of a library that has a ladder of its own.
func (w *World) ownRung(d time.Duration) time.Duration {
	w.mu.Lock()
	p := w.processes[defaultProcess]
	w.mu.Unlock()
	if p != nil && p.fixedLadder() {
		return p.rungs()[0]
	}
	return d
}

// otherRetryQueue declares the retry queue of a delay before the consumer does, with a TTL that is
// not its own. The conventions are the adapter's, which has to be asked first.
func (w *World) otherRetryQueue(ctx context.Context, delay string) error {
	d, err := time.ParseDuration(delay)
	if err != nil {
		return fmt.Errorf("the delay %q cannot be read: %w", delay, err)
	}
	if _, err := w.process(ctx, defaultProcess, []time.Duration{d}, 0); err != nil {
		return err
	}
	queue := w.retryQueue(d)
	if err := needs(queue, "retry queue"); err != nil {
		return err
	}
	other := amqp.Table{amqp.QueueMessageTTLArg: d.Milliseconds() + 1}
	topology, err := w.topology()
	if err != nil {
		return err
	}
	if _, err := topology.QueueDeclare(queue, true, false, false, false, other); err != nil {
		return fmt.Errorf("declaring queue %q: %w", queue, err)
	}
	return nil
}

func (w *World) retryQueuesAsRungs() error {
	conv := w.conventions()
	if err := needs(conv.RetryQueue, "retry queue"); err != nil {
		return err
	}
	if !strings.Contains(conv.RetryQueue, "{delay}") {
		return &Unsupported{What: "this: the names of its retry queues do not tell their delays"}
	}
	var failure error
	seen := 0
	w.look(func(b *ledger.Book) bool {
		for name, q := range b.Topology.Queues {
			rung, is := conv.rungOf(name)
			if !is {
				continue
			}
			seen++
			ttl, _ := q.Args.Integer(amqp.QueueMessageTTLArg)
			_, expires := q.Args.Get(amqp.QueueTTLArg)
			if !q.Durable || ttl != rung.Milliseconds() || expires {
				failure = &Failure{
					Expected: fmt.Sprintf("the retry queue %q to be durable, to have a message TTL of %d ms and no expiry", name, rung.Milliseconds()),
					Seen:     fmt.Sprintf("durable %t, message TTL %d ms, expiry %t", q.Durable, ttl, expires),
				}
			}
		}
		return true
	})
	if seen == 0 && failure == nil {
		return &Failure{Expected: "retry queues", Seen: "none was declared"}
	}
	return failure
}

// nothingPublishedTo checks the wire once everything has settled: whoever published to the exchange
// was parkproof.
func (w *World) nothingPublishedTo(_ context.Context, exchange, message string) error {
	w.finally(func() error {
		for _, e := range w.Ledger.Events() {
			if e.Kind == ledger.Published && e.Process != "" && e.Exchange == w.physical(exchange) {
				return &Failure{
					Message:  e.Message,
					Expected: fmt.Sprintf("nothing to be published to exchange %q but %s by its publisher", exchange, message),
					Seen:     fmt.Sprintf("the consumer published %s to it with the key %q", cmp.Or(e.Message, "a message"), e.Key),
				}
			}
		}
		return nil
	})
	return nil
}
