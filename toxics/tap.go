package toxics

import (
	"bytes"
	"encoding/json"
	"errors"
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
			if at, any := d.due(); any {
				timer.Reset(time.Until(at))
				due = timer.C
			}
		}
		select {
		case <-stub.Interrupt:
			return
		case <-due:
			l.passHeld(stub, d, false)
		case <-d.woken:
			l.passHeld(stub, d, false)
			l.inject(stub, d)
		case chunk := <-stub.Input:
			switch {
			case chunk == nil:
				l.passHeld(stub, d, true)
				l.ended(d.fromBroker)
				stub.Close()
				return
			case l.breakable() || len(d.begun) > 0:
				d.works()
				l.takeCommands(stub, d, chunk)
				d.rests()
			default:
				d.works()
				l.pass(stub, d, l.takeWaiting(d, chunk, stub.Input))
				d.rests()
			}
			l.inject(stub, d)
		}
	}
}

// breakable reports whether there is a fault, or somebody who observes.
func (l *Link) breakable() bool { return l.faults != nil && l.faults.any.Load() }

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
	// A fault that is armed meanwhile is seen from the next chunk on.
	for first := true; passed != nil && len(passed.Data) < pieceSize/2 && len(input) > 0 && !l.breakable(); first = false {
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
func (l *Link) pass(stub *toxics.ToxicStub, d *direction, chunk *stream.StreamChunk) {
	if chunk == nil || len(chunk.Data) == 0 {
		return
	}
	l.touched(d)
	for data := chunk.Data; len(data) > 0; {
		n := min(len(data), pieceSize)
		select {
		case stub.Output <- &stream.StreamChunk{Data: data[:n:n], Timestamp: chunk.Timestamp}:
			atomic.AddInt64(&d.passed, int64(n))
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
		if effect.Void {
			break // the connection was cut while this was on its way
		}
		l.tune(d, effect)
		if !whole && !copied {
			// The first frame is no window on this chunk: everything is copied.
			out = make([]byte, 0, len(f.Raw)+len(chunk.Data))
			copied = true
		}
		if effect.Hold || effect.Ends && len(d.held) > 0 {
			if !copied {
				out = append(make([]byte, 0, len(chunk.Data)), chunk.Data[:offset]...)
				copied = true
			}
		}
		switch {
		case effect.Hold:
			l.hold(d, f.Raw, effect, chunk.Timestamp, f.Channel)
		case copied:
			if effect.Ends {
				out = l.appendHeld(out, d, true)
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
	var foreign *ForeignError
	if err = explained(d.reader, err); errors.As(err, &foreign) && !d.fromBroker {
		l.ledger.Add(ledger.Event{
			Kind: ledger.Foreign, Process: l.process, Conn: l.Number, Text: "the consumer's connection cannot be followed: " + err.Error(),
		})
	} else {
		l.follower.Garbage(d.fromBroker, err)
	}
	l.Cut()
}

// tune takes a frame size that was agreed on.
func (l *Link) tune(d *direction, effect ledger.Effect) {
	if effect.Tuned > 0 {
		l.maxFrame.Store(int64(effect.Tuned))
		d.reader.SetMaxFrame(effect.Tuned)
		d.maxFrame = effect.Tuned
	}
}

// hold keeps a confirm back for the confirm delay, or for as long as those before it on its channel.
func (l *Link) hold(d *direction, raw []byte, effect ledger.Effect, arrived time.Time, channel uint16) {
	due := arrived
	if len(effect.Confirms) > 0 {
		due = arrived.Add(l.confirmDelay)
	}
	d.held = append(d.held, held{due: due, raw: bytes.Clone(raw), effect: effect, confirm: true, lane: int(channel)})
}

// passHeld passes on what is held no more.
func (l *Link) passHeld(stub *toxics.ToxicStub, d *direction, all bool) {
	d.works()
	defer d.rests()
	if out := l.appendHeld(nil, d, all); len(out) > 0 {
		l.pass(stub, d, &stream.StreamChunk{Data: out, Timestamp: time.Now()})
	}
}

// appendHeld appends what is held no more; all says that the confirm delay is over.
func (l *Link) appendHeld(out []byte, d *direction, all bool) []byte {
	if d.deaf {
		return out
	}
	for _, h := range d.release(time.Now(), all) {
		switch {
		case !h.confirm:
			out = l.appendCommand(out, d, h.command, h.raw)
		case l.passedConfirm(h.effect):
			out = append(out, h.raw...)
		}
	}
	return out
}

// passedConfirm writes down that a held confirm is passed on, and reports whether it is to be.
func (l *Link) passedConfirm(effect ledger.Effect) bool {
	l.ending.Lock()
	defer l.ending.Unlock()
	l.follower.Passed(effect)
	return !l.lost.Load()
}
