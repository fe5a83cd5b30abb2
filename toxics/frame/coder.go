package frame

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"sync"
)

// What a payload can be wrong in. Each comes wrapped with the method or header and the offset in the payload.
var (
	// ErrTruncated is a field that reaches beyond the payload, or beyond the table or array that holds it.
	ErrTruncated = errors.New("field reaches beyond its end")
	// ErrTrailing is bytes after the last field.
	ErrTrailing = errors.New("bytes after the last field")
	// ErrFieldType is a table or array value of a type that RabbitMQ does not know.
	ErrFieldType = errors.New("unknown field type")
	// ErrTooDeep is tables and arrays nested deeper than MaxDepth.
	ErrTooDeep = errors.New("tables nested too deep")
	// ErrTooMany is tables and arrays with more than MaxValues values.
	ErrTooMany = errors.New("too many table values")
	// ErrUnencodable is a value that AMQP has no form for: a string longer than its length octet can say, or a table
	// value that is of none of the types listed at Table.
	ErrUnencodable = errors.New("not encodable in AMQP 0-9-1")
)

const (
	// MaxDepth is how deep tables and arrays may nest, the outermost being 1. RabbitMQ's deepest, the routing keys in
	// x-death, is 4, and amqp091-go reads no deeper than 33; more than that only serves to overflow a stack that
	// recurses, which in Go ends the process.
	MaxDepth = 64

	// MaxValues is how many values the tables and arrays of one payload may have, all together. In memory a value
	// takes up to 32 bytes where 1 or 2 can stand for it on the wire, so that without a bound a stream of them grows
	// to sixteen times its size. A header or method has to fit one frame; in RabbitMQ's own frame_max of 128 KiB,
	// this leaves 8 bytes to a value, and the values of x-death, the longest that RabbitMQ itself writes, take some 20.
	MaxValues = DefaultMaxFrame / 8

	// shareText is up to which size of a payload, in bytes, its strings are cut from one copy of it: one allocation
	// for all of them. Beyond, each string gets its own, so that keeping one does not keep a large payload.
	shareText = 1024
)

// coder walks over the fields of a payload, in the order of the wire, and either reads each from the payload into
// the field or appends the field to the payload. So each method says its layout once, for both directions.
// After the first error the rest is not touched.
type coder struct {
	buf      []byte // the payload, or its start up to the end of a table: read from off on, or appended to
	off      int
	decoding bool
	payload  []byte // all of it, when decoding
	text     string // payload as a string, once a string was read
	depth    int
	values   int // of tables and arrays so far
	err      error
}

// coders are reused because a method's wire gets its coder through an interface, which has Go allocate it.
var coders = sync.Pool{New: func() any { return new(coder) }}

func decoder(payload []byte) *coder {
	c := coders.Get().(*coder)
	*c = coder{buf: payload, payload: payload, decoding: true}
	return c
}

func encoder(dst []byte) *coder {
	c := coders.Get().(*coder)
	*c = coder{buf: dst}
	return c
}

// free gives the coder back, without what it pointed to.
func (c *coder) free() {
	*c = coder{}
	coders.Put(c)
}

func (c *coder) fail(err error) {
	if c.err == nil {
		c.err = err
	}
}

// take returns the next n bytes, nil and an error when there are fewer.
func (c *coder) take(n uint64, what string) []byte {
	if c.err != nil {
		return nil
	}
	if left := len(c.buf) - c.off; n > uint64(left) {
		c.fail(fmt.Errorf("byte %d: %w: %s of %d bytes where %d are left", c.off, ErrTruncated, what, n, left))
		return nil
	}
	b := c.buf[c.off : c.off+int(n)]
	c.off += int(n)
	return b
}

// end checks that all was read.
func (c *coder) end() {
	if left := len(c.buf) - c.off; c.err == nil && left > 0 {
		c.fail(fmt.Errorf("byte %d: %w: %d of them", c.off, ErrTrailing, left))
	}
}

