package frame

import (
	"time"
)

// Table is a list of keys with values, in the order of the wire, so that it can be encoded again as it was.
// A value's Go type is its type on the wire, none stands for two; they are RabbitMQ's (see its page "AMQP 0-9-1
// Errata", which departs from the specification):
//
//	t  bool       s  int16    l  int64                S  string
//	b  int8       u  uint16   L  uint64, see below    x  Bytes
//	B  uint8      I  int32    f  float32              A  Array
//	D  Decimal    i  uint32   d  float64              F  Table
//	T  Timestamp                                      V  nil
//
// An "L" is unsigned by the specification; RabbitMQ reads it as signed and passes it on as "l".
// An empty Table, Array or Bytes decodes as a nil of its type.
type Table []Pair

// Pair is an entry of a Table. The key has at most 255 bytes.
type Pair struct {
	Key   string
	Value any
}

// Array is a list of values of the types of Table.
type Array []any

// Bytes is a byte array, as told from a string.
type Bytes []byte

// Decimal is Value divided by ten to the power of Scale. RabbitMQ reads Value as unsigned; a client that means it
// signed sends two's complement.
type Decimal struct {
	Scale uint8
	Value uint32
}

// Timestamp is a time in seconds since 1970, UTC.
type Timestamp uint64

// Time returns the timestamp in UTC.
func (t Timestamp) Time() time.Time { return time.Unix(int64(t), 0).UTC() }

// Get returns the value of the key, the first where a table has several, as RabbitMQ does; false without one.
// A key with a void value gives nil and true.
func (t Table) Get(key string) (any, bool) {
	for i := range t {
		if t[i].Key == key {
			return t[i].Value, true
		}
	}
	return nil, false
}

// Text returns the string under the key, false where there is none or it is of another type. Clients that send
// strings as byte arrays get those too.
func (t Table) Text(key string) (string, bool) {
	switch v, _ := t.Get(key); v := v.(type) {
	case string:
		return v, true
	case Bytes:
		return string(v), true
	default:
		return "", false
	}
}

// Integer returns the integer under the key, false where there is none or it is of another type; see Integer.
func (t Table) Integer(key string) (int64, bool) {
	v, _ := t.Get(key)
	return Integer(v)
}

// Table returns the table under the key, false where there is none or it is of another type.
func (t Table) Table(key string) (Table, bool) {
	v, _ := t.Get(key)
	table, ok := v.(Table)
	return table, ok
}

// Array returns the array under the key, false where there is none or it is of another type.
func (t Table) Array(key string) (Array, bool) {
	v, _ := t.Get(key)
	array, ok := v.(Array)
	return array, ok
}

// Set returns the table with the value under the key: in the key's place where it has one, else at the end. As with
// append, the table passed may share memory with the one returned.
func (t Table) Set(key string, value any) Table {
	for i := range t {
		if t[i].Key == key {
			t[i].Value = value
			return t
		}
	}
	return append(t, Pair{key, value})
}

// Integer returns a table value that is an integer of any width as int64; false for all other types. A uint64, type
// "L" on the wire, is read as signed, as RabbitMQ does.
func Integer(value any) (int64, bool) {
	switch v := value.(type) {
	case int8:
		return int64(v), true
	case uint8:
		return int64(v), true
	case int16:
		return int64(v), true
	case uint16:
		return int64(v), true
	case int32:
		return int64(v), true
	case uint32:
		return int64(v), true
	case int64:
		return v, true
	case uint64:
		return int64(v), true
	default:
		return 0, false
	}
}
