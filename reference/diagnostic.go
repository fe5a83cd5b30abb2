package reference

import (
	"log/slog"
	"time"
)

// Kind says what a Diagnostic is about.
type Kind string

// The kinds of diagnostics.
const (
	// KindRetry: a handler failed, a copy waits for its delay, the original is acked.
	KindRetry Kind = "retry"
	// KindPark: a handler failed for good, the message is in the parking queue, the original is acked. The
	// one to alert on: parking queues grow until somebody drains them.
	KindPark Kind = "park"
	// KindParkNotApplicable: a replier asked to park. Its caller waits for an answer, so it counts as a
	// failure like any other.
	KindParkNotApplicable Kind = "park-not-applicable"
	// KindHandedBack: the copy could not be published, so the original goes back to its queue after Delay.
	KindHandedBack Kind = "handed-back"
	// KindReturned: the broker could not route a copy: the queue it was for is gone.
	KindReturned Kind = "returned"
	// KindUnanswered: a reply found no queue (its caller is gone), or the request named none.
	KindUnanswered Kind = "unanswered"
	// KindUnsettled: a handler finished after its subscription was lost; the broker delivers again.
	KindUnsettled Kind = "unsettled"
	// KindConsuming: a consumer has subscribed, for the first time or again.
	KindConsuming Kind = "consuming"
	// KindInterrupted: a subscription was lost, or could not be set up; it is tried again after Delay.
	KindInterrupted Kind = "interrupted"
	// KindReconnect: a connection is back.
	KindReconnect Kind = "reconnect"
	// KindDisconnected: a connection was lost, or could not be made; it is tried again after Delay.
	KindDisconnected Kind = "disconnected"
	// KindBlocked: the broker accepts no publishes (an alarm). Copies wait; acks go on.
	KindBlocked Kind = "blocked"
	// KindUnblocked: the broker accepts publishes again.
	KindUnblocked Kind = "unblocked"
	// KindGaveUp: a consumer or a connection ended after Backoff.GiveUp failures in a row.
	KindGaveUp Kind = "gave-up"
)

// Diagnostic is one thing that happened. Fields that do not apply are zero.
type Diagnostic struct {
	Kind Kind
	// Connection is the role of the connection it is about: "consume" or "publish".
	Connection string
	// Queue is the source queue.
	Queue string
	// MessageID is the message-id property of the message.
	MessageID string
	// Attempt is the attempt that failed.
	Attempt int
	// Delay is how long the retry, the hand-back or the next try waits.
	Delay time.Duration
	// Target is where the copy or the reply went: an exchange, or a queue.
	Target string
	// Err is the handler's error, or what went wrong.
	Err error
}

// diagnose logs a diagnostic and tells the listener. A listener or a log handler that panics is contained:
// nothing on the failure path may be undone by who watches it.
func (c *Client) diagnose(level slog.Level, d Diagnostic) {
	c.guarded(func() {
		if c.log.Enabled(c.ctx, level) {
			c.log.LogAttrs(c.ctx, level, string(d.Kind), attrs(d)...)
		}
	})
	if c.opts.OnDiagnostic != nil {
		c.guarded(func() { c.opts.OnDiagnostic(d) })
	}
}

// say logs what no diagnostic is for.
func (c *Client) say(message string, args ...any) {
	c.guarded(func() { c.log.Error(message, args...) })
}

// guarded calls f, and contains a panic of it.
func (c *Client) guarded(f func()) {
	defer func() {
		value := recover()
		if value == nil {
			return
		}
		defer func() { _ = recover() }() // the log may be what panics
		c.log.Error("a diagnostics listener or log handler panicked", "panic", value)
	}()
	f()
}

func attrs(d Diagnostic) []slog.Attr {
	list := make([]slog.Attr, 0, 7)
	text := func(key, value string) {
		if value != "" {
			list = append(list, slog.String(key, value))
		}
	}
	text("connection", d.Connection)
	text("queue", d.Queue)
	text("message", d.MessageID)
	text("target", d.Target)
	if d.Attempt != 0 {
		list = append(list, slog.Int("attempt", d.Attempt))
	}
	if d.Delay != 0 {
		list = append(list, slog.Duration("delay", d.Delay))
	}
	if d.Err != nil {
		text("error", textOf(d.Err))
	}
	return list
}
