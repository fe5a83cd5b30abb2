package ledger

import (
	"encoding/binary"
	"math/rand"
	"testing"

	"github.com/parkproof/parkproof/toxics/frame"
)

// What FuzzFollowerInChunks does at a cut, by the lowest bits of its octet: whose direction it is, whether the frames
// of the chunk are looked at before they take effect, and whether what may be held back is.
const (
	chunkOfBroker = 1 << iota
	chunkSighted
	chunkHeld
	chunkBits = 3 // the rest is the chunk's size, in steps of its square: 0, 1, 4, ... up to 961 bytes
)

// FuzzFollowerInChunks checks that whatever bytes come in whatever pieces from both sides, the follower does not panic,
// its events are numbered through, and what one covers is an event before it; and that all that is read from the events
// can be.
func FuzzFollowerInChunks(f *testing.F) {
	cuts := make([]byte, 60)
	for seed := range int64(8) {
		r := rand.New(rand.NewSource(seed))
		c := newTalk(&testing.T{})
		var sides [2][]byte
		for i := range sides {
			for range 20 {
				sides[i] = append(sides[i], c.encode(uint16(r.Intn(3)), anything(r))...)
			}
		}
		r.Read(cuts)
		f.Add(sides[0], sides[1], cuts, seed%2 == 0, uint16(30*seed))
	}
	f.Add([]byte("AMQP\x00\x01\x00\x00"), []byte("AMQP\x00\x00\x09\x01"), []byte{8, 9, 255, 254}, false, uint16(0))
	f.Add([]byte("\x16\x03\x01\x02\x00"), []byte("\x15\x03\x01\x00\x02\x02\x46"), []byte{16, 17}, true, uint16(0))
	f.Add([]byte("\x01\x00\x00\xff\xff\xff\xff"), []byte{}, []byte{255}, true, uint16(0))
	f.Fuzz(func(t *testing.T, fromClient, fromBroker, cuts []byte, deferred bool, end uint16) {
		l := New()
		c := chunked{T: t, Follower: &Follower{
			Process: "p", Conn: 1, Deferred: deferred,
			Identify: func(c *Content) string { return c.Properties.MessageID },
			Add: func(e Event) int {
				seq := l.Add(e)
				if seq != len(l.Events()) {
					t.Fatalf("an event is numbered %d, and is the %dth", seq, len(l.Events()))
				}
				return seq
			},
		}}
		c.readers = [2]*frame.Reader{frame.NewReader(frame.DefaultMaxFrame), frame.NewReader(frame.DefaultMaxFrame)}
		rest := [2][]byte{fromClient, fromBroker}
		for i, cut := range cuts {
			if i == int(end) && end != 0 {
				c.Ended(cut&chunkOfBroker != 0, "gone")
			}
			side := int(cut & chunkOfBroker)
			size := int(cut >> chunkBits)
			n := min(size*size, len(rest[side]))
			c.feed(side == 1, rest[side][:n], cut)
			rest[side] = rest[side][n:]
		}
		for side := range rest {
			c.feed(side == 1, rest[side], 0)
		}
		for _, e := range c.held {
			c.Passed(e)
		}
		c.Ended(false, "gone")
		events := l.Events()
		checkCovers(t, events)
		for i := range events {
			if i > 0 && events[i].At < events[i-1].At {
				t.Errorf("event %d comes before the one before it", i+1)
			}
			if len(events[i].Text) > 2000 {
				t.Errorf("event %d has a text of %d bytes", i+1, len(events[i].Text))
			}
		}
		account := Balance(events, terms())
		_ = Excerpt(Timeline(events, []string{"", "m1", "m2"}, nil), 20)
		_, _ = Touched(events)
		if n := len(account.Connections); n > 1 {
			t.Errorf("one connection is told as %d", n)
		}
	})
}

// chunked follows a connection as a wire does.
type chunked struct {
	*testing.T
	*Follower
	readers [2]*frame.Reader
	held    []Effect
}

// feed gives the follower a chunk, in the way that its cut says.
func (c *chunked) feed(fromBroker bool, chunk []byte, cut byte) {
	r := c.readers[0]
	if fromBroker {
		r = c.readers[1]
	}
	r.Feed(chunk)
	for {
		fr, ok, err := r.Next()
		if err != nil {
			if len(chunk) > 0 {
				c.Garbage(fromBroker, err)
			}
			return
		}
		if !ok {
			return
		}
		var effect Effect
		if cut&chunkSighted == 0 {
			effect, _ = c.Take(fromBroker, fr)
		} else {
			effect = c.look(fromBroker, fr, cut)
		}
		if effect.Tuned > 0 {
			for _, r := range c.readers {
				r.SetMaxFrame(effect.Tuned)
			}
		}
		switch {
		case effect.Hold && cut&chunkHeld != 0:
			c.held = append(c.held, effect)
		case effect.Hold:
			for _, e := range append(c.held, effect) {
				c.Passed(e)
			}
			c.held = nil
		}
	}
}

// look is what a wire with faults does: it looks at a command before it takes effect, holds some, and drops some.
func (c *chunked) look(fromBroker bool, fr frame.Frame, cut byte) Effect {
	command, _ := c.Assemble(fromBroker, fr)
	if !command.Whole {
		return Effect{}
	}
	s := c.Sight(command)
	confirm := false
	switch command.Method.(type) {
	case *frame.BasicAck, *frame.BasicNack:
		confirm = fromBroker
	}
	if !confirm {
		return c.Apply(command)
	}
	before := c.Answers(command)
	if len(before) != len(s.Targets) {
		c.Fatalf("a confirm of %d publishes is said to be of %d", len(before), len(s.Targets))
	}
	switch {
	case cut&chunkHeld != 0 && len(fr.Payload) > 0 && binary.BigEndian.Uint16(fr.Raw[1:])%2 == 1:
		others := c.Drop(command, func(of Target) bool { return of.Message == "m1" })
		if len(others) > len(before) {
			c.Fatalf("a confirm of %d publishes leaves %d when some are dropped", len(before), len(others))
		}
		return Effect{}
	case cut&chunkHeld != 0:
		return c.ApplyHeld(command)
	default:
		return c.Apply(command)
	}
}
