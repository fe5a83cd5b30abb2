package runner

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/parkproof/parkproof/reports"
	"github.com/parkproof/parkproof/scenarios/ledger"
	"github.com/parkproof/parkproof/steps"
)

// eventful is a fake world with a ledger.
type eventful struct {
	*fakeWorld
	events []ledger.Event
}

func (w eventful) Events() []ledger.Event { return w.events }

// evidenceOf is the record of a case with these events, as account leaves it.
func evidenceOf(events []ledger.Event, failure *steps.Failure, findings ...ledger.Finding) reports.Case {
	for i := range events {
		events[i].Seq, events[i].At = i+1, time.Duration(i+1)*time.Millisecond
	}
	account := ledger.Balance(events, ledger.Terms{})
	account.Findings = findings
	account.Deliveries = max(1, account.Deliveries) // without any, nothing was observed
	s := &scenario{of: &Case{ID: "A-001"}, broker: fakePlatform{}}
	s.account(eventful{&fakeWorld{}, events}, account, failure, nil)
	return s.record
}

// publishes are n publishes of a message each, with a fault before those numbers.
func publishes(n int, message string, faults ...int) []ledger.Event {
	var events []ledger.Event
	for i := range n {
		for _, at := range faults {
			if at == i {
				events = append(events, ledger.Event{Kind: ledger.Fired, Process: "p", Conn: 1, Message: message, Text: "the link is cut: " + password})
			}
		}
		events = append(events, ledger.Event{Kind: ledger.Published, Message: fmt.Sprintf("m%d", i), Key: "jobs"})
	}
	return events
}

func TestAPassedCaseWithoutAFaultKeepsNoEvidence(t *testing.T) {
	c := evidenceOf(append(publishes(3, ""), ledger.Event{Kind: ledger.ConnectionOpened, Process: "p", Conn: 1}), nil)
	if len(c.Timeline)+len(c.Connections)+len(c.Consumers) > 0 {
		t.Errorf("it keeps %+v", c)
	}
}

func TestAFaultKeepsTheTimelineOfAPassedCase(t *testing.T) {
	for name, tt := range map[string]struct {
		message string // that the fault names
		events  int
		most    int // lines
	}{
		"a short one":     {"", 60, 61},
		"a long one":      {"", 2000, shownPassed + 40},
		"of one message":  {"m7", 2000, 40},
		"of its messages": {"m999", 2000, 40},
	} {
		t.Run(name, func(t *testing.T) {
			at := tt.events / 2
			c := evidenceOf(publishes(tt.events, tt.message, at), nil)
			i := 0
			for i < len(c.Timeline) && !c.Timeline[i].Marked {
				i++
			}
			if i == len(c.Timeline) {
				t.Fatalf("the fault is not in the timeline: %+v", c.Timeline)
			}
			if m := c.Timeline[i]; m.Who != "parkproof" || m.What != "the link is cut: ***" {
				t.Errorf("the fault's line is %+v", m)
			}
			for n := 1; n <= 10; n++ {
				for _, near := range []struct{ line, message int }{{i - n, at - n}, {i + n, at + n - 1}} {
					want := fmt.Sprintf(`publishes m%d to queue "jobs"`, near.message)
					if near.line < 0 || near.line >= len(c.Timeline) || c.Timeline[near.line].What != want {
						t.Fatalf("the line %d away from the fault is not %q: %+v", near.line-i, want, c.Timeline)
					}
				}
			}
			if len(c.Timeline) > tt.most {
				t.Errorf("the timeline has %d lines, want at most %d", len(c.Timeline), tt.most)
			}
			if named := strings.Contains(fmt.Sprint(c.Timeline), "publishes m7 "); tt.message == "m7" && !named {
				t.Error("the message that the fault touched is not followed")
			}
		})
	}
}

func TestAFailedCaseFollowsItsMessagesAndItsFaults(t *testing.T) {
	c := evidenceOf(publishes(5000, "m9", 2500), &steps.Failure{Message: "m3", Expected: "a", Seen: "b"})
	all := fmt.Sprint(c.Timeline)
	for _, want := range []string{"publishes m3 ", "publishes m9 ", "the link is cut", "publishes m2490 ", "publishes m2509 "} {
		if !strings.Contains(all, want) {
			t.Errorf("the timeline lacks %q: %s", want, all)
		}
	}
	if strings.Contains(all, "publishes m4 ") {
		t.Error("the timeline tells of a message that nothing points at")
	}
	c = evidenceOf(publishes(5000, ""), &steps.Failure{Expected: "a", Seen: "b"})
	if n := len(c.Timeline); n != shownLines+1 {
		t.Errorf("a timeline of all has %d lines, want %d and one that says what is left out", n, shownLines)
	}
}