func (c *coder) octet(v *uint8) {
	if c.decoding {
		if b := c.take(1, "octet"); b != nil {
			*v = b[0]
		}
		return
	}
	c.buf = append(c.buf, *v)
}

func (c *coder) short(v *uint16) {
	if c.decoding {
		if b := c.take(2, "short"); b != nil {
			*v = binary.BigEndian.Uint16(b)
		}
		return
	}
	c.buf = binary.BigEndian.AppendUint16(c.buf, *v)
}

func (c *coder) long(v *uint32) {
	if c.decoding {
		if b := c.take(4, "long"); b != nil {
			*v = binary.BigEndian.Uint32(b)
		}
		return
	}
	c.buf = binary.BigEndian.AppendUint32(c.buf, *v)
}

func (c *coder) longLong(v *uint64) {
	if c.decoding {
		if b := c.take(8, "long long"); b != nil {
			*v = binary.BigEndian.Uint64(b)
		}
		return
	}
	c.buf = binary.BigEndian.AppendUint64(c.buf, *v)
}

// bits are neighbouring bit fields: they share octets, the first in the lowest bit.
func (c *coder) bits(vs ...*bool) {
	for ; len(vs) > 0; vs = vs[min(8, len(vs)):] {
		var o uint8
		if !c.decoding {
			for i, v := range vs[:min(8, len(vs))] {
				if *v {
					o |= 1 << i
				}
			}
		}
		c.octet(&o)
		if c.decoding {
			for i, v := range vs[:min(8, len(vs))] {
				*v = o&(1<<i) != 0
			}
		}
	}
}

func (c *coder) shortString(v *string) {
	if c.decoding {
		var n uint8
		c.octet(&n)
		*v = c.string(c.take(uint64(n), "short string"))
		return
	}
	if len(*v) > math.MaxUint8 {
		c.fail(fmt.Errorf("%w: a short string of %d bytes, of at most 255", ErrUnencodable, len(*v)))
		return
	}
	c.buf = append(c.buf, uint8(len(*v)))
	c.buf = append(c.buf, *v...)
}

func (c *coder) longString(v *string) {
	if c.decoding {
		var n uint32
		c.long(&n)
		*v = c.string(c.take(uint64(n), "long string"))
		return
	}
	if uint64(len(*v)) > math.MaxUint32 {
		c.fail(fmt.Errorf("%w: a long string of %d bytes", ErrUnencodable, len(*v)))
		return
	}
	c.buf = binary.BigEndian.AppendUint32(c.buf, uint32(len(*v)))
	c.buf = append(c.buf, *v...)
}

// secret is a long string on the wire. It gets memory of its own, not a piece of text that others share.
func (c *coder) secret(v *Secret) {
	if c.decoding {
		var n uint32
		c.long(&n)
		*v = Secret(c.take(uint64(n), "long string"))
		return
	}
	s := string(*v)
	c.longString(&s)
}

// string makes a string of b, which take has just returned.
func (c *coder) string(b []byte) string {
	if len(b) == 0 {
		return ""
	}
	if len(c.payload) > shareText {
		return string(b)
	}
	if c.text == "" {
		c.text = string(c.payload)
	}
	return c.text[c.off-len(b) : c.off]
}

// Reserved fields are sent as zero, and what others send in them is skipped, as RabbitMQ does.

func (c *coder) reservedShort() {
	var v uint16
	c.short(&v)
}

func (c *coder) reservedShortString() {
	var n uint8
	c.octet(&n)
	if c.decoding {
		c.take(uint64(n), "short string")
	}
}

func (c *coder) reservedLongString() {
	var n uint32
	c.long(&n)
	if c.decoding {
		c.take(uint64(n), "long string")
	}
}

func (c *coder) table(v *Table) {
	if c.decoding {
		c.nested("table", func() { *v = c.readTable() })
		return
	}
	c.nested("table", func() {
		c.counted(len(*v))
		for i := range *v {
			c.shortString(&(*v)[i].Key)
			if c.appendValue((*v)[i].Value); c.err != nil {
				c.err = fmt.Errorf("key %q: %w", clip((*v)[i].Key), c.err)
				return
			}
		}
	})
}

