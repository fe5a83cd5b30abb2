package runner

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/cucumber/godog"

	"github.com/parkproof/parkproof/reports"
	"github.com/parkproof/parkproof/scenarios/adapter"
	"github.com/parkproof/parkproof/scenarios/adapter/protocol"
	"github.com/parkproof/parkproof/scenarios/broker"
	"github.com/parkproof/parkproof/scenarios/ledger"
	"github.com/parkproof/parkproof/steps"
)

const (
	// cleaning bounds, in time, the removal of what a scenario stands on, also after the case's own
	// time is over.
	cleaning = 30 * time.Second
	// shownMessages is how many messages a timeline follows where a case has many.
	shownMessages = 3
	// shownLines is how many lines of a timeline a record keeps, half of them from its beginning and
	// half from its end: a message in a loop makes thousands an instant. What stands around faults is
	// kept besides.
	shownLines = 400
	// shownPassed is the same of a case that passed although a fault fired: there it is read for what stands
	// around each fault, which is kept whatever the number.
	shownPassed = 100
	// shownConnections is how many connections a record keeps, half of them the first and half the last, and
	// how many of the deliveries and silences that are listed beside them.
	shownConnections = 100
	// shownFindings is how many findings of one kind a record keeps: a thousand lost messages are
	// one fact.
	shownFindings = 5
)

// formatter is godog's name for the formatter that writes nothing: every report comes from the
// record that the hooks fill.
const formatter = "parkproof-none"

func init() {
	godog.Format(formatter, "writes nothing", func(string, io.Writer) godog.Formatter { return silent{} })
}

// capabilityTags are the tags that name a capability which the case cannot do without.
var capabilityTags = map[string]string{
	"@verdicts": protocol.CanVerdicts, "@panic": protocol.CanPanic, "@nothing": protocol.CanNothing,
	"@wrapped": protocol.CanWrapped, "@exclusive": protocol.CanExclusive, "@quorum": protocol.CanQuorum,
	"@replies": protocol.CanReplies,
}

// platform is the broker that cases run on, as far as the runner looks at it.
type platform interface {
	Name() string
	Version() string
	Can(broker.Capability) bool
	// Hide takes the broker's passwords out of a text.
	Hide(text string) string
}

// world is what a scenario stands on: a steps.World.
type world interface {
	Register(steps.Words)
	Settle(ctx context.Context) error
	Account() (account ledger.Account, check int, err error)
	Checks() int
	Breach() error
	Events() []ledger.Event
	Warnings() []string
	Logs() []string
	Close(ctx context.Context) error
}

// realWorld is a world on a broker.
type realWorld struct{ *steps.World }

// Settle settles the scenario, on a broker that is up again, whatever the case has left it as.
func (w realWorld) Settle(ctx context.Context) error {
	if err := w.Mend(ctx); err != nil {
		return err
	}
	return w.World.Settle(ctx)
}

func (w realWorld) Events() []ledger.Event { return w.Ledger.Events() }

// openOn opens worlds on a broker.
func openOn(b *broker.Broker, o Options) opener {
	return func(ctx context.Context, s steps.Settings) (world, error) {
		s.Broker, s.Command, s.Control = b, o.Command, o.Control
		w, err := steps.NewWorld(ctx, s)
		if err != nil {
			return nil, err
		}
		return realWorld{w}, nil
	}
}

// scenario is one run of one case.
type scenario struct {
	of      *Case
	broker  platform
	open    opener
	onReady func(protocol.Ready)
	path    *steps.Path // of a path that is explored; nil for others

	record  reports.Case
	stepErr error
	step    int
	checks  []int // the steps that left checks for the end, by check
	began   time.Time
	// adapterFailed says that the case is broken by its adapter, not by parkproof or the broker.
	adapterFailed bool
}

