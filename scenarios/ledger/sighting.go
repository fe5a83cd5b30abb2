package ledger

import (
	"slices"

	"github.com/parkproof/parkproof/toxics/frame"
)

// Role is what a connection is used for, as far as it has shown. A library with one connection for
// everything has both roles.
type Role uint8

// The roles; they are added up.
const (
	// RoleConsuming: such connections have asked to consume, or have taken a message.
	RoleConsuming Role = 1 << iota
	// RolePublishing: such connections have published, or have asked for confirms.
	RolePublishing
)

// Target is one thing that a command is about: the message that is published or delivered, a publish
// that a confirm answers, a delivery that an ack settles, or what is declared.
type Target struct {
	Message, Exchange, Key, Queue string
}

// Sighting is a command as a fault sees it, before it has taken effect.
type Sighting struct {
	FromBroker bool
	Channel    uint16
	// Method is its name: "basic.publish".
	Method string
	// HasContent says that header and body frames come with it.
	HasContent bool
	// Confirms says that its channel is in confirm mode.
	Confirms bool
	Role     Role
	Targets  []Target
}

// Sight says what a command is about. It changes nothing.
func (f *Follower) Sight(c Command) Sighting {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := Sighting{FromBroker: c.FromBroker, Channel: c.Channel, Role: f.role | roleOf(c)}
	if c.Method == nil {
		return s
	}
	s.Method, s.HasContent = c.Method.Name(), frame.HasContent(c.Method)
	ch := f.channels[c.Channel]
	if ch == nil {
		ch = &channel{}
	}
	s.Confirms = ch.confirms
	one := func(t Target) { t.Message = c.Message; s.Targets = []Target{t} }
	covered := func(list []numbered, tag uint64, multiple bool) {
		list = slices.Clone(list)
		for _, n := range takeNumbered(&list, tag, multiple) {
			s.Targets = append(s.Targets, Target{n.message, n.exchange, n.key, n.queue})
		}
	}
	switch m := c.Method.(type) {
	case *frame.BasicPublish:
		one(Target{Exchange: m.Exchange, Key: m.RoutingKey})
	case *frame.BasicReturn:
		one(Target{Exchange: m.Exchange, Key: m.RoutingKey})
	case *frame.BasicDeliver:
		one(Target{Exchange: m.Exchange, Key: m.RoutingKey, Queue: ch.consumers[m.ConsumerTag].queue})
	case *frame.BasicGetOk:
		t := Target{Exchange: m.Exchange, Key: m.RoutingKey}
		if len(ch.getting) > 0 {
			t.Queue = ch.getting[0].queue
		}
		one(t)
	case *frame.BasicAck:
		covered(ch.of(c.FromBroker), m.DeliveryTag, m.Multiple)
	case *frame.BasicNack:
		covered(ch.of(c.FromBroker), m.DeliveryTag, m.Multiple)
	case *frame.BasicReject:
		covered(ch.deliveries, m.DeliveryTag, false)
	case *frame.BasicConsume:
		one(Target{Queue: ch.queue(m.Queue)})
	case *frame.BasicCancel:
		one(Target{Queue: ch.consumers[m.ConsumerTag].queue})
	case *frame.BasicGet:
		one(Target{Queue: ch.queue(m.Queue)})
	case *frame.QueueDeclare:
		one(Target{Queue: m.Queue})
	case *frame.QueueDeclareOk:
		one(Target{Queue: m.Queue})
	case *frame.QueueBind:
		one(Target{Queue: ch.queue(m.Queue), Exchange: m.Exchange, Key: m.RoutingKey})
	case *frame.QueueUnbind:
		one(Target{Queue: ch.queue(m.Queue), Exchange: m.Exchange, Key: m.RoutingKey})
	case *frame.QueueDelete:
		one(Target{Queue: ch.queue(m.Queue)})
	case *frame.QueuePurge:
		one(Target{Queue: ch.queue(m.Queue)})
	case *frame.ExchangeDeclare:
		one(Target{Exchange: m.Exchange})
	case *frame.ExchangeDelete:
		one(Target{Exchange: m.Exchange})
	case *frame.ExchangeBind:
		one(Target{Exchange: m.Destination})
	}
	return s
}

// of are the publishes that the broker answers, or the deliveries that the client settles.
func (c *channel) of(fromBroker bool) []numbered {
	if fromBroker {
		return c.unconfirmed
	}
	return c.deliveries
}

// Role is what the connection has been used for so far.
func (f *Follower) Role() Role {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.role
}

// roleOf is the role that a client's command shows.
func roleOf(c Command) Role {
	if c.FromBroker {
		return 0
	}
	switch c.Method.(type) {
	case *frame.BasicConsume, *frame.BasicGet:
		return RoleConsuming
	case *frame.BasicPublish, *frame.ConfirmSelect:
		return RolePublishing
	default:
		return 0
	}
}
