package steps

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/parkproof/parkproof/scenarios/adapter/protocol"
	"github.com/parkproof/parkproof/scenarios/ledger"
)

func (w *World) deliverySteps(s Words) {
	s.Step(`^"([^"]*)" is given "([^"]*)" (once|twice|\d+ times)$`, func(ctx context.Context, name, message, count string) error {
		return w.isGiven(ctx, name, message, count, "")
	})
	s.Step(`^"([^"]*)" is given "([^"]*)" (once|twice|\d+ times), as attempts ([\d, ]+)$`, w.isGiven)
	s.Step(`^"([^"]*)" is given each of "([^"]*)" (once|twice|\d+ times)$`, func(ctx context.Context, name, pattern, count string) error {
		return w.isGivenEach(ctx, name, pattern, count, "")
	})
	s.Step(`^"([^"]*)" is given each of "([^"]*)" (once|twice|\d+ times), as attempts ([\d, ]+)$`, w.isGivenEach)
	s.Step(`^"([^"]*)" is given "([^"]*)" at most (\d+) times$`, w.isGivenAtMost)
	s.Step(`^"([^"]*)" is not given "([^"]*)"(?: again)? for (\w+)$`, w.isNotGivenFor)
	s.Step(`^"([^"]*)" is given the messages "([^"]*)" to "([^"]*)" in this order as attempt (\d+)$`, w.isGivenInOrder)
	s.Step(`^"([^"]*)" handled "([^"]*)"$`, func(ctx context.Context, name, message string) error { return w.handled(ctx, name, 1, message) })
	s.Step(`^"([^"]*)" handled (\d+) messages "([^"]*)"$`, w.handled)
	s.Step(`^"([^"]*)" and "([^"]*)" together handled (\d+) messages "([^"]*)"$`, w.handledTogether)
	s.Step(`^"([^"]*)" handled "([^"]*)" before it is given "([^"]*)" again$`, w.handledBefore)
	s.Step(`^each wait of "([^"]*)" for "([^"]*)" is at least its rung and at most its rung and (\w+)$`, w.waits)
	s.Step(`^"([^"]*)" never held more than (\d+) messages unsettled$`, w.neverHeldMore)
	s.Step(`^the attempt header of "([^"]*)" reads none, ([\d, ]+) as "([^"]*)" is given it$`, w.attemptHeaders)
	s.Step(`^every original of "([^"]*)" was released after its copy was safe$`, w.releasedSafely)
}

// deliveries are the deliveries of a message to a consumer. Consumers of one queue in one process
// cannot be told apart on the wire and share them.
func (c *consumer) deliveries(b *ledger.Book, message string) []*ledger.Delivery {
	var ds []*ledger.Delivery
	for _, d := range b.DeliveriesOf(c.process.name, message) {
		if d.Queue == c.queue {
			ds = append(ds, d)
		}
	}
	return ds
}

func (w *World) attemptsOf(ds []*ledger.Delivery) []int {
	conv := w.conventions()
	attempts := make([]int, len(ds))
	for i, d := range ds {
		attempts[i] = conv.attemptOf(d.Content.Properties.Headers)
	}
	return attempts
}

// realAttempts are the attempts of a whole ladder, where the case's are those of the ladder that it
// asked for and the library has a ladder of its own.
func (p *consumerProcess) realAttempts(numbers []int) []int {
	whole := len(p.ladder) + 1
	if !p.fixedLadder() || len(numbers) == 0 || numbers[len(numbers)-1] != whole {
		return numbers
	}
	real := numbers[: len(numbers)-1 : len(numbers)-1]
	for n := whole; n <= p.attempts(); n++ {
		real = append(real, n)
	}
	return real
}

// isGiven waits for that many deliveries, checks their attempts, and once more when everything has
// settled: what comes later counts too.
func (w *World) isGiven(ctx context.Context, name, message, count, attempts string) error {
	c, err := w.consumer(name)
	if err != nil {
		return err
	}
	want, err := parseCount(count)
	if err != nil {
		return err
	}
	var numbers []int
	if attempts != "" {
		if numbers, err = parseNumbers(attempts); err != nil {
			return err
		}
		numbers = c.process.realAttempts(numbers)
		want, count = len(numbers), times(len(numbers))
	}
	check := func() error {
		var got []int
		w.look(func(b *ledger.Book) bool { got = w.attemptsOf(c.deliveries(b, message)); return true })
		if len(got) == want && (numbers == nil || slices.Equal(got, numbers)) {
			return nil
		}
		f := &Failure{
			Message:  message,
			Expected: fmt.Sprintf("%q to be given %s %s", name, message, count),
			Seen:     fmt.Sprintf("it was given it %s", times(len(got))),
		}
		if numbers != nil {
			f.Expected += ", as attempts " + joined(numbers)
		}
		if len(got) > 0 {
			f.Seen += ", as attempts " + joined(got)
		}
		return f
	}
	w.eventually(ctx, func(b *ledger.Book) bool { return len(c.deliveries(b, message)) >= want })
	w.finally(check)
	return check()
}

