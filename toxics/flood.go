package toxics

import (
	"fmt"
	"unsafe"

	"github.com/parkproof/parkproof/scenarios/ledger"
	"github.com/parkproof/parkproof/toxics/frame"
)

// A ledger keeps all that a connection does until its case is over, so a consumer that goes round in a circle at the
// speed of its wire would take the memory of the machine. One that comes to these is cut off.
const (
	// keptOfLink bounds what the ledger keeps of one connection, in bytes of memory: 512 MiB. The largest case writes
	// some 20,000 events in all, which with their messages are less than a tenth of that.
	keptOfLink = 512 << 20
	// undecodableOfLink bounds how many times one connection may send what cannot be understood. RabbitMQ closes a
	// connection at the first, and some of that kind may be on their way until its close has arrived.
	undecodableOfLink = 100
)

// bounded writes to the ledger for a link, which it cuts when that has become too much. The follower calls it for one
// event at a time.
func (l *Link) bounded(add func(ledger.Event) int) func(ledger.Event) int {
	return l.boundedBy(add, keptOfLink, undecodableOfLink)
}

func (l *Link) boundedBy(add func(ledger.Event) int, mostKept, mostUndecodable int) func(ledger.Event) int {
	kept, undecodable, over := 0, 0, false
	return func(e ledger.Event) int {
		if over {
			// What was on its way is written down too: the events have to fit each other.
			return add(e)
		}
		seq := add(e)
		kept += weight(&e)
		if e.Kind == ledger.Undecodable {
			undecodable++
		}
		var text string
		switch {
		case undecodable >= mostUndecodable:
			text = fmt.Sprintf("this connection has sent what cannot be understood %d times, and its other end does not close it: "+
				"parkproof cut the connection", undecodable)
		case kept > mostKept:
			text = fmt.Sprintf("this connection does more than a case can keep a record of (%d MiB): parkproof cut the connection", mostKept>>20)
		default:
			return seq
		}
		over = true
		add(ledger.Event{Kind: ledger.Undecodable, Process: e.Process, Conn: e.Conn, Channel: e.Channel, Broker: e.Broker, Text: text})
		l.Cut()
		return seq
	}
}

// weight is about how much memory an event takes, in bytes.
func weight(e *ledger.Event) int {
	n := int(unsafe.Sizeof(*e)) + len(e.Text) + 8*len(e.Covers)
	if e.Content != nil {
		n += int(unsafe.Sizeof(*e.Content)) + len(e.Content.Body) + tableWeight(e.Content.Properties.Headers)
	}
	switch m := e.Method.(type) {
	case *frame.QueueDeclare:
		n += tableWeight(m.Arguments)
	case *frame.QueueBind:
		n += tableWeight(m.Arguments)
	case *frame.QueueUnbind:
		n += tableWeight(m.Arguments)
	case *frame.ExchangeDeclare:
		n += tableWeight(m.Arguments)
	case *frame.ExchangeBind:
		n += tableWeight(m.Arguments)
	case *frame.ExchangeUnbind:
		n += tableWeight(m.Arguments)
	case *frame.BasicConsume:
		n += tableWeight(m.Arguments)
	}
	return n
}

func tableWeight(t frame.Table) int {
	n := 0
	for i := range t {
		n += int(unsafe.Sizeof(t[i])) + len(t[i].Key) + valueWeight(t[i].Value)
	}
	return n
}

func valueWeight(v any) int {
	// An integer, a float or a time is a word of its own, a string, an array or a table one of three at most.
	const word, header = 8, 24
	switch v := v.(type) {
	case string:
		return header + len(v)
	case frame.Bytes:
		return header + len(v)
	case frame.Array:
		n := header + len(v)*int(unsafe.Sizeof(v[0]))
		for _, element := range v {
			n += valueWeight(element)
		}
		return n
	case frame.Table:
		return header + tableWeight(v)
	default:
		return word
	}
}
