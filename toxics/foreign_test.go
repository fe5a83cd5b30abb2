package toxics

import (
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/parkproof/parkproof/toxics/frame"
)

func TestForeign(t *testing.T) {
	for _, c := range []struct{ first, what, advice string }{
		{"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", "a TLS connection", adviceTLS},
		{"\x16\x03", "a TLS connection", adviceTLS},
		{"\x15\x03\x01\x00\x02\x02\x28", "a TLS alert, in answer to plain AMQP", adviceBrokerTLS},
		{"AMQP\x00\x01\x00\x00", "an AMQP 1.0 connection", adviceVersion},
		{"AMQP\x03\x01\x00\x00\x00\x00\x00\x10", "an AMQP 1.0 connection", adviceVersion},
		{"AMQP\x02\x01\x00\x00", "an AMQP 1.0 connection that asks for TLS", adviceTLS},
		{"AMQP\x01\x01\x00\x0a", "an AMQP 0-10 connection", adviceVersion},
		{"AMQP\x01\x01\x08\x00", "an AMQP 0-8 connection", adviceVersion},
		{"AMQP\x00\x00\x08\x00", "an AMQP 0-8 connection", adviceVersion},
		{"AMQP\x00\x00\x09\x02", "an AMQP connection of an unknown version", adviceVersion},
		{"AMQP\xff\xff\xff\xffmore", "an AMQP connection of an unknown version", adviceVersion},
		{"GET / HTTP/1.1\r\n", "an HTTP request", adviceOther},
		{"OPTIONS * HTTP/1.1\r\n", "an HTTP request", adviceOther},
		{"POST http://localhost/login?password=hunter2 HTTP/1.1\r\n", "an HTTP request", adviceOther},
		{"CONNECT localhost:5672 HTTP/1.1\r\n", "an HTTP request", adviceOther},
		{"HTTP/1.1 400 Bad Request\r\n", "an HTTP answer", adviceBrokerWeb},
		{"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "an HTTP/2 connection", adviceOther},
		{"\x10\x10\x00\x04MQTT\x04\x02\x00\x3c\x00\x04me", "an MQTT connection", adviceOther},
		{"\x10\x80\x80\x01\x00\x04MQTT\x05", "an MQTT connection", adviceOther},
		{"\x10\x12\x00\x06MQIsdp\x03", "an MQTT connection", adviceOther},
		{"CONNECT\naccept-version:1.2\npasscode:hunter2\n\n\x00", "a STOMP connection", adviceOther},
		{"STOMP\r\n", "a STOMP connection", adviceOther},
		{"\x00\x00\x00\x20\x00\x11\x00\x01\x00\x00\x00\x01", "a RabbitMQ stream connection", adviceOther},
		{"SSH-2.0-OpenSSH_9.2\r\n", "an SSH connection", adviceOther},
		{"PROXY TCP4 127.0.0.1 127.0.0.1 1 2\r\n", "a PROXY protocol header", adviceOther},
		{"\r\n\r\n\x00\r\nQUIT\n\x21\x11", "a PROXY protocol header", adviceOther},
		// AMQP 0-9-1, and what RabbitMQ takes for it.
		{"AMQP\x00\x00\x09\x01", "", ""},
		{"AMQP\x01\x01\x00\x09", "", ""},
		{"\x01\x00\x00\x00\x00\x01\xf1\x00\x0a\x00\x0a", "", ""},
		{string(frame.AppendHeartbeat(nil)), "", ""},
		// What is too short, and what nobody knows.
		{"", "", ""},
		{"\x16", "", ""},
		{"\x16\x02", "", ""},
		{"AMQP\x00\x01\x00", "", ""},
		{"GET", "", ""},
		{"GET ", "", ""},
		{"GETAWAY /", "", ""},
		{"\x10\x00", "", ""},
		{"\x10" + strings.Repeat("x", 20) + "\x00\x04MQTT", "", ""},
		{"\x00\x00\x00\x00\x00\x00\x00\x00", "", ""},
		{"nonsense", "", ""},
	} {
		what, advice, ok := Foreign([]byte(c.first))
		if what != c.what || advice != c.advice || ok != (c.what != "") {
			t.Errorf("%q: %q, %q, %v; want %q, %q", c.first, what, advice, ok, c.what, c.advice)
		}
	}
}

// However the bytes come, the error of a reader is the one that Foreign has words for, and shows none of them.
func TestExplained(t *testing.T) {
	for _, c := range []struct {
		stream string
		want   string
	}{
		{"\x16\x03\x01\x02\x00\x01", "it is a TLS connection; parkproof's proxy speaks plain AMQP: " +
			"let the consumer connect to PARKPROOF_AMQP_URL as it is given, with amqp:// and without TLS"},
		{"AMQP\x00\x01\x00\x00", "it is an AMQP 1.0 connection; " + adviceVersion},
		{"AMQP\x03\x01\x00\x00\x00\x00\x00\x21\x02\x01\x00\x00", "it is an AMQP 1.0 connection; " + adviceVersion},
		{"CONNECT\npasscode:hunter2\n\n\x00", "it is a STOMP connection; " + adviceOther},
		{"nonsense", `at byte 0: this is not AMQP: the first bytes are "nonsense"`},
		{"AMQP\x00\x00\x09\x01\x16\x03\x01", "at byte 8: unknown frame type 22"},
	} {
		r := frame.NewReader(frame.DefaultMaxFrame)
		r.Feed([]byte(c.stream))
		var err error
		for ok := true; ok && err == nil; {
			_, ok, err = r.Next()
		}
		if err == nil {
			t.Errorf("%q: no error", c.stream)
			continue
		}
		got := explained(r, err)
		if got.Error() != c.want {
			t.Errorf("%q: %v; want %s", c.stream, got, c.want)
		}
		var foreign *ForeignError
		if errors.As(got, &foreign) != strings.HasPrefix(c.want, "it is") {
			t.Errorf("%q: %T", c.stream, got)
		}
		// One byte at a time, TLS and the headers are known just as well.
		r = frame.NewReader(frame.DefaultMaxFrame)
		err = nil
		for i := range len(c.stream) {
			r.Feed([]byte(c.stream[i : i+1]))
			for ok := true; ok && err == nil; {
				_, ok, err = r.Next()
			}
		}
		if got := explained(r, err); c.stream[0] <= 'A' && got.Error() != c.want {
			t.Errorf("%q byte by byte: %v; want %s", c.stream, got, c.want)
		}
	}
}

// The first bytes of real clients: a proxy that listens takes what they send.
func TestForeignOfRealClients(t *testing.T) {
	for name, c := range map[string]struct {
		dial func(addr string)
		want string
	}{
		"TLS": {func(addr string) {
			conn, err := tls.DialWithDialer(&net.Dialer{Timeout: patience}, "tcp", addr, &tls.Config{ServerName: "localhost"}) //nolint:gosec // only its first bytes matter
			if err == nil {
				_ = conn.Close()
			}
		}, "a TLS connection"},
		"HTTP": {func(addr string) {
			client := http.Client{Timeout: patience, Transport: &http.Transport{DisableKeepAlives: true}}
			answer, err := client.Get("http://" + addr) //nolint:noctx // it has a timeout
			if err == nil {
				_ = answer.Body.Close()
			}
		}, "an HTTP request"},
	} {
		l, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // it does not block
		if err != nil {
			t.Fatal(err)
		}
		done := make(chan struct{})
		go func() {
			defer close(done)
			c.dial(l.Addr().String())
		}()
		conn, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		_ = conn.SetDeadline(time.Now().Add(patience))
		first := make([]byte, 64)
		n, err := conn.Read(first)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		_ = conn.Close()
		_ = l.Close()
		<-done
		if what, _, _ := Foreign(first[:n]); what != c.want {
			t.Errorf("%s: %q begins with %q", name, what, first[:n])
		}
	}
}

// The first bytes of a real web server, which a broker's address may lead to by mistake.
func TestForeignOfAWebServer(t *testing.T) {
	web := httptest.NewServer(http.NotFoundHandler())
	defer web.Close()
	conn, err := net.DialTimeout("tcp", web.Listener.Addr().String(), patience)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(patience))
	// It answers when it has a whole request, which the bytes of a session come to look like at some point.
	if _, err := conn.Write(append(frame.AppendProtocolHeader(nil), "\r\n\r\n"...)); err != nil {
		t.Fatal(err)
	}
	first := make([]byte, 64)
	n, err := conn.Read(first)
	if what, _, _ := Foreign(first[:n]); what != "an HTTP answer" {
		t.Errorf("%q, a web server begins with %q, %v", what, first[:n], err)
	}
}