func (w *World) isGivenEach(ctx context.Context, name, pattern, count, attempts string) error {
	var names []string
	w.look(func(b *ledger.Book) bool { names = patternsOf(b, pattern); return true })
	if len(names) == 0 {
		return fmt.Errorf("no message %q was published", pattern)
	}
	for _, message := range names {
		if err := w.isGiven(ctx, name, message, count, attempts); err != nil {
			return err
		}
	}
	return nil
}

func (w *World) isGivenAtMost(_ context.Context, name, message string, most int) error {
	c, err := w.consumer(name)
	if err != nil {
		return err
	}
	w.finally(func() error {
		got := 0
		w.look(func(b *ledger.Book) bool { got = len(c.deliveries(b, message)); return true })
		if got > most {
			return &Failure{
				Message:  message,
				Expected: fmt.Sprintf("%q to be given %s at most %d times", name, message, most),
				Seen:     fmt.Sprintf("it was given it %d times", got),
			}
		}
		return nil
	})
	return nil
}

func (w *World) isNotGivenFor(ctx context.Context, name, message, period string) error {
	c, err := w.consumer(name)
	if err != nil {
		return err
	}
	d, err := time.ParseDuration(period)
	if err != nil {
		return fmt.Errorf("the period %q cannot be read: %w", period, err)
	}
	before := 0
	w.look(func(b *ledger.Book) bool { before = len(c.deliveries(b, message)); return true })
	held, err := w.consistently(ctx, d, func(b *ledger.Book) bool { return len(c.deliveries(b, message)) == before })
	if err != nil {
		return err
	}
	if !held {
		return &Failure{
			Message:  message,
			Expected: fmt.Sprintf("%q not to be given %s for %s", name, message, period),
			Seen:     "it was given it",
		}
	}
	return nil
}

func (w *World) isGivenInOrder(ctx context.Context, name, first, last string, attempt int) error {
	c, err := w.consumer(name)
	if err != nil {
		return err
	}
	names, err := span(first, last)
	if err != nil {
		return err
	}
	conv := w.conventions()
	var got []string
	all := func(b *ledger.Book) bool {
		got = nil
		for _, d := range b.Deliveries {
			if d.Process == c.process.name && d.Queue == c.queue && slices.Contains(names, d.Message) &&
				conv.attemptOf(d.Content.Properties.Headers) == attempt {
				got = append(got, d.Message)
			}
		}
		return len(got) >= len(names)
	}
	w.eventually(ctx, all)
	if !slices.Equal(got, names) {
		return &Failure{
			Expected: fmt.Sprintf("%q to be given attempt %d of %s in this order", name, attempt, strings.Join(names, ", ")),
			Seen:     fmt.Sprintf("it was given %s", orNone(got)),
		}
	}
	return nil
}

func orNone(names []string) string {
	if len(names) == 0 {
		return "none of them"
	}
	return strings.Join(names, ", ")
}

// isHandled reports whether a delivery was acked after its handler had succeeded, without a copy.
func isHandled(d *ledger.Delivery) bool {
	return d.Acked != 0 && d.Verdict == protocol.VerdictOK && len(d.Copies) == 0
}

func (w *World) handled(ctx context.Context, name string, want int, pattern string) error {
	return w.handledBy(ctx, []string{name}, want, pattern)
}

func (w *World) handledTogether(ctx context.Context, one, two string, want int, pattern string) error {
	return w.handledBy(ctx, []string{one, two}, want, pattern)
}

func (w *World) handledBy(ctx context.Context, names []string, want int, pattern string) error {
	var cs []*consumer
	for _, name := range names {
		c, err := w.consumer(name)
		if err != nil {
			return err
		}
		cs = append(cs, c)
	}
	of := func(d *ledger.Delivery) bool {
		return slices.ContainsFunc(cs, func(c *consumer) bool { return d.Process == c.process.name && d.Queue == c.queue })
	}
	got := 0
	var missing string
	all := func(b *ledger.Book) bool {
		done := map[string]bool{}
		for _, d := range b.Deliveries {
			if of(d) && matches(pattern, d.Message) && isHandled(d) {
				done[d.Message] = true
			}
		}
		got, missing = len(done), ""
		for _, message := range patternsOf(b, pattern) {
			if !done[message] && missing == "" {
				missing = message
			}
		}
		return got >= want
	}
	if !w.eventually(ctx, all) || got != want {
		f := &Failure{
			Expected: fmt.Sprintf("%s to handle %s", quoted(names), pattern),
			Seen:     "it was not handled and acked",
			Message:  missing,
		}
		if want > 1 {
			f.Expected = fmt.Sprintf("%s to handle %d messages %s", quoted(names), want, pattern)
			f.Seen = fmt.Sprintf("%d were handled and acked", got)
			if missing != "" {
				f.Seen += fmt.Sprintf(", %s among those that were not", missing)
			}
		}
		return f
	}
	return nil
}

func quoted(names []string) string {
	parts := make([]string, len(names))
	for i, name := range names {
		parts[i] = strconv.Quote(name)
	}
	return strings.Join(parts, " and ")
}

