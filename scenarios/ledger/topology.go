package ledger

import (
	"slices"
	"strings"

	"github.com/parkproof/parkproof/toxics/frame"
)

// Topology is the exchanges, queues and bindings of a virtual host, as the declarations in the
// ledger made them. It says where a message goes that is published now.
type Topology struct {
	Exchanges map[string]Exchange
	Queues    map[string]Queue
	Bindings  []Binding

	// consumers are the queues by who consumes from them: an auto-delete queue goes with its last.
	consumers map[subscriber]string
}

// subscriber is one basic.consume.
type subscriber struct {
	process string
	conn    int
	channel uint16
	tag     string
}

// Exchange is a declared exchange.
type Exchange struct {
	Kind       string
	AutoDelete bool
	Args       frame.Table
}

// Queue is a declared queue.
type Queue struct {
	Durable, Exclusive, AutoDelete bool
	Args                           frame.Table
	// Process and Conn own an exclusive queue.
	Process string
	Conn    int
}

// Binding leads from an exchange to a queue or, where ToExchange is set, to another exchange.
type Binding struct {
	From, To   string
	ToExchange bool
	Key        string
	Args       frame.Table
}

// NewTopology returns a virtual host's topology as the broker makes it.
func NewTopology() *Topology {
	return &Topology{
		Exchanges: map[string]Exchange{
			"":            {Kind: "direct"},
			"amq.direct":  {Kind: "direct"},
			"amq.fanout":  {Kind: "fanout"},
			"amq.topic":   {Kind: "topic"},
			"amq.headers": {Kind: "headers"},
			"amq.match":   {Kind: "headers"},
		},
		Queues:    map[string]Queue{},
		consumers: map[subscriber]string{},
	}
}

// TopologyOf returns the topology after the events.
func TopologyOf(events []Event) *Topology {
	t := NewTopology()
	for _, e := range events {
		t.Apply(e)
	}
	return t
}

// Apply changes the topology as the event did; events of other kinds change nothing. It returns
// the queues that went by themselves: exclusive ones with their connection, auto-delete ones with
// their last consumer.
func (t *Topology) Apply(e Event) (gone []string) {
	switch e.Kind {
	case ExchangeDeclared:
		m, ok := e.Method.(*frame.ExchangeDeclare)
		if ok && !m.Passive {
			if _, exists := t.Exchanges[m.Exchange]; !exists {
				t.Exchanges[m.Exchange] = Exchange{Kind: m.Type, AutoDelete: m.AutoDelete, Args: m.Arguments}
			}
		}
	case ExchangeDeleted:
		t.removeExchange(e.Exchange)
	case QueueDeclared:
		m, ok := e.Method.(*frame.QueueDeclare)
		// A name that the broker made and told nobody cannot be followed.
		if ok && !m.Passive && e.Queue != "" {
			if _, exists := t.Queues[e.Queue]; !exists {
				t.Queues[e.Queue] = Queue{
					Durable: m.Durable, Exclusive: m.Exclusive, AutoDelete: m.AutoDelete,
					Args: m.Arguments, Process: e.Process, Conn: e.Conn,
				}
			}
		}
	case QueueDeleted:
		t.remove(e.Queue)
	case QueueBound:
		if m, ok := e.Method.(*frame.QueueBind); ok {
			t.bind(Binding{From: m.Exchange, To: e.Queue, Key: e.Key, Args: m.Arguments})
		}
	case QueueUnbound:
		if m, ok := e.Method.(*frame.QueueUnbind); ok {
			t.unbind(func(b Binding) bool {
				return !b.ToExchange && b.From == m.Exchange && b.To == e.Queue && b.Key == e.Key && tablesEqual(b.Args, m.Arguments)
			})
		}
	case ExchangeBound:
		if m, ok := e.Method.(*frame.ExchangeBind); ok {
			t.bind(Binding{From: m.Source, To: m.Destination, ToExchange: true, Key: m.RoutingKey, Args: m.Arguments})
		}
	case ExchangeUnbound:
		if m, ok := e.Method.(*frame.ExchangeUnbind); ok {
			t.unbind(func(b Binding) bool {
				return b.ToExchange && b.From == m.Source && b.To == m.Destination && b.Key == m.RoutingKey && tablesEqual(b.Args, m.Arguments)
			})
		}
	case Consuming:
		t.consumers[subscriber{e.Process, e.Conn, e.Channel, e.Consumer}] = e.Queue
	case Cancelled:
		return t.leave(func(s subscriber) bool {
			return s == subscriber{e.Process, e.Conn, e.Channel, e.Consumer}
		})
	case ChannelClosed:
		return t.leave(func(s subscriber) bool {
			return s.process == e.Process && s.conn == e.Conn && s.channel == e.Channel
		})
	case ConnectionClosed, ConnectionLost:
		for name, q := range t.Queues {
			if q.Exclusive && q.Process == e.Process && q.Conn == e.Conn {
				gone = append(gone, name)
			}
		}
		for _, name := range gone {
			t.remove(name)
		}
		gone = append(gone, t.leave(func(s subscriber) bool { return s.process == e.Process && s.conn == e.Conn })...)
		slices.Sort(gone)
	}
	return gone
}

// leave ends the subscriptions, and removes the auto-delete queues that lost their last one.
func (t *Topology) leave(which func(subscriber) bool) (gone []string) {
	left := map[string]bool{}
	for s, queue := range t.consumers {
		if which(s) {
			delete(t.consumers, s)
			left[queue] = true
		}
	}
	for _, queue := range t.consumers {
		delete(left, queue)
	}
	for queue := range left {
		if q, ok := t.Queues[queue]; ok && q.AutoDelete {
			t.remove(queue)
			gone = append(gone, queue)
		}
	}
	slices.Sort(gone)
	return gone
}

