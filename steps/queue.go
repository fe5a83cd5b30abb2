package steps

import (
	"context"
	"errors"
	"fmt"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/parkproof/parkproof/scenarios/ledger"
)

// inspectPace is the pause between two looks at a queue's counts, which nothing announces.
const inspectPace = 20 * time.Millisecond

func (w *World) queueSteps(s Words) {
	s.Step(`^a (classic|quorum) queue "([^"]*)"$`, w.declareQueue)
	s.Step(`^a witness queue "([^"]*)"$`, func(ctx context.Context, name string) error { return w.witness(ctx, name, "", "", nil) })
	s.Step(`^a witness queue "([^"]*)" bound to "([^"]*)"$`, func(ctx context.Context, name, exchange string) error { return w.witness(ctx, name, exchange, "", nil) })
	s.Step(`^a witness queue "([^"]*)" bound to "([^"]*)" with the key "([^"]*)"$`, func(ctx context.Context, name, exchange, key string) error {
		return w.witness(ctx, name, exchange, key, nil)
	})
	s.Step(`^a witness queue "([^"]*)" bound to "([^"]*)" with the header "([^"]*)" as "([^"]*)"$`, func(ctx context.Context, name, exchange, header, value string) error {
		return w.witness(ctx, name, exchange, "", amqp.Table{"x-match": "all", header: value})
	})
	s.Step(`^"([^"]*)" holds "([^"]*)" (once|twice|\d+ times)$`, w.holds)
	s.Step(`^"([^"]*)" keeps "([^"]*)"$`, w.keeps)
	s.Step(`^"([^"]*)" has (\d+) consumers?$`, w.hasConsumers)
	s.Step(`^there is exactly one consumer of "([^"]*)" within (\w+)$`, w.hasOneConsumer)
}

func (w *World) declareQueue(ctx context.Context, kind, name string) error {
	args := amqp.Table(nil)
	if kind == "quorum" {
		args = amqp.Table{amqp.QueueTypeArg: amqp.QueueTypeQuorum}
	}
	topology, err := w.topology()
	if err != nil {
		return err
	}
	if _, err := topology.QueueDeclare(w.physical(name), true, false, false, false, args); err != nil {
		return fmt.Errorf("declaring queue %q: %w", name, err)
	}
	w.declared[name] = declared{kind: "queue", queueType: kind}
	if w.Alone {
		return w.quorumAges(ctx) // now, and not when the case kills the broker: a message may be in its hop
	}
	return nil
}

// witness makes a queue in which messages may stay, to see what reaches it.
func (w *World) witness(ctx context.Context, name, exchange, key string, args amqp.Table) error {
	if err := w.declareQueue(ctx, "classic", name); err != nil {
		return err
	}
	w.looks.Lock()
	w.terms.Kept[w.physical(name)] = true
	w.looks.Unlock()
	if exchange == "" {
		return nil
	}
	topology, err := w.topology()
	if err != nil {
		return err
	}
	if err := topology.QueueBind(w.physical(name), key, w.physical(exchange), false, args); err != nil {
		return fmt.Errorf("binding queue %q to %q: %w", name, exchange, err)
	}
	return nil
}

// holds checks what a queue holds once everything has settled: only then is it certain that
// nothing more comes.
func (w *World) holds(name, message, count string) error {
	want, err := parseCount(count)
	if err != nil {
		return err
	}
	w.finally(func() error {
		got := 0
		w.look(func(b *ledger.Book) bool { got = len(b.DrainedFrom[w.physical(name)][message]); return true })
		if got != want {
			return &Failure{
				Message:  message,
				Expected: fmt.Sprintf("queue %q to hold %s %s", name, message, count),
				Seen:     fmt.Sprintf("it holds it %s", times(got)),
			}
		}
		return nil
	})
	return nil
}

func (w *World) keeps(name, message string) error {
	w.looks.Lock()
	w.terms.Kept[w.physical(name)] = true
	w.looks.Unlock()
	return w.holds(name, message, "once")
}

// hasConsumers waits until the broker counts that many consumers on the queue.
func (w *World) hasConsumers(ctx context.Context, name string, want int) error {
	got := -1
	err := poll(ctx, quiet, func() (bool, error) {
		q, err := w.inspect(w.physical(name))
		if err != nil {
			return false, err
		}
		got = q.Consumers
		return got == want, nil
	})
	if err != nil {
		return err
	}
	if got != want {
		return &Failure{
			Expected: fmt.Sprintf("queue %q to have %d consumers", name, want),
			Seen:     fmt.Sprintf("the broker counts %d", got),
		}
	}
	return nil
}

// steady is how long the number of consumers of a queue must stay: a second subscription of a
// consumer that comes back follows the first within a round trip or two, even on a busy machine.
const steady = 500 * time.Millisecond

// hasOneConsumer waits until the queue has one consumer that stays the only one. A quorum queue that comes
// back counts the consumers of before for a moment: the watch begins anew with each change.
func (w *World) hasOneConsumer(ctx context.Context, name, limit string) error {
	d, err := time.ParseDuration(limit)
	if err != nil {
		return fmt.Errorf("the time %q cannot be read: %w", limit, err)
	}
	got, began := -1, time.Now()
	since := began
	var seen []int
	err = poll(ctx, d+steady, func() (bool, error) {
		q, err := w.inspect(w.physical(name))
		var refused *amqp.Error
		if err != nil && !(errors.As(err, &refused) && refused.Code == amqp.NotFound) {
			return false, err // one that is not there has none
		}
		if q.Consumers != got {
			got, since = q.Consumers, time.Now()
			seen = append(seen, got)
		}
		return got == 1 && time.Since(since) >= steady || since.Sub(began) > d, nil
	})
	if err != nil {
		return err
	}
	if got != 1 || time.Since(since) < steady {
		return &Failure{
			Expected: fmt.Sprintf("exactly one consumer of queue %q within %s, and that it stays the only one for %s", name, limit, steady),
			Seen:     "the broker counted " + joined(seen),
		}
	}
	return nil
}

// inspect asks the broker for a queue's counts, on a channel of its own: a queue that is not there
// closes it.
func (w *World) inspect(queue string) (amqp.Queue, error) {
	ch, err := w.spare()
	if err != nil {
		return amqp.Queue{}, err
	}
	q, err := ch.QueueDeclarePassive(queue, false, false, false, false, nil)
	if err != nil {
		return q, fmt.Errorf("looking at queue %q: %w", queue, err)
	}
	if err := ch.Close(); err != nil {
		return q, fmt.Errorf("closing a channel: %w", err)
	}
	return q, nil
}

// poll asks until the answer is yes or the time is over; it returns an error only for one of the
// question's.
func poll(ctx context.Context, limit time.Duration, ask func() (bool, error)) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	pace := time.NewTicker(inspectPace)
	defer pace.Stop()
	for {
		yes, err := ask()
		if yes || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-pace.C:
		}
	}
}
