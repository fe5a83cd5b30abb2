package toxics

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/Shopify/toxiproxy/v2/stream"
	"github.com/Shopify/toxiproxy/v2/toxics"

	"github.com/parkproof/parkproof/scenarios/ledger"
)

// LinkFault is one of toxiproxy's own toxics, by its name, on connections of the process. A reset_peer
// resets a connection at the next piece of its traffic: one on which nothing is said goes on.
type LinkFault struct {
	// Type is toxiproxy's: latency, bandwidth, slicer, slow_close, limit_data, timeout, reset_peer.
	Type string
	// Attributes are the toxic's, by their names in toxiproxy. Jitter stays 0: toxiproxy's numbers cannot
	// be repeated.
	Attributes map[string]any
	// Role says on which connections: those that consume, those that publish, or with 0 all.
	Role ledger.Role
	// ToBroker and ToConsumer are the directions.
	ToBroker, ToConsumer bool
	// New says that connections that are opened later have it too; these have no role yet.
	New bool
	// Text says what it does, for the ledger.
	Text string
}

// Proxied is such a toxic in force.
type Proxied struct {
	LinkFault
	faults *Faults
	fired  atomic.Int64
	once   sync.Map // of *Link: it has been written down

	mu      sync.Mutex
	on      map[*Link][]*toxics.ToxicWrapper
	removed bool
}

// linkToxics are those of toxiproxy that a case may name.
var linkToxics = []string{"latency", "bandwidth", "slicer", "slow_close", "limit_data", "timeout", "reset_peer"}

// ownPrefix stands before the names, in toxiproxy, of its toxics as they are here.
const ownPrefix = "parkproof_"

func init() {
	for name, toxic := range map[string]toxics.Toxic{
		"latency": new(latency), "bandwidth": new(bandwidth), "slicer": new(slicer), "slow_close": new(slowClose),
		"limit_data": new(limitData), "timeout": new(timeout), "reset_peer": new(resetPeer),
	} {
		toxics.Register(ownPrefix+name, toxic)
	}
}

// The toxics are toxiproxy's, and tell how they were removed. Those that close a link go on taking what
// comes when they have done so: toxiproxy (2.5.0) would leave the toxics before them waiting for ever to be
// rid of what they have.
type (
	latency struct {
		toxics.LatencyToxic
		removal
	}
	bandwidth struct {
		toxics.BandwidthToxic
		removal
	}
	slicer struct {
		toxics.SlicerToxic
		removal
	}
	slowClose struct {
		toxics.SlowCloseToxic
		removal
	}
	limitData struct {
		toxics.LimitDataToxic
		removal
	}
	timeout struct {
		toxics.TimeoutToxic
		removal
	}
	resetPeer struct {
		toxics.ResetToxic
		removal
	}
)

func (t *limitData) Pipe(stub *toxics.ToxicStub) { t.LimitDataToxic.Pipe(stub); discard(stub) }
func (t *timeout) Pipe(stub *toxics.ToxicStub)   { t.TimeoutToxic.Pipe(stub); discard(stub) }
func (t *resetPeer) Pipe(stub *toxics.ToxicStub) { t.ResetToxic.Pipe(stub); discard(stub) }

// Cleanup closes the link when the toxic is removed.
func (t *timeout) Cleanup(stub *toxics.ToxicStub) {
	t.removal.Cleanup(stub)
	t.TimeoutToxic.Cleanup(stub)
	go discard(stub)
}

// discard takes what still comes to a toxic that has closed, until the one before it has closed too.
func discard(stub *toxics.ToxicStub) {
	if !stub.Closed() {
		return // it was interrupted
	}
	for range stub.Input { //nolint:revive // nothing of it counts any more
	}
}

// removal tells how a toxic was removed from its link.
type removal struct{ stub *toxics.ToxicStub }

// Cleanup is called by toxiproxy where it removes a toxic that runs.
func (r *removal) Cleanup(stub *toxics.ToxicStub) { r.stub = stub }

// clean reports whether the toxic was taken out of a link that goes on. Of one that is closing, toxiproxy
// (2.5.0) keeps the toxic's place, and the next toxic that is added there makes it panic.
func (r *removal) clean() bool { return r.stub != nil && !r.stub.Closed() }

