package toxics

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	toxiproxy "github.com/Shopify/toxiproxy/v2"
	"github.com/Shopify/toxiproxy/v2/stream"
	"github.com/Shopify/toxiproxy/v2/toxics"

	"github.com/parkproof/parkproof/scenarios/ledger"
)

// tapType is the tap's name in toxiproxy.
const tapType = "parkproof_tap"

func init() { toxics.Register(tapType, new(Tap)) }

// links are the links with a tap, by the number that their taps carry as an attribute: toxiproxy
// makes its toxics from JSON, so a toxic can find its connection in no other way.
var (
	links   sync.Map // of int64 to *Link
	linkIDs atomic.Int64
)

// Tap is the toxic that sees: it reassembles the frames of one direction of one connection, writes
// each to the ledger, and passes it on. On its way from the broker, a confirm of a copy is passed
// on later by the link's confirm delay; other frames overtake it, confirms keep their order.
type Tap struct {
	// Link is the number of the tap's link, FromBroker its direction.
	Link       int64 `json:"link"`
	FromBroker bool  `json:"from_broker"`
}

// tap puts taps into both directions of the link's proxy.
func tap(proxy *toxiproxy.Proxy, l *Link) error {
	id := linkIDs.Add(1)
	links.Store(id, l)
	l.id = id
	for _, direction := range []stream.Direction{stream.Upstream, stream.Downstream} {
		toxic, err := json.Marshal(map[string]any{
			"name": tapType + "_" + direction.String(), "type": tapType, "stream": direction.String(),
			"attributes": Tap{Link: id, FromBroker: direction == stream.Downstream},
		})
		if err != nil {
			return fmt.Errorf("describing the tap: %w", err)
		}
		if _, err := proxy.Toxics.AddToxicJson(bytes.NewReader(toxic)); err != nil {
			return fmt.Errorf("adding the tap of link %s: %w", strconv.FormatInt(id, 10), err)
		}
	}
	return nil
}

func forget(l *Link) { links.Delete(l.id) }

// Pipe passes the frames on until the connection ends or the toxic is interrupted; what it has not
// passed on yet is kept in the link for when it goes on.
func (t *Tap) Pipe(stub *toxics.ToxicStub) {
	found, ok := links.Load(t.Link)
	if !ok {
		stub.Close()
		return
	}
	l := found.(*Link)
	d := l.sides[0]
	if t.FromBroker {
		d = l.sides[1]
	}
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		var due <-chan time.Time
		if len(d.held) > 0 {
			timer.Reset(time.Until(d.held[0].due))
			due = timer.C
		}
		select {
		case <-stub.Interrupt:
			return
		case now := <-due:
			l.pass(stub, l.release(d, now))
		case chunk := <-stub.Input:
			if chunk == nil {
				l.pass(stub, l.releaseAll(d))
				l.ended(d.fromBroker)
				stub.Close()
				return
			}
			l.pass(stub, l.takeWaiting(d, chunk, stub.Input))
		}
	}
}

// waitingChunks is how many chunks may wait for the tap: a client writes an ack at a time, and what came
// while the tap was at work goes on in one piece. It bounds what is read ahead of a broker or consumer
// that takes nothing, at 2 MiB.
const waitingChunks = 64

// GetBufferSize is how many chunks toxiproxy keeps for the tap.
func (t *Tap) GetBufferSize() int { return waitingChunks }

// takeWaiting takes the chunk and those that wait behind it, until half a piece has come together,
// and returns what may be passed on now.
func (l *Link) takeWaiting(d *direction, chunk *stream.StreamChunk, input <-chan *stream.StreamChunk) *stream.StreamChunk {
	passed := l.take(d, chunk)
	for first := true; passed != nil && len(passed.Data) < pieceSize/2 && len(input) > 0; first = false {
		if first {
			// The chunk's memory behind what is passed on is the reader's, which still needs it.
			passed = &stream.StreamChunk{Data: slices.Clip(passed.Data), Timestamp: passed.Timestamp}
		}
		next := l.take(d, <-input)
		if next == nil {
			break // it was no AMQP
		}
		passed.Data = append(passed.Data, next.Data...)
	}
	return passed
}

