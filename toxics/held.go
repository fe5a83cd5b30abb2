package toxics

import (
	"time"

	"github.com/parkproof/parkproof/scenarios/ledger"
	"github.com/parkproof/parkproof/toxics/frame"
)

// noLane is the lane of what may be passed on in any order.
const noLane = -1

// settleLane is what the lanes of a channel's acks, nacks and rejects are above those of its publishes:
// one more than the highest number of a channel.
const settleLane = 1 << 16

// held is what a direction keeps back: a confirm of a copy for the confirm delay, or what a fault
// holds.
type held struct {
	raw []byte
	// due is when it may be passed on, by the clock; by is the fault that has to release it before.
	due time.Time
	by  *Armed
	// lane is what keeps its order: a channel's confirms, publishes or, above settleLane, settles; or noLane.
	lane int
	// free is set where it may overtake what its lane holds.
	free bool
	// effect is that of a confirm, which the ledger knows to have arrived; others are whole commands
	// that have taken no effect yet.
	effect  ledger.Effect
	confirm bool
	command ledger.Command
}

// ready reports whether nothing of its own keeps it back any more.
func (h *held) ready(now time.Time) bool {
	if h.by != nil && h.by.released.Load() {
		return true
	}
	return !h.due.After(now) && (h.by == nil || h.by.Action == Delay)
}

// channel is the channel that it belongs to.
func (h *held) channel() uint16 {
	if h.confirm {
		return uint16(h.lane) //nolint:gosec // a confirm's lane is its channel
	}
	return h.command.Channel
}

// waits reports whether it has to wait for those before it on its lane, where some are blocked.
func (h *held) waits(blocked map[int]bool) bool {
	return h.lane != noLane && !h.free && blocked[h.lane]
}

// laneOf is the lane of a client's command. A publish keeps its place, since the broker numbers them as
// they come. One ack may overtake another, but not where it speaks for many: it would release the held one
// too, which then came for a delivery that the broker does not know any more.
func laneOf(c ledger.Command) (lane int, free bool) {
	if c.FromBroker {
		return noLane, true
	}
	settle := settleLane + int(c.Channel)
	switch m := c.Method.(type) {
	case *frame.BasicPublish:
		return int(c.Channel), false
	case *frame.BasicAck:
		return settle, !m.Multiple
	case *frame.BasicNack:
		return settle, !m.Multiple
	case *frame.BasicReject:
		return settle, true
	case *frame.BasicRecover, *frame.BasicRecoverAsync:
		return settle, false
	default:
		return noLane, true
	}
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
		if h.waits(blocked) {
			continue
		}
		if h.by != nil && (h.by.Action != Delay || h.by.released.Load()) {
			blocked[h.lane] = true
			continue // its release wakes the tap
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
		if !ready || h.waits(blocked) {
			kept = append(kept, h)
			blocked[h.lane] = true
			continue
		}
		out = append(out, h)
	}
	d.held = kept
	return out
}

// forget takes out what is held of a channel that has ended, or of all where the connection has: it would
// come too late. It returns what was taken out.
func (d *direction) forget(channel uint16, all bool) []held {
	var gone, kept []held
	for _, h := range d.held {
		if all || h.channel() == channel {
			gone = append(gone, h)
		} else {
			kept = append(kept, h)
		}
	}
	d.held = kept
	return gone
}
