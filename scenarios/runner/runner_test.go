package runner

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"github.com/cucumber/godog"

	"github.com/parkproof/parkproof/reports"
	"github.com/parkproof/parkproof/scenarios/adapter"
	"github.com/parkproof/parkproof/scenarios/adapter/protocol"
	"github.com/parkproof/parkproof/scenarios/broker"
	"github.com/parkproof/parkproof/scenarios/ledger"
	"github.com/parkproof/parkproof/steps"
)

const password = "s3cr/t"

// fakePlatform is a broker that is only looked at.
type fakePlatform struct{ shared bool }

func (fakePlatform) Name() string                   { return "fake" }
func (fakePlatform) Version() string                { return "3.10.8" }
func (p fakePlatform) Can(c broker.Capability) bool { return !p.shared || c != broker.Vhosts }
func (fakePlatform) Hide(text string) string        { return strings.ReplaceAll(text, password, "***") }

// fakeWorld is a world whose steps come to what their text says.
type fakeWorld struct {
	account        ledger.Account
	late           error // of a check that a step leaves for the end
	settle, closed error
	breach         error
	hang           bool // Settle waits for the case's end
	checks         int
	ran            []string
	onClose        func()
}

func (w *fakeWorld) Settle(ctx context.Context) error {
	if w.hang {
		<-ctx.Done()
		return fmt.Errorf("draining the queues: %w", ctx.Err())
	}
	return w.settle
}
func (w *fakeWorld) Account() (ledger.Account, int, error) { return w.account, 0, w.late }
func (w *fakeWorld) Checks() int                           { return w.checks }
func (w *fakeWorld) Breach() error                         { return w.breach }
func (w *fakeWorld) Events() []ledger.Event                { return nil }
func (w *fakeWorld) Warnings() []string                    { return []string{"it said " + password} }
func (w *fakeWorld) Logs() []string                        { return []string{"the consumer's log"} }
func (w *fakeWorld) Close(context.Context) error {
	if w.onClose != nil {
		w.onClose()
	}
	return w.closed
}

func (w *fakeWorld) Register(sc steps.Words) {
	for text, err := range map[string]error{
		"it works":                nil,
		"it fails":                &steps.Failure{Expected: "m1 with " + password, Seen: "nothing", Message: "m1"},
		"it wraps its failure":    fmt.Errorf("waiting: %w", &steps.Failure{Expected: "a", Seen: "b"}),
		"it is not supported":     &steps.Unsupported{What: "parking"},
		"it does not apply":       &steps.NotApplicable{Why: "there are no quorum queues"},
		"it is not known":         &steps.Unknown{Why: "no copy was seen"},
		"it breaks":               errors.New("the channel to " + password + " is closed"),
		"it breaks the protocol":  fmt.Errorf("asking: %w", &adapter.BrokenError{Text: "the adapter did not answer init in time"}),
		"its adapter ends":        &adapter.ExitedError{Verb: "init", Status: "exited with code 3", Log: "no broker"},
		"it is pending":           godog.ErrPending,
		"it is skipped":           godog.ErrSkip,
		"it is seen in the end":   nil,
		"it is defined twice now": nil,
	} {
		sc.Step("^"+text+"$", func() error {
			w.ran = append(w.ran, text)
			if text == "it is seen in the end" {
				w.checks++
			}
			return err
		})
	}
	sc.Step("^it is defined (twice|once) now$", func(string) error { return nil })
	sc.Step("^it panics$", func() error { panic("index out of range with " + password) })
	sc.Step("^it waits for its end$", func(ctx context.Context) error {
		<-ctx.Done()
		return &steps.Failure{Expected: "m1 parked", Seen: "it is not there"}
	})
}

// caseOf is a case of these steps, with a step that works before and after.
func caseOf(t *testing.T, id, tags string, texts ...string) *Case {
	t.Helper()
	text := fmt.Sprintf("Feature: Things\n\n  @%s %s @source:C32\n  Scenario: The case %s\n    It matters.\n\n", id, tags, id)
	for _, step := range texts {
		text += "    * " + step + "\n"
	}
	cases, err := Load(fstest.MapFS{"things.feature": &fstest.MapFile{Data: []byte(text)}})
	if err != nil {
		t.Fatal(err)
	}
	return cases[0]
}

