package ledger

import (
	"os"
	"runtime/debug"
)

const (
	// collectAt is how far the heap grows between two collections, in percent of what is alive. All of a
	// ledger stays alive until its case is over, so that with Go's own 100 a case is slowed by collections
	// which find nothing: they are half of what the tap costs a consumer.
	collectAt = 400
	// collectFrom is the size of the process, in bytes, from which on memory counts more than that.
	collectFrom = 512 << 20
)

// TuneCollector sets the garbage collector of a process that keeps ledgers. What the environment says
// (GOGC, GOMEMLIMIT) stays.
func TuneCollector() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(collectAt)
	}
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(collectFrom)
	}
}
