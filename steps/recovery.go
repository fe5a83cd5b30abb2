package steps

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/parkproof/parkproof/scenarios/adapter/protocol"
	"github.com/parkproof/parkproof/scenarios/ledger"
	"github.com/parkproof/parkproof/toxics"
)

// recovery is how long a consumer may take to be back once it can: libraries wait between their tries
// to connect, mostly up to 10 s, and longer with each failure.
const recovery = 20 * time.Second

func (w *World) recoverySteps(s Words) {
	s.Step(`^"([^"]*)" consumes again$`, w.consumesAgain)
	s.Step(`^"([^"]*)" goes on$`, w.goesOn)
	s.Step(`^"([^"]*)" has come to its end$`, w.cameToItsEnd)
	s.Step(`^each of "([^"]*)" has come to its end$`, w.cameToItsEnd)
	s.Step(`^"([^"]*)" has a fate (\d+) to (\d+) times$`, w.hasFates)
	s.Step(`^"([^"]*)" acks "([^"]*)"$`, w.acks)
	s.Step(`^"([^"]*)" does not ack "([^"]*)" for (\w+)$`, w.doesNotAck)
	s.Step(`^a (retry|parked) copy of "([^"]*)" is published$`, w.copyIsPublished)
	s.Step(`^"([^"]*)" is given "([^"]*)" at least (\d+) times$`, w.isGivenAtLeast)
	s.Step(`^the consumer has as many connections and channels as before the fault$`, w.leaksNothing)
}

// within waits until the condition holds, for a time in which nothing else ends the wait.
func (w *World) within(ctx context.Context, limit time.Duration, holds func(*ledger.Book) bool) bool {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for {
		// Not all conditions are of the ledger.
		round, done := context.WithTimeout(ctx, 2*inspectPace)
		err := w.Ledger.Until(round, func([]ledger.Event) bool { return w.look(holds) })
		done()
		if err == nil {
			return true
		}
		if ctx.Err() != nil {
			return false
		}
	}
}

// subscriptions counts the subscriptions of a process to a queue that stand.
func subscriptions(events []ledger.Event, process, queue string) int {
	n := 0
	for _, s := range ledger.Subscriptions(events) {
		if s.Process == process && s.Queue == queue && s.Open() {
			n++
		}
	}
	return n
}

// consumersOf is how many consumers of the case read the queue.
func (w *World) consumersOf(queue string) int {
	n := 0
	for _, c := range w.allConsumers() {
		if c.queue == queue {
			n++
		}
	}
	return n
}

// consumesAgain waits until the consumer is subscribed, once, by the wire and by the broker's count.
func (w *World) consumesAgain(ctx context.Context, name string) error {
	c, err := w.consumer(name)
	if err != nil {
		return err
	}
	want, seen := w.consumersOf(c.queue), 0
	back := func(*ledger.Book) bool {
		seen = subscriptions(w.Ledger.Events(), c.process.name, c.queue)
		return seen == want
	}
	failure := func(seen string) error {
		return &Failure{Expected: fmt.Sprintf("%q to consume queue %q again, once", name, c.queue), Seen: seen}
	}
	if !w.within(ctx, recovery, back) {
		return failure(fmt.Sprintf("%d subscriptions on the wire after %s", seen, recovery))
	}
	count := -1
	err = poll(ctx, recovery, func() (bool, error) {
		q, err := w.inspect(c.queue)
		if isLocked(err) {
			count = want
			return true, nil // its owner's alone
		}
		count = q.Consumers
		return err == nil && count == want, nil
	})
	if err != nil {
		return err
	}
	if count != want {
		return failure(fmt.Sprintf("the broker counts %d consumers", count))
	}
	from := len(w.Ledger.Events())
	w.finally(func() error {
		if most := mostSubscriptions(w.Ledger.Events(), from, c.process.name, c.queue); most > w.consumersOf(c.queue) {
			return failure(fmt.Sprintf("a moment later, %d subscriptions on the wire", most))
		}
		return nil
	})
	return nil
}

