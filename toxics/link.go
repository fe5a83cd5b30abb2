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
	place          int   // among the process's connections, from 1
	faults         *Faults
	ledger         *ledger.Ledger
	process        string
	client, broker net.Conn
	proxy          *toxiproxy.Proxy
	follower       *ledger.Follower
	confirmDelay   time.Duration
	sides          [2]*direction
	maxFrame       atomic.Int64

	// lost is set where the connection has ended without a close: what comes after is void. ending keeps
	// that from happening between a confirm's entry in the ledger and the decision to pass it on.
	ending sync.Mutex
	lost   atomic.Bool

	cut     sync.Once
	closed  chan struct{} // closed when nothing can be passed on any more
	writers sync.WaitGroup

	// awaited is what a cut waits for; until it comes, that direction passes nothing on.
	awaited atomic.Pointer[awaited]
	// acting is held while a process is stopped at a command: its end must not overtake the command.
	acting sync.Mutex
	// resets is set where closing is to reset.
	resets  atomic.Bool
	proxied [2]atomic.Pointer[[]*Proxied]
	// closing is set where a toxic was taken off a link that was about to end: no other can be put on. It is
	// guarded by chain, which is held while toxics are put on and taken off.
	chain   sync.Mutex
	closing bool
	// injected are commands of parkproof's own that are still to be sent.
	injected injections
}

// direction is one direction of a link: what its tap keeps while it is interrupted.
type direction struct {
	fromBroker bool
	reader     *frame.Reader
	maxFrame   int
	held       []held
	deaf       bool // after bytes that are no AMQP, and after a cut
	// begun are the frames so far of the contents that are incomplete, by channel.
	begun map[uint16]*begun
	// dropped says that confirms of the channel were dropped, so that a later one must not speak for them.
	dropped map[uint16]bool
	woken   chan struct{} // something that was held may be passed on
	passed  int64         // bytes handed on; atomic
	writer  *closer
	// working is set while the ledger may say of something that it was passed on, and it has not been.
	working atomic.Bool
}

// works says that the tap has something in hand, rests that it has nothing.
func (d *direction) works() { d.working.Store(true) }

func (d *direction) rests() {
	d.working.Store(false)
	d.writer.tell()
}

// begun is a content on its way: its frames, and where each ends.
type begun struct {
	raw  []byte
	ends []int
}

func newLink(o Options, number int, client, broker net.Conn) *Link {
	l := &Link{
		Number: number, client: client, broker: broker, confirmDelay: o.ConfirmDelay,
		faults: o.Faults, ledger: o.Ledger, process: o.Process,
		closed: make(chan struct{}),
	}
	if o.Ledger != nil {
		l.follower = &ledger.Follower{
			Process: o.Process, Conn: number, Identify: o.Identify, Add: l.bounded(o.Ledger.Add),
			Deferred: o.ConfirmDelay > 0 || o.Faults != nil,
		}
	}
	l.maxFrame.Store(frame.DefaultMaxFrame)
	for i := range l.sides {
		l.sides[i] = &direction{
			fromBroker: i == 1, reader: frame.NewReader(frame.DefaultMaxFrame), maxFrame: frame.DefaultMaxFrame,
			begun: map[uint16]*begun{}, dropped: map[uint16]bool{}, woken: make(chan struct{}, 1),
		}
	}
	return l
}

