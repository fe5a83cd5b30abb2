package reports

import (
	"bytes"
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"
)

// ways are those of most points.
var ways = []string{"cut before", "cut after", "cut unseen", "killed"}

// passes are outcomes that passed, with so many more copies each.
func passes(copies ...int) []Outcome {
	var all []Outcome
	for i, n := range copies {
		all = append(all, Outcome{Way: append(slices.Clone(ways), "held")[i], Verdict: Passed, Copies: n, Redeliveries: 1, Seconds: 0.5})
	}
	return all
}

// ladder is a whole ladder's points: a message that is delivered, failed and published again so many times,
// over two connections.
func ladder(attempts int) []Point {
	var consuming, acks, publishing, confirms []Point
	both := func(to *[]Point, p Point, outcomes []Outcome) {
		p.Outcomes = outcomes
		*to = append(*to, p)
		p.Inside = true
		*to = append(*to, p)
	}
	for n := 1; n <= attempts; n++ {
		to := fmt.Sprintf("exchange retry.%d", n*100)
		if n == attempts {
			to = "queue jobs.parked"
		}
		acks = append(acks, Point{Connection: 1, Role: "consuming", Method: "basic.ack", Message: "m1", Where: "queue jobs", Occurrence: n, Outcomes: passes(0, 0, 0, 0)})
		both(&consuming, Point{Connection: 1, Role: "consuming", FromBroker: true, Method: "basic.deliver", Message: "m1", Where: "queue jobs", Occurrence: n}, passes(0, 0, 0, 0))
		both(&publishing, Point{Connection: 2, Role: "publishing", Method: "basic.publish", Message: "m1", Where: to, Occurrence: n}, passes(0, 1, 0, 1))
		confirms = append(confirms, Point{Connection: 2, Role: "publishing", FromBroker: true, Method: "basic.ack", Message: "m1", Where: to, Occurrence: n, Outcomes: passes(1, 0, 1, 1, 0)})
	}
	return slices.Concat(acks, consuming, publishing, confirms)
}

