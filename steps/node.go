package steps

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/parkproof/parkproof/scenarios/broker"
	"github.com/parkproof/parkproof/scenarios/ledger"
	"github.com/parkproof/parkproof/toxics/frame"
)

const (
	// connectionForced is the reply code with which a broker ends connections: on an orderly stop, and
	// when an operator closes them. AMQP 0-9-1, constants.
	connectionForced = 320
	// listing bounds the wait until the broker lists every connection of the consumer: the management
	// API lists a new one up to 5 s late.
	listing = 15 * time.Second
	// listPace is the pause between two lists; each is a start of rabbitmqctl, where that can be used.
	listPace = 250 * time.Millisecond
)

// node is what the case has done to its broker.
type node struct {
	paused bool
	// broke is the ledger's length when the case last broke something.
	broke int
	// watermark is the broker's own, while an alarm of the case's is raised.
	watermark broker.Watermark
}

func (w *World) nodeSteps(s Words) {
	s.Step(`^the broker is restarted$`, func(ctx context.Context) error {
		return w.outage(ctx, "the broker was restarted", func(ctx context.Context) error { return w.comesUp(ctx) })
	})
	s.Step(`^the broker is killed and started again$`, func(ctx context.Context) error {
		if err := w.quorumAges(ctx); err != nil {
			return err
		}
		return w.outage(ctx, "the broker was killed", func(ctx context.Context) error {
			if err := w.Broker.Kill(ctx); err != nil {
				return err
			}
			return w.comesUp(ctx)
		})
	})
	s.Step(`^the broker is stopped$`, func(ctx context.Context) error {
		return w.outage(ctx, "the broker was stopped", w.Broker.Shutdown)
	})
	s.Step(`^the broker is killed$`, func(ctx context.Context) error {
		if err := w.quorumAges(ctx); err != nil {
			return err
		}
		return w.outage(ctx, "the broker was killed", w.Broker.Kill)
	})
	s.Step(`^the broker is started again$`, w.startsAgain)
	s.Step(`^the broker stays down for (\w+)$`, w.staysAway)
	s.Step(`^the broker is paused$`, func(ctx context.Context) error {
		return w.outage(ctx, "the broker was paused", func(ctx context.Context) error {
			w.node.paused = true
			return w.Broker.Pause(ctx)
		})
	})
	s.Step(`^the broker continues$`, w.continues)
	s.Step(`^the operator closes the connections of the consumer$`, w.closesConnections)
	s.Step(`^a memory alarm is raised$`, w.raisesAlarm)
	s.Step(`^the memory alarm is cleared$`, w.clearsAlarm)
	s.Step(`^the consumer is told that it is blocked$`, func(ctx context.Context) error { return w.isTold(ctx, ledger.Blocked, "blocked") })
	s.Step(`^the consumer is told that it is no longer blocked$`, func(ctx context.Context) error {
		return w.isTold(ctx, ledger.Unblocked, "no longer blocked")
	})
}

// quorumAge is how old a quorum queue must be for a kill to leave it whole. A younger one never answers
// again, or comes back empty, whatever was confirmed: measured on 3.8.9, 3.10.8 and 4.0.5 (never answers)
// and 4.3.6 (empty), with queues of up to 0.8 s; those of 1 s and more came back. That is the broker's, and
// nothing that a consumer could do anything about.
const quorumAge = 2 * time.Second

// quorumAges waits until every quorum queue is old enough.
func (w *World) quorumAges(ctx context.Context) error {
	made := map[string]time.Duration{}
	for _, e := range w.Ledger.Events() {
		switch m, ok := e.Method.(*frame.QueueDeclare); {
		case e.Kind == ledger.QueueDeleted:
			delete(made, e.Queue)
		case !ok || e.Kind != ledger.QueueDeclared || m.Passive:
		default:
			kind, _ := m.Arguments.Text(amqp.QueueTypeArg)
			if _, again := made[e.Queue]; !again && kind == amqp.QueueTypeQuorum {
				made[e.Queue] = e.At
			}
		}
	}
	for _, at := range made {
		rest := at + quorumAge - time.Since(w.Ledger.Began())
		if _, err := w.consistently(ctx, max(0, rest), func(*ledger.Book) bool { return true }); err != nil {
			return err
		}
	}
	return nil
}

