package ledger

import (
	"fmt"
	"strings"
	"testing"

	"github.com/parkproof/parkproof/toxics/frame"
)

func told(lines []Line) string {
	var b strings.Builder
	for _, l := range lines {
		mark := " "
		if l.Marked {
			mark = ">"
		}
		fmt.Fprintf(&b, "%s %-9s %s\n", mark, l.Who, l.What)
	}
	return b.String()
}

// journey is a message that fails once, beside another one, and is acked too early.
func journey() []Event {
	l := New()
	for _, e := range []Event{
		{Kind: ProcessStarted, Process: "consumer"},
		{Kind: QueueDeclared, Process: "consumer", Broker: true, Queue: "jobs", Method: &frame.QueueDeclare{Queue: "jobs"}},
		{Kind: Published, Message: "m1", Key: "jobs"},
		{Kind: Published, Message: "m2", Exchange: "orders", Key: "k"},
		{Kind: Confirmed, Broker: true, Covers: []int{3, 4}, Multiple: true},
		{Kind: Delivered, Process: "consumer", Broker: true, Message: "m1", Queue: "jobs"},
		{Kind: Delivered, Process: "consumer", Broker: true, Message: "m2", Queue: "jobs", Redelivered: true},
		{Kind: HandlerCalled, Process: "consumer", Consumer: "worker", Message: "m1"},
		{Kind: HandlerSettled, Process: "consumer", Message: "m1", Verdict: "fail", Text: "panic"},
		{Kind: Published, Process: "consumer", Message: "m1", Exchange: "retry.100", Key: "jobs", Confirms: true},
		{Kind: Acked, Process: "consumer", Covers: []int{6}},
		{Kind: ConfirmArrived, Process: "consumer", Broker: true, Covers: []int{10}},
		{Kind: Confirmed, Process: "consumer", Broker: true, Covers: []int{10}},
		{Kind: Nacked, Process: "consumer", Covers: []int{7}, Requeue: true},
		{Kind: ChannelClosed, Process: "consumer", Broker: true, Channel: 1, Conn: 2, Code: 406, Text: "PRECONDITION_FAILED"},
		{Kind: ChannelClosed, Channel: 1, Conn: 1},
		{Kind: Drained, Broker: true, Message: "m1", Queue: "parked.jobs"},
		{Kind: ProcessExited, Process: "consumer", Text: "exited with code 2"},
	} {
		l.Add(e)
	}
	return l.Events()
}

func TestTimelineOfOneMessage(t *testing.T) {
	want := `  parkproof starts the process "consumer"
  publisher publishes m1 to queue "jobs"
  broker    confirms m1, m2 (multiple)
> broker    delivers m1 from queue "jobs"
  handler   of "worker" is called with m1
  handler   fails (panic) with m1
  consumer  publishes a copy of m1 to exchange "retry.100" with key "jobs"
> consumer  acks m1
  parkproof holds the confirm of the copy of m1 for a moment
  broker    confirms the copy of m1 to the consumer
  broker    closes channel 1 of connection 2 with 406 PRECONDITION_FAILED
  parkproof finds m1 in queue "parked.jobs"
  consumer  process "consumer" ends: exited with code 2
`
	if got := told(Timeline(journey(), []string{"m1"}, []int{6, 11})); got != want {
		t.Errorf("the timeline of m1 is\n%s\nwant\n%s", got, want)
	}
}

func TestTimelineOfAllMessages(t *testing.T) {
	got := told(Timeline(journey(), nil, nil))
	for _, line := range []string{
		`  publisher publishes m2 to exchange "orders" with key "k"`,
		`  broker    redelivers m2 from queue "jobs"`,
		`  consumer  hands back m2`,
	} {
		if !strings.Contains(got, line+"\n") {
			t.Errorf("the timeline of all lacks %q:\n%s", line, got)
		}
	}
	if strings.Contains(got, "connection 1") {
		t.Errorf("the timeline tells of parkproof's own channel:\n%s", got)
	}
}

