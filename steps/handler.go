package steps

import (
	"context"
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"

	"github.com/parkproof/parkproof/scenarios/adapter/protocol"
	"github.com/parkproof/parkproof/scenarios/ledger"
)

// script says what a consumer's handler comes to, for the messages of a pattern. The last script
// that fits counts.
type script struct {
	consumer, pattern string
	// first are the verdicts of the first calls, then the one of all others.
	first []outcome
	then  outcome
}

// outcome is one call's end: a verdict, or holding the message until the case lets go of it.
type outcome struct {
	verdict, as, reason string
	hold                bool
}

var ok = outcome{verdict: protocol.VerdictOK}

// heldCall is a handler call that waits for its verdict.
type heldCall struct {
	life    *life
	n       int
	message string
}

func (w *World) handlerSteps(s Words) {
	const ways = `(?: (without a value|by a panic|by a Retry verdict|by a Park verdict|by a wrapped Retry verdict|by a wrapped Park verdict))?`
	s.Step(`^"([^"]*)" fails "([^"]*)" (once|twice|\d+ times), then (handles|parks) it$`, w.failsThen)
	s.Step(`^"([^"]*)" always fails "([^"]*)"`+ways+`$`, func(name, pattern, way string) error { return w.alwaysFails(name, pattern, way, "") })
	s.Step(`^"([^"]*)" always fails "([^"]*)" with the reason "([^"]*)"$`, func(name, pattern, reason string) error {
		return w.alwaysFails(name, pattern, "", reason)
	})
	s.Step(`^"([^"]*)" always fails "([^"]*)" with a reason of (\d+) bytes$`, func(name, pattern string, size int) error {
		return w.alwaysFails(name, pattern, "", strings.Repeat("reason ", size/7+1)[:size])
	})
	s.Step(`^"([^"]*)" and "([^"]*)" always fail "([^"]*)"$`, func(one, two, pattern string) error {
		if err := w.alwaysFails(one, pattern, "", ""); err != nil {
			return err
		}
		return w.alwaysFails(two, pattern, "", "")
	})
	s.Step(`^"([^"]*)" parks "([^"]*)"$`, func(name, pattern string) error { return w.alwaysFails(name, pattern, "by a Park verdict", "") })
	s.Step(`^"([^"]*)" holds "([^"]*)" in the handler$`, func(name, pattern string) {
		w.script(script{consumer: name, pattern: pattern, then: outcome{hold: true}})
	})
	s.Step(`^"([^"]*)" has "([^"]*)" in the handler$`, func(ctx context.Context, name, message string) error {
		return w.hasInHandler(ctx, name, 1, message)
	})
	s.Step(`^"([^"]*)" has (\d+) messages "([^"]*)" in the handler$`, w.hasInHandler)
	s.Step(`^"([^"]*)" lets go of "([^"]*)"$`, func(ctx context.Context, name, message string) error {
		// The wire shows a delivery before its handler is called.
		if err := w.hasInHandler(ctx, name, 1, message); err != nil {
			return err
		}
		return w.release(name, message, ok)
	})
	s.Step(`^"([^"]*)" lets go of "([^"]*)" and fails it$`, func(ctx context.Context, name, message string) error {
		if err := w.hasInHandler(ctx, name, 1, message); err != nil {
			return err
		}
		return w.release(name, message, outcome{verdict: protocol.VerdictFail, reason: defaultReason})
	})
	s.Step(`^"([^"]*)" lets go of the first call of "([^"]*)"$`, w.releaseFirst)
	s.Step(`^"([^"]*)" has failed "([^"]*)"$`, func(ctx context.Context, name, message string) error { return w.hasFailed(ctx, name, 1, message) })
	s.Step(`^"([^"]*)" has failed "([^"]*)" (twice|\d+ times)$`, func(ctx context.Context, name, message, count string) error {
		n, err := parseCount(count)
		if err != nil {
			return err
		}
		return w.hasFailed(ctx, name, n, message)
	})
	s.Step(`^"([^"]*)" has failed (\d+) messages "([^"]*)"$`, w.hasFailed)
}

