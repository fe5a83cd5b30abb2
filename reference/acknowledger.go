package reference

import (
	"slices"
	"sync"

	amqp "github.com/rabbitmq/amqp091-go"
)

// acknowledger settles the deliveries of one channel. Acks that come while another is being written wait for
// it and go out together, as one frame where they can: a frame a message costs a system call each, and takes
// longer than all else that a handled message needs. Nothing is delayed when nothing is being written.
//
// It is the amqp091.Acknowledger of the session's deliveries.
type acknowledger struct {
	channel amqp.Acknowledger

	mu      sync.Mutex
	writing bool     // a goroutine writes acks; it takes along what is ready when it is done
	ready   []uint64 // tags to ack that nobody is writing
	spare   []uint64 // the last batch, to be used again
	// low is the lowest tag that is not known to be settled; done has the settled ones above it. Only a run
	// of settled tags without a gap may be acked with one frame, for that acks whatever is below.
	low  uint64
	done map[uint64]struct{}
}

func newAcknowledger(channel amqp.Acknowledger) *acknowledger {
	return &acknowledger{channel: channel, low: 1, done: make(map[uint64]struct{})}
}

// Ack acks one delivery. Nil means that the ack is written, or is about to be.
func (a *acknowledger) Ack(tag uint64, multiple bool) error {
	if multiple {
		return a.channel.Ack(tag, true) // the library never does; whoever does must mean it
	}
	a.mu.Lock()
	a.ready = append(a.ready, tag)
	if a.writing {
		a.mu.Unlock()
		return nil
	}
	a.writing = true
	for len(a.ready) > 0 {
		batch := a.ready
		a.ready = a.spare[:0]
		together := a.advance(batch)
		a.mu.Unlock()
		err := a.write(batch, together)
		a.mu.Lock()
		a.spare = batch
		if err != nil { // the channel is gone: so are all tags
			a.ready = nil
			a.writing = false
			a.mu.Unlock()
			return err
		}
	}
	a.writing = false
	a.mu.Unlock()
	return nil
}

// advance takes note that the batch is settled, and returns the highest of its tags below which nothing is
// left to settle; 0 where there is none.
func (a *acknowledger) advance(batch []uint64) (together uint64) {
	for _, tag := range batch {
		a.done[tag] = struct{}{}
	}
	for {
		if _, ok := a.done[a.low]; !ok {
			break
		}
		delete(a.done, a.low)
		a.low++
	}
	for _, tag := range batch {
		if tag < a.low {
			together = max(together, tag)
		}
	}
	return together
}

// write writes the batch: those up to together with one frame, the others with one each.
func (a *acknowledger) write(batch []uint64, together uint64) error {
	if len(batch) > 1 {
		slices.Sort(batch)
	}
	n := 0
	for n < len(batch) && batch[n] <= together {
		n++
	}
	if n > 0 {
		// The tag must be one that the broker still waits for, which the highest of the batch is.
		if err := a.channel.Ack(batch[n-1], n > 1); err != nil {
			return err
		}
	}
	for _, tag := range batch[n:] {
		if err := a.channel.Ack(tag, false); err != nil {
			return err
		}
	}
	return nil
}

// Nack hands one delivery back, or drops it. It counts as settled only once it is written: an ack of a higher
// tag must not overtake it and ack it.
func (a *acknowledger) Nack(tag uint64, multiple, requeue bool) error {
	if err := a.channel.Nack(tag, multiple, requeue); err != nil || multiple {
		return err
	}
	a.settled(tag)
	return nil
}

// Reject is Nack of one delivery.
func (a *acknowledger) Reject(tag uint64, requeue bool) error {
	if err := a.channel.Reject(tag, requeue); err != nil {
		return err
	}
	a.settled(tag)
	return nil
}

func (a *acknowledger) settled(tag uint64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.done[tag] = struct{}{}
}