// handledBefore checks that a message was handled while another one waited.
func (w *World) handledBefore(ctx context.Context, name, quick, slow string) error {
	if err := w.handled(ctx, name, 1, quick); err != nil {
		return err
	}
	c, err := w.consumer(name)
	if err != nil {
		return err
	}
	again, done := 0, 0
	both := func(b *ledger.Book) bool {
		again, done = 0, 0
		if ds := c.deliveries(b, slow); len(ds) > 1 {
			again = ds[1].Seq
		}
		for _, d := range c.deliveries(b, quick) {
			if isHandled(d) {
				done = d.Acked
			}
		}
		return again != 0
	}
	if !w.eventually(ctx, both) {
		return &Failure{Message: slow, Expected: fmt.Sprintf("%q to be given %s again", name, slow), Seen: "it was not"}
	}
	if again < done {
		return &Failure{
			Message:  quick,
			Expected: fmt.Sprintf("%q to handle %s while %s waits", name, quick, slow),
			Seen:     fmt.Sprintf("%s was handled only after %s had come again", quick, slow),
		}
	}
	return nil
}

// early is by how much a wait may seem short: the broker counts from the moment when the copy
// arrives, in whole milliseconds, and the wire sees it leave.
const early = 5 * time.Millisecond

// waits compares the time between each copy's publish and the next delivery with its rung.
func (w *World) waits(_ context.Context, message, name, slack string) error {
	c, err := w.consumer(name)
	if err != nil {
		return err
	}
	most, err := time.ParseDuration(slack)
	if err != nil {
		return fmt.Errorf("the slack %q cannot be read: %w", slack, err)
	}
	rungs := c.process.rungs()
	var ds []*ledger.Delivery
	w.look(func(b *ledger.Book) bool { ds = c.deliveries(b, message); return true })
	if len(ds) < 2 {
		return &Failure{Message: message, Expected: "waits between attempts", Seen: fmt.Sprintf("%s was given %s", message, times(len(ds)))}
	}
	for i := range len(ds) - 1 {
		if i >= len(rungs) {
			break // one attempt too many is another step's to say
		}
		from := ds[i].At
		if len(ds[i].Copies) > 0 {
			from = ds[i].Copies[0].At
		}
		wait := ds[i+1].At - from
		if wait < rungs[i]-early || wait > rungs[i]+most {
			return &Failure{
				Message:  message,
				Expected: fmt.Sprintf("a wait of %s to %s before attempt %d of %s", rungs[i], rungs[i]+most, i+2, message),
				Seen:     fmt.Sprintf("a wait of %s", wait.Round(time.Millisecond)),
			}
		}
	}
	return nil
}

func (w *World) neverHeldMore(_ context.Context, name string, most int) error {
	c, err := w.consumer(name)
	if err != nil {
		return err
	}
	held, peak := 0, 0
	mine := map[int]bool{}
	for _, e := range w.Ledger.Events() {
		switch {
		case e.Kind == ledger.Delivered && e.Process == c.process.name && e.Queue == c.queue:
			mine[e.Seq] = true
			held++
			peak = max(peak, held)
		case e.Kind == ledger.Acked || e.Kind == ledger.Nacked:
			for _, seq := range e.Covers {
				if mine[seq] {
					held--
				}
			}
		}
	}
	if peak > most {
		return &Failure{
			Expected: fmt.Sprintf("%q to hold at most %d messages unsettled", name, most),
			Seen:     fmt.Sprintf("it held %d at once", peak),
		}
	}
	if peak == 0 {
		return &Unknown{Why: fmt.Sprintf("%q was given nothing", name)}
	}
	return nil
}

func (w *World) attemptHeaders(_ context.Context, message, numbers, name string) error {
	c, err := w.consumer(name)
	if err != nil {
		return err
	}
	want, err := parseNumbers(numbers)
	if err != nil {
		return err
	}
	conv := w.conventions()
	if err := needs(conv.AttemptHeader, "attempt header"); err != nil {
		return err
	}
	var got []string
	w.look(func(b *ledger.Book) bool {
		for _, d := range c.deliveries(b, message) {
			if n, ok := conv.attempt(d.Content.Properties.Headers); ok {
				got = append(got, strconv.Itoa(n))
			} else {
				got = append(got, "none")
			}
		}
		return true
	})
	expected := "none, " + joined(want)
	if seen := strings.Join(got, ", "); seen != expected {
		return &Failure{
			Message:  message,
			Expected: fmt.Sprintf("the attempt header %q of %s to read %s", conv.AttemptHeader, message, expected),
			Seen:     "it read " + orNone(got),
		}
	}
	return nil
}

// releasedSafely needs no check of its own, which the accounting makes after every case: it makes
// sure that there was something to check.
func (w *World) releasedSafely(ctx context.Context, pattern string) error {
	released := func(b *ledger.Book) bool {
		return slices.ContainsFunc(b.Deliveries, func(d *ledger.Delivery) bool {
			return matches(pattern, d.Message) && len(d.Copies) > 0 && d.Acked != 0
		})
	}
	if !w.eventually(ctx, released) {
		return &Unknown{Why: fmt.Sprintf("no original of %s was released after a copy was published", pattern)}
	}
	return nil
}
