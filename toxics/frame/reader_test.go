package frame

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand"
	"os"
	"runtime"
	"strings"
	"testing"
	"testing/quick"
)

// recorded reads one direction of a session that amqp091-go 1.16.0 held with RabbitMQ 3.10.8: handshake with
// frame-max 4096, declarations, a mandatory publish of 9600 bytes with a confirm, one that is returned, a delivery
// that is dead-lettered, gets, a channel closed with 404, deletions, close.
func recorded(t testing.TB, direction string) []byte {
	t.Helper()
	stream, err := os.ReadFile("testdata/" + direction + ".stream")
	if err != nil {
		t.Fatal(err)
	}
	return stream
}

// drain takes all frames there are, cloned.
func drain(t testing.TB, r *Reader) []Frame {
	t.Helper()
	var frames []Frame
	for {
		f, ok, err := r.Next()
		if err != nil {
			t.Fatal(err)
		}
		if !ok {
			return frames
		}
		frames = append(frames, f.Clone())
	}
}

// cut reads the stream in one piece: the measure for all other ways to read it.
func cut(t testing.TB, stream []byte) []Frame {
	t.Helper()
	r := NewReader(DefaultMaxFrame)
	r.Feed(stream)
	frames := drain(t, r)
	if !r.Boundary() || r.Offset() != uint64(len(stream)) || len(r.Rest()) != 0 {
		t.Fatalf("not all read: %d of %d bytes", r.Offset(), len(stream))
	}
	return frames
}

func same(got, want []Frame) error {
	if len(got) != len(want) {
		return fmt.Errorf("%d frames, want %d", len(got), len(want))
	}
	for i := range got {
		g, w := got[i], want[i]
		if g.Type != w.Type || g.Channel != w.Channel || !bytes.Equal(g.Payload, w.Payload) || !bytes.Equal(g.Raw, w.Raw) {
			return fmt.Errorf("frame %d is %v, want %v", i, g, w)
		}
	}
	return nil
}

func TestReaderReadsASession(t *testing.T) {
	for _, c := range []struct {
		direction, methods string
	}{
		{"client", "connection.start-ok connection.tune-ok connection.open channel.open channel.open confirm.select " +
			"exchange.declare exchange.declare exchange.bind queue.declare queue.declare queue.bind basic.qos " +
			"basic.publish basic.publish basic.consume basic.nack basic.get basic.ack basic.get basic.cancel " +
			"queue.purge queue.declare channel.close-ok queue.delete exchange.delete exchange.delete queue.delete " +
			"channel.close connection.close"},
		{"broker", "connection.start connection.tune connection.open-ok channel.open-ok channel.open-ok " +
			"confirm.select-ok exchange.declare-ok exchange.declare-ok exchange.bind-ok queue.declare-ok " +
			"queue.declare-ok queue.bind-ok basic.qos-ok basic.ack basic.return basic.ack basic.consume-ok " +
			"basic.deliver basic.get-ok basic.get-empty basic.cancel-ok queue.purge-ok channel.close " +
			"queue.delete-ok exchange.delete-ok exchange.delete-ok queue.delete-ok channel.close-ok connection.close-ok"},
	} {
		stream := recorded(t, c.direction)
		var methods []string
		var again []byte
		for i, f := range cut(t, stream) {
			if (f.Type == TypeProtocol) != (i == 0 && c.direction == "client") {
				t.Errorf("%s: frame %d is a %v", c.direction, i, f)
			}
			if f.Type == TypeMethod {
				m, err := ParseMethod(f.Payload)
				if err != nil {
					t.Fatalf("%s: %v", c.direction, err)
				}
				methods = append(methods, m.Name())
				// What the client and the broker encode is what this package does, byte for byte.
				appended, err := AppendMethodFrame(nil, f.Channel, m)
				if err != nil || !bytes.Equal(appended, f.Raw) {
					t.Errorf("%s: %s appended as %x, %v, recorded as %x", c.direction, m.Name(), appended, err, f.Raw)
				}
			}
			if f.Type == TypeHeader {
				h, err := ParseHeader(f.Payload)
				if err != nil {
					t.Fatalf("%s: %v", c.direction, err)
				}
				appended, err := AppendHeader(nil, h)
				if err != nil || !bytes.Equal(appended, f.Payload) {
					t.Errorf("%s: header appended as %x, %v, recorded as %x", c.direction, appended, err, f.Payload)
				}
			}
			again = AppendFrame(again, f.Type, f.Channel, f.Payload)
		}
		if got := strings.Join(methods, " "); got != c.methods {
			t.Errorf("%s:\n%s\nwant\n%s", c.direction, got, c.methods)
		}
		if !bytes.Equal(again, stream) {
			t.Errorf("%s: AppendFrame of the frames is not the stream", c.direction)
		}
	}
}