// Check says what is wrong with a link fault; nil for nothing.
func (f LinkFault) Check() error {
	if !slices.Contains(linkToxics, f.Type) {
		return fmt.Errorf("there is no toxic %q: toxiproxy has %v", f.Type, linkToxics)
	}
	toxic := toxics.New(&toxics.ToxicWrapper{Type: f.Type})
	raw, err := json.Marshal(f.Attributes)
	if err != nil {
		return fmt.Errorf("the attributes of %s: %w", f.Type, err)
	}
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(toxic); err != nil {
		return fmt.Errorf("the attributes of %s: %w", f.Type, err)
	}
	switch {
	case !f.ToBroker && !f.ToConsumer:
		return fmt.Errorf("the toxic %s has no direction: say to the broker, to the consumer, or both", f.Type)
	case f.New && f.Role != 0:
		return fmt.Errorf("the toxic %s cannot be on new connections of one role: they have none yet", f.Type)
	}
	return usable(toxic)
}

// usable says what is wrong with a toxic's numbers: with some that it takes, toxiproxy (2.5.0) panics or
// never comes to an end.
func usable(toxic toxics.Toxic) error {
	negative := func(name string, n int64) error {
		if n < 0 {
			return fmt.Errorf("%s is %d: it cannot be negative", name, n)
		}
		return nil
	}
	switch t := toxic.(type) {
	case *toxics.LatencyToxic:
		return cmp.Or(negative("latency", t.Latency), negative("jitter", t.Jitter))
	case *toxics.BandwidthToxic:
		if t.Rate < 1 {
			return fmt.Errorf("rate is %d: the bandwidth is at least 1 KB/s", t.Rate)
		}
	case *toxics.SlicerToxic:
		if t.AverageSize < 1 || t.SizeVariation < 0 || t.SizeVariation >= t.AverageSize {
			return fmt.Errorf("average_size is %d and size_variation %d: slices have at least 1 byte, and the variation is less than the size",
				t.AverageSize, t.SizeVariation)
		}
		return negative("delay", int64(t.Delay))
	case *toxics.SlowCloseToxic:
		return negative("delay", t.Delay)
	case *toxics.LimitDataToxic:
		return negative("bytes", t.Bytes)
	case *toxics.TimeoutToxic:
		return negative("timeout", t.Timeout)
	case *toxics.ResetToxic:
		return negative("timeout", t.Timeout)
	}
	return nil
}

