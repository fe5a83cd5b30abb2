package toxics

import (
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"

	toxiproxy "github.com/Shopify/toxiproxy/v2"

	"github.com/parkproof/parkproof/scenarios/ledger"
	"github.com/parkproof/parkproof/toxics/frame"
)

// Link is one connection of a consumer, through a toxiproxy proxy of its own. Its two directions
// know of each other through it.
type Link struct {
	// Number is the connection's number in its scenario.
	Number int

	id             int64 // of its taps
	client, broker net.Conn
	proxy          *toxiproxy.Proxy
	follower       *ledger.Follower
	confirmDelay   time.Duration
	sides          [2]*direction
	maxFrame       atomic.Int64

	cut     sync.Once
	closed  chan struct{} // closed when nothing can be passed on any more
	writers sync.WaitGroup
}

// direction is one direction of a link: what its tap keeps while it is interrupted.
type direction struct {
	fromBroker bool
	reader     *frame.Reader
	maxFrame   int
	held       []heldConfirm
	deaf       bool // after bytes that are no AMQP
}

type heldConfirm struct {
	due    time.Time
	raw    []byte
	effect ledger.Effect
}

func newLink(o Options, number int, client, broker net.Conn) *Link {
	l := &Link{
		Number: number, client: client, broker: broker, confirmDelay: o.ConfirmDelay,
		closed: make(chan struct{}),
	}
	if o.Ledger != nil {
		l.follower = &ledger.Follower{
			Process: o.Process, Conn: number, Identify: o.Identify, Add: o.Ledger.Add,
			Deferred: o.ConfirmDelay > 0,
		}
	}
	l.maxFrame.Store(frame.DefaultMaxFrame)
	for i := range l.sides {
		l.sides[i] = &direction{
			fromBroker: i == 1, reader: frame.NewReader(frame.DefaultMaxFrame), maxFrame: frame.DefaultMaxFrame,
		}
	}
	return l
}

// Cut closes the connection on both sides.
func (l *Link) Cut() {
	l.cut.Do(func() {
		close(l.closed)
		_ = l.client.Close()
		_ = l.broker.Close()
	})
}

// ended says that one direction came to its end: what the other still has, nobody takes.
func (l *Link) ended(fromBroker bool) {
	if l.follower == nil {
		return
	}
	select {
	case <-l.closed:
		l.follower.Ended(false, "parkproof cut the connection")
		return
	default:
	}
	who := "the consumer"
	if fromBroker {
		who = "the broker"
	}
	l.follower.Ended(fromBroker, who+" closed the connection without a word")
}

// wait returns when both directions have written their last.
func (l *Link) wait() {
	l.writers.Wait()
	l.Cut()
}

// writer is the writing end towards a conn, for toxiproxy, which closes it as its last act.
func (l *Link) writer(to net.Conn) *closer {
	l.writers.Add(1)
	return &closer{Conn: to, link: l, broker: to == l.broker}
}

type closer struct {
	net.Conn
	link   *Link
	broker bool // it leads to the broker
	once   sync.Once
}

// ReadFrom writes what it reads until its end. When the other side takes no more, it closes the
// link and reads on to the end without writing: toxiproxy would leave the toxics before it waiting
// for ever to be rid of what they have.
func (c *closer) ReadFrom(r io.Reader) (int64, error) {
	// Hidden from io.Copy, so that it does not come back here.
	n, err := io.CopyBuffer(struct{ io.Writer }{c.Conn}, r, make([]byte, pieceSize))
	if err == nil {
		return n, nil
	}
	c.link.ended(c.broker)
	c.link.Cut()
	_, _ = io.Copy(io.Discard, r) // nothing of it counts any more
	return n, err                 //nolint:wrapcheck // toxiproxy drops it
}

// Close closes the whole link: AMQP has no half-closed connections.
func (c *closer) Close() error {
	err := c.Conn.Close()
	c.once.Do(c.link.writers.Done)
	c.link.Cut()
	return err
}