// explorations is a run that explored paths: one that passed, one that did not in every way there is, one
// that ended early, one that could not be recorded, and one that does not apply; with texts that mean harm.
func explorations() *Run {
	whole := Exploration{
		Path: "CRP-002", Name: "A whole ladder, to parking", Broker: "local", QueueType: "classic",
		Recorded: 42, Recordings: 3, Points: ladder(7), Seconds: 21.34,
	}

	bad := Exploration{
		Path: "CRP-001", Name: "Handled <at> once\x1b[2J", Broker: "local", QueueType: "quorum",
		Recorded: 6, Recordings: 3, Seconds: 4.26,
		Points: []Point{
			{Connection: 1, Role: "consuming", Method: "basic.consume", Where: "queue jobs", Occurrence: 1, Outcomes: passes(0, 0, 0, 0)},
			{Connection: 2, Role: "consuming", FromBroker: true, Method: "basic.deliver", Message: "m1", Where: "queue jobs", Occurrence: 1, Outcomes: passes(0, 2, 0, 0)},
			{Connection: 2, Role: "consuming", FromBroker: true, Method: "basic.deliver", Message: "m1", Where: "queue jobs", Occurrence: 1, Inside: true, Outcomes: passes(0, 0, 0, 0)},
			{Connection: 3, Method: "confirm.select", Occurrence: 1, Outcomes: passes(0, 0, 0)},
			{Connection: 2, Role: "consuming", Method: "basic.ack", Message: "m1", Where: "queue jobs", Occurrence: 1, Outcomes: passes(0, 0, 0, 0)},
			{Connection: 4, Role: "publishing", FromBroker: true, Method: "basic.ack", Message: "m1\x07", Where: "exchange retry.100", Occurrence: 2, Outcomes: passes(0, 0, 0, 0, 0)},
		},
	}
	var evidence []Case
	at := func(point, way int, v Verdict, reason string) {
		o := &bad.Points[point-1].Outcomes[way]
		o.Verdict, o.Reason = v, reason
		o.Case = fmt.Sprintf("CRP-001@%d-%d", point, way)
		c := Case{
			ID: o.Case, Name: bad.Name, Feature: "Every crash point", File: "features/chaos/crash-points.feature", Line: 9, Level: "must",
			Why: "A message must survive.", Broker: "local", Verdict: v, Reason: reason, Try: 1, Seconds: 0.5,
			Steps: []Step{{"Then ", "\"m1\" has come to its end", "failed", 1, reason}}, ConsumerLog: []string{"to amqp://guest:hunter2@127.0.0.1/"},
		}
		if v == Failed {
			c.Guarantee = "nothing is lost"
		}
		evidence = append(evidence, c)
	}
	at(2, 1, Failed, "m1 has no fate")
	at(2, 3, Failed, "m1 has no fate")
	at(3, 0, Failed, "m1 has no fate")
	at(3, 1, Unknown, "the point was never reached")
	at(5, 2, Broken, "the broker ended: amqp://guest:hunter2@127.0.0.1/ \x1b]0;owned\a")
	at(6, 4, Failed, "m1 was acked before the confirm of its copy")
	bad.Points[5].Outcomes[0].Verdict = ""      // says nothing
	bad.Points[5].Outcomes[4].Case = "CRP-001@" // and no such case is there
	evidence = evidence[:len(evidence)-1]

	early := Exploration{
		Path: "CRP-003", Name: "Parked at once", Broker: "local", QueueType: "classic", Recorded: 8, Recordings: 3, Seconds: 1,
		Points: ladder(1)[:4],
	}
	early.Points[3].Outcomes = nil
	recording := Case{
		ID: "CRP-006@recording", Name: "A whole ladder, to parking", Feature: "Every crash point", File: "features/chaos/crash-points.feature", Line: 40,
		Why: "On the way there is always a copy.", Broker: "local", Verdict: Failed, Reason: "m1 is parked twice", Try: 1, Seconds: 2,
	}
	return &Run{
		Schema: Schema, Tool: Tool{Version: "1.2.3", Go: "go1.26", System: "linux/amd64"},
		Started: time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC), Seconds: 65.4,
		Command:  []string{"parkproof", "explore"},
		Consumer: Consumer{Command: []string{"node", "adapter.mjs"}, Name: "comq"},
		Brokers: []Broker{
			{Name: "local", Provider: "local", Version: "3.10.8"},
			{Name: "3.8", Provider: "container", Version: "3.8.9"},
		},
		Cases: append(evidence, recording),
		Explorations: []Exploration{
			whole, bad, early,
			{
				Path: "CRP-006", Name: "A whole ladder, to parking", Broker: "local", QueueType: "quorum", Recordings: 3, Seconds: 2,
				Problem: "the path does not pass unbroken: m1 is parked twice", Verdict: Failed, Case: recording.ID,
			},
			{
				Path: "CRP-004", Name: "Starting up", Broker: "local", QueueType: "classic", Recordings: 3,
				Problem: "the recordings differ: one of them lacks basic.cancel",
			},
			{
				Path: "CRP-005", Name: "Handled at once", Broker: "3.8", QueueType: "quorum", Problem: "needs RabbitMQ >=3.10", Verdict: NotApplicable,
			},
		},
		ExitCode: ExitFailed,
	}
}

// allPassed is a run of one exploration that passed.
func allPassed() *Run {
	r := explorations()
	r.Brokers, r.Cases, r.Explorations, r.ExitCode = r.Brokers[:1], []Case{}, r.Explorations[:1], ExitPassed
	return r
}

