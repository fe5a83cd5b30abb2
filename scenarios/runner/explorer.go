package runner

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/parkproof/parkproof/reports"
	"github.com/parkproof/parkproof/scenarios/broker"
	"github.com/parkproof/parkproof/steps"
	"github.com/parkproof/parkproof/toxics"
)

// recordings is how often a path is recorded: what differs between them depends on chance, and no point
// of it could be found again.
const recordings = 3

// pathTag marks the scenarios that are paths.
const pathTag = "@path"

// LoadPaths reads the paths that can be explored.
func LoadPaths(features fs.FS) ([]*Case, error) {
	all, err := loadAll(features)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(all, func(c *Case) bool { return !c.Has(pathTag) }), nil
}

// Explore records each path, and runs it once for each point on it and each way of breaking it there.
// An interrupted run returns what it has.
func Explore(ctx context.Context, o Options) *reports.Run {
	began := time.Now()
	run := &reports.Run{
		Schema: reports.Schema, Started: began.UTC().Truncate(time.Millisecond),
		Cases: []reports.Case{}, Brokers: []reports.Broker{},
	}
	for _, spec := range o.Brokers {
		if ctx.Err() != nil {
			break
		}
		r := &brokerRun{options: o, began: began, spec: spec}
		x := &explorer{run: r, turns: make(chan struct{}, max(1, o.Parallel))}
		r.work = func(ctx context.Context, b platform, _ time.Time) { x.explore(ctx, b) }
		r.run(ctx)
		run.Brokers = append(run.Brokers, r.record)
		run.Cases = append(run.Cases, r.cases...)
		run.Explorations = append(run.Explorations, x.found...)
		if r.ready.Name != "" {
			run.Consumer.Name, run.Consumer.Version, run.Consumer.Supports = r.ready.Name, r.ready.Version, r.ready.Supports
		}
	}
	run.Seconds = time.Since(began).Seconds()
	run.Interrupted = ctx.Err() != nil
	run.ExitCode = explorationCode(run)
	return run
}

// explorationCode is the exit code of an exploration: that of all of its runs.
func explorationCode(run *reports.Run) int {
	var verdicts []reports.Verdict
	for _, e := range run.Explorations {
		verdicts = append(verdicts, e.Verdicts()...)
	}
	code := reports.ExitCode(verdicts)
	lacks := run.Interrupted || slices.ContainsFunc(run.Brokers, func(b reports.Broker) bool { return b.Error != "" })
	if lacks && code != reports.ExitFailed {
		return reports.ExitBroken
	}
	return code
}

// explorer explores the paths on one broker.
type explorer struct {
	run   *brokerRun
	turns chan struct{} // as many as may run side by side
	found []reports.Exploration
}

// explored is a path on its way through the exploration.
type explored struct {
	of     *Case
	began  time.Time
	points []toxics.Point
	record reports.Exploration
}

func (x *explorer) explore(ctx context.Context, b platform) {
	paths := make([]*explored, len(x.run.options.Cases))
	var recording sync.WaitGroup
	for i, c := range x.run.options.Cases {
		paths[i] = &explored{of: c, began: time.Now()}
		recording.Go(func() { x.record(ctx, b, paths[i]) })
	}
	recording.Wait()
	total := 0
	for _, p := range paths {
		for _, at := range p.points {
			total += len(steps.WaysAt(at))
		}
	}
	if total > 0 {
		x.run.options.Progress.Line(fmt.Sprintf("%s on %s, to be broken in %d ways", counted(pointsOf(paths), "point"), counted(len(paths), "path"), total))
	}
	x.run.options.Progress.Begin(total)
	var all sync.WaitGroup
	for _, p := range paths {
		all.Go(func() {
			x.breakAll(ctx, b, p)
			p.record.Seconds = time.Since(p.began).Seconds()
		})
	}
	all.Wait()
	x.run.options.Progress.End()
	for _, p := range paths {
		x.found = append(x.found, p.record)
	}
}

