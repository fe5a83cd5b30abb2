//go:build unix

package broker

import (
	"context"
	"fmt"
	"regexp"
	"time"

	rabbithole "github.com/michaelklishin/rabbit-hole/v2"
)

// SetPolicy puts a policy on one queue of a virtual host, in place of the one of that name. It returns once
// the broker says that the queue is under it.
func (b *Broker) SetPolicy(ctx context.Context, vhost, name, queue string, definition map[string]any) error {
	client, err := b.management(ctx)
	if err != nil {
		return err
	}
	policy := rabbithole.Policy{
		Vhost: vhost, Name: name, Pattern: "^" + regexp.QuoteMeta(queue) + "$", ApplyTo: "queues",
		Priority: 1, Definition: rabbithole.PolicyDefinition(definition),
	}
	if err := done(client.PutPolicy(vhost, name, policy)); err != nil {
		return b.hide(fmt.Errorf("broker %s: set policy %s on queue %q: %w", b.Name(), name, queue, err))
	}
	return b.awaitPolicy(ctx, client, vhost, queue, name)
}

// ClearPolicy takes the policy off again. It returns once the broker says that the queue is under none.
func (b *Broker) ClearPolicy(ctx context.Context, vhost, name, queue string) error {
	client, err := b.management(ctx)
	if err != nil {
		return err
	}
	if err := done(client.DeletePolicy(vhost, name)); err != nil {
		return b.hide(fmt.Errorf("broker %s: clear policy %s of queue %q: %w", b.Name(), name, queue, err))
	}
	return b.awaitPolicy(ctx, client, vhost, queue, "")
}

// awaitPolicy polls until the queue is under the policy of that name.
func (b *Broker) awaitPolicy(ctx context.Context, client *rabbithole.Client, vhost, queue, name string) error {
	pace := time.NewTicker(readyPoll)
	defer pace.Stop()
	for {
		q, err := client.GetQueue(vhost, queue)
		if err != nil {
			return b.hide(fmt.Errorf("broker %s: look at queue %q: %w", b.Name(), queue, err))
		}
		if q.Policy == name {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("broker %s: queue %q is under policy %q and not %q: %w", b.Name(), queue, q.Policy, name, ctx.Err())
		case <-pace.C:
		}
	}
}