// Proxy puts a toxic of toxiproxy's on the connections that it is meant for.
func (f *Faults) Proxy(fault LinkFault) (*Proxied, error) {
	if err := fault.Check(); err != nil {
		return nil, err
	}
	p := &Proxied{LinkFault: fault, faults: f, on: map[*Link][]*toxics.ToxicWrapper{}}
	f.mu.Lock()
	f.proxied = append(f.proxied, p)
	f.any.Store(true)
	f.mu.Unlock()
	for _, l := range f.Links(fault.Role) {
		if err := p.add(l); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// begin puts on a new connection what all new ones have. It is called before its links run, so that not a
// byte passes by.
func (f *Faults) begin(l *Link) {
	f.mu.Lock()
	proxied := slices.Clone(f.proxied)
	f.mu.Unlock()
	for _, p := range proxied {
		if p.New {
			_ = p.add(l) // its attributes have been checked
		}
	}
}

func (p *Proxied) add(l *Link) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.removed || p.on[l] != nil {
		return nil
	}
	for i, direction := range []stream.Direction{stream.Upstream, stream.Downstream} {
		if direction == stream.Upstream && !p.ToBroker || direction == stream.Downstream && !p.ToConsumer {
			continue
		}
		name := fmt.Sprintf("%s_%s_%p", p.Type, direction, p)
		toxic, err := json.Marshal(map[string]any{
			"name": name, "type": ownPrefix + p.Type, "stream": direction.String(), "attributes": p.Attributes,
		})
		if err != nil {
			return fmt.Errorf("describing the toxic %s: %w", p.Type, err)
		}
		if p.Type == "reset_peer" {
			l.resets.Store(true) // toxiproxy (2.5.0) does so where a link begins, and only on plain TCP connections
		}
		added, err := l.addToxic(toxic)
		if err != nil {
			return fmt.Errorf("adding the toxic %s: %w", p.Type, err)
		}
		if added == nil {
			return nil // the connection is about to end
		}
		p.on[l] = append(p.on[l], added)
		l.watchProxied(i, p)
	}
	return nil
}

// addToxic puts a toxic on the link; it returns nil where the link is about to end.
func (l *Link) addToxic(toxic []byte) (*toxics.ToxicWrapper, error) {
	l.chain.Lock()
	defer l.chain.Unlock()
	if l.closing || l.gone() {
		return nil, nil //nolint:nilnil // there is nothing to put it on
	}
	return l.proxy.Toxics.AddToxicJson(bytes.NewReader(toxic)) //nolint:wrapcheck // the caller says what it was
}

// removeToxic takes it off again, unless it has gone with the connection.
func (l *Link) removeToxic(toxic *toxics.ToxicWrapper) {
	l.chain.Lock()
	defer l.chain.Unlock()
	if l.closing || l.gone() {
		return
	}
	err := l.proxy.Toxics.RemoveToxic(context.Background(), toxic.Name)
	r, ok := toxic.Toxic.(interface{ clean() bool })
	l.closing = err != nil || !ok || !r.clean()
}

func (l *Link) gone() bool {
	select {
	case <-l.closed:
		return true
	default:
		return false
	}
}

// watchProxied has the tap of a direction count what goes into the toxic.
func (l *Link) watchProxied(side int, p *Proxied) {
	for {
		old := l.proxied[side].Load()
		var list []*Proxied
		if old != nil {
			list = slices.Clone(*old)
		}
		list = append(list, p)
		if l.proxied[side].CompareAndSwap(old, &list) {
			return
		}
	}
}

// touched counts bytes that go into toxics.
func (l *Link) touched(d *direction) {
	side := 0
	if d.fromBroker {
		side = 1
	}
	list := l.proxied[side].Load()
	if list == nil {
		return
	}
	for _, p := range *list {
		p.fired.Add(1)
		if _, again := p.once.LoadOrStore(l, true); !again {
			l.ledger.Add(ledger.Event{Kind: ledger.Fired, Process: l.process, Conn: l.Number, Text: p.Text})
		}
	}
}

// Fired is how many pieces of traffic have gone into the toxic.
func (p *Proxied) Fired() int { return int(p.fired.Load()) }

// Remove takes the toxic off all connections. A timeout closes those that it was on: what it
// swallowed is gone.
func (p *Proxied) Remove() {
	p.mu.Lock()
	on := p.on
	p.on, p.removed = map[*Link][]*toxics.ToxicWrapper{}, true
	p.mu.Unlock()
	for l, list := range on {
		if p.Type == "timeout" {
			l.end(false, ledger.CutByParkproof) // before the removal shows on the sockets
		}
		for i := range l.proxied {
			if watching := l.proxied[i].Load(); watching != nil {
				left := slices.DeleteFunc(slices.Clone(*watching), func(o *Proxied) bool { return o == p })
				l.proxied[i].Store(&left)
			}
		}
		for _, toxic := range list {
			l.removeToxic(toxic)
		}
		switch p.Type {
		case "timeout":
			l.Cut()
		case "reset_peer":
			l.resets.Store(false)
		}
	}
}

// Refuse has new connections closed as soon as they are opened, until Heal or Accept.
func (f *Faults) Refuse() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.refusing = true
}

// Accept has new connections accepted again.
func (f *Faults) Accept() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.refusing = false
}

// refuse reports whether a new connection is to be closed.
func (f *Faults) refuse() bool {
	if f == nil {
		return false
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.refusing
}

// errNoConfirm is what Check says to a drop of anything else.
var errNoConfirm = errors.New("only confirms can be dropped: without any other frame, what follows cannot be understood")

// Check says what is wrong with a fault; nil for nothing.
func (f Fault) Check() error {
	if f.Action == Drop && (!f.Trigger.FromBroker || f.Trigger.Method != "basic.ack" && f.Trigger.Method != "basic.nack") {
		return errNoConfirm
	}
	return nil
}
