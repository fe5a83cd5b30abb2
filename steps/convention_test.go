package steps

import (
	"errors"
	"math"
	"testing"
	"time"

	"github.com/parkproof/parkproof/scenarios/adapter/protocol"
	"github.com/parkproof/parkproof/toxics/frame"
)

func TestAttempts(t *testing.T) {
	type timestamp = frame.Timestamp
	counted := conventions{protocol.Conventions{AttemptHeader: "x-attempt"}}
	for _, tt := range []struct {
		value any
		want  int
		there bool
	}{
		{int8(3), 3, true},
		{uint8(3), 3, true},
		{int16(3), 3, true},
		{uint16(3), 3, true},
		{int32(3), 3, true},
		{uint32(3), 3, true},
		{int64(3), 3, true},
		{uint64(3), 3, true},
		{int64(math.MaxInt64), math.MaxInt, true},
		{int32(0), 0, false},
		{int32(-1), 0, false},
		{int64(-9_000_000_000), 0, false},
		{uint64(math.MaxUint64), 0, false},
		{"3", 0, false},
		{"", 0, false},
		{frame.Bytes("3"), 0, false},
		{true, 0, false},
		{3.0, 0, false},
		{float32(3), 0, false},
		{timestamp(3), 0, false},
		{frame.Decimal{Value: 3}, 0, false},
		{frame.Table{}, 0, false},
		{frame.Array{int32(3)}, 0, false},
		{nil, 0, false},
	} {
		headers := frame.Table{{Key: "x-attempt", Value: tt.value}}
		if got, there := counted.attempt(headers); got != tt.want || there != tt.there {
			t.Errorf("%T(%v) is %d, %t; want %d, %t", tt.value, tt.value, got, there, tt.want, tt.there)
		}
		if got := counted.attemptOf(headers); got != max(1, tt.want) {
			t.Errorf("%T(%v): attempt %d", tt.value, tt.value, got)
		}
	}
	if n := counted.attemptOf(nil); n != 1 {
		t.Errorf("without headers it is attempt %d", n)
	}
	retries := conventions{protocol.Conventions{AttemptHeader: "x-retries", AttemptHeaderCounts: "retries"}}
	for value, want := range map[int64]int{1: 2, 3: 4, math.MaxInt64: math.MaxInt} {
		if got, there := retries.attempt(frame.Table{{Key: "x-retries", Value: value}}); got != want || !there {
			t.Errorf("%d retries are attempt %d, %t", value, got, there)
		}
	}
	if _, there := retries.attempt(frame.Table{{Key: "x-retries", Value: int32(0)}}); there {
		t.Error("no retries count as some")
	}
	// A library that names no header has none, and not the one with the empty name.
	if _, there := (conventions{}).attempt(frame.Table{{Key: "", Value: int32(3)}}); there {
		t.Error("an attempt was read from a header without a name")
	}
}

func TestTemplates(t *testing.T) {
	of := func(retry, parked string) conventions {
		return conventions{protocol.Conventions{RetryQueue: retry, ParkedQueue: parked}}
	}
	c := of("comq.retry.{delay}", "comq.parked.{queue}")
	if got := c.retryQueue("jobs", 1500*time.Millisecond); got != "comq.retry.1500" {
		t.Error(got)
	}
	if got := c.parkedQueue("orders..billing"); got != "comq.parked.orders..billing" {
		t.Error(got)
	}
	own := of("{queue}.retry.{delay}ms", "{queue}.dead")
	if got := own.retryQueue("jobs", time.Second); got != "jobs.retry.1000ms" {
		t.Error(got)
	}
	for _, tt := range []struct {
		c             conventions
		name          string
		retry, parked bool
		rung          time.Duration
		tellsRung     bool
	}{
		{c, "comq.retry.100", true, false, 100 * time.Millisecond, true},
		{c, "comq.retry.0", true, false, 0, true},
		{c, "comq.retry.", false, false, 0, false},
		{c, "comq.retry.-5", false, false, 0, false},
		{c, "comq.retry.100.jobs", false, false, 0, false},
		{c, "comqXretryX100", false, false, 0, false},
		{c, "comq.parked.jobs", false, true, 0, false},
		{c, "comq.parked.", false, false, 0, false},
		{c, "jobs", false, false, 0, false},
		{c, "", false, false, 0, false},
		{own, "jobs.retry.100ms", true, false, 100 * time.Millisecond, true},
		{own, ".retry.100ms", false, false, 0, false},
		{own, "a.retry.7ms.retry.100ms", true, false, 100 * time.Millisecond, true},
		{own, "jobs.dead", false, true, 0, false},
		{of("waiting", "dead"), "waiting", true, false, 0, false},
		{of("waiting", "dead"), "dead", false, true, 0, false},
		{of("waiting", "dead"), "waiting.1", false, false, 0, false},
		{of("", ""), "", false, false, 0, false},
		{of("", ""), "jobs", false, false, 0, false},
	} {
		if got := tt.c.isRetryQueue(tt.name); got != tt.retry {
			t.Errorf("%q is a retry queue of %q: %t", tt.name, tt.c.RetryQueue, got)
		}
		if got := tt.c.isParkedQueue(tt.name); got != tt.parked {
			t.Errorf("%q is a parking queue of %q: %t", tt.name, tt.c.ParkedQueue, got)
		}
		if rung, tells := tt.c.rungOf(tt.name); rung != tt.rung || tells != tt.tellsRung {
			t.Errorf("%q of %q holds for %s, %t", tt.name, tt.c.RetryQueue, rung, tells)
		}
	}
	if got := of("", "").parkedQueue("jobs"); got != "" {
		t.Errorf("a parking queue %q without a convention", got)
	}
}

func TestNeeds(t *testing.T) {
	var unsupported *Unsupported
	if err := needs("", "attempt header"); !errors.As(err, &unsupported) || err.Error() != "the adapter does not support this: its conventions name no attempt header" {
		t.Errorf("%v", err)
	}
	if err := needs("x", "attempt header"); err != nil {
		t.Error(err)
	}
}