// mostSubscriptions is how many subscriptions of the process to the queue there ever were at once, from an
// event on until something else breaks: a second recovery may be slower than the first.
func mostSubscriptions(events []ledger.Event, from int, process, queue string) int {
	most := 0
	for i, e := range events[from:] {
		switch {
		case e.Kind == ledger.Fired, e.Kind == ledger.StopAsked:
			return most
		case e.Kind == ledger.Consuming && e.Process == process && e.Queue == queue:
			most = max(most, subscriptions(events[:from+i+1], process, queue))
		}
	}
	return most
}

// goesOn publishes a further message straight to the consumer's queue and waits until it is handled:
// whatever broke, the consumer has to be there again, once.
func (w *World) goesOn(ctx context.Context, name string) error {
	if err := w.consumesAgain(ctx, name); err != nil {
		return err
	}
	c, err := w.consumer(name)
	if err != nil {
		return err
	}
	probe := "probe" + strconv.Itoa(int(w.probes.Add(1)))
	if err := w.publishRaw(ctx, "", c.queue, w.plain(probe)); err != nil {
		return err
	}
	done := func(b *ledger.Book) bool {
		return slices.ContainsFunc(c.deliveries(b, probe), func(d *ledger.Delivery) bool { return d.Acked != 0 && d.Verdict == protocol.VerdictOK })
	}
	if !w.within(ctx, recovery, done) {
		return &Failure{Message: probe, Expected: fmt.Sprintf("%q to handle a further message", name), Seen: "it did not in " + recovery.String()}
	}
	return nil
}

// fates is how often a message has come to an end, as far as it can be seen.
func (w *World) fates(b *ledger.Book, queues []string, message string) int {
	n := parkedTimes(b, queues, message)
	for _, d := range b.Deliveries {
		if d.Message == message && d.Acked != 0 && d.Verdict == protocol.VerdictOK {
			n++
		}
	}
	return n
}

// cameToItsEnd waits until each message of the pattern has been handled or parked, and all of its
// deliveries are settled.
func (w *World) cameToItsEnd(ctx context.Context, pattern string) error {
	queues, err := w.parkings("")
	if err != nil {
		return err
	}
	missing := ""
	all := func(b *ledger.Book) bool {
		missing = ""
		for _, message := range patternsOf(b, pattern) {
			if w.fates(b, queues, message) == 0 || slices.ContainsFunc(b.Deliveries, func(d *ledger.Delivery) bool { return d.Message == message && d.Open() }) {
				missing = message
				return false
			}
		}
		return true
	}
	yes, err := w.collected(ctx, queues, all)
	if err != nil {
		return err
	}
	if !yes {
		return &Failure{Message: missing, Expected: missing + " to be handled or parked", Seen: "neither has happened"}
	}
	return nil
}

// hasFates checks at the end how often a message was handled or parked.
func (w *World) hasFates(_ context.Context, message string, least, most int) error {
	queues, err := w.parkings("")
	if err != nil {
		return err
	}
	w.finally(func() error {
		got := 0
		w.look(func(b *ledger.Book) bool { got = w.fates(b, queues, message); return true })
		if got < least || got > most {
			return &Failure{
				Message: message, Expected: fmt.Sprintf("%s to be handled or parked %d to %d times", message, least, most), Seen: times(got),
			}
		}
		return nil
	})
	return nil
}

func (w *World) acked(c *consumer, message string) func(*ledger.Book) bool {
	return func(b *ledger.Book) bool {
		return slices.ContainsFunc(c.deliveries(b, message), func(d *ledger.Delivery) bool { return d.Acked != 0 })
	}
}

func (w *World) acks(ctx context.Context, name, message string) error {
	c, err := w.consumer(name)
	if err != nil {
		return err
	}
	if !w.eventually(ctx, w.acked(c, message)) {
		return &Failure{Message: message, Expected: fmt.Sprintf("%q to ack %s", name, message), Seen: "it did not"}
	}
	return nil
}

