package frame

import (
	"crypto/sha256"
	"errors"
	"fmt"
)

// What contents can be wrong in; each comes wrapped with channel and method. RabbitMQ closes the connection for the
// first (505, UNEXPECTED_FRAME) and waits for ever after the second.
var (
	// ErrUnexpectedFrame is a method inside a content, or a header or body where none belongs.
	ErrUnexpectedFrame = errors.New("unexpected frame")
	// ErrBodyTooLong is more body than the header has declared.
	ErrBodyTooLong = errors.New("body longer than its header says")
	// ErrTooMuchOpen is more contents inside which the channels are than MaxOpen, or more of them than MaxOpenSize.
	// RabbitMQ takes them, up to its own memory.
	ErrTooMuchOpen = errors.New("too many incomplete contents")
)

// A client writes a content in one go or, from several threads, interleaves a few. One that begins contents and ends
// none is held to these.
const (
	// MaxOpen is how many contents of one direction may be incomplete at once: one on each channel that RabbitMQ
	// allows a connection by default (channel_max 2047).
	MaxOpen = 2047
	// MaxOpenSize bounds, in bytes of memory, the methods and headers of the contents that are incomplete at once, and
	// again the bodies that are kept of them, where an Assembler's bound for one is not above it. It is 16 KiB for
	// each of MaxOpen, which is more than a header mostly has.
	MaxOpenSize = 32 << 20
	// valueSize is what a value of a header's tables takes at most beside its text, in bytes: a Pair.
	valueSize = 32
)

// Part is what one frame is part of.
type Part struct {
	Channel uint16
	// Method is the method in a method frame, nil for other frames.
	Method Method
	// Content is the content that the frame begins, goes on with or ends; nil for other frames. The same pointer
	// is returned for all of its frames, and the content is the caller's when Done.
	Content *Content
	// Done says that nothing is missing: a method without content, or the last frame of one.
	Done bool
}

// Assembler joins the frames of one direction of one connection into methods and contents. Contents of different
// channels may be interleaved, frames of one channel may not.
//
// It keeps one content per channel that is inside one, with a body of at most the bound; memory grows with the
// bytes that came, not with a declared size, up to MaxOpen and MaxOpenSize. The zero Assembler keeps no body. An
// Assembler is for one goroutine.
type Assembler struct {
	maxBody uint64
	open    map[uint16]*Content
	// openSize is what the methods and headers of those take, openBody what their kept bodies may come to.
	openSize int
	openBody uint64
	// skipping are the channels on which header and body frames belong to nothing that can be told, after an
	// error: so that one mistake is one error.
	skipping map[uint16]bool
}

// NewAssembler returns an Assembler that keeps bodies of up to maxBody bytes. Of larger ones it keeps the size and a
// SHA-256.
func NewAssembler(maxBody int) *Assembler {
	return &Assembler{maxBody: uint64(max(0, maxBody))}
}

// Add takes the next frame. Heartbeats and protocol headers give a Part that is Done and nothing else. It copies
// what it keeps of the frame.
//
// An error concerns one channel only, and what the Part says is true even so: the method that wrongly interrupts a
// content is returned beside the error, and the content it interrupts is dropped. After any error, header and body
// frames of the channel are passed over until its next method, and give an empty Part. Errors wrap those of ParseMethod
// and ParseHeader, ErrUnexpectedFrame, ErrBodyTooLong or ErrTooMuchOpen. When only the properties of a header are malformed, the
// content goes on, with no properties, and is not passed over.
func (a *Assembler) Add(f Frame) (Part, error) {
	part := Part{Channel: f.Channel}
	switch f.Type {
	case TypeMethod:
		return a.method(part, f)
	case TypeHeader:
		return a.header(part, f)
	case TypeBody:
		return a.body(part, f)
	default:
		part.Done = true
		return part, nil
	}
}

// Open returns the content that is incomplete on the channel, nil for none.
func (a *Assembler) Open(channel uint16) *Content { return a.open[channel] }

// Pending returns the number of channels that are inside a content.
func (a *Assembler) Pending() int { return len(a.open) }

func (a *Assembler) method(part Part, f Frame) (Part, error) {
	var interrupted error
	if c := a.open[f.Channel]; c != nil {
		interrupted = fmt.Errorf("channel %d: %w: a method frame inside the content of %s, after %d of %d body bytes",
			f.Channel, ErrUnexpectedFrame, c.Method.Name(), c.Received, c.Header.BodySize)
		a.forget(f.Channel)
	}
	if a.skipping != nil {
		delete(a.skipping, f.Channel)
	}
	m, err := ParseMethod(f.Payload)
	if err != nil {
		a.skip(f.Channel)
		return part, errors.Join(interrupted, fmt.Errorf("channel %d: %w", f.Channel, err))
	}
	part.Method = m
	if !HasContent(m) {
		part.Done = true
		return part, interrupted
	}
	if len(a.open) >= MaxOpen || a.openSize+len(f.Payload) > MaxOpenSize {
		a.skip(f.Channel)
		return part, errors.Join(interrupted, a.tooMuch(f.Channel, m))
	}
	part.Content = &Content{Channel: f.Channel, Method: m, size: len(f.Payload)}
	if a.open == nil {
		a.open = make(map[uint16]*Content)
	}
	a.open[f.Channel] = part.Content
	a.openSize += part.Content.size
	return part, interrupted
}

