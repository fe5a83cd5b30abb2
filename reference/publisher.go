package reference

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"reflect"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/parkproof/parkproof/reference/internal/seam"
)

// Why a publish failed. Whether the broker has the message is known only for the first two.
var (
	errReturned    = errors.New("the broker returned it: no queue is bound there")
	errRefused     = errors.New("the broker refused it (nack)")
	errUnconfirmed = errors.New("the channel was lost before the broker confirmed it")
	errTimeout     = errors.New("not confirmed in time")
)

// errTooLarge is why a message was not even sent.
var errTooLarge = errors.New("its headers and properties do not fit a frame")

// maxWindow is the most publishes of one consumer that may be unconfirmed at a time: round trips are long
// since hidden, and room for a return is kept for each.
const maxWindow = 2048

// publisher publishes one consumer's copies and replies, and waits for their confirms. It has a channel of
// its own: what the broker closes a channel for hits this consumer only.
type publisher struct {
	link    *link
	timeout time.Duration // from being asked to being confirmed, blocked time left out
	window  int           // publishes that may be unconfirmed at a time
	// restore puts back what publishes go to. It is called on a new channel after the broker closed the last
	// one because an exchange was missing.
	restore func(*amqp.Channel) error
	// onReturn is told of each message that the broker returned.
	onReturn func(amqp.Return)

	mu      sync.Mutex
	current *outlet
	missing bool     // the last channel died of a missing exchange
	opening *opening // in progress, or nil
}

// opening is one channel being opened, for everybody who waits for it.
type opening struct {
	done   chan struct{}
	outlet *outlet
	err    error
}

// outlet is one channel in confirm mode.
type outlet struct {
	conn    *connection
	ch      *amqp.Channel
	writing chan struct{} // held while a message is written: one at a time, and a wait that can be left
	window  chan struct{} // one entry a publish that is not settled
	returns chan amqp.Return
	closed  chan struct{}
	err     error // why it closed; read after closed

	mu        sync.Mutex
	pending   map[*pending]struct{}
	published uint64 // publishes so far
}

// pending is a publish that is not settled.
type pending struct {
	number   uint64 // in the order of publishing
	copy     *seam.Copy
	returned bool
}

// publish publishes a message. It returns nil when the broker has confirmed it, and did not return it; then
// the broker has taken it over. Messages of many callers are on their way at once.
func (p *publisher) publish(ctx context.Context, c seam.Copy) error {
	err := p.try(ctx, &c)
	if err == nil {
		return nil
	}
	target := "exchange " + c.Exchange
	if c.Exchange == "" {
		target = "queue " + c.Key
	}
	return fmt.Errorf("publish to %s: %w", target, err)
}

func (p *publisher) try(ctx context.Context, c *seam.Copy) error {
	patience := time.NewTimer(p.timeout)
	defer patience.Stop()

	out, err := p.outlet(ctx, patience)
	if err != nil {
		return err
	}
	// A header frame that is too long would make the broker close the connection, with all that is
	// unconfirmed on it.
	if err := fit(c, out.conn.Config.FrameSize); err != nil {
		return err
	}

	// expired ends the wait, but not before the broker has accepted publishes for as long as it may take.
	expired := func() bool {
		if open := out.conn.open(); open < p.timeout {
			patience.Reset(p.timeout - open)
			return false
		}
		p.retire(out)
		return true
	}
	enter := func(gate chan struct{}) error {
		for {
			select {
			case gate <- struct{}{}:
				return nil
			case <-out.closed:
				return also(errUnconfirmed, out.err)
			case <-ctx.Done():
				return context.Cause(ctx)
			case <-patience.C:
				if expired() {
					return errTimeout
				}
			}
		}
	}
	if err := enter(out.window); err != nil {
		return err
	}
	if err := enter(out.writing); err != nil {
		<-out.window
		return err
	}
	for blocked := out.conn.unblocked(); blocked != nil; blocked = out.conn.unblocked() {
		select {
		case <-blocked:
		case <-ctx.Done():
			<-out.writing
			<-out.window
			return context.Cause(ctx)
		}
	}
	message := &pending{copy: c}
	out.add(message)
	confirm, err := out.ch.PublishWithDeferredConfirm(c.Exchange, c.Key, c.Mandatory, false, c.Message)
	<-out.writing
	if err != nil {
		p.settled(out, message)
		return err
	}

	for {
		select {
		case <-confirm.Done():
			return p.judge(out, message, confirm.Acked())
		case <-ctx.Done():
			err = context.Cause(ctx)
		case <-patience.C:
			if !expired() {
				continue
			}
			err = errTimeout
		}
		// Nobody waits any more, but its place is taken until the broker has answered for it.
		go func() {
			<-confirm.Done()
			_ = p.judge(out, message, confirm.Acked())
		}()
		return err
	}
}

