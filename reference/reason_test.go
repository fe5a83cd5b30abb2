package reference

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"
)

// loop is an error that wraps itself.
type loop struct{}

func (l *loop) Error() string { return "round and round" }
func (l *loop) Unwrap() error { return l }

func TestReasonOf(t *testing.T) {
	root := errors.New("connection refused")
	for name, c := range map[string]struct {
		err           error
		reason, cause string
	}{
		"plain":            {root, "connection refused", ""},
		"wrapped":          {fmt.Errorf("charge: %w", root), "charge: connection refused", "connection refused"},
		"verdict":          {Park(root), "connection refused", ""},
		"wrapped verdict":  {Park(fmt.Errorf("no total: %w", root)), "no total: connection refused", "connection refused"},
		"empty verdict":    {Retry(nil), "retry, without a reason", ""},
		"panic":            {&PanicError{Value: 7}, "panic: 7", ""},
		"panic with error": {&PanicError{Value: root}, "panic: connection refused", "connection refused"},
		"hostile":          {&hostile{}, "*reference.hostile, whose Error method panics", ""},
		"nil pointer":      {(*hollow)(nil), "*reference.hollow, whose Error method panics", ""},
		"loop":             {&loop{}, "round and round", ""},
		"join":             {errors.Join(root, errors.New("b")), "connection refused\nb", ""},
	} {
		reason, cause := reasonOf(c.err)
		if reason != c.reason || cause != c.cause {
			t.Errorf("%s: reason %q, cause %q; want %q, %q", name, reason, cause, c.reason, c.cause)
		}
	}
}

func TestCut(t *testing.T) {
	for name, c := range map[string]struct{ in, want string }{
		"short":                   {"abc", "abc"},
		"exact":                   {strings.Repeat("a", 8), strings.Repeat("a", 8)},
		"long":                    {strings.Repeat("a", 9), strings.Repeat("a", 8)},
		"two bytes at the end":    {"aaaaaaaé", "aaaaaaa"},
		"two bytes that fit":      {"aaaaaaé", "aaaaaaé"},
		"four bytes at the end":   {"aaaaa\U0001f600", "aaaaa"},
		"invalid":                 {"a\xff\xfeb", "a�b"},
		"invalid, grows past":     {"aaaaaaa\xff", "aaaaaaa"},
		"empty":                   {"", ""},
		"very long, cut mid-rune": {strings.Repeat("é", 1000), "éééé"},
	} {
		got := cut(c.in, 8)
		if got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
		if !utf8.ValidString(got) || len(got) > 8 {
			t.Errorf("%s: %q has %d bytes, or is no UTF-8", name, got, len(got))
		}
	}
}

func FuzzCut(f *testing.F) {
	f.Add("aaaé\xff\U0001f600", 5)
	f.Fuzz(func(t *testing.T, text string, limit int) {
		if limit < 0 || limit > 1000 {
			return
		}
		got := cut(text, limit)
		if !utf8.ValidString(got) || len(got) > limit {
			t.Fatalf("cut(%q, %d) = %q", text, limit, got)
		}
	})
}
