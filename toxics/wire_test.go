package toxics

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/parkproof/parkproof/scenarios/ledger"
	"github.com/parkproof/parkproof/toxics/frame"
)

// leaves nothing behind: no goroutine that was not there before the test.
func leakFree(t *testing.T) {
	t.Helper()
	before := goleak.IgnoreCurrent()
	t.Cleanup(func() { goleak.VerifyNone(t, before) })
}

func TestTheClientClosesAbruptly(t *testing.T) {
	leakFree(t)
	r := newRig(t)
	client, broker := r.connect()
	client.send(frame.AppendProtocolHeader(nil))
	client.send(content(t, 1, &frame.BasicPublish{RoutingKey: "q"}, "m1", []byte("its last words")))
	if err := client.Close(); err != nil {
		t.Fatal(err)
	}
	broker.hears(&frame.BasicPublish{RoutingKey: "q"})
	broker.ends()
	e := r.awaitKind(ledger.ConnectionLost)
	if e.Broker || e.Conn != 1 || e.Process != "p" || !strings.Contains(e.Text, "the consumer closed the connection") {
		t.Errorf("%+v", e)
	}
	eventually(t, "no link left", func() bool { return len(r.Links()) == 0 })
}

func TestTheBrokerClosesAbruptly(t *testing.T) {
	leakFree(t)
	r := newRig(t)
	client, broker := r.connect()
	broker.send(content(t, 1, &frame.BasicDeliver{DeliveryTag: 1}, "m1", []byte("its last words")))
	if err := broker.Close(); err != nil {
		t.Fatal(err)
	}
	client.hears(&frame.BasicDeliver{DeliveryTag: 1})
	client.ends()
	e := r.awaitKind(ledger.ConnectionLost)
	if !e.Broker || !strings.Contains(e.Text, "the broker closed the connection") {
		t.Errorf("%+v", e)
	}
	eventually(t, "no link left", func() bool { return len(r.Links()) == 0 })
}

// A reset, as by a process that was killed with bytes unread, ends the link as well.
func TestTheClientResets(t *testing.T) {
	leakFree(t)
	r := newRig(t)
	client, broker := r.connect()
	broker.say(1, &frame.ChannelOpenOk{}) // never read
	r.awaitKind(ledger.ChannelOpened)
	if err := client.Conn.(*net.TCPConn).SetLinger(0); err != nil {
		t.Fatal(err)
	}
	if err := client.Close(); err != nil {
		t.Fatal(err)
	}
	broker.ends()
	r.awaitKind(ledger.ConnectionLost)
	eventually(t, "no link left", func() bool { return len(r.Links()) == 0 })
}

func TestAnOrderlyCloseIsNoLoss(t *testing.T) {
	leakFree(t)
	r := newRig(t)
	client, broker := r.connect()
	client.say(0, &frame.ConnectionClose{ReplyCode: 200, ReplyText: "bye"})
	broker.hears(&frame.ConnectionClose{ReplyCode: 200, ReplyText: "bye"})
	broker.say(0, &frame.ConnectionCloseOk{})
	client.hears(&frame.ConnectionCloseOk{})
	_ = client.Close()
	broker.ends()
	eventually(t, "no link left", func() bool { return len(r.Links()) == 0 })
	if got := fmt.Sprint(r.kinds()); got != "[connection-closed]" {
		t.Error(got)
	}
}

func TestCutClosesBothSides(t *testing.T) {
	leakFree(t)
	r := newRig(t)
	client, broker := r.connect()
	link := r.link()
	if link.Number != 1 {
		t.Errorf("number %d", link.Number)
	}
	link.Cut()
	link.Cut()
	client.ends()
	broker.ends()
	if e := r.awaitKind(ledger.ConnectionLost); !strings.Contains(e.Text, "parkproof cut the connection") {
		t.Errorf("%+v", e)
	}
	eventually(t, "no link left", func() bool { return len(r.Links()) == 0 })
}

