package reference

import (
	"context"
	"fmt"
	"math"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// Handler processes one delivery. Nil acks the message. An error, or a panic, is a failure: the message is
// retried after the next rung of the ladder, or parked, after the last attempt or when the error is, or
// wraps, a Park.
//
// Handlers run concurrently, up to the prefetch. The context is cancelled when the outcome no longer
// matters: the subscription was lost, so the broker delivers the message again, or Stop ran out of time.
type Handler func(ctx context.Context, d Delivery) error

// Replier processes a request and returns its reply. An error is a failure, as in a Handler; but Park does
// not apply, since a caller waits for an answer: it counts as any other failure.
type Replier func(ctx context.Context, d Delivery) (Reply, error)

// Reply is the answer to a request. It is published to the request's reply-to with its correlation-id.
type Reply struct {
	Body            []byte
	ContentType     string
	ContentEncoding string
	Type            string
	Headers         amqp.Table
}

// validate checks what the client library would only notice while it writes.
func (r *Reply) validate() error {
	for what, text := range map[string]string{"content-type": r.ContentType, "content-encoding": r.ContentEncoding, "type": r.Type} {
		if len(text) > maxName {
			return fmt.Errorf("the reply's %s has %d bytes, and AMQP allows %d", what, len(text), maxName)
		}
	}
	if err := validateTable(r.Headers); err != nil {
		return fmt.Errorf("the reply's headers: %w", err)
	}
	return nil
}

// Delivery is one attempt at a message.
type Delivery struct {
	// Attempt counts from 1. A redelivery without a recorded failure repeats its number.
	Attempt int
	// Body must not be changed: it is what a retry publishes again.
	Body []byte
	// Headers are a copy. On a retry they have what the library and the broker added.
	Headers amqp.Table

	MessageID       string
	CorrelationID   string
	ReplyTo         string
	ContentType     string
	ContentEncoding string
	Type            string
	AppID           string
	// UserID is set on the first attempt only: a copy cannot carry it, and keeps it in a header, which is no
	// proof of who published the message.
	UserID     string
	Expiration string
	Priority   uint8
	Timestamp  time.Time
	// Persistent is true of every retry, whatever the original was.
	Persistent bool

	// Queue is the source queue.
	Queue string
	// Redelivered is the broker's flag: it has delivered this entry before, perhaps.
	Redelivered bool
	// Exchange and RoutingKey are where the message was first published to, on retries too.
	Exchange   string
	RoutingKey string
}

func newDelivery(d *amqp.Delivery, queue string, attempt int64, names *headerNames) Delivery {
	v := Delivery{
		Attempt:         int(min(attempt, math.MaxInt)),
		Body:            d.Body,
		Headers:         cloneTable(d.Headers),
		MessageID:       d.MessageId,
		CorrelationID:   d.CorrelationId,
		ReplyTo:         d.ReplyTo,
		ContentType:     d.ContentType,
		ContentEncoding: d.ContentEncoding,
		Type:            d.Type,
		AppID:           d.AppId,
		UserID:          d.UserId,
		Expiration:      d.Expiration,
		Priority:        d.Priority,
		Timestamp:       d.Timestamp,
		Persistent:      d.DeliveryMode == amqp.Persistent,
		Queue:           queue,
		Redelivered:     d.Redelivered,
		Exchange:        d.Exchange,
		RoutingKey:      d.RoutingKey,
	}
	if exchange, ok := d.Headers[names.exchange].(string); ok {
		v.Exchange = exchange
	}
	if key, ok := d.Headers[names.key].(string); ok {
		v.RoutingKey = key
	}
	return v
}
