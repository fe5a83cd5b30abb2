package ledger

import (
	"fmt"
	"time"
)

// pulse watches for how long each side of a connection has been silent. Any frame is as good as a heartbeat:
// AMQP 0-9-1, section 4.2.7.
type pulse struct {
	// every is the heartbeat's interval that was agreed on; 0 is none.
	every time.Duration
	sides [2]struct { // the client, the broker
		last time.Duration // when its last frame came
		told bool          // its silence since then has been told of
	}
}

// patience is how long a side may be silent before it counts as having missed a heartbeat. Clients and
// RabbitMQ look at half the interval whether they have sent anything since they looked last, so that one
// which has sent something just after it looked is silent for up to a whole interval and has done nothing
// wrong. The half that is left is for late timers and a busy machine; at two whole intervals, RabbitMQ gives
// the connection up.
func (p *pulse) patience() time.Duration { return p.every + p.every/2 }

// begin starts the watch with the interval that the client agreed to, in seconds.
func (p *pulse) begin(seconds uint16, now time.Duration) {
	*p = pulse{every: time.Duration(seconds) * time.Second}
	for i := range p.sides {
		p.sides[i].last = now
	}
}

// stop ends the watch.
func (p *pulse) stop() { p.every = 0 }

// missed says for how long the side has been silent, if that is too long and has not been told of; telling
// it is left to the caller, once.
func (p *pulse) missed(side int, now time.Duration) (silent time.Duration, missed bool) {
	s := &p.sides[side]
	silent = now - s.last
	if silent <= p.patience() || s.told {
		return silent, false
	}
	s.told = true
	return silent, true
}

// beat takes a frame of a side. Only while a heartbeat is agreed on does it cost anything.
func (f *Follower) beat(fromBroker bool) {
	if f.pulse.every == 0 {
		return
	}
	now := f.now()
	f.listen(now)
	side := &f.pulse.sides[0]
	if fromBroker {
		side = &f.pulse.sides[1]
	}
	side.last, side.told = now, false
}

// listen writes down the silences that are too long, each once.
func (f *Follower) listen(now time.Duration) {
	for i := range f.pulse.sides {
		silent, missed := f.pulse.missed(i, now)
		if !missed {
			continue
		}
		f.Add(Event{
			Kind: HeartbeatMissed, Process: f.Process, Conn: f.Conn, Broker: i == 1,
			Text: fmt.Sprintf("silent for %s, with a heartbeat every %s agreed on", silent.Round(time.Millisecond), f.pulse.every),
		})
	}
}

// now is the time of the follower's clock.
func (f *Follower) now() time.Duration {
	if f.Now != nil {
		return f.Now()
	}
	return time.Since(f.began)
}
