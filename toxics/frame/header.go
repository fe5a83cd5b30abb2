package frame

import (
	"errors"
	"fmt"
)

// ErrHeader is a content header that is not one of the basic class with weight 0. There are no others in AMQP
// 0-9-1 as RabbitMQ speaks it.
var ErrHeader = errors.New("not a content header of the basic class")

// Header is a content header.
type Header struct {
	Class      uint16 // ClassBasic
	BodySize   uint64 // bytes of all body frames together
	Properties Properties
}

// ParseHeader reads the payload of a header frame. What it returns has memory of its own. Errors wrap ErrHeader,
// ErrTruncated, ErrTrailing, ErrFieldType, ErrTooDeep or ErrTooMany. When only the properties are malformed, Class and
// BodySize are returned beside the error: RabbitMQ routes many such messages without looking.
func ParseHeader(payload []byte) (Header, error) {
	h, _, err := parseHeader(payload)
	return h, err
}

// parseHeader returns besides how many values the header's tables have.
func parseHeader(payload []byte) (Header, int, error) {
	c := decoder(payload)
	defer c.free()
	var (
		h      Header
		weight uint16
	)
	c.short(&h.Class)
	c.short(&weight)
	c.longLong(&h.BodySize)
	switch {
	case c.err != nil:
		return Header{}, 0, fmt.Errorf("content header: %w", c.err)
	case h.Class != ClassBasic || weight != 0:
		return h, 0, fmt.Errorf("content header: %w: class %d, weight %d", ErrHeader, h.Class, weight)
	}
	h.Properties.wire(c)
	c.end()
	if c.err != nil {
		return Header{Class: h.Class, BodySize: h.BodySize}, 0, fmt.Errorf("content header: %w", c.err)
	}
	return h, c.values, nil
}

// AppendHeader appends the payload of a header frame. A property that AMQP has no form for, or a class other than
// basic, makes it return dst as it was and an error that wraps ErrUnencodable, ErrTooDeep, ErrTooMany or ErrHeader.
func AppendHeader(dst []byte, h Header) ([]byte, error) {
	if h.Class != ClassBasic {
		return dst, fmt.Errorf("content header: %w: class %d", ErrHeader, h.Class)
	}
	c := encoder(dst)
	defer c.free()
	var weight uint16
	c.short(&h.Class)
	c.short(&weight)
	c.longLong(&h.BodySize)
	h.Properties.wire(c)
	if c.err != nil {
		return dst, fmt.Errorf("content header: %w", c.err)
	}
	return c.buf, nil
}
