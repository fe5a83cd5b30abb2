package reference

import (
	"math"

	amqp "github.com/rabbitmq/amqp091-go"
)

// attemptOf returns the attempt that a delivery is, from 1, by the header of that name. The library's own
// count is the only one: x-death counts deaths, per queue, and differs between broker versions.
//
// Integers of every width count, since other tools that move messages write other widths. Whatever is not
// a positive integer counts as absent: the message starts over rather than being lost or stuck.
func attemptOf(headers amqp.Table, name string) int64 {
	n := int64(0)
	switch v := headers[name].(type) {
	case int8:
		n = int64(v)
	case int16:
		n = int64(v)
	case int32:
		n = int64(v)
	case int64:
		n = v
	case int:
		n = int64(v)
	case uint8:
		n = int64(v)
	case uint16:
		n = int64(v)
	case uint32:
		n = int64(v)
	case uint64:
		n = int64(min(v, math.MaxInt64))
	case uint:
		n = int64(min(uint64(v), math.MaxInt64))
	}
	return max(n, 1)
}
