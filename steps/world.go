// Package steps has the words of the cases: one file a noun. A World is what one scenario stands
// on: a virtual host, the consumer's processes behind their wires, and the ledger.
package steps

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/parkproof/parkproof/scenarios/adapter"
	"github.com/parkproof/parkproof/scenarios/adapter/protocol"
	"github.com/parkproof/parkproof/scenarios/broker"
	"github.com/parkproof/parkproof/scenarios/ledger"
	"github.com/parkproof/parkproof/toxics"
)

const (
	// ConfirmDelay is how late the confirms of copies are passed on, so that an ack sent too early
	// cannot be mistaken for one sent in time.
	ConfirmDelay = 25 * time.Millisecond
	// DefaultPrefetch is the prefetch where a case says nothing.
	DefaultPrefetch = 10
	// heartbeat of consumers, in seconds: a short one keeps a stuck consumer short.
	heartbeatSeconds = 2
	// quiet is how long nothing must have happened, beyond the longest rung, until a step gives up
	// waiting: a loss is seen by the silence that follows it. Long, because a loaded machine is
	// silent too.
	quiet = 4 * time.Second
	// restful is how long nothing must have happened where, by what was seen on the wire, nothing is
	// under way: only what the wire does not show can still come, such as an adapter's own word.
	restful = 1500 * time.Millisecond
	// patience bounds a wait in which something happens all the time, such as a hot loop.
	patience = 30 * time.Second
	// answer bounds each answer of an adapter.
	answer = 20 * time.Second
	// ours bounds each request of parkproof's own to the broker.
	ours = 20 * time.Second
)

// DefaultLadder is the ladder where a case says nothing.
func DefaultLadder() []time.Duration {
	return []time.Duration{100 * time.Millisecond, 100 * time.Millisecond, 100 * time.Millisecond}
}

// Settings are what a scenario is run with.
type Settings struct {
	Broker *broker.Broker
	// Alone says that no other scenario is on the broker: it may be stopped, killed and filled.
	Alone bool
	// Command starts the adapter; Control lets it speak on a socket.
	Command []string
	Control bool
	// Case is the case's id.
	Case string
	// Needs are the capabilities that the case's tags ask for.
	Needs []string
	// Path is set for a run of a path that is explored.
	Path *Path
	// OnReady is told what the adapter says of itself.
	OnReady func(protocol.Ready)
}

// World is what one scenario stands on.
type World struct {
	Settings
	Ledger *ledger.Ledger

	vhost  string
	owned  bool   // the virtual host was made for this scenario
	prefix string // of every name, where the virtual host is shared
	// foreign are names in a shared virtual host that are, or may be, somebody else's.
	foreign     map[string]bool
	own         ownConnection
	node        node
	removed     map[string]removal // by its kind and name
	connections atomic.Int64
	names       atomic.Pointer[conventions]

	mu        sync.Mutex
	processes map[string]*consumerProcess
	order     []string // of the processes
	faults    map[string]*toxics.Faults
	firings   []firing
	toxics    []*toxics.Proxied
	probes    atomic.Int64 // further messages that were published to see whether a consumer goes on
	// supervised processes are started again whenever they die; settled ends that.
	supervised, settled bool
	reviving            sync.WaitGroup
	adapters            []*adapter.Adapter // all that were ever started
	// open ends when the world is closed.
	open      context.Context
	close     context.CancelFunc
	consumers map[string]*consumer
	declared  map[string]declared // exchanges and queues by the case's names
	bodies    map[[sha256.Size]byte]string
	scripts   []script
	calls     map[string]int // handler calls by queue and message
	held      map[string][]heldCall
	warnings  []string
	settling  sync.WaitGroup
	watchers  sync.WaitGroup

	terms ledger.Terms
	book  *ledger.Book
	looks sync.Mutex // guards book and terms

	finals  []func() error
	refused error // the answer to a consume that was to be refused
}

// declared is an exchange or queue of the case's own.
type declared struct {
	kind string // fanout, topic, ..., or queue
	// queueType is classic or quorum.
	queueType string
}

