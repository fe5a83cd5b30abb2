package toxics

import (
	"bytes"
	"slices"

	"github.com/parkproof/parkproof/toxics/frame"
)

// What to do about a connection that is not AMQP 0-9-1. Each is said after what the connection is.
const (
	adviceTLS = "parkproof's proxy speaks plain AMQP: let the consumer connect to PARKPROOF_AMQP_URL as it is given, " +
		"with amqp:// and without TLS"
	adviceVersion = "parkproof's proxy speaks AMQP 0-9-1: let the consumer use a client library for AMQP 0-9-1"
	adviceOther   = "parkproof's proxy speaks AMQP 0-9-1: let the consumer connect to PARKPROOF_AMQP_URL with a client " +
		"library for AMQP 0-9-1, and with all else to its own address"
	adviceBrokerTLS = "the broker's port speaks TLS: give parkproof the address of its plain AMQP port, which is mostly 5672"
	adviceBrokerWeb = "the broker's address leads to a web server: give parkproof its AMQP port, which is mostly 5672, " +
		"and not that of the management API"
)

// ForeignError is a connection that speaks something other than AMQP 0-9-1.
type ForeignError struct {
	What   string // "a TLS connection"
	Advice string // what to do about it, a sentence without its full stop
}

// Error says what it is, and what to do about it.
func (e *ForeignError) Error() string { return "it is " + e.What + "; " + e.Advice }

// Foreign tells by the first bytes of one direction of a connection what is spoken there instead of AMQP 0-9-1, and
// what to do about it: "a TLS connection". It is not ok for AMQP 0-9-1, for bytes that are too few to tell, and for
// those that no protocol it knows starts with. It shows none of the bytes, since they may hold a credential.
func Foreign(first []byte) (what, advice string, ok bool) {
	for _, p := range protocols {
		if p.starts(first) {
			return p.what, p.advice, true
		}
	}
	return "", "", false
}

// protocol is one that a consumer is set up with by mistake, or a broker's address leads to.
type protocol struct {
	what, advice string
	starts       func(first []byte) bool
}

// protocols are looked through in this order: the first that fits is it. Those that RabbitMQ has ports for are
// among them (its page "Networking").
var protocols = []protocol{
	// A TLS record: its type, and the major version, which is 3 from SSL 3.0 to TLS 1.3 (RFC 8446, 5.1).
	{"a TLS connection", adviceTLS, prefix("\x16\x03")},
	{"a TLS alert, in answer to plain AMQP", adviceBrokerTLS, prefix("\x15\x03")},
	// Protocol headers: AMQP 1.0, 2.2, with its protocol ids for plain, TLS and SASL; AMQP 0-10, 4.3; AMQP 0-8, 4.2.2.
	// What RabbitMQ takes for 0-9-1 is none of them.
	{"an AMQP 1.0 connection that asks for TLS", adviceTLS, prefix("AMQP\x02\x01\x00\x00")},
	{"an AMQP 1.0 connection", adviceVersion, prefix("AMQP\x00\x01\x00\x00", "AMQP\x03\x01\x00\x00")},
	{"an AMQP 0-10 connection", adviceVersion, prefix("AMQP\x01\x01\x00\x0a")},
	{"an AMQP 0-8 connection", adviceVersion, prefix("AMQP\x01\x01\x08\x00", "AMQP\x01\x01\x00\x08", "AMQP\x00\x00\x08\x00")},
	{"an AMQP connection of an unknown version", adviceVersion, func(first []byte) bool {
		const size = 8 // "AMQP" and four octets
		// Only the reader says which versions are 0-9-1.
		return prefix("AMQP")(first) && len(first) >= size && stops(first[:size])
	}},
	{"an HTTP/2 connection", adviceOther, prefix("PRI * HTTP/2")},
	{"an HTTP answer", adviceBrokerWeb, prefix("HTTP/1.", "HTTP/2")},
	{"an HTTP request", adviceOther, request},
	// MQTT 3.1 and later: a CONNECT packet, its length in up to four bytes, and the protocol's name.
	{"an MQTT connection", adviceOther, func(first []byte) bool {
		return prefix("\x10")(first) && (bytes.Contains(head(first), []byte("\x00\x04MQTT")) || bytes.Contains(head(first), []byte("\x00\x06MQIsdp")))
	}},
	{"a STOMP connection", adviceOther, prefix("CONNECT\n", "CONNECT\r\n", "STOMP\n", "STOMP\r\n")},
	// RabbitMQ's stream protocol: the frame's length, and the command peer properties in version 1.
	{"a RabbitMQ stream connection", adviceOther, func(first []byte) bool {
		return prefix("\x00")(first) && len(first) >= 8 && string(first[4:8]) == "\x00\x11\x00\x01"
	}},
	{"an SSH connection", adviceOther, prefix("SSH-")},
	// The PROXY protocol, versions 1 and 2.
	{"a PROXY protocol header", adviceOther, prefix("PROXY ", "\r\n\r\n\x00\r\nQUIT\n")},
}

// prefix fits what begins with one of these.
func prefix(of ...string) func([]byte) bool {
	return func(first []byte) bool {
		return slices.ContainsFunc(of, func(p string) bool { return bytes.HasPrefix(first, []byte(p)) })
	}
}

// head is as much as a name may stand behind: MQTT's is the farthest, after a length of four bytes and its own.
func head(first []byte) []byte { return first[:min(len(first), 16)] }

// request fits an HTTP request: its method, and a path, an address or an asterisk (RFC 9112, 3.2).
func request(first []byte) bool {
	method, target, found := bytes.Cut(first, []byte(" "))
	if !found || len(target) == 0 {
		return false
	}
	switch string(method) {
	case "GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE":
		return target[0] == '/' || target[0] == '*' || bytes.HasPrefix(target, []byte("http"))
	case "CONNECT":
		return target[0] > ' '
	default:
		return false
	}
}

// stops reports whether a reader stops at a protocol header.
func stops(header []byte) bool {
	r := frame.NewReader(frame.MinFrameMax)
	r.Feed(header)
	for {
		if _, ok, err := r.Next(); err != nil || !ok {
			return err != nil
		}
	}
}

// explained is a reader's error in the words of those who set up the consumer, where the stream began with something
// that Foreign knows; other errors it returns as they are.
func explained(r *frame.Reader, err error) error {
	what, advice, ok := Foreign(r.Opening())
	if !ok {
		return err
	}
	return &ForeignError{What: what, Advice: advice}
}
