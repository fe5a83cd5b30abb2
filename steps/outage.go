package steps

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/parkproof/parkproof/scenarios/ledger"
)

func (w *World) outageSteps(s Words) {
	s.Step(`^each of "([^"]*)" is given to "([^"]*)" within (\w+) of the broker's start$`, w.givenSinceStart)
	s.Step(`^the broker is missed by the consumer within (\w+)$`, w.isMissed)
}

// started is when the consumer first subscribed after the broker was broken, at an event's Seq: what is
// home before there is a consumer is seen only then.
func started(events []ledger.Event, broke int, process, queue string) (at time.Duration, found bool) {
	for _, s := range ledger.Subscriptions(events) {
		if s.Process == process && s.Queue == queue && s.Began > broke {
			return s.At, true
		}
	}
	return 0, false
}

// givenSinceStart waits until each message of the pattern has been delivered since the broker was broken, in
// whatever silence, and notes how long the last one took from when there was a consumer again.
func (w *World) givenSinceStart(ctx context.Context, pattern, name, limit string) error {
	c, err := w.consumer(name)
	if err != nil {
		return err
	}
	most, err := time.ParseDuration(limit)
	if err != nil {
		return fmt.Errorf("the time %q cannot be read: %w", limit, err)
	}
	if w.node.broke == 0 || w.isAway() {
		return errors.New("the broker was not started again: break it and start it first")
	}
	total, missing, last := 0, "", time.Duration(0)
	all := func(b *ledger.Book) bool {
		names := patternsOf(b, pattern)
		total, missing, last = len(names), "", 0
		for _, message := range names {
			at := time.Duration(-1)
			for _, d := range c.deliveries(b, message) {
				if d.Seq > w.node.broke {
					at = d.At
					break
				}
			}
			if at < 0 {
				missing = message
				return false
			}
			last = max(last, at)
		}
		return true
	}
	came := w.within(ctx, recovery+most, all)
	at, back := started(w.Ledger.Events(), w.node.broke, c.process.name, c.queue)
	expected := fmt.Sprintf("each of %s to be given to %q within %s of the broker's start", pattern, name, limit)
	switch {
	case total == 0:
		return fmt.Errorf("no message %q was published", pattern)
	case !back:
		return &Failure{Expected: expected, Seen: fmt.Sprintf("%q does not consume queue %q", name, c.queue)}
	case !came:
		return &Failure{Message: missing, Expected: expected, Seen: fmt.Sprintf("%s was not in %s", missing, recovery+most)}
	case last-at > most:
		return &Failure{Expected: expected, Seen: fmt.Sprintf("the last one took %s", (last - at).Round(time.Millisecond))}
	}
	w.returned(fmt.Sprintf("the last of %d messages came %s after the consumer was back", total, max(0, last-at).Round(time.Millisecond)))
	return nil
}

// isMissed waits until the consumer itself has ended each connection that was open when the broker was
// broken: it stands still, so nobody else does.
func (w *World) isMissed(ctx context.Context, limit string) error {
	most, err := time.ParseDuration(limit)
	if err != nil {
		return fmt.Errorf("the time %q cannot be read: %w", limit, err)
	}
	if !w.isAway() {
		return errors.New("the broker answers: stop, kill or pause it first")
	}
	open := openConnections(w.Ledger.Events()[:w.node.broke])
	if len(open) == 0 {
		return &Unknown{Why: "the consumer had no connection when the broker went away"}
	}
	left := len(open)
	missed := func(*ledger.Book) bool {
		left = len(open)
		for _, e := range w.Ledger.Events()[w.node.broke:] {
			if open[e.Conn] && !e.Broker && (e.Kind == ledger.ConnectionLost || e.Kind == ledger.ConnectionClosed) {
				left--
			}
		}
		return left <= 0
	}
	if !w.within(ctx, most, missed) {
		return &Failure{
			Expected: fmt.Sprintf("the consumer to give up its connections within %s", limit),
			Seen:     fmt.Sprintf("it holds %d of %d for alive", left, len(open)),
		}
	}
	return nil
}
