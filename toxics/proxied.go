package toxics

import (
	"bytes"
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

// LinkFault is one of toxiproxy's own toxics, by its name, on connections of the process.
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
	// New says that connections that are opened later have it too.
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
		if err := p.add(l); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// begin puts on a new connection what all new ones have. It is called once its links run.
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
		if p.Type == "timeout" {
			l.follower.Ended(false, "parkproof cut the connection: bytes of it are lost")
			l.Cut()
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
