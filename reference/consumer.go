package reference

import (
	"context"
	crand "crypto/rand"
	"errors"
	"fmt"
	"hash/maphash"
	"log/slog"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/parkproof/parkproof/reference/internal/seam"
)

var (
	// errStopped ends a consumer that was stopped.
	errStopped = errors.New("the consumer is stopped")
	// errLost ends the handlers of a subscription that was lost.
	errLost = errors.New("the subscription was lost: the broker delivers the message again")
)

// ConsumerOption adjusts one consumer.
type ConsumerOption func(*consumerOptions)

type consumerOptions struct {
	ladder        []time.Duration
	prefetch      int
	arguments     amqp.Table
	parkArguments amqp.Table
}

// WithLadder gives the consumer a ladder of its own; without rungs, it parks at the first failure.
func WithLadder(rungs ...time.Duration) ConsumerOption {
	return func(o *consumerOptions) { o.ladder = slices.Clone(rungs) }
}

// WithPrefetch gives the consumer a prefetch of its own.
func WithPrefetch(prefetch int) ConsumerOption {
	return func(o *consumerOptions) { o.prefetch = prefetch }
}

// WithConsumerArguments are the arguments of the subscription, x-priority for example.
func WithConsumerArguments(arguments amqp.Table) ConsumerOption {
	return func(o *consumerOptions) { o.arguments = arguments }
}

// WithParkArguments gives the consumer's parking queue arguments of its own.
func WithParkArguments(arguments amqp.Table) ConsumerOption {
	return func(o *consumerOptions) { o.parkArguments = arguments }
}

// Consumer is one subscription, which is set up again whenever it is lost, until it is stopped.
type Consumer struct {
	client    *Client
	source    Source
	topology  topology
	arguments amqp.Table
	prefetch  int
	ladder    []time.Duration
	handler   Replier
	replies   bool

	steps     seam.Steps
	publisher *publisher

	ctx    context.Context // ends what the consumer still waits for, at the latest
	cancel context.CancelCauseFunc
	// jobs hands deliveries to the workers: goroutines that run one handler at a time, as many as were ever
	// needed at once, at most the prefetch. They outlive a subscription, so that a handler which runs on after
	// a lost one counts. A goroutine a delivery would spend more on growing its stack than on the delivery.
	jobs     chan job
	workers  int // counted by run alone
	stopping chan struct{}
	stopOnce sync.Once
	first    sync.Once
	// subscribed is closed when the broker has accepted the first subscription.
	subscribed chan struct{}
	done       chan struct{}
	err        error // why it ended, nil when stopped; read after done

	consuming atomic.Bool
	holds     holds

	mu      sync.Mutex
	queue   string // as the broker named it
	failure error  // of the last set-up
}

// job is a delivery to be handled.
type job struct {
	s *session
	d amqp.Delivery
}

// session is one subscription, from its channel's opening to its closing. Each delivery keeps to the channel
// it came on: its tag means nothing on another.
type session struct {
	ch           *amqp.Channel
	acknowledger *acknowledger
	queue        string
	tag          string
	deliveries   <-chan amqp.Delivery
	gone         chan struct{}   // closed when the channel is no more
	reason       error           // why, where it was not closed from here; read after gone
	ctx          context.Context // ends when the channel is gone, or when Stop runs out of time
	cancel       context.CancelCauseFunc
	running      sync.WaitGroup // handlers, and the settling of their deliveries
}