func opening(w world, err error) func(context.Context, steps.Settings) (world, error) {
	return func(context.Context, steps.Settings) (world, error) { return w, err }
}

func TestVerdicts(t *testing.T) {
	finding := ledger.Account{Deliveries: 1, Findings: []ledger.Finding{{Guarantee: "nothing is lost", Message: "m1", Text: "m1 has no fate, " + password}}}
	unseen := ledger.Account{Entries: []ledger.Entry{{Message: "m1", Fate: ledger.Lost}}}
	for _, tt := range []struct {
		name, level string
		step        string
		world       fakeWorld
		opens       error
		verdict     reports.Verdict
		reason      string
		status      string // of the step
	}{
		{name: "passes", step: "it works", verdict: reports.Passed, status: "passed"},
		{name: "failure", step: "it fails", verdict: reports.Failed, reason: "expected m1 with ***, seen nothing", status: "failed"},
		{name: "wrapped failure", step: "it wraps its failure", verdict: reports.Failed, reason: "expected a, seen b", status: "failed"},
		{name: "unsupported must", step: "it is not supported", verdict: reports.Failed, reason: "the adapter does not support parking", status: "broken"},
		{name: "unsupported should", level: "@should", step: "it is not supported", verdict: reports.Unsupported, reason: "the adapter does not support parking", status: "broken"},
		{name: "not applicable", step: "it does not apply", verdict: reports.NotApplicable, reason: "there are no quorum queues", status: "broken"},
		{name: "unknown", step: "it is not known", verdict: reports.Unknown, reason: "no copy was seen", status: "broken"},
		{name: "unknown, and the accounting knows why", step: "it is not known", world: fakeWorld{account: finding}, verdict: reports.Failed, reason: "m1 has no fate, ***", status: "broken"},
		{name: "broken", step: "it breaks", verdict: reports.Broken, reason: "the channel to *** is closed", status: "broken"},
		{name: "breach in a step", step: "it breaks the protocol", verdict: reports.Broken, reason: "the adapter did not answer init in time", status: "broken"},
		{name: "adapter ends", step: "its adapter ends", verdict: reports.Broken, reason: "the adapter ended (exited with code 3) before it answered init; its last words: no broker", status: "broken"},
		{name: "panic", step: "it panics", verdict: reports.Broken, reason: "index out of range with ***", status: "broken"},
		{name: "undefined", step: "it has no words", verdict: reports.Broken, reason: "step is undefined: it has no words", status: "broken"},
		{name: "ambiguous", step: "it is defined twice now", verdict: reports.Broken, reason: "ambiguous step definition", status: "broken"},
		{name: "pending", step: "it is pending", verdict: reports.Broken, reason: "pending", status: "broken"},
		{name: "skipped", step: "it is skipped", verdict: reports.Broken, reason: "skipped", status: "broken"},
		{name: "time over in a step", step: "it waits for its end", verdict: reports.Broken, reason: "the case did not end in its time: context deadline exceeded: expected m1 parked", status: "broken"},
		{name: "time over while settling", step: "it works", world: fakeWorld{hang: true}, verdict: reports.Broken, reason: "the case did not end in its time: settling: draining the queues", status: "passed"},
		{name: "no world", step: "it works", opens: errors.New("making the virtual host with " + password), verdict: reports.Broken, reason: "making the virtual host with ***", status: "skipped"},
		{name: "finding", step: "it works", world: fakeWorld{account: finding}, verdict: reports.Failed, reason: "m1 has no fate, ***", status: "passed"},
		{name: "failure before finding", step: "it fails", world: fakeWorld{account: finding}, verdict: reports.Failed, reason: "expected m1 with ***", status: "failed"},
		{name: "late failure", step: "it is seen in the end", world: fakeWorld{late: &steps.Failure{Expected: "once", Seen: "twice"}}, verdict: reports.Failed, reason: "expected once, seen twice", status: "failed"},
		{name: "late error", step: "it is seen in the end", world: fakeWorld{late: errors.New("no book")}, verdict: reports.Broken, reason: "no book", status: "failed"},
		{name: "late unknown", step: "it is seen in the end", world: fakeWorld{late: &steps.Unknown{Why: "nothing to see"}}, verdict: reports.Unknown, reason: "nothing to see", status: "failed"},
		{name: "breach", step: "it works", world: fakeWorld{breach: &adapter.BrokenError{Text: "it answered twice"}}, verdict: reports.Broken, reason: "it answered twice", status: "passed"},
		{name: "breach and failure", step: "it fails", world: fakeWorld{breach: &adapter.BrokenError{Text: "it answered twice"}}, verdict: reports.Broken, reason: "it answered twice", status: "failed"},
		{name: "breach after unsupported", step: "it is not supported", world: fakeWorld{breach: &adapter.BrokenError{Text: "it answered twice"}}, verdict: reports.Broken, reason: "it answered twice", status: "broken"},
		{name: "settling breaks", step: "it works", world: fakeWorld{settle: errors.New("the queues are gone")}, verdict: reports.Broken, reason: "settling: the queues are gone", status: "passed"},
		{name: "settling breaks after a failure", step: "it fails", world: fakeWorld{settle: errors.New("the queues are gone")}, verdict: reports.Failed, reason: "expected m1", status: "failed"},
		{name: "nothing was delivered", step: "it works", world: fakeWorld{account: unseen}, verdict: reports.Unknown, reason: "no delivery was observed", status: "passed"},
		{name: "cleaning fails", step: "it works", world: fakeWorld{closed: errors.New("the virtual host stays")}, verdict: reports.Broken, reason: "the virtual host stays", status: "passed"},
		{name: "cleaning fails after a failure", step: "it fails", world: fakeWorld{closed: errors.New("the virtual host stays")}, verdict: reports.Failed, reason: "expected m1", status: "failed"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			level := tt.level
			if level == "" {
				level = "@must"
			}
			w := &tt.world
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			if strings.HasPrefix(tt.name, "time over") {
				ctx, cancel = context.WithTimeout(t.Context(), 50*time.Millisecond)
			}
			defer cancel()
			s := &scenario{of: caseOf(t, "TST-001", level, "it works", tt.step, "it works"), broker: fakePlatform{}, open: opening(w, tt.opens)}
			got := s.run(ctx)
			if got.Verdict != tt.verdict || !strings.Contains(got.Reason, tt.reason) || (tt.reason == "") != (got.Reason == "") {
				t.Errorf("%s, because %q; want %s, because %q", got.Verdict, got.Reason, tt.verdict, tt.reason)
			}
			if got.Steps[1].Status != tt.status {
				t.Errorf("the step is %+v", got.Steps[1])
			}
			if tt.opens == nil && got.Steps[0].Status != "passed" {
				t.Errorf("the step before is %+v", got.Steps[0])
			}
			if after := got.Steps[2].Status; (tt.status == "passed" || strings.HasPrefix(tt.name, "late")) != (after == "passed") {
				t.Errorf("the step after is %s", after)
			}
			if strings.Contains(fmt.Sprintf("%+v", got), password) {
				t.Errorf("the record holds the password: %+v", got)
			}
			if tt.opens == nil && (len(got.ConsumerLog) == 0) != (tt.verdict == reports.Passed) && tt.name != "cleaning fails" {
				t.Errorf("the log of a case that %s: %q", got.Verdict, got.ConsumerLog)
			}
		})
	}
}

