package toxics

import (
	"time"

	"github.com/parkproof/parkproof/scenarios/ledger"
)

// noLane is the lane of what may be passed on in any order.
const noLane = -1

// held is what a direction keeps back: a confirm of a copy for the confirm delay, or what a fault
// holds.
type held struct {
	raw []byte
	// due is when it may be passed on, by the clock; by is the fault that has to release it before.
	due time.Time
	by  *Armed
	// lane is the channel whose confirms, or publishes, keep their order, or noLane.
	lane int
	// effect is that of a confirm, which the ledger knows to have arrived; others are whole commands
	// that have taken no effect yet.
	effect  ledger.Effect
	confirm bool
	command ledger.Command
}

// ready reports whether nothing of its own keeps it back any more.
func (h *held) ready(now time.Time) bool {
	return !h.due.After(now) && (h.by == nil || h.by.Action == Delay || h.by.released.Load())
}

// busy reports whether something of the lane is held.
func (d *direction) busy(lane int) bool {
	for i := range d.held {
		if d.held[i].lane == lane {
			return true
		}
	}
	return false
}

// due is when the next of what is held may be passed on; false where nothing becomes so by the clock.
func (d *direction) due() (at time.Time, any bool) {
	blocked := map[int]bool{}
	for i := range d.held {
		h := &d.held[i]
		if h.lane != noLane && blocked[h.lane] {
			continue
		}
		if h.by != nil && h.by.Action != Delay && !h.by.released.Load() {
			blocked[h.lane] = true
			continue
		}
		if !any || h.due.Before(at) {
			at, any = h.due, true
		}
		blocked[h.lane] = true
	}
	return at, any
}

// release takes out, in order, what may be passed on now; all says that the confirm delay counts no
// more, since the channel or the connection ends.
func (d *direction) release(now time.Time, all bool) []held {
	var out, kept []held
	blocked := map[int]bool{}
	for _, h := range d.held {
		ready := h.ready(now) || all && h.by == nil
		if !ready || h.lane != noLane && blocked[h.lane] {
			kept = append(kept, h)
			blocked[h.lane] = true
			continue
		}
		out = append(out, h)
	}
	d.held = kept
	return out
}