func TestCloseEndsAll(t *testing.T) {
	leakFree(t)
	r := newRig(t)
	one, oneBroker := r.connect()
	two, twoBroker := r.connect()
	within(t, patience, "Close", func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
	for _, p := range []*peer{one, oneBroker, two, twoBroker} {
		p.ends()
	}
	if n := len(r.Links()); n != 0 {
		t.Errorf("%d links are left", n)
	}
	if c, err := net.DialTimeout("tcp", r.Addr(), patience); err == nil {
		_ = c.Close()
		t.Error("it still listens")
	}
	if err := r.Close(); err != nil {
		t.Errorf("closed again: %v", err)
	}
}

// stall writes until nothing is taken any more.
func stall(t *testing.T, p *peer, raw []byte) {
	t.Helper()
	for {
		if err := p.SetWriteDeadline(time.Now().Add(200 * time.Millisecond)); err != nil {
			t.Fatal(err)
		}
		if _, err := p.Write(raw); err != nil {
			return
		}
	}
}

func TestCloseWithAStalledReader(t *testing.T) {
	for _, c := range []struct {
		name   string
		option func(*Options)
		toxic  string
	}{
		{"tapped", func(*Options) {}, ""},
		{"without a ledger", withoutLedger, ""},
		{"behind a latency", func(*Options) {}, `{"type":"latency","attributes":{"latency":1}}`},
		{"behind a latency, without a ledger", withoutLedger, `{"type":"latency","attributes":{"latency":1}}`},
	} {
		for _, broker := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, the broker writes: %v", c.name, broker), func(t *testing.T) {
				leakFree(t)
				r := newRig(t, c.option)
				from, other := r.connect()
				if broker {
					from, other = other, from
				}
				if c.toxic != "" {
					for _, stream := range []string{"upstream", "downstream"} {
						toxic := strings.Replace(c.toxic, "{", fmt.Sprintf(`{"name":%q,"stream":%q,`, "slow "+stream, stream), 1)
						if _, err := r.link().proxy.Toxics.AddToxicJson(strings.NewReader(toxic)); err != nil {
							t.Fatal(err)
						}
					}
				}
				stall(t, from, content(t, 1, &frame.BasicPublish{}, "m1", make([]byte, 100_000)))
				_ = other // it never reads
				within(t, patience, "Close", func() {
					if err := r.Close(); err != nil {
						t.Error(err)
					}
				})
			})
		}
	}
}

