package ledger

import (
	"math"
	"runtime/debug"
	"testing"
)

func TestTuneCollector(t *testing.T) {
	// Setting a value is the one way to ask for the percentage.
	percent, limit := debug.SetGCPercent(100), debug.SetMemoryLimit(-1)
	defer func() {
		debug.SetGCPercent(percent)
		debug.SetMemoryLimit(limit)
	}()
	for _, tt := range []struct {
		gogc, memory string
		percent      int
		limit        int64
	}{
		{"", "", collectAt, collectFrom},
		{"50", "", 100, collectFrom},
		{"", "1GiB", collectAt, math.MaxInt64},
	} {
		debug.SetGCPercent(100)
		debug.SetMemoryLimit(math.MaxInt64)
		t.Setenv("GOGC", tt.gogc)
		t.Setenv("GOMEMLIMIT", tt.memory)
		TuneCollector()
		if got := debug.SetGCPercent(100); got != tt.percent {
			t.Errorf("GOGC=%q: %d percent, want %d", tt.gogc, got, tt.percent)
		}
		if got := debug.SetMemoryLimit(-1); got != tt.limit {
			t.Errorf("GOMEMLIMIT=%q: %d bytes, want %d", tt.memory, got, tt.limit)
		}
	}
}