// Cut closes the connection on both sides.
func (l *Link) Cut() {
	l.cut.Do(func() {
		close(l.closed)
		if l.resets.Load() {
			l.reset(l.client)
			l.reset(l.broker)
		}
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
		l.end(false, ledger.CutByParkproof)
		return
	default:
	}
	who := "the consumer"
	if fromBroker {
		who = "the broker"
	}
	l.end(fromBroker, who+" closed the connection without a word")
}

// end writes down that the connection is gone, unless it was closed in the orderly way: nothing is passed
// on any more.
func (l *Link) end(fromBroker bool, text string) {
	l.ending.Lock()
	defer l.ending.Unlock()
	l.lost.Store(true)
	l.follower.Ended(fromBroker, text)
}

// wait returns when both directions have written their last.
func (l *Link) wait() {
	l.writers.Wait()
	l.Cut()
}

// Role is what the connection has been used for so far.
func (l *Link) Role() ledger.Role {
	if l.follower == nil {
		return 0
	}
	return l.follower.Role()
}

// wake has both directions look at what they hold.
func (l *Link) wake() {
	for _, d := range l.sides {
		select {
		case d.woken <- struct{}{}:
		default:
		}
	}
}

// reset makes the closing of a conn a reset.
func (l *Link) reset(conn net.Conn) {
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
}

// writer is the writing end towards a conn, for toxiproxy, which closes it as its last act.
func (l *Link) writer(to net.Conn) *closer {
	l.writers.Add(1)
	c := &closer{Conn: to, link: l, broker: to == l.broker}
	d := l.sides[0]
	if !c.broker {
		d = l.sides[1]
	}
	d.writer = c
	return c
}

type closer struct {
	net.Conn
	link   *Link
	broker bool // it leads to the broker
	once   sync.Once
	// written is how many bytes have gone out; failed says that no more will.
	written atomic.Int64
	failed  atomic.Bool

	mu      sync.Mutex
	changed chan struct{} // closed when there is news of the direction; nil while nobody waits
}

// Write writes, and counts.
func (c *closer) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	c.written.Add(int64(n))
	if err != nil {
		c.failed.Store(true)
	}
	c.tell()
	return n, err //nolint:wrapcheck // toxiproxy drops it
}

// wroteAll reports whether nothing that its direction has passed on is still to be written, or can be.
func (c *closer) wroteAll(d *direction) bool {
	return c.failed.Load() || c.written.Load() >= atomic.LoadInt64(&d.passed)
}

// tell wakes who waits for the writer's direction.
func (c *closer) tell() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.changed != nil {
		close(c.changed)
		c.changed = nil
	}
}

// news is closed when something has changed.
func (c *closer) news() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.changed == nil {
		c.changed = make(chan struct{})
	}
	return c.changed
}

// flushLimit bounds the wait for what was passed on to be written: a slow link may never get there.
const flushLimit = 2 * time.Second

// flush waits until all that a direction has passed on has been written to its receiver.
func (l *Link) flush(d *direction) {
	l.until(d, func() bool { return d.writer.wroteAll(d) })
}

// settle waits besides until the other direction's tap has passed on what it has in hand.
func (l *Link) settle(d *direction) {
	l.until(d, func() bool { return d.writer.failed.Load() || !d.working.Load() && d.writer.wroteAll(d) })
}

func (l *Link) until(d *direction, holds func() bool) {
	limit := time.NewTimer(flushLimit)
	defer limit.Stop()
	for {
		news := d.writer.news()
		if holds() {
			return
		}
		select {
		case <-news:
		case <-l.closed:
			return
		case <-limit.C:
			return
		}
	}
}

// ReadFrom writes what it reads until its end. When the other side takes no more, it closes the
// link and reads on to the end without writing: toxiproxy would leave the toxics before it waiting
// for ever to be rid of what they have.
func (c *closer) ReadFrom(r io.Reader) (int64, error) {
	// Hidden from io.Copy, so that it does not come back here.
	n, err := io.CopyBuffer(struct{ io.Writer }{c}, r, make([]byte, pieceSize))
	if err == nil {
		return n, nil
	}
	drained := make(chan struct{})
	go func() {
		defer close(drained)
		_, _ = io.Copy(io.Discard, r) // nothing of it counts any more
	}()
	c.link.acting.Lock()
	c.link.ended(c.broker)
	c.link.Cut()
	c.link.acting.Unlock()
	<-drained
	return n, err //nolint:wrapcheck // toxiproxy drops it
}

// Close closes the whole link: AMQP has no half-closed connections. The link is closed first, so that
// nobody takes the end of the other direction for its sender's.
func (c *closer) Close() error {
	c.link.Cut()
	c.once.Do(c.link.writers.Done)
	return nil
}
