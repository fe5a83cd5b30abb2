package steps

import (
	"context"
	"fmt"
	"slices"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/parkproof/parkproof/scenarios/broker"
	"github.com/parkproof/parkproof/scenarios/ledger"
)

// A limit is a policy: the queue is of the library's own declaration, whose arguments are not the case's.
func (w *World) limitSteps(s Words) {
	s.Step(`^the parking queue of "([^"]*)" takes at most (\d+) messages? and refuses more$`, func(ctx context.Context, name string, most int) error {
		return w.limitParking(ctx, name, most)
	})
	s.Step(`^the retry queue of (\w+) takes at most (\d+) messages? and refuses more$`, func(ctx context.Context, delay string, most int) error {
		queue, err := w.retryOf(delay)
		if err != nil {
			return err
		}
		return w.limit(ctx, queue, most)
	})
	s.Step(`^the limit of the parking queue of "([^"]*)" is lifted$`, func(ctx context.Context, name string) error {
		queue, err := w.parkingNamed(name)
		if err != nil {
			return err
		}
		return w.lift(ctx, queue)
	})
	s.Step(`^the limit of the retry queue of (\w+) is lifted$`, func(ctx context.Context, delay string) error {
		queue, err := w.retryOf(delay)
		if err != nil {
			return err
		}
		return w.lift(ctx, queue)
	})
}

func (w *World) parkingNamed(name string) (string, error) {
	c, err := w.consumer(name)
	if err != nil {
		return "", err
	}
	return w.parkingOf(c)
}

// retryOf is the retry queue of a delay.
func (w *World) retryOf(delay string) (string, error) {
	d, err := time.ParseDuration(delay)
	if err != nil {
		return "", fmt.Errorf("the delay %q cannot be read: %w", delay, err)
	}
	queue := w.retryQueue(d)
	return queue, needs(queue, "retry queue")
}

func (w *World) limitParking(ctx context.Context, name string, most int) error {
	queue, err := w.parkingNamed(name)
	if err != nil {
		return err
	}
	return w.limit(ctx, queue, most)
}

// policyOf names the policy of a queue.
func policyOf(queue string) string { return "parkproof-limit-" + queue }

// limit has the broker refuse what is published to a queue that is full: with reject-publish, a publisher
// in confirm mode gets a nack.
func (w *World) limit(ctx context.Context, queue string, most int) error {
	if !w.owned || !w.Broker.Can(broker.Management) {
		return &NotApplicable{Why: "policies need a management API and a virtual host of parkproof's own"}
	}
	ctx, cancel := context.WithTimeout(ctx, ours)
	defer cancel()
	w.fired(fmt.Sprintf("queue %q takes at most %d messages and refuses more", queue, most))
	w.watch(firing{text: fmt.Sprintf("queue %q refuses what it has no room for", queue), fired: func() int { return w.refusals(queue) }})
	return w.Broker.SetPolicy(ctx, w.vhost, policyOf(queue), queue, map[string]any{
		"max-length": most, "overflow": amqp.QueueOverflowRejectPublish,
	})
}

// refusals is how many copies that were published to the queue the broker has refused.
func (w *World) refusals(queue string) int {
	n := 0
	w.look(func(b *ledger.Book) bool {
		for _, copies := range b.CopiesOf {
			for _, c := range copies {
				if c.Refused != 0 && slices.Contains(c.To, queue) {
					n++
				}
			}
		}
		return true
	})
	return n
}

func (w *World) lift(ctx context.Context, queue string) error {
	ctx, cancel := context.WithTimeout(ctx, ours)
	defer cancel()
	return w.Broker.ClearPolicy(ctx, w.vhost, policyOf(queue), queue)
}
