package reference

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"
)

// brokerSide is what the broker makes of acks, as RabbitMQ does: a tag that is not outstanding is an error,
// with multiple too.
type brokerSide struct {
	mu          sync.Mutex
	outstanding map[uint64]bool
	mayAck      map[uint64]bool // the consumer has asked to ack it
	acked       map[uint64]bool
	nacked      map[uint64]bool
	frames      int
	failures    []string
	err         error
}

func newBrokerSide(tags uint64) *brokerSide {
	b := &brokerSide{outstanding: map[uint64]bool{}, mayAck: map[uint64]bool{}, acked: map[uint64]bool{}, nacked: map[uint64]bool{}}
	for tag := uint64(1); tag <= tags; tag++ {
		b.outstanding[tag] = true
	}
	return b
}

func (b *brokerSide) Ack(tag uint64, multiple bool) error {
	runtime.Gosched() // let others come in between
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.err != nil {
		return b.err
	}
	b.frames++
	if !b.outstanding[tag] {
		b.failures = append(b.failures, fmt.Sprintf("ack of unknown tag %d, multiple %v", tag, multiple))
	}
	for t := range b.outstanding {
		if t != tag && (!multiple || t > tag) {
			continue
		}
		if !b.mayAck[t] {
			b.failures = append(b.failures, fmt.Sprintf("tag %d is acked by an ack of %d, and nobody asked for it", t, tag))
		}
		b.acked[t] = true
		delete(b.outstanding, t)
	}
	return nil
}

func (b *brokerSide) Nack(tag uint64, _, _ bool) error {
	runtime.Gosched()
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.outstanding[tag] {
		b.failures = append(b.failures, fmt.Sprintf("nack of unknown tag %d", tag))
	}
	b.nacked[tag] = true
	delete(b.outstanding, tag)
	return b.err
}

func (b *brokerSide) Reject(tag uint64, requeue bool) error { return b.Nack(tag, false, requeue) }

func (b *brokerSide) allow(tag uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.mayAck[tag] = true
}

func TestAcknowledgerSettlesEachAsAsked(t *testing.T) {
	const tags = 5000
	for range 5 {
		broker := newBrokerSide(tags)
		a := newAcknowledger(broker)
		order := rand.Perm(tags)
		// Mostly in order, as from a queue of fast handlers, with stragglers.
		for i := range order {
			order[i] = i
			if j := i - rand.IntN(20); j >= 0 && rand.IntN(4) == 0 {
				order[i], order[j] = order[j], order[i]
			}
		}
		var work sync.WaitGroup
		next := make(chan uint64)
		for range 16 {
			work.Go(func() {
				for tag := range next {
					var err error
					switch tag % 10 {
					case 3:
						err = a.Nack(tag, false, true)
					case 7:
						err = a.Reject(tag, true)
					default:
						broker.allow(tag)
						err = a.Ack(tag, false)
					}
					if err != nil {
						t.Error(err)
					}
				}
			})
		}
		for _, i := range order {
			next <- uint64(i + 1)
		}
		close(next)
		work.Wait()
		for _, failure := range broker.failures {
			t.Error(failure)
		}
		for tag := uint64(1); tag <= tags; tag++ {
			wantAck := tag%10 != 3 && tag%10 != 7
			if broker.acked[tag] != wantAck || broker.nacked[tag] == wantAck {
				t.Fatalf("tag %d: acked %v, nacked %v, want acked %v", tag, broker.acked[tag], broker.nacked[tag], wantAck)
			}
		}
		if len(a.done) != 0 {
			// Nacks are noted, and passed over by the next ack; the last may be left.
			if last := uint64(tags); a.low+uint64(len(a.done)) < last-10 {
				t.Errorf("%d tags are still noted above %d", len(a.done), a.low)
			}
		}
	}
}

func TestAcknowledgerJoinsWhatWaits(t *testing.T) {
	broker := newBrokerSide(10)
	a := newAcknowledger(broker)
	a.writing = true // as if another goroutine were writing
	for tag := uint64(1); tag <= 9; tag++ {
		if tag == 6 {
			continue // not settled: nothing may be acked across it
		}
		broker.allow(tag)
		if err := a.Ack(tag, false); err != nil {
			t.Fatal(err)
		}
	}
	if broker.frames != 0 {
		t.Fatal("an ack did not wait for the one being written")
	}
	a.writing = false
	broker.allow(10)
	if err := a.Ack(10, false); err != nil {
		t.Fatal(err)
	}
	// One frame for 1 to 5, and one each for 7 to 10.
	if broker.frames != 5 || !broker.outstanding[6] || len(broker.outstanding) != 1 || len(broker.failures) != 0 {
		t.Errorf("%d frames, outstanding %v, %v", broker.frames, broker.outstanding, broker.failures)
	}
}

func TestAcknowledgerOnADeadChannel(t *testing.T) {
	broker := newBrokerSide(3)
	broker.err = errors.New("closed")
	a := newAcknowledger(broker)
	for tag := uint64(1); tag <= 3; tag++ {
		if err := a.Ack(tag, false); !errors.Is(err, broker.err) {
			t.Errorf("ack %d: %v", tag, err)
		}
	}
	if err := a.Nack(1, false, true); !errors.Is(err, broker.err) {
		t.Error(err)
	}
}
