package frame

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
)

// What a Reader stops at. Each comes wrapped with the offset in the stream.
var (
	// ErrTLS is a TLS record where AMQP was expected.
	ErrTLS = errors.New("this is TLS, not plain AMQP: use an amqp:// address here, or end the TLS before it")
	// ErrNotAMQP is anything else that is not AMQP, such as HTTP.
	ErrNotAMQP = errors.New("this is not AMQP")
	// ErrVersion is a stream whose protocol header names a version other than 0-9-1.
	ErrVersion = errors.New("this AMQP is not version 0-9-1")
	// ErrFrameType is a frame of an unknown type.
	ErrFrameType = errors.New("unknown frame type")
	// ErrFrameTooLarge is a frame that declares a larger payload than the limit.
	ErrFrameTooLarge = errors.New("frame larger than the limit")
	// ErrFrameEnd is a frame without its end octet 0xCE.
	ErrFrameEnd = errors.New("frame without the end octet 0xCE")
)

const (
	// DefaultMaxFrame is RabbitMQ's own frame_max, in bytes.
	DefaultMaxFrame = 131072
	// LargestMaxFrame bounds a Reader where frame-max was settled as 0, no limit: the largest message that RabbitMQ
	// can be configured to take (max_message_size), so no working client's frame is above it. In bytes.
	LargestMaxFrame = 512 << 20
)

// Reader cuts one direction of one connection into frames. Feed it what was received, in pieces of any size, and
// take frames with Next until it has none:
//
//	r.Feed(p)
//	for {
//		f, ok, err := r.Next()
//		if err != nil || !ok {
//			break
//		}
//		...
//	}
//
// Frames that lie in p whole are windows on p; only a frame that is spread over several pieces is copied. So p
// must stay as it is until Next has returned false or an error, and a Frame is valid until the next Feed, as long
// as p is left alone too; Clone makes it last.
//
// A Reader keeps at most one partial frame when drained, and twice the largest frame so far as memory to reuse;
// memory grows with the bytes that came, never with a declared length. The zero Reader is not usable. A Reader is
// for one goroutine.
type Reader struct {
	maxFrame int
	// chunk is what is unread of the last piece fed: the feeder's memory.
	chunk []byte
	// joined holds the bytes that were left over from earlier pieces, from joinedAt on unread: own memory.
	joined   []byte
	joinedAt int
	// spare takes turns with joined, so that what is left over does not overwrite a frame just given out.
	spare []byte
	// offset counts the bytes given out as frames.
	offset uint64
	// foreign is a protocol header that is not that of 0-9-1, once one was seen.
	foreign []byte
	err     error
}

// NewReader returns a Reader for frames of at most maxFrame bytes, see SetMaxFrame.
func NewReader(maxFrame int) *Reader {
	r := &Reader{}
	r.SetMaxFrame(maxFrame)
	return r
}

// SetMaxFrame sets the limit of the frames to come, in bytes, as settled by connection.tune-ok; 0 or less stands
// for no limit in AMQP, and for LargestMaxFrame here. Before the connection is tuned, MinFrameMax is what the
// specification promises, but brokers send larger connection.start frames: DefaultMaxFrame is a better start.
//
// As in RabbitMQ, the limit holds for the payload: 8 bytes more than a frame-max that counts head and end octet
// allows, so that clients which do not count them get through.
func (r *Reader) SetMaxFrame(maxFrame int) {
	if maxFrame <= 0 || maxFrame > LargestMaxFrame {
		maxFrame = LargestMaxFrame
	}
	r.maxFrame = maxFrame
}

// Feed adds bytes received. It ends the validity of frames given out before. Bytes of an earlier Feed that were
// not yet read are kept, by copying them; drain the Reader between feeds to avoid that.
func (r *Reader) Feed(p []byte) {
	if r.err != nil {
		// Nothing will be read any more: keeping it would grow without bound.
		return
	}
	r.stash(0)
	if r.joinedAt > 0 {
		r.joined = r.joined[:copy(r.joined, r.joined[r.joinedAt:])]
		r.joinedAt = 0
	}
	r.chunk = p
}