// pieceSize bounds, in bytes, the chunks that are handed on, and is the buffer that they are read
// with at the end: toxiproxy's stream.ChanReader (2.5.0) loses what is left of a chunk larger than
// its reader's buffer, when the next chunk is there already. Twice toxiproxy's own chunks, so that
// one of them and the frame that was begun in the one before still go out in one write.
const pieceSize = 64 << 10

// pass hands bytes on, or drops them when the link is closed and nobody takes them any more.
func (l *Link) pass(stub *toxics.ToxicStub, chunk *stream.StreamChunk) {
	if chunk == nil {
		return
	}
	for data := chunk.Data; len(data) > 0; {
		n := min(len(data), pieceSize)
		select {
		case stub.Output <- &stream.StreamChunk{Data: data[:n:n], Timestamp: chunk.Timestamp}:
		case <-l.closed:
			return
		}
		data = data[n:]
	}
}

// take follows the frames in a chunk and returns the bytes that may be passed on now: whole frames
// only, less those that are held.
func (l *Link) take(d *direction, chunk *stream.StreamChunk) *stream.StreamChunk {
	if d.deaf {
		return nil
	}
	// In the common case the chunk begins and ends with a frame and nothing is held back: then it
	// goes on as it is, without a copy.
	whole := d.reader.Boundary()
	var out []byte
	var copied bool
	offset := 0
	if limit := int(l.maxFrame.Load()); limit != d.maxFrame {
		d.maxFrame = limit
		d.reader.SetMaxFrame(limit)
	}
	d.reader.Feed(chunk.Data)
	for {
		f, ok, err := d.reader.Next()
		if err != nil {
			l.garbage(d, err)
			break
		}
		if !ok {
			break
		}
		effect, err := l.follower.Take(d.fromBroker, f)
		if err != nil {
			// The broker or the client judges it too; what cannot be understood is passed on.
			effect = ledger.Effect{}
		}
		if effect.Tuned > 0 {
			l.maxFrame.Store(int64(effect.Tuned))
			d.reader.SetMaxFrame(effect.Tuned)
			d.maxFrame = effect.Tuned
		}
		if !whole && !copied {
			// The first frame is no window on this chunk: everything is copied.
			out = make([]byte, 0, len(f.Raw)+len(chunk.Data))
			copied = true
		}
		held := effect.Hold
		if held || effect.Ends && len(d.held) > 0 {
			if !copied {
				out = append(make([]byte, 0, len(chunk.Data)), chunk.Data[:offset]...)
				copied = true
			}
		}
		switch {
		case held:
			due := chunk.Timestamp.Add(l.confirmDelay)
			if len(effect.Confirms) == 0 && len(d.held) > 0 {
				due = d.held[len(d.held)-1].due // it only must not overtake
			}
			d.held = append(d.held, heldConfirm{due: due, raw: bytes.Clone(f.Raw), effect: effect})
		case copied:
			if effect.Ends {
				if flushed := l.releaseAll(d); flushed != nil {
					out = append(out, flushed.Data...)
				}
			}
			out = append(out, f.Raw...)
		}
		offset += len(f.Raw)
	}
	if copied {
		return &stream.StreamChunk{Data: out, Timestamp: chunk.Timestamp}
	}
	return &stream.StreamChunk{Data: chunk.Data[:offset], Timestamp: chunk.Timestamp}
}

// garbage ends a link that does not speak AMQP 0-9-1: nothing can be said of what it does.
func (l *Link) garbage(d *direction, err error) {
	d.deaf = true
	l.follower.Garbage(d.fromBroker, err)
	l.Cut()
}

// release passes on the confirms that are due.
func (l *Link) release(d *direction, now time.Time) *stream.StreamChunk {
	n := 0
	for n < len(d.held) && !d.held[n].due.After(now) {
		n++
	}
	return l.releaseFirst(d, n)
}

func (l *Link) releaseAll(d *direction) *stream.StreamChunk { return l.releaseFirst(d, len(d.held)) }

func (l *Link) releaseFirst(d *direction, n int) *stream.StreamChunk {
	if n == 0 {
		return nil
	}
	var out []byte
	for _, h := range d.held[:n] {
		l.follower.Passed(h.effect)
		out = append(out, h.raw...)
	}
	d.held = append([]heldConfirm(nil), d.held[n:]...)
	return &stream.StreamChunk{Data: out, Timestamp: time.Now()}
}
