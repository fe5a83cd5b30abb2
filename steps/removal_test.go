package steps

import (
	"reflect"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/parkproof/parkproof/toxics/frame"
)

// TestArgumentsKeepTheirTypes: a queue with the same number in another type may be another queue.
func TestArgumentsKeepTheirTypes(t *testing.T) {
	decoded := frame.Table{
		{Key: "x-message-ttl", Value: int32(100)},
		{Key: "x-expires", Value: uint64(200)},
		{Key: "x-max-length", Value: uint16(3)},
		{Key: "x-dead-letter-exchange", Value: ""},
		{Key: "flag", Value: true},
		{Key: "void", Value: nil},
		{Key: "double", Value: 1.5},
		{Key: "bytes", Value: frame.Bytes("raw")},
		{Key: "decimal", Value: frame.Decimal{Scale: 2, Value: 150}},
		{Key: "since", Value: frame.Timestamp(1700000000)},
		{Key: "list", Value: frame.Array{"a", frame.Table{{Key: "in", Value: int8(1)}}, frame.Array{int64(2)}}},
		{Key: "table", Value: frame.Table{{Key: "a", Value: "b"}}},
	}
	want := amqp.Table{
		"x-message-ttl": int32(100), "x-expires": int64(200), "x-max-length": uint16(3),
		"x-dead-letter-exchange": "", "flag": true, "void": nil, "double": 1.5,
		"bytes": []byte("raw"), "decimal": amqp.Decimal{Scale: 2, Value: 150},
		"since": time.Unix(1700000000, 0).UTC(),
		"list":  []any{"a", amqp.Table{"in": int8(1)}, []any{int64(2)}},
		"table": amqp.Table{"a": "b"},
	}
	got := arguments(decoded)
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%#v, want %#v", got, want)
	}
	if err := got.Validate(); err != nil {
		t.Errorf("the client cannot send them: %v", err)
	}
	if arguments(nil) != nil {
		t.Error("no arguments are not none")
	}
}
