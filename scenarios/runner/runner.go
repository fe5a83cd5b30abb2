package runner

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/parkproof/parkproof/reports"
	"github.com/parkproof/parkproof/scenarios/adapter/protocol"
	"github.com/parkproof/parkproof/scenarios/broker"
	"github.com/parkproof/parkproof/steps"
)

// tries is how often a case is run at most: again only after it was broken, which says nothing of
// the consumer.
const tries = 2

// Options say what to run, on what, and how.
type Options struct {
	Cases []*Case
	// Brokers are the values of --broker; each is run.
	Brokers []broker.Spec
	// Command starts the adapter; Control lets it speak on a socket instead of stdin and stdout.
	Command []string
	Control bool
	// Parallel is how many cases run side by side.
	Parallel int
	// Timeout bounds each case, from its start to its verdict.
	Timeout time.Duration
	// Progress is shown what happens.
	Progress Progress
}

// Run runs the cases on each broker and returns the record. An interrupted run returns what it has.
func Run(ctx context.Context, o Options) *reports.Run {
	began := time.Now()
	run := &reports.Run{
		Schema: reports.Schema, Started: began.UTC().Truncate(time.Millisecond),
		Cases: []reports.Case{}, Brokers: []reports.Broker{},
	}
	o.Progress.Begin(len(o.Cases) * len(o.Brokers))
	defer o.Progress.End()
	for _, spec := range o.Brokers {
		if ctx.Err() != nil {
			break
		}
		r := &brokerRun{options: o, began: began, spec: spec}
		r.run(ctx)
		run.Brokers = append(run.Brokers, r.record)
		run.Cases = append(run.Cases, r.cases...)
		if r.ready.Name != "" {
			run.Consumer.Name, run.Consumer.Version, run.Consumer.Supports = r.ready.Name, r.ready.Version, r.ready.Supports
		}
	}
	run.Seconds = time.Since(began).Seconds()
	run.Interrupted = ctx.Err() != nil
	run.ExitCode = exitCode(run)
	return run
}

// exitCode is that of the verdicts, and broken where a broker could not be had or the run was ended
// from outside.
func exitCode(run *reports.Run) int {
	code := reports.ExitCode(run.Verdicts())
	lacks := run.Interrupted || slices.ContainsFunc(run.Brokers, func(b reports.Broker) bool { return b.Error != "" })
	if lacks && code != reports.ExitFailed {
		return reports.ExitBroken
	}
	return code
}

// brokerRun runs the cases on one broker.
type brokerRun struct {
	options Options
	began   time.Time
	spec    broker.Spec
	record  reports.Broker

	open opener
	// work runs the cases on the broker, in another way than side by side once.
	work func(ctx context.Context, b platform, booting time.Time)
	// start starts a broker beside the run's, with these lines of configuration.
	start func(ctx context.Context, config string) (*ownBroker, error)

	mu    sync.Mutex
	cases []reports.Case
	ready protocol.Ready
	// unusable says what is wrong with an adapter that never answered init in any case.
	unusable string
	first    sync.Once
}

func (r *brokerRun) run(ctx context.Context) {
	booting := time.Now()
	r.record = reports.Broker{Name: r.spec.String()}
	b, err := broker.Start(ctx, r.spec, broker.Options{Log: r.options.Progress.Line})
	if err != nil && ctx.Err() != nil {
		return // interrupted: it says nothing of the broker
	}
	if err != nil {
		r.record.Error = err.Error()
		if strings.Contains(r.record.Error, "\n") { // the end of its log; a single line is in the summary
			r.options.Progress.Line(r.record.Error)
		}
		for _, c := range r.options.Cases {
			r.end(r.unrun(c, r.spec.String(), reports.Broken, "the broker could not be had: "+firstLine(err.Error())))
		}
		return
	}
	product := b.Product()
	r.record = reports.Broker{
		Name: b.Name(), Provider: string(b.Provider()), Version: b.Version(), Runtime: product.Platform,
		Image: product.Image, Digest: product.ImageDigest, BootSeconds: time.Since(booting).Seconds(),
	}
	r.options.Progress.Line(fmt.Sprintf("RabbitMQ %s, %s, up in %.1f s", b.Version(), b.Name(), r.record.BootSeconds))
	defer func() {
		cleanup, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleaning)
		defer cancel()
		if err := b.Stop(cleanup); err != nil {
			r.record.Error = err.Error()
			r.options.Progress.Line(err.Error())
		}
	}()
	r.sweep(ctx, b)
	r.open, r.start = openOn(b, r.options), startOn(b, r.options)
	if r.work != nil {
		r.work(ctx, b, booting)
		return
	}
	r.on(ctx, b, booting)
}

