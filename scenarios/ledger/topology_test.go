package ledger

import (
	"fmt"
	"math/rand"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/quick"
	"unicode/utf8"

	"github.com/parkproof/parkproof/toxics/frame"
)

// builder makes a topology by events, as the ledger does.
type builder struct{ *Topology }

func build() builder { return builder{NewTopology()} }

func (b builder) exchange(name, kind string, args ...frame.Pair) builder {
	b.Apply(Event{Kind: ExchangeDeclared, Exchange: name, Method: &frame.ExchangeDeclare{Exchange: name, Type: kind, Arguments: args}})
	return b
}

func (b builder) queues(names ...string) builder {
	for _, name := range names {
		b.Apply(Event{Kind: QueueDeclared, Queue: name, Method: &frame.QueueDeclare{Queue: name}})
	}
	return b
}

func (b builder) bind(exchange, queue, key string, args ...frame.Pair) builder {
	b.Apply(Event{Kind: QueueBound, Exchange: exchange, Queue: queue, Key: key, Method: &frame.QueueBind{Exchange: exchange, Queue: queue, RoutingKey: key, Arguments: args}})
	return b
}

func (b builder) unbind(exchange, queue, key string, args ...frame.Pair) builder {
	b.Apply(Event{Kind: QueueUnbound, Exchange: exchange, Queue: queue, Key: key, Method: &frame.QueueUnbind{Exchange: exchange, Queue: queue, RoutingKey: key, Arguments: args}})
	return b
}

func (b builder) lead(from, to, key string, args ...frame.Pair) builder {
	b.Apply(Event{Kind: ExchangeBound, Exchange: to, Method: &frame.ExchangeBind{Source: from, Destination: to, RoutingKey: key, Arguments: args}})
	return b
}

func (b builder) unlead(from, to, key string) builder {
	b.Apply(Event{Kind: ExchangeUnbound, Exchange: to, Method: &frame.ExchangeUnbind{Source: from, Destination: to, RoutingKey: key}})
	return b
}

func (b builder) deleteExchange(name string) builder {
	b.Apply(Event{Kind: ExchangeDeleted, Exchange: name, Method: &frame.ExchangeDelete{Exchange: name}})
	return b
}

func (b builder) deleteQueue(name string) builder {
	b.Apply(Event{Kind: QueueDeleted, Queue: name, Method: &frame.QueueDelete{Queue: name}})
	return b
}

func pair(key string, value any) frame.Pair { return frame.Pair{Key: key, Value: value} }

