package reference_test

import (
	"bytes"
	"io"
	"net"
	"net/url"
	"sync"
	"testing"
)

// proxy stands between a client and its broker. It knows the client's connections by the role in their
// names, and can cut each, or hold its bytes back, in each direction.
type proxy struct {
	t        *testing.T
	listener net.Listener
	target   string

	mu      sync.Mutex
	changed *sync.Cond
	pipes   map[*pipe]struct{}
	refuse  bool
	held    map[string]bool // by role, and direction
	muted   bool            // what the broker says once a connection is open is swallowed
	work    sync.WaitGroup
	closed  bool
}

// pipe is one connection through the proxy.
type pipe struct {
	client, server net.Conn
	role           string
	dead           bool
	open           bool // the client has been told so, with the handshake's last frame
}

// openOK begins the payload of connection.open-ok: class 10, method 41.
var openOK = []byte{0, 10, 0, 41}

const (
	toBroker = " to broker"
	toClient = " to client"
)

func newProxy(t *testing.T, target string) *proxy {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	p := &proxy{t: t, listener: listener, target: target, pipes: map[*pipe]struct{}{}, held: map[string]bool{}}
	p.changed = sync.NewCond(&p.mu)
	p.work.Go(p.accept)
	t.Cleanup(func() {
		_ = listener.Close()
		p.mu.Lock()
		p.closed = true
		p.mu.Unlock()
		p.cut("")
		p.work.Wait()
	})
	return p
}

// through returns the URL with the proxy in the broker's place.
func (p *proxy) through(raw string) string {
	u, err := url.Parse(raw)
	must(p.t, err)
	u.Host = p.listener.Addr().String()
	return u.String()
}

func (p *proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.mu.Lock()
		refuse := p.refuse
		p.mu.Unlock()
		if refuse {
			_ = client.Close()
			continue
		}
		server, err := net.Dial("tcp", p.target)
		if err != nil {
			_ = client.Close()
			continue
		}
		c := &pipe{client: client, server: server}
		p.mu.Lock()
		p.pipes[c] = struct{}{}
		closed := p.closed
		p.mu.Unlock()
		if closed {
			p.end(c)
			continue
		}
		p.work.Go(func() { p.pump(c, client, server, toBroker) })
		p.work.Go(func() { p.pump(c, server, client, toClient) })
	}
}

func (p *proxy) pump(c *pipe, from io.Reader, to io.Writer, direction string) {
	defer p.end(c)
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		if err != nil {
			return
		}
		p.mu.Lock()
		if direction == toBroker && c.role == "" {
			for _, role := range []string{"consume", "publish"} {
				if bytes.Contains(buffer[:n], []byte("("+role+")")) {
					c.role = role
				}
			}
		}
		for p.held[c.role+direction] && !c.dead {
			p.changed.Wait()
		}
		dead, swallowed := c.dead, false
		if direction == toClient {
			swallowed = p.muted && c.open
			c.open = c.open || bytes.Contains(buffer[:n], openOK)
		}
		p.mu.Unlock()
		if dead {
			return
		}
		if swallowed {
			continue
		}
		if _, err := to.Write(buffer[:n]); err != nil {
			return
		}
	}
}

func (p *proxy) end(c *pipe) {
	p.mu.Lock()
	defer p.mu.Unlock()
	c.dead = true
	_ = c.client.Close()
	_ = c.server.Close()
	delete(p.pipes, c)
	p.changed.Broadcast()
}

// cut cuts the connections of a role, or all.
func (p *proxy) cut(role string) {
	p.mu.Lock()
	var cutting []*pipe
	for c := range p.pipes {
		if role == "" || c.role == role {
			cutting = append(cutting, c)
		}
	}
	p.mu.Unlock()
	for _, c := range cutting {
		p.end(c)
	}
}

// hold holds back what a role's connections send in that direction, or lets it go.
func (p *proxy) hold(role, direction string, held bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.held[role+direction] = held
	p.changed.Broadcast()
}

// mute swallows what the broker says on connections once they are open, or lets it pass again.
func (p *proxy) mute(muted bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.muted = muted
}

func (p *proxy) refuseAll(refuse bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refuse = refuse
}
