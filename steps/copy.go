package steps

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/parkproof/parkproof/scenarios/ledger"
)

func (w *World) copySteps(s Words) {
	s.Step(`^a (retry|parked) copy of each of "([^"]*)" is (published|confirmed|refused|returned)$`, w.copiesAre)
	s.Step(`^a (retry|parked) copy of "([^"]*)" is (confirmed|refused|returned)$`, w.copiesAre)
	s.Step(`^(\d+) unconfirmed cop(?:y|ies) of "([^"]*)" (?:is|are) under way$`, w.areUnconfirmed)
	s.Step(`^the broker has confirmed many copies of "([^"]*)" at once$`, w.confirmedAtOnce)
	s.Step(`^"([^"]*)" acks none of "([^"]*)" for (\w+)$`, w.acksNone)
	s.Step(`^"([^"]*)" settles "([^"]*)" within (\w+)$`, w.settlesWithin)
	s.Step(`^each of "([^"]*)" has a fate (\d+) to (\d+) times$`, w.haveFates)
}

// isOf reports whether the copy is one that parks, or one that is retried.
func (w *World) isOf(c *ledger.Copy, kind string) bool {
	conv := w.conventions()
	parks := slices.ContainsFunc(c.To, conv.isParkedQueue) || c.Exchange == "" && conv.isParkedQueue(c.Key)
	return parks == (kind == "parked")
}

// copiesAre waits until each message of the pattern has a copy that has come so far.
func (w *World) copiesAre(ctx context.Context, kind, pattern, state string) error {
	reached := func(c *ledger.Copy) bool {
		switch state {
		case "confirmed":
			return c.Confirmed != 0 && c.Returned == 0
		case "refused":
			return c.Refused != 0
		case "returned":
			return c.Returned != 0
		default:
			return true
		}
	}
	missing := ""
	all := func(b *ledger.Book) bool {
		missing = pattern
		for _, message := range patternsOf(b, pattern) {
			missing = message
			if !slices.ContainsFunc(b.CopiesOf[message], func(c *ledger.Copy) bool { return w.isOf(c, kind) && reached(c) }) {
				return false
			}
			missing = ""
		}
		return missing == ""
	}
	if !w.eventually(ctx, all) {
		return &Failure{Message: missing, Expected: fmt.Sprintf("a %s copy of %s to be %s", kind, missing, state), Seen: "none was"}
	}
	return nil
}

// areUnconfirmed is a When: it waits until so many copies at once have no answer that the consumer has seen.
func (w *World) areUnconfirmed(ctx context.Context, want int, pattern string) error {
	got, plain := 0, 0
	enough := func(b *ledger.Book) bool {
		got, plain = 0, 0
		for message, copies := range b.CopiesOf {
			if !matches(pattern, message) {
				continue
			}
			for _, c := range copies {
				if !c.Confirms {
					plain++
				}
				if c.Confirms && c.Confirmed == 0 && c.Refused == 0 && c.Lost == 0 {
					got++
				}
			}
		}
		return got >= want
	}
	if !w.eventually(ctx, enough) {
		if plain > 0 {
			return &Unknown{Why: "the consumer publishes copies of " + pattern + " without asking for confirms"}
		}
		return &Failure{
			Expected: fmt.Sprintf("%d copies of %s to be under way at once, unconfirmed", want, pattern),
			Seen:     fmt.Sprintf("%d at the end", got),
		}
	}
	return nil
}

// confirmedAtOnce makes sure that the broker has answered for several copies with one confirm: whether it
// does is its own affair.
func (w *World) confirmedAtOnce(pattern string) error {
	events := w.Ledger.Events()
	for _, e := range events {
		if e.Process == "" || e.Kind != ledger.ConfirmArrived {
			continue
		}
		n := 0
		for _, seq := range e.Covers {
			if matches(pattern, events[seq-1].Message) {
				n++
			}
		}
		if n > 1 {
			return nil
		}
	}
	return &Unknown{Why: "the broker has confirmed each copy of " + pattern + " by itself"}
}

// acksNone watches for a period that nothing of the pattern is acked.
func (w *World) acksNone(ctx context.Context, name, pattern, period string) error {
	c, err := w.consumer(name)
	if err != nil {
		return err
	}
	d, err := time.ParseDuration(period)
	if err != nil {
		return fmt.Errorf("the period %q cannot be read: %w", period, err)
	}
	acked := ""
	none := func(b *ledger.Book) bool {
		for _, d := range b.Deliveries {
			if d.Process == c.process.name && d.Queue == c.queue && matches(pattern, d.Message) && d.Acked != 0 {
				acked = d.Message
				return false
			}
		}
		return true
	}
	held, err := w.consistently(ctx, d, none)
	if err != nil {
		return err
	}
	if !held {
		return &Failure{Message: acked, Expected: fmt.Sprintf("%q to ack none of %s for %s", name, pattern, period), Seen: "it acked " + acked}
	}
	return nil
}

// settlesWithin waits for the consumer's own word on its last delivery of a message, in whatever silence.
func (w *World) settlesWithin(ctx context.Context, name, message, limit string) error {
	c, err := w.consumer(name)
	if err != nil {
		return err
	}
	most, err := time.ParseDuration(limit)
	if err != nil {
		return fmt.Errorf("the time %q cannot be read: %w", limit, err)
	}
	open := 0
	settled := func(b *ledger.Book) bool {
		ds := c.deliveries(b, message)
		open = 0
		for _, d := range ds {
			if d.Open() {
				open++
			}
		}
		return len(ds) > 0 && open == 0
	}
	if !w.within(ctx, most, settled) {
		return &Failure{
			Message: message, Expected: fmt.Sprintf("%q to settle %s within %s", name, message, limit),
			Seen: fmt.Sprintf("%d of its deliveries are unsettled", open),
		}
	}
	return nil
}

// haveFates checks at the end how often each message of the pattern was handled or parked.
func (w *World) haveFates(ctx context.Context, pattern string, least, most int) error {
	var names []string
	w.look(func(b *ledger.Book) bool { names = patternsOf(b, pattern); return true })
	if len(names) == 0 {
		return fmt.Errorf("no message %q was published", pattern)
	}
	for _, message := range names {
		if err := w.hasFates(ctx, message, least, most); err != nil {
			return err
		}
	}
	return nil
}