func TestRoute(t *testing.T) {
	three := func() builder { return build().queues("a", "b", "c") }
	for _, c := range []struct {
		name          string
		topology      builder
		exchange, key string
		headers       frame.Table
		want          string // queues, joined
	}{
		{"the default exchange knows each queue by its name", three(), "", "a", nil, "a"},
		{"the default exchange has no other keys", three(), "", "x", nil, ""},
		{"an exchange that does not exist", three(), "x", "a", nil, ""},
		{"an exchange without bindings", three().exchange("x", "fanout"), "x", "a", nil, ""},
		{"fanout takes any key", three().exchange("x", "fanout").bind("x", "a", "").bind("x", "b", "k"), "x", "other", nil, "a b"},
		{"direct takes its key", three().exchange("x", "direct").bind("x", "a", "k").bind("x", "b", "k").bind("x", "c", "l"), "x", "k", nil, "a b"},
		{"direct: the empty key is a key", three().exchange("x", "direct").bind("x", "a", ""), "x", "", nil, "a"},
		{"direct knows no patterns", three().exchange("x", "direct").bind("x", "a", "#"), "x", "k", nil, ""},
		{"topic", three().exchange("x", "topic").bind("x", "a", "k.*").bind("x", "b", "#").bind("x", "c", "*.k"), "x", "k.l", nil, "a b"},
		{"two bindings to one queue deliver once", three().exchange("x", "topic").bind("x", "a", "#").bind("x", "a", "k"), "x", "k", nil, "a"},
		{"the exchanges that every host has", three().bind("amq.fanout", "a", "").bind("amq.match", "b", ""), "amq.fanout", "k", nil, "a"},
		{"amq.match is a headers exchange", three().bind("amq.match", "b", "", pair("h", "v")), "amq.match", "", frame.Table{pair("h", "v")}, "b"},
		{"a delayed exchange routes as its argument says", three().exchange("x", "x-delayed-message", pair("x-delayed-type", "direct")).bind("x", "a", "k"), "x", "k", nil, "a"},
		{"what is not known is not routed", three().exchange("x", "x-consistent-hash").bind("x", "a", "1"), "x", "1", nil, ""},

		{"from exchange to exchange", three().exchange("x", "topic").exchange("y", "fanout").lead("x", "y", "k.#").bind("y", "a", ""), "x", "k.l", nil, "a"},
		{"from exchange to exchange, where the key does not fit", three().exchange("x", "topic").exchange("y", "fanout").lead("x", "y", "k.#").bind("y", "a", ""), "x", "l", nil, ""},
		{"the second exchange sees the key too", three().exchange("x", "fanout").exchange("y", "direct").lead("x", "y", "").bind("y", "a", "k").bind("y", "b", "l"), "x", "k", nil, "a"},
		{"a circle of exchanges ends", three().exchange("x", "fanout").exchange("y", "fanout").lead("x", "y", "").lead("y", "x", "").lead("x", "x", "").bind("x", "a", "").bind("y", "b", ""), "x", "", nil, "a b"},
		{"two ways to one queue deliver once", three().exchange("x", "fanout").exchange("y", "fanout").exchange("z", "fanout").lead("x", "y", "").lead("x", "z", "").bind("y", "a", "").bind("z", "a", ""), "x", "", nil, "a"},
		{"exchange to exchange unbound", three().exchange("x", "fanout").exchange("y", "fanout").lead("x", "y", "").bind("y", "a", "").unlead("x", "y", ""), "x", "", nil, ""},
		{"exchange to exchange unbound with another key", three().exchange("x", "fanout").exchange("y", "fanout").lead("x", "y", "").bind("y", "a", "").unlead("x", "y", "k"), "x", "", nil, "a"},

		{"the alternate exchange takes what nothing takes", three().exchange("x", "direct", pair("alternate-exchange", "y")).exchange("y", "fanout").bind("x", "a", "k").bind("y", "b", ""), "x", "l", nil, "b"},
		{"the alternate exchange does not take what something takes", three().exchange("x", "direct", pair("alternate-exchange", "y")).exchange("y", "fanout").bind("x", "a", "k").bind("y", "b", ""), "x", "k", nil, "a"},
		{"an exchange that takes it and loses it is no reason for the alternate", three().exchange("x", "fanout", pair("alternate-exchange", "y")).exchange("y", "fanout").exchange("z", "direct").lead("x", "z", "").bind("y", "b", ""), "x", "k", nil, ""},
		{"a bound exchange has its own alternate", three().exchange("x", "fanout").exchange("y", "direct", pair("alternate-exchange", "z")).exchange("z", "fanout").lead("x", "y", "").bind("z", "c", ""), "x", "k", nil, "c"},
		{"alternates in a circle", three().exchange("x", "direct", pair("alternate-exchange", "y")).exchange("y", "direct", pair("alternate-exchange", "x")), "x", "k", nil, ""},
		{"an alternate that does not exist", three().exchange("x", "direct", pair("alternate-exchange", "y")), "x", "k", nil, ""},
		{"the alternate may be the default exchange", three().exchange("x", "direct", pair("alternate-exchange", "")), "x", "c", nil, "c"},

		{"CC and BCC are further keys", three().exchange("x", "direct").bind("x", "a", "k").bind("x", "b", "l").bind("x", "c", "m"), "x", "k", frame.Table{pair("CC", frame.Array{"l"}), pair("BCC", frame.Array{"m", "n"})}, "a b c"},
		{"CC by the default exchange", three(), "", "a", frame.Table{pair("CC", frame.Array{"c", "a", "x"})}, "a c"},
		{"CC in a topic", three().exchange("x", "topic").bind("x", "a", "k.*"), "x", "l", frame.Table{pair("CC", frame.Array{"k.l"})}, "a"},
		{"CC that is no list", three(), "", "a", frame.Table{pair("CC", "c")}, "a"},
		{"CC with what is no text", three(), "", "a", frame.Table{pair("CC", frame.Array{int32(1), frame.Bytes("b")})}, "a b"},
		{"CC keeps the alternate away", three().exchange("x", "direct", pair("alternate-exchange", "y")).exchange("y", "fanout").bind("x", "a", "k").bind("y", "b", ""), "x", "none", frame.Table{pair("CC", frame.Array{"k"})}, "a"},

		{"a queue unbound", three().exchange("x", "fanout").bind("x", "a", "").bind("x", "b", "").unbind("x", "a", ""), "x", "", nil, "b"},
		{"unbinding asks for the same key", three().exchange("x", "fanout").bind("x", "a", "k").unbind("x", "a", "l"), "x", "", nil, "a"},
		{"unbinding asks for the same arguments", three().exchange("x", "headers").bind("x", "a", "", pair("h", "1")).bind("x", "a", "", pair("h", "2")).unbind("x", "a", "", pair("h", "1")), "x", "", frame.Table{pair("h", "2")}, "a"},
		{"a binding made twice is one", three().exchange("x", "fanout").bind("x", "a", "").bind("x", "a", "").unbind("x", "a", ""), "x", "", nil, ""},
		{"a queue deleted, and declared again, is not bound", three().exchange("x", "fanout").bind("x", "a", "").deleteQueue("a").queues("a"), "x", "", nil, ""},
		{"a queue deleted is gone from the default exchange", three().deleteQueue("a"), "", "a", nil, ""},
		{"an exchange deleted, and declared again, has no bindings", three().exchange("x", "fanout").bind("x", "a", "").deleteExchange("x").exchange("x", "fanout"), "x", "", nil, ""},
		{"an exchange deleted leads nowhere", three().exchange("x", "fanout").exchange("y", "fanout").lead("x", "y", "").bind("y", "a", "").deleteExchange("y").exchange("y", "fanout").bind("y", "a", ""), "x", "", nil, ""},
		{"an exchange declared again keeps its kind", three().exchange("x", "direct").exchange("x", "fanout").bind("x", "a", "k"), "x", "l", nil, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := strings.Join(c.topology.Route(c.exchange, c.key, c.headers), " "); got != c.want {
				t.Errorf("routed to %q, want %q", got, c.want)
			}
		})
	}
}