// What a confirm or an ack with multiple covers is followed on the wire and then told.
func TestTellsWhatMultipleCovers(t *testing.T) {
	c := newTalk(t)
	c.confirming()
	c.client(&frame.BasicConsume{Queue: "jobs", ConsumerTag: "t"})
	c.broker(&frame.BasicConsumeOk{ConsumerTag: "t"})
	last := func() string {
		events := c.ledger.Events()
		who, what := Tell(events, events[len(events)-1])
		return who + " " + what
	}
	for n := range uint64(9) {
		c.client(publish(fmt.Sprintf("m%d", n+1), "x", "k"))
		c.broker(deliver(fmt.Sprintf("d%d", n+1), "t", n+1))
	}
	for _, step := range []struct {
		broker bool
		m      frame.Method
		want   string
	}{
		{true, &frame.BasicAck{DeliveryTag: 5, Multiple: true}, "broker confirms the copy of m1, the copy of m2, the copy of m3 and 2 more (multiple) to the consumer"},
		{true, &frame.BasicAck{DeliveryTag: 6, Multiple: true}, "broker confirms the copy of m6 (multiple) to the consumer"},
		{true, &frame.BasicAck{DeliveryTag: 7}, "broker confirms the copy of m7 to the consumer"},
		{true, &frame.BasicNack{Multiple: true}, "broker refuses the copy of m8, the copy of m9 (multiple) to the consumer (basic.nack)"},
		{true, &frame.BasicAck{Multiple: true}, "broker confirms nothing (multiple, tag 0) to the consumer"},
		{false, &frame.BasicAck{DeliveryTag: 2, Multiple: true}, "consumer acks d1, d2 (multiple)"},
		{false, &frame.BasicAck{DeliveryTag: 2, Multiple: true}, "consumer acks nothing (multiple, up to tag 2)"},
		{false, &frame.BasicAck{DeliveryTag: 2}, "consumer acks tag 2, which nothing was sent with"},
		{false, &frame.BasicNack{DeliveryTag: 4, Multiple: true, Requeue: true}, "consumer hands back d3, d4 (multiple) (basic.nack)"},
		{false, &frame.BasicReject{DeliveryTag: 5, Requeue: true}, "consumer hands back d5 (basic.reject)"},
		{false, &frame.BasicReject{DeliveryTag: 6}, "consumer rejects d6 without requeue"},
		{false, &frame.BasicNack{DeliveryTag: 7}, "consumer rejects d7 without requeue (basic.nack)"},
		{false, &frame.BasicAck{Multiple: true}, "consumer acks d8, d9 (multiple)"},
		{false, &frame.BasicRecover{Requeue: true}, "consumer hands back nothing (multiple, tag 0) (basic.recover)"},
	} {
		c.say(step.broker, 1, step.m)
		if got := last(); got != step.want {
			t.Errorf("%s is told as\n%s\nwant\n%s", step.m.Name(), got, step.want)
		}
	}
}

func TestTellsOfConnections(t *testing.T) {
	events := history(t, `
		open conn 3
		channel 1 conn 3
		subscribe a conn 3
		silence conn 3
		silence broker conn 3
		cancel a conn 3 broker
		close channel 404 conn 3
		lose conn 3
		open conn 4
		lose conn 4 cut
		open conn 5
		close connection 200 conn 5 client
	`)
	want := `  consumer  opens connection 3
  consumer  opens channel 1 of connection 3
  consumer  consumes queue "a"
  consumer  misses a heartbeat on connection 3: it has been silent for 4s
  broker    misses a heartbeat on connection 3: it has been silent for 4s
  broker    cancels the consumer of queue "a"
  broker    closes channel 1 of connection 3 with 404 BECAUSE
  consumer  loses connection 3: gone
  consumer  opens connection 4
  parkproof cuts connection 4
  consumer  opens connection 5
  consumer  closes connection 5 with 200 BECAUSE
`
	// They concern every message.
	if got := told(Timeline(events, []string{"m1"}, nil)); got != want {
		t.Errorf("the timeline is\n%s\nwant\n%s", got, want)
	}
	lost := Event{Kind: ConnectionLost, Process: "p", Conn: 2, Text: CutByParkproof + ": bytes of it are lost"}
	if who, what := Tell(nil, lost); who+" "+what != "parkproof cuts connection 2: bytes of it are lost" {
		t.Errorf("a cut is told as %s %s", who, what)
	}
	for i := range events {
		events[i].Process = ""
	}
	if got := told(Timeline(events, nil, nil)); got != "" {
		t.Errorf("the timeline tells of parkproof's own connections:\n%s", got)
	}
}

// The lines around a fault are told whatever message they are of, and those further away are not.
func TestTimelineAroundAFault(t *testing.T) {
	l := New()
	for n := range 100 {
		if n == 50 {
			// One firing that touches two messages.
			l.Add(Event{Kind: Fired, Process: "p", Conn: 1, Message: "m1", Text: "a confirm is dropped"})
			l.Add(Event{Kind: Fired, Process: "p", Conn: 1, Message: "m2", Text: "a confirm is dropped"})
		}
		l.Add(Event{Kind: Published, Message: fmt.Sprintf("other%d", n), Key: "a"})
		if n%25 == 0 {
			l.Add(Event{Kind: Published, Message: "m1", Key: "a"})
		}
	}
	var want strings.Builder
	line := func(format string, values ...any) { fmt.Fprintf(&want, format+"\n", values...) }
	line(`  publisher publishes m1 to queue "a"`)
	line(`  publisher publishes m1 to queue "a"`)
	for n := 50 - aroundFault; n < 50; n++ {
		line(`  publisher publishes other%d to queue "a"`, n)
	}
	line(`> parkproof a confirm is dropped`)
	line(`  publisher publishes other50 to queue "a"`)
	line(`  publisher publishes m1 to queue "a"`)
	for n := 51; n < 50+aroundFault-1; n++ {
		line(`  publisher publishes other%d to queue "a"`, n)
	}
	line(`  publisher publishes m1 to queue "a"`)
	if got := told(Timeline(l.Events(), []string{"m1"}, nil)); got != want.String() {
		t.Errorf("the timeline is\n%s\nwant\n%s", got, want.String())
	}
}

func TestTouched(t *testing.T) {
	for script, want := range map[string]string{
		"publish m1 /a":                 "[] false",
		"fire m1 \n fire m2 \n fire m1": "[m1 m2] true",
		"fire m1 \n fire":               "[] true", // all that was on its way
		"fire \n fire m1":               "[] true",
	} {
		messages, fired := Touched(history(t, script))
		if got := fmt.Sprint(messages, fired); got != want {
			t.Errorf("%q touches %s, want %s", script, got, want)
		}
	}
}