// run runs the case and returns its record. Errors of the run itself make it broken.
func (s *scenario) run(ctx context.Context) reports.Case {
	s.began = time.Now()
	s.record = reports.Case{
		ID: s.of.ID, Name: s.of.Name, Feature: s.of.Feature, File: s.of.File, Line: s.of.Line, Level: s.of.Level,
		Sources: s.of.Sources, Tags: s.of.Tags, Why: s.of.Why, Broker: s.broker.Name(),
	}
	for _, step := range s.of.Steps {
		s.record.Steps = append(s.record.Steps, reports.Step{Keyword: step.Keyword, Text: step.Text, Status: "skipped"})
	}
	var needs []string
	for _, tag := range s.of.Tags {
		if capability, ok := capabilityTags[tag]; ok {
			needs = append(needs, capability)
		} else if strings.HasPrefix(tag, "@"+protocol.CanConcurrent+":") {
			needs = append(needs, tag[1:])
		}
	}
	if slices.Contains(needs, protocol.CanVerdicts) || slices.ContainsFunc(s.of.Steps, mentionsParking) {
		needs = append(needs, protocol.CanPark)
	}
	w, err := s.open(ctx, steps.Settings{Case: s.of.ID, Needs: needs, OnReady: s.onReady, Path: s.path})
	if err != nil {
		s.broken(err)
		return s.done()
	}
	s.play(ctx, w)
	s.judge(ctx, w)
	cleanup, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleaning)
	defer cancel()
	if err := w.Close(cleanup); err != nil {
		if s.record.Verdict == reports.Passed {
			s.broken(err)
		} else {
			s.record.Warnings = append(s.record.Warnings, "something may be left: "+s.broker.Hide(err.Error()))
		}
	}
	// Only now all that the adapter said has been read.
	if breach := w.Breach(); breach != nil && s.record.Verdict != reports.Broken {
		s.broken(breach)
	}
	return s.done()
}

func (s *scenario) done() reports.Case {
	s.record.Seconds = time.Since(s.began).Seconds()
	return s.record
}

// play lets godog match and run the steps; the hooks note what became of each.
func (s *scenario) play(ctx context.Context, w world) {
	suite := godog.TestSuite{
		Name: s.of.ID,
		ScenarioInitializer: func(sc *godog.ScenarioContext) {
			w.Register(sc)
			var began time.Time
			sc.StepContext().Before(func(ctx context.Context, _ *godog.Step) (context.Context, error) {
				began = time.Now()
				return ctx, nil
			})
			sc.StepContext().After(func(ctx context.Context, _ *godog.Step, status godog.StepResultStatus, err error) (context.Context, error) {
				s.note(w, status, timely(ctx, err), time.Since(began))
				return ctx, nil
			})
		},
		Options: &godog.Options{
			Format: formatter, Output: io.Discard, Strict: true, Concurrency: 1, NoColors: true, DefaultContext: ctx,
			Tags:            "@" + s.of.ID,
			FeatureContents: []godog.Feature{{Name: s.of.File, Contents: s.of.content}},
		},
	}
	status := suite.Run()
	if s.stepErr == nil && s.step < len(s.record.Steps) {
		// A case none of whose steps ran must not look like one that passed.
		s.stepErr = fmt.Errorf("only %d of the case's %d steps were run (godog's status is %d)", s.step, len(s.record.Steps), status)
	}
}

// timely is the error of a step; one that ended because the case's time is over has shown nothing
// of the consumer.
func timely(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil {
		return fmt.Errorf("%w: %w", ctx.Err(), err)
	}
	return err
}

func (s *scenario) note(w world, status godog.StepResultStatus, err error, took time.Duration) {
	if s.step >= len(s.record.Steps) {
		return
	}
	for len(s.checks) < w.Checks() {
		s.checks = append(s.checks, s.step)
	}
	step := &s.record.Steps[s.step]
	s.step++
	step.Seconds = took.Seconds()
	switch {
	case status == godog.StepPassed:
		step.Status = "passed"
	case s.stepErr != nil: // the steps after the one that failed
	default:
		if err == nil {
			err = fmt.Errorf("the step is %s", status)
		}
		s.stepErr = err
		step.Status, step.Error = "failed", s.broker.Hide(err.Error())
		var failure *steps.Failure
		if !errors.As(err, &failure) || errors.Is(err, context.DeadlineExceeded) {
			step.Status = "broken"
		}
	}
}