func TestFindingsThatAreAlikeAreSaidOnceAndCounted(t *testing.T) {
	w := &fakeWorld{account: ledger.Account{Deliveries: 1}}
	for i := range 20 {
		w.account.Findings = append(w.account.Findings, ledger.Finding{Guarantee: "nothing is lost", Message: fmt.Sprint("m", i), Text: fmt.Sprintf("m%d is lost", i)})
	}
	w.account.Findings = append(w.account.Findings, w.account.Findings[0])
	s := &scenario{of: caseOf(t, "TST-001", "@must", "it works"), broker: fakePlatform{}, open: opening(w, nil)}
	got := s.run(t.Context())
	if len(got.Findings) != shownFindings || !strings.HasSuffix(got.Findings[0].Text, "(and 15 more like it)") {
		t.Errorf("%+v", got.Findings)
	}
}

// TestACaseOfWhichNothingRanIsBroken: godog runs no step where its tags select none.
func TestACaseOfWhichNothingRanIsBroken(t *testing.T) {
	c := caseOf(t, "TST-001", "@must", "it works", "it works")
	c.ID = "TST-002"
	s := &scenario{of: c, broker: fakePlatform{}, open: opening(&fakeWorld{}, nil)}
	if got := s.run(t.Context()); got.Verdict != reports.Broken || !strings.Contains(got.Reason, "only 0 of the case's 2 steps were run") {
		t.Errorf("%s, %s", got.Verdict, got.Reason)
	}
}

