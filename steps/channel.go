package steps

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/parkproof/parkproof/scenarios/ledger"
	"github.com/parkproof/parkproof/toxics/frame"
)

func (w *World) channelSteps(s Words) {
	s.Step(`^the broker is made to close the consuming channel(?: of "([^"]*)")?$`, w.closeChannel)
	s.Step(`^the broker cancels "([^"]*)"$`, w.isCancelled)
}

// noTag is a delivery tag that no case comes near: a broker counts a channel's deliveries from 1.
const noTag = 999_999

// closeChannel has the broker close the channel that a consumer consumes on, with 406: it gets an ack of a
// delivery that it never made. The consumer has no part in it.
func (w *World) closeChannel(ctx context.Context, name string) error {
	c, err := w.oneConsumer(name)
	if err != nil {
		return err
	}
	if err := w.consumesAgain(ctx, c.name); err != nil {
		return err
	}
	w.expect(preconditionFailed)
	for _, s := range ledger.Subscriptions(w.Ledger.Events()) {
		if !s.Open() || s.Process != c.process.name || s.Queue != c.queue {
			continue
		}
		text := fmt.Sprintf("an ack of the unknown delivery tag %d is sent on the channel of %q", noTag, c.name)
		for _, l := range w.faultsOf(c.process.name).Links(0) {
			if l.Number != s.Conn {
				continue
			}
			injected, err := l.Inject(s.Channel, &frame.BasicAck{DeliveryTag: noTag}, text)
			if err != nil {
				return fmt.Errorf("sending an ack that the broker must refuse: %w", err)
			}
			w.watch(firing{text: text, fired: injected.Fired})
			return w.closedFor(ctx, c, s)
		}
	}
	return &Unknown{Why: fmt.Sprintf("%q has no subscription whose channel could be closed", c.name)}
}

// closedFor waits until the broker has closed the subscription's channel.
func (w *World) closedFor(ctx context.Context, c *consumer, s ledger.Subscription) error {
	closed := func(*ledger.Book) bool {
		for _, e := range w.Ledger.Events()[s.Began:] {
			if e.Process == s.Process && e.Conn == s.Conn && (e.Kind == ledger.ChannelClosed && e.Channel == s.Channel && e.Broker ||
				e.Kind == ledger.ConnectionClosed || e.Kind == ledger.ConnectionLost) {
				return true
			}
		}
		return false
	}
	if !w.within(ctx, recovery, closed) {
		return &Unknown{Why: fmt.Sprintf("the broker has not closed the channel of %q in %s", c.name, recovery)}
	}
	return nil
}

// oneConsumer is the consumer of that name, or, without one, the only one.
func (w *World) oneConsumer(name string) (*consumer, error) {
	if name != "" {
		return w.consumer(name)
	}
	all := w.allConsumers()
	if len(all) != 1 {
		return nil, errors.New("there is not one consumer: say whose channel is meant")
	}
	return all[0], nil
}

// expect makes a code that the broker closes a channel or connection with no finding.
func (w *World) expect(code uint16) {
	w.looks.Lock()
	defer w.looks.Unlock()
	w.terms.ExpectedCodes[code] = true
}

// isCancelled waits until the broker has told a consumer that its queue is gone. It tells those only that
// announce consumer_cancel_notify.
func (w *World) isCancelled(ctx context.Context, name string) error {
	c, err := w.consumer(name)
	if err != nil {
		return err
	}
	told := func(*ledger.Book) bool {
		for _, e := range slices.Backward(w.Ledger.Events()) {
			switch {
			case e.Process == c.process.name && e.Kind == ledger.Cancelled && e.Broker:
				return true
			case e.Kind == ledger.Fired: // written before the queue was deleted, which may be answered after the cancel
				return false
			}
		}
		return false
	}
	if !w.within(ctx, recovery, told) {
		return &Failure{
			Expected: fmt.Sprintf("the broker to cancel %q, whose client says that it wants to be told (consumer_cancel_notify)", name),
			Seen:     "no cancel in " + recovery.String(),
		}
	}
	return nil
}