func (a *Assembler) header(part Part, f Frame) (Part, error) {
	c, err := a.inside(f)
	if c == nil {
		return part, err
	}
	part.Content = c
	if c.Header.Class != 0 {
		a.skip(f.Channel)
		return part, fmt.Errorf("channel %d: %w: a second header in the content of %s",
			f.Channel, ErrUnexpectedFrame, c.Method.Name())
	}
	h, values, err := parseHeader(f.Payload)
	if h.Class != ClassBasic || errors.Is(err, ErrHeader) {
		a.skip(f.Channel)
		return part, fmt.Errorf("channel %d: %s: %w", f.Channel, c.Method.Name(), err)
	}
	if err != nil {
		err = fmt.Errorf("channel %d: %s: %w", f.Channel, c.Method.Name(), err)
	}
	size := len(f.Payload) + values*valueSize
	if a.openSize+size > MaxOpenSize {
		a.skip(f.Channel)
		return part, a.tooMuch(f.Channel, c.Method)
	}
	c.Header = h
	c.size += size
	a.openSize += size
	c.Kept = h.BodySize <= a.maxBody && a.openBody+h.BodySize <= max(a.maxBody, MaxOpenSize)
	if c.Kept {
		a.openBody += h.BodySize
	} else {
		c.running = sha256.New()
	}
	part.Done = a.complete(c)
	return part, err
}

func (a *Assembler) body(part Part, f Frame) (Part, error) {
	c, err := a.inside(f)
	if c == nil {
		return part, err
	}
	part.Content = c
	if c.Header.Class == 0 {
		a.skip(f.Channel)
		return part, fmt.Errorf("channel %d: %w: a body before the header of %s",
			f.Channel, ErrUnexpectedFrame, c.Method.Name())
	}
	if n := uint64(len(f.Payload)); n > c.Header.BodySize-c.Received {
		a.skip(f.Channel)
		return part, fmt.Errorf("channel %d: %w: %s with %d bytes, of %d",
			f.Channel, ErrBodyTooLong, c.Method.Name(), c.Received+n, c.Header.BodySize)
	}
	c.Received += uint64(len(f.Payload))
	if c.Kept {
		// A declared size is trusted for twice as much as has come: one frame mostly is all of it, and a body of many
		// doubles a few times.
		if need := len(c.Body) + len(f.Payload); need > cap(c.Body) {
			grown := make([]byte, len(c.Body), min(c.Header.BodySize, 2*uint64(need)))
			copy(grown, c.Body)
			c.Body = grown
		}
		c.Body = append(c.Body, f.Payload...)
	} else {
		c.running.Write(f.Payload)
	}
	part.Done = a.complete(c)
	return part, nil
}

// inside returns the content that a header or body frame belongs to. Without one that is an error, unless an
// earlier error explains it.
func (a *Assembler) inside(f Frame) (*Content, error) {
	c := a.open[f.Channel]
	if c != nil || a.skipping[f.Channel] {
		return c, nil
	}
	a.skip(f.Channel)
	return nil, fmt.Errorf("channel %d: %w: a %s frame outside any content", f.Channel, ErrUnexpectedFrame, f.Type)
}

// complete says whether nothing is missing, and then forgets the content.
func (a *Assembler) complete(c *Content) bool {
	if c.Received < c.Header.BodySize {
		return false
	}
	a.forget(c.Channel)
	return true
}

// tooMuch is the error of a content that would be one too many, or too large beside the others.
func (a *Assembler) tooMuch(channel uint16, m Method) error {
	return fmt.Errorf("channel %d: %w: %s beside %d others, of which the methods and headers take %d bytes",
		channel, ErrTooMuchOpen, m.Name(), len(a.open), a.openSize)
}

// forget drops the channel's content, where there is one.
func (a *Assembler) forget(channel uint16) {
	c := a.open[channel]
	if c == nil {
		return
	}
	delete(a.open, channel)
	a.openSize -= c.size
	if c.Kept {
		a.openBody -= c.Header.BodySize
	}
}

// skip passes over the channel's header and body frames until its next method.
func (a *Assembler) skip(channel uint16) {
	a.forget(channel)
	if a.skipping == nil {
		a.skipping = make(map[uint16]bool)
	}
	a.skipping[channel] = true
}
