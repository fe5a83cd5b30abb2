package ledger

import (
	"reflect"

	"github.com/parkproof/parkproof/toxics/frame"
)

// text returns a header value that is a text: some clients send their strings as byte arrays.
func text(v any) (string, bool) {
	switch v := v.(type) {
	case string:
		return v, true
	case frame.Bytes:
		return string(v), true
	default:
		return "", false
	}
}

// valuesEqual compares two values of a table with their types on the wire.
func valuesEqual(x, y any) bool { return reflect.DeepEqual(x, y) }

// sameValue compares two header values as RabbitMQ does, which tells neither the widths of numbers
// nor strings from byte arrays.
func sameValue(x, y any) bool {
	if a, ok := frame.Integer(x); ok {
		b, ok := frame.Integer(y)
		return ok && a == b
	}
	if a, ok := text(x); ok {
		b, ok := text(y)
		return ok && a == b
	}
	if a, ok := float(x); ok {
		b, ok := float(y)
		return ok && a == b
	}
	return valuesEqual(x, y)
}

func float(v any) (float64, bool) {
	switch v := v.(type) {
	case float32:
		return float64(v), true
	case float64:
		return v, true
	default:
		return 0, false
	}
}

// tablesEqual compares two tables without regard to the order of their keys.
func tablesEqual(x, y frame.Table) bool {
	if len(x) != len(y) {
		return false
	}
	for _, p := range x {
		v, ok := y.Get(p.Key)
		if !ok || !valuesEqual(p.Value, v) {
			return false
		}
	}
	return true
}