func (w *World) script(s script) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.scripts = append(w.scripts, s)
}

func (w *World) failsThen(name, pattern, count, then string) error {
	n, err := parseCount(count)
	if err != nil {
		return err
	}
	s := script{consumer: name, pattern: pattern, then: ok}
	for range n {
		s.first = append(s.first, outcome{verdict: protocol.VerdictFail, reason: defaultReason})
	}
	if then == "parks" {
		s.then = outcome{verdict: protocol.VerdictPark, reason: defaultReason}
	}
	w.script(s)
	return nil
}

// defaultReason is the reason of a failure for which the case gives none.
const defaultReason = "the handler failed, as the case told it to"

func (w *World) alwaysFails(name, pattern, way, reason string) error {
	if reason == "" {
		reason = defaultReason
	}
	o := outcome{verdict: protocol.VerdictFail, reason: reason}
	switch way {
	case "":
	case "without a value":
		o.as, o.reason = protocol.AsNothing, ""
	case "by a panic":
		o.as = protocol.AsPanic
	case "by a Retry verdict":
		o.verdict = protocol.VerdictRetry
	case "by a Park verdict":
		o.verdict = protocol.VerdictPark
	case "by a wrapped Retry verdict":
		o.verdict, o.as = protocol.VerdictRetry, protocol.AsWrapped
	case "by a wrapped Park verdict":
		o.verdict, o.as = protocol.VerdictPark, protocol.AsWrapped
	}
	w.script(script{consumer: name, pattern: pattern, then: o})
	return nil
}

// event takes what an adapter tells unasked. It is called in the order of its lines.
func (w *World) event(l *life, e protocol.Event) {
	p := l.process
	switch e.Event {
	case protocol.EventDelivery:
		w.called(l, e)
	case protocol.EventDiagnostic:
		w.Ledger.Add(ledger.Event{Kind: ledger.Diagnostic, Process: p.name, Message: e.Message, Text: strings.TrimSpace(e.Name + " " + e.Text)})
	case protocol.EventConnection:
		w.Ledger.Add(ledger.Event{Kind: ledger.Diagnostic, Process: p.name, Text: "connection " + e.State})
	default:
		w.warn(fmt.Sprintf("the adapter sent an event of the unknown kind %q", e.Event))
	}
}

// called takes a handler's call and gives it its verdict, unless the case holds it.
func (w *World) called(l *life, e protocol.Event) {
	p := l.process
	message := e.Message
	w.mu.Lock()
	if message == "" {
		message = w.bodies[sha256.Sum256(e.Body)]
	}
	o := w.outcome(e.Consumer, message)
	w.mu.Unlock()
	w.Ledger.Add(ledger.Event{
		Kind: ledger.HandlerCalled, Process: p.name, Consumer: e.Consumer, Message: message, Tag: uint64(e.N), Attempt: e.Attempt,
	})
	if o.hold {
		w.mu.Lock()
		k := e.Consumer + "/" + message
		w.held[k] = append(w.held[k], heldCall{l, e.N, message})
		w.mu.Unlock()
		w.Ledger.Add(ledger.Event{Kind: ledger.Noted, Process: p.name, Message: message, Text: "held in the handler"})
		return
	}
	w.settle(l, e.N, message, o)
}

// outcome is what the handler's call is to come to. The caller holds mu.
func (w *World) outcome(name, message string) outcome {
	for i := len(w.scripts) - 1; i >= 0; i-- {
		s := w.scripts[i]
		if s.consumer != name || !matches(s.pattern, message) {
			continue
		}
		k := name + "/" + message
		n := w.calls[k]
		w.calls[k]++
		if n < len(s.first) {
			return s.first[n]
		}
		return s.then
	}
	return ok
}

