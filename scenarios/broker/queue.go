//go:build unix

package broker

import (
	"context"
	"fmt"
	"net/url"
	"time"

	rabbithole "github.com/michaelklishin/rabbit-hole/v2"
)

// Queue is one of a virtual host's queues and what is in it.
type Queue struct {
	Name                           string
	Type                           string // "classic", "quorum", "stream"
	State                          string // "running", or why it is not
	Durable, Exclusive, AutoDelete bool
	Args                           map[string]any
	// Ready and Unacked are messages; Total may be more than their sum for a
	// moment (messages that an at-least-once dead-lettering holds, for example).
	Ready, Unacked, Total int
	// Known: the broker gave the numbers. It cannot for a queue that is down.
	Known bool
	// Age is how old the numbers may have been when Queues was called; 0 means
	// that they are exact: nothing that the broker confirmed before the call is
	// missing.
	Age time.Duration
}

const (
	// quorumAge is how old a quorum queue's numbers can be with our quorumTick:
	// the tick, and the time that a busy machine takes to serve it.
	quorumAge = 4 * quorumTick * time.Millisecond
	// foreignAge is the same where RabbitMQ's own tick and statistics interval of
	// 5 s hold.
	foreignAge = 6 * time.Second
)

// Queues lists the queues of a virtual host with their numbers as of this call.
//
// With disable_stats and enable_queue_totals the management API asks each classic
// queue itself (measured on 3.8.9, 3.10.8, 4.0.5 and 4.3.6); its statistics lag by
// seconds and are not used. A quorum queue tells its numbers on a tick of its own,
// so where there is one, the call waits for that tick on a broker that parkproof
// started, and says how old the numbers may be on one that it did not.
func (b *Broker) Queues(ctx context.Context, vhost string) ([]Queue, error) {
	if err := b.need(Management); err != nil {
		return nil, err
	}
	queues, err := b.queues(ctx, vhost)
	if err != nil || b.provider == ProviderURL {
		return queues, err
	}
	for _, queue := range queues {
		if queue.Age == 0 {
			continue
		}
		timer := time.NewTimer(quorumAge)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
		queues, err = b.queues(ctx, vhost)
		for i := range queues {
			queues[i].Age = 0
		}
		return queues, err
	}
	return queues, nil
}

func (b *Broker) queues(ctx context.Context, vhost string) ([]Queue, error) {
	client, err := b.management(ctx)
	if err != nil {
		return nil, err
	}
	found, err := client.ListQueuesWithParametersIn(vhost, url.Values{
		"disable_stats":       {"true"},
		"enable_queue_totals": {"true"},
	})
	if err != nil {
		return nil, b.hide(fmt.Errorf("broker %s: list the queues of %s: %w", b.Name(), vhost, err))
	}
	queues := make([]Queue, len(found))
	for i, info := range found {
		queues[i] = queueOf(info, b.provider != ProviderURL)
	}
	return queues, nil
}

// queueOf reads one entry of the list; ours says that the broker has our tick.
func queueOf(info rabbithole.QueueInfo, ours bool) Queue {
	queue := Queue{
		Name: info.Name, Type: info.Type, State: info.Status, Durable: info.Durable,
		Exclusive: info.Exclusive, AutoDelete: bool(info.AutoDelete), Args: info.Arguments,
		Ready: info.MessagesReady, Unacked: info.MessagesUnacknowledged, Total: info.Messages,
		// The list leaves the state out for a queue that is well, on some versions.
		Known: info.Status == "" || info.Status == "running" || info.Status == "flow" || info.Status == "idle",
	}
	if queue.Type == "" {
		queue.Type = "classic"
	}
	switch {
	case info.MessagesDetails != nil || info.MessageStats != nil:
		// A version that ignores the parameters answers with statistics.
		queue.Age = foreignAge
	case queue.Type != "classic" && ours:
		queue.Age = quorumAge
	case queue.Type != "classic":
		queue.Age = foreignAge
	}
	return queue
}
