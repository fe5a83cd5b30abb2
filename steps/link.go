package steps

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/parkproof/parkproof/scenarios/ledger"
	"github.com/parkproof/parkproof/toxics"
)

// linkWords name connections: all of the consumer's, or those with a role.
const linkWords = `(link|consuming connection|publishing connection)`

func (w *World) linkSteps(s Words) {
	s.Step(`^the `+linkWords+` has the toxic "([^"]*)"(?: (to the broker|to the consumer))?(?: with ([a-z_0-9=, ]+))?$`, w.hasToxic)
	s.Step(`^the `+linkWords+` is blackholed(?: (to the broker|to the consumer))?$`, func(ctx context.Context, which, direction string) error {
		return w.hasToxic(ctx, which, "timeout", direction, "timeout=0")
	})
	s.Step(`^the `+linkWords+` is cut$`, w.cutNow)
	s.Step(`^the link is cut (\d+) times, each time once "([^"]*)" consumes again$`, w.flap)
	s.Step(`^new connections are refused$`, func() { w.fired("new connections are refused"); w.faultsOf(defaultProcess).Refuse() })
	s.Step(`^new connections are accepted again$`, func() { w.faultsOf(defaultProcess).Accept() })
	s.Step(`^the toxics are removed$`, w.removeToxics)
	s.Step(`^the consumer gives up the `+linkWords+` within (\w+)$`, w.givesUp)
	s.Step(`^the broker gives up the `+linkWords+` within (\w+)$`, w.brokerGivesUp)
}

func roleOf(which string) ledger.Role {
	switch which {
	case "consuming connection":
		return ledger.RoleConsuming
	case "publishing connection":
		return ledger.RolePublishing
	default:
		return 0
	}
}

// hasToxic puts one of toxiproxy's toxics on connections; on the link as a whole, on new ones too.
func (w *World) hasToxic(ctx context.Context, which, kind, direction, attributes string) error {
	values, err := readAttributes(attributes, kind)
	if err != nil {
		return err
	}
	f := toxics.LinkFault{
		Type: kind, Role: roleOf(which), New: which == "link", Attributes: values,
		ToBroker: direction != "to the consumer", ToConsumer: direction != "to the broker",
	}
	f.Text = strings.TrimSpace(fmt.Sprintf("the %s has the toxic %s %s", which, kind, strings.TrimSpace(direction+" "+attributes)))
	if err := f.Check(); err != nil {
		return err
	}
	if _, err := w.linksOf(ctx, which); err != nil {
		return err
	}
	p, err := w.faultsOf(defaultProcess).Proxy(f)
	if err != nil {
		return err
	}
	w.mu.Lock()
	w.toxics = append(w.toxics, p)
	w.mu.Unlock()
	w.watch(firing{text: f.Text, fired: p.Fired})
	return nil
}

// linksOf waits for the connections that are meant: a library may open the one that publishes when it
// first needs it.
func (w *World) linksOf(ctx context.Context, which string) ([]*toxics.Link, error) {
	var links []*toxics.Link
	there := w.within(ctx, recovery, func(*ledger.Book) bool {
		links = w.faultsOf(defaultProcess).Links(roleOf(which))
		return len(links) > 0
	})
	if !there {
		return nil, &Unknown{Why: fmt.Sprintf("the consumer has no %s that could be broken", which)}
	}
	return links, nil
}

func (w *World) cutNow(ctx context.Context, which string) error {
	links, err := w.linksOf(ctx, which)
	if err != nil {
		return err
	}
	for _, l := range links {
		l.Sever(fmt.Sprintf("the %s is cut", which))
	}
	return nil
}

func (w *World) flap(ctx context.Context, times int, name string) error {
	for range times {
		if err := w.cutNow(ctx, "link"); err != nil {
			return err
		}
		if err := w.consumesAgain(ctx, name); err != nil {
			return err
		}
	}
	return nil
}

// removeToxics takes toxiproxy's toxics off again.
func (w *World) removeToxics() {
	w.mu.Lock()
	list := w.toxics
	w.toxics = nil
	w.mu.Unlock()
	for _, p := range list {
		p.Remove()
	}
}

// givesUp waits until the consumer itself has ended the connections that were broken last: nobody else
// tells it that nothing comes any more.
func (w *World) givesUp(ctx context.Context, which, limit string) error {
	most, err := time.ParseDuration(limit)
	if err != nil {
		return fmt.Errorf("the time %q cannot be read: %w", limit, err)
	}
	broken := map[int]time.Duration{}
	var last ledger.Event
	for _, e := range w.Ledger.Events() {
		if e.Kind == ledger.Fired && e.Conn != 0 {
			broken[e.Conn], last = e.At, e
		}
	}
	if len(broken) == 0 {
		// The toxic has seen no traffic yet: a heartbeat will come.
		if !w.within(ctx, most, func(*ledger.Book) bool { return w.faultsFired() > 0 }) {
			return &Failure{
				Expected: fmt.Sprintf("the consumer to give up the %s within %s", which, limit),
				Seen:     "nobody has said anything on it in all that time: there is no heartbeat",
			}
		}
		return w.givesUp(ctx, which, limit)
	}
	ended := func(*ledger.Book) bool {
		left := len(broken)
		for _, e := range w.Ledger.Events() {
			if at, ours := broken[e.Conn]; ours && e.At > at && !e.Broker && e.Process == last.Process &&
				(e.Kind == ledger.ConnectionLost || e.Kind == ledger.ConnectionClosed) {
				left--
			}
		}
		return left <= 0
	}
	if !w.within(ctx, most, ended) {
		return &Failure{
			Expected: fmt.Sprintf("the consumer to give up the %s within %s of its last sign of life", which, limit),
			Seen:     "it still holds it for alive",
		}
	}
	return nil
}

// brokerGivesUp waits until the broker has ended the connections that are open: it has heard nothing of the
// consumer for too long.
func (w *World) brokerGivesUp(ctx context.Context, which, limit string) error {
	most, err := time.ParseDuration(limit)
	if err != nil {
		return fmt.Errorf("the time %q cannot be read: %w", limit, err)
	}
	var open []int
	for _, l := range w.faultsOf(defaultProcess).Links(roleOf(which)) {
		open = append(open, l.Number)
	}
	if len(open) == 0 {
		return &Unknown{Why: fmt.Sprintf("the consumer has no %s that could be given up", which)}
	}
	left := len(open)
	ended := func(*ledger.Book) bool {
		left = len(open)
		for _, e := range w.Ledger.Events() {
			if e.Broker && slices.Contains(open, e.Conn) && (e.Kind == ledger.ConnectionLost || e.Kind == ledger.ConnectionClosed) {
				left--
			}
		}
		return left == 0
	}
	if !w.within(ctx, most, ended) {
		return &Unknown{Why: fmt.Sprintf("after %s the broker has not given up the %s: %d of %d connections are left", limit, which, left, len(open))}
	}
	return nil
}
