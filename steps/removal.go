package steps

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/parkproof/parkproof/scenarios/ledger"
	"github.com/parkproof/parkproof/toxics/frame"
)

// notFound is the reply code for a queue or exchange that is not there: AMQP 0-9-1, constants.
const notFound = 404

// removal is a queue or an exchange that the case deleted, as it was: exactly one of both is set.
type removal struct {
	queue    *frame.QueueDeclare
	exchange *frame.ExchangeDeclare
	// bindings lead to it and, of an exchange, from it.
	bindings []ledger.Binding
}

func (w *World) removalSteps(s Words) {
	s.Step(`^the queue "([^"]*)" is (deleted|made again)$`, func(name, what string) error { return w.removesQueue(w.physical(name), what) })
	s.Step(`^the parking queue of "([^"]*)" is (deleted|made again)$`, func(name, what string) error {
		c, err := w.consumer(name)
		if err != nil {
			return err
		}
		queue, err := w.parkingOf(c)
		if err != nil {
			return err
		}
		return w.removesQueue(queue, what)
	})
	s.Step(`^the retry queue of (\w+) is (deleted|made again)$`, func(delay, what string) error {
		queue, err := w.retryOf(delay)
		if err != nil {
			return err
		}
		return w.removesQueue(queue, what)
	})
	s.Step(`^the retry exchange(?: of (\w+))? is (deleted|made again)$`, func(_ context.Context, delay, what string) error {
		return w.removesExchange(delay, what)
	})
}

func (w *World) removesQueue(name, what string) error {
	if what == "made again" {
		return w.makesAgain("queue " + name)
	}
	if !w.mine(name) {
		return &NotApplicable{Why: fmt.Sprintf("it deletes queue %q, which may be somebody else's in this shared virtual host", name)}
	}
	r := removal{}
	for _, e := range w.Ledger.Events() {
		if m, ok := e.Method.(*frame.QueueDeclare); ok && e.Kind == ledger.QueueDeclared && !m.Passive && e.Queue == name {
			r.queue = m
		}
	}
	if r.queue == nil {
		return &Failure{Expected: fmt.Sprintf("queue %q to be declared", name), Seen: "it was not"}
	}
	if r.queue.Exclusive {
		return &NotApplicable{Why: fmt.Sprintf("it deletes queue %q, which is its owner's alone", name)}
	}
	w.look(func(b *ledger.Book) bool {
		for _, binding := range b.Topology.Bindings {
			if !binding.ToExchange && binding.To == name {
				r.bindings = append(r.bindings, binding)
			}
		}
		return true
	})
	topology, err := w.topology()
	if err != nil {
		return err
	}
	w.breaks(fmt.Sprintf("queue %q was deleted", name), notFound)
	if _, err := topology.QueueDelete(name, false, false, false); err != nil {
		return fmt.Errorf("deleting queue %q: %w", name, err)
	}
	w.removed["queue "+name] = r
	return nil
}

// removesExchange deletes the retry exchange, of a delay where there are several, or makes it again.
func (w *World) removesExchange(delay, what string) error {
	name, err := w.retryExchange(delay)
	if err != nil {
		return err
	}
	if what == "made again" {
		return w.makesAgain("exchange " + name)
	}
	if !w.mine(name) {
		return &NotApplicable{Why: fmt.Sprintf("it deletes exchange %q, which may be somebody else's in this shared virtual host", name)}
	}
	r := removal{}
	for _, e := range w.Ledger.Events() {
		if m, ok := e.Method.(*frame.ExchangeDeclare); ok && e.Kind == ledger.ExchangeDeclared && !m.Passive && m.Exchange == name {
			r.exchange = m
		}
	}
	if r.exchange == nil {
		return &Failure{Expected: fmt.Sprintf("exchange %q to be declared", name), Seen: "it was not"}
	}
	w.look(func(b *ledger.Book) bool {
		for _, binding := range b.Topology.Bindings {
			if binding.From == name || binding.ToExchange && binding.To == name {
				r.bindings = append(r.bindings, binding)
			}
		}
		return true
	})
	topology, err := w.topology()
	if err != nil {
		return err
	}
	w.breaks(fmt.Sprintf("exchange %q was deleted", name), notFound)
	if err := topology.ExchangeDelete(name, false, false); err != nil {
		return fmt.Errorf("deleting exchange %q: %w", name, err)
	}
	w.removed["exchange "+name] = r
	return nil
}