// Next returns the next whole frame, or false when there is none yet. After an error it returns that error for
// ever, and later feeds are dropped. Errors wrap ErrTLS, ErrNotAMQP, ErrVersion, ErrFrameType, ErrFrameTooLarge or
// ErrFrameEnd.
func (r *Reader) Next() (Frame, bool, error) {
	if r.err != nil {
		return Frame{}, false, r.err
	}
	// Mostly nothing is left over and the frame is in the chunk.
	if r.joinedAt == len(r.joined) {
		size, err := r.measure(r.chunk)
		if err != nil {
			return r.fail(err)
		}
		if size == 0 || size > len(r.chunk) {
			r.stash(size)
			return Frame{}, false, nil
		}
		f, err := r.cut(r.chunk[:size:size])
		if err != nil {
			return r.fail(err)
		}
		r.chunk = r.chunk[size:]
		return f, true, nil
	}
	for {
		part := r.joined[r.joinedAt:]
		size, err := r.measure(part)
		if err != nil {
			return r.fail(err)
		}
		if size > 0 && size <= len(part) {
			f, err := r.cut(part[:size:size])
			if err != nil {
				return r.fail(err)
			}
			r.joinedAt += size
			return f, true, nil
		}
		if len(r.chunk) == 0 {
			return Frame{}, false, nil
		}
		// Take over no more than this frame needs, so that those after it stay windows on the chunk. Where its
		// size is not known yet, one byte at a time finds it out: those are at most the 7 of a head.
		want := 1
		if size > 0 {
			want = min(size-len(part), len(r.chunk))
		}
		r.joined = append(r.joined, r.chunk[:want]...)
		r.chunk = r.chunk[want:]
	}
}

// Boundary says whether the bytes fed so far end where a frame ends, all frames having been taken with Next. It
// is true before the first byte, and false after an error.
func (r *Reader) Boundary() bool {
	return r.err == nil && len(r.chunk) == 0 && r.joinedAt == len(r.joined)
}

// Offset is the number of bytes given out as frames: where in the stream the next frame starts, or the error is.
func (r *Reader) Offset() uint64 { return r.offset }

// Rest returns a copy of the bytes that were fed and not given out: a partial frame, or after an error what was
// there from Offset on when it was found. One who passes a stream on can pass it on too.
func (r *Reader) Rest() []byte {
	return slices.Concat(r.joined[r.joinedAt:], r.chunk)
}

// Opening returns a copy of what the stream began with, where Next has stopped at that: the protocol header of another
// version, or what is there of that which is not AMQP. It is nil for all else.
func (r *Reader) Opening() []byte {
	switch {
	case r.err == nil:
		return nil
	case r.foreign != nil:
		return bytes.Clone(r.foreign)
	case r.offset == 0:
		return r.Rest()
	default:
		return nil
	}
}

// stash moves what is unread of the chunk to own memory, as the feeder will reuse the chunk. size is that of the
// frame it starts with, 0 where not known.
func (r *Reader) stash(size int) {
	if len(r.chunk) == 0 {
		r.chunk = nil
		return
	}
	if r.joinedAt == len(r.joined) {
		r.joined, r.spare, r.joinedAt = r.spare[:0], r.joined, 0
	}
	// A frame of known size that came at least by half gets its memory at once. One of which less came is grown as
	// it comes, so that a declared length alone costs nothing.
	if size > 0 && size <= 2*len(r.chunk) {
		r.joined = slices.Grow(r.joined, size)
	}
	r.joined = append(r.joined, r.chunk...)
	r.chunk = nil
}

