package reference

import (
	"maps"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/parkproof/parkproof/reference/internal/seam"
)

// Headers that the broker acts upon.
const (
	headerCC    = "CC"
	headerBCC   = "BCC"
	headerDeath = "x-death"
)

// copies makes the messages that take the place of a failed delivery. It is pure.
type copies struct {
	headers headerNames
	ladder  []time.Duration
	retry   func(delay time.Duration) string // exchange of a delay
	parked  func(queue string) string        // parking queue of a source queue
}

// exhausted reports whether there is no rung left, or the handler asked to park. An attempt at or over the
// ladder's end parks, whoever wrote it: after a shorter ladder was deployed, for example.
func (c copies) exhausted(f seam.Failure) bool {
	return f.Park || f.Attempt > int64(len(c.ladder))
}

// retryCopy is what waits in the retry queue. It is published to the delay's fanout exchange, which leaves
// the routing key free to name the source queue: that is where the broker dead-letters it to.
func (c copies) retryCopy(f seam.Failure) seam.Copy {
	delay := c.ladder[f.Attempt-1]
	message := c.base(f)
	message.Headers[c.headers.attempt] = f.Attempt + 1
	return seam.Copy{
		Exchange:    c.retry(delay),
		Key:         f.Queue,
		Mandatory:   true,
		Message:     message,
		Delay:       delay,
		Dispensable: []string{c.headers.priorDeath},
	}
}

// parkedCopy is what stays in the parking queue, with what a post-mortem needs.
func (c copies) parkedCopy(f seam.Failure) seam.Copy {
	message := c.base(f)
	h := message.Headers
	h[c.headers.attempt] = f.Attempt
	h[c.headers.queue] = f.Queue
	h[c.headers.reason] = f.Reason
	h[c.headers.at] = f.At.UnixMilli()
	// A message that was parked before and put back must not keep that failure's cause.
	delete(h, c.headers.cause)
	if f.Cause != "" {
		h[c.headers.cause] = f.Cause
	}
	return seam.Copy{
		Key:         c.parked(f.Queue),
		Mandatory:   true,
		Message:     message,
		Parked:      true,
		Dispensable: []string{c.headers.priorDeath, c.headers.cause, c.headers.reason},
	}
}

// base is the delivery as a message that can be published again: the same body, headers and properties, but
// for what would make the broker refuse, expire or spread the copy. What a copy cannot carry as it came is
// kept under a header of the library's own.
func (c copies) base(f seam.Failure) amqp.Publishing {
	d := f.Delivery
	h := make(amqp.Table, len(d.Headers)+8)
	maps.Copy(h, d.Headers)

	c.origin(h, d)

	// CC and BCC are routing keys besides the one published with: the copy would reach those queues as well.
	move(h, headerCC, c.headers.cc)
	move(h, headerBCC, c.headers.bcc)

	// x-death stays as it came: brokers before 4.0 go on counting in it, later ones ignore it and start
	// anew. But brokers before 4.0 also find cycles by it. A message that once expired in the source queue
	// and was put back names that queue, and would be dropped in silence at the end of its retry.
	if diedIn(h[headerDeath], f.Queue) {
		move(h, headerDeath, c.headers.priorDeath)
	}

	// The broker refuses a user-id that is not the publishing connection's, and closes the channel.
	if d.UserId != "" {
		h[c.headers.userID] = d.UserId
	}
	// The publisher's expiration would cut a retry short, and delete a parked message.
	if d.Expiration != "" {
		h[c.headers.expiration] = d.Expiration
	}

	return amqp.Publishing{
		Headers:         h,
		ContentType:     d.ContentType,
		ContentEncoding: d.ContentEncoding,
		// Whatever the original was: a transient copy is gone after a restart, in its delay or in parking.
		DeliveryMode:  amqp.Persistent,
		Priority:      d.Priority,
		CorrelationId: d.CorrelationId,
		ReplyTo:       d.ReplyTo,
		MessageId:     d.MessageId,
		Timestamp:     d.Timestamp,
		Type:          d.Type,
		AppId:         d.AppId,
		Body:          d.Body,
	}
}

// origin records where the message was first published to. After one hop it comes back through the default
// exchange under its queue's name, and the broker's own headers name the retry exchange, so this is the only
// record; it is written once and kept.
func (c copies) origin(h amqp.Table, d amqp.Delivery) {
	if _, ok := h[c.headers.exchange].(string); !ok {
		h[c.headers.exchange] = d.Exchange
	}
	if _, ok := h[c.headers.key].(string); !ok {
		h[c.headers.key] = d.RoutingKey
	}
}

// move renames a header, where there is one.
func move(h amqp.Table, from, to string) {
	if value, ok := h[from]; ok {
		h[to] = value
		delete(h, from)
	}
}

// diedIn reports whether an x-death header names the queue.
func diedIn(death any, queue string) bool {
	list, _ := death.([]any)
	for _, entry := range list {
		if t, ok := entry.(amqp.Table); ok && t["queue"] == queue {
			return true
		}
	}
	return false
}

// cloneTable copies a table and the tables and lists in it, so that a handler that changes the headers it
// was given does not change what a retry carries.
func cloneTable(t amqp.Table) amqp.Table {
	if t == nil {
		return nil
	}
	c := make(amqp.Table, len(t))
	for name, value := range t {
		c[name] = cloneField(value)
	}
	return c
}

func cloneField(value any) any {
	switch v := value.(type) {
	case amqp.Table:
		return cloneTable(v)
	case []any:
		c := make([]any, len(v))
		for i := range v {
			c[i] = cloneField(v[i])
		}
		return c
	case []byte:
		return append([]byte{}, v...)
	}
	return value
}

// contentHeaderOverhead is what the frame of a content header has besides properties, in bytes: 8 of the
// frame, 2 class, 2 weight, 8 body size, 2 flags; and the fixed-size properties: 1 delivery mode, 1
// priority, 8 timestamp.
const contentHeaderOverhead = 8 + 14 + 10

// headerFrameSize returns the size, in bytes, of the one frame that has all properties of the message.
func headerFrameSize(p *amqp.Publishing) int {
	n := contentHeaderOverhead + tableSize(p.Headers)
	for _, s := range []string{p.ContentType, p.ContentEncoding, p.CorrelationId, p.ReplyTo, p.Expiration, p.MessageId, p.Type, p.UserId, p.AppId} {
		n += 1 + len(s)
	}
	return n
}

func tableSize(t amqp.Table) int {
	n := 4
	for name, value := range t {
		n += 1 + len(name) + fieldSize(value)
	}
	return n
}

func fieldSize(value any) int {
	switch v := value.(type) {
	case string:
		return 5 + len(v)
	case []byte:
		return 5 + len(v)
	case amqp.Table:
		return 1 + tableSize(v)
	case []any:
		n := 5
		for _, item := range v {
			n += fieldSize(item)
		}
		return n
	}
	return 9 // the widest scalar, and its type
}
