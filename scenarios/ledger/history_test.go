package ledger

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/parkproof/parkproof/toxics/frame"
)

// history reads a hand-written history, one event a line, and returns its events. Words:
//
//	exchange NAME KIND              queue NAME [exclusive] [auto-delete]     bind EXCHANGE QUEUE [KEY]
//	publish M TO [unconfirmed|refused|returned]        by parkproof, confirmed where nothing is said
//	deliver M QUEUE as D [redelivered] [no-ack] [conn N] [channel N] [by PROCESS]
//	call D [consumer NAME]          ok D, fail D, retry D, park D            the handler's end
//	copy D TO as C [plain] [channel N]                 by the process of D, with confirms unless plain
//	stray PROCESS M TO as C                            a publish that belongs to no delivery
//	arrive C, confirm C, refuse C, return C            the broker's answers
//	ack D..., nack D... (requeued), reject D... (not requeued)
//	drain M QUEUE [key K]           drain ? QUEUE                            a message without an id
//	open, channel N                 a connection, a channel                  [conn N] [by PROCESS]
//	lose [cut]                      without a close; cut: by parkproof       [conn N] [by PROCESS]
//	close channel|connection CODE [client]     by the broker, or the client  [conn N] [channel N] [by PROCESS]
//	subscribe QUEUE [tag T], cancel QUEUE [tag T] [broker]                   [conn N] [channel N] [by PROCESS]
//	delete QUEUE                    fire [M]   a fault, that touches M       silence [broker] [conn N]
//	start, stop, exit [PROCESS]
//
// TO is EXCHANGE/KEY; "/q" is queue q by the default exchange. Deliveries come on connection 1,
// channel 1 of process "p" unless they say otherwise; copies go out on channel 2 of their
// delivery's connection.
func history(t *testing.T, script string) []Event {
	t.Helper()
	h := &historian{named: map[string]int{}, calls: map[string]int{}}
	for i, line := range strings.Split(script, "\n") {
		line, _, _ = strings.Cut(line, "#")
		words := strings.Fields(line)
		if len(words) == 0 {
			continue
		}
		if err := h.read(words); err != nil {
			t.Fatalf("line %d, %q: %v", i+1, strings.TrimSpace(line), err)
		}
	}
	return h.events
}

type historian struct {
	events []Event
	named  map[string]int // Seqs by the script's names
	calls  map[string]int // the handler's n by delivery
}

func (h *historian) add(e Event) int {
	e.Seq = len(h.events) + 1
	h.events = append(h.events, e)
	return e.Seq
}

// options takes "word" and "word value" pairs.
type options map[string]string

func optionsOf(words []string, valued ...string) options {
	o := options{}
	for i := 0; i < len(words); i++ {
		o[words[i]] = ""
		if slices.Contains(valued, words[i]) && i+1 < len(words) {
			o[words[i]] = words[i+1]
			i++
		}
	}
	return o
}

func (o options) has(word string) bool { _, ok := o[word]; return ok }

func (o options) number(word string, otherwise int) int {
	if n, err := strconv.Atoi(o[word]); err == nil {
		return n
	}
	return otherwise
}

func (o options) process() string {
	if o.has("by") {
		return o["by"]
	}
	return "p"
}

func (h *historian) event(name string) (Event, error) {
	seq, ok := h.named[name]
	if !ok {
		return Event{}, fmt.Errorf("nothing is called %q", name)
	}
	return h.events[seq-1], nil
}

