// Package toxics sees and breaks the traffic between a consumer and its broker, on toxiproxy: one
// proxy a connection, so that a fault can be aimed at one of them. One kind of toxic a file.
package toxics

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	toxiproxy "github.com/Shopify/toxiproxy/v2"
	"github.com/Shopify/toxiproxy/v2/stream"
	"github.com/rs/zerolog"

	"github.com/parkproof/parkproof/scenarios/ledger"
)

// dialTimeout bounds the connection to the broker: it is on this machine or near it.
const dialTimeout = 5 * time.Second

// acceptPause is how long the wire leaves off after a connection could not be accepted: short
// against a client's own timeout, long against a loop that keeps a core busy.
const acceptPause = 20 * time.Millisecond

// toxiproxy's bandwidth (2.5.0) writes to the logger of the whole process, whatever its server was given.
func init() { zerolog.SetGlobalLevel(zerolog.Disabled) }

// Options say what a Wire leads to and where it writes what it sees.
type Options struct {
	// Upstream is the broker's host:port.
	Upstream string
	// Host is the address to listen on; 127.0.0.1 where empty.
	Host string
	// Process names the consumer's process whose connections these are.
	Process string
	// Ledger takes the events; without one, the connections carry no tap.
	Ledger *ledger.Ledger
	// Identify tells which message a content is.
	Identify func(*ledger.Content) string
	// ConfirmDelay is how much later than they arrive the confirms of known messages are passed on.
	ConfirmDelay time.Duration
	// Number gives each connection its number, unique in the scenario.
	Number func() int
	// Faults are in force on the connections; they may be those of another Wire too, for a process that
	// is started again. Without a Ledger there are none.
	Faults *Faults
}

// Wire is where a consumer's process connects to. It listens on a port of its own.
type Wire struct {
	options  Options
	listener net.Listener
	server   *toxiproxy.ApiServer
	open     sync.WaitGroup
	// closing ends when Close is called.
	closing context.Context
	close   context.CancelFunc

	mu     sync.Mutex
	links  map[*Link]struct{}
	closed bool
}

// Listen opens a wire to the broker.
func Listen(ctx context.Context, o Options) (*Wire, error) {
	if o.Host == "" {
		o.Host = "127.0.0.1"
	}
	if o.Identify == nil {
		o.Identify = func(*ledger.Content) string { return "" }
	}
	if o.Ledger == nil {
		o.Faults = nil
	}
	if o.Number == nil {
		numbers := counter()
		o.Number = numbers
	}
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", net.JoinHostPort(o.Host, "0"))
	if err != nil {
		return nil, fmt.Errorf("opening the consumer's way to the broker: %w", err)
	}
	w := &Wire{
		options: o, listener: l, links: map[*Link]struct{}{},
		server: toxiproxy.NewServer(toxiproxy.NewMetricsContainer(nil), zerolog.Nop()),
	}
	w.closing, w.close = context.WithCancel(context.WithoutCancel(ctx))
	w.open.Go(w.accept)
	return w, nil
}

func counter() func() int {
	var mu sync.Mutex
	n := 0
	return func() int {
		mu.Lock()
		defer mu.Unlock()
		n++
		return n
	}
}

// Addr is the host:port that the consumer connects to.
func (w *Wire) Addr() string { return w.listener.Addr().String() }

// Links returns the connections that are open.
func (w *Wire) Links() []*Link {
	w.mu.Lock()
	defer w.mu.Unlock()
	links := make([]*Link, 0, len(w.links))
	for l := range w.links {
		links = append(links, l)
	}
	return links
}

// Close closes all connections, and returns when nothing of them is left.
func (w *Wire) Close() error {
	w.mu.Lock()
	already := w.closed
	w.closed = true
	w.mu.Unlock()
	if already {
		w.open.Wait()
		return nil
	}
	w.close()
	err := w.listener.Close()
	for _, l := range w.Links() {
		// A process that was stopped at a command had sent it: it is passed on before.
		l.acting.Lock()
		l.Cut()
		l.acting.Unlock()
	}
	w.open.Wait()
	if err != nil && !errors.Is(err, net.ErrClosed) {
		return fmt.Errorf("closing the consumer's way to the broker: %w", err)
	}
	return nil
}

func (w *Wire) accept() {
	for {
		client, err := w.listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			// Too many open files, mostly: it may pass.
			select {
			case <-w.closing.Done():
				return
			case <-time.After(acceptPause):
				continue
			}
		}
		w.open.Go(func() { w.join(client) })
	}
}

// join connects one client's connection to the broker and returns when both are closed.
func (w *Wire) join(client net.Conn) {
	number := w.options.Number()
	if w.options.Faults.refuse() {
		_ = client.Close()
		return
	}
	ctx, cancel := context.WithTimeout(w.closing, dialTimeout)
	defer cancel()
	broker, err := new(net.Dialer).DialContext(ctx, "tcp", w.options.Upstream)
	if err != nil {
		// The client sees what it would see without us: a connection that ends at once.
		_ = client.Close()
		if w.options.Ledger != nil {
			w.options.Ledger.Add(ledger.Event{
				Kind: ledger.ConnectionLost, Process: w.options.Process, Conn: number, Broker: true,
				Text: fmt.Sprintf("the broker does not answer: %v", err),
			})
		}
		return
	}
	l := newLink(w.options, number, client, broker)
	// The link is complete before anybody can aim a fault at it, and the taps are its first toxics.
	name := fmt.Sprintf("%s-%d", w.options.Process, number)
	l.proxy = toxiproxy.NewProxy(w.server, name, w.listener.Addr().String(), w.options.Upstream)
	if w.options.Ledger != nil {
		if err := tap(l.proxy, l); err != nil {
			panic(err) // a toxic that this package registered itself
		}
		defer forget(l)
	}
	if l.faults != nil {
		l.faults.join(l)
		defer l.faults.leave(l)
	}
	w.mu.Lock()
	if w.closed {
		w.mu.Unlock()
		l.Cut()
		return
	}
	w.links[l] = struct{}{}
	w.mu.Unlock()
	defer func() {
		w.mu.Lock()
		delete(w.links, l)
		w.mu.Unlock()
	}()

	toBroker, toClient := l.writer(broker), l.writer(client)
	if l.faults != nil {
		l.faults.begin(l)
	}
	l.proxy.Toxics.StartLink(w.server, name+"-up", client, toBroker, stream.Upstream)
	l.proxy.Toxics.StartLink(w.server, name+"-down", broker, toClient, stream.Downstream)
	l.wait()
}
