package reference

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/parkproof/parkproof/reference/internal/seam"
)

// errClosed is what everything ends with that is still waiting when its client is closed.
var errClosed = errors.New("the client is closed")

// Client holds the two connections that its consumers share: one that consumes and acks, and one that
// publishes copies and replies, so that a broker that blocks publishers does not stop the acks. It is safe
// for concurrent use.
type Client struct {
	opts    Options
	headers headerNames
	log     *slog.Logger
	alter   func(*seam.Steps)

	ctx    context.Context // ends when the client is closed
	cancel context.CancelCauseFunc

	consuming  *link
	publishing *link

	work tasks // every goroutine of the client that is not a handler's

	mu        sync.Mutex
	consumers map[*Consumer]struct{}
	closed    bool
	closing   time.Time // deadline of Close; zero where it has none
}

// Open connects to a broker. It tries the URLs over and over, at the pace of Options.Backoff, until one
// answers or the context ends; a broker that refuses the credentials or the virtual host ends it at once,
// where there is no other URL. Afterwards the client comes back by itself whenever a connection is lost.
// The context serves Open alone.
func Open(ctx context.Context, options Options) (*Client, error) {
	options = options.withDefaults()
	if err := options.validate(); err != nil {
		return nil, fmt.Errorf("reference: options: %w", err)
	}
	c := &Client{
		opts:      options,
		headers:   headersWith(options.HeaderPrefix),
		log:       options.Logger,
		alter:     seam.From(ctx),
		consumers: make(map[*Consumer]struct{}),
	}
	c.ctx, c.cancel = context.WithCancelCause(context.WithoutCancel(ctx))
	c.consuming, c.publishing = newLink(c, roleConsume), newLink(c, rolePublish)

	consuming, err := c.consuming.connect(ctx, true)
	if err != nil {
		c.cancel(errClosed)
		return nil, fmt.Errorf("reference: %w", err)
	}
	publishing, err := c.publishing.connect(ctx, true)
	if err != nil {
		c.cancel(errClosed)
		c.consuming.goodbye(consuming)
		return nil, fmt.Errorf("reference: %w", err)
	}
	c.background(func() { c.consuming.keep(c.ctx, consuming) })
	c.background(func() { c.publishing.keep(c.ctx, publishing) })
	return c, nil
}

// background runs f on a goroutine that Close waits for.
func (c *Client) background(f func()) { c.work.start(f) }

// patience is how long the closing of a connection may take.
func (c *Client) patience() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closing.IsZero() {
		return goodbyeTimeout
	}
	return max(min(goodbyeTimeout, time.Until(c.closing)), 0)
}

// Consume declares the source's topology and subscribes to it, and returns once the broker has accepted
// the subscription. Until the context ends, it comes back from what passes, a lost connection for example;
// what does not pass without somebody acting (a permission, a queue with other arguments, a missing queue)
// is returned at once, as a *TopologyError. The context serves Consume alone: the consumer goes on until
// Stop, or until the client is closed.
func (c *Client) Consume(ctx context.Context, source Source, handler Handler, options ...ConsumerOption) (*Consumer, error) {
	if handler == nil {
		return nil, errors.New("reference: consume: the handler is nil")
	}
	return c.start(ctx, source, func(ctx context.Context, d Delivery) (Reply, error) {
		return Reply{}, handler(ctx, d)
	}, false, options)
}

// Reply is Consume for requests: what the handler returns is published to the request's reply-to, with its
// correlation-id, and the request is acked once the broker has confirmed the reply.
func (c *Client) Reply(ctx context.Context, source Source, handler Replier, options ...ConsumerOption) (*Consumer, error) {
	if handler == nil {
		return nil, errors.New("reference: reply: the handler is nil")
	}
	return c.start(ctx, source, handler, true, options)
}

func (c *Client) start(ctx context.Context, source Source, handler Replier, replies bool, options []ConsumerOption) (*Consumer, error) {
	consumer, err := newConsumer(c, source, handler, replies, options)
	if err != nil {
		return nil, fmt.Errorf("reference: consume %s: %w", source, err)
	}
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return nil, fmt.Errorf("reference: consume %s: %w", source, errClosed)
	}
	c.consumers[consumer] = struct{}{}
	c.background(consumer.run)
	c.mu.Unlock()

	select {
	case <-consumer.subscribed:
		return consumer, nil
	case <-consumer.done:
		select {
		case <-consumer.subscribed: // and ended since
			return consumer, nil
		default:
		}
		err = consumer.Err()
		if err == nil {
			err = errClosed
		}
	case <-ctx.Done():
		consumer.abandon(context.Cause(ctx))
		err = also(context.Cause(ctx), consumer.lastFailure())
	}
	return nil, fmt.Errorf("reference: consume %s: %w", source, err)
}

func (c *Client) forget(consumer *Consumer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.consumers, consumer)
}

// Close stops the consumers, as Consumer.Stop does, and closes the connections. Where the context ends
// first, it cancels the handlers that still run, closes the connections at once, and returns the context's
// error; the broker then delivers again what was not settled. Close never waits longer than the context,
// but for handlers' goroutines that ignore theirs, which it leaves behind.
func (c *Client) Close(ctx context.Context) error {
	c.mu.Lock()
	c.closed = true
	if deadline, ok := ctx.Deadline(); ok {
		c.closing = deadline
	}
	consumers := make([]*Consumer, 0, len(c.consumers))
	for consumer := range c.consumers {
		consumers = append(consumers, consumer)
	}
	c.mu.Unlock()

	failures := make([]error, len(consumers))
	var stopping sync.WaitGroup
	for i, consumer := range consumers {
		stopping.Go(func() { failures[i] = consumer.Stop(ctx) })
	}
	stopping.Wait()
	c.cancel(errClosed)

	ended := c.work.ended()
	select {
	case <-ended:
		return also(failures...)
	case <-ctx.Done():
	}
	// What is left hangs in a socket.
	c.consuming.sever()
	c.publishing.sever()
	<-ended
	return also(append(failures, fmt.Errorf("reference: close: %w", context.Cause(ctx)))...)
}
