package steps

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/parkproof/parkproof/scenarios/adapter"
	"github.com/parkproof/parkproof/scenarios/adapter/protocol"
	"github.com/parkproof/parkproof/scenarios/ledger"
	"github.com/parkproof/parkproof/toxics"
)

// defaultProcess is the process of consumers for which the case names none.
const defaultProcess = "consumer"

// endGrace is how long an adapter may take to end once its stdin has ended.
const endGrace = 3 * time.Second

// consumerProcess is a process of the consumer under test, with its wire.
type consumerProcess struct {
	world    *World
	name     string
	ladder   []time.Duration
	prefetch int

	adapter *adapter.Adapter
	wire    *toxics.Wire
	// faults are in force in all of the process's lives.
	faults *toxics.Faults
	// revived is closed, and replaced, when the process has been started again; lives counts its starts.
	revived chan struct{}
	lives   int
	life    *life
	ready   protocol.Ready
	// consumed are the consumes that it was asked for, to ask again after a restart.
	consumed []protocol.Request
	past     []string // the log of its earlier lives
	asked    bool     // to close; end says it otherwise
	// closing is set where the case ends the process, so that no supervisor starts it again.
	closing bool
	ended   bool
	paused  bool
}

func (w *World) processSteps(s Words) {
	s.Step(`^the consumer's process is started again whenever it dies$`, func() { w.supervised = true })
	s.Step(`^the consumer's process is closed$`, func(ctx context.Context) error { return w.closeProcess(ctx, defaultProcess, true) })
	s.Step(`^the consumer's process is closed and started again$`, func(ctx context.Context) error { return w.restart(ctx, true) })
	s.Step(`^the consumer's process is started again$`, func(ctx context.Context) error {
		if p := w.processes[defaultProcess]; p != nil && !p.ended {
			return errors.New("the consumer's process still runs: close it first")
		}
		return w.restart(ctx, true)
	})
	s.Step(`^the consumer's process is closed without finishing and started again$`, func(ctx context.Context) error { return w.restart(ctx, false) })
	s.Step(`^the consumer's process is asked to close and "([^"]*)" lets go of "([^"]*)"$`, func(ctx context.Context, name, message string) error {
		return w.closeWhileHeld(ctx, name, message, ok)
	})
	s.Step(`^the process of "([^"]*)" is asked to close and it fails "([^"]*)"$`, func(ctx context.Context, name, pattern string) error {
		return w.closeWhileHeld(ctx, name, pattern, outcome{verdict: protocol.VerdictFail, reason: defaultReason})
	})
}

// rungs are the delays that the consumer really has.
func (p *consumerProcess) rungs() []time.Duration {
	if len(p.ready.DelaysMS) == 0 {
		return p.ladder
	}
	rungs := make([]time.Duration, len(p.ready.DelaysMS))
	for i, ms := range p.ready.DelaysMS {
		rungs[i] = time.Duration(ms) * time.Millisecond
	}
	return rungs
}

// fixedLadder reports whether the library has a ladder of its own, and cases are judged by that.
func (p *consumerProcess) fixedLadder() bool {
	return !slices.Contains(p.ready.Supports, protocol.CanLadder) && !slices.Equal(p.rungs(), p.ladder)
}

// attempts is how often a message is tried at most.
func (p *consumerProcess) attempts() int {
	if p.ready.Attempts > 0 {
		return p.ready.Attempts
	}
	return len(p.rungs()) + 1
}

func (w *World) allProcesses() []*consumerProcess {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := make([]*consumerProcess, 0, len(w.order))
	for _, name := range w.order {
		all = append(all, w.processes[name])
	}
	return all
}

// process returns the process of that name, and starts it where it does not run yet.
func (w *World) process(ctx context.Context, name string, ladder []time.Duration, prefetch int) (*consumerProcess, error) {
	if name == "" {
		name = defaultProcess
	}
	w.mu.Lock()
	p := w.processes[name]
	w.mu.Unlock()
	if p != nil {
		if ladder != nil && !slices.Equal(ladder, p.ladder) || prefetch != 0 && prefetch != p.prefetch {
			return nil, fmt.Errorf("the process %q has another ladder or prefetch: put the consumer in a process of its own", name)
		}
		return p, nil
	}
	if ladder == nil {
		ladder = DefaultLadder()
	}
	if prefetch == 0 {
		prefetch = DefaultPrefetch
	}
	p = &consumerProcess{
		world: w, name: name, ladder: ladder, prefetch: prefetch, faults: w.faultsOf(name), revived: make(chan struct{}),
	}
	w.mu.Lock()
	w.processes[name] = p
	w.order = append(w.order, name)
	w.mu.Unlock()
	return p, p.supervise(ctx, true, p.start)
}

