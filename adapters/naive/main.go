// Command naive is the retry that one writes in an afternoon, behind an adapter: a failed message is
// acked and published again, with a count in a header, to where it came from. It is here to be found
// out, as the example of a consumer of your own.
package main

import (
	"context"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/parkproof/parkproof/adapters/kit"
	"github.com/parkproof/parkproof/scenarios/adapter/protocol"
)

const attempts = 4

type naive struct {
	session *kit.Session
	conn    *amqp.Connection
	channel *amqp.Channel
}

func main() { kit.Main(&naive{}) }

func (n *naive) Init(_ context.Context, session *kit.Session, settings kit.Settings) (protocol.Ready, error) {
	conn, err := amqp.Dial(settings.URLs[0])
	if err != nil {
		return protocol.Ready{}, err
	}
	n.session, n.conn = session, conn
	n.channel, err = conn.Channel()
	return protocol.Ready{
		Name: "naive", Version: "1.0.0", Attempts: attempts, DelaysMS: []int64{0, 0, 0},
		Supports:    []string{protocol.CanRetry, protocol.CanExchange, protocol.CanConcurrent + ":1"},
		Conventions: protocol.Conventions{AttemptHeader: "x-retries", AttemptHeaderCounts: "retries", MessageID: "property"},
	}, err
}

func (n *naive) Consume(_ context.Context, s kit.Subscription) (string, error) {
	queue := s.Queue
	if s.Exchange != "" {
		queue = s.Exchange + "." + s.Consumer
		if _, err := n.channel.QueueDeclare(queue, true, false, false, false, nil); err != nil {
			return "", err
		}
		if err := n.channel.QueueBind(queue, s.Key, s.Exchange, false, nil); err != nil {
			return "", err
		}
	}
	deliveries, err := n.channel.Consume(queue, "", false, false, false, false, nil)
	if err != nil {
		return "", err
	}
	go func() {
		for d := range deliveries {
			n.handle(s.Consumer, d)
		}
	}()
	return queue, nil
}

func (n *naive) handle(consumer string, d amqp.Delivery) {
	retries, _ := d.Headers["x-retries"].(int32)
	verdict := n.session.Handle(context.Background(), kit.Delivery{
		Consumer: consumer, Message: d.MessageId, Attempt: int(retries) + 1, Body: d.Body,
	})
	_ = d.Ack(false)
	if verdict.Err() == nil || retries+1 >= attempts {
		return
	}
	_ = n.channel.Publish(d.Exchange, d.RoutingKey, false, false, amqp.Publishing{
		MessageId: d.MessageId, ContentType: d.ContentType, Body: d.Body, Headers: amqp.Table{"x-retries": retries + 1},
	})
}

func (n *naive) Stop(context.Context, string) error { return n.channel.Close() }

func (n *naive) Close(context.Context, bool) error { return n.conn.Close() }