// judge settles the scenario, accounts for its messages, and gives the verdict.
func (s *scenario) judge(ctx context.Context, w world) {
	defer func() { s.keep(w) }()
	var failure *steps.Failure
	var unsupported *steps.Unsupported
	var inapplicable *steps.NotApplicable
	var unknown *steps.Unknown
	switch {
	case s.stepErr == nil:
	case w.Breach() != nil:
		s.broken(w.Breach())
		return
	case ctx.Err() != nil && errors.Is(s.stepErr, ctx.Err()):
		s.broken(s.stepErr)
		return
	case errors.As(s.stepErr, &failure):
	case errors.As(s.stepErr, &unsupported):
		s.unsupported(unsupported.Error())
		return
	case errors.As(s.stepErr, &inapplicable):
		s.record.Verdict, s.record.Reason = reports.NotApplicable, inapplicable.Error()
		return
	case errors.As(s.stepErr, &unknown):
		// What was not observed may be the sign of a failure that the accounting names.
	default:
		s.broken(s.stepErr)
		return
	}
	if err := w.Settle(ctx); err != nil {
		if failure == nil {
			s.broken(fmt.Errorf("settling: %w", err))
			return
		}
		s.record.Findings = append(s.record.Findings, reports.Finding{Guarantee: "parkproof could settle the case", Text: s.broker.Hide(err.Error())})
	}
	account, check, late := w.Account()
	if late != nil && s.stepErr == nil && check < len(s.checks) {
		step := &s.record.Steps[s.checks[check]]
		step.Status, step.Error = "failed", "once everything had settled: "+s.broker.Hide(late.Error())
	}
	s.account(w, account, failure, late)
	switch {
	case w.Breach() != nil:
		// Whatever else was seen may be the adapter's doing.
		s.broken(w.Breach())
	case failure == nil && errors.As(late, &failure):
		s.failed(failure)
	case failure != nil:
		s.failed(failure)
	case late != nil && !errors.As(late, &unknown):
		s.broken(late)
	case len(account.Findings) > 0:
		f := account.Findings[0]
		s.record.Verdict, s.record.Guarantee, s.record.Reason = reports.Failed, f.Guarantee, s.broker.Hide(f.Text)
		s.record.Expected, s.record.Seen = f.Guarantee, s.record.Reason
	case unknown != nil:
		s.record.Verdict, s.record.Reason = reports.Unknown, unknown.Error()
	case account.Deliveries == 0 && len(account.Entries) > 0 && !account.AllKept():
		s.record.Verdict, s.record.Reason = reports.Unknown, "messages were published, and no delivery was observed"
	default:
		s.record.Verdict = reports.Passed
	}
}

func (s *scenario) failed(f *steps.Failure) {
	s.record.Verdict = reports.Failed
	s.record.Guarantee = s.of.Name
	s.record.Expected, s.record.Seen = s.broker.Hide(f.Expected), s.broker.Hide(f.Seen)
	s.record.Reason = s.broker.Hide(f.Error())
}

func (s *scenario) unsupported(what string) {
	s.record.Verdict, s.record.Reason = reports.Unsupported, what
	if s.of.Level == "must" {
		s.record.Verdict = reports.Failed
		s.record.Guarantee = s.of.Name
		s.record.Expected, s.record.Seen = "support for what every consumer must do", what
	}
}

func (s *scenario) broken(err error) {
	s.record.Verdict = reports.Broken
	s.record.Reason = s.broker.Hide(err.Error())
	if errors.Is(err, context.DeadlineExceeded) {
		s.record.Reason = "the case did not end in its time: " + s.record.Reason
	}
	var breach *adapter.BrokenError
	if errors.As(err, &breach) {
		s.record.Reason = s.broker.Hide(breach.Error())
	}
	var exited *adapter.ExitedError
	s.adapterFailed = breach != nil || errors.As(err, &exited)
}