// mayBreak says whether the case may do that to its broker.
func (w *World) mayBreak() error {
	switch {
	case !w.Broker.Can(broker.Restart):
		return &NotApplicable{Why: "it stops, kills or fills its broker, and parkproof does that only to a broker that it started"}
	case !w.Alone:
		return errors.New("this would break the broker for other cases too: tag the case @own-broker")
	}
	return nil
}

// breaks writes down what parkproof is about to break, and what the broker may say of it.
func (w *World) breaks(text string, codes ...uint16) {
	w.looks.Lock()
	for _, code := range codes {
		w.terms.ExpectedCodes[code] = true
	}
	w.looks.Unlock()
	w.node.broke = len(w.Ledger.Events())
	w.fired(text)
}

// returned notes that the broker is back, or as it was.
func (w *World) returned(text string) {
	w.Ledger.Add(ledger.Event{Kind: ledger.Noted, Text: text})
}

// outage does something to the broker after which it does not answer, for a time or until the case
// has it back.
func (w *World) outage(ctx context.Context, text string, do func(context.Context) error) error {
	if err := w.mayBreak(); err != nil {
		return err
	}
	if w.isAway() {
		return errAway
	}
	w.breaks(text, connectionForced)
	w.leave()
	return do(ctx)
}

// comesUp starts the broker, after an orderly stop where it runs, and connects to it again.
func (w *World) comesUp(ctx context.Context) error {
	if err := w.Broker.Restart(ctx); err != nil {
		return err
	}
	if err := w.reconnect(ctx); err != nil {
		return err
	}
	w.returned("the broker is up again")
	return nil
}

func (w *World) startsAgain(ctx context.Context) error {
	if !w.isAway() || w.node.paused {
		return errors.New("the broker is not down: stop or kill it first")
	}
	return w.comesUp(ctx)
}

func (w *World) continues(ctx context.Context) error {
	if !w.node.paused {
		return errors.New("the broker is not paused: pause it first")
	}
	if err := w.Broker.Resume(ctx); err != nil {
		return err
	}
	w.node.paused = false
	if err := w.reconnect(ctx); err != nil {
		return err
	}
	w.returned("the broker continues")
	return nil
}

// staysAway watches for a whole period that the broker answers nobody, while time passes for what it
// holds.
func (w *World) staysAway(ctx context.Context, period string) error {
	d, err := time.ParseDuration(period)
	if err != nil {
		return fmt.Errorf("the period %q cannot be read: %w", period, err)
	}
	if !w.isAway() {
		return errors.New("the broker is not down: stop, kill or pause it first")
	}
	from := len(w.Ledger.Events())
	held, err := w.consistently(ctx, d, func(*ledger.Book) bool {
		return !slices.ContainsFunc(w.Ledger.Events()[from:], func(e ledger.Event) bool { return e.Kind == ledger.ConnectionOpened })
	})
	if err == nil && !held {
		err = errors.New("the broker opened a connection while it was to be down")
	}
	return err
}

// Mend gives the scenario its broker back as it was, whatever the case has left it as.
func (w *World) Mend(ctx context.Context) error {
	if w.isAway() {
		if w.node.paused {
			return w.continues(ctx)
		}
		return w.comesUp(ctx)
	}
	if w.node.watermark != nil {
		return w.clearsAlarm(ctx)
	}
	return nil
}

// openConnections are the numbers of the consumer's connections that are open after the events.
func openConnections(events []ledger.Event) map[int]bool {
	open := map[int]bool{}
	for _, e := range events {
		switch {
		case e.Process == "":
		case e.Kind == ledger.ConnectionOpened:
			open[e.Conn] = true
		case e.Kind == ledger.ConnectionClosed, e.Kind == ledger.ConnectionLost:
			delete(open, e.Conn)
		}
	}
	return open
}

// closesConnections closes the consumer's connections as an operator does, and no others.
func (w *World) closesConnections(ctx context.Context) error {
	switch {
	case !w.owned:
		return &NotApplicable{Why: "an operator closes the consumer's connections, which cannot be told from others in this shared virtual host"}
	case !w.Broker.Can(broker.Control) && !w.Broker.Can(broker.Management):
		return &NotApplicable{Why: "an operator closes the consumer's connections, and this broker has no management API"}
	}
	open, err := w.closeTheirs(ctx)
	if err != nil {
		return err
	}
	left := open
	ended := w.eventuallyIn(ctx, quiet, func(*ledger.Book) bool {
		left = openConnections(w.Ledger.Events())
		maps.DeleteFunc(left, func(number int, _ bool) bool { return !open[number] })
		return len(left) == 0
	})
	if !ended {
		return fmt.Errorf("closing the connections of the consumer: %d of %d are still open", len(left), len(open))
	}
	w.returned("the connections of the consumer are closed")
	return nil
}

