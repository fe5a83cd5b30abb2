package frame

import (
	"fmt"
	"io"
)

// Secret is a credential. However it is printed or marshalled, it shows as "[redacted]"; string(s) is the only way
// to its text.
type Secret string

const redacted = "[redacted]"

// Format implements fmt.Formatter, for every verb.
func (Secret) Format(s fmt.State, _ rune) { _, _ = io.WriteString(s, redacted) }

// String returns "[redacted]".
func (Secret) String() string { return redacted }

// MarshalText returns "[redacted]", in JSON too.
func (Secret) MarshalText() ([]byte, error) { return []byte(redacted), nil }