// on runs the cases on a broker that answers, and puts their records into the order of the features.
func (r *brokerRun) on(ctx context.Context, b platform, booting time.Time) {
	parallel := r.options.Parallel
	if !b.Can(broker.Vhosts) {
		parallel = 1
		r.options.Progress.Line("no virtual host can be made on " + b.Name() + ": cases run one by one, and those that count queues do not apply")
	}
	r.runAll(ctx, b, parallel, booting)
	r.mu.Lock()
	defer r.mu.Unlock()
	slices.SortStableFunc(r.cases, func(x, y reports.Case) int {
		return r.place(x.ID) - r.place(y.ID)
	})
}

// sweep removes what killed runs left, of this machine and of dead processes only.
func (r *brokerRun) sweep(ctx context.Context, b *broker.Broker) {
	swept, err := broker.Sweep(ctx, b, broker.Options{})
	if err != nil {
		r.options.Progress.Line("what an earlier run left could not all be removed: " + firstLine(err.Error()))
	}
	if n := len(swept.Vhosts) + len(swept.Containers) + len(swept.Folders); n > 0 {
		r.options.Progress.Line(fmt.Sprintf("removed what a killed run left: %d virtual hosts, %d containers, %d folders",
			len(swept.Vhosts), len(swept.Containers), len(swept.Folders)))
	}
}

// place is a case's place in the order of the features.
func (r *brokerRun) place(id string) int {
	return slices.IndexFunc(r.options.Cases, func(c *Case) bool { return c.ID == id })
}

// runAll runs the cases, so many at a time. Those that need a broker of their own begin first, since they
// wait for one another; then slow ones, so that none of them is alone at the end.
func (r *brokerRun) runAll(ctx context.Context, b platform, parallel int, booting time.Time) {
	var cases []*Case
	for _, c := range r.options.Cases {
		if why := inapplicable(b, c); why != "" {
			r.end(r.unrun(c, b.Name(), reports.NotApplicable, why))
			continue
		}
		cases = append(cases, c)
	}
	own := newPool(r.start, r.options.Progress.Line)
	queue := newSchedule(own, cases)
	var workers sync.WaitGroup
	for range max(1, parallel) {
		workers.Go(func() {
			for {
				c, at := queue.next(ctx)
				if c == nil {
					return
				}
				r.begin(ctx, b, own, c, at, booting)
			}
		})
	}
	workers.Wait()
	cleanup, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleaning)
	defer cancel()
	if err := own.close(cleanup); err != nil {
		r.record.Error = err.Error()
		r.options.Progress.Line(err.Error())
	}
}

// begin runs a case on the run's broker or, where it has a place there, on one of the pool.
func (r *brokerRun) begin(ctx context.Context, b platform, own *pool, c *Case, at *place, booting time.Time) {
	if at != nil {
		defer own.release(at)
	}
	if why := r.isUnusable(); why != "" {
		r.end(r.unrun(c, b.Name(), reports.Broken, "the adapter cannot be used: "+why))
		return
	}
	r.first.Do(func() { r.record.FirstCaseSeconds = time.Since(booting).Seconds() })
	on := func(context.Context) (platform, opener, error) { return b, r.open, nil }
	if at != nil {
		again := false
		on = func(ctx context.Context) (platform, opener, error) {
			if again {
				own.suspect(at) // the try before was broken
			}
			again = true
			mine, err := own.prepare(ctx, at, c)
			if err != nil {
				return nil, nil, err
			}
			return mine, func(ctx context.Context, settings steps.Settings) (world, error) {
				settings.Alone = c.Has(ownTag)
				return mine.open(ctx, settings)
			}, nil
		}
	}
	r.one(ctx, b.Name(), c, on)
}

