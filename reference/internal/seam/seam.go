// Package seam holds the steps of the reference consumer that matter most, as values, so that a deliberate
// defect can replace exactly one of them and leave the rest as it is. It is internal: an application cannot
// reach it, and the public API has no switch for it.
package seam

import (
	"context"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// Failure is a delivery whose handler did not succeed.
type Failure struct {
	Delivery amqp.Delivery
	Queue    string    // source queue
	Attempt  int64     // attempt that failed, from 1
	Park     bool      // the handler asked to park
	Err      error     // handler's error
	Reason   string    // its text, cut
	Cause    string    // text of its innermost error, cut; empty where it is the reason
	At       time.Time // when it failed
}

// Copy is a publish that takes the place of a delivery.
type Copy struct {
	Exchange  string
	Key       string
	Mandatory bool
	Message   amqp.Publishing
	Delay     time.Duration // rung that a retry waits out; 0 on a parked copy
	Parked    bool          // it goes to the parking queue
	// Dispensable are the headers that are left out, in this order, where the headers would not fit a frame.
	Dispensable []string
}

// Steps are what a consumer does with a delivery, one function a decision. Each may be called by many
// goroutines at once.
type Steps struct {
	// Attempt reads the attempt that a delivery is.
	Attempt func(headers amqp.Table) int64
	// Exhausted reports whether the failure is the last one: the message is parked and not retried.
	Exhausted func(Failure) bool
	// Retry makes the copy that waits for the failure's rung. It is not called when Exhausted.
	Retry func(Failure) Copy
	// Park makes the copy for the parking queue.
	Park func(Failure) Copy
	// Publish publishes a copy and returns nil once it is confirmed and was not returned.
	Publish func(context.Context, Copy) error
	// Ack releases a delivery.
	Ack func(amqp.Delivery) error
	// HandBack gives a delivery back to its queue, after a wait, since its copy was not published.
	HandBack func(context.Context, amqp.Delivery, error)
	// Fail is the failure path: it calls the steps above, in the order that keeps the message.
	Fail func(context.Context, Failure)
	// RetryArguments are the arguments that the retry queue of a delay is declared with.
	RetryArguments func(delay time.Duration) amqp.Table
	// Resubscribe reports whether a consumer whose subscription was lost subscribes again.
	Resubscribe func() bool
}

type key struct{}

// With returns a context that makes a client opened with it alter the steps of each of its consumers.
func With(ctx context.Context, alter func(*Steps)) context.Context {
	return context.WithValue(ctx, key{}, alter)
}

// From returns what With put into the context, or a function that alters nothing.
func From(ctx context.Context) func(*Steps) {
	if alter, ok := ctx.Value(key{}).(func(*Steps)); ok {
		return alter
	}
	return func(*Steps) {}
}