func TestHeadersMatch(t *testing.T) {
	match := func(mode string, args ...frame.Pair) frame.Table {
		return append(frame.Table{pair("x-match", mode)}, args...)
	}
	one, two := pair("a", "1"), pair("b", "2")
	for _, c := range []struct {
		name          string
		args, headers frame.Table
		want          bool
	}{
		{"all is the default", frame.Table{one, two}, frame.Table{one, two}, true},
		{"all: one is missing", frame.Table{one, two}, frame.Table{one}, false},
		{"all: one is another", frame.Table{one, two}, frame.Table{one, pair("b", "3")}, false},
		{"all: further headers do no harm", match("all", one), frame.Table{one, two}, true},
		{"all without arguments takes everything", nil, frame.Table{one}, true},
		{"all, named, without arguments", match("all"), nil, true},
		{"any: one of two", match("any", one, two), frame.Table{two}, true},
		{"any: none", match("any", one, two), frame.Table{pair("a", "3")}, false},
		{"any without arguments takes nothing", match("any"), frame.Table{one}, false},
		{"a void argument asks for presence only", match("all", pair("a", nil)), frame.Table{pair("a", int32(5))}, true},
		{"a void argument, and no header", match("all", pair("a", nil)), frame.Table{two}, false},
		{"a void argument in any", match("any", pair("a", nil), two), frame.Table{pair("a", true)}, true},
		{"a void header is not a value", match("all", one), frame.Table{pair("a", nil)}, false},

		{"all: x- does not take part", match("all", one, pair("x-h", "v")), frame.Table{one}, true},
		{"any: x- does not take part", match("any", one, pair("x-h", "v")), frame.Table{pair("x-h", "v")}, false},
		{"all-with-x: x- takes part", match("all-with-x", one, pair("x-h", "v")), frame.Table{one}, false},
		{"all-with-x: and is there", match("all-with-x", one, pair("x-h", "v")), frame.Table{one, pair("x-h", "v")}, true},
		{"any-with-x: x- takes part", match("any-with-x", one, pair("x-h", "v")), frame.Table{pair("x-h", "v")}, true},
		{"any-with-x: none", match("any-with-x", one, pair("x-h", "v")), frame.Table{pair("x-h", "w")}, false},
		{"x-match itself is no argument", match("all-with-x", one), frame.Table{one}, true},
		{"x-match itself is no hit", match("any-with-x", one), frame.Table{pair("x-match", "any-with-x")}, false},

		{"the width of an integer does not matter", match("all", pair("a", int64(5))), frame.Table{pair("a", int8(5))}, true},
		{"an integer is no text", match("all", pair("a", "5")), frame.Table{pair("a", int32(5))}, false},
		{"a text is no integer", match("all", pair("a", int32(5))), frame.Table{pair("a", "5")}, false},
		{"nor does it matter how a text was sent", match("all", one), frame.Table{pair("a", frame.Bytes("1"))}, true},
		{"or the width of a float", match("all", pair("a", float32(0.5))), frame.Table{pair("a", 0.5)}, true},
		{"true is true", match("all", pair("a", true)), frame.Table{pair("a", true)}, true},
		{"true is not false", match("all", pair("a", true)), frame.Table{pair("a", false)}, false},
		{"tables", match("all", pair("a", frame.Table{one})), frame.Table{pair("a", frame.Table{one})}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			x := build().queues("q").exchange("x", "headers").bind("x", "q", "", c.args...)
			if got := len(x.Route("x", "ignored", c.headers)) == 1; got != c.want {
				t.Errorf("%v of %v is %v", c.headers, c.args, got)
			}
		})
	}
}

