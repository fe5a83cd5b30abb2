package steps

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/parkproof/parkproof/scenarios/adapter/protocol"
	"github.com/parkproof/parkproof/toxics/frame"
)

// conventions are the names that the consumer's library uses on the wire.
type conventions struct{ protocol.Conventions }

// attempt is the attempt that a message's headers carry; false where they carry none. A header that
// is no positive integer, of any width, counts as absent.
func (c conventions) attempt(headers frame.Table) (int, bool) {
	n, ok := headers.Integer(c.AttemptHeader)
	if c.AttemptHeader == "" || !ok || n <= 0 {
		return 0, false
	}
	if c.AttemptHeaderCounts == "retries" {
		n++
	}
	return int(n), true
}

// attemptOf is the attempt that a delivery is.
func (c conventions) attemptOf(headers frame.Table) int {
	if n, ok := c.attempt(headers); ok {
		return n
	}
	return 1
}

func (c conventions) parkedQueue(source string) string {
	if c.ParkedQueue == "" {
		return ""
	}
	return strings.ReplaceAll(c.ParkedQueue, "{queue}", source)
}

func (c conventions) retryQueue(delay time.Duration) string {
	return strings.ReplaceAll(c.RetryQueue, "{delay}", strconv.FormatInt(delay.Milliseconds(), 10))
}

// isRetryQueue reports whether the name is a retry queue's, for some delay.
func (c conventions) isRetryQueue(name string) bool {
	_, ok := c.rungOf(name)
	return ok
}

// rungOf is the delay that a retry queue's name says.
func (c conventions) rungOf(name string) (time.Duration, bool) {
	before, after, ok := strings.Cut(c.RetryQueue, "{delay}")
	if !ok || !strings.HasPrefix(name, before) || !strings.HasSuffix(name, after) || len(name) < len(before)+len(after) {
		return 0, false
	}
	ms, err := strconv.ParseInt(name[len(before):len(name)-len(after)], 10, 64)
	return time.Duration(ms) * time.Millisecond, err == nil
}

func (c conventions) isParkedQueue(name string) bool {
	before, after, ok := strings.Cut(c.ParkedQueue, "{queue}")
	return ok && strings.HasPrefix(name, before) && strings.HasSuffix(name, after) && len(name) > len(before)+len(after)
}

// needs fails a step whose question the conventions leave open.
func needs(value, what string) error {
	if value == "" {
		return &Unsupported{What: fmt.Sprintf("this: its conventions name no %s", what)}
	}
	return nil
}
