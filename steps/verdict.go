package steps

import (
	"errors"
	"fmt"

	"github.com/parkproof/parkproof/scenarios/adapter"
)

// Failure is a step that shows that the consumer broke its guarantee.
type Failure struct {
	// Expected and Seen are what the step waited for and what there was instead.
	Expected, Seen string
	// Message is the message that it is about, where it is about one.
	Message string
}

func (f *Failure) Error() string { return fmt.Sprintf("expected %s, seen %s", f.Expected, f.Seen) }

// NotApplicable ends a case that this broker or this consumer has no use for.
type NotApplicable struct{ Why string }

func (e *NotApplicable) Error() string { return e.Why }

// Unsupported ends a case that the adapter says its library cannot do.
type Unsupported struct{ What string }

func (e *Unsupported) Error() string { return "the adapter does not support " + e.What }

// Unknown ends a case in which nothing can be said.
type Unknown struct{ Why string }

func (e *Unknown) Error() string { return e.Why }

// judged turns an adapter's error into what it says of the consumer: a refusal or an end after
// init is the consumer's failure, a breach of the protocol is not.
func judged(err error, expected string) error {
	var refused *adapter.RefusedError
	var exited *adapter.ExitedError
	switch {
	case err == nil:
		return nil
	case errors.Is(err, adapter.ErrUnsupported):
		return &Unsupported{What: err.Error()}
	case errors.As(err, &refused):
		return &Failure{Expected: expected, Seen: refused.Error()}
	case errors.As(err, &exited) && exited.Ready:
		return &Failure{Expected: expected, Seen: exited.Error()}
	default:
		return err
	}
}