// NewWorld makes the scenario's virtual host and connects to it.
func NewWorld(ctx context.Context, s Settings) (*World, error) {
	w := &World{
		Settings: s, Ledger: ledger.New(), removed: map[string]removal{},
		processes: map[string]*consumerProcess{}, faults: map[string]*toxics.Faults{}, consumers: map[string]*consumer{}, declared: map[string]declared{},
		foreign: map[string]bool{}, bodies: map[[sha256.Size]byte]string{}, calls: map[string]int{}, held: map[string][]heldCall{},
		terms: ledger.Terms{
			Consumers: map[string]string{}, Kept: map[string]bool{}, DroppedOnPurpose: map[string]bool{},
			MayExpire: map[string]bool{}, ExpectedCodes: map[uint16]bool{},
		},
	}
	w.open, w.close = context.WithCancel(context.WithoutCancel(ctx))
	w.terms.ParkedQueue = func(source string) string { return w.conventions().parkedQueue(source) }
	w.book = ledger.NewBook(&w.terms)
	if s.Broker.Can(broker.Vhosts) {
		w.vhost, w.owned = s.Broker.VhostName(), true
		if err := w.createVhost(ctx); err != nil {
			return nil, err
		}
	} else {
		w.vhost = s.Broker.DefaultVhost()
		w.prefix = strings.ToLower(fmt.Sprintf("pp-%s-%x.", s.Case, time.Now().UnixNano()&0xffffff))
	}
	if err := w.connect(ctx); err != nil {
		return nil, errors.Join(err, w.Close(context.WithoutCancel(ctx)))
	}
	return w, nil
}

// createVhost makes the scenario's virtual host. A request that is given up half-way may still be
// carried out, so it is seen to its end even where the case's time is over.
func (w *World) createVhost(ctx context.Context) error {
	patient, cancel := context.WithTimeout(context.WithoutCancel(ctx), ours)
	defer cancel()
	err := w.Broker.CreateVhost(patient, w.vhost)
	if err == nil {
		err = ctx.Err()
	}
	if err == nil {
		return nil
	}
	return errors.Join(err, w.deleteVhost(ctx))
}

// number gives connections their numbers.
func (w *World) number() int { return int(w.connections.Add(1)) }

// physical is the name on the broker of a name in the case.
func (w *World) physical(name string) string {
	if name == "" {
		return ""
	}
	return w.prefix + name
}

// conventions are those of the adapter, which is the same in all processes; none before it has told.
func (w *World) conventions() conventions {
	if c := w.names.Load(); c != nil {
		return *c
	}
	return conventions{}
}

// identify tells which message a content is, by the library's convention, and by its body where
// that says nothing: some messages are published without any property.
func (w *World) identify(c *ledger.Content) string {
	how := w.conventions().MessageID
	p := &c.Properties
	var id string
	switch name, isHeader := strings.CutPrefix(how, "header:"); {
	case how == "" || how == "property":
		id = p.MessageID
	case isHeader:
		id, _ = p.Headers.Text(name)
	case strings.HasPrefix(how, "body:"):
		id = fieldOf(c.Body, strings.TrimPrefix(how, "body:"))
	}
	if id != "" {
		return id
	}
	digest := c.Digest()
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.bodies[digest]
}

// look evaluates a condition on the book of all events so far.
func (w *World) look(holds func(*ledger.Book) bool) bool {
	w.looks.Lock()
	defer w.looks.Unlock()
	w.book.Update(w.Ledger.Events())
	return holds(w.book)
}

// eventually waits until the condition holds. It gives up, and returns false, as soon as nothing
// more can happen; when nothing has happened for longer than the longest rung and the quiet time;
// when things have happened for too long; and at the case's end.
func (w *World) eventually(ctx context.Context, holds func(*ledger.Book) bool) bool {
	return w.eventuallyIn(ctx, w.longestRung()+quiet, holds)
}

func (w *World) eventuallyIn(ctx context.Context, silence time.Duration, holds func(*ledger.Book) bool) bool {
	ctx, cancel := context.WithTimeout(ctx, w.patience())
	defer cancel()
	still := w.stillness(silence)
	for {
		round, done := context.WithTimeout(ctx, restful/2)
		err := w.Ledger.Until(round, func([]ledger.Event) bool { return w.look(holds) })
		done()
		switch {
		case err == nil:
			return true
		case ctx.Err() != nil || still():
			return false
		}
	}
}

// patience bounds a wait; a consumer that something was done to has to come back first.
func (w *World) patience() time.Duration {
	limit := patience + w.wholeLadder()
	if w.look((*ledger.Book).Broken) {
		limit += recovery
	}
	return limit
}

// stillness returns a question that is true once nothing has happened for that long, or for a
// restful time while by the ledger nothing can happen any more; and when a message is in a loop, in
// which something happens for ever.
func (w *World) stillness(silence time.Duration) func() bool {
	seen, since := len(w.Ledger.Events()), time.Now()
	return func() bool {
		if w.look((*ledger.Book).RunsAway) || w.otherProtocol() != "" {
			return true
		}
		if n := len(w.Ledger.Events()); n != seen {
			seen, since = n, time.Now()
			return false
		}
		still, silence := time.Since(since), silence
		if w.look((*ledger.Book).Broken) {
			silence += recovery - quiet
		}
		return still > silence || still > restful && (!w.supervised && w.allExited() || w.look((*ledger.Book).AtRest))
	}
}