// retryExchange is the retry exchange of the delay, among those that were declared; without a delay
// there has to be one only.
func (w *World) retryExchange(delay string) (string, error) {
	conv := w.conventions()
	if err := needs(conv.RetryExchange, "retry exchange"); err != nil {
		return "", err
	}
	rung := ""
	if delay != "" {
		d, err := time.ParseDuration(delay)
		if err != nil {
			return "", fmt.Errorf("the delay %q cannot be read: %w", delay, err)
		}
		rung = fmt.Sprint(w.ownRung(d).Milliseconds())
	}
	fits := func(name string) bool {
		of, is := templated(conv.RetryExchange, name)
		return is && (rung == "" || of == "" || of == rung)
	}
	seen := map[string]bool{}
	var names []string
	for _, e := range w.Ledger.Events() {
		m, ok := e.Method.(*frame.ExchangeDeclare)
		if ok && e.Kind == ledger.ExchangeDeclared && !m.Passive && fits(m.Exchange) && !seen[m.Exchange] {
			seen[m.Exchange] = true
			names = append(names, m.Exchange)
		}
	}
	switch {
	case len(names) == 1:
		return names[0], nil
	case len(names) == 0:
		return "", &Failure{Expected: fmt.Sprintf("a retry exchange %q to be declared", conv.RetryExchange), Seen: "none was"}
	default:
		slices.Sort(names)
		return "", fmt.Errorf("there are several retry exchanges, %s: say of which delay", strings.Join(names, ", "))
	}
}

// makesAgain declares what the case deleted, with the arguments and the bindings that it had.
func (w *World) makesAgain(what string) error {
	r, was := w.removed[what]
	if !was {
		return fmt.Errorf("%s was not deleted: delete it first", what)
	}
	topology, err := w.topology()
	if err != nil {
		return err
	}
	if q := r.queue; q != nil {
		_, name, _ := strings.Cut(what, " ")
		_, err = topology.QueueDeclare(name, q.Durable, q.AutoDelete, q.Exclusive, false, arguments(q.Arguments))
	} else {
		x := r.exchange
		err = topology.ExchangeDeclare(x.Exchange, x.Type, x.Durable, x.AutoDelete, x.Internal, false, arguments(x.Arguments))
	}
	if err != nil {
		return fmt.Errorf("declaring %s again: %w", what, err)
	}
	for _, binding := range r.bindings {
		if binding.ToExchange {
			err = topology.ExchangeBind(binding.To, binding.Key, binding.From, false, arguments(binding.Args))
		} else {
			err = topology.QueueBind(binding.To, binding.Key, binding.From, false, arguments(binding.Args))
		}
		if err != nil {
			return fmt.Errorf("binding %s again: %w", what, err)
		}
	}
	delete(w.removed, what)
	w.returned(what + " was made again")
	return nil
}

// arguments are a decoded table as the client sends it, each value in the type that it came in.
func arguments(t frame.Table) amqp.Table {
	if t == nil {
		return nil
	}
	args := make(amqp.Table, len(t))
	for _, pair := range t {
		args[pair.Key] = argument(pair.Value)
	}
	return args
}

func argument(v any) any {
	switch v := v.(type) {
	case frame.Table:
		return arguments(v)
	case frame.Array:
		items := make([]any, len(v))
		for i, item := range v {
			items[i] = argument(item)
		}
		return items
	case frame.Bytes:
		return []byte(v)
	case frame.Decimal:
		return amqp.Decimal{Scale: v.Scale, Value: int32(v.Value)}
	case frame.Timestamp:
		return v.Time()
	case uint64:
		return int64(v) // the client has no unsigned one; RabbitMQ reads it as signed anyway
	default:
		return v
	}
}
