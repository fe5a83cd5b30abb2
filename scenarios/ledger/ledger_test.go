package ledger

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// deadline ends a test that would wait for ever.
func deadline(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func TestLedgerNumbersEvents(t *testing.T) {
	l := New()
	if l.Began().IsZero() || time.Since(l.Began()) > time.Minute {
		t.Errorf("began %v", l.Began())
	}
	const writers, each = 8, 500
	var all sync.WaitGroup
	for range writers {
		all.Go(func() {
			for range each {
				if seq := l.Add(Event{Kind: Noted}); seq < 1 || l.Events()[seq-1].Seq != seq {
					t.Errorf("the event numbered %d is another", seq)
				}
			}
		})
	}
	all.Wait()
	events := l.Events()
	if len(events) != writers*each {
		t.Errorf("%d events", len(events))
	}
	for i, e := range events {
		if e.Seq != i+1 || e.At < 0 || i > 0 && e.At < events[i-1].At {
			t.Fatalf("event %d has the number %d, at %s", i+1, e.Seq, e.At)
		}
	}
}

// What a reader was given stays as it was.
func TestEventsAreTheReaders(t *testing.T) {
	l := New()
	l.Add(Event{Text: "one"})
	events := l.Events()
	for range 100 {
		l.Add(Event{Text: "more"})
	}
	if len(events) != 1 || cap(events) != 1 || events[0].Text != "one" {
		t.Errorf("%d events, room for %d", len(events), cap(events))
	}
}

func TestChanged(t *testing.T) {
	l := New()
	first, same := l.Changed(), l.Changed()
	if first != same {
		t.Error("two channels, and nothing happened in between")
	}
	select {
	case <-first:
		t.Error("changed already")
	default:
	}
	l.Add(Event{})
	select {
	case <-first:
	default:
		t.Error("not changed by an event")
	}
	select {
	case <-l.Changed():
		t.Error("changed again")
	default:
	}
}

func TestUntilHoldsAlready(t *testing.T) {
	l := New()
	l.Add(Event{})
	ended, end := context.WithCancel(deadline(t))
	end()
	if err := l.Until(ended, func(events []Event) bool { return len(events) == 1 }); err != nil {
		t.Error(err)
	}
}

func TestUntilWakesOnEvents(t *testing.T) {
	l := New()
	looks := make(chan int)
	done := make(chan error, 1)
	ctx := deadline(t)
	go func() {
		done <- l.Until(ctx, func(events []Event) bool {
			looks <- len(events)
			return len(events) == 3
		})
	}()
	// It looks at once, and then once for each event, since each is added after a look.
	for n := range 4 {
		if n > 0 {
			l.Add(Event{})
		}
		if got := <-looks; got != n {
			t.Errorf("look %d at %d events", n, got)
		}
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestUntilHonoursItsContext(t *testing.T) {
	l := New()
	ctx, cancel := context.WithCancel(deadline(t))
	looked := make(chan struct{}, 1)
	done := make(chan error, 1)
	go func() {
		done <- l.Until(ctx, func([]Event) bool {
			select {
			case looked <- struct{}{}:
			default:
			}
			return false
		})
	}()
	<-looked
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	// And while events keep coming.
	short, cancel := context.WithTimeout(deadline(t), 30*time.Millisecond)
	defer cancel()
	var writing sync.WaitGroup
	writing.Go(func() {
		for short.Err() == nil {
			l.Add(Event{})
		}
	})
	if err := l.Until(short, func([]Event) bool { return false }); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
	writing.Wait()
}

// An event of the last moment still counts.
func TestUntilLooksALastTime(t *testing.T) {
	l := New()
	ctx, cancel := context.WithCancel(deadline(t))
	looks := 0
	err := l.Until(ctx, func(events []Event) bool {
		looks++
		if looks == 1 {
			defer cancel()
			defer l.Add(Event{}) // after this look, and before the end
			return false
		}
		return len(events) == 1
	})
	if err != nil {
		t.Errorf("%v, after %d looks", err, looks)
	}
}

// Many look while many write, and each writer waits for its own last event to have been seen: one
// wake-up lost, and the test ends at its deadline.
func TestUntilLosesNoWakeUp(t *testing.T) {
	const watchers, rounds = 4, 50
	l := New()
	ctx := deadline(t)
	var seen [watchers]atomic.Int64
	var all sync.WaitGroup
	for w := range watchers {
		all.Go(func() {
			for n := 1; n <= rounds; n++ {
				if err := l.Until(ctx, func(events []Event) bool { return len(events) >= n }); err != nil {
					t.Errorf("watcher %d waits for event %d, of %d: %v", w, n, len(l.Events()), err)
					return
				}
				seen[w].Store(int64(n))
			}
		})
	}
	all.Go(func() {
		for n := int64(1); n <= rounds; n++ {
			l.Add(Event{})
			// The next event comes only when all have seen this one: nothing else will wake them.
			for w := range watchers {
				for seen[w].Load() < n && ctx.Err() == nil {
					<-time.After(50 * time.Microsecond)
				}
			}
		}
	})
	all.Wait()
}

func BenchmarkLedgerAdd(b *testing.B) {
	b.ReportAllocs()
	l := New()
	for b.Loop() {
		l.Add(Event{Kind: Delivered, Message: "m1", Queue: "q", Tag: 1})
	}
}

func BenchmarkLedgerAddWatched(b *testing.B) {
	b.ReportAllocs()
	l := New()
	ctx, cancel := context.WithCancel(b.Context())
	var watching sync.WaitGroup
	watching.Go(func() { _ = l.Until(ctx, func([]Event) bool { return false }) })
	for b.Loop() {
		l.Add(Event{Kind: Delivered, Message: "m1", Queue: "q", Tag: 1})
	}
	cancel()
	watching.Wait()
}