func TestExplorationVerdicts(t *testing.T) {
	p := func(vs ...Verdict) (p Point) {
		for i, v := range vs {
			p.Outcomes = append(p.Outcomes, Outcome{Way: ways[i], Verdict: v})
		}
		return p
	}
	for _, tt := range []struct {
		name string
		e    Exploration
		want []Verdict
		code int
	}{
		{"nothing at all", Exploration{}, []Verdict{Unknown}, ExitUnknown},
		{"all passed", Exploration{Recorded: 1, Points: []Point{p(Passed, Passed)}}, []Verdict{Passed, Passed}, ExitPassed},
		{"all passed, and said so", Exploration{Verdict: Passed, Recorded: 1, Points: []Point{p(Passed)}}, []Verdict{Passed}, ExitPassed},
		{"failed", Exploration{Recorded: 1, Points: []Point{p(Passed, Failed, Broken)}}, []Verdict{Passed, Failed, Broken}, ExitFailed},
		{"not reached", Exploration{Recorded: 1, Points: []Point{p(Passed, Unknown)}}, []Verdict{Passed, Unknown}, ExitUnknown},
		{"no verdict", Exploration{Recorded: 1, Points: []Point{p(Passed, "", "peculiar")}}, []Verdict{Passed, Unknown, Unknown}, ExitUnknown},
		{"a point without outcomes", Exploration{Recorded: 2, Points: []Point{p(Passed), p()}}, []Verdict{Passed, Unknown}, ExitUnknown},
		{"a point that is not there", Exploration{Recorded: 3, Points: []Point{p(Passed)}}, []Verdict{Passed, Unknown, Unknown}, ExitUnknown},
		{"no point is there", Exploration{Recorded: 1}, []Verdict{Unknown}, ExitUnknown},
		{"more points than recorded", Exploration{Points: []Point{p(Passed)}}, []Verdict{Passed}, ExitPassed},
		{"a problem", Exploration{Problem: "they differ"}, []Verdict{Unknown}, ExitUnknown},
		{"a problem cannot have passed", Exploration{Problem: "they differ", Verdict: Passed, Points: []Point{p(Passed)}}, []Verdict{Unknown, Passed}, ExitUnknown},
		{"a recording failed", Exploration{Problem: "it fails", Verdict: Failed}, []Verdict{Failed}, ExitFailed},
		{"a verdict without a problem", Exploration{Verdict: Broken}, []Verdict{Broken}, ExitBroken},
		{"not applicable", Exploration{Problem: "needs more", Verdict: NotApplicable}, []Verdict{NotApplicable}, ExitUnknown},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := tt.e.Verdicts()
			if !slices.Equal(got, tt.want) {
				t.Errorf("got %v, want %v", got, tt.want)
			}
			if code := ExitCode(got); code != tt.code {
				t.Errorf("exit code %d, want %d", code, tt.code)
			}
		})
	}
}

