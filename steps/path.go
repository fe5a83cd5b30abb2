package steps

import (
	"errors"
	"sync"
	"time"

	"github.com/parkproof/parkproof/toxics"
)

// Way is how a path is broken at a point.
type Way string

// The ways.
const (
	WayCutBefore Way = "cut before"
	WayCutAfter  Way = "cut after"
	WayCutUnseen Way = "cut unseen"
	WayKilled    Way = "killed"
	// WayHeld is for confirms: one is kept back for a time in which nothing may be released.
	WayHeld Way = "held"
)

// heldFor is how long a confirm is kept back: many times what any consumer needs to ack.
const heldFor = 300 * time.Millisecond

// WaysAt are the ways in which a path can be broken at the point.
func WaysAt(p toxics.Point) []Way {
	ways := []Way{WayCutBefore, WayCutAfter, WayCutUnseen, WayKilled}
	if p.FromBroker && p.Method == "basic.ack" {
		ways = append(ways, WayHeld)
	}
	return ways
}

// Path makes a scenario one run of a path that is explored: a recording of its points, or one that is
// broken at one of them.
type Path struct {
	// At is where it is broken; nil for a recording.
	At  *toxics.Point
	Way Way

	mu           sync.Mutex
	observed     []toxics.Observation
	began, ended bool
}

// Observed is what passed by between the path's beginning and its end, and whether both were reached.
func (p *Path) Observed() (observed []toxics.Observation, whole bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.observed, p.began && p.ended
}

func (w *World) pathSteps(s Words) {
	s.Step(`^the path begins$`, w.beginPath)
	s.Step(`^the path ends$`, w.endPath)
}

func (w *World) beginPath() error {
	p := w.Path
	if p == nil {
		return errors.New("this is no path that is explored: parkproof explore runs it")
	}
	p.mu.Lock()
	p.began = true
	p.mu.Unlock()
	faults := w.faultsOf(defaultProcess)
	if p.At == nil {
		faults.Observe(func(o toxics.Observation) {
			p.mu.Lock()
			defer p.mu.Unlock()
			if !p.ended {
				p.observed = append(p.observed, o)
			}
		})
		return nil
	}
	f := toxics.Fault{Trigger: p.At.Trigger(), Text: string(p.Way)}
	switch p.Way {
	case WayCutBefore:
		f.Action = toxics.CutBefore
	case WayCutAfter:
		f.Action = toxics.CutAfter
	case WayCutUnseen:
		f.Action = toxics.CutUnseen
	case WayKilled:
		f.Action, f.Act = toxics.Stop, func() bool { return w.theProcess().kill() == nil }
	case WayHeld:
		f.Action, f.For = toxics.Delay, heldFor
	}
	armed := faults.Arm(f)
	w.watch(firing{text: f.Text + " at " + p.At.String(), fired: armed.Fired, release: armed.Release})
	return nil
}

func (w *World) endPath() error {
	p := w.Path
	if p == nil {
		return errors.New("this is no path that is explored: parkproof explore runs it")
	}
	p.mu.Lock()
	p.ended = true
	p.mu.Unlock()
	if p.At == nil {
		w.faultsOf(defaultProcess).Observe(nil)
	}
	return nil
}
