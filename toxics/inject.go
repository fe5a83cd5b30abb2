package toxics

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/Shopify/toxiproxy/v2/stream"
	"github.com/Shopify/toxiproxy/v2/toxics"

	"github.com/parkproof/parkproof/scenarios/ledger"
	"github.com/parkproof/parkproof/toxics/frame"
)

// Injection is a command of parkproof's own that the broker takes for the consumer's. The consumer knows
// nothing of it, and what the broker answers, it gets.
type Injection struct {
	// Channel is the consumer's channel that it is sent on.
	Channel uint16
	// Text says what it does, for the ledger.
	Text string

	raw   []byte
	fired atomic.Int64
}

// Fired is how often it has been passed on: once, or not yet.
func (i *Injection) Fired() int { return int(i.fired.Load()) }

// injections are what waits for a gap in what the client sends.
type injections struct {
	any atomic.Bool

	mu   sync.Mutex
	list []*Injection // guarded by mu
}

var (
	errContent = errors.New("a command with a content cannot be injected")
	errGone    = errors.New("the connection is gone")
)

// Inject sends a method without a content to the broker on a channel of the consumer's, as soon as no
// content is under way there. One whose channel or connection ends before is never sent.
func (l *Link) Inject(channel uint16, m frame.Method, text string) (*Injection, error) {
	if frame.HasContent(m) {
		return nil, errContent
	}
	raw, err := frame.AppendMethodFrame(nil, channel, m)
	if err != nil {
		return nil, fmt.Errorf("encoding %s: %w", m.Name(), err)
	}
	if l.follower == nil || l.lost.Load() {
		return nil, errGone
	}
	i := &Injection{Channel: channel, Text: text, raw: raw}
	l.injected.mu.Lock()
	l.injected.list = append(l.injected.list, i)
	l.injected.mu.Unlock()
	l.injected.any.Store(true)
	l.wake()
	return i, nil
}

// inject passes on what is to be put between the client's commands, where there is a gap now.
func (l *Link) inject(stub *toxics.ToxicStub, d *direction) {
	if d.fromBroker || d.deaf || !l.injected.any.Load() {
		return
	}
	l.injected.mu.Lock()
	var now []*Injection
	l.injected.list = slices.DeleteFunc(l.injected.list, func(i *Injection) bool {
		fits := l.follower.Gap(i.Channel)
		if fits {
			now = append(now, i)
		}
		return fits
	})
	l.injected.any.Store(len(l.injected.list) > 0)
	l.injected.mu.Unlock()
	for _, i := range now {
		l.ledger.Add(ledger.Event{Kind: ledger.Fired, Process: l.process, Conn: l.Number, Channel: i.Channel, Text: i.Text})
		i.fired.Add(1)
		l.pass(stub, d, &stream.StreamChunk{Data: i.raw, Timestamp: time.Now()})
	}
}