// counted is a number of things in words.
func counted(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

func pointsOf(paths []*explored) int {
	n := 0
	for _, p := range paths {
		n += len(p.points)
	}
	return n
}

// record records a path; its points are left empty where the recordings do not agree.
func (x *explorer) record(ctx context.Context, b platform, p *explored) {
	p.record = reports.Exploration{Path: p.of.ID, Name: strings.TrimSuffix(p.of.Name, " ("+QueueType(p.of)+")"), Broker: b.Name(), QueueType: QueueType(p.of), Recordings: recordings}
	if why := inapplicable(b, p.of); why != "" {
		p.record.Problem, p.record.Verdict = why, reports.NotApplicable
		return
	}
	found := make([][]toxics.Point, recordings)
	cases := make([]reports.Case, recordings)
	var all sync.WaitGroup
	for i := range recordings {
		all.Go(func() {
			path := &steps.Path{}
			cases[i] = x.one(ctx, b, p.of, path)
			observed, whole := path.Observed()
			if cases[i].Verdict == reports.Passed && !whole {
				cases[i].Verdict, cases[i].Reason = reports.Broken, "the path has no beginning or no end"
			}
			found[i] = toxics.Points(observed)
		})
	}
	all.Wait()
	for _, c := range cases {
		if c.Verdict != reports.Passed {
			p.record.Problem = fmt.Sprintf("the path does not pass unbroken: %s", orVerdict(c))
			p.record.Verdict = c.Verdict
			c.ID = p.of.ID + "@recording"
			p.record.Case = c.ID
			x.keep(c)
			return
		}
	}
	for i := 1; i < recordings; i++ {
		if !slices.Equal(found[0], found[i]) {
			p.record.Problem = "the recordings differ, so that their points cannot be found again: " + difference(found[0], found[i])
			p.record.Verdict = reports.Unknown
			return
		}
	}
	p.points = found[0]
	p.record.Recorded = len(p.points)
	if len(p.points) == 0 {
		p.record.Problem, p.record.Verdict = "nothing passed over the wire on it", reports.Unknown
	}
}

func orVerdict(c reports.Case) string {
	if c.Reason != "" {
		return c.Reason
	}
	return string(c.Verdict)
}

// difference names the first point that one recording has and the other has not.
func difference(x, y []toxics.Point) string {
	for _, p := range x {
		if !slices.Contains(y, p) {
			return "one of them lacks " + p.String()
		}
	}
	for _, p := range y {
		if !slices.Contains(x, p) {
			return "one of them lacks " + p.String()
		}
	}
	return "their order"
}

// QueueType is the type of a path's source queue, classic or quorum: its examples say it.
func QueueType(c *Case) string {
	for _, step := range c.Steps {
		if strings.HasPrefix(step.Text, "a quorum queue") {
			return "quorum"
		}
	}
	return "classic"
}

// breakAll runs the path once for each of its points and ways.
func (x *explorer) breakAll(ctx context.Context, b platform, p *explored) {
	outcomes := make([][]reports.Outcome, len(p.points))
	var all sync.WaitGroup
	for i, at := range p.points {
		ways := steps.WaysAt(at)
		outcomes[i] = make([]reports.Outcome, len(ways))
		for j, way := range ways {
			all.Go(func() { outcomes[i][j] = x.breakAt(ctx, b, p, i, way) })
		}
	}
	all.Wait()
	for i, at := range p.points {
		p.record.Points = append(p.record.Points, reports.Point{
			Connection: at.Connection, Role: toxics.RoleName(at.Role), FromBroker: at.FromBroker, Method: at.Method,
			Message: at.Message, Where: at.Place, Occurrence: at.Occurrence, Inside: at.Inside, Outcomes: outcomes[i],
		})
	}
}

// breakAt breaks the path at its nth point.
func (x *explorer) breakAt(ctx context.Context, b platform, p *explored, n int, way steps.Way) reports.Outcome {
	record := x.one(ctx, b, p.of, &steps.Path{At: &p.points[n], Way: way})
	record.ID = fmt.Sprintf("%s@%d-%s", p.of.ID, n+1, strings.ReplaceAll(string(way), " ", "-"))
	record.Name = fmt.Sprintf("%s: %s at %s", p.of.Name, way, p.points[n])
	o := reports.Outcome{Way: string(way), Verdict: record.Verdict, Reason: record.Reason, Seconds: record.Seconds}
	for _, m := range record.Messages {
		o.Copies = max(o.Copies, m.Copies-1)
		o.Redeliveries += m.Redeliveries
	}
	if record.Verdict != reports.Passed {
		o.Case = record.ID
		x.keep(record)
	}
	return o
}

// keep keeps the evidence of a run that did not pass.
func (x *explorer) keep(c reports.Case) {
	x.run.mu.Lock()
	defer x.run.mu.Unlock()
	x.run.cases = append(x.run.cases, c)
}

// one makes one run of a path, and another where the first was broken.
func (x *explorer) one(ctx context.Context, b platform, c *Case, path *steps.Path) (record reports.Case) {
	select {
	case x.turns <- struct{}{}:
		defer func() { <-x.turns }()
	case <-ctx.Done():
		return x.run.unrun(c, b.Name(), reports.Broken, "the run was interrupted")
	}
	if why := x.run.isUnusable(); why != "" {
		return x.run.unrun(c, b.Name(), reports.Broken, "the adapter cannot be used: "+why)
	}
	name := c.Name
	if path.At != nil {
		name = fmt.Sprintf("%s at %s", path.Way, path.At)
	}
	for try := 1; ; try++ {
		x.run.options.Progress.CaseStarted(c.ID, name, b.Name())
		bounded, cancel := context.WithTimeout(ctx, x.run.options.Timeout)
		at := time.Since(x.run.began)
		s := &scenario{of: c, broker: b, open: x.run.open, onReady: x.run.isReady, path: path}
		record = s.run(bounded)
		cancel()
		record.Try, record.At = try, at.Seconds()
		if record.Verdict == reports.Broken && try < tries && !errors.Is(ctx.Err(), context.Canceled) && x.run.isUnusable() == "" {
			if path.At == nil {
				path = &steps.Path{}
			}
			continue
		}
		if record.Verdict == reports.Broken && s.adapterFailed {
			x.run.giveUp(record.Reason)
		}
		shown := record
		shown.Name = name
		if path.At != nil {
			x.run.options.Progress.CaseEnded(shown)
		}
		return record
	}
}

var _ platform = (*broker.Broker)(nil)