func TestNeeds(t *testing.T) {
	for _, tt := range []struct {
		tags  string
		steps []string
		want  []string
	}{
		{"@must", []string{"it works"}, nil},
		{"@must @quorum @verdicts", []string{"it works"}, []string{protocol.CanQuorum, protocol.CanVerdicts, protocol.CanPark}},
	} {
		var settings steps.Settings
		s := &scenario{of: caseOf(t, "TST-001", tt.tags, tt.steps...), broker: fakePlatform{}, open: func(_ context.Context, got steps.Settings) (world, error) {
			settings = got
			return &fakeWorld{}, nil
		}}
		s.run(t.Context())
		slices.Sort(settings.Needs)
		slices.Sort(tt.want)
		if !slices.Equal(settings.Needs, tt.want) || settings.Case != "TST-001" {
			t.Errorf("%s: %+v", tt.tags, settings)
		}
	}
	for text, want := range map[string]bool{
		`"m1" is parked once`: true, `the parking queue of "worker" is durable`: true, `"m1" made no hop`: false,
	} {
		if got := mentionsParking(Step{Keyword: "Then", Text: text}); got != want {
			t.Errorf("%s: %t", text, got)
		}
		if mentionsParking(Step{Keyword: "Given", Text: text}) {
			t.Errorf("Given %s asks for parking", text)
		}
	}
}

// recorded is a progress that keeps what it is shown.
type recorded struct {
	mu      sync.Mutex
	lines   []string
	started []string
	ended   []reports.Case
}

func (p *recorded) Line(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lines = append(p.lines, text)
}
func (p *recorded) Begin(int) {}
func (p *recorded) End()      {}
func (p *recorded) CaseStarted(id, _, _ string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.started = append(p.started, id)
}

func (p *recorded) CaseEnded(c reports.Case) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ended = append(p.ended, c)
}

// fakeRun runs cases on a fake broker; worlds gives each try its world.
func fakeRun(ctx context.Context, p *recorded, parallel int, on fakePlatform, cases []*Case, worlds func(id string, try int) (world, error)) *brokerRun {
	var mu sync.Mutex
	tries := map[string]int{}
	r := &brokerRun{
		began: time.Now(), options: Options{Cases: cases, Parallel: parallel, Timeout: 10 * time.Second, Progress: p},
		open: func(_ context.Context, s steps.Settings) (world, error) {
			mu.Lock()
			tries[s.Case]++
			try := tries[s.Case]
			mu.Unlock()
			return worlds(s.Case, try)
		},
	}
	r.on(ctx, on, time.Now())
	return r
}

func verdicts(r *brokerRun) string {
	var all []string
	for _, c := range r.cases {
		all = append(all, fmt.Sprintf("%s %s %d", c.ID, c.Verdict, c.Try))
	}
	return strings.Join(all, ", ")
}

func TestWhatIsBrokenIsTriedAgainOnce(t *testing.T) {
	p := &recorded{}
	cases := []*Case{
		caseOf(t, "TST-001", "@must", "it works"), caseOf(t, "TST-002", "@must", "it breaks"),
		caseOf(t, "TST-003", "@must", "it fails"), caseOf(t, "TST-004", "@must", "it works"),
	}
	r := fakeRun(t.Context(), p, 1, fakePlatform{}, cases, func(id string, try int) (world, error) {
		if id == "TST-004" && try == 1 {
			return nil, errors.New("the broker stumbled\nand fell")
		}
		return &fakeWorld{}, nil
	})
	if got, want := verdicts(r), "TST-001 passed 1, TST-002 broken 2, TST-003 failed 1, TST-004 passed 2"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	want := []string{"TST-002 is tried again: the channel to *** is closed", "TST-004 is tried again: the broker stumbled"}
	if !slices.Equal(p.lines, want) {
		t.Errorf("%q", p.lines)
	}
	if len(p.started) != 6 || len(p.ended) != 4 {
		t.Errorf("%d were started, %d ended", len(p.started), len(p.ended))
	}
}