func TestWhatIsObservedIsKept(t *testing.T) {
	events := []ledger.Event{
		{Kind: ledger.ConnectionOpened, Process: "p", Conn: 1},
		{Kind: ledger.ChannelOpened, Process: "p", Conn: 1, Channel: 1},
		{Kind: ledger.Consuming, Process: "p", Conn: 1, Channel: 1, Queue: "jobs", Consumer: "t"},
		{Kind: ledger.Consuming, Process: "p", Conn: 1, Channel: 1, Queue: "jobs", Consumer: "u"},
		{Kind: ledger.Cancelled, Process: "p", Conn: 1, Channel: 1, Queue: "jobs", Consumer: "u"},
		{Kind: ledger.Delivered, Process: "p", Conn: 1, Channel: 1, Queue: "jobs", Consumer: "t", Message: "m1"},
		{Kind: ledger.HeartbeatMissed, Process: "p", Conn: 1, Broker: true, Text: "silent for 4s"},
		{Kind: ledger.ConnectionOpened, Process: "p", Conn: 2},
		{Kind: ledger.ConnectionClosed, Process: "p", Conn: 2, Broker: true, Code: 320, Text: "CONNECTION_FORCED " + password},
		{Kind: ledger.ConnectionLost, Process: "p", Conn: 3, Text: ledger.CutByParkproof},
		{Kind: ledger.ConnectionOpened, Conn: 9}, // parkproof's own
		{Kind: ledger.Fired, Process: "p", Text: "a fault"},
	}
	c := evidenceOf(events, nil)
	opened, reopened, closed, cut := 0.001, 0.008, 0.009, 0.010
	want := []reports.Connection{
		{Number: 1, Process: "p", Opened: &opened, Channels: 1, OpenChannels: 1},
		{Number: 2, Process: "p", Opened: &reopened, Closed: &closed, By: "broker", Code: 320, Text: "CONNECTION_FORCED ***"},
		{Number: 3, Process: "p", Closed: &cut, By: "parkproof", Text: ledger.CutByParkproof},
	}
	if got, want := inJSON(t, c.Connections), inJSON(t, want); got != want {
		t.Errorf("the connections are\n%s\nwant\n%s", got, want)
	}
	if got, want := fmt.Sprint(c.Consumers), "[{jobs 2 1}]"; got != want {
		t.Errorf("the consumers are %s, want %s", got, want)
	}
	if got, want := fmt.Sprint(c.Unacked), "[{m1 jobs p t 1 1}]"; got != want {
		t.Errorf("unacked are %s, want %s", got, want)
	}
	if got, want := fmt.Sprint(c.HeartbeatsMissed), "[{0.007 broker 1 silent for 4s}]"; got != want {
		t.Errorf("the heartbeats missed are %s, want %s", got, want)
	}

	var many []ledger.Event
	for n := range 150 {
		many = append(many, ledger.Event{Kind: ledger.ConnectionOpened, Process: "p", Conn: n + 1})
	}
	c = evidenceOf(append(many, ledger.Event{Kind: ledger.Fired, Text: "a fault"}), nil)
	if n := len(c.Connections); n != shownConnections || c.Connections[49].Number != 50 || c.Connections[50].Number != 101 {
		t.Errorf("of 150 connections, %d are kept: %s", n, inJSON(t, c.Connections))
	}
}

func inJSON(t *testing.T, v any) string {
	t.Helper()
	raw, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

func TestACaseWithoutADeliveryKeepsItsTimeline(t *testing.T) {
	events := publishes(3, "")
	for i := range events {
		events[i].Seq = i + 1
	}
	s := &scenario{of: &Case{ID: "A-001"}, broker: fakePlatform{}}
	s.account(eventful{&fakeWorld{}, events}, ledger.Balance(events, ledger.Terms{MayExpire: map[string]bool{"m0": true}}), nil, nil)
	if len(s.record.Timeline) != 3 {
		t.Errorf("its timeline is %+v", s.record.Timeline)
	}
}
