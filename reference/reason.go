package reference

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// reasonLimit is the longest reason or cause, in bytes, that a parked copy carries: enough for an error and
// its wrapping, small against the frame that all headers of a message must fit.
const reasonLimit = 512

// errGoexit is the failure of a handler that ended its goroutine with runtime.Goexit.
var errGoexit = errors.New("the handler ended its goroutine (runtime.Goexit)")

// PanicError is the failure of a handler that panicked.
type PanicError struct {
	// Value is what the handler panicked with.
	Value any
	// Stack is the stack of the handler's goroutine, as runtime/debug.Stack formats it.
	Stack []byte
}

func (e *PanicError) Error() string { return "panic: " + fmt.Sprint(e.Value) }

// Unwrap returns the value that the handler panicked with, where it is an error; a verdict may be in it.
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}

// several is more than one error, on one line.
type several []error

// also joins the errors that are not nil; nil where there is none.
func also(errs ...error) error {
	var joined several
	for _, err := range errs {
		if err != nil {
			joined = append(joined, err)
		}
	}
	switch len(joined) {
	case 0:
		return nil
	case 1:
		return joined[0]
	}
	return joined
}

func (s several) Error() string {
	texts := make([]string, len(s))
	for i, err := range s {
		texts[i] = textOf(err)
	}
	return strings.Join(texts, "; ")
}

// Unwrap makes errors.Is and errors.As look at each.
func (s several) Unwrap() []error { return s }

// textOf returns the text of an error, whatever its Error method does.
func textOf(err error) (text string) {
	defer func() {
		if recover() != nil {
			text = fmt.Sprintf("%T, whose Error method panics", err)
		}
	}()
	return err.Error()
}

// rootOf returns the innermost error of the chain: what the reason wraps. It follows single wrapping only,
// since an error that joins several has no one root.
func rootOf(err error) (root error) {
	root = err
	defer func() { _ = recover() }() // an Unwrap method of the application may panic: keep what was reached
	// A chain longer than this is a loop.
	for range 100 {
		inner := errors.Unwrap(root)
		if inner == nil {
			break
		}
		root = inner
	}
	return root
}

// reasonOf returns the reason and the cause that a parked copy carries: the error's text and the text of
// the innermost error it wraps, each cut; the cause is empty where it would repeat the reason.
func reasonOf(err error) (reason, cause string) {
	full, root := textOf(err), textOf(rootOf(err))
	reason = cut(full, reasonLimit)
	if root != full {
		cause = cut(root, reasonLimit)
	}
	return reason, cause
}

// cut returns text as valid UTF-8 of at most limit bytes, without a broken character at the end.
func cut(text string, limit int) string {
	// Only a little more than what is kept is looked at: an error's text may be a whole response.
	if len(text) > limit+utf8.UTFMax {
		text = text[:limit+utf8.UTFMax]
	}
	text = strings.ToValidUTF8(text, string(utf8.RuneError))
	if len(text) <= limit {
		return text
	}
	for limit > 0 && !utf8.RuneStart(text[limit]) {
		limit--
	}
	return text[:limit]
}