// closeTheirs closes the consumer's connections, and returns those that were open.
func (w *World) closeTheirs(ctx context.Context) (map[int]bool, error) {
	const broke, why = "an operator closed the connections of the consumer", "an operator closes it"
	if !w.Broker.Can(broker.Control) {
		theirs, open, err := w.listedConnections(ctx)
		if err != nil {
			return nil, err
		}
		w.breaks(broke, connectionForced)
		return open, w.Broker.CloseListed(ctx, theirs, why)
	}
	var open map[int]bool
	if !w.eventually(ctx, func(*ledger.Book) bool { open = openConnections(w.Ledger.Events()); return len(open) > 0 }) {
		return nil, &Failure{Expected: "the consumer to be connected", Seen: "it has no connection"}
	}
	w.breaks(broke, connectionForced)
	closed, err := w.Broker.CloseClients(ctx, w.vhost, ownName, why)
	if err == nil && closed == 0 {
		err = errors.New("closing the connections of the consumer: the broker has none")
	}
	return open, err
}

// listedConnections waits until the broker lists as many connections of the consumer as are open, and
// returns the list and the open ones.
func (w *World) listedConnections(ctx context.Context) ([]broker.Connection, map[int]bool, error) {
	var open map[int]bool
	if !w.eventually(ctx, func(*ledger.Book) bool { open = openConnections(w.Ledger.Events()); return len(open) > 0 }) {
		return nil, nil, &Failure{Expected: "the consumer to be connected", Seen: "it has no connection"}
	}
	ctx, cancel := context.WithTimeout(ctx, listing)
	defer cancel()
	pace := time.NewTicker(listPace)
	defer pace.Stop()
	for {
		listed, err := w.Broker.Connections(ctx, w.vhost)
		if err != nil {
			return nil, nil, err
		}
		theirs := slices.DeleteFunc(listed, func(c broker.Connection) bool {
			return c.Client == ownName || strings.HasPrefix(c.Client, ownName+" ")
		})
		open = openConnections(w.Ledger.Events())
		if len(open) > 0 && len(theirs) >= len(open) {
			return theirs, open, nil
		}
		select {
		case <-ctx.Done():
			return nil, nil, fmt.Errorf("the broker lists %d connections of the consumer, and %d are open: %w", len(theirs), len(open), ctx.Err())
		case <-pace.C:
		}
	}
}

func (w *World) raisesAlarm(ctx context.Context) error {
	if err := w.mayBreak(); err != nil {
		return err
	}
	if !w.Broker.Can(broker.Control) {
		return &NotApplicable{Why: "it raises a memory alarm, for which there is no rabbitmqctl here"}
	}
	w.breaks("a memory alarm was raised")
	watermark, err := w.Broker.RaiseMemoryAlarm(ctx)
	w.node.watermark = watermark
	return err
}

func (w *World) clearsAlarm(ctx context.Context) error {
	if w.node.watermark == nil {
		return errors.New("there is no memory alarm: raise one first")
	}
	if err := w.Broker.ClearMemoryAlarm(ctx, w.node.watermark); err != nil {
		return err
	}
	w.node.watermark = nil
	w.returned("the memory alarm was cleared")
	return nil
}

// isTold waits until the broker has told a connection of the consumer that it is blocked, or no longer
// is. The broker blocks a connection when it publishes.
func (w *World) isTold(ctx context.Context, kind ledger.Kind, what string) error {
	told := func(*ledger.Book) bool {
		return slices.ContainsFunc(w.Ledger.Events()[w.node.broke:], func(e ledger.Event) bool { return e.Kind == kind && e.Process != "" })
	}
	if !w.eventually(ctx, told) {
		return &Failure{Expected: "the consumer to be told that it is " + what, Seen: fmt.Sprintf("no %s on its connections", kind)}
	}
	return nil
}