func (w *World) doesNotAck(ctx context.Context, name, message, period string) error {
	c, err := w.consumer(name)
	if err != nil {
		return err
	}
	d, err := time.ParseDuration(period)
	if err != nil {
		return fmt.Errorf("the period %q cannot be read: %w", period, err)
	}
	acks := func(b *ledger.Book) int {
		n := 0
		for _, d := range c.deliveries(b, message) {
			if d.Acked != 0 {
				n++
			}
		}
		return n
	}
	before := 0
	w.look(func(b *ledger.Book) bool { before = acks(b); return true })
	held, err := w.consistently(ctx, d, func(b *ledger.Book) bool { return acks(b) == before })
	if err != nil {
		return err
	}
	if !held {
		return &Failure{Message: message, Expected: fmt.Sprintf("%q not to ack %s for %s", name, message, period), Seen: "it did"}
	}
	return nil
}

// copyIsPublished is a When: it waits for the copy on the wire.
func (w *World) copyIsPublished(ctx context.Context, kind, message string) error {
	published := func(b *ledger.Book) bool {
		return slices.ContainsFunc(b.CopiesOf[message], func(c *ledger.Copy) bool {
			parks := slices.ContainsFunc(c.To, w.conventions().isParkedQueue) || c.Exchange == "" && w.conventions().isParkedQueue(c.Key)
			return parks == (kind == "parked")
		})
	}
	if !w.eventually(ctx, published) {
		return &Failure{Message: message, Expected: fmt.Sprintf("a %s copy of %s to be published", kind, message), Seen: "none was"}
	}
	return nil
}

func (w *World) isGivenAtLeast(ctx context.Context, name, message string, least int) error {
	c, err := w.consumer(name)
	if err != nil {
		return err
	}
	got := 0
	if !w.eventually(ctx, func(b *ledger.Book) bool { got = len(c.deliveries(b, message)); return got >= least }) {
		return &Failure{
			Message: message, Expected: fmt.Sprintf("%q to be given %s at least %d times", name, message, least), Seen: "it was given it " + times(got),
		}
	}
	return nil
}

// openOf counts the connections and channels that the consumer's processes have open.
func openOf(events []ledger.Event) (connections, channels int) {
	for _, c := range ledger.Connections(events) {
		if c.Process != "" && c.Open() {
			connections++
			channels += c.OpenChannels()
		}
	}
	return connections, channels
}

// leaksNothing compares what is open with what was open before the first fault fired. A channel that
// publishes may be opened only at the first failure: where there was none before, one more is no leak.
func (w *World) leaksNothing(ctx context.Context) error {
	events := w.Ledger.Events()
	at := slices.IndexFunc(events, func(e ledger.Event) bool { return e.Kind == ledger.Fired })
	if at < 0 {
		return &Unknown{Why: "no fault has fired"}
	}
	connections, channels := openOf(events[:at])
	publishes := func(e ledger.Event) bool {
		return e.Process != "" && (e.Kind == ledger.Published || e.Kind == ledger.ConfirmMode)
	}
	if !slices.ContainsFunc(events[:at], publishes) {
		channels++
	}
	var nowConnections, nowChannels int
	same := func(*ledger.Book) bool {
		nowConnections, nowChannels = openOf(w.Ledger.Events())
		return nowConnections == connections && nowChannels <= channels
	}
	if !w.within(ctx, recovery, same) {
		return &Failure{
			Expected: fmt.Sprintf("%d connections and at most %d channels open, as before the fault", connections, channels),
			Seen:     fmt.Sprintf("%d connections and %d channels", nowConnections, nowChannels),
		}
	}
	return nil
}

// isLocked reports whether a queue is its owner's alone.
func isLocked(err error) bool {
	var refused *amqp.Error
	return errors.As(err, &refused) && refused.Code == amqp.ResourceLocked
}

// matches reports whether a message's name fits a pattern: the name itself, or a beginning and *.
func matches(pattern, message string) bool { return toxics.Matches(pattern, message) }
