package reference

import "errors"

// The values of a verdict. They are text, not types, so that two copies of this library in one program
// understand each other's errors.
const (
	verdictRetry = "retry"
	verdictPark  = "park"
)

// verdict is an error that says what is to become of the message.
type verdict struct {
	value string
	err   error
}

// Retry marks a failure as worth another attempt: what it stands for may have passed by then. The ladder
// still limits the attempts. It is the same as returning err itself; it is there to be read, and to win
// over a Park deeper in the chain. Err may be nil.
func Retry(err error) error { return &verdict{verdictRetry, err} }

// Park marks a failure as final: this consumer will never be able to process the message, so it goes to
// the parking queue at once, without a retry. Err, which may be nil, becomes the reason it is parked with.
func Park(err error) error { return &verdict{verdictPark, err} }

func (v *verdict) Error() string {
	if v.err == nil {
		return v.value + ", without a reason"
	}
	return v.err.Error()
}

func (v *verdict) Unwrap() error { return v.err }

// MessageVerdict makes the error a verdict for every copy of this library in the program.
func (v *verdict) MessageVerdict() string { return v.value }

// parks reports whether the handler's error asks to park the message. The verdict that is found first
// counts, outermost first, in the order of errors.As; a failure that nobody classified is a retry.
func parks(err error) (park bool) {
	// An Is, As or Unwrap method of the application may panic. That is a failure nobody classified.
	defer func() {
		if recover() != nil {
			park = false
		}
	}()
	var v interface{ MessageVerdict() string }
	return errors.As(err, &v) && v.MessageVerdict() == verdictPark
}
