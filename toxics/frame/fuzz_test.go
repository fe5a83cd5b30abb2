package frame

import (
	"bytes"
	"encoding/binary"
	"reflect"
	"strings"
	"testing"
)

// FuzzReader checks that a stream gives the same frames and the same error however it is cut, that frames are its
// bytes, and that no byte is lost.
func FuzzReader(f *testing.F) {
	f.Add([]byte("AMQP\x00\x00\x09\x01\x08\x00\x00\x00\x00\x00\x00\xce"), uint16(3), 4096)
	f.Add([]byte("AMQP\x00\x01\x00\x00\x00"), uint16(1), 0)
	f.Add([]byte("\x16\x03\x01\x02\x00"), uint16(1), 4096)
	f.Add([]byte("GET / HTTP/1.1\r\n\r\n"), uint16(2), 4096)
	f.Add([]byte("\x01\x00\x00\xff\xff\xff\xff"), uint16(5), 4096)
	f.Add(recorded(f, "client")[:2000], uint16(100), 4096)
	f.Add(recorded(f, "broker")[:2000], uint16(7), 4096)
	f.Fuzz(func(t *testing.T, stream []byte, size uint16, maxFrame int) {
		read := func(size int) ([]Frame, *Reader, error) {
			r := NewReader(maxFrame)
			var frames []Frame
			for rest := stream; ; {
				n := min(size, len(rest))
				p := bytes.Clone(rest[:n])
				rest = rest[n:]
				r.Feed(p)
				for {
					frame, ok, err := r.Next()
					if err != nil {
						return frames, r, err
					}
					if !ok {
						break
					}
					frames = append(frames, frame.Clone())
				}
				for i := range p {
					p[i] = 0xAA
				}
				if len(rest) == 0 {
					return frames, r, nil
				}
			}
		}
		want, whole, wantErr := read(len(stream))
		got, pieces, err := read(int(size) + 1)
		// The texts may differ, as pieces may show less of what follows the error.
		if (err == nil) != (wantErr == nil) || whole.Offset() != pieces.Offset() {
			t.Fatalf("whole: %v at %d, in pieces: %v at %d", wantErr, whole.Offset(), err, pieces.Offset())
		}
		if err := same(got, want); err != nil {
			t.Fatal(err)
		}
		var raw []byte
		for _, frame := range want {
			raw = append(raw, frame.Raw...)
			if again := AppendFrame(nil, frame.Type, frame.Channel, frame.Payload); !bytes.Equal(again, frame.Raw) {
				t.Fatalf("%x appended as %x", frame.Raw, again)
			}
		}
		if got := append(raw, whole.Rest()...); !bytes.Equal(got, stream) {
			t.Fatalf("frames and rest are %x, of %x", got, stream)
		}
		if err == nil && whole.Boundary() != (whole.Offset() == uint64(len(stream))) {
			t.Fatalf("boundary %v at %d of %d", whole.Boundary(), whole.Offset(), len(stream))
		}
	})
}

// FuzzMethod checks that what is parsed can be appended, and is then the same.
func FuzzMethod(f *testing.F) {
	golden(f, func(name, _ string, payload []byte) {
		if strings.Contains(name, ".") {
			f.Add(payload)
		}
	})
	f.Fuzz(func(t *testing.T, payload []byte) {
		before := bytes.Clone(payload)
		m, err := ParseMethod(payload)
		if !bytes.Equal(payload, before) {
			t.Fatal("the payload was written to")
		}
		if err != nil {
			if m != nil {
				t.Fatalf("%v beside %v", m, err)
			}
			return
		}
		if m.ClassID() != binary.BigEndian.Uint16(payload) || m.MethodID() != binary.BigEndian.Uint16(payload[2:]) {
			t.Fatalf("%x parsed as %s", payload[:4], m.Name())
		}
		appended, err := AppendMethod(nil, m)
		if err != nil {
			t.Fatal(err)
		}
		again, err := ParseMethod(appended)
		if err != nil {
			t.Fatalf("%x: %v", appended, err)
		}
		// Compared as bytes, since a float may be NaN.
		twice, err := AppendMethod(nil, again)
		if err != nil || !bytes.Equal(twice, appended) {
			t.Fatalf("%x and then %x, %v", appended, twice, err)
		}
	})
}