func TestCoverage(t *testing.T) {
	all := explorations().Explorations
	for i, want := range []struct {
		c       Coverage
		percent int
		text    string
	}{
		{Coverage{Points: 42, Recorded: 42, Runs: 175, Due: 175}, 100, ""},
		{Coverage{3, 6, 21, 24, []Missed{{3, ways[1:2]}, {5, ways[2:3]}, {6, ways[:1]}}}, 87, "3 (cut after), 5 (cut unseen), 6 (cut before)"},
		// The points that were not run are due in the four ways that all others have.
		{Coverage{3, 8, 12, 32, []Missed{{Number: 4}, {Number: 5}, {Number: 6}, {Number: 7}, {Number: 8}}}, 37, "4 to 8"},
		{Coverage{}, 0, ""},
	} {
		got := all[i].Coverage()
		if !reflect.DeepEqual(got, want.c) {
			t.Errorf("%s: got %+v, want %+v", all[i].Path, got, want.c)
		}
		if got.Full() != (i == 0) || got.Percent() != want.percent || got.String() != want.text {
			t.Errorf("%s: full %t, %d %%, %q", all[i].Path, got.Full(), got.Percent(), got)
		}
	}
	never := Exploration{Recorded: 1, Points: []Point{{Outcomes: []Outcome{{Way: "killed", Verdict: Broken}, {Way: "held", Verdict: NotApplicable}}}}}
	if got, want := never.Coverage(), (Coverage{0, 1, 0, 2, []Missed{{Number: 1}}}); !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestCoverageNamesPointsBriefly(t *testing.T) {
	for want, missed := range map[string][]Missed{
		"1":             {{Number: 1}},
		"1, 2":          {{Number: 1}, {Number: 2}},
		"1 to 3, 5":     {{Number: 1}, {Number: 2}, {Number: 3}, {Number: 5}},
		"1, 2 (killed)": {{Number: 1}, {2, ways[3:]}},
		"1, 2 (killed), 3 (cut before, cut after)": {{1, ways[3:]}, {2, ways[3:]}, {3, ways[:2]}},
	} {
		if got := (Coverage{Missed: missed}).String(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestMostCopiesCountsAndWays(t *testing.T) {
	all := explorations().Explorations
	if got := []int{all[0].MostCopies(), all[1].MostCopies(), all[3].MostCopies()}; !slices.Equal(got, []int{1, 2, 0}) {
		t.Errorf("most copies %v", got)
	}
	for v, want := range map[Verdict]int{Passed: 17, Failed: 4, Unknown: 2, Broken: 1, Known: 0} {
		if got := all[1].Count(v); got != want {
			t.Errorf("%d %s, want %d", got, v, want)
		}
	}
	if got := all[1].Ways(); !slices.Equal(got, append(slices.Clone(ways), "held")) {
		t.Errorf("ways %v", got)
	}
}

func TestDescribe(t *testing.T) {
	shared := []Point{{Connection: 1, Role: "consuming"}, {Connection: 2, Role: "consuming"}}
	for _, tt := range []struct {
		beside []Point
		p      Point
		want   string
	}{
		{
			nil,
			Point{Connection: 2, Role: "publishing", Method: "basic.publish", Message: "m1", Where: "exchange retry.100", Occurrence: 1},
			"consumer -> broker basic.publish of m1 to exchange retry.100 (publishing)",
		},
		{
			shared,
			Point{Connection: 2, Role: "consuming", FromBroker: true, Method: "basic.deliver", Message: "m1", Where: "queue jobs", Occurrence: 2, Inside: true},
			"broker -> consumer inside basic.deliver #2 of m1 from queue jobs (connection 2, consuming)",
		},
		{
			nil,
			Point{Connection: 1, Role: "consuming", Method: "basic.ack", Message: "m1", Where: "queue jobs", Occurrence: 1},
			"consumer -> broker basic.ack of m1 from queue jobs (consuming)",
		},
		{
			nil,
			Point{Connection: 1, Role: "publishing", FromBroker: true, Method: "basic.ack", Message: "m1", Where: "exchange retry.100", Occurrence: 1},
			"broker -> consumer basic.ack of m1 to exchange retry.100 (publishing)",
		},
		{nil, Point{Connection: 3, Method: "queue.declare", Where: "queue jobs", Occurrence: 1}, "consumer -> broker queue.declare of queue jobs (connection 3)"},
		{nil, Point{Connection: 3, FromBroker: true, Method: "tune\x1b[1A", Occurrence: 1}, "broker -> consumer tune (connection 3)"},
	} {
		e := Exploration{Points: append(slices.Clone(tt.beside), tt.p)}
		if got := e.describe(&tt.p); got != tt.want {
			t.Errorf("got %q, want %q", got, tt.want)
		}
	}
}

func TestExplorationsAreReadAsTheyWereWritten(t *testing.T) {
	want := explorations()
	var b bytes.Buffer
	if err := want.WriteJSON(&b); err != nil {
		t.Fatal(err)
	}
	golden(t, "explorations.golden.json", b.String())
	got, err := ReadJSON(&b)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got.Explorations, want.Explorations) {
		t.Errorf("got  %+v\nwant %+v", got.Explorations, want.Explorations)
	}
}
