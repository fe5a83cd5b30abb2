package toxics

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/parkproof/parkproof/scenarios/ledger"
)

// Action is what a fault does to the commands that its trigger fits.
type Action uint8

// The actions.
const (
	// CutBefore cuts the connection and does not pass the command on.
	CutBefore Action = iota + 1
	// CutAfter passes it on, waits for what it brings about, and cuts the connection; the sender is
	// told nothing of that.
	CutAfter
	// CutUnseen passes it on, closes the receiver's side cleanly and resets the sender's, who cannot
	// know what became of it.
	CutUnseen
	// Hold keeps the command back until it is released; others overtake it, but for confirms and
	// publishes of its channel, which keep their order.
	Hold
	// Drop takes confirms out for good.
	Drop
	// Delay keeps it back for a time, in the same way.
	Delay
	// Stop withholds the command while Fault.Act is done to the process, and then passes it on, where
	// there is still somebody to send it and to take it.
	Stop
)

// Fault is something that is broken on purpose where a trigger fits.
type Fault struct {
	Trigger Trigger
	Action  Action
	// For is how long Delay keeps a command back.
	For time.Duration
	// Act is done by Stop, in the goroutine that passes the connection's frames on: it must not wait for
	// these, nor put on or take off toxics, nor heal. It reports whether the process is gone: then what was
	// on its way to it is not passed on.
	Act func() (gone bool)
	// Text says what it does, for the ledger: "the connection is cut before ...".
	Text string
}

// Armed is a fault in force.
type Armed struct {
	Fault
	faults *Faults

	seen, fired int  // guarded by faults.mu
	disarmed    bool // guarded by faults.mu
	released    atomic.Bool
}

// Observation is a command that passed by a connection, for a record of all points of a path.
type Observation struct {
	Connection int
	ledger.Sighting
}

// Faults are the faults in force for a process of the consumer, in all of its lives and on all of its
// connections.
type Faults struct {
	// any is set where there is something to look for: without, frames pass in one go.
	any atomic.Bool

	mu          sync.Mutex
	armed       []*Armed
	links       map[*Link]struct{}
	connections int
	observe     func(Observation)
	proxied     []*Proxied
	refusing    bool

	// answerLimit bounds a cut's wait for the broker's answer; it is set before there is a link.
	answerLimit time.Duration
}

// NewFaults is a set of none.
func NewFaults() *Faults { return &Faults{links: map[*Link]struct{}{}, answerLimit: answerLimit} }

// Arm puts a fault into force. One that Check refuses never fires.
func (f *Faults) Arm(fault Fault) *Armed {
	a := &Armed{Fault: fault, faults: f, disarmed: fault.Check() != nil}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.armed = append(f.armed, a)
	f.any.Store(true)
	return a
}

// Observe has every command told before it is passed on, one at a time, until it is called with nil.
func (f *Faults) Observe(tell func(Observation)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.observe = tell
	f.any.Store(true)
}

// Heal ends all faults: what is held is passed on, and nothing fires any more.
func (f *Faults) Heal() {
	f.mu.Lock()
	armed, proxied := f.armed, f.proxied
	f.refusing = false
	f.mu.Unlock()
	for _, a := range armed {
		a.Release()
	}
	for _, p := range proxied {
		p.Remove()
	}
}

// Fired is how often the fault has fired.
func (a *Armed) Fired() int {
	a.faults.mu.Lock()
	defer a.faults.mu.Unlock()
	return a.fired
}

// Release passes on what the fault holds or delays, all together, and disarms it.
func (a *Armed) Release() {
	f := a.faults
	f.mu.Lock()
	a.disarmed = true
	links := make([]*Link, 0, len(f.links))
	for l := range f.links {
		links = append(links, l)
	}
	f.mu.Unlock()
	a.released.Store(true)
	for _, l := range links {
		l.wake()
	}
}

// join gives a link its place among the process's connections.
func (f *Faults) join(l *Link) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.connections++
	l.place = f.connections
	f.links[l] = struct{}{}
}

func (f *Faults) leave(l *Link) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.links, l)
}

// Links are the open connections of the process that have the role; 0 is any. Where none has published
// yet, those that have shown no role are taken for the ones that will, or else those that consume: a
// library may open its channel for publishing only when something fails.
func (f *Faults) Links(role ledger.Role) []*Link {
	f.mu.Lock()
	defer f.mu.Unlock()
	of := map[bool][]*Link{}
	var idle []*Link
	for l := range f.links {
		shown := l.Role()
		of[role == 0 || shown&role != 0] = append(of[role == 0 || shown&role != 0], l)
		if shown == 0 {
			idle = append(idle, l)
		}
	}
	if len(of[true]) > 0 || role != ledger.RolePublishing {
		return of[true]
	}
	consuming := slices.ContainsFunc(of[false], func(l *Link) bool { return l.Role()&ledger.RoleConsuming != 0 })
	switch {
	case !consuming:
		return nil // too early to tell
	case len(idle) > 0:
		return idle
	default:
		return of[false]
	}
}

// decide tells the observer, and returns the fault that fires at the command, if one does: the first that
// was armed of those that would. The others have seen the command too.
func (f *Faults) decide(l *Link, s *ledger.Sighting) *Armed {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.observe != nil {
		f.observe(Observation{l.place, *s})
	}
	var fires *Armed
	for _, a := range f.armed {
		if a.disarmed || !a.Trigger.fits(l.place, s) {
			continue
		}
		a.seen++
		if fires == nil && (a.Trigger.Occurrence == 0 || a.seen == a.Trigger.Occurrence) {
			fires = a
		}
	}
	if fires != nil {
		fires.fired++
	}
	return fires
}