// allExited reports whether no process of the consumer runs any more.
func (w *World) allExited() bool {
	for _, p := range w.allProcesses() {
		if p.adapter == nil {
			continue
		}
		select {
		case <-p.adapter.Exited():
		default:
			return false
		}
	}
	return true
}

// consistently watches for the whole period and returns false as soon as the condition breaks.
func (w *World) consistently(ctx context.Context, period time.Duration, holds func(*ledger.Book) bool) (bool, error) {
	watch, cancel := context.WithTimeout(ctx, period)
	defer cancel()
	err := w.Ledger.Until(watch, func([]ledger.Event) bool { return !w.look(holds) })
	if err == nil {
		return false, nil
	}
	if ctx.Err() != nil {
		return false, fmt.Errorf("watching for %s: %w", period, ctx.Err())
	}
	return true, nil
}

// finally adds a check that is made once everything has settled.
func (w *World) finally(check func() error) { w.finals = append(w.finals, check) }

// longestRung is the longest delay of any ladder of the scenario.
func (w *World) longestRung() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	longest := time.Duration(0)
	for _, p := range w.processes {
		longest = max(longest, slices.Max(append([]time.Duration{0}, p.rungs()...)))
	}
	return longest
}

// wholeLadder is the longest sum of a ladder's delays.
func (w *World) wholeLadder() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	longest := time.Duration(0)
	for _, p := range w.processes {
		whole := time.Duration(0)
		for _, rung := range p.rungs() {
			whole += rung
		}
		longest = max(longest, whole)
	}
	return longest
}

// Warnings are remarks about the adapter that break no guarantee.
func (w *World) Warnings() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.warnings)
}

// Breach is the first breach of the protocol by an adapter, or a connection that cannot be followed, or nil.
func (w *World) Breach() error {
	for _, p := range w.allProcesses() {
		if p.adapter != nil {
			if err := p.adapter.Fault(); err != nil {
				return err
			}
		}
	}
	if text := w.otherProtocol(); text != "" {
		return &adapter.BrokenError{Text: text}
	}
	return nil
}

// otherProtocol says what a connection of the consumer's speaks instead of AMQP 0-9-1, and what to do about it;
// it is empty where there is none.
func (w *World) otherProtocol() string {
	for _, e := range w.Ledger.Events() {
		if e.Kind == ledger.Foreign {
			return e.Text
		}
	}
	return ""
}

func (w *World) warn(text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.warnings = append(w.warnings, text)
}

// Logs are the last lines of the logs of the consumer's processes.
func (w *World) Logs() []string {
	var lines []string
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, name := range w.order {
		p := w.processes[name]
		lines = append(lines, p.past...)
		if p.adapter != nil {
			for _, line := range p.adapter.Log() {
				lines = append(lines, w.Broker.Hide(line))
			}
		}
	}
	return lines
}

// Close ends what the scenario stands on, whatever state it is in: processes, wires, connections,
// the virtual host.
func (w *World) Close(ctx context.Context) error {
	var errs []error
	w.close()
	w.endSupervision()
	for _, p := range w.allProcesses() {
		errs = append(errs, p.end(ctx, 0))
	}
	w.mu.Lock()
	started := w.adapters
	w.mu.Unlock()
	for _, a := range started {
		select {
		case <-a.Exited():
		default: // whatever else went wrong, none may outlive its scenario
			errs = append(errs, a.Kill(context.WithoutCancel(ctx)))
		}
	}
	w.settling.Wait()
	// A broker that the case has left down has nobody else on it, and is replaced.
	away := w.isAway()
	if w.wasConnected() && !w.owned && !away {
		errs = append(errs, w.removeAll(ctx))
	}
	errs = append(errs, w.disconnect())
	w.watchers.Wait()
	if w.owned && !away {
		errs = append(errs, w.deleteVhost(ctx))
	}
	return errors.Join(errs...)
}

// deleteVhost removes the scenario's virtual host, in a time of its own: whatever else took too
// long, it must not stay on a broker that goes on.
func (w *World) deleteVhost(ctx context.Context) error {
	cleanup, cancel := context.WithTimeout(context.WithoutCancel(ctx), ours)
	defer cancel()
	return w.Broker.DeleteVhost(cleanup, w.vhost)
}