func (c *coder) array(v *Array) {
	if c.decoding {
		c.nested("array", func() { *v = c.readArray() })
		return
	}
	c.nested("array", func() {
		c.counted(len(*v))
		for i := range *v {
			if c.appendValue((*v)[i]); c.err != nil {
				c.err = fmt.Errorf("element %d: %w", i, c.err)
				return
			}
		}
	})
}

// nested handles the length in front of a table or array, and the depth. When decoding, inside sees no byte behind
// that length.
func (c *coder) nested(what string, inside func()) {
	if c.err != nil {
		return
	}
	if c.depth++; c.depth > MaxDepth {
		c.fail(fmt.Errorf("byte %d: %w: deeper than %d", c.off, ErrTooDeep, MaxDepth))
		return
	}
	defer func() { c.depth-- }()
	if !c.decoding {
		start := len(c.buf)
		c.buf = append(c.buf, 0, 0, 0, 0)
		inside()
		size := len(c.buf) - start - 4
		if uint64(size) > math.MaxUint32 {
			c.fail(fmt.Errorf("%w: a %s of %d bytes", ErrUnencodable, what, size))
			return
		}
		binary.BigEndian.PutUint32(c.buf[start:], uint32(size))
		return
	}
	var n uint32
	c.long(&n)
	c.take(uint64(n), what)
	if c.err != nil {
		return
	}
	// The end of buf is moved rather than buf sliced anew, so that offsets and text keep their meaning.
	whole, end := c.buf, c.off
	c.buf, c.off = whole[:end], end-int(n)
	inside()
	c.buf = whole
}

// counted counts values that a table or array has, before there is memory for them.
func (c *coder) counted(n int) {
	if c.values += n; c.values > MaxValues {
		c.fail(fmt.Errorf("byte %d: %w: more than %d", c.off, ErrTooMany, MaxValues))
	}
}

// readTable reads pairs up to the end of buf; an empty table is nil.
func (c *coder) readTable() Table {
	n := c.count(true)
	c.counted(n)
	if n == 0 || c.err != nil {
		return nil
	}
	t := make(Table, 0, n)
	for c.off < len(c.buf) && c.err == nil {
		var p Pair
		c.shortString(&p.Key)
		p.Value = c.readValue()
		t = append(t, p)
	}
	return t
}

// readArray reads values up to the end of buf; an empty array is nil.
func (c *coder) readArray() Array {
	n := c.count(false)
	c.counted(n)
	if n == 0 || c.err != nil {
		return nil
	}
	a := make(Array, 0, n)
	for c.off < len(c.buf) && c.err == nil {
		a = append(a, c.readValue())
	}
	return a
}

// count walks over the pairs or values up to the end of buf without making them, and returns how many there are:
// so that a table is allocated once, in its true size, and only when its outline is sound. What is nested is
// stepped over, so all of it together takes one more pass over the payload.
func (c *coder) count(pairs bool) int {
	start, n := c.off, 0
	for c.off < len(c.buf) && c.err == nil {
		if pairs {
			var key uint8
			c.octet(&key)
			c.take(uint64(key), "key")
		}
		var kind uint8
		c.octet(&kind)
		if c.err != nil {
			break
		}
		switch kind {
		case 'V':
		case 't', 'b', 'B':
			c.take(1, "value")
		case 's', 'u':
			c.take(2, "value")
		case 'I', 'i', 'f':
			c.take(4, "value")
		case 'D':
			c.take(5, "decimal")
		case 'l', 'L', 'd', 'T':
			c.take(8, "value")
		case 'S', 'x', 'A', 'F':
			var size uint32
			c.long(&size)
			c.take(uint64(size), "value")
		default:
			c.fail(fmt.Errorf("byte %d: %w %q", c.off-1, ErrFieldType, kind))
		}
		n++
	}
	c.off = start
	return n
}

