package steps

import (
	"context"
	"fmt"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/parkproof/parkproof/scenarios/ledger"
)

// inspectPace is the pause between two looks at a queue's counts, which nothing announces.
const inspectPace = 20 * time.Millisecond

func (w *World) queueSteps(s Words) {
	s.Step(`^a (classic|quorum) queue "([^"]*)"$`, w.declareQueue)
	s.Step(`^a witness queue "([^"]*)"$`, func(name string) error { return w.witness(name, "", "", nil) })
	s.Step(`^a witness queue "([^"]*)" bound to "([^"]*)"$`, func(name, exchange string) error { return w.witness(name, exchange, "", nil) })
	s.Step(`^a witness queue "([^"]*)" bound to "([^"]*)" with the key "([^"]*)"$`, func(name, exchange, key string) error { return w.witness(name, exchange, key, nil) })
	s.Step(`^a witness queue "([^"]*)" bound to "([^"]*)" with the header "([^"]*)" as "([^"]*)"$`, func(name, exchange, header, value string) error {
		return w.witness(name, exchange, "", amqp.Table{"x-match": "all", header: value})
	})
	s.Step(`^"([^"]*)" holds "([^"]*)" (once|twice|\d+ times)$`, w.holds)
	s.Step(`^"([^"]*)" keeps "([^"]*)"$`, w.keeps)
	s.Step(`^"([^"]*)" has (\d+) consumers$`, w.hasConsumers)
}

func (w *World) declareQueue(kind, name string) error {
	args := amqp.Table(nil)
	if kind == "quorum" {
		args = amqp.Table{amqp.QueueTypeArg: amqp.QueueTypeQuorum}
	}
	if _, err := w.topology.QueueDeclare(w.physical(name), true, false, false, false, args); err != nil {
		return fmt.Errorf("declaring queue %q: %w", name, err)
	}
	w.declared[name] = declared{kind: "queue", queueType: kind}
	return nil
}

// witness makes a queue in which messages may stay, to see what reaches it.
func (w *World) witness(name, exchange, key string, args amqp.Table) error {
	if err := w.declareQueue("classic", name); err != nil {
		return err
	}
	w.looks.Lock()
	w.terms.Kept[w.physical(name)] = true
	w.looks.Unlock()
	if exchange == "" {
		return nil
	}
	if err := w.topology.QueueBind(w.physical(name), key, w.physical(exchange), false, args); err != nil {
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

// inspect asks the broker for a queue's counts, on a channel of its own: a queue that is not there
// closes it.
func (w *World) inspect(queue string) (amqp.Queue, error) {
	ch, err := w.conn.Channel()
	if err != nil {
		return amqp.Queue{}, fmt.Errorf("opening a channel: %w", err)
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
