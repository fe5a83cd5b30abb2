package reference

import (
	"context"
	"errors"
	"hash/maphash"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/parkproof/parkproof/reference/internal/seam"
)

// directReplyTo starts the reply-to of a caller that uses RabbitMQ's direct reply-to.
const directReplyTo = "amq.rabbitmq.reply-to."

// defaultSteps are the steps as they should be.
func (c *Consumer) defaultSteps() seam.Steps {
	made := copies{
		headers: c.client.headers,
		ladder:  c.ladder,
		retry:   c.client.opts.Names.Retry,
		parked:  c.client.opts.Names.Parked,
	}
	return seam.Steps{
		Attempt:   func(headers amqp.Table) int64 { return attemptOf(headers, c.client.headers.attempt) },
		Exhausted: made.exhausted,
		Retry:     made.retryCopy,
		Park:      made.parkedCopy,
		Publish:   c.publisher.publish,
		Ack:       func(d amqp.Delivery) error { return d.Ack(false) },
		HandBack:  c.handBack,
		Fail:      c.failed,
		RetryArguments: func(delay time.Duration) amqp.Table {
			return retryArguments(delay, c.client.opts.RetryArguments)
		},
		Resubscribe: func() bool { return true },
	}
}

// fail records a handler's failure and takes its delivery down the failure path.
func (c *Consumer) fail(s *session, d amqp.Delivery, err error) {
	attempt := c.steps.Attempt(d.Headers)
	if cause := context.Cause(s.ctx); cause != nil {
		// The broker has the delivery back, or is about to. A copy would be one too many.
		c.unsettled(s.queue, &d, also(cause, err))
		return
	}
	park := parks(err)
	if park && c.replies {
		park = false
		c.client.diagnose(slog.LevelWarn, Diagnostic{
			Kind: KindParkNotApplicable, Queue: s.queue, MessageID: d.MessageId, Attempt: int(attempt), Err: err,
		})
	}
	var panicked *PanicError
	if asPanic(err, &panicked) {
		c.client.say("a handler panicked", "queue", s.queue, "panic", panicked.Value, "stack", string(panicked.Stack))
	}
	reason, cause := reasonOf(err)
	c.steps.Fail(s.ctx, seam.Failure{
		Delivery: d, Queue: s.queue, Attempt: attempt, Park: park, Err: err, Reason: reason, Cause: cause, At: time.Now(),
	})
}

// failed publishes the copy and waits for its confirm; only then it acks. A crash in between leaves the
// broker with both, never with neither. Where the copy was not published, the original is handed back.
func (c *Consumer) failed(ctx context.Context, f seam.Failure) {
	var copied seam.Copy
	exhausted := c.steps.Exhausted(f)
	if exhausted {
		copied = c.steps.Park(f)
	} else {
		copied = c.steps.Retry(f)
	}
	if err := c.steps.Publish(ctx, copied); err != nil {
		c.steps.HandBack(ctx, f.Delivery, err)
		return
	}
	if err := c.steps.Ack(f.Delivery); err != nil {
		c.unsettled(f.Queue, &f.Delivery, err)
		return
	}
	c.holds.release(&f.Delivery)

	told := Diagnostic{
		Kind: KindRetry, Queue: f.Queue, MessageID: f.Delivery.MessageId, Attempt: int(f.Attempt),
		Delay: copied.Delay, Target: copied.Exchange, Err: f.Err,
	}
	level := slog.LevelInfo
	if exhausted {
		told.Kind, told.Target, level = KindPark, copied.Key, slog.LevelError
	}
	c.client.diagnose(level, told)
}

// handBack gives a delivery back to its queue, whose copy could not be published. At once it would come
// back at once, and the broker and the handler would spin. So it is held first, for a delay that doubles,
// up to a cap, each time the same message comes back to this; the delivery counts against the prefetch
// meanwhile. It is nacked, not rejected: brokers from 4.3 count rejects only against a delivery limit.
func (c *Consumer) handBack(ctx context.Context, d amqp.Delivery, why error) {
	if cause := context.Cause(ctx); cause != nil {
		c.unsettled(c.Queue(), &d, also(cause, why))
		return
	}
	delay := c.holds.next(&d)
	c.client.diagnose(slog.LevelWarn, Diagnostic{
		Kind: KindHandedBack, Queue: c.Queue(), MessageID: d.MessageId, Delay: delay, Err: why,
	})
	timer := time.NewTimer(delay)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-c.stopping: // nobody here will take it: do not keep it from the others
	case <-ctx.Done(): // the channel is gone, or about to be
	}
	if err := d.Nack(false, true); err != nil {
		c.unsettled(c.Queue(), &d, err)
	}
}

