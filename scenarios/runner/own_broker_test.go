package runner

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/parkproof/parkproof/reports"
	"github.com/parkproof/parkproof/scenarios/broker"
	"github.com/parkproof/parkproof/steps"
)

// fakeBrokers are brokers of the pool's that only count what is done to them.
type fakeBrokers struct {
	mu       sync.Mutex
	configs  []string    // of each that was started
	fail     []error     // of the starts, in order; then none fails
	ill      map[int]int // by number, how often its next checks fail
	stuck    map[int]int // by number, how often its next stops fail
	running  map[int]bool
	peak     int
	checks   int
	users    map[int]int
	most     map[int]int // by number, the most cases that were on it at once
	settings []steps.Settings
	on       map[string][]int // by case, the numbers of the brokers that it ran on
	world    func(ctx context.Context, id string, try int) (world, error)
	tries    map[string]int
}

func newFakeBrokers() *fakeBrokers {
	return &fakeBrokers{
		ill: map[int]int{}, stuck: map[int]int{}, running: map[int]bool{}, users: map[int]int{}, most: map[int]int{},
		on: map[string][]int{}, tries: map[string]int{},
	}
}

func (f *fakeBrokers) start(ctx context.Context, config string) (*ownBroker, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.configs = append(f.configs, config)
	if len(f.fail) > 0 {
		err := f.fail[0]
		f.fail = f.fail[1:]
		if err != nil {
			return nil, err
		}
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	n := len(f.configs)
	f.running[n] = true
	f.peak = max(f.peak, len(f.running))
	return &ownBroker{
		platform: fakePlatform{},
		open:     func(ctx context.Context, s steps.Settings) (world, error) { return f.open(ctx, n, s) },
		healthy: func(context.Context) error {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.checks++
			if f.ill[n]--; f.ill[n] >= 0 {
				return fmt.Errorf("broker %d is down", n)
			}
			return nil
		},
		stop: func(context.Context) error {
			f.mu.Lock()
			defer f.mu.Unlock()
			if f.stuck[n]--; f.stuck[n] >= 0 {
				return fmt.Errorf("broker %d stays", n)
			}
			delete(f.running, n)
			return nil
		},
	}, nil
}

func (f *fakeBrokers) open(ctx context.Context, n int, s steps.Settings) (world, error) {
	f.mu.Lock()
	f.settings = append(f.settings, s)
	f.on[s.Case] = append(f.on[s.Case], n)
	f.users[n]++
	f.most[n] = max(f.most[n], f.users[n])
	f.tries[s.Case]++
	try := f.tries[s.Case]
	f.mu.Unlock()
	leave := func() { f.mu.Lock(); f.users[n]--; f.mu.Unlock() }
	if f.world == nil {
		return &fakeWorld{onClose: leave}, nil
	}
	w, err := f.world(ctx, s.Case, try)
	if err != nil {
		leave()
		return nil, err
	}
	w.(*fakeWorld).onClose = leave
	return w, nil
}

// run runs the cases, those that need no broker of their own in plain worlds.
func (f *fakeBrokers) run(ctx context.Context, p *recorded, parallel int, on platform, cases ...*Case) *brokerRun {
	r := &brokerRun{
		began: time.Now(), options: Options{Cases: cases, Parallel: parallel, Timeout: 10 * time.Second, Progress: p},
		open:  func(context.Context, steps.Settings) (world, error) { return &fakeWorld{}, nil },
		start: f.start,
	}
	r.on(ctx, on, time.Now())
	return r
}

// configured is a case with a configuration, whose file has the name in it.
func configured(t *testing.T, id, tags, config, step string) *Case {
	t.Helper()
	c := caseOf(t, id, tags, step)
	c.Config, c.config = config, "# "+config
	return c
}

func TestCasesHaveABrokerToThemselves(t *testing.T) {
	f, p := newFakeBrokers(), &recorded{}
	var cases []*Case
	for i := range 12 {
		tags := "@must @slow"
		if i%2 == 1 {
			tags = "@must @own-broker"
		}
		cases = append(cases, caseOf(t, fmt.Sprintf("TST-%03d", i), tags, "it works"))
	}
	r := f.run(t.Context(), p, 5, fakePlatform{}, cases...)
	for i, c := range r.cases {
		if c.ID != cases[i].ID || c.Verdict != reports.Passed || c.Broker != "fake" {
			t.Errorf("place %d: %s %s on %s: %s", i, c.ID, c.Verdict, c.Broker, c.Reason)
		}
	}
	if len(f.configs) > ownBrokers || f.peak > ownBrokers {
		t.Errorf("%d brokers were started, %d at once", len(f.configs), f.peak)
	}
	for n, most := range f.most {
		if most != 1 {
			t.Errorf("%d cases were on broker %d at once", most, n)
		}
	}
	if len(f.running) > 0 {
		t.Errorf("brokers run on: %v", f.running)
	}
	// The first case finds a fresh broker, each other one looks at it first.
	if len(f.settings) != 6 || f.checks != 6-len(f.configs) {
		t.Errorf("%d cases had a broker of their own, %d started and %d looked at", len(f.settings), len(f.configs), f.checks)
	}
	for _, s := range f.settings {
		if !s.Alone {
			t.Errorf("%s may not break its broker", s.Case)
		}
	}
	if !slices.Contains([]string{"TST-001", "TST-003"}, p.started[0]) {
		t.Errorf("cases with a broker of their own begin first: %v", p.started)
	}
}

// TestCasesOfTheRunGoOnWhileOthersWaitForABroker: three cases need one of the two brokers and block it
// until a case that needs none has run.
func TestCasesOfTheRunGoOnWhileOthersWaitForABroker(t *testing.T) {
	f := newFakeBrokers()
	plain := make(chan struct{})
	f.world = func(ctx context.Context, _ string, _ int) (world, error) {
		select {
		case <-plain:
			return &fakeWorld{}, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	r := &brokerRun{
		began: time.Now(), options: Options{Parallel: 3, Timeout: 10 * time.Second, Progress: &recorded{}}, start: f.start,
		open: func(context.Context, steps.Settings) (world, error) { close(plain); return &fakeWorld{}, nil },
	}
	for i := range 3 {
		r.options.Cases = append(r.options.Cases, caseOf(t, fmt.Sprintf("TST-%03d", i), "@must @own-broker", "it works"))
	}
	r.options.Cases = append(r.options.Cases, caseOf(t, "TST-009", "@must", "it works"))
	r.on(t.Context(), fakePlatform{}, time.Now())
	if got, want := verdicts(r), "TST-000 passed 1, TST-001 passed 1, TST-002 passed 1, TST-009 passed 1"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

func TestABrokerThatIsNotWellIsReplaced(t *testing.T) {
	f, p := newFakeBrokers(), &recorded{}
	f.ill[1] = 1
	r := f.run(t.Context(), p, 1, fakePlatform{}, caseOf(t, "TST-001", "@must @own-broker", "it works"),
		caseOf(t, "TST-002", "@must @own-broker", "it works"), caseOf(t, "TST-003", "@must @own-broker", "it works"))
	if got, want := verdicts(r), "TST-001 passed 1, TST-002 passed 1, TST-003 passed 1"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if on := fmt.Sprint(f.on["TST-001"], f.on["TST-002"], f.on["TST-003"]); on != "[1] [2] [2]" || len(f.running) > 0 {
		t.Errorf("they ran on %s, and %v run on", on, f.running)
	}
	if !slices.Equal(p.lines, []string{"a broker of the cases' own is replaced: broker 1 is down"}) {
		t.Errorf("%q", p.lines)
	}
}

// TestABrokenTryLooksAtItsBrokerAgain: the try may have left it down, or it may have fallen by itself.
func TestABrokenTryLooksAtItsBrokerAgain(t *testing.T) {
	f := newFakeBrokers()
	f.ill[1] = 1
	f.world = func(_ context.Context, _ string, try int) (world, error) {
		if try == 1 {
			return nil, errors.New("the broker fell")
		}
		return &fakeWorld{}, nil
	}
	r := f.run(t.Context(), &recorded{}, 1, fakePlatform{}, caseOf(t, "TST-001", "@must @own-broker", "it works"))
	if got := verdicts(r); got != "TST-001 passed 2" || fmt.Sprint(f.on["TST-001"]) != "[1 2]" {
		t.Errorf("%s, on %v", got, f.on)
	}
}

func TestCasesOfOneConfigurationShareABroker(t *testing.T) {
	f := newFakeBrokers()
	var mu sync.Mutex
	come, together := 0, make(chan struct{})
	f.world = func(ctx context.Context, _ string, _ int) (world, error) {
		mu.Lock()
		if come++; come == 3 {
			close(together)
		}
		mu.Unlock()
		select {
		case <-together:
			return &fakeWorld{}, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	var cases []*Case
	for i := range 3 {
		cases = append(cases, configured(t, fmt.Sprintf("TST-%03d", i), "@must", "small", "it works"))
	}
	r := f.run(t.Context(), &recorded{}, 3, fakePlatform{}, cases...)
	if got, want := verdicts(r), "TST-000 passed 1, TST-001 passed 1, TST-002 passed 1"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if !slices.Equal(f.configs, []string{"# small"}) || f.most[1] != 3 || len(f.running) > 0 {
		t.Errorf("started %q, %v at once, %v run on", f.configs, f.most, f.running)
	}
	for _, s := range f.settings {
		if s.Alone {
			t.Errorf("%s may break a broker that it shares", s.Case)
		}
	}
}

// TestABrokerOfAnotherConfigurationMakesRoom: there is room for two, and three are needed.
func TestABrokerOfAnotherConfigurationMakesRoom(t *testing.T) {
	f := newFakeBrokers()
	r := f.run(t.Context(), &recorded{}, 1, fakePlatform{},
		configured(t, "TST-001", "@must", "small", "it works"), configured(t, "TST-002", "@must", "large", "it works"),
		configured(t, "TST-003", "@must @own-broker", "large", "it works"), caseOf(t, "TST-004", "@must @own-broker", "it works"),
		configured(t, "TST-005", "@must", "large", "it works"))
	if got := r.cases; slices.ContainsFunc(got, func(c reports.Case) bool { return c.Verdict != reports.Passed }) {
		t.Errorf("%s", verdicts(r))
	}
	if !slices.Equal(f.configs, []string{"# small", "# large", ""}) || f.peak != 2 || len(f.running) > 0 {
		t.Errorf("started %q, %d at once, %v run on", f.configs, f.peak, f.running)
	}
}

func TestABrokerOfItsOwnThatCannotBeHad(t *testing.T) {
	f, p := newFakeBrokers(), &recorded{}
	boot := errors.New("broker local: its node ended while it started; the end of its log:\n  no space left")
	f.fail = []error{boot, nil, boot, boot, boot}
	f.ill[2] = 1
	var cases []*Case
	for i := range 6 {
		cases = append(cases, caseOf(t, fmt.Sprintf("TST-%03d", i), "@must @own-broker", "it works"))
	}
	cases = append(cases, configured(t, "TST-006", "@must", "small", "it works"), caseOf(t, "TST-007", "@must", "it works"))
	r := f.run(t.Context(), p, 1, fakePlatform{}, cases...)
	// The first is had at the second try; once it is down, no other can be had, and the third case and
	// those after it are not tried any more.
	want := "TST-000 passed 2, TST-001 broken 2, TST-002 broken 2, TST-003 broken 2, TST-004 broken 2, TST-005 broken 2, TST-006 passed 2, TST-007 passed 1"
	if got := verdicts(r); got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if len(f.configs) != 6 || len(f.running) > 0 {
		t.Errorf("%d starts, %v run on", len(f.configs), f.running)
	}
	last := r.cases[5]
	if last.Reason != "a broker of its own could not be had: broker local: its node ended while it started; the end of its log:" || last.Broker != "fake" {
		t.Errorf("%q on %q", last.Reason, last.Broker)
	}
	if !slices.Contains(p.lines, boot.Error()) {
		t.Errorf("the node's log is not shown: %q", p.lines)
	}
}

// unmanaged is a broker that parkproof did not start.
type unmanaged struct{ fakePlatform }

func (unmanaged) Can(c broker.Capability) bool { return c == broker.Vhosts }

func TestNothingIsRestartedWhereParkproofStartedNothing(t *testing.T) {
	f, p := newFakeBrokers(), &recorded{}
	r := f.run(t.Context(), p, 2, unmanaged{}, caseOf(t, "TST-001", "@must @own-broker", "it works"),
		configured(t, "TST-002", "@must", "small", "it works"), caseOf(t, "TST-003", "@must", "it works"))
	if got, want := verdicts(r), "TST-001 not-applicable 0, TST-002 not-applicable 0, TST-003 passed 1"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if !strings.Contains(r.cases[0].Reason, "it needs a broker of its own") || !strings.Contains(r.cases[1].Reason, "with the configuration small") {
		t.Errorf("%q, %q", r.cases[0].Reason, r.cases[1].Reason)
	}
	if len(f.configs) > 0 || !slices.Equal(p.started, []string{"TST-003"}) {
		t.Errorf("%d brokers, %v", len(f.configs), p.started)
	}
}

func TestAnInterruptedRunStopsItsBrokers(t *testing.T) {
	f := newFakeBrokers()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	f.world = func(_ context.Context, id string, _ int) (world, error) {
		if id == "TST-003" {
			cancel()
		}
		return &fakeWorld{}, nil
	}
	var cases []*Case
	for i := range 10 {
		cases = append(cases, caseOf(t, fmt.Sprintf("TST-%03d", i), "@must @own-broker", "it works"))
	}
	r := f.run(ctx, &recorded{}, 4, fakePlatform{}, cases...)
	if len(f.configs) == 0 || len(f.running) > 0 || len(r.cases) > 5 {
		t.Errorf("%d started, %v run on, %d cases ended", len(f.configs), f.running, len(r.cases))
	}
}

func TestABrokerThatCannotBeStoppedIsTriedAgainAndThenSaid(t *testing.T) {
	for stuck, want := range map[int]string{1: "", 2: "broker 1 stays"} {
		f, p := newFakeBrokers(), &recorded{}
		f.ill[1], f.stuck[1] = 1, stuck
		r := f.run(t.Context(), p, 1, fakePlatform{},
			caseOf(t, "TST-001", "@must @own-broker", "it works"), caseOf(t, "TST-002", "@must @own-broker", "it works"))
		if got := verdicts(r); got != "TST-001 passed 1, TST-002 passed 1" || r.record.Error != want {
			t.Errorf("%s; %q, want %q", got, r.record.Error, want)
		}
	}
}

func TestAConfigurationIsReadWithItsCases(t *testing.T) {
	const why, steps = "It matters.", "Given a thing"
	cases, err := loading(map[string]string{
		"a.feature":         feature("@TST-001 @must @source:C32 @config:small", "X", why, steps),
		"config/small.conf": "heartbeat = 7\n",
	})
	if err != nil || len(cases) != 1 || cases[0].Config != "small" || cases[0].config != "heartbeat = 7\n" {
		t.Errorf("%+v, %v", cases, err)
	}
	for tags, says := range map[string]string{
		"@config:huge":                `a.feature:4: the case "X" has the tag @config:huge, and its configuration cannot be read: open config/huge.conf`,
		"@config:../a":                "cannot be read",
		"@config:":                    "has to name one configuration",
		"@config:small @config:large": "has to name one configuration",
	} {
		_, err := loading(map[string]string{
			"a.feature": feature("@TST-001 @must @source:C32 "+tags, "X", why, steps), "config/small.conf": "", "config/large.conf": "",
		})
		if err == nil || !strings.Contains(err.Error(), says) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v, want %q", tags, err, says)
		}
	}
}

// TestCasesBreakARealBroker has parkproof's own connection, ledger and queues live through what cases do to
// a broker. No consumer is needed for that.
func TestCasesBreakARealBroker(t *testing.T) {
	if _, err := exec.LookPath("rabbitmq-server"); err != nil {
		t.Skipf("LOUD: no RabbitMQ is installed; nothing is restarted: %v", err)
	}
	text := "Feature: Things\n"
	for i, broken := range []string{
		"the broker is restarted", "the broker is killed and started again", "the broker is killed\n    And the broker stays down for 300ms\n    And the broker is started again",
		"the broker is stopped\n    And the broker is started again", "the broker is paused\n    And the broker stays down for 300ms\n    And the broker continues",
		"the broker is killed", "a memory alarm is raised", "the queue \"other\" is deleted\n    And the queue \"other\" is made again",
	} {
		text += fmt.Sprintf("\n  @TST-%03d @must @source:C32 @own-broker\n  Scenario: The case %d\n    It matters.\n\n", i+1, i) +
			"    Given a witness queue \"kept\"\n    And a fanout exchange \"all\"\n    And a witness queue \"other\" bound to \"all\"\n    When \"m1\" is published to \"kept\"\n    And " + broken + "\n"
		if !slices.Contains([]int{5, 6}, i) { // the two that leave it as it is, for the end to mend
			text += "    And \"m2\" is published to \"kept\"\n    And \"m3\" is published to \"all\"\n    Then \"kept\" keeps \"m2\"\n    And \"other\" keeps \"m3\"\n"
		}
		text += "    Then \"kept\" keeps \"m1\"\n"
	}
	text += "\n  @TST-050 @must @source:C32\n  Scenario: On the run's broker\n    It matters.\n\n    Given a witness queue \"kept\"\n    When the broker is killed\n"
	text += "\n  @TST-051 @must @source:C32 @config:small\n  Scenario: With a configuration\n    It matters.\n\n    Given a witness queue \"kept\"\n    When \"m1\" is published to \"kept\"\n    Then \"kept\" keeps \"m1\"\n"
	cases, err := loading(map[string]string{"things.feature": text, "config/small.conf": "channel_max = 1000\n"})
	if err != nil {
		t.Fatal(err)
	}
	spec, err := broker.Parse("local")
	if err != nil {
		t.Fatal(err)
	}
	p := &recorded{}
	run := Run(t.Context(), Options{Cases: cases, Brokers: []broker.Spec{spec}, Command: []string{"false"}, Parallel: 4, Timeout: 2 * time.Minute, Progress: p})
	for _, c := range run.Cases {
		want := reports.Passed
		if c.ID == "TST-050" {
			want = reports.Broken
		}
		if c.Verdict != want || c.Broker != "local" {
			t.Errorf("%s on %s is %s: %s %+v", c.ID, c.Broker, c.Verdict, c.Reason, c.Steps)
		}
		if c.ID == "TST-050" && !strings.Contains(c.Reason, "tag the case @own-broker") {
			t.Errorf("%s: %s", c.ID, c.Reason)
		}
	}
	if len(run.Cases) != len(cases) || run.Brokers[0].Error != "" {
		t.Errorf("%d of %d cases; %s", len(run.Cases), len(cases), run.Brokers[0].Error)
	}
	t.Logf("%q", p.lines)
}