func TestTopicMatches(t *testing.T) {
	for _, c := range []struct {
		pattern, key string
		want         bool
	}{
		{"", "", true},
		{"", "a", false},
		{"a", "", false},
		{"a", "a", true},
		{"a", "ab", false},
		{"a.b", "a.b", true},
		{"a.b", "a", false},
		{"a", "a.b", false},
		{"*", "a", true},
		{"*", "", false},
		{"*", "a.b", false},
		{"*.*", "a.b", true},
		{"*", ".", false},
		{"*.*", ".", true},
		{"a.*", "a.", true},
		{"a*", "ab", false},
		{"#", "", true},
		{"#", "a", true},
		{"#", "a.b.c", true},
		{"#.", "", false},
		{"a.#", "a", true},
		{"a.#", "a.b.c", true},
		{"a.#", "b", false},
		{"#.a", "a", true},
		{"#.a", "b.b.a", true},
		{"#.a", "a.b", false},
		{"#.#", "", true},
		{"#.*", "", false},
		{"#.*", "a", true},
		{"*.#", "a.b.c", true},
		{"*.#.*", "a", false},
		{"*.#.*", "a.b", true},
		{"#.a.#", "b.a.c", true},
		{"#.a.#.a.#", "b.a.c", false},
		{"#.a.#.a.#", "a.a", true},
		{"a.#.b", "a.b", true},
		{"a.#.b", "a.b.c", false},
		{"a..b", "a..b", true},
		{"a.#.b", "a..b", true},
	} {
		if got := topicMatches(c.pattern, c.key); got != c.want {
			t.Errorf("pattern %q, key %q: %v", c.pattern, c.key, got)
		}
	}
}

// naiveTopic matches by a regular expression over the words, each with a dot behind it.
func naiveTopic(pattern, key string) bool {
	dotted := func(s string) string {
		if s == "" {
			return ""
		}
		return s + "."
	}
	var expression strings.Builder
	if pattern != "" {
		for _, word := range strings.Split(pattern, ".") {
			switch word {
			case "*":
				expression.WriteString(`[^.]*\.`)
			case "#":
				expression.WriteString(`(?:[^.]*\.)*`)
			default:
				expression.WriteString(regexp.QuoteMeta(word) + `\.`)
			}
		}
	}
	return regexp.MustCompile(`^(?s:` + expression.String() + `)$`).MatchString(dotted(key))
}

func TestTopicMatchesAsTheNaiveMatcherDoes(t *testing.T) {
	hits := 0
	check := func(seed int64) bool {
		r := rand.New(rand.NewSource(seed))
		words := func(from []string, most int) string {
			list := make([]string, r.Intn(most+1))
			for i := range list {
				list[i] = from[r.Intn(len(from))]
			}
			return strings.Join(list, ".")
		}
		pattern, key := words([]string{"*", "#", "#", "a", "b", ""}, 6), words([]string{"a", "a", "b", ""}, 6)
		got, want := topicMatches(pattern, key), naiveTopic(pattern, key)
		if want {
			hits++
		}
		if got != want {
			t.Logf("pattern %q, key %q: %v", pattern, key, got)
		}
		return got == want
	}
	if err := quick.Check(check, &quick.Config{MaxCount: 20000}); err != nil {
		t.Error(err)
	}
	if hits < 1000 {
		t.Errorf("only %d of 20000 pairs match: nothing is compared", hits)
	}
}