func TestTheOrderOfTheFeaturesIsTheOrderOfTheRecord(t *testing.T) {
	p := &recorded{}
	var cases []*Case
	for i := range 20 {
		tags := "@must"
		if i >= 15 {
			tags += " @slow"
		}
		cases = append(cases, caseOf(t, fmt.Sprintf("TST-%03d", i), tags, "it works"))
	}
	r := fakeRun(t.Context(), p, 1, fakePlatform{}, cases, func(string, int) (world, error) { return &fakeWorld{}, nil })
	for i, c := range r.cases {
		if c.ID != cases[i].ID {
			t.Errorf("place %d is %s", i, c.ID)
		}
	}
	if p.started[0] != "TST-015" || p.started[5] != "TST-000" {
		t.Errorf("slow cases begin first: %v", p.started)
	}
}

func TestCasesRunSideBySideAndOneByOneWhereTheyShare(t *testing.T) {
	for _, shared := range []bool{false, true} {
		var cases []*Case
		for i := range 12 {
			cases = append(cases, caseOf(t, fmt.Sprintf("TST-%03d", i), "@must", "it works"))
		}
		var mu sync.Mutex
		open, peak := 0, 0
		together := make(chan struct{})
		r := fakeRun(t.Context(), &recorded{}, 4, fakePlatform{shared: shared}, cases, func(string, int) (world, error) {
			mu.Lock()
			open++
			peak = max(peak, open)
			if open == 4 && peak == 4 && !shared {
				select {
				case <-together:
				default:
					close(together)
				}
			}
			mu.Unlock()
			if !shared {
				<-together // all four have come
			}
			return &fakeWorld{onClose: func() { mu.Lock(); open--; mu.Unlock() }}, nil
		})
		if want := map[bool]int{false: 4, true: 1}[shared]; peak != want || len(r.cases) != 12 {
			t.Errorf("shared %t: %d side by side, %d cases", shared, peak, len(r.cases))
		}
	}
}

func TestCasesThatDoNotApplyAreNotRun(t *testing.T) {
	p := &recorded{}
	cases := []*Case{
		caseOf(t, "TST-001", "@must @broker:>=4.0", "it works"), caseOf(t, "TST-002", "@must @counts-queues", "it works"),
		caseOf(t, "TST-003", "@must @broker:>=3.8,<4", "it works"),
	}
	r := fakeRun(t.Context(), p, 2, fakePlatform{shared: true}, cases, func(string, int) (world, error) { return &fakeWorld{}, nil })
	if got, want := verdicts(r), "TST-001 not-applicable 0, TST-002 not-applicable 0, TST-003 passed 1"; got != want {
		t.Errorf("%s", got)
	}
	if r.cases[0].Reason != "it is about RabbitMQ >=4.0, and this is 3.10.8" || !strings.Contains(r.cases[1].Reason, "counts the queues") {
		t.Errorf("%q, %q", r.cases[0].Reason, r.cases[1].Reason)
	}
	if !slices.Equal(p.started, []string{"TST-003"}) {
		t.Errorf("started: %v", p.started)
	}
}

// TestAnAdapterThatNeverAnswersIsGivenUp: a hundred cases would each wait for it in vain.
func TestAnAdapterThatNeverAnswersIsGivenUp(t *testing.T) {
	for _, step := range []string{"it breaks the protocol", "its adapter ends"} {
		p := &recorded{}
		var cases []*Case
		for i := range 30 {
			cases = append(cases, caseOf(t, fmt.Sprintf("TST-%03d", i), "@must", step))
		}
		r := fakeRun(t.Context(), p, 1, fakePlatform{}, cases, func(string, int) (world, error) { return &fakeWorld{}, nil })
		if len(r.cases) != 30 || len(p.started) != 2 || len(p.ended) != 30 {
			t.Errorf("%d cases, %d started, %d ended", len(r.cases), len(p.started), len(p.ended))
		}
		last := r.cases[29]
		if last.Verdict != reports.Broken || !strings.HasPrefix(last.Reason, "the adapter cannot be used: the adapter ") {
			t.Errorf("%s, %q", last.Verdict, last.Reason)
		}
	}
}