func slowFirst(cases []*Case) []*Case {
	ordered := slices.Clone(cases)
	slices.SortStableFunc(ordered, func(x, y *Case) int {
		switch {
		case x.Has("@slow") == y.Has("@slow"):
			return 0
		case x.Has("@slow"):
			return -1
		default:
			return 1
		}
	})
	return ordered
}

// inapplicable says why a case says nothing of this broker.
func inapplicable(b platform, c *Case) string {
	if c.Has("@counts-queues") && !b.Can(broker.Vhosts) {
		return "it counts the queues of a virtual host, and none can be made on this broker"
	}
	if c.Has(ownTag) && !b.Can(broker.Restart) {
		return "it needs a broker of its own, to restart, kill or fill it, and here parkproof starts none"
	}
	if c.Config != "" && !b.Can(broker.Configure) {
		return fmt.Sprintf("it needs a broker with the configuration %s, and here parkproof starts none", c.Config)
	}
	for _, tag := range c.Tags {
		if versions, ok := strings.CutPrefix(tag, "@broker:"); ok {
			if in, err := inRange(b.Version(), versions); err != nil || !in {
				return fmt.Sprintf("it is about RabbitMQ %s, and this is %s", versions, b.Version())
			}
		}
	}
	return ""
}

// opener opens worlds on a broker.
type opener func(context.Context, steps.Settings) (world, error)

// one runs a case until it says something of the consumer, each time on the broker that it is given.
func (r *brokerRun) one(ctx context.Context, name string, c *Case, on func(context.Context) (platform, opener, error)) {
	for try := 1; ; try++ {
		r.options.Progress.CaseStarted(c.ID, c.Name, name)
		at := time.Since(r.began)
		record, adapterFailed := r.try(ctx, name, c, on)
		if errors.Is(ctx.Err(), context.Canceled) {
			return // interrupted: its end says nothing
		}
		record.Try, record.At = try, at.Seconds()
		if record.Verdict == reports.Broken && try < tries && r.isUnusable() == "" {
			r.options.Progress.Line(fmt.Sprintf("%s is tried again: %s", c.ID, firstLine(record.Reason)))
			continue
		}
		if record.Verdict == reports.Broken && adapterFailed {
			r.giveUp(record.Reason)
		}
		r.end(record)
		return
	}
}

// try runs a case once. The boot of a broker is not part of the case's time.
func (r *brokerRun) try(ctx context.Context, name string, c *Case, on func(context.Context) (platform, opener, error)) (record reports.Case, adapterFailed bool) {
	b, open, err := on(ctx)
	if err != nil {
		return r.unrun(c, name, reports.Broken, "a broker of its own could not be had: "+firstLine(err.Error())), false
	}
	bounded, cancel := context.WithTimeout(ctx, r.options.Timeout)
	defer cancel()
	s := &scenario{of: c, broker: b, open: open, onReady: r.isReady}
	return s.run(bounded), s.adapterFailed
}

// giveUp is told of a case that the adapter broke, twice. An adapter that never answered init would
// break all the others too, each after a wait.
func (r *brokerRun) giveUp(why string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ready.Name == "" && r.unusable == "" {
		r.unusable = why
	}
}

func (r *brokerRun) isUnusable() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.unusable
}

func (r *brokerRun) isReady(ready protocol.Ready) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ready = ready
}

func (r *brokerRun) end(c reports.Case) {
	r.mu.Lock()
	r.cases = append(r.cases, c)
	r.mu.Unlock()
	r.options.Progress.CaseEnded(c)
}

// unrun is the record of a case that is not run.
func (r *brokerRun) unrun(c *Case, name string, verdict reports.Verdict, why string) reports.Case {
	return reports.Case{
		ID: c.ID, Name: c.Name, Feature: c.Feature, File: c.File, Line: c.Line, Level: c.Level, Sources: c.Sources,
		Tags: c.Tags, Why: c.Why, Broker: name, Verdict: verdict, Reason: why, Steps: []reports.Step{},
	}
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	return line
}
