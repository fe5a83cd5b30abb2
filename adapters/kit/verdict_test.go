package kit

import (
	"errors"
	"fmt"
	"testing"

	"github.com/parkproof/parkproof/scenarios/adapter/protocol"
)

type parked struct{ error }

func TestOutcome(t *testing.T) {
	park := func(err error) error { return parked{err} }
	retry := func(err error) error { return fmt.Errorf("retry: %w", err) }
	for _, tt := range []struct {
		name string
		v    Verdict
		want string
		park bool
	}{
		{name: "fail", v: Verdict{Verdict: protocol.VerdictFail, Reason: "boom"}, want: "boom"},
		{name: "a failure without a reason", v: Verdict{Verdict: protocol.VerdictFail}, want: "the handler was told to fail"},
		{name: "retry", v: Verdict{Verdict: protocol.VerdictRetry, Reason: "later"}, want: "retry: later"},
		{name: "park", v: Verdict{Verdict: protocol.VerdictPark, Reason: "poison"}, want: "poison", park: true},
		{
			name: "wrapped", v: Verdict{Verdict: protocol.VerdictPark, As: protocol.AsWrapped, Reason: "poison"},
			want: "handling the message: poison", park: true,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			err := tt.v.Outcome(retry, park)
			if err == nil || err.Error() != tt.want {
				t.Fatalf("got %v, want %s", err, tt.want)
			}
			if is := errors.As(err, new(parked)); is != tt.park {
				t.Errorf("is it park? %v, want %v", is, tt.park)
			}
		})
	}
	if err := (Verdict{Verdict: protocol.VerdictOK, Reason: "ignored"}).Outcome(retry, park); err != nil {
		t.Errorf("ok became %v", err)
	}
	if err := (Verdict{Verdict: protocol.VerdictPark, Reason: "poison"}).Outcome(nil, nil); err == nil || errors.As(err, new(parked)) {
		t.Errorf("a library without verdicts was given %v", err)
	}
}

func TestOutcomePanics(t *testing.T) {
	defer func() {
		if r := recover(); fmt.Sprint(r) != "boom" {
			t.Errorf("panicked with %v", r)
		}
	}()
	_ = Verdict{Verdict: protocol.VerdictFail, As: protocol.AsPanic, Reason: "boom"}.Outcome(nil, nil)
	t.Error("no panic")
}