func (t *Topology) remove(queue string) {
	delete(t.Queues, queue)
	for s, q := range t.consumers {
		if q == queue {
			delete(t.consumers, s)
		}
	}
	t.unbind(func(b Binding) bool { return !b.ToExchange && b.To == queue })
}

func (t *Topology) removeExchange(name string) {
	delete(t.Exchanges, name)
	t.unbind(func(b Binding) bool { return b.From == name || b.ToExchange && b.To == name })
}

func (t *Topology) bind(b Binding) {
	same := func(o Binding) bool {
		return o.From == b.From && o.To == b.To && o.ToExchange == b.ToExchange && o.Key == b.Key && tablesEqual(o.Args, b.Args)
	}
	if !slices.ContainsFunc(t.Bindings, same) {
		t.Bindings = append(t.Bindings, b)
	}
}

// unbind removes bindings, and the auto-delete exchanges from which no binding leads any more.
func (t *Topology) unbind(which func(Binding) bool) {
	bare := map[string]bool{}
	t.Bindings = slices.DeleteFunc(t.Bindings, func(b Binding) bool {
		hit := which(b)
		if hit {
			bare[b.From] = true
		}
		return hit
	})
	for _, b := range t.Bindings {
		delete(bare, b.From)
	}
	for name := range bare {
		if t.Exchanges[name].AutoDelete {
			t.removeExchange(name)
		}
	}
}

// Route returns the queues that a message gets into when it is published now, each once and
// sorted: the CC and BCC headers count as further keys, and an alternate exchange takes what an
// exchange routes nowhere.
func (t *Topology) Route(exchange, key string, headers frame.Table) []string {
	keys := append([]string{key}, copyKeys(headers)...)
	queues := map[string]bool{}
	t.route(exchange, keys, headers, queues, map[string]bool{})
	out := make([]string, 0, len(queues))
	for q := range queues {
		out = append(out, q)
	}
	slices.Sort(out)
	return out
}

func (t *Topology) route(exchange string, keys []string, headers frame.Table, queues, seen map[string]bool) {
	if seen[exchange] {
		return
	}
	seen[exchange] = true
	if exchange == "" {
		for _, key := range keys {
			if _, ok := t.Queues[key]; ok {
				queues[key] = true
			}
		}
		return
	}
	x, ok := t.Exchanges[exchange]
	if !ok {
		return
	}
	routed := false
	for _, b := range t.Bindings {
		if b.From != exchange || !matches(x.kind(), b, keys, headers) {
			continue
		}
		routed = true
		if b.ToExchange {
			t.route(b.To, keys, headers, queues, seen)
		} else {
			queues[b.To] = true
		}
	}
	if !routed {
		if alternate, ok := x.Args.Get("alternate-exchange"); ok {
			if name, ok := text(alternate); ok {
				t.route(name, keys, headers, queues, seen)
			}
		}
	}
}

// kind is how the exchange routes; a delayed one (the plugin's) routes as its argument says.
func (x Exchange) kind() string {
	if x.Kind == "x-delayed-message" {
		kind, _ := x.Args.Text("x-delayed-type")
		return kind
	}
	return x.Kind
}

func matches(kind string, b Binding, keys []string, headers frame.Table) bool {
	switch kind {
	case "fanout":
		return true
	case "direct":
		return slices.Contains(keys, b.Key)
	case "topic":
		return slices.ContainsFunc(keys, func(key string) bool { return topicMatches(b.Key, key) })
	case "headers":
		return headersMatch(b.Args, headers)
	default:
		return false
	}
}

// topicMatches reports whether the key matches the pattern, in which * is one word and # any
// number of words. It takes time in proportion to the product of both lengths, whatever the
// pattern.
func topicMatches(pattern, key string) bool {
	words := func(s string) []string {
		if s == "" {
			return nil
		}
		return strings.Split(s, ".")
	}
	k := words(key)
	// reach[i] says that what was read of the pattern matches the first i words of the key.
	reach := make([]bool, len(k)+1)
	reach[0] = true
	for _, p := range words(pattern) {
		if p == "#" {
			for i := range k {
				reach[i+1] = reach[i+1] || reach[i]
			}
			continue
		}
		for i := len(k); i > 0; i-- {
			reach[i] = reach[i-1] && (p == "*" || p == k[i-1])
		}
		reach[0] = false
	}
	return reach[len(k)]
}

// headersMatch is the headers exchange's rule: x-match is all (default) or any; arguments that
// begin with x- take part only in all-with-x and any-with-x, and x-match itself never. A void
// argument asks for the header's presence only. RabbitMQ's documentation of the headers exchange.
func headersMatch(args, headers frame.Table) bool {
	mode, _ := args.Text("x-match")
	mode, withX := strings.CutSuffix(mode, "-with-x")
	some, every := false, true
	for _, f := range args {
		if f.Key == "x-match" || !withX && strings.HasPrefix(f.Key, "x-") {
			continue
		}
		v, ok := headers.Get(f.Key)
		hit := ok && (f.Value == nil || sameValue(f.Value, v))
		some = some || hit
		every = every && hit
	}
	if mode == "any" {
		return some
	}
	return every
}

// copyKeys are the further routing keys in the CC and BCC headers.
func copyKeys(headers frame.Table) []string {
	var keys []string
	for _, name := range []string{"CC", "BCC"} {
		v, ok := headers.Get(name)
		if !ok {
			continue
		}
		list, ok := v.(frame.Array)
		if !ok {
			continue
		}
		for _, item := range list {
			if s, ok := text(item); ok {
				keys = append(keys, s)
			}
		}
	}
	return keys
}
