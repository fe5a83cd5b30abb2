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
	on      map[*Link][]string // names of its toxics
	removed bool
}

// linkToxics are those of toxiproxy that a case may name.
var linkToxics = []string{"latency", "bandwidth", "slicer", "slow_close", "limit_data", "timeout", "reset_peer"}

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
	p := &Proxied{LinkFault: fault, faults: f, on: map[*Link][]string{}}
	f.mu.Lock()
	f.proxied = append(f.proxied, p)
	f.any.Store(true)
	f.mu.Unlock()
	for _, l := range f.Links(fault.Role) {
		select {
		case <-l.started:
		case <-l.closed:
			continue
		}
		if err := p.add(l); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// begin puts on a new connection what all new ones have. It is called before its links run, so that not a
// byte passes by, and, for what toxiproxy cannot put on before, once they run.
func (f *Faults) begin(l *Link, running bool) {
	f.mu.Lock()
	proxied := slices.Clone(f.proxied)
	f.mu.Unlock()
	for _, p := range proxied {
		// On a link that begins, toxiproxy (2.5.0) takes who writes for a plain TCP connection.
		if p.New && (p.Type == "reset_peer") == running {
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
			"name": name, "type": p.Type, "stream": direction.String(), "attributes": p.Attributes,
		})
		if err != nil {
			return fmt.Errorf("describing the toxic %s: %w", p.Type, err)
		}
		if p.Type == "reset_peer" {
			l.resets.Store(true) // toxiproxy does so only where a link begins
		}
		if _, err := l.proxy.Toxics.AddToxicJson(bytes.NewReader(toxic)); err != nil {
			return fmt.Errorf("adding the toxic %s: %w", p.Type, err)
		}
		p.on[l] = append(p.on[l], name)
		l.watchProxied(i, p)
	}
	return nil
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
	p.on, p.removed = map[*Link][]string{}, true
	p.mu.Unlock()
	for l, names := range on {
		for i := range l.proxied {
			if list := l.proxied[i].Load(); list != nil {
				left := slices.DeleteFunc(slices.Clone(*list), func(o *Proxied) bool { return o == p })
				l.proxied[i].Store(&left)
			}
		}
		for _, name := range names {
			select {
			case <-l.closed:
				continue
			default:
			}
			_ = l.proxy.Toxics.RemoveToxic(context.Background(), name) // it may have gone with its connection
		}
		switch p.Type {
		case "timeout":
			l.end(false, "parkproof cut the connection")
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

// errNoConfirm is what Arm says to a drop of anything else.
var errNoConfirm = errors.New("only confirms can be dropped: without any other frame, what follows cannot be understood")

// Check says what is wrong with a fault; nil for nothing.
func (f Fault) Check() error {
	if f.Action == Drop && (!f.Trigger.FromBroker || f.Trigger.Method != "basic.ack" && f.Trigger.Method != "basic.nack") {
		return errNoConfirm
	}
	return nil
}