func TestAnAdapterThatAnsweredOnceIsNotGivenUp(t *testing.T) {
	p := &recorded{}
	var cases []*Case
	for i := range 5 {
		cases = append(cases, caseOf(t, fmt.Sprintf("TST-%03d", i), "@must", "it breaks the protocol"))
	}
	r := &brokerRun{options: Options{Cases: cases, Parallel: 1, Timeout: time.Second, Progress: p}, open: opening(&fakeWorld{}, nil)}
	r.isReady(protocol.Ready{Name: "fake"})
	r.on(t.Context(), fakePlatform{}, time.Now())
	if len(p.started) != 10 {
		t.Errorf("%d were started", len(p.started))
	}
}

func TestAnInterruptedRunKeepsWhatItHas(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	p := &recorded{}
	var cases []*Case
	for i := range 10 {
		cases = append(cases, caseOf(t, fmt.Sprintf("TST-%03d", i), "@must", "it works"))
	}
	r := fakeRun(ctx, p, 1, fakePlatform{}, cases, func(id string, _ int) (world, error) {
		if id == "TST-003" {
			cancel()
		}
		return &fakeWorld{}, nil
	})
	if len(r.cases) != 3 || len(p.started) > 5 {
		t.Errorf("%s; started: %v", verdicts(r), p.started)
	}
	// The whole run says so, whatever the cases came to.
	gone, stop := context.WithCancel(t.Context())
	stop()
	spec, err := broker.Parse("local")
	if err != nil {
		t.Fatal(err)
	}
	run := Run(gone, Options{Cases: cases, Brokers: []broker.Spec{spec}, Parallel: 1, Timeout: time.Second, Progress: p})
	if !run.Interrupted || run.ExitCode != reports.ExitBroken || len(run.Cases) != 0 {
		t.Errorf("%+v", run)
	}
}

func TestExitCodeOfARun(t *testing.T) {
	passed, failed := reports.Case{Verdict: reports.Passed}, reports.Case{Verdict: reports.Failed}
	for _, tt := range []struct {
		name string
		run  reports.Run
		want int
	}{
		{"passed", reports.Run{Cases: []reports.Case{passed}}, reports.ExitPassed},
		{"nothing", reports.Run{}, reports.ExitUnknown},
		{"failed", reports.Run{Cases: []reports.Case{passed, failed}}, reports.ExitFailed},
		{"interrupted", reports.Run{Cases: []reports.Case{passed}, Interrupted: true}, reports.ExitBroken},
		{"failed, then interrupted", reports.Run{Cases: []reports.Case{failed}, Interrupted: true}, reports.ExitFailed},
		{"no broker", reports.Run{Cases: []reports.Case{passed}, Brokers: []reports.Broker{{Error: "away"}}}, reports.ExitBroken},
	} {
		if got := exitCode(&tt.run); got != tt.want {
			t.Errorf("%s: %d, want %d", tt.name, got, tt.want)
		}
	}
}

func TestABrokerThatCannotBeHad(t *testing.T) {
	spec, err := broker.Parse("amqp://user:s3cr%2Ft@127.0.0.1:1/")
	if err != nil {
		t.Fatal(err)
	}
	p := &recorded{}
	run := Run(t.Context(), Options{
		Cases: []*Case{caseOf(t, "TST-001", "@must", "it works")}, Brokers: []broker.Spec{spec}, Parallel: 1, Timeout: time.Second, Progress: p,
	})
	if run.ExitCode != reports.ExitBroken || run.Interrupted || len(run.Brokers) != 1 || !strings.Contains(run.Brokers[0].Error, "cannot be reached") {
		t.Errorf("%+v", run)
	}
	if len(run.Cases) != 1 || run.Cases[0].Verdict != reports.Broken || !strings.HasPrefix(run.Cases[0].Reason, "the broker could not be had: ") {
		t.Errorf("%+v", run.Cases)
	}
	if text := fmt.Sprintf("%+v %v", run, p.lines); strings.Contains(text, "s3cr") {
		t.Error(text)
	}
}