func FuzzTopicMatches(f *testing.F) {
	f.Add("a.*.#", "a.b.c")
	f.Add("#.#.#.#.#.#.#.#.a", strings.Repeat("b.", 200))
	f.Fuzz(func(t *testing.T, pattern, key string) {
		// Routing keys are short strings; and regular expressions read characters.
		if len(pattern) > 255 || len(key) > 255 || !utf8.ValidString(pattern) || !utf8.ValidString(key) {
			return
		}
		if got, want := topicMatches(pattern, key), naiveTopic(pattern, key); got != want {
			t.Errorf("pattern %q, key %q: %v", pattern, key, got)
		}
	})
}

func TestQueuesThatGoByThemselves(t *testing.T) {
	declare := func(name, process string, conn int, exclusive, autoDelete bool) Event {
		return Event{
			Kind: QueueDeclared, Process: process, Conn: conn, Queue: name,
			Method: &frame.QueueDeclare{Queue: name, Exclusive: exclusive, AutoDelete: autoDelete},
		}
	}
	consume := func(queue, process string, conn int, channel uint16, tag string) Event {
		return Event{Kind: Consuming, Process: process, Conn: conn, Channel: channel, Queue: queue, Consumer: tag}
	}
	cancel := func(process string, conn int, channel uint16, tag string) Event {
		return Event{Kind: Cancelled, Process: process, Conn: conn, Channel: channel, Consumer: tag}
	}
	end := func(kind Kind, process string, conn int, channel uint16) Event {
		return Event{Kind: kind, Process: process, Conn: conn, Channel: channel}
	}
	for _, c := range []struct {
		name   string
		before []Event
		last   Event
		want   string
	}{
		{"exclusive, closed", []Event{declare("q", "p", 1, true, false)}, end(ConnectionClosed, "p", 1, 0), "q"},
		{"exclusive, lost", []Event{declare("q", "p", 1, true, false)}, end(ConnectionLost, "p", 1, 0), "q"},
		{"exclusive, several, in order", []Event{declare("r", "p", 1, true, false), declare("q", "p", 1, true, false)}, end(ConnectionLost, "p", 1, 0), "q r"},
		{"exclusive, of another connection", []Event{declare("q", "p", 1, true, false)}, end(ConnectionLost, "p", 2, 0), ""},
		{"exclusive, of another process", []Event{declare("q", "p", 1, true, false)}, end(ConnectionLost, "o", 1, 0), ""},
		{"exclusive, only the channel closes", []Event{declare("q", "p", 1, true, false)}, end(ChannelClosed, "p", 1, 1), ""},
		{"declared by the next connection before the first is seen to end", []Event{declare("q", "p", 1, true, false), end(ConnectionLost, "p", 1, 0), declare("q", "p", 2, true, false)}, end(ConnectionLost, "p", 1, 0), ""},
		{"auto-delete, its only consumer cancels", []Event{declare("q", "p", 1, false, true), consume("q", "p", 1, 1, "t")}, cancel("p", 1, 1, "t"), "q"},
		{"auto-delete, one of two cancels", []Event{declare("q", "p", 1, false, true), consume("q", "p", 1, 1, "t"), consume("q", "o", 2, 1, "t")}, cancel("p", 1, 1, "t"), ""},
		{"auto-delete, both cancel", []Event{declare("q", "p", 1, false, true), consume("q", "p", 1, 1, "t"), consume("q", "o", 2, 1, "t"), cancel("p", 1, 1, "t")}, cancel("o", 2, 1, "t"), "q"},
		{"auto-delete, the channel closes", []Event{declare("q", "p", 1, false, true), consume("q", "p", 1, 3, "t")}, end(ChannelClosed, "p", 1, 3), "q"},
		{"auto-delete, another channel closes", []Event{declare("q", "p", 1, false, true), consume("q", "p", 1, 3, "t")}, end(ChannelClosed, "p", 1, 1), ""},
		{"auto-delete, the connection is lost", []Event{declare("q", "p", 1, false, true), consume("q", "p", 1, 3, "t")}, end(ConnectionLost, "p", 1, 0), "q"},
		{"auto-delete, never consumed", []Event{declare("q", "p", 1, false, true)}, end(ConnectionLost, "p", 1, 0), ""},
		{"auto-delete and exclusive is gone once", []Event{declare("q", "p", 1, true, true), consume("q", "p", 1, 1, "t")}, end(ConnectionLost, "p", 1, 0), "q"},
		{"an ordinary queue stays", []Event{declare("q", "p", 1, false, false), consume("q", "p", 1, 1, "t")}, end(ConnectionLost, "p", 1, 0), ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			topology := TopologyOf(c.before)
			gone := topology.Apply(c.last)
			if got := strings.Join(gone, " "); got != c.want {
				t.Errorf("gone: %q, want %q", got, c.want)
			}
			for _, name := range gone {
				if len(topology.Route("", name, nil)) > 0 {
					t.Errorf("%q still takes messages", name)
				}
			}
			if len(gone) == 0 && len(topology.Route("", "q", nil)) == 0 {
				t.Error("the queue is gone, and nobody said so")
			}
		})
	}
}