// removeAll removes what the scenario declared, from a virtual host that is not its own. It takes a
// connection of its own: the scenario's may have been closed.
func (w *World) removeAll(ctx context.Context) error {
	conn, err := w.Broker.Dial(ctx, w.vhost)
	if err != nil {
		return fmt.Errorf("removing what the scenario declared: %w", err)
	}
	defer conn.Close()
	var queues, exchanges []string
	w.look(func(b *ledger.Book) bool {
		queues = slices.Sorted(maps.Keys(b.Topology.Queues))
		exchanges = slices.Sorted(maps.Keys(b.Topology.Exchanges))
		return true
	})
	remove := func(kind, name string, how func(*amqp.Channel) error) error {
		ch, err := conn.Channel() // each its own: a refusal closes it
		if err != nil {
			return fmt.Errorf("removing %s %q: %w", kind, name, err)
		}
		defer ch.Close()
		if err := how(ch); err != nil {
			return fmt.Errorf("removing %s %q: %w", kind, name, err)
		}
		return nil
	}
	var errs []error
	for _, name := range queues {
		if w.mine(name) {
			errs = append(errs, remove("queue", name, func(ch *amqp.Channel) error {
				_, err := ch.QueueDelete(name, false, false, false)
				return err
			}))
		}
	}
	for _, name := range exchanges {
		if w.mine(name) {
			errs = append(errs, remove("exchange", name, func(ch *amqp.Channel) error { return ch.ExchangeDelete(name, false, false) }))
		}
	}
	return errors.Join(errs...)
}

// mine reports whether a queue or an exchange may be emptied and removed. In a virtual host that
// others use that is what carries the scenario's prefix, and what unowned has looked at.
func (w *World) mine(name string) bool {
	if w.owned || strings.Contains(name, w.prefix) {
		return true
	}
	if w.foreign[name] {
		return false
	}
	c := w.conventions()
	_, exchange := templated(c.RetryExchange, name)
	return exchange || c.isRetryQueue(name) || c.isParkedQueue(name)
}

// known are the queues and exchanges that the scenario knows of, with their kind before the name.
func (w *World) known() map[string]bool {
	known := map[string]bool{}
	w.look(func(b *ledger.Book) bool {
		for name := range b.Topology.Queues {
			known["queue "+name] = true
		}
		for name := range b.Topology.Exchanges {
			known["exchange "+name] = true
		}
		return true
	})
	return known
}

// unowned makes sure, where the virtual host is shared, that no queue or exchange that the library
// gives a name of its own was there before: it would be emptied and removed with the scenario's.
// What was not known before the process started counts as somebody else's, since a process that
// declares at its start cannot be told from one that finds what is there.
func (w *World) unowned(p *consumerProcess, known map[string]bool) error {
	if w.owned {
		return nil
	}
	c := w.conventions()
	queues := []string{c.parkedQueue(w.prefix)}
	exchanges := []string{}
	for _, rung := range p.rungs() {
		queues = append(queues, c.retryQueue(w.prefix, rung))
		exchanges = append(exchanges, strings.NewReplacer("{queue}", w.prefix, "{delay}", strconv.FormatInt(rung.Milliseconds(), 10)).Replace(c.RetryExchange))
	}
	check := func(kind, name string, ask func(*amqp.Channel) error) error {
		if name == "" || strings.Contains(name, w.prefix) || known[kind+" "+name] {
			return nil
		}
		ch, err := w.spare()
		if err != nil {
			return err
		}
		err = ask(ch)
		var refused *amqp.Error
		switch {
		case err == nil:
			_ = ch.Close()
		case !errors.As(err, &refused):
			return fmt.Errorf("looking at %s %q: %w", kind, name, err)
		case refused.Code == amqp.NotFound:
			return nil
		}
		w.foreign[name] = true
		return &NotApplicable{Why: fmt.Sprintf(
			"the %s %q of the consumer is in this shared virtual host already, and may be in use: give parkproof a virtual host of its own", kind, name)}
	}
	var errs []error // all are looked at: what is foreign must be known
	for _, name := range queues {
		errs = append(errs, check("queue", name, func(ch *amqp.Channel) error {
			_, err := ch.QueueDeclarePassive(name, false, false, false, false, nil)
			return err
		}))
	}
	for _, name := range exchanges {
		errs = append(errs, check("exchange", name, func(ch *amqp.Channel) error {
			return ch.ExchangeDeclarePassive(name, amqp.ExchangeFanout, false, false, false, false, nil)
		}))
	}
	return cmp.Or(errs...)
}
