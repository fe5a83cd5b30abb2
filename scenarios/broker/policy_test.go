//go:build unix

package broker

import (
	"context"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// TestPolicyRefusesAndIsCleared publishes to a queue right after each call: its word has to hold by then.
func TestPolicyRefusesAndIsCleared(t *testing.T) {
	t.Parallel()
	b := localBroker(t)
	ctx := within(t, 30*time.Second)
	v := vhost(t, b)
	connection, err := b.Dial(ctx, v)
	if err != nil {
		t.Fatal(err)
	}
	defer connection.Close()
	channel, err := connection.Channel()
	if err != nil {
		t.Fatal(err)
	}
	if err := channel.Confirm(false); err != nil {
		t.Fatal(err)
	}
	const queue, other = "parked.a+b", "parked.aab" // the name is no pattern
	for _, name := range []string{queue, other} {
		if _, err := channel.QueueDeclare(name, true, false, false, false, nil); err != nil {
			t.Fatal(err)
		}
	}
	taken := func(ctx context.Context, name string) bool {
		t.Helper()
		confirm, err := channel.PublishWithDeferredConfirmWithContext(ctx, "", name, true, false, amqp.Publishing{})
		if err != nil {
			t.Fatal(err)
		}
		acked, err := confirm.WaitContext(ctx)
		if err != nil {
			t.Fatal(err)
		}
		return acked
	}
	if err := b.SetPolicy(ctx, v, "limit", queue, map[string]any{"max-length": 1, "overflow": amqp.QueueOverflowRejectPublish}); err != nil {
		t.Fatal(err)
	}
	if !taken(ctx, queue) || taken(ctx, queue) || !taken(ctx, other) {
		t.Error("the queue takes other than one message, or another queue is under its policy")
	}
	if err := b.ClearPolicy(ctx, v, "limit", queue); err != nil {
		t.Fatal(err)
	}
	if !taken(ctx, queue) {
		t.Error("the queue refuses a message after its policy was cleared")
	}
	if err := b.SetPolicy(ctx, v, "limit", "nothing", map[string]any{"max-length": 1}); err == nil {
		t.Error("a policy was set on a queue that is not there")
	}
}