// fail keeps the error and what is unread, for Rest.
func (r *Reader) fail(err error) (Frame, bool, error) {
	r.err = fmt.Errorf("at byte %d: %w", r.offset, err)
	r.stash(0)
	return Frame{}, false, r.err
}

// measure returns the size of the frame that b starts with, head and end octet included, or 0 while it cannot be
// known. It refuses what is no frame as soon as the bytes show it.
func (r *Reader) measure(b []byte) (int, error) {
	if r.foreign != nil {
		return 0, fmt.Errorf("%w but %s", ErrVersion, version(r.foreign[len(protocolName):]))
	}
	if len(b) == 0 {
		return 0, nil
	}
	if r.offset == 0 {
		if size, done, err := start(b); done || err != nil {
			return size, err
		}
	}
	switch t := Type(b[0]); t {
	case TypeMethod, TypeHeader, TypeBody, TypeHeartbeat:
	default:
		return 0, fmt.Errorf("%w %d", ErrFrameType, b[0])
	}
	if len(b) < headSize {
		return 0, nil
	}
	size := binary.BigEndian.Uint32(b[3:headSize])
	if uint64(size) > uint64(r.maxFrame) {
		return 0, fmt.Errorf("%w: %s frame on channel %d declares %d bytes, the limit is %d",
			ErrFrameTooLarge, Type(b[0]), binary.BigEndian.Uint16(b[1:3]), size, r.maxFrame)
	}
	return int(size) + Overhead, nil
}

// start looks at the first bytes of a stream: a protocol header has its own size, and what is not AMQP is named.
// It is done unless an ordinary frame starts here, as in the broker's direction.
func start(b []byte) (size int, done bool, err error) {
	const (
		tlsAlert     = 0x15 // what a TLS server answers to a plain protocol header
		tlsHandshake = 0x16 // what a TLS client starts with
		tlsMajor     = 0x03 // follows both, from SSL 3.0 to TLS 1.3
	)
	switch Type(b[0]) {
	case TypeMethod, TypeHeader, TypeBody, TypeHeartbeat:
		return 0, false, nil
	case tlsHandshake, tlsAlert:
		if len(b) == 1 {
			return 0, true, nil
		}
		if b[1] == tlsMajor {
			return 0, true, ErrTLS
		}
	}
	n := min(len(b), len(protocolName))
	if string(b[:n]) != protocolName[:n] {
		// The first word is enough to know HTTP by, and too short to hold a credential.
		first := b[:min(len(b), protocolSize)]
		if word := bytes.IndexByte(first, ' '); word > 0 {
			first = first[:word]
		}
		return 0, true, fmt.Errorf("%w: the first bytes are %q", ErrNotAMQP, first)
	}
	if len(b) < protocolSize {
		return 0, true, nil
	}
	return protocolSize, true, nil
}

// cut makes a Frame of the bytes that measure has found to be one.
func (r *Reader) cut(raw []byte) (Frame, error) {
	if Type(raw[0]) == TypeProtocol {
		f := Frame{Type: TypeProtocol, Payload: raw[len(protocolName):], Raw: raw}
		// RabbitMQ speaks 0-9-1 to those who ask for 0-9 too, in the old form of its header.
		if v := version(f.Payload); v != "0-9-1" && v != "1-1-0-9" {
			r.foreign = bytes.Clone(raw)
		}
		r.offset += uint64(len(raw))
		return f, nil
	}
	f := Frame{
		Type:    Type(raw[0]),
		Channel: binary.BigEndian.Uint16(raw[1:3]),
		Payload: raw[headSize : len(raw)-1 : len(raw)-1],
		Raw:     raw,
	}
	if end := raw[len(raw)-1]; end != endOctet {
		return Frame{}, fmt.Errorf("%w: %s frame on channel %d of %d bytes ends with 0x%02X",
			ErrFrameEnd, f.Type, f.Channel, len(raw), end)
	}
	r.offset += uint64(len(raw))
	return f, nil
}