func (h *historian) read(words []string) error {
	rest := words[1:]
	if words[0] == "close" {
		rest = words[min(len(words), 3):] // what is closed is no option
	}
	o := optionsOf(rest, "as", "conn", "channel", "by", "key", "consumer", "tag")
	on := Event{Process: o.process(), Conn: o.number("conn", 1), Channel: uint16(o.number("channel", 1))}
	arg := func(i int) string {
		if i < len(words) {
			return words[i]
		}
		return ""
	}
	content := &Content{Size: 7}
	exchange, key, _ := strings.Cut(arg(2), "/")
	switch verb := words[0]; verb {
	case "exchange":
		h.add(Event{Kind: ExchangeDeclared, Exchange: arg(1), Method: &frame.ExchangeDeclare{Exchange: arg(1), Type: arg(2)}})
	case "queue":
		h.add(Event{
			Kind: QueueDeclared, Process: o.process(), Conn: 1, Queue: arg(1),
			Method: &frame.QueueDeclare{Queue: arg(1), Exclusive: o.has("exclusive"), AutoDelete: o.has("auto-delete")},
		})
	case "bind":
		h.add(Event{Kind: QueueBound, Exchange: arg(1), Queue: arg(2), Key: arg(3), Method: &frame.QueueBind{Exchange: arg(1), Queue: arg(2), RoutingKey: arg(3)}})
	case "subscribe", "cancel":
		e := on
		e.Kind, e.Queue, e.Consumer, e.Broker = Consuming, arg(1), arg(1), true
		if verb == "cancel" {
			e.Kind, e.Broker = Cancelled, o.has("broker")
		}
		if o.has("tag") {
			e.Consumer = o["tag"]
		}
		h.add(e)
	case "open":
		h.add(Event{Kind: ConnectionOpened, Process: on.Process, Conn: on.Conn, Broker: true})
	case "channel":
		number, err := strconv.ParseUint(arg(1), 10, 16)
		h.add(Event{Kind: ChannelOpened, Process: on.Process, Conn: on.Conn, Channel: uint16(number), Broker: true})
		return err
	case "delete":
		h.add(Event{Kind: QueueDeleted, Conn: 9, Queue: arg(1), Method: &frame.QueueDelete{Queue: arg(1)}})
	case "fire":
		h.add(Event{Kind: Fired, Process: on.Process, Conn: on.Conn, Message: arg(1), Text: strings.TrimSpace("a fault fires " + arg(1))})
	case "silence":
		h.add(Event{Kind: HeartbeatMissed, Process: on.Process, Conn: on.Conn, Broker: o.has("broker"), Text: "silent for 4s"})
	case "publish":
		seq := h.add(Event{Kind: Published, Conn: 9, Channel: 1, Message: arg(1), Exchange: exchange, Key: key, Confirms: true, Content: content})
		answer := Event{Conn: 9, Channel: 1, Broker: true, Covers: []int{seq}, Kind: Confirmed}
		switch {
		case o.has("unconfirmed"):
			return nil
		case o.has("refused"):
			answer.Kind = Refused
		case o.has("returned"):
			answer.Kind, answer.Message = Returned, arg(1)
		}
		h.add(answer)
	case "deliver":
		h.named[o["as"]] = h.add(Event{
			Kind: Delivered, Process: o.process(), Conn: o.number("conn", 1), Channel: uint16(o.number("channel", 1)), Broker: true, Message: arg(1), Queue: arg(2),
			Redelivered: o.has("redelivered"), NoAck: o.has("no-ack"), Content: content,
		})
	case "call":
		d, err := h.event(arg(1))
		consumer := strings.ToUpper(d.Queue) // the consumer that reads "a" is "A"
		if o.has("consumer") {
			consumer = o["consumer"]
		}
		h.calls[arg(1)] = len(h.calls) + 1
		h.add(Event{Kind: HandlerCalled, Process: d.Process, Consumer: consumer, Message: d.Message, Tag: uint64(len(h.calls))})
		return err
	case "ok", "fail", "retry", "park":
		d, err := h.event(arg(1))
		h.add(Event{Kind: HandlerSettled, Process: d.Process, Message: d.Message, Tag: uint64(h.calls[arg(1)]), Verdict: verb})
		return err
	case "copy":
		d, err := h.event(arg(1))
		h.named[o["as"]] = h.add(Event{
			Kind: Published, Process: d.Process, Conn: d.Conn, Channel: uint16(o.number("channel", 2)), Message: d.Message,
			Exchange: exchange, Key: key, Confirms: !o.has("plain"), Content: content,
		})
		return err
	case "stray":
		exchange, key, _ = strings.Cut(arg(3), "/")
		h.named[o["as"]] = h.add(Event{
			Kind: Published, Process: arg(1), Conn: 1, Channel: 2, Message: arg(2), Exchange: exchange, Key: key, Confirms: true, Content: content,
		})
	case "arrive", "confirm", "refuse", "return":
		c, err := h.event(arg(1))
		kinds := map[string]Kind{"arrive": ConfirmArrived, "confirm": Confirmed, "refuse": Refused, "return": Returned}
		h.add(Event{Kind: kinds[verb], Process: c.Process, Conn: c.Conn, Channel: c.Channel, Broker: true, Message: c.Message, Covers: []int{c.Seq}})
		return err
	case "ack", "nack", "reject":
		e := Event{Kind: Nacked, Requeue: verb == "nack", Multiple: len(words) > 2}
		if verb == "ack" {
			e.Kind = Acked
		}
		for _, name := range words[1:] {
			d, err := h.event(name)
			if err != nil {
				return err
			}
			e.Process, e.Conn, e.Channel = d.Process, d.Conn, d.Channel
			e.Covers = append(e.Covers, d.Seq)
		}
		h.add(e)
	case "drain":
		e := Event{Kind: Drained, Conn: 9, Channel: 2, Message: arg(1), Queue: arg(2), Key: o["key"], Content: content}
		if e.Message == "?" {
			e.Message = ""
		}
		h.add(e)
	case "lose":
		e := Event{Kind: ConnectionLost, Process: on.Process, Conn: on.Conn, Text: "gone"}
		if o.has("cut") {
			e.Text = CutByParkproof
		}
		h.add(e)
	case "close":
		code, err := strconv.ParseUint(arg(2), 10, 16)
		e := on
		e.Kind, e.Broker, e.Code, e.Text = ChannelClosed, !o.has("client"), uint16(code), "BECAUSE"
		if arg(1) == "connection" {
			e.Kind, e.Channel = ConnectionClosed, 0
		}
		h.add(e)
		return err
	case "start", "stop", "exit":
		process := arg(1)
		if process == "" {
			process = "p"
		}
		kinds := map[string]Kind{"start": ProcessStarted, "stop": StopAsked, "exit": ProcessExited}
		h.add(Event{Kind: kinds[verb], Process: process, Text: map[string]string{"exit": "exit status 1"}[verb]})
	case "garbage":
		h.add(Event{Kind: Undecodable, Process: o.process(), Conn: 1, Text: "the client sent what cannot be understood: WHY"})
	default:
		return fmt.Errorf("%q is no word of a history", verb)
	}
	return nil
}

// house is the topology that most histories stand on: consumers A and B on queues a and b, a
// witness w that is only watched, and what the consumers' library declares for them.
const house = `
	exchange orders fanout
	queue a
	queue b
	queue w
	queue parked.a
	queue parked.b
	queue retry.100
	exchange retry.100 fanout
	bind retry.100 retry.100
`

// terms are those of the house.
func terms() Terms {
	return Terms{
		Consumers:   map[string]string{"A": "a", "B": "b"},
		ParkedQueue: func(source string) string { return "parked." + source },
		Kept:        map[string]bool{"w": true},
		Drained:     true,
	}
}