func (p *consumerProcess) start(ctx context.Context) error {
	w := p.world
	known := w.known()
	wire, err := toxics.Listen(ctx, toxics.Options{
		Upstream: w.Broker.Addr(), Process: p.name, Ledger: w.Ledger, Identify: w.identify,
		ConfirmDelay: ConfirmDelay, Number: w.number, Faults: p.faults,
	})
	if err != nil {
		return err
	}
	amqpURL, err := through(w.Broker.URL(w.vhost), wire.Addr())
	if err != nil {
		return errors.Join(err, wire.Close())
	}
	starting, stop := context.WithTimeout(ctx, answer)
	defer stop()
	l := &life{process: p, noted: make(chan struct{})}
	a, err := adapter.Start(starting, adapter.Options{
		Command: w.Command, Control: w.Control, URL: amqpURL,
		OnEvent:   func(e protocol.Event) { w.event(l, e) },
		OnWarning: func(text string) { w.warn(w.Broker.Hide(text)) },
		Hide:      w.Broker.Hide,
	})
	if err != nil {
		return errors.Join(err, wire.Close())
	}
	w.mu.Lock()
	p.wire, p.adapter, p.asked, p.closing, p.ended = wire, a, false, false, false
	l.adapter, p.life = a, l
	w.adapters = append(w.adapters, a)
	p.lives++
	w.mu.Unlock()
	w.Ledger.Add(ledger.Event{Kind: ledger.ProcessStarted, Process: p.name})
	w.watchers.Go(func() {
		<-a.Exited()
		w.Ledger.Add(ledger.Event{Kind: ledger.ProcessExited, Process: p.name, Text: a.Status()})
		close(l.noted)
		p.died(l, wire)
	})
	asking, cancel := context.WithTimeout(ctx, answer)
	defer cancel()
	ready, err := a.Init(asking, protocol.Request{
		Case: w.Case, URLs: []string{amqpURL}, LadderMS: milliseconds(p.ladder), Prefetch: p.prefetch,
		Heartbeat: heartbeatSeconds, Prefix: w.prefix,
	})
	if err != nil {
		return judged(err, "the consumer to start")
	}
	w.mu.Lock()
	p.ready = ready
	w.mu.Unlock()
	w.names.Store(&conventions{ready.Conventions})
	if w.OnReady != nil {
		w.OnReady(ready)
	}
	if err := w.unowned(p, known); err != nil {
		return err
	}
	return p.unsupported()
}

// unsupported says which of the case's tags the adapter does not claim.
func (p *consumerProcess) unsupported() error {
	lacks := func(capability string) bool { return !slices.Contains(p.ready.Supports, capability) }
	if lacks(protocol.CanRetry) {
		return &Unsupported{What: protocol.CanRetry}
	}
	for _, capability := range p.world.Needs {
		if atOnce, is := strings.CutPrefix(capability, protocol.CanConcurrent+":"); is {
			if !p.concurrent(atOnce) {
				return &Unsupported{What: fmt.Sprintf("%s handlers at once", atOnce)}
			}
			continue
		}
		if lacks(capability) {
			return &Unsupported{What: capability}
		}
	}
	if lacks(protocol.CanPrefetch) && p.prefetch != DefaultPrefetch {
		return &Unsupported{What: protocol.CanPrefetch}
	}
	return nil
}

// concurrent reports whether so many handlers can run at once; an adapter that does not say has no
// limit of its own.
func (p *consumerProcess) concurrent(atOnce string) bool {
	need, err := strconv.Atoi(atOnce)
	for _, capability := range p.ready.Supports {
		if text, is := strings.CutPrefix(capability, protocol.CanConcurrent+":"); is && err == nil {
			n, err := strconv.Atoi(text)
			return err == nil && n >= need
		}
	}
	return err == nil
}

// through is the URL with the host and port of the consumer's wire in place of the broker's.
func through(raw, addr string) (string, error) {
	u, err := url.Parse(raw)
	if err != nil {
		return "", errors.New("the broker's URL cannot be read") // the error would show the password
	}
	u.Host = addr
	return u.String(), nil
}

// end ends the process and its wire; the process has the grace to end by itself.
func (p *consumerProcess) end(ctx context.Context, grace time.Duration) error {
	p.world.mu.Lock()
	a, wire, ended := p.adapter, p.wire, p.ended
	p.ended, p.closing = true, true
	p.world.mu.Unlock()
	if a == nil || ended {
		return nil
	}
	p.askToStop()
	var err error
	if grace == 0 {
		err = a.Kill(ctx)
		<-a.Exited()
	} else {
		err = a.End(ctx, grace)
	}
	return errors.Join(err, wire.Close())
}

// askToStop notes, once in a life, that the case ends the process: its exit and redeliveries are no
// surprise from then on.
func (p *consumerProcess) askToStop() {
	p.world.mu.Lock()
	again := p.asked
	p.asked = true
	p.world.mu.Unlock()
	if !again {
		p.world.Ledger.Add(ledger.Event{Kind: ledger.StopAsked, Process: p.name})
	}
}