// judge says what became of a message whose confirm has arrived, or can no longer arrive.
func (p *publisher) judge(out *outlet, message *pending, acked bool) error {
	returned := out.collect(p.onReturn, message)
	p.settled(out, message)
	switch {
	case returned:
		return errReturned
	case acked:
		return nil
	case out.ch.IsClosed():
		<-out.closed
		return also(errUnconfirmed, out.err)
	}
	return errRefused
}

// settled forgets a publish.
func (p *publisher) settled(out *outlet, message *pending) {
	out.mu.Lock()
	delete(out.pending, message)
	out.mu.Unlock()
	<-out.window
}

// retire takes the channel out of use, since a confirm on it is overdue. What else is on its way there may
// still be confirmed, and has as much time for it as any other; then the channel is closed.
func (p *publisher) retire(out *outlet) {
	p.mu.Lock()
	retired := p.current == out
	if retired {
		p.current = nil
	}
	p.mu.Unlock()
	if !retired {
		return // it already is
	}
	client := p.link.client
	client.background(func() {
		for left := p.timeout; left > 0; left = p.timeout - out.conn.open() {
			if !sleep(client.ctx, left) {
				break
			}
		}
		_ = out.ch.Close()
	})
}

// close closes the channel, in the background: a dead link answers late.
func (out *outlet) close(client *Client) {
	client.background(func() { _ = out.ch.Close() })
}

// close closes the publisher's channel.
func (p *publisher) close() {
	p.mu.Lock()
	out := p.current
	p.current = nil
	p.mu.Unlock()
	if out != nil {
		out.close(p.link.client)
	}
}

func (out *outlet) add(message *pending) {
	out.mu.Lock()
	defer out.mu.Unlock()
	out.published++
	message.number = out.published
	out.pending[message] = struct{}{}
}

// collect takes in the returns that have arrived, and reports whether the message is among those returned
// so far. On the wire, the return of a message precedes its confirm; the client library has put a return
// into the buffered channel before it hands on the confirm. So whoever has seen a confirm, and looks here,
// finds the return. The channel has room for every unsettled publish, so the library never has to wait to
// put one in, which it would not do for ever.
func (out *outlet) collect(onReturn func(amqp.Return), message *pending) bool {
	var seen []amqp.Return
	out.mu.Lock()
	for more := true; more; {
		select {
		case r, ok := <-out.returns:
			if more = ok; ok {
				out.match(&r)
				seen = append(seen, r)
			}
		default:
			more = false
		}
	}
	returned := message.returned
	out.mu.Unlock()
	for _, r := range seen {
		onReturn(r)
	}
	return returned
}

// match marks the publish that was returned. The protocol gives a return no number, so it is found by its
// target and content. Of several that are equal in all of it, the oldest is taken: returns come in the order
// of publishing, so as many count as returned as were, and those are as good as the others. A content that
// the broker changed on its way (a plugin may) is found by its target alone: then all that are under way
// there count as returned, and their originals are handed back; better a copy more than a message lost.
func (out *outlet) match(r *amqp.Return) {
	var oldest *pending
	for message := range out.pending {
		if !message.returned && (oldest == nil || message.number < oldest.number) &&
			sameTarget(message.copy, r) && sameContent(&message.copy.Message, r) {
			oldest = message
		}
	}
	if oldest != nil {
		oldest.returned = true
		return
	}
	for message := range out.pending {
		if sameTarget(message.copy, r) {
			message.returned = true
		}
	}
}

