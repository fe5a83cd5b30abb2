package steps

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/parkproof/parkproof/scenarios/adapter"
	"github.com/parkproof/parkproof/toxics/frame"
)

func TestWhatAnAdaptersErrorSays(t *testing.T) {
	var failure *Failure
	var unsupported *Unsupported
	if err := judged(nil, "x"); err != nil {
		t.Error(err)
	}
	if err := judged(fmt.Errorf("%w: consume: no queues", adapter.ErrUnsupported), "x"); !errors.As(err, &unsupported) {
		t.Errorf("%v", err)
	}
	err := judged(&adapter.RefusedError{Verb: "consume", Text: "406"}, `"worker" to consume`)
	if !errors.As(err, &failure) || failure.Expected != `"worker" to consume` || failure.Seen != "the consumer could not consume: 406" {
		t.Errorf("%v", err)
	}
	if err := judged(&adapter.ExitedError{Verb: "consume", Status: "ended by SIGKILL", Ready: true}, "x"); !errors.As(err, &failure) {
		t.Errorf("an exit after init: %v", err)
	}
	before := &adapter.ExitedError{Verb: "init", Status: "exited with code 1"}
	if err := judged(before, "x"); errors.As(err, &failure) || !errors.Is(err, before) {
		t.Errorf("an exit before init: %v", err)
	}
	breach := &adapter.BrokenError{Text: "answered twice"}
	if err := judged(breach, "x"); errors.As(err, &failure) || !errors.Is(err, breach) {
		t.Errorf("a breach: %v", err)
	}
}

func TestTimes(t *testing.T) {
	at := time.Unix(1_700_000_000, 0)
	for _, v := range []any{
		frame.Timestamp(1_700_000_000), int64(1_700_000_000), int64(1_700_000_000_000), uint32(1_700_000_000), 1.7e9, 1.7e12, at.UTC().Format(time.RFC3339Nano),
	} {
		if got, ok := timeOf(v); !ok || !got.Equal(at) {
			t.Errorf("%T(%v) is %s, %t", v, v, got, ok)
		}
	}
	for _, v := range []any{nil, "soon", true, frame.Table{}, ""} {
		if got, ok := timeOf(v); ok {
			t.Errorf("%T(%v) was read as %s", v, v, got)
		}
	}
}

func TestURLsThroughTheWire(t *testing.T) {
	got, err := through("amqp://user:s3cr%2Ft@broker:5672/a%2Fb", "127.0.0.1:4100")
	if err != nil || got != "amqp://user:s3cr%2Ft@127.0.0.1:4100/a%2Fb" {
		t.Errorf("%s, %v", got, err)
	}
	if _, err := through("amqp://user:s3cr%zz@broker/", "x"); err == nil || err.Error() != "the broker's URL cannot be read" {
		t.Errorf("%v", err)
	}
}

func TestFieldsOfBodies(t *testing.T) {
	for body, want := range map[string]string{
		`{"id":"m1"}`: "m1", `{"id":7}`: "", `{"other":"m1"}`: "", `[]`: "", ``: "", `{"id":null}`: "", "\xff": "",
	} {
		if got := fieldOf([]byte(body), "id"); got != want {
			t.Errorf("%s: %q", body, got)
		}
	}
}

func TestShownValues(t *testing.T) {
	for _, tt := range []struct {
		value any
		want  string
	}{
		{"a", `"a"`}, {int32(3), "int32(3)"}, {frame.Timestamp(3), "Timestamp(3)"}, {nil, "<nil>(<nil>)"},
	} {
		if got := shownValue(tt.value); got != tt.want {
			t.Errorf("%s, want %s", got, tt.want)
		}
	}
	long := shownValue(string(make([]byte, 1000)))
	if len(long) > shownLength+4 {
		t.Errorf("%d bytes", len(long))
	}
}
