package ledger

import (
	"context"
	"slices"
	"sync"
	"time"
)

// Ledger takes events from many goroutines and keeps them in order.
type Ledger struct {
	began time.Time

	mu      sync.Mutex
	events  []Event
	changed chan struct{} // nil while nobody waits
}

// firstRoom is how many events a ledger has room for from the start: those of a small case.
const firstRoom = 256

// New begins a ledger now.
func New() *Ledger {
	return &Ledger{began: time.Now()}
}

// Began is the time that At counts from.
func (l *Ledger) Began() time.Time { return l.began }

// Add numbers the event, stamps it with the time since the ledger began, and returns its number.
func (l *Ledger) Add(e Event) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	e.Seq = len(l.events) + 1
	e.At = time.Since(l.began)
	if len(l.events) == cap(l.events) {
		// Twice the room each time: append would copy a long ledger some five times.
		l.events = slices.Grow(l.events, max(len(l.events), firstRoom))
	}
	l.events = append(l.events, e)
	if l.changed != nil {
		close(l.changed)
		l.changed = nil
	}
	return e.Seq
}

// Events returns all events so far. The slice is the reader's to keep and not to change.
func (l *Ledger) Events() []Event {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.events[:len(l.events):len(l.events)]
}

// Changed returns a channel that is closed when the next event is added.
func (l *Ledger) Changed() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.changed == nil {
		l.changed = make(chan struct{})
	}
	return l.changed
}

// settlePace is the shortest time between two looks at a ledger that keeps changing: looking is
// linear in its length, and a case of 2,000 messages writes some 20,000 events.
const settlePace = 5 * time.Millisecond

// Until waits until the condition holds of the events so far, and returns the context's error when
// its deadline passes first. The condition is looked at whenever an event was added, and a last
// time at the deadline.
func (l *Ledger) Until(ctx context.Context, holds func([]Event) bool) error {
	for {
		changed := l.Changed()
		if holds(l.Events()) {
			return nil
		}
		looked := time.Now()
		err := wait(ctx, changed)
		if pause := settlePace - time.Since(looked); err == nil && pause > 0 {
			pace, stop := context.WithTimeout(ctx, pause)
			<-pace.Done()
			stop()
			err = ctx.Err()
		}
		if err != nil {
			if holds(l.Events()) {
				return nil
			}
			return err
		}
	}
}

// wait returns when the channel is closed, or the context's error.
func wait(ctx context.Context, changed <-chan struct{}) error {
	select {
	case <-changed:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
