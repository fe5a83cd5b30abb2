package toxics

import (
	"errors"
	"net"
	"sync"

	"github.com/parkproof/parkproof/scenarios/ledger"
	"github.com/parkproof/parkproof/toxics/frame"
)

// Observe returns the connection with both directions followed, and nothing between: parkproof's
// own connections go straight to the broker, and stand in the ledger like the consumer's.
func Observe(conn net.Conn, follower *ledger.Follower) net.Conn {
	return &observed{
		Conn: conn, follower: follower,
		fromClient: frame.NewReader(0), fromBroker: frame.NewReader(0),
	}
}

type observed struct {
	net.Conn
	follower   *ledger.Follower
	reading    sync.Mutex
	fromBroker *frame.Reader
	writing    sync.Mutex
	fromClient *frame.Reader
}

// Read follows what it read before it returns it.
func (o *observed) Read(p []byte) (int, error) {
	o.reading.Lock()
	defer o.reading.Unlock()
	n, err := o.Conn.Read(p)
	o.follow(o.fromBroker, true, p[:n])
	var timeout net.Error
	if err != nil && !(errors.As(err, &timeout) && timeout.Timeout()) && !errors.Is(err, net.ErrClosed) {
		o.follower.Ended(true, "the broker closed the connection without a word")
	}
	return n, err
}

// Close follows the end too: the queues that the connection owned go with it.
func (o *observed) Close() error {
	o.follower.Ended(false, "parkproof closed its connection")
	return o.Conn.Close()
}

// Write follows what it writes before it goes out.
func (o *observed) Write(p []byte) (int, error) {
	o.writing.Lock()
	defer o.writing.Unlock()
	o.follow(o.fromClient, false, p)
	return o.Conn.Write(p)
}

func (o *observed) follow(r *frame.Reader, fromBroker bool, p []byte) {
	r.Feed(p)
	for {
		f, ok, err := r.Next()
		if err != nil || !ok {
			return // our own client's library would have failed first
		}
		_, _ = o.follower.Take(fromBroker, f)
	}
}