func (w *World) closeProcess(ctx context.Context, name string, finish bool) error {
	w.mu.Lock()
	p := w.processes[name]
	w.mu.Unlock()
	if p == nil {
		return fmt.Errorf("no process %q was started", name)
	}
	return p.close(ctx, finish)
}

// close asks the consumer to close, and ends its process.
func (p *consumerProcess) close(ctx context.Context, finish bool) error {
	p.world.mu.Lock()
	ended := p.ended
	p.closing = true
	p.world.mu.Unlock()
	if ended {
		return nil
	}
	p.askToStop()
	asking, cancel := context.WithTimeout(ctx, answer)
	defer cancel()
	err := p.adapter.Close(asking, finish)
	if errors.Is(err, adapter.ErrUnsupported) {
		err = nil // its stdin's end closes it
	}
	if err := judged(err, "the consumer to close"); err != nil {
		return err
	}
	return p.end(ctx, endGrace)
}

func (w *World) restart(ctx context.Context, finish bool) error {
	p := w.processes[defaultProcess]
	if p == nil {
		return errors.New("no consumer was started")
	}
	if err := p.close(ctx, finish); err != nil {
		return err
	}
	return p.again(ctx)
}

// consume asks the process to consume, and again where it is started again meanwhile.
func (p *consumerProcess) consume(ctx context.Context, r protocol.Request) error {
	if err := p.supervise(ctx, false, func(ctx context.Context) error { return p.consumeOnce(ctx, r) }); err != nil {
		return err
	}
	p.world.mu.Lock()
	p.consumed = append(p.consumed, r)
	p.world.mu.Unlock()
	return nil
}

func (p *consumerProcess) consumeOnce(ctx context.Context, r protocol.Request) error {
	w := p.world
	asking, cancel := context.WithTimeout(ctx, answer)
	defer cancel()
	w.mu.Lock()
	a := p.adapter
	w.mu.Unlock()
	consumed, err := a.Consume(asking, r)
	if err != nil {
		return judged(err, fmt.Sprintf("%q to consume", r.Consumer))
	}
	w.mu.Lock()
	w.consumers[r.Consumer] = &consumer{name: r.Consumer, process: p, queue: consumed.Queue, exclusive: r.Exclusive}
	w.mu.Unlock()
	w.looks.Lock()
	w.terms.Consumers[r.Consumer] = consumed.Queue
	w.looks.Unlock()
	return nil
}

// closeWhileHeld asks the process to close while handlers run, and gives them their outcome only
// when it takes no more deliveries.
func (w *World) closeWhileHeld(ctx context.Context, name, pattern string, o outcome) error {
	c, err := w.consumer(name)
	if err != nil {
		return err
	}
	p := c.process
	w.mu.Lock()
	p.closing = true
	w.mu.Unlock()
	p.askToStop()
	closed := make(chan error, 1)
	go func() {
		asking, cancel := context.WithTimeout(ctx, answer)
		defer cancel()
		closed <- p.adapter.Close(asking, true)
	}()
	// It stops taking deliveries before it waits for its handlers: that can be seen on the wire.
	stopped := w.eventuallyIn(ctx, quiet, func(b *ledger.Book) bool {
		for _, e := range slices.Backward(w.Ledger.Events()) {
			if e.Process == p.name && (e.Kind == ledger.Cancelled || e.Kind == ledger.ChannelClosed || e.Kind == ledger.ConnectionClosed) {
				return true
			}
			if e.Kind == ledger.StopAsked && e.Process == p.name {
				return false
			}
		}
		return false
	})
	if !stopped {
		return &Failure{Expected: "the consumer to stop taking deliveries when it is asked to close", Seen: "neither a cancel nor a close on the wire"}
	}
	if err := w.release(name, pattern, o); err != nil {
		return err
	}
	if err := judged(<-closed, "the consumer to close once its handlers are done"); err != nil {
		return err
	}
	return p.end(ctx, endGrace)
}

func milliseconds(ladder []time.Duration) []int64 {
	ms := make([]int64, len(ladder))
	for i, d := range ladder {
		ms[i] = d.Milliseconds()
	}
	return ms
}

// parseLadder reads "100ms, 200ms".
func parseLadder(text string) ([]time.Duration, error) {
	if text == "" {
		return nil, nil
	}
	var ladder []time.Duration
	for _, part := range strings.Split(text, ",") {
		d, err := time.ParseDuration(strings.TrimSpace(part))
		if err != nil {
			return nil, fmt.Errorf("the ladder %q cannot be read: %w", text, err)
		}
		ladder = append(ladder, d)
	}
	return ladder, nil
}

// fieldOf is a text field of a JSON object, or empty.
func fieldOf(body []byte, field string) string {
	var object map[string]json.RawMessage
	if json.Unmarshal(body, &object) != nil {
		return ""
	}
	var value string
	if json.Unmarshal(object[field], &value) != nil {
		return ""
	}
	return value
}
