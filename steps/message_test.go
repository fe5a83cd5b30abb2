package steps

import (
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/parkproof/parkproof/scenarios/adapter/protocol"
)

func TestSpans(t *testing.T) {
	for _, tt := range []struct {
		first, last string
		want        []string
	}{
		{"m1", "m3", []string{"m1", "m2", "m3"}},
		{"m9", "m11", []string{"m9", "m10", "m11"}},
		{"bad1", "bad1", []string{"bad1"}},
		{"1", "2", []string{"1", "2"}},
	} {
		if got, err := span(tt.first, tt.last); err != nil || !slices.Equal(got, tt.want) {
			t.Errorf("%q to %q: %v, %v", tt.first, tt.last, got, err)
		}
	}
	for _, tt := range [][2]string{{"m3", "m1"}, {"m1", "n3"}, {"m", "m3"}, {"m1", "m"}, {"", ""}, {"m1", "m3x"}} {
		if got, err := span(tt[0], tt[1]); err == nil {
			t.Errorf("%q to %q was read as %v", tt[0], tt[1], got)
		}
	}
}

func TestLadders(t *testing.T) {
	for text, want := range map[string][]time.Duration{
		"":                    nil,
		"100ms":               {100 * time.Millisecond},
		"100ms, 1s, 1m":       {100 * time.Millisecond, time.Second, time.Minute},
		"250ms,250ms , 250ms": {250 * time.Millisecond, 250 * time.Millisecond, 250 * time.Millisecond},
	} {
		if got, err := parseLadder(text); err != nil || !slices.Equal(got, want) {
			t.Errorf("%q is %v, %v", text, got, err)
		}
	}
	for _, text := range []string{"100", "100ms,", "soon", "100ms 200ms"} {
		if got, err := parseLadder(text); err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("%q was read as %v, %v", text, got, err)
		}
	}
	if got := milliseconds([]time.Duration{time.Second, 1500 * time.Microsecond}); !slices.Equal(got, []int64{1000, 1}) {
		t.Errorf("%v", got)
	}
}

func TestPatterns(t *testing.T) {
	for _, tt := range []struct {
		pattern, message string
		want             bool
	}{
		{"m1", "m1", true},
		{"m1", "m12", false},
		{"m*", "m1", true},
		{"m*", "m", true},
		{"m*", "n1", false},
		{"*", "anything", true},
		{"*", "", true},
		{"", "", true},
		{"", "m1", false},
		{"m*1", "m*1", true},
		{"m*1", "mx1", false},
	} {
		if got := matches(tt.pattern, tt.message); got != tt.want {
			t.Errorf("%q fits %q: %t", tt.message, tt.pattern, got)
		}
	}
}

func TestHeaderValues(t *testing.T) {
	w := &World{prefix: "pp.", declared: map[string]declared{"witness": {kind: "queue"}}}
	for text, want := range map[string]any{
		"bool true": true, "bool false": false,
		"int8 -3": int8(-3), "uint8 200": byte(200), "int16 -300": int16(-300), "uint16 65535": uint16(65535),
		"int32 -1": int32(-1), "uint32 4000000000": uint32(4000000000), "int64 -9000000000": int64(-9000000000),
		"float 1.5": float32(1.5), "double 1.5": 1.5, "decimal 314 2": amqp.Decimal{Value: 314, Scale: 2},
		"string pdf": "pdf", "string": "", "string of 3 bytes": "xxx", "string of apples": "of apples", "string two words": "two words",
		"bytes 00ff": []byte{0, 255}, "timestamp 1700000000": time.Unix(1700000000, 0), "void": nil,
		"array": []any{}, "array a b": []any{"a", "b"}, "array witness": []any{"pp.witness"},
		"table": amqp.Table{}, "table a=1 b=x=y": amqp.Table{"a": "1", "b": "x=y"},
	} {
		got, err := w.value(text)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%q is %T(%v), %v; want %T(%v)", text, got, got, err, want, want)
		}
		if err := (amqp.Table{"h": got}).Validate(); err != nil {
			t.Errorf("%q cannot be sent: %v", text, err)
		}
	}
	for _, text := range []string{
		"", "int 3", "int8 128", "int8", "uint8 -1", "uint8 256", "int16 40000", "uint16 65536", "int32 3000000000", "uint32 -1",
		"int64 9223372036854775808", "int64 x", "bool maybe", "float x", "double x", "decimal x", "decimal 3", "bytes 0", "bytes zz",
		"timestamp soon", "string of x bytes", "string of -1 bytes",
	} {
		if v, err := w.value(text); err == nil {
			t.Errorf("%q was read as %T(%v)", text, v, v)
		}
	}
}

func TestProperties(t *testing.T) {
	w := &World{}
	w.names.Store(&conventions{protocol.Conventions{AttemptHeader: "x-attempt"}})
	var got amqp.Publishing
	for _, pair := range [][2]string{
		{"content-type", "text/plain"},
		{"content-encoding", "gzip"},
		{"correlation-id", "c1"},
		{"reply-to", "answers"},
		{"type", "order"},
		{"app-id", "shop"},
		{"expiration", "5000"},
		{"delivery-mode", "transient"},
		{"priority", "9"},
		{"timestamp", "1700000000"},
		{"header x-a", "int32 3"},
		{"header x b", "string y"},
		{"the attempt header", "int64 2"},
	} {
		if err := w.set(&got, pair[0], pair[1]); err != nil {
			t.Errorf("%v: %v", pair, err)
		}
	}
	want := amqp.Publishing{
		ContentType: "text/plain", ContentEncoding: "gzip", CorrelationId: "c1", ReplyTo: "answers", Type: "order", AppId: "shop",
		Expiration: "5000", DeliveryMode: amqp.Transient, Priority: 9, Timestamp: time.Unix(1700000000, 0),
		Headers: amqp.Table{"x-a": int32(3), "x b": "y", "x-attempt": int64(2)},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
	if err := w.set(&got, "headers", "none"); err != nil || got.Headers == nil || len(got.Headers) != 0 {
		t.Errorf("an empty table is %v, %v", got.Headers, err)
	}
	if err := w.set(&got, "delivery-mode", "persistent"); err != nil || got.DeliveryMode != amqp.Persistent {
		t.Errorf("%d, %v", got.DeliveryMode, err)
	}
	for _, pair := range [][2]string{
		{"colour", "red"}, {"priority", "256"}, {"priority", "high"}, {"timestamp", "now"}, {"delivery-mode", "2"}, {"headers", "some"}, {"header x", "int8 999"},
	} {
		if err := w.set(&got, pair[0], pair[1]); err == nil || strings.Contains(err.Error(), "\n") {
			t.Errorf("%v: %v", pair, err)
		}
	}
	var unsupported *Unsupported
	if err := new(World).set(&got, "the attempt header", "int32 1"); !errors.As(err, &unsupported) {
		t.Errorf("without a convention: %v", err)
	}
}