func newConsumer(client *Client, source Source, handler Replier, replies bool, options []ConsumerOption) (*Consumer, error) {
	opts := consumerOptions{ladder: client.opts.Ladder, prefetch: client.opts.Prefetch, parkArguments: client.opts.ParkArguments}
	for _, option := range options {
		option(&opts)
	}
	source = source.resolve(client.opts.Names)
	if err := source.validate(client.opts.Names); err != nil {
		return nil, err
	}
	if err := validateLadder(opts.ladder); err != nil {
		return nil, err
	}
	if err := validateRetryNames(opts.ladder, client.opts.Names); err != nil {
		return nil, err
	}
	if err := validatePrefetch(opts.prefetch); err != nil {
		return nil, err
	}
	if err := validateTable(opts.arguments); err != nil {
		return nil, fmt.Errorf("consumer arguments: %w", err)
	}
	if err := validateTable(opts.parkArguments); err != nil {
		return nil, fmt.Errorf("arguments of the parking queue: %w", err)
	}

	c := &Consumer{
		client:     client,
		source:     source,
		arguments:  opts.arguments,
		prefetch:   opts.prefetch,
		ladder:     opts.ladder,
		handler:    handler,
		replies:    replies,
		jobs:       make(chan job),
		stopping:   make(chan struct{}),
		subscribed: make(chan struct{}),
		done:       make(chan struct{}),
		queue:      source.queue,
		holds:      holds{backoff: client.opts.HandBack, seed: maphash.MakeSeed()},
	}
	c.ctx, c.cancel = context.WithCancelCause(client.ctx)
	c.publisher = &publisher{
		link:     client.publishing,
		timeout:  client.opts.ConfirmTimeout,
		window:   min(opts.prefetch, maxWindow),
		onReturn: c.returned,
	}
	c.steps = c.defaultSteps()
	client.alter(&c.steps)
	c.topology = topology{
		source:         source,
		delays:         distinct(opts.ladder),
		names:          client.opts.Names,
		retryArguments: c.steps.RetryArguments,
		parkArguments:  opts.parkArguments,
	}
	c.publisher.restore = c.topology.declareRetries
	return c, nil
}

// Queue returns the source queue's name; for an exclusive source, that of the present subscription.
func (c *Consumer) Queue() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.queue
}

// ParkingQueue returns the name of the source queue's parking queue.
func (c *Consumer) ParkingQueue() string { return c.client.opts.Names.Parked(c.Queue()) }

// Consuming reports whether the consumer is subscribed at present: what a health check wants to know, rather
// than whether there is a connection.
func (c *Consumer) Consuming() bool { return c.consuming.Load() }

// Done is closed when the consumer has ended: stopped, closed with its client, or given up.
func (c *Consumer) Done() <-chan struct{} { return c.done }

// Err returns why the consumer gave up; nil while it goes on, and when it was stopped.
func (c *Consumer) Err() error {
	select {
	case <-c.done:
		return c.err
	default:
		return nil
	}
}

// Stop ends the consumer for good: it takes no more deliveries, hands back those whose handler has not
// begun, and waits for the handlers that run and for what comes of them, to be acked, retried or parked.
// Where the context ends first, it cancels the handlers' contexts, leaves their deliveries to the broker,
// which delivers them again, and returns the context's error. Stop may be called more than once, and at any
// time; not from a handler, which it would wait for.
func (c *Consumer) Stop(ctx context.Context) error {
	c.stopOnce.Do(func() { close(c.stopping) })
	select {
	case <-c.done:
		return nil
	case <-ctx.Done():
	}
	select {
	case <-c.done:
		return nil
	default:
	}
	c.cancel(errStopped)
	return fmt.Errorf("reference: stop consumer of %s: %w", c.Queue(), context.Cause(ctx))
}

// abandon stops the consumer without waiting for anything.
func (c *Consumer) abandon(cause error) {
	c.stopOnce.Do(func() { close(c.stopping) })
	c.cancel(cause)
}

func (c *Consumer) lastFailure() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.failure
}

// stopped reports whether the consumer is to end.
func (c *Consumer) stopped() bool {
	select {
	case <-c.stopping:
		return true
	case <-c.ctx.Done():
		return true
	default:
		return false
	}
}

// run subscribes, and subscribes again. It is the only goroutine that does, so there is never more than one
// subscription, however many signs of one loss there are.
func (c *Consumer) run() {
	// A set-up in progress ends at once when the consumer is stopped; what runs for a subscription goes on.
	settingUp, cancel := context.WithCancelCause(c.ctx)
	defer cancel(nil)
	stopWatching := make(chan struct{})
	defer close(stopWatching)
	c.client.background(func() {
		select {
		case <-c.stopping:
			cancel(errStopped)
		case <-stopWatching:
		}
	})

	var leftovers sync.WaitGroup // sessions whose handlers still run
	tries := streak{backoff: c.client.opts.Backoff}
	for !c.stopped() {
		s, err := c.subscribe(settingUp)
		if err == nil {
			tries.reset()
			c.consuming.Store(true)
			c.first.Do(func() { close(c.subscribed) })
			c.client.diagnose(slog.LevelInfo, Diagnostic{Kind: KindConsuming, Queue: s.queue})
			err = c.serve(s)
			c.consuming.Store(false)
			leftovers.Go(func() { c.finish(s) })
		}
		if c.stopped() {
			break
		}
		delay := tries.next()
		c.mu.Lock()
		c.failure = err
		c.mu.Unlock()
		if c.hopeless(err) || tries.spent() || !c.steps.Resubscribe() {
			c.err = err
			c.client.diagnose(slog.LevelError, Diagnostic{Kind: KindGaveUp, Queue: c.Queue(), Err: err})
			break
		}
		c.client.diagnose(slog.LevelWarn, Diagnostic{Kind: KindInterrupted, Queue: c.Queue(), Delay: delay, Err: err})
		sleep(settingUp, delay)
	}
	leftovers.Wait()
	c.publisher.close()
	c.cancel(errStopped)
	c.client.forget(c)
	close(c.done)
}