func TestQueueThatIsGoneHasNoBindings(t *testing.T) {
	b := build()
	b.Apply(Event{Kind: QueueDeclared, Process: "p", Conn: 1, Queue: "q", Method: &frame.QueueDeclare{Queue: "q", Exclusive: true}})
	b.bind("amq.fanout", "q", "")
	b.Apply(Event{Kind: ConnectionLost, Process: "p", Conn: 1})
	b.queues("q")
	if got := b.Route("amq.fanout", "", nil); len(got) != 0 {
		t.Errorf("routed to %q", got)
	}
}

func TestAutoDeleteExchanges(t *testing.T) {
	b := build().queues("a", "b")
	for _, name := range []string{"x", "y"} {
		b.Apply(Event{Kind: ExchangeDeclared, Exchange: name, Method: &frame.ExchangeDeclare{Exchange: name, Type: "fanout", AutoDelete: true}})
	}
	b.lead("x", "y", "").bind("y", "a", "").bind("y", "b", "")
	exists := func() string {
		var names []string
		for name := range b.Exchanges {
			if name == "x" || name == "y" {
				names = append(names, name)
			}
		}
		slices.Sort(names)
		return strings.Join(names, " ")
	}
	if b.unbind("y", "a", ""); exists() != "x y" {
		t.Errorf("after the first of two unbinds there is %q", exists())
	}
	// With y, the only binding from x goes, and x with it.
	if b.deleteQueue("b"); exists() != "" {
		t.Errorf("after the last there is %q", exists())
	}
	if got := fmt.Sprint(b.Bindings); got != "[]" {
		t.Errorf("bindings are left: %s", got)
	}
}

// What only asks changes nothing, nor what has no name.
func TestApplyNothing(t *testing.T) {
	b := build()
	before := fmt.Sprint(b.Exchanges, b.Queues, b.Bindings)
	for _, e := range []Event{
		{Kind: ExchangeDeclared, Exchange: "x", Method: &frame.ExchangeDeclare{Exchange: "x", Passive: true}},
		{Kind: QueueDeclared, Queue: "q", Method: &frame.QueueDeclare{Queue: "q", Passive: true}},
		{Kind: QueueDeclared, Method: &frame.QueueDeclare{}},
		{Kind: QueueDeclared, Queue: "q"},
		{Kind: ExchangeDeclared, Exchange: "x"},
		{Kind: QueueBound, Exchange: "x", Queue: "q"},
		{Kind: QueueUnbound, Exchange: "x", Queue: "q"},
		{Kind: ExchangeBound, Exchange: "x"},
		{Kind: ExchangeUnbound, Exchange: "x"},
		{Kind: QueueDeleted, Queue: "q"},
		{Kind: ExchangeDeleted, Exchange: "x"},
		{Kind: QueuePurged, Queue: "q"},
		{Kind: Asked, Queue: "q", Method: &frame.QueueDeclare{Queue: "q"}},
		{Kind: Cancelled, Consumer: "t"},
		{Kind: ConnectionLost},
	} {
		if gone := b.Apply(e); len(gone) > 0 {
			t.Errorf("%s: %q went", e.Kind, gone)
		}
	}
	if after := fmt.Sprint(b.Exchanges, b.Queues, b.Bindings); after != before {
		t.Errorf("%s\nbecame\n%s", before, after)
	}
}
