package kit

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/parkproof/parkproof/scenarios/adapter/protocol"
)

// Verdict is what a handler is told to come to.
type Verdict struct {
	// Verdict is protocol.VerdictOK, VerdictFail, VerdictRetry or VerdictPark.
	Verdict string
	// As is how it is to be expressed: protocol.AsPlain, AsPanic, AsNothing or AsWrapped.
	As string
	// Reason is the failure's text.
	Reason string
	// Reply is the value that the handler returns, where it answers requests.
	Reply json.RawMessage
}

// Err returns nil for ok, and otherwise an error whose text is the reason.
func (v Verdict) Err() error {
	if v.Verdict == protocol.VerdictOK {
		return nil
	}
	if v.Reason == "" {
		return errors.New("the handler was told to fail")
	}
	return errors.New(v.Reason)
}

// Outcome returns the error that a Go handler is to return for the verdict, or panics with it
// where the verdict is to be expressed so. The functions retry and park make the library's own
// verdicts of an error; where one is nil the library has none, and the plain error stands for it.
func (v Verdict) Outcome(retry, park func(error) error) error {
	err := v.Err()
	if err == nil {
		return nil
	}
	switch {
	case v.Verdict == protocol.VerdictRetry && retry != nil:
		err = retry(err)
	case v.Verdict == protocol.VerdictPark && park != nil:
		err = park(err)
	}
	switch v.As {
	case protocol.AsPanic:
		panic(err)
	case protocol.AsWrapped:
		return fmt.Errorf("handling the message: %w", err)
	default:
		return err
	}
}

// unsupported is the reason for which a request cannot be fulfilled.
type unsupported string

func (u unsupported) Error() string        { return string(u) }
func (u unsupported) Is(target error) bool { return target == errors.ErrUnsupported }