// hopeless reports whether a failed set-up is not worth another try. The first one is a mistake that its
// caller is there to hear of. Later on, the consumer has worked before, and what stands in its way may be
// put right without it: it goes on trying, and says so.
func (c *Consumer) hopeless(err error) bool {
	if errors.Is(err, errGaveUp) {
		return true
	}
	select {
	case <-c.subscribed:
		return false
	default:
		return permanent(err)
	}
}

// subscribe opens a channel, declares the topology and subscribes: prefetch before consume, consume last.
func (c *Consumer) subscribe(ctx context.Context) (*session, error) {
	conn, err := c.client.consuming.get(ctx)
	if err != nil {
		return nil, err
	}
	// Each step waits for the broker, which the client library cannot be kept from.
	type result struct {
		s   *session
		err error
	}
	results := make(chan result) // without a buffer: what is put in has been taken
	c.client.background(func() {
		s, err := c.setUp(ctx, conn)
		select {
		case results <- result{s, err}:
		case <-ctx.Done():
			if err == nil {
				_ = s.ch.Close()
			}
		}
	})
	select {
	case r := <-results:
		return r.s, r.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

func (c *Consumer) setUp(ctx context.Context, conn *connection) (*session, error) {
	ch, err := conn.Channel()
	if err != nil {
		return nil, fmt.Errorf("open a channel to consume on: %w", err)
	}
	s := &session{ch: ch, acknowledger: newAcknowledger(ch), tag: "reference." + crand.Text(), gone: make(chan struct{})}
	s.ctx, s.cancel = context.WithCancelCause(c.ctx)
	closes := ch.NotifyClose(make(chan *amqp.Error, 1))
	c.client.background(func() {
		for reason := range closes {
			s.reason = reason
		}
		close(s.gone)
		// No outcome of a handler can be told any more: end what waits to tell one.
		s.cancel(errLost)
	})
	fail := func(err error) (*session, error) {
		_ = ch.Close()
		return nil, err
	}
	if s.queue, err = c.topology.declare(ch); err != nil {
		return fail(err)
	}
	// Per consumer, not per channel: quorum queues refuse the latter.
	if err := ch.Qos(c.prefetch, 0, false); err != nil {
		return fail(fmt.Errorf("set prefetch of %d: %w", c.prefetch, err))
	}
	if ctx.Err() != nil {
		return fail(context.Cause(ctx)) // nobody waits for it any more: do not subscribe even for a moment
	}
	if s.deliveries, err = ch.Consume(s.queue, s.tag, false, false, false, false, c.arguments); err != nil {
		return fail(topologyError("consume queue", s.queue, err))
	}
	c.mu.Lock()
	c.queue = s.queue
	c.mu.Unlock()
	return s, nil
}

// serve starts a handler for each delivery, until the subscription is lost or the consumer is to stop.
func (c *Consumer) serve(s *session) error {
	for {
		select {
		case d, ok := <-s.deliveries:
			if !ok {
				return s.lost()
			}
			d.Acknowledger = s.acknowledger
			if !c.begin(job{s, d}) {
				return s.lost()
			}
		case <-c.stopping:
			return errStopped
		case <-c.ctx.Done():
			return errStopped
		}
	}
}

// begin gives a delivery to a worker, and waits for one where all are busy. It reports false where the
// consumer is to stop, or the channel is gone; then the delivery is the broker's again.
func (c *Consumer) begin(j job) bool {
	j.s.running.Add(1)
	select {
	case c.jobs <- j:
		return true
	default:
	}
	if c.workers < c.prefetch {
		c.workers++
		go c.work(&j)
		return true
	}
	select {
	case c.jobs <- j:
		return true
	case <-j.s.gone:
	case <-c.stopping:
		_ = j.d.Nack(false, true)
	case <-c.ctx.Done():
	}
	j.s.running.Done()
	return false
}

// work is a worker, from its first job until its consumer has ended. A handler that ends the goroutine ends
// the worker with it: another takes its place.
func (c *Consumer) work(first *job) {
	ended := false
	defer func() {
		if !ended {
			go c.work(nil)
		}
	}()
	if first != nil {
		c.process(first.s, first.d)
	}
	for {
		select {
		case j := <-c.jobs:
			c.process(j.s, j.d)
		case <-c.done:
			ended = true
			return
		}
	}
}

// lost returns why the deliveries ended.
func (s *session) lost() error {
	if !s.ch.IsClosed() {
		return errors.New("the broker cancelled the subscription")
	}
	<-s.gone
	if s.reason == nil {
		return errors.New("channel closed")
	}
	return fmt.Errorf("channel closed: %w", s.reason)
}

// finish ends a session: it cancels the subscription, waits for its handlers, and closes its channel.
func (c *Consumer) finish(s *session) {
	// Nothing is waited for once Stop has run out of time, and no answer once the channel is gone.
	await := func(done, gone <-chan struct{}) {
		select {
		case <-done:
		case <-gone:
		case <-c.ctx.Done():
		}
	}
	await(c.doing(func() {
		if err := s.ch.Cancel(s.tag, false); err != nil {
			return // the channel is gone: so are its deliveries
		}
		// What was delivered and not begun goes back now, and not with the channel after the slowest handler.
		for d := range s.deliveries {
			_ = d.Nack(false, true)
		}
	}), s.gone)
	// Handlers of a lost channel have lost their say, but whoever stops a consumer wants them to be done.
	await(c.doing(s.running.Wait), nil)
	s.cancel(errStopped)
	// The broker answers once it has taken all that was settled.
	await(c.doing(func() { _ = s.ch.Close() }), s.gone)
}

// doing runs f on a goroutine of its own, and returns a channel that is closed when it is done.
func (c *Consumer) doing(f func()) <-chan struct{} {
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	return done
}

// process runs the handler on a delivery, and settles it. Whatever the handler does, the delivery is settled
// once, and the session told.
func (c *Consumer) process(s *session, d amqp.Delivery) {
	defer s.running.Done()
	var reply Reply
	// What stands if the handler ends the goroutine; deferred calls are all that runs then.
	err := errGoexit
	defer func() { c.settle(s, d, reply, err) }()
	reply, err = c.call(s, d)
}

// call calls the handler, and makes a panic an error.
func (c *Consumer) call(s *session, d amqp.Delivery) (reply Reply, err error) {
	defer func() {
		if value := recover(); value != nil {
			err = &PanicError{Value: value, Stack: debug.Stack()}
		}
	}()
	attempt := c.steps.Attempt(d.Headers)
	return c.handler(s.ctx, newDelivery(&d, s.queue, attempt, &c.client.headers))
}

// settle acks a delivery, or takes it down the failure path. It does not panic.
func (c *Consumer) settle(s *session, d amqp.Delivery, reply Reply, err error) {
	defer func() {
		if value := recover(); value != nil {
			c.client.say("settling a delivery panicked: it is handed back", "queue", s.queue, "panic", value, "stack", string(debug.Stack()))
			_ = d.Nack(false, true)
		}
	}()
	if err == nil && c.replies {
		err = reply.validate()
	}
	if err != nil {
		c.fail(s, d, err)
		return
	}
	if c.replies && !c.answer(s, d, reply) {
		return
	}
	if err := c.steps.Ack(d); err != nil {
		c.unsettled(s.queue, &d, err)
		return
	}
	c.holds.release(&d)
}

// unsettled tells that the channel of a delivery is gone: the broker delivers it again.
func (c *Consumer) unsettled(queue string, d *amqp.Delivery, err error) {
	c.client.diagnose(slog.LevelWarn, Diagnostic{Kind: KindUnsettled, Queue: queue, MessageID: d.MessageId, Err: err})
}
