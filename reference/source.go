package reference

import (
	"errors"
	"fmt"
	"strings"

	amqp "github.com/rabbitmq/amqp091-go"
)

// Source is the queue that a consumer reads, and how it comes to be. Make one with Queue, Existing or Bound.
type Source struct {
	queue     string // empty: named by the server
	passive   bool   // must exist; is not declared
	exclusive bool   // lives as long as the consuming connection
	arguments amqp.Table

	exchange string
	kind     string
	group    string
	bindings []binding
}

type binding struct {
	key       string
	arguments amqp.Table
}

// SourceOption adjusts a Source.
type SourceOption func(*Source)

// Queue is a durable queue of that name. It is declared, so it need not exist; where it exists it must have
// been declared with the same arguments.
func Queue(name string, options ...SourceOption) Source {
	return (Source{queue: name}).with(options)
}

// Existing is a queue that somebody else declares. It is only looked for, which needs no permission to
// configure it, and whatever its arguments are.
func Existing(name string) Source { return Source{queue: name, passive: true} }

// Bound is a queue bound to a durable exchange of that kind: "fanout", "direct", "topic", "headers" or a
// plugin's "x-...". The exchange, the queue and the binding are declared. The consumers of one group share
// one durable queue, "<exchange>..<group>". Without a group the queue is exclusive: named by the server,
// and gone with the consuming connection, along with what waits in it.
func Bound(exchange, kind, group string, options ...SourceOption) Source {
	return (Source{exchange: exchange, kind: kind, group: group, exclusive: group == ""}).with(options)
}

// RoutingKey binds the queue with that key; given several times, with each of them.
func RoutingKey(key string) SourceOption {
	return func(s *Source) { s.bindings = append(s.bindings, binding{key: key}) }
}

// BindingArguments binds the queue with these arguments, those of a headers exchange for example; given
// several times, with each of them.
func BindingArguments(arguments amqp.Table) SourceOption {
	return func(s *Source) { s.bindings = append(s.bindings, binding{arguments: arguments}) }
}

// QueueArguments are the arguments that the source queue is declared with.
func QueueArguments(arguments amqp.Table) SourceOption {
	return func(s *Source) {
		merged := amqp.Table{}
		for _, t := range []amqp.Table{s.arguments, arguments} {
			for name, value := range t {
				merged[name] = value
			}
		}
		s.arguments = merged
	}
}

// Quorum declares the source queue as a quorum queue.
func Quorum() SourceOption {
	return QueueArguments(amqp.Table{amqp.QueueTypeArg: amqp.QueueTypeQuorum})
}

func (s Source) with(options []SourceOption) Source {
	for _, option := range options {
		option(&s)
	}
	return s
}

// resolve fills in what depends on the names.
func (s Source) resolve(names Names) Source {
	if s.exchange != "" && s.group != "" {
		s.queue = names.Group(s.exchange, s.group)
	}
	if s.exchange != "" && len(s.bindings) == 0 {
		s.bindings = []binding{{}}
	}
	return s
}

// validate checks a resolved source.
func (s Source) validate(names Names) error {
	switch {
	case s.exchange == "" && s.kind != "":
		return errors.New("the exchange to bind to has no name")
	case s.exchange == "" && len(s.bindings) > 0:
		return fmt.Errorf("queue %q has bindings but no exchange: use Bound", s.queue)
	}
	if !s.exclusive { // its name is the server's, and so is that of its parking queue
		if err := validateName("the source queue", s.queue); err != nil {
			return err
		}
		if err := validateName(fmt.Sprintf("the parking queue of %q", s.queue), names.Parked(s.queue)); err != nil {
			return err
		}
	}
	if s.exchange != "" {
		if err := validateName("the exchange", s.exchange); err != nil {
			return err
		}
	}
	if s.exchange != "" {
		switch s.kind {
		case amqp.ExchangeFanout, amqp.ExchangeDirect, amqp.ExchangeTopic, amqp.ExchangeHeaders:
		default:
			// A kind that the broker does not know closes the whole connection, and the siblings with it.
			if !strings.HasPrefix(s.kind, "x-") {
				return fmt.Errorf("exchange %q has kind %q: use fanout, direct, topic, headers, or the x-... of a plugin", s.exchange, s.kind)
			}
		}
	}
	if s.exclusive && s.arguments[amqp.QueueTypeArg] == amqp.QueueTypeQuorum {
		return fmt.Errorf("the queue on exchange %q is exclusive, so it cannot be a quorum queue: give it a group", s.exchange)
	}
	if err := validateTable(s.arguments); err != nil {
		return fmt.Errorf("arguments of queue %q: %w", s.queue, err)
	}
	for _, b := range s.bindings {
		if err := validateTable(b.arguments); err != nil {
			return fmt.Errorf("binding arguments of queue %q: %w", s.queue, err)
		}
		if len(b.key) > maxName {
			return fmt.Errorf("a routing key of queue %q has %d bytes, and AMQP allows %d", s.queue, len(b.key), maxName)
		}
	}
	return nil
}

// String names the source for people.
func (s Source) String() string {
	if s.queue == "" {
		return "exclusive queue on exchange " + s.exchange
	}
	return s.queue
}