func (w *World) settle(l *life, n int, message string, o outcome) {
	w.Ledger.Add(ledger.Event{
		Kind: ledger.HandlerSettled, Process: l.process.name, Message: message, Tag: uint64(n), Verdict: o.verdict, Text: o.as,
	})
	// Not in the adapter's reader: an adapter that does not read while it writes would block both.
	w.mu.Lock()
	a := l.adapter
	w.mu.Unlock()
	w.settling.Go(func() {
		// What goes wrong here is kept as the adapter's breach, or seen at its end.
		_ = a.Settle(context.Background(), protocol.Request{N: n, Verdict: o.verdict, As: o.as, Reason: o.reason})
	})
}

func (w *World) hasInHandler(ctx context.Context, name string, want int, pattern string) error {
	held := func() int {
		w.mu.Lock()
		defer w.mu.Unlock()
		n := 0
		for k, calls := range w.held {
			if consumer, message, _ := strings.Cut(k, "/"); consumer == name && matches(pattern, message) {
				n += len(calls)
			}
		}
		return n
	}
	if !w.eventually(ctx, func(*ledger.Book) bool { return held() >= want }) {
		return &Failure{Expected: fmt.Sprintf("%q to have %d of %s in its handler", name, want, pattern), Seen: fmt.Sprintf("it has %d", held())}
	}
	return nil
}

// release gives the handlers that hold messages of the pattern their outcome; later calls come to it
// too.
func (w *World) release(name, pattern string, o outcome) error {
	w.mu.Lock()
	var calls []heldCall
	for k, of := range w.held {
		if consumer, message, _ := strings.Cut(k, "/"); consumer == name && matches(pattern, message) {
			calls = append(calls, of...)
			delete(w.held, k)
		}
	}
	w.scripts = append(w.scripts, script{consumer: name, pattern: pattern, then: o})
	w.mu.Unlock()
	if len(calls) == 0 {
		return fmt.Errorf("%q does not hold %s in its handler", name, pattern)
	}
	for _, c := range calls {
		w.settle(c.life, c.n, c.message, o)
	}
	return nil
}

// releaseFirst lets the handler go on that has held the message for longest, and succeed: a later call holds
// it still.
func (w *World) releaseFirst(ctx context.Context, name, message string) error {
	if err := w.hasInHandler(ctx, name, 1, message); err != nil {
		return err
	}
	w.mu.Lock()
	calls := w.held[name+"/"+message]
	if len(calls) == 0 {
		w.mu.Unlock()
		return fmt.Errorf("%q does not hold %s in its handler any more", name, message)
	}
	first := calls[0]
	w.held[name+"/"+message] = slices.Delete(calls, 0, 1)
	w.mu.Unlock()
	w.settle(first.life, first.n, first.message, ok)
	return nil
}

// letGoOfAll lets go of all that is held, so that the scenario can settle.
func (w *World) letGoOfAll() {
	w.mu.Lock()
	held := w.held
	w.held = map[string][]heldCall{}
	for i := range w.scripts {
		if w.scripts[i].then.hold {
			w.scripts[i].then = ok
		}
	}
	w.mu.Unlock()
	for _, calls := range held {
		for _, c := range calls {
			w.settle(c.life, c.n, c.message, ok)
		}
	}
}

// hasFailed waits until the consumer has failed that many of the messages and has settled them.
func (w *World) hasFailed(ctx context.Context, name string, want int, pattern string) error {
	c, err := w.consumer(name)
	if err != nil {
		return err
	}
	got := 0
	failed := func(b *ledger.Book) bool {
		got = 0
		for _, d := range b.Deliveries {
			if d.Process == c.process.name && d.Queue == c.queue && matches(pattern, d.Message) &&
				d.Settled != 0 && d.Verdict != protocol.VerdictOK && !d.Open() {
				got++
			}
		}
		return got >= want
	}
	if !w.eventually(ctx, failed) {
		return &Failure{
			Expected: fmt.Sprintf("%q to fail %d of %s and to settle them", name, want, pattern),
			Seen:     fmt.Sprintf("%d failed and settled", got),
		}
	}
	return nil
}
