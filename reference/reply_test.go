package reference_test

import (
	"context"
	"strings"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/parkproof/parkproof/reference"
)

func TestReplyAnswersTheCaller(t *testing.T) {
	w := newWorld(t)
	client := w.open()
	sums := w.name("sums")
	var calls record
	consumer, err := client.Reply(soon(t), reference.Queue(sums), func(_ context.Context, d reference.Delivery) (reference.Reply, error) {
		if calls.add(d) == 1 {
			return reference.Reply{}, errNoLuck
		}
		return reference.Reply{Body: append([]byte("sum of "), d.Body...), ContentType: "text/plain", Headers: amqp.Table{"ok": true}}, nil
	})
	must(t, err)
	answers, err := w.ch.QueueDeclare("", false, false, true, false, nil)
	must(t, err)
	w.publish("", sums, amqp.Publishing{Body: []byte("1 2"), ReplyTo: answers.Name, CorrelationId: "c7"})
	answer := w.get(answers.Name)
	if string(answer.Body) != "sum of 1 2" || answer.CorrelationId != "c7" || answer.ContentType != "text/plain" || answer.Headers["ok"] != true {
		t.Errorf("answer %+v", answer)
	}
	if calls.numbers() != "[1 2]" {
		t.Errorf("attempts %s, want [1 2]", calls.numbers())
	}
	must(t, consumer.Stop(soon(t)))
	w.empty(sums)
}

func TestDirectReplyTo(t *testing.T) {
	w := newWorld(t)
	client := w.open()
	sums := w.name("sums")
	_, err := client.Reply(soon(t), reference.Queue(sums), func(context.Context, reference.Delivery) (reference.Reply, error) {
		return reference.Reply{Body: []byte("3")}, nil
	})
	must(t, err)
	answers, err := w.ch.Consume("amq.rabbitmq.reply-to", "", true, false, false, false, nil)
	must(t, err)
	must(t, w.ch.PublishWithContext(soon(t), "", sums, true, false, amqp.Publishing{ReplyTo: "amq.rabbitmq.reply-to", CorrelationId: "c8"}))
	select {
	case answer := <-answers:
		if string(answer.Body) != "3" || answer.CorrelationId != "c8" {
			t.Errorf("answer %+v", answer)
		}
	case <-soon(t).Done():
		t.Fatal("no answer")
	}
	if got := w.seen(reference.KindUnanswered); len(got) != 0 {
		t.Errorf("it counts as unanswered: %+v", got)
	}
}

func TestNobodyToAnswer(t *testing.T) {
	w := newWorld(t)
	client := w.open()
	sums := w.name("sums")
	var calls record
	consumer, err := client.Reply(soon(t), reference.Queue(sums), func(_ context.Context, d reference.Delivery) (reference.Reply, error) {
		calls.add(d)
		return reference.Reply{Body: []byte("3")}, nil
	})
	must(t, err)
	w.publish("", sums, amqp.Publishing{ReplyTo: w.name("gone"), CorrelationId: "c"})
	w.publish("", sums, amqp.Publishing{CorrelationId: "c"})
	w.eventually("two requests without an answer", func() bool { return len(w.seen(reference.KindUnanswered)) == 2 })
	must(t, consumer.Stop(soon(t)))
	w.empty(sums)
	if calls.numbers() != "[1 1]" {
		t.Errorf("attempts %s, want each once", calls.numbers())
	}
}

func TestParkDoesNotApplyToARequest(t *testing.T) {
	w := newWorld(t)
	client := w.open()
	sums := w.name("sums")
	var calls record
	consumer, err := client.Reply(soon(t), reference.Queue(sums), func(_ context.Context, d reference.Delivery) (reference.Reply, error) {
		calls.add(d)
		return reference.Reply{}, reference.Park(errNoLuck)
	})
	must(t, err)
	answers, err := w.ch.QueueDeclare("", false, false, true, false, nil)
	must(t, err)
	w.publish("", sums, amqp.Publishing{ReplyTo: answers.Name, CorrelationId: "c9"})
	parked := w.get(consumer.ParkingQueue())
	if calls.numbers() != "[1 2 3]" {
		t.Errorf("attempts %s, want [1 2 3]", calls.numbers())
	}
	if got := len(w.seen(reference.KindParkNotApplicable)); got != 3 {
		t.Errorf("%d diagnostics say that park does not apply, want 3", got)
	}
	// Whoever mends it can still answer.
	if parked.ReplyTo != answers.Name || parked.CorrelationId != "c9" {
		t.Errorf("parked with reply-to %q, correlation-id %q", parked.ReplyTo, parked.CorrelationId)
	}
}

func TestReplyThatCannotBeSent(t *testing.T) {
	w := newWorld(t)
	client := w.open()
	for name, reply := range map[string]reference.Reply{
		"type":  {Headers: amqp.Table{"a": struct{}{}}},
		"long":  {ContentType: strings.Repeat("x", 300)},
		"large": {Headers: amqp.Table{"a": strings.Repeat("x", 200000)}},
	} {
		sums := w.name(name)
		consumer, err := client.Reply(soon(t), reference.Queue(sums), func(context.Context, reference.Delivery) (reference.Reply, error) {
			return reply, nil
		})
		must(t, err)
		w.publish("", sums, amqp.Publishing{ReplyTo: sums, CorrelationId: "c"})
		if parked := w.get(consumer.ParkingQueue()); parked.Headers["x-attempt"] != int64(3) {
			t.Errorf("%s: parked with %v", name, parked.Headers)
		}
	}
	if got := w.seen(reference.KindDisconnected); len(got) != 0 {
		t.Errorf("the connection was lost: %+v", got)
	}
}
