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
  broker    confirms m1, m2
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
