package steps

import (
	"fmt"
	"math"
	"regexp"
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
	if c.AttemptHeaderCounts == "retries" && n < math.MaxInt {
		n++
	}
	return int(min(n, math.MaxInt)), true
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

// retryQueue is the queue where a message of the source queue waits out the delay.
func (c conventions) retryQueue(source string, delay time.Duration) string {
	return strings.NewReplacer("{queue}", source, "{delay}", strconv.FormatInt(delay.Milliseconds(), 10)).Replace(c.RetryQueue)
}

// isRetryQueue reports whether the name is a retry queue's, for some source queue and delay.
func (c conventions) isRetryQueue(name string) bool {
	_, is := templated(c.RetryQueue, name)
	return is
}

// rungOf is the delay that a retry queue's name says; false where it says none.
func (c conventions) rungOf(name string) (time.Duration, bool) {
	delay, is := templated(c.RetryQueue, name)
	ms, err := strconv.ParseInt(delay, 10, 64)
	return time.Duration(ms) * time.Millisecond, is && err == nil
}

func (c conventions) isParkedQueue(name string) bool {
	_, is := templated(c.ParkedQueue, name)
	return is
}

// templated reports whether a name is made from the template, and returns what stands in it for
// {delay}, which is empty where the template has none.
func templated(template, name string) (delay string, is bool) {
	if template == "" {
		return "", false
	}
	expression := strings.NewReplacer(`\{queue\}`, `.+`, `\{delay\}`, `(\d+)`).Replace(regexp.QuoteMeta(template))
	match := regexp.MustCompile("^(?s:" + expression + ")$").FindStringSubmatch(name)
	switch {
	case match == nil:
		return "", false
	case len(match) == 1:
		return "", true
	default:
		return match[1], true
	}
}

// needs fails a step whose question the conventions leave open.
func needs(value, what string) error {
	if value == "" {
		return &Unsupported{What: fmt.Sprintf("this: its conventions name no %s", what)}
	}
	return nil
}
