package reference

import (
	"errors"
	"fmt"
	"testing"
)

// foreign is a verdict of another copy of the library: another type with the same method.
type foreign struct{ value string }

func (f foreign) Error() string          { return f.value }
func (f foreign) MessageVerdict() string { return f.value }

// hostile is an error whose methods panic.
type hostile struct{}

func (*hostile) Error() string { panic("no text") }
func (*hostile) Unwrap() error { panic("no inner error") }
func (*hostile) As(any) bool   { panic("not as anything") }

// hollow is an error whose Error method needs a value.
type hollow struct{ text string }

func (h *hollow) Error() string { return h.text }

func TestParks(t *testing.T) {
	plain := errors.New("no luck")
	for name, c := range map[string]struct {
		err  error
		want bool
	}{
		"plain":                    {plain, false},
		"Retry":                    {Retry(plain), false},
		"Park":                     {Park(plain), true},
		"Park of nil":              {Park(nil), true},
		"Retry of nil":             {Retry(nil), false},
		"wrapped Park":             {fmt.Errorf("charge: %w", Park(plain)), true},
		"joined Park":              {errors.Join(plain, Park(plain)), true},
		"joined and wrapped Park":  {fmt.Errorf("a: %w", errors.Join(plain, fmt.Errorf("b: %w", Park(nil)))), true},
		"Retry over Park":          {Retry(fmt.Errorf("a: %w", Park(plain))), false},
		"Park over Retry":          {Park(fmt.Errorf("a: %w", Retry(plain))), true},
		"first of a join":          {errors.Join(Retry(plain), Park(plain)), false},
		"another copy's Park":      {fmt.Errorf("a: %w", foreign{"park"}), true},
		"another copy's Retry":     {foreign{"retry"}, false},
		"a later copy's verdict":   {foreign{"postpone"}, false},
		"methods that panic":       {&hostile{}, false},
		"methods that panic, join": {errors.Join(&hostile{}, Park(nil)), false},
		"a panic with a Park":      {&PanicError{Value: Park(plain)}, true},
		"a panic with a text":      {&PanicError{Value: "boom"}, false},
	} {
		if got := parks(c.err); got != c.want {
			t.Errorf("%s: parks %v, want %v", name, got, c.want)
		}
	}
}

func TestVerdictsAreErrors(t *testing.T) {
	plain := errors.New("no luck")
	for _, err := range []error{Retry(plain), Park(plain)} {
		if !errors.Is(err, plain) {
			t.Errorf("%#v does not wrap its error", err)
		}
		if err.Error() != "no luck" {
			t.Errorf("text %q, want that of the error it wraps", err.Error())
		}
	}
	if got := Park(nil).Error(); got != "park, without a reason" {
		t.Errorf("text of an empty Park: %q", got)
	}
	if errors.Unwrap(Retry(nil)) != nil {
		t.Error("an empty Retry wraps something")
	}
}