// account puts the accounting's findings into the record.
func (s *scenario) account(w world, account ledger.Account, failure *steps.Failure, late error) {
	kinds := map[string]int{}
	var follow []string
	var marks []int
	add := func(message string) {
		if message != "" && !slices.Contains(follow, message) && len(follow) < shownMessages {
			follow = append(follow, message)
		}
	}
	if failure == nil {
		errors.As(late, &failure)
	}
	if failure != nil {
		add(failure.Message)
	}
	said := map[reports.Finding]bool{}
	for _, f := range account.Findings {
		add(f.Message)
		marks = append(marks, f.Events...)
		finding := reports.Finding{Guarantee: f.Guarantee, Message: f.Message, Queue: f.Queue, Text: s.broker.Hide(f.Text)}
		if said[finding] {
			continue // the same of another copy
		}
		said[finding] = true
		if kinds[f.Guarantee]++; kinds[f.Guarantee] <= shownFindings {
			s.record.Findings = append(s.record.Findings, finding)
		}
	}
	for i := range s.record.Findings {
		f := &s.record.Findings[i]
		if more := kinds[f.Guarantee] - shownFindings; more > 0 {
			f.Text += fmt.Sprintf(" (and %d more like it)", more)
			kinds[f.Guarantee] = 0
		}
	}
	for _, e := range account.Entries {
		m := reports.Message{ID: e.Message, Queue: e.Queue, Fate: string(e.Fate), Copies: e.Handled + e.Parked + e.Kept, Redeliveries: e.Redeliveries}
		for _, g := range e.Releases {
			m.Releases = append(m.Releases, string(g))
		}
		s.record.Messages = append(s.record.Messages, m)
	}
	touched, fired := ledger.Touched(w.Events())
	limit := shownLines
	switch {
	case failure != nil || len(account.Findings) > 0 || s.stepErr != nil || late != nil || w.Breach() != nil,
		account.Deliveries == 0 && len(account.Entries) > 0 && !account.AllKept():
		if len(follow) > 0 {
			for _, message := range touched {
				if !slices.Contains(follow, message) {
					follow = append(follow, message)
				}
			}
		}
	case fired:
		follow, limit = touched, shownPassed
	default:
		return // there is nothing to explain
	}
	for _, line := range ledger.Excerpt(ledger.Timeline(w.Events(), follow, marks), limit) {
		s.record.Timeline = append(s.record.Timeline, reports.Moment{
			Seconds: line.At.Seconds(), Who: line.Who, What: s.broker.Hide(line.What), Marked: line.Marked,
		})
	}
	s.observed(account)
}

// observed puts what was seen of connections and consumers into the record.
func (s *scenario) observed(account ledger.Account) {
	for i, c := range account.Connections {
		if i >= shownConnections/2 && i < len(account.Connections)-shownConnections/2 {
			continue
		}
		connection := reports.Connection{
			Number: c.Number, Process: c.Process, By: string(c.End.By), Code: int(c.End.Code), Text: s.broker.Hide(c.End.Text),
			Channels: len(c.Channels), OpenChannels: c.OpenChannels(),
		}
		if at := c.At.Seconds(); c.Opened != 0 {
			connection.Opened = &at
		}
		if at := c.End.At.Seconds(); c.End.Seq != 0 {
			connection.Closed = &at
		}
		s.record.Connections = append(s.record.Connections, connection)
	}
	for _, c := range account.Consumptions {
		consumers := reports.Consumers{Queue: c.Queue, End: c.End}
		for _, most := range c.Most {
			consumers.Peak = max(consumers.Peak, most)
		}
		s.record.Consumers = append(s.record.Consumers, consumers)
	}
	for _, d := range account.Unacked[:min(len(account.Unacked), shownConnections)] {
		s.record.Unacked = append(s.record.Unacked, reports.Unacked{
			Message: d.Message, Queue: d.Queue, Process: d.Process, Consumer: d.Consumer, Connection: d.Conn, Channel: int(d.Channel),
		})
	}
	for _, e := range account.HeartbeatsMissed[:min(len(account.HeartbeatsMissed), shownConnections)] {
		silence := reports.Silence{Seconds: e.At.Seconds(), Who: "consumer", Connection: e.Conn, Text: e.Text}
		if e.Broker {
			silence.Who = "broker"
		}
		s.record.HeartbeatsMissed = append(s.record.HeartbeatsMissed, silence)
	}
}

// keep keeps the consumer's log, where there is something to explain.
func (s *scenario) keep(w world) {
	for _, text := range w.Warnings() {
		s.record.Warnings = append(s.record.Warnings, s.broker.Hide(text))
	}
	if s.record.Verdict != reports.Passed {
		s.record.ConsumerLog = w.Logs()
	}
}

func mentionsParking(step Step) bool {
	return slices.Contains([]string{"Then", "And"}, step.Keyword) && parkingWords.MatchString(step.Text)
}