func sameTarget(c *seam.Copy, r *amqp.Return) bool {
	return c.Exchange == r.Exchange && c.Key == r.RoutingKey
}

func sameContent(p *amqp.Publishing, r *amqp.Return) bool {
	return p.MessageId == r.MessageId && p.CorrelationId == r.CorrelationId && p.ReplyTo == r.ReplyTo &&
		p.Type == r.Type && p.AppId == r.AppId && p.ContentType == r.ContentType &&
		p.ContentEncoding == r.ContentEncoding && p.Priority == r.Priority && p.DeliveryMode == r.DeliveryMode &&
		p.Timestamp.Unix() == r.Timestamp.Unix() && bytes.Equal(p.Body, r.Body) &&
		len(p.Headers) == len(r.Headers) && (len(p.Headers) == 0 || reflect.DeepEqual(p.Headers, r.Headers))
}

// outlet returns a channel to publish on, opening one where there is none.
func (p *publisher) outlet(ctx context.Context, patience *time.Timer) (*outlet, error) {
	p.mu.Lock()
	if p.current != nil && !p.current.ch.IsClosed() {
		defer p.mu.Unlock()
		return p.current, nil
	}
	if p.opening == nil {
		// The opening goes on when its first caller leaves: the next one needs it too.
		p.opening = &opening{done: make(chan struct{})}
		started, last := p.opening, p.current
		p.link.client.background(func() { p.open(started, last) })
	}
	opened := p.opening
	p.mu.Unlock()

	for {
		select {
		case <-opened.done:
			return opened.outlet, opened.err
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-patience.C:
			// A broker that blocks a connection does not answer on it, for as long as that takes.
			open := p.link.open()
			if open >= p.timeout {
				return nil, errors.New("no channel to publish on in time")
			}
			patience.Reset(p.timeout - open)
		}
	}
}

// open opens a channel in the place of the last, and tells everybody who waits for it.
func (p *publisher) open(o *opening, last *outlet) {
	if last != nil {
		<-last.closed // by then it is known what it died of
	}
	p.mu.Lock()
	missing := p.missing
	p.mu.Unlock()
	out, err := p.newOutlet(missing)
	p.mu.Lock()
	p.opening = nil
	if err == nil {
		p.current = out
		p.missing = false
	}
	p.mu.Unlock()
	o.outlet, o.err = out, err
	close(o.done)
}

func (p *publisher) newOutlet(missing bool) (*outlet, error) {
	conn, err := p.link.get(p.link.client.ctx)
	if err != nil {
		return nil, err
	}
	ch, err := conn.Channel()
	if err != nil {
		return nil, fmt.Errorf("open a channel to publish on: %w", err)
	}
	if missing {
		if err := p.restore(ch); err != nil {
			_ = ch.Close()
			return nil, err
		}
	}
	out := &outlet{
		conn:    conn,
		ch:      ch,
		writing: make(chan struct{}, 1),
		window:  make(chan struct{}, p.window),
		returns: ch.NotifyReturn(make(chan amqp.Return, p.window)),
		closed:  make(chan struct{}),
		pending: make(map[*pending]struct{}, p.window),
	}
	closes := ch.NotifyClose(make(chan *amqp.Error, 1))
	if err := ch.Confirm(false); err != nil {
		_ = ch.Close()
		return nil, fmt.Errorf("ask for publisher confirms: %w", err)
	}
	p.link.client.background(func() {
		if reason, ok := <-closes; ok {
			out.err = reason
			if reason.Code == amqp.NotFound {
				p.mu.Lock()
				p.missing = true
				p.mu.Unlock()
			}
		}
		close(out.closed)
	})
	return out, nil
}

// fit leaves out the copy's dispensable headers, one by one, until its header frame fits.
func fit(c *seam.Copy, frameMax int) error {
	if frameMax <= 0 {
		return nil // no limit was agreed
	}
	for _, name := range c.Dispensable {
		if headerFrameSize(&c.Message) <= frameMax {
			return nil
		}
		delete(c.Message.Headers, name)
	}
	if size := headerFrameSize(&c.Message); size > frameMax {
		return fmt.Errorf("%w: they take %d bytes, and the broker accepts frames of %d", errTooLarge, size, frameMax)
	}
	return nil
}