// readValue reads a type octet and its value. The types are those of RabbitMQ (rabbit_binary_parser): they differ
// from the specification's in that "s" is a short integer and "L" is as "l".
func (c *coder) readValue() any {
	var (
		kind uint8
		o    uint8
		s    uint16
		l    uint32
		ll   uint64
	)
	c.octet(&kind)
	switch kind {
	case 'V':
		return nil
	case 't':
		c.octet(&o)
		return o != 0
	case 'b':
		c.octet(&o)
		return int8(o)
	case 'B':
		c.octet(&o)
		return o
	case 's':
		c.short(&s)
		return int16(s)
	case 'u':
		c.short(&s)
		return s
	case 'I':
		c.long(&l)
		return int32(l)
	case 'i':
		c.long(&l)
		return l
	case 'f':
		c.long(&l)
		return math.Float32frombits(l)
	case 'l':
		c.longLong(&ll)
		return int64(ll)
	case 'L':
		c.longLong(&ll)
		return ll
	case 'd':
		c.longLong(&ll)
		return math.Float64frombits(ll)
	case 'T':
		c.longLong(&ll)
		return Timestamp(ll)
	case 'D':
		c.octet(&o)
		c.long(&l)
		return Decimal{Scale: o, Value: l}
	case 'S':
		var v string
		c.longString(&v)
		return v
	case 'x':
		c.long(&l)
		return Bytes(append([]byte(nil), c.take(uint64(l), "byte array")...))
	case 'A':
		var v Array
		c.array(&v)
		return v
	case 'F':
		var v Table
		c.table(&v)
		return v
	default:
		c.fail(fmt.Errorf("byte %d: %w %q", c.off-1, ErrFieldType, kind))
		return nil
	}
}

// appendValue appends a type octet and a value.
func (c *coder) appendValue(v any) {
	if c.err != nil {
		return
	}
	switch v := v.(type) {
	case nil:
		c.buf = append(c.buf, 'V')
	case bool:
		c.buf = append(c.buf, 't')
		c.bits(&v)
	case int8:
		c.buf = append(c.buf, 'b', uint8(v))
	case uint8:
		c.buf = append(c.buf, 'B', v)
	case int16:
		c.buf = binary.BigEndian.AppendUint16(append(c.buf, 's'), uint16(v))
	case uint16:
		c.buf = binary.BigEndian.AppendUint16(append(c.buf, 'u'), v)
	case int32:
		c.buf = binary.BigEndian.AppendUint32(append(c.buf, 'I'), uint32(v))
	case uint32:
		c.buf = binary.BigEndian.AppendUint32(append(c.buf, 'i'), v)
	case float32:
		c.buf = binary.BigEndian.AppendUint32(append(c.buf, 'f'), math.Float32bits(v))
	case int64:
		c.buf = binary.BigEndian.AppendUint64(append(c.buf, 'l'), uint64(v))
	case uint64:
		c.buf = binary.BigEndian.AppendUint64(append(c.buf, 'L'), v)
	case float64:
		c.buf = binary.BigEndian.AppendUint64(append(c.buf, 'd'), math.Float64bits(v))
	case Timestamp:
		c.buf = binary.BigEndian.AppendUint64(append(c.buf, 'T'), uint64(v))
	case Decimal:
		c.buf = binary.BigEndian.AppendUint32(append(c.buf, 'D', v.Scale), v.Value)
	case string:
		c.buf = append(c.buf, 'S')
		c.longString(&v)
	case Bytes:
		c.buf = append(c.buf, 'x')
		s := string(v)
		c.longString(&s)
	case Array:
		c.buf = append(c.buf, 'A')
		c.array(&v)
	case Table:
		c.buf = append(c.buf, 'F')
		c.table(&v)
	default:
		c.fail(fmt.Errorf("%w: a table value of Go type %T", ErrUnencodable, v))
	}
}

// clip shortens what goes into an error text.
func clip(s string) string {
	const enough = 64 // bytes; keys are seldom longer
	if len(s) <= enough {
		return s
	}
	return s[:enough] + "..."
}