// Every position to split a session at, its boundaries known.
func TestReaderAtEverySplit(t *testing.T) {
	for _, direction := range []string{"client", "broker"} {
		stream := recorded(t, direction)
		want := cut(t, stream)
		boundary := map[int]bool{0: true}
		at := 0
		for _, f := range want {
			at += len(f.Raw)
			boundary[at] = true
		}
		r := NewReader(DefaultMaxFrame)
		for split := range len(stream) + 1 {
			*r = *NewReader(DefaultMaxFrame)
			first, second := bytes.Clone(stream[:split]), bytes.Clone(stream[split:])
			r.Feed(first)
			got := drain(t, r)
			if r.Boundary() != boundary[split] {
				t.Fatalf("%s: Boundary at %d is %v", direction, split, r.Boundary())
			}
			if rest := r.Rest(); !bytes.Equal(rest, stream[r.Offset():split]) {
				t.Fatalf("%s: Rest at %d is %d bytes", direction, split, len(rest))
			}
			clear(first) // the Reader must not need it any more
			r.Feed(second)
			got = append(got, drain(t, r)...)
			if err := same(got, want); err != nil {
				t.Fatalf("%s, split at %d: %v", direction, split, err)
			}
		}
	}
}

func TestReaderByteByByte(t *testing.T) {
	for _, direction := range []string{"client", "broker"} {
		stream := recorded(t, direction)
		r := NewReader(DefaultMaxFrame)
		var got []Frame
		one := make([]byte, 1)
		for _, o := range stream {
			one[0] = o
			r.Feed(one)
			got = append(got, drain(t, r)...)
		}
		if err := same(got, cut(t, stream)); err != nil {
			t.Errorf("%s: %v", direction, err)
		}
	}
}

// Any pieces, and feeds without draining in between.
func TestReaderInAnyPieces(t *testing.T) {
	stream := recorded(t, "broker")
	want := cut(t, stream)
	check := func(seed int64) bool {
		r, random := NewReader(DefaultMaxFrame), rand.New(rand.NewSource(seed))
		longest := 1 + random.Intn(9000)
		var got []Frame
		for rest := stream; len(rest) > 0; {
			n := min(random.Intn(longest+1), len(rest))
			piece := bytes.Clone(rest[:n])
			rest = rest[n:]
			r.Feed(piece)
			for range random.Intn(4) {
				f, ok, err := r.Next()
				if err != nil {
					t.Log(err)
					return false
				}
				if ok {
					got = append(got, f.Clone())
				}
			}
			if random.Intn(2) == 0 {
				got = append(got, drain(t, r)...)
				clear(piece)
			}
		}
		got = append(got, drain(t, r)...)
		if err := same(got, want); err != nil {
			t.Log(err)
			return false
		}
		return r.Boundary()
	}
	if err := quick.Check(check, &quick.Config{MaxCount: 300}); err != nil {
		t.Error(err)
	}
}

// All frames taken between two feeds are valid together, those that were joined included.
func TestFramesAreValidUntilTheNextFeed(t *testing.T) {
	stream := recorded(t, "client")
	want := cut(t, stream)
	for size := 1; size < 5000; size += 7 {
		r := NewReader(DefaultMaxFrame)
		seen := 0
		for rest := stream; len(rest) > 0; {
			n := min(size, len(rest))
			r.Feed(rest[:n])
			rest = rest[n:]
			var frames []Frame
			for {
				f, ok, err := r.Next()
				if err != nil {
					t.Fatal(err)
				}
				if !ok {
					break
				}
				frames = append(frames, f)
			}
			if err := same(frames, want[seen:seen+len(frames)]); err != nil {
				t.Fatalf("in pieces of %d: %v", size, err)
			}
			seen += len(frames)
		}
		if seen != len(want) {
			t.Fatalf("in pieces of %d: %d frames", size, seen)
		}
	}
}

