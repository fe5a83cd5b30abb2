package reference

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// Arguments of queues that the library sets.
const (
	argTTL           = "x-message-ttl"
	argDeadLetter    = "x-dead-letter-exchange"
	argDeadLetterKey = "x-dead-letter-routing-key"
	argExpires       = "x-expires"
)

// TopologyError tells that an exchange or a queue could not be declared, found or bound, or not consumed.
type TopologyError struct {
	// Doing is what was done, and to what: `declare retry queue "retry.1000"`.
	Doing string
	// Name is the exchange or the queue.
	Name string
	// Argument is the queue's argument that differs from what the broker has; empty for another reason.
	Argument string
	// Err is what the broker answered, an *amqp091.Error, or why it did not.
	Err error
}

func (e *TopologyError) Error() string {
	var answer *amqp.Error
	if !errors.As(e.Err, &answer) {
		return e.Doing + ": " + textOf(e.Err)
	}
	text := e.Doing + ": " + answer.Reason // which starts with the name of its code
	switch {
	case answer.Code == amqp.PreconditionFailed && e.Argument != "":
		text += fmt.Sprintf("; it exists with another %s: ask for the one it has, or delete it once it is drained", e.Argument)
	case answer.Code == amqp.NotFound:
		text += "; declare it first"
	case answer.Code == amqp.AccessRefused:
		text += "; grant the user the permission, or use a name that it may use"
	}
	return text
}

// Unwrap returns what the broker answered.
func (e *TopologyError) Unwrap() error { return e.Err }

var inequivalent = regexp.MustCompile(`inequivalent arg '([^']+)'`)

func topologyError(doing, name string, err error) error {
	if err == nil {
		return nil
	}
	e := &TopologyError{Doing: fmt.Sprintf("%s %q", doing, name), Name: name, Err: err}
	var answer *amqp.Error
	if errors.As(err, &answer) {
		if match := inequivalent.FindStringSubmatch(answer.Reason); match != nil {
			e.Argument = match[1]
		}
	}
	return e
}

// permanent reports whether trying the same again can only fail the same way until somebody acts.
func permanent(err error) bool {
	var answer *amqp.Error
	if !errors.As(err, &answer) {
		return false
	}
	switch answer.Code {
	case amqp.AccessRefused, amqp.NotFound, amqp.PreconditionFailed, amqp.NotAllowed, amqp.NotImplemented, amqp.CommandInvalid:
		return true
	case amqp.ResourceLocked:
		// Somebody else's exclusive queue, for as long as that connection lives.
		return true
	}
	return false
}

// topology is all that one consumer stands on.
type topology struct {
	source         Source
	delays         []time.Duration // distinct rungs, ascending
	names          Names
	retryArguments func(delay time.Duration) amqp.Table
	parkArguments  amqp.Table
}

// distinct returns the ladder's different rungs, ascending: equal rungs share one retry queue.
func distinct(ladder []time.Duration) []time.Duration {
	return slices.Compact(slices.Sorted(slices.Values(ladder)))
}

// retryArguments are the arguments of a delay's retry queue. There is no x-dead-letter-routing-key, so that
// each message keeps its own key, the source queue's name; and no x-expires, which would delete the queue
// with all that waits in it, since a retry queue never has a consumer.
func retryArguments(delay time.Duration, further amqp.Table) amqp.Table {
	arguments := amqp.Table{}
	maps.Copy(arguments, further)
	arguments[argTTL] = delay.Milliseconds()
	arguments[argDeadLetter] = "" // the default exchange: a key is a queue's name
	return arguments
}

// declare declares the topology on the consuming connection's channel, and returns the source queue's name.
// The source comes first: a retry that expires before its queue exists is lost. The consumer subscribes
// only after all of it.
func (t topology) declare(ch *amqp.Channel) (queue string, err error) {
	if queue, err = t.declareSource(ch); err != nil {
		return "", err
	}
	if err = t.declareRetries(ch); err != nil {
		return "", err
	}
	// The parking queue lives as long as its source: one that outlived an exclusive queue would never be
	// looked at. Exclusive, it belongs to this connection; publishing to it is open to every other.
	parked := t.names.Parked(queue)
	if err := validateName(fmt.Sprintf("the parking queue of %q", queue), parked); err != nil {
		return "", err
	}
	if t.source.exclusive {
		_, err = ch.QueueDeclare(parked, false, false, true, false, nil)
	} else {
		_, err = ch.QueueDeclare(parked, true, false, false, false, t.parkArguments)
	}
	return queue, topologyError("declare parking queue", parked, err)
}

func (t topology) declareSource(ch *amqp.Channel) (string, error) {
	s := t.source
	if s.passive {
		_, err := ch.QueueDeclarePassive(s.queue, true, false, false, false, nil)
		return s.queue, topologyError("look for queue", s.queue, err)
	}
	if s.exchange != "" {
		if err := ch.ExchangeDeclare(s.exchange, s.kind, true, false, false, false, nil); err != nil {
			return "", topologyError("declare exchange", s.exchange, err)
		}
	}
	q, err := ch.QueueDeclare(s.queue, !s.exclusive, false, s.exclusive, false, s.arguments)
	if err != nil {
		return "", topologyError("declare queue", s.queue, err)
	}
	for _, b := range s.bindings {
		if err := ch.QueueBind(q.Name, b.key, s.exchange, false, b.arguments); err != nil {
			return "", topologyError("bind queue to exchange "+s.exchange+":", q.Name, err)
		}
	}
	return q.Name, nil
}

// declareRetries declares one exchange and one queue a delay. Both are durable whatever the source is: they
// are shared by all sources.
func (t topology) declareRetries(ch *amqp.Channel) error {
	for _, delay := range t.delays {
		name := t.names.Retry(delay)
		if err := ch.ExchangeDeclare(name, amqp.ExchangeFanout, true, false, false, false, nil); err != nil {
			return topologyError("declare retry exchange", name, err)
		}
		if _, err := ch.QueueDeclare(name, true, false, false, false, t.retryArguments(delay)); err != nil {
			return topologyError("declare retry queue", name, err)
		}
		if err := ch.QueueBind(name, "", name, false, nil); err != nil {
			return topologyError("bind retry queue", name, err)
		}
	}
	return nil
}