func TestWhatIsNoAMQPIsNamed(t *testing.T) {
	for _, c := range []struct {
		name string
		say  func(net.Conn)
		want string
	}{
		{"TLS", func(c net.Conn) {
			_ = tls.Client(c, &tls.Config{ServerName: "localhost"}).Handshake() //nolint:noctx,gosec // only its first bytes matter
		}, "a TLS connection"},
		{"HTTP", func(c net.Conn) { _, _ = io.WriteString(c, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n") }, "HTTP"},
		{"AMQP 1.0", func(c net.Conn) {
			_, _ = io.WriteString(c, "AMQP\x00\x01\x00\x00"+"\x00\x00\x00\x10\x02\x00\x00\x00\x00\x53\x10\xd0\x00\x00\x00\x00")
		}, "AMQP 1.0"},
	} {
		t.Run(c.name, func(t *testing.T) {
			leakFree(t)
			r := newRig(t)
			client, broker := r.connect()
			c.say(client.Conn)
			e := r.awaitKind(ledger.Foreign)
			if e.Broker || !strings.Contains(e.Text, c.want) {
				t.Errorf("%q does not say %q", e.Text, c.want)
			}
			client.ends()
			broker.ends()
		})
	}
}

func TestTheBrokerSpeaksTLS(t *testing.T) {
	r := newRig(t)
	client, broker := r.connect()
	client.send(frame.AppendProtocolHeader(nil))
	broker.send([]byte("\x15\x03\x01\x00\x02\x02\x46"))
	if e := r.awaitKind(ledger.Undecodable); !e.Broker || !strings.Contains(e.Text, "the broker sent what cannot be understood") {
		t.Errorf("%+v", e)
	}
	client.ends()
}

func TestTheBrokerIsDown(t *testing.T) {
	leakFree(t)
	r := newRig(t)
	if err := r.broker.Close(); err != nil {
		t.Fatal(err)
	}
	p := &peer{TB: t, Conn: r.dial()}
	p.ends()
	e := r.awaitKind(ledger.ConnectionLost)
	if !e.Broker || !strings.Contains(e.Text, "the broker does not answer") {
		t.Errorf("%+v", e)
	}
	// Without a ledger, the client sees the same.
	r = newRig(t, withoutLedger)
	if err := r.broker.Close(); err != nil {
		t.Fatal(err)
	}
	(&peer{TB: t, Conn: r.dial()}).ends()
}

func TestManyLinks(t *testing.T) {
	leakFree(t)
	const n = 200
	r := newRig(t)
	var serving sync.WaitGroup
	serving.Go(func() {
		for range n {
			b, err := r.broker.Accept()
			if err != nil {
				t.Error(err)
				return
			}
			serving.Go(func() { // it echoes until the client is gone
				defer func() { _ = b.Close() }()
				_, _ = io.Copy(b, b)
			})
		}
	})
	var clients sync.WaitGroup
	for i := range n {
		clients.Go(func() {
			c, err := net.DialTimeout("tcp", r.Addr(), patience)
			if err != nil {
				t.Error(err)
				return
			}
			defer func() { _ = c.Close() }()
			_ = c.SetDeadline(time.Now().Add(patience))
			sent := content(t, uint16(i), &frame.BasicPublish{RoutingKey: "q"}, fmt.Sprint("m", i), bytes.Repeat([]byte("x"), 10*i))
			got := make([]byte, len(sent))
			if _, err := c.Write(sent); err != nil {
				t.Error(err)
			}
			if _, err := io.ReadFull(c, got); err != nil || !bytes.Equal(got, sent) {
				t.Errorf("link %d: %v", i, err)
			}
		})
	}
	clients.Wait()
	serving.Wait()
	eventually(t, "no link left", func() bool { return len(r.Links()) == 0 })
	seen := map[int]string{}
	for _, e := range r.ledger.Events() {
		if e.Kind == ledger.Published && !e.Broker {
			seen[e.Conn] = e.Message
		}
	}
	if len(seen) != n {
		t.Errorf("%d connections have published", len(seen))
	}
}

// Connections that come and go while the wire closes.
func TestCloseWhileConnecting(t *testing.T) {
	leakFree(t)
	for range 20 {
		r := newRig(t)
		var dialling sync.WaitGroup
		for range 8 {
			dialling.Go(func() {
				c, err := net.DialTimeout("tcp", r.Addr(), patience)
				if err == nil {
					_ = c.Close()
				}
			})
		}
		within(t, patience, "Close", func() { _ = r.Close() })
		dialling.Wait()
		_ = r.broker.Close()
	}
}

func TestLinksAreNumberedByTheScenario(t *testing.T) {
	number := 40
	r := newRig(t, func(o *Options) {
		o.Number = func() int { number++; return number }
	})
	client, broker := r.connect()
	client.say(1, &frame.ChannelOpen{})
	broker.say(1, &frame.ChannelOpenOk{})
	if e := r.awaitKind(ledger.ChannelOpened); e.Conn != 41 || r.link().Number != 41 {
		t.Errorf("%+v", e)
	}
}

func TestObserve(t *testing.T) {
	leakFree(t)
	l, err := net.ListenTCP("tcp4", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	open := func() (*ledger.Ledger, *peer, *peer) {
		book := ledger.New()
		c, err := net.DialTimeout("tcp", l.Addr().String(), patience)
		if err != nil {
			t.Fatal(err)
		}
		b, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _, _ = c.Close(), b.Close() })
		for _, conn := range []net.Conn{c, b} {
			if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
				t.Fatal(err)
			}
		}
		follower := &ledger.Follower{Conn: 7, Add: book.Add, Identify: func(c *ledger.Content) string { return c.Properties.MessageID }}
		return book, &peer{TB: t, Conn: Observe(c, follower), reader: frame.NewReader(0)}, &peer{TB: t, Conn: b, reader: frame.NewReader(0)}
	}
	told := func(book *ledger.Ledger) string {
		var words []string
		for _, e := range book.Events() {
			words = append(words, strings.TrimSpace(fmt.Sprintf("%s %s%v", e.Kind, e.Message, e.Covers)))
		}
		return strings.Join(words, ", ")
	}

	book, own, broker := open()
	confirming(own, broker, 1)
	publish(own, broker, 1, "m1")
	broker.say(1, &frame.BasicAck{DeliveryTag: 1})
	own.hears(&frame.BasicAck{DeliveryTag: 1})
	own.silent(5 * time.Millisecond) // a timeout is no end
	if err := own.Close(); err != nil {
		t.Error(err)
	}
	if got, want := told(book), "asked [], channel-opened [], confirm-mode [], published m1[], confirmed [4], connection-lost []"; got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
	if e := book.Events()[5]; e.Broker || e.Process != "" || e.Text != "parkproof closed its connection" {
		t.Errorf("%+v", e)
	}

	book, own, broker = open()
	_ = broker.Close()
	own.ends()
	if got := told(book); got != "connection-lost []" || !book.Events()[0].Broker {
		t.Errorf("%s", got)
	}
}