func TestWholeFramesAreNotCopied(t *testing.T) {
	stream := recorded(t, "broker")
	r := NewReader(DefaultMaxFrame)
	r.Feed(stream)
	for at := 0; ; {
		f, ok, err := r.Next()
		if err != nil {
			t.Fatal(err)
		}
		if !ok {
			break
		}
		if &f.Raw[0] != &stream[at] || cap(f.Raw) != len(f.Raw) || cap(f.Payload) != len(f.Payload) {
			t.Fatalf("%v is no window on what was fed, or reaches beyond it", f)
		}
		at += len(f.Raw)
	}
	if n := testing.AllocsPerRun(10, func() {
		r.Feed(stream[:0])
		*r = Reader{maxFrame: r.maxFrame}
		r.Feed(stream)
		for ok := true; ok; {
			_, ok, _ = r.Next()
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// Behind a frame that had to be joined, whole frames are windows again.
func TestOnlyTheSplitFrameIsCopied(t *testing.T) {
	beat := AppendHeartbeat(nil)
	second := bytes.Repeat(beat, 4)[5:]
	r := NewReader(4096)
	r.Feed(beat[:5])
	drain(t, r)
	r.Feed(second)
	for i := range 4 {
		f, ok, err := r.Next()
		if !ok || err != nil {
			t.Fatal(ok, err)
		}
		if i > 0 && &f.Raw[0] != &second[3+8*(i-1)] {
			t.Errorf("frame %d was copied", i)
		}
	}
}

func TestReaderRefuses(t *testing.T) {
	hello := "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"
	for _, c := range []struct {
		name, stream string
		want         error
		text         string
		frames       int // before the error
		needs        int // bytes after which the error must be there
	}{
		{"TLS client", hello, ErrTLS, "amqp://", 0, 2},
		{"TLS alert", "\x15\x03\x01\x00\x02\x02\x28", ErrTLS, "TLS", 0, 2},
		{"not quite TLS", "\x16\x02", ErrNotAMQP, "", 0, 2},
		{"HTTP request", "GET / HTTP/1.1\r\n", ErrNotAMQP, `"GET"`, 0, 1},
		{"HTTP answer", "HTTP/1.1 400 Bad Request", ErrNotAMQP, `"HTTP/1.1"`, 0, 1},
		{"zeros", "\x00\x00", ErrNotAMQP, "", 0, 1},
		{"almost AMQP", "AMQR", ErrNotAMQP, "", 0, 4},
		{"an A", "Accept", ErrNotAMQP, "", 0, 2},
		{"AMQP 1.0", "AMQP\x00\x01\x00\x00\x00\x00\x00\x10", ErrVersion, "1-0-0", 1, 8},
		{"AMQP 1.0 with SASL", "AMQP\x03\x01\x00\x00\x00", ErrVersion, "3-1-0-0", 1, 8},
		{"AMQP 0-8", "AMQP\x01\x01\x08\x00\x01", ErrVersion, "1-1-8-0", 1, 8},
		{"protocol header again", "AMQP\x00\x00\x09\x01AMQP\x00\x00\x09\x01", ErrFrameType, "at byte 8: unknown frame type 65", 1, 9},
		{"frame type", "AMQP\x00\x00\x09\x01\x04", ErrFrameType, "type 4", 1, 9},
		{"TLS later", "AMQP\x00\x00\x09\x01" + hello, ErrFrameType, "type 22", 1, 9},
		{"huge frame", "\x01\x00\x00\xff\xff\xff\xff", ErrFrameTooLarge, "method frame on channel 0 declares 4294967295 bytes, the limit is 4096", 0, 7},
		{"large frame", "\x03\x00\x05\x00\x00\x10\x01", ErrFrameTooLarge, "body frame on channel 5", 0, 7},
		{"end octet", "\x08\x00\x00\x00\x00\x00\x00\xcd", ErrFrameEnd, "0xCD", 0, 8},
		{"end octet later", "\x08\x00\x00\x00\x00\x00\x00\xce\x01\x00\x01\x00\x00\x00\x01xx", ErrFrameEnd, "at byte 8", 1, 17},
	} {
		whole := NewReader(4096)
		whole.Feed([]byte(c.stream))
		byByte := NewReader(4096)
		fed := 0
		for i, r := range []*Reader{whole, byByte} {
			frames := 0
			var err error
			for err == nil {
				var ok bool
				if _, ok, err = r.Next(); ok {
					frames++
				} else if err == nil {
					if i == 0 || fed == len(c.stream) {
						break
					}
					r.Feed([]byte(c.stream[fed : fed+1]))
					fed++
				}
			}
			if !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.text) && i == 0 || frames != c.frames {
				t.Errorf("%s: %v after %d frames, want %v with %q after %d", c.name, err, frames, c.want, c.text, c.frames)
				continue
			}
			if i == 1 && fed != c.needs {
				t.Errorf("%s: known after %d bytes, want %d", c.name, fed, c.needs)
			}
			// It stays, whatever is fed, keeps nothing of that, and what was not given out can be had.
			rest := string(r.Rest())
			r.Feed(AppendHeartbeat(nil))
			_, ok, again := r.Next()
			if ok || again == nil || again.Error() != err.Error() || r.Boundary() {
				t.Errorf("%s: after the error: %v, %v, boundary %v", c.name, ok, again, r.Boundary())
			}
			if string(r.Rest()) != rest || i == 0 && rest != c.stream[r.Offset():] {
				t.Errorf("%s: rest is %q", c.name, r.Rest())
			}
		}
	}
}

func TestErrorsOfForeignStreamsAreShort(t *testing.T) {
	r := NewReader(4096)
	r.Feed([]byte("POST /login?password=hunter2 HTTP/1.1\r\nAuthorization: Basic aHVudGVyMg=="))
	if _, _, err := r.Next(); err == nil || err.Error() != `at byte 0: this is not AMQP: the first bytes are "POST"` {
		t.Error(err)
	}
}

func TestProtocolHeaders(t *testing.T) {
	if got := string(AppendProtocolHeader(nil)); got != "AMQP\x00\x00\x09\x01" {
		t.Errorf("%q", got)
	}
	// From a client that asks for 0-9 in the old form, RabbitMQ goes on in 0-9-1.
	for _, header := range []string{"AMQP\x00\x00\x09\x01", "AMQP\x01\x01\x00\x09"} {
		r := NewReader(4096)
		r.Feed(AppendHeartbeat([]byte(header)))
		frames := drain(t, r)
		if len(frames) != 2 || frames[0].Type != TypeProtocol || string(frames[0].Raw) != header ||
			string(frames[0].Payload) != header[4:] || frames[1].Type != TypeHeartbeat {
			t.Errorf("%q: %v", header, frames)
		}
	}
	// The broker's answer to a version that it does not speak, recorded from RabbitMQ 3.10.8, ends its direction.
	r := NewReader(4096)
	r.Feed([]byte("AMQP\x00\x00\x09\x01"))
	if frames := drain(t, r); len(frames) != 1 || frames[0].String() != "protocol header 0-9-1" || !r.Boundary() {
		t.Errorf("%v, boundary %v", frames, r.Boundary())
	}
}

func TestMaxFrame(t *testing.T) {
	body := func(size int) []byte { return AppendFrame(nil, TypeBody, 1, make([]byte, size)) }
	r := NewReader(100)
	r.Feed(body(100))
	if len(drain(t, r)) != 1 {
		t.Error("a payload of the limit is refused")
	}
	r.SetMaxFrame(4096)
	r.Feed(body(4096))
	if len(drain(t, r)) != 1 {
		t.Error("the limit was not raised")
	}
	r.SetMaxFrame(0)
	r.Feed(body(1 << 20))
	if len(drain(t, r)) != 1 {
		t.Error("0 is not without limit")
	}
	r.SetMaxFrame(100)
	r.Feed(body(101))
	if _, _, err := r.Next(); !errors.Is(err, ErrFrameTooLarge) {
		t.Error(err)
	}
	r = NewReader(-1)
	r.Feed([]byte("\x03\x00\x01\x20\x00\x00\x01"))
	if _, _, err := r.Next(); !errors.Is(err, ErrFrameTooLarge) {
		t.Errorf("above LargestMaxFrame: %v", err)
	}
}

// A declared length costs nothing until its bytes come.
func TestReaderMemory(t *testing.T) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	const readers = 100
	rs := make([]*Reader, readers)
	for i := range rs {
		rs[i] = NewReader(0)
		rs[i].Feed([]byte("\x03\x00\x01\x10\x00\x00\x00and a few bytes"))
		if _, ok, err := rs[i].Next(); ok || err != nil {
			t.Fatal(ok, err)
		}
	}
	runtime.ReadMemStats(&after)
	if got := (after.TotalAlloc - before.TotalAlloc) / readers; got > 4096 {
		t.Errorf("%d bytes for a declared frame of 256 MB", got)
	}
	// And a long stream in pieces that never end at a frame reuses its memory.
	r := NewReader(DefaultMaxFrame)
	stream := bytes.Repeat(AppendFrame(nil, TypeBody, 1, make([]byte, 1000)), 1000)
	feed := func() {
		for rest := stream; len(rest) > 0; {
			n := min(777, len(rest))
			r.Feed(rest[:n])
			rest = rest[n:]
			for ok := true; ok; {
				_, ok, _ = r.Next()
			}
		}
	}
	feed()
	if n := testing.AllocsPerRun(5, feed); n > 0 {
		t.Errorf("%v allocations for a million bytes", n)
	}
	// Also where one frame is taken per feed and others always wait.
	r = NewReader(DefaultMaxFrame)
	beat := AppendHeartbeat(nil)
	r.Feed(beat)
	r.Feed(beat[:3])
	for range 10000 {
		r.Feed(append(bytes.Clone(beat[3:]), beat[:3]...))
		if _, ok, err := r.Next(); !ok || err != nil {
			t.Fatal(ok, err)
		}
	}
	if got := cap(r.joined) + cap(r.spare); got > 4096 {
		t.Errorf("%d bytes kept", got)
	}
}