// FuzzHeader checks the same for content headers, which besides are the same bytes but for what is free in them.
func FuzzHeader(f *testing.F) {
	golden(f, func(name, _ string, payload []byte) {
		if name == "header" {
			f.Add(payload)
		}
	})
	for _, frame := range append(cut(f, recorded(f, "client")), cut(f, recorded(f, "broker"))...) {
		if frame.Type == TypeHeader {
			f.Add(frame.Payload)
		}
	}
	f.Fuzz(func(t *testing.T, payload []byte) {
		h, err := ParseHeader(payload)
		if err != nil {
			return
		}
		appended, err := AppendHeader(nil, h)
		if err != nil {
			t.Fatal(err)
		}
		// Free are the two lowest flags, and the octet of a boolean that is true.
		if len(appended) != len(payload) {
			t.Fatalf("%d bytes of %d", len(appended), len(payload))
		}
		again, err := ParseHeader(appended)
		if err != nil {
			t.Fatal(err)
		}
		twice, err := AppendHeader(nil, again)
		if err != nil || !bytes.Equal(twice, appended) {
			t.Fatalf("%x and then %x, %v", appended, twice, err)
		}
		if h.Properties.Present != again.Properties.Present || !h.Properties.Has(h.Properties.Present) {
			t.Fatalf("%v and then %v", h.Properties.Present, again.Properties.Present)
		}
	})
}

// FuzzAssembler checks that contents which come out are those that the frames say: appended again they give the
// same, and none is longer than its header says.
func FuzzAssembler(f *testing.F) {
	f.Add(recorded(f, "client")[8:3000], uint16(100))
	f.Add(recorded(f, "broker")[:3000], uint16(0))
	for _, size := range []int{0, 1, 100} {
		s := appendContent(f, nil, 1, &BasicPublish{Exchange: "e"}, Header{Properties: Properties{MessageID: "m"}}, make([]byte, size), 60)
		f.Add(s, uint16(50))
		f.Add(append(s[:len(s)-9:len(s)-9], s...), uint16(50))
	}
	f.Fuzz(func(t *testing.T, stream []byte, bound uint16) {
		r := NewReader(MinFrameMax)
		r.Feed(stream)
		a := NewAssembler(int(bound))
		open := map[uint16]*Content{}
		for {
			frame, ok, err := r.Next()
			if err != nil || !ok {
				break
			}
			p, err := a.Add(frame)
			if p.Channel != frame.Channel || p.Method != nil && frame.Type != TypeMethod {
				t.Fatalf("%v is said to be %+v", frame, p)
			}
			c := p.Content
			if c == nil {
				if frame.Type == TypeMethod && a.Open(frame.Channel) != nil {
					t.Fatalf("%v left a content open", frame)
				}
				continue
			}
			if !HasContent(c.Method) || c.Channel != frame.Channel || c.Received > c.Header.BodySize ||
				uint64(len(c.Body)) > uint64(bound) || c.Kept && uint64(len(c.Body)) != c.Received {
				t.Fatalf("%+v", c)
			}
			if frame.Type != TypeMethod && c != open[frame.Channel] {
				t.Fatalf("%v joined another content than the one that was begun", frame)
			}
			open[frame.Channel] = c
			if p.Done != (c.Header.Class != 0 && c.Received == c.Header.BodySize) && err == nil {
				t.Fatalf("done is %v at %d of %d", p.Done, c.Received, c.Header.BodySize)
			}
			if !p.Done {
				continue
			}
			if a.Open(frame.Channel) != nil {
				t.Fatal("still open when done")
			}
			digest := c.Digest()
			if !c.Kept {
				continue
			}
			appended, err := AppendContent(nil, c.Channel, c.Method, c.Header, c.Body, 0)
			if err != nil {
				t.Fatal(err)
			}
			b := NewAssembler(int(bound))
			var last Part
			for _, frame := range cut(t, appended) {
				if last, err = b.Add(frame); err != nil {
					t.Fatal(err)
				}
			}
			if !last.Done || !bytes.Equal(last.Content.Body, c.Body) || last.Content.Digest() != digest ||
				!reflect.DeepEqual(last.Content.Header.BodySize, c.Header.BodySize) {
				t.Fatalf("%+v and then %+v", c, last.Content)
			}
		}
		if a.Pending() > len(open) {
			t.Fatalf("%d pending of %d", a.Pending(), len(open))
		}
	})
}
