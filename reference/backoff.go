package reference

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"time"
)

// Backoff says how long to wait between tries: Min after the first failure, doubled after each further
// one, never more than Max. It starts over at Min as soon as a try succeeds. A field that is 0 has its default.
type Backoff struct {
	// Min is the wait after the first failure, before jitter.
	Min time.Duration
	// Max caps the wait; jitter never exceeds it.
	Max time.Duration
	// Jitter is the fraction of each wait, 0 to 1, that is left to chance: a wait of d lasts between
	// (1-Jitter)*d and d, so that clients that lost one broker do not come back in one wave.
	Jitter float64
	// GiveUp is the number of failures in a row after which the client gives up for good: its consumers
	// end, and say so. 0 never gives up. Failures are counted per streak, never over a lifetime.
	GiveUp int
}

// The defaults for connections and subscriptions.
const (
	// A broker that restarts needs seconds, a cut link is back at once: the first try must not wait long.
	defaultBackoffMin = 100 * time.Millisecond
	// Longer than this, an operator who has mended the broker waits for the consumers.
	defaultBackoffMax = 10 * time.Second
	// Half of the wait is random: enough to spread a fleet, and the wait still grows.
	defaultBackoffJitter = 0.5
)

// The defaults for handing a delivery back.
const (
	// At most two redeliveries a second of one message whose copy cannot be published.
	defaultHandBackMin = 500 * time.Millisecond
	// Far below any consumer timeout of a broker (minutes), long enough to leave a broken target alone.
	defaultHandBackMax = 15 * time.Second
	// Enough to keep held deliveries from coming back in one wave.
	defaultHandBackJitter = 0.2
)

func (b Backoff) withDefaults(min, max time.Duration, jitter float64) Backoff {
	if b.Min == 0 {
		b.Min = min
	}
	if b.Max == 0 {
		b.Max = max
		if b.Max < b.Min {
			b.Max = b.Min
		}
	}
	if b.Jitter == 0 {
		b.Jitter = jitter
	}
	return b
}

func (b Backoff) validate() error {
	switch {
	case b.Min < 0:
		return fmt.Errorf("the least wait is %v: it must be positive", b.Min)
	case b.Max < b.Min:
		return fmt.Errorf("the longest wait is %v, less than the least of %v", b.Max, b.Min)
	case b.Jitter < 0 || b.Jitter > 1:
		return fmt.Errorf("the jitter is %v: it must be a fraction from 0 to 1", b.Jitter)
	case b.GiveUp < 0:
		return errors.New("a negative number of failures to give up after: use 0 to never give up")
	}
	return nil
}

// delay returns the wait after the given number of failures in a row (1 or more); chance is in [0, 1).
func (b Backoff) delay(failures int, chance float64) time.Duration {
	d := b.Min
	for i := 1; i < failures && d < b.Max; i++ {
		if d > b.Max/2 { // doubling would pass the cap, or overflow
			d = b.Max
			break
		}
		d *= 2
	}
	d = min(d, b.Max)
	return d - time.Duration(chance*b.Jitter*float64(d))
}

// streak counts failures in a row. It belongs to one goroutine.
type streak struct {
	backoff  Backoff
	failures int
}

// next records a failure, and returns the wait before the next try.
func (s *streak) next() time.Duration {
	s.failures++
	return s.backoff.delay(s.failures, rand.Float64())
}

// spent reports whether the streak is as long as GiveUp allows.
func (s *streak) spent() bool { return s.backoff.GiveUp > 0 && s.failures >= s.backoff.GiveUp }

func (s *streak) reset() { s.failures = 0 }