// answer publishes the reply to a request. It reports whether the request may be acked.
func (c *Consumer) answer(s *session, d amqp.Delivery, reply Reply) bool {
	if d.ReplyTo == "" {
		c.client.diagnose(slog.LevelWarn, Diagnostic{
			Kind: KindUnanswered, Queue: s.queue, MessageID: d.MessageId, Err: errors.New("the request has no reply-to"),
		})
		return true
	}
	err := c.publisher.publish(s.ctx, seam.Copy{
		Key: d.ReplyTo,
		// A direct reply-to is no queue: the broker returns what is mandatory, and delivers it all the same.
		Mandatory: !strings.HasPrefix(d.ReplyTo, directReplyTo),
		Message: amqp.Publishing{
			Headers:         reply.Headers,
			ContentType:     reply.ContentType,
			ContentEncoding: reply.ContentEncoding,
			Type:            reply.Type,
			CorrelationId:   d.CorrelationId,
			// The caller's queue is gone with the caller or a restart: persisting would be for nobody.
			DeliveryMode: amqp.Transient,
			Timestamp:    time.Now(),
			Body:         reply.Body,
		},
	})
	switch {
	case err == nil:
		return true
	case errors.Is(err, errReturned):
		// The caller is gone. Doing the work again would not bring it back.
		c.client.diagnose(slog.LevelWarn, Diagnostic{
			Kind: KindUnanswered, Queue: s.queue, MessageID: d.MessageId, Target: d.ReplyTo, Err: err,
		})
		return true
	}
	if errors.Is(err, errTooLarge) {
		c.fail(s, d, err) // for ever, if it were handed back
		return false
	}
	c.steps.HandBack(s.ctx, d, err)
	return false
}

// returned tells of a message that the broker could not route.
func (c *Consumer) returned(r amqp.Return) {
	target := r.Exchange
	if target == "" {
		target = r.RoutingKey
	}
	c.client.diagnose(slog.LevelError, Diagnostic{
		Kind: KindReturned, Queue: c.Queue(), MessageID: r.MessageId, Target: target,
		Err: errors.New(r.ReplyText),
	})
}

// asPanic is errors.As for an error whose methods may panic.
func asPanic(err error, target **PanicError) (ok bool) {
	defer func() {
		if recover() != nil {
			ok = false
		}
	}()
	return errors.As(err, target)
}

// holds counts how often each message was handed back, so that its hold grows. A message is known by its
// content, since a redelivery has no other identity; messages that are equal share a count.
type holds struct {
	backoff Backoff
	seed    maphash.Seed

	size atomic.Int64 // of held: mostly 0, and looked at for every message

	mu   sync.Mutex
	held map[uint64]hold
}

type hold struct {
	times int
	last  time.Time
}

// holdsLimit is the number of messages above which counts of messages not seen for long are dropped: they
// were settled by another consumer.
const holdsLimit = 1024

// key identifies a message by content.
func (h *holds) key(d *amqp.Delivery) uint64 {
	var hash maphash.Hash
	hash.SetSeed(h.seed)
	_, _ = hash.WriteString(d.MessageId)
	_ = hash.WriteByte(0)
	_, _ = hash.WriteString(d.RoutingKey)
	_ = hash.WriteByte(0)
	_, _ = hash.Write(d.Body)
	return hash.Sum64()
}

// next counts a hand-back and returns how long to hold the delivery first.
func (h *holds) next(d *amqp.Delivery) time.Duration {
	key, now := h.key(d), time.Now()
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.held == nil {
		h.held = make(map[uint64]hold)
	}
	if len(h.held) >= holdsLimit {
		for other, seen := range h.held {
			if now.Sub(seen.last) > 4*h.backoff.Max {
				delete(h.held, other)
			}
		}
	}
	held := h.held[key]
	held.times++
	held.last = now
	h.held[key] = held
	h.size.Store(int64(len(h.held)))
	return h.backoff.delay(held.times, rand.Float64())
}

// release forgets a message that was settled.
func (h *holds) release(d *amqp.Delivery) {
	if h.size.Load() == 0 {
		return
	}
	key := h.key(d)
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.held, key)
	h.size.Store(int64(len(h.held)))
}
