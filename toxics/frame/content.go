package frame

import (
	"crypto/sha256"
	"fmt"
	"hash"
)

// Content is a method with the message that belongs to it: a publish, a return, a deliver or a get-ok.
type Content struct {
	Channel uint16
	Method  Method
	// Header is zero until the header frame has come.
	Header Header
	// Body is as much of the body as has come, nil where Kept is false. It is memory of its own.
	Body []byte
	// Received is how many bytes of the body have come: Header.BodySize when the content is complete.
	Received uint64
	// Kept says whether Body is kept. It is not where Header.BodySize is above the Assembler's bound, or with it the
	// bodies of all contents that were incomplete at the time are above MaxOpenSize.
	Kept bool

	size int // what the method and the header take, in bytes

	running hash.Hash // of the body, where it is not kept
}

// Digest returns the SHA-256 of the body so far, whether it is kept or not. For a body that is kept it is computed
// by each call, for one that is not it went along with the body.
func (c *Content) Digest() [sha256.Size]byte {
	if c.running == nil {
		return sha256.Sum256(c.Body)
	}
	return [sha256.Size]byte(c.running.Sum(nil))
}

// AppendContent appends a whole content: the frames of the method, of the header, and of the body in as many as
// frameMax asks for; frameMax counts head and end octet as connection.tune-ok does, 0 for no limit. The header's
// Class and BodySize are set from the method and the body. Where the method has no content, or the method or header
// cannot be encoded or is longer than a frame may be, it returns dst as it was and an error.
func AppendContent(dst []byte, channel uint16, m Method, h Header, body []byte, frameMax int) ([]byte, error) {
	if !HasContent(m) {
		return dst, fmt.Errorf("%s has no content: %w", m.Name(), ErrUnencodable)
	}
	if frameMax <= 0 {
		frameMax = LargestMaxFrame
	}
	h.Class, h.BodySize = m.ClassID(), uint64(len(body))
	out, err := AppendMethodFrame(dst, channel, m)
	if err == nil {
		err = fits("method", len(out)-len(dst), frameMax)
	}
	if err != nil {
		return dst, err
	}
	start := len(out)
	out, err = appendFramed(out, TypeHeader, channel, func(dst []byte) ([]byte, error) { return AppendHeader(dst, h) })
	if err == nil {
		err = fits("header", len(out)-start, frameMax)
	}
	if err != nil {
		return dst, fmt.Errorf("%s: %w", m.Name(), err)
	}
	// The header frame fits, so frameMax is more than the overhead.
	for len(body) > 0 {
		n := min(len(body), frameMax-Overhead)
		out = AppendFrame(out, TypeBody, channel, body[:n])
		body = body[n:]
	}
	return out, nil
}

func fits(what string, size, frameMax int) error {
	if size <= frameMax {
		return nil
	}
	return fmt.Errorf("%w: a %s frame of %d bytes, the limit is %d", ErrFrameTooLarge, what, size, frameMax)
}
