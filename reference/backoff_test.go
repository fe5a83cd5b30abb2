package reference

import (
	"math"
	"testing"
	"time"
)

func TestBackoffDelay(t *testing.T) {
	b := Backoff{Min: 100 * time.Millisecond, Max: time.Second, Jitter: 0.5}
	for _, c := range []struct {
		failures int
		chance   float64
		want     time.Duration
	}{
		{1, 0, 100 * time.Millisecond},
		{2, 0, 200 * time.Millisecond},
		{3, 0, 400 * time.Millisecond},
		{4, 0, 800 * time.Millisecond},
		{5, 0, time.Second},
		{1000, 0, time.Second},
		{1, 0.5, 75 * time.Millisecond},
		{5, 1, 500 * time.Millisecond},
	} {
		if got := b.delay(c.failures, c.chance); got != c.want {
			t.Errorf("delay(%d, %v) = %v, want %v", c.failures, c.chance, got, c.want)
		}
	}
	huge := Backoff{Min: 1, Max: math.MaxInt64}
	if got := huge.delay(1000, 0); got != math.MaxInt64 {
		t.Errorf("the longest wait overflowed to %v", got)
	}
}

func TestStreak(t *testing.T) {
	s := streak{backoff: Backoff{Min: time.Second, Max: time.Minute, GiveUp: 3}}
	for _, want := range []time.Duration{1, 2} {
		if got := s.next(); got != want*time.Second || s.spent() {
			t.Errorf("wait %v, spent %v; want %vs, false", got, s.spent(), want)
		}
	}
	s.reset()
	if got := s.next(); got != time.Second {
		t.Errorf("after a success the wait is %v, want 1s", got)
	}
	s.next()
	if s.next(); !s.spent() {
		t.Error("three failures in a row do not spend a streak of three")
	}
	endless := streak{backoff: Backoff{Min: 1, Max: 1}}
	for range 1000 {
		endless.next()
	}
	if endless.spent() {
		t.Error("a streak without GiveUp is spent")
	}
}

func TestBackoffDefaultsAndValidation(t *testing.T) {
	b := Backoff{}.withDefaults(1, 2, 0.5)
	if b != (Backoff{Min: 1, Max: 2, Jitter: 0.5}) {
		t.Errorf("defaults are %+v", b)
	}
	if b := (Backoff{Min: time.Hour}).withDefaults(1, 2, 0.5); b.Max != time.Hour {
		t.Errorf("Max is %v, less than a Min of an hour", b.Max)
	}
	for _, b := range []Backoff{{Min: -1}, {Min: 2, Max: 1}, {Jitter: 1.5}, {Jitter: -1}, {GiveUp: -1}} {
		if b.validate() == nil {
			t.Errorf("%+v is accepted", b)
		}
	}
}
