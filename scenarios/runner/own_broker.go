package runner

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/parkproof/parkproof/scenarios/broker"
	"github.com/parkproof/parkproof/steps"
)

const (
	// ownBrokers is how many brokers run at once for cases that need one of their own, beside the run's:
	// a node that boots keeps a processor busy for seconds, and takes 100 MB and more.
	ownBrokers = 2
	// ownStarts is how often in a row a broker of a configuration may fail to start until the cases that
	// need it are not tried any more: each would wait for it.
	ownStarts = 2
	// checking bounds, in time, the look at a broker that the case before may have left down.
	checking = 10 * time.Second
)

const (
	ownTag    = "@own-broker"
	configTag = "@config:"
)

// needsOwn reports whether a case does not run on the run's broker.
func needsOwn(c *Case) bool { return c.Has(ownTag) || c.Config != "" }

// ownBroker is a broker beside the run's.
type ownBroker struct {
	platform
	open    opener
	healthy func(context.Context) error
	stop    func(context.Context) error
}

// startOn starts brokers of the same kind as the run's.
func startOn(b *broker.Broker, o Options) func(context.Context, string) (*ownBroker, error) {
	return func(ctx context.Context, config string) (*ownBroker, error) {
		booting := time.Now()
		own, err := broker.Start(ctx, b.Spec(), broker.Options{Log: o.Progress.Line, Config: config})
		if err != nil {
			return nil, err
		}
		o.Progress.Line(fmt.Sprintf("RabbitMQ %s, %s, another for cases that need their own, up in %.1f s",
			own.Version(), own.Name(), time.Since(booting).Seconds()))
		return &ownBroker{
			platform: own, healthy: own.Healthy, stop: own.Stop,
			open: func(ctx context.Context, s steps.Settings) (world, error) { return openOn(own, o)(ctx, s) },
		}, nil
	}
}

// place is room for one broker of the pool.
type place struct {
	// The pool's lock guards these: who has it now.
	config string // the name of the configuration
	alone  bool
	users  int

	mu sync.Mutex // is held while its broker is looked at, started or replaced
	// broker is what runs there, with the configuration runs; checked says that nothing has happened to
	// it since it was found in order.
	broker  *ownBroker
	runs    string
	checked bool
}

// pool has the brokers that cases have to themselves, or that have a configuration of their own. They
// are started when the first case needs them, and used again.
type pool struct {
	start func(ctx context.Context, config string) (*ownBroker, error)
	line  func(string)

	mu      sync.Mutex
	changed chan struct{} // closed, and replaced, when a place becomes free
	places  []*place
	failed  map[string]int // by configuration, how often in a row no broker could be started
	why     map[string]error
	left    []*ownBroker // that could not be stopped
}

func newPool(start func(context.Context, string) (*ownBroker, error), line func(string)) *pool {
	p := &pool{start: start, line: line, changed: make(chan struct{}), failed: map[string]int{}, why: map[string]error{}}
	for range ownBrokers {
		p.places = append(p.places, &place{})
	}
	return p
}

// freed returns a channel that is closed when a place becomes free, or can be shared.
func (p *pool) freed() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.changed
}

// claim takes a place for the case where there is one: for a configuration, one that other cases of it
// have already; else a free one, best of all with a broker that suits.
func (p *pool) claim(c *Case) *place {
	p.mu.Lock()
	defer p.mu.Unlock()
	alone := c.Has(ownTag)
	var best *place
	for _, at := range p.places {
		switch {
		case at.users > 0 && !at.alone && !alone && at.config == c.Config:
			at.users++
			return at
		case at.users > 0:
		case best == nil, at.suits(c.Config) > best.suits(c.Config):
			best = at
		}
	}
	if best != nil {
		best.config, best.alone, best.users = c.Config, alone, 1
	}
	return best
}

// suits says how well a free place suits a configuration: with a broker of it there is nothing to
// start, and without any there is nothing to stop.
func (at *place) suits(config string) int {
	switch {
	case at.broker != nil && at.runs == config:
		return 2
	case at.broker == nil:
		return 1
	default:
		return 0
	}
}

// release gives a place back.
func (p *pool) release(at *place) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if at.users--; at.users == 0 {
		at.checked = false
	}
	close(p.changed)
	p.changed = make(chan struct{})
}

// suspect has the place's broker looked at again before it is used again, where nobody else uses it.
func (p *pool) suspect(at *place) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if at.users == 1 {
		at.checked = false
	}
}

// prepare returns the broker of a claimed place: the one that is there, if it suits and is well, or a
// fresh one.
func (p *pool) prepare(ctx context.Context, at *place, c *Case) (*ownBroker, error) {
	at.mu.Lock()
	defer at.mu.Unlock()
	if at.broker != nil && at.runs == c.Config {
		p.mu.Lock()
		checked := at.checked
		p.mu.Unlock()
		if checked {
			return at.broker, nil
		}
		err := p.check(ctx, at.broker)
		if err == nil {
			p.found(at)
			return at.broker, nil
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		p.line(fmt.Sprintf("a broker of the cases' own is replaced: %s", firstLine(err.Error())))
	}
	if at.broker != nil {
		p.end(ctx, at.broker)
		p.put(at, nil, "")
	}
	p.mu.Lock()
	failed, why := p.failed[c.Config], p.why[c.Config]
	p.mu.Unlock()
	if failed >= ownStarts {
		return nil, why
	}
	own, err := p.start(ctx, c.config)
	if ctx.Err() != nil && err != nil {
		return nil, err // interrupted: it says nothing of the broker
	}
	p.mu.Lock()
	if err != nil {
		p.failed[c.Config]++
		p.why[c.Config] = err
	} else {
		p.failed[c.Config] = 0
	}
	p.mu.Unlock()
	if err != nil {
		if strings.Contains(err.Error(), "\n") { // the end of its log; a single line is in the record
			p.line(err.Error())
		}
		return nil, err
	}
	p.put(at, own, c.Config)
	p.found(at)
	return own, nil
}

// check looks whether a broker is up and well.
func (p *pool) check(ctx context.Context, own *ownBroker) error {
	ctx, cancel := context.WithTimeout(ctx, checking)
	defer cancel()
	return own.healthy(ctx)
}

func (p *pool) found(at *place) {
	p.mu.Lock()
	defer p.mu.Unlock()
	at.checked = true
}

func (p *pool) put(at *place, own *ownBroker, config string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	at.broker, at.runs = own, config
}

// end stops a broker that is not used any more. One that cannot be stopped is tried again at the end.
func (p *pool) end(ctx context.Context, own *ownBroker) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleaning)
	defer cancel()
	if err := own.stop(ctx); err != nil {
		p.mu.Lock()
		p.left = append(p.left, own)
		p.mu.Unlock()
	}
}

// close stops all brokers of the pool. Nobody may use one any more.
func (p *pool) close(ctx context.Context) error {
	running := slices.Clone(p.left)
	for _, at := range p.places {
		if at.broker != nil {
			running = append(running, at.broker)
		}
	}
	errs := make([]error, len(running))
	var stopping sync.WaitGroup
	for i, own := range running {
		stopping.Go(func() { errs[i] = own.stop(ctx) })
	}
	stopping.Wait()
	return errors.Join(errs...)
}

// schedule gives out the cases: those that need a broker of their own first, as far as there is room
// for them, then the others.
type schedule struct {
	pool *pool

	mu        sync.Mutex
	own, rest []*Case
}

func newSchedule(p *pool, cases []*Case) *schedule {
	s := &schedule{pool: p}
	for _, c := range slowFirst(cases) {
		if needsOwn(c) {
			s.own = append(s.own, c)
		} else {
			s.rest = append(s.rest, c)
		}
	}
	return s
}

// next returns a case and, where it needs one, its place in the pool; no case when there is none left,
// or the run was interrupted.
func (s *schedule) next(ctx context.Context) (*Case, *place) {
	for ctx.Err() == nil {
		freed := s.pool.freed()
		c, at, more := s.pick()
		if c != nil || !more {
			return c, at
		}
		select {
		case <-freed:
		case <-ctx.Done():
		}
	}
	return nil, nil
}

// pick is next without waiting; more says that cases wait for a place.
func (s *schedule) pick() (c *Case, at *place, more bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, c := range s.own {
		if at := s.pool.claim(c); at != nil {
			s.own = slices.Delete(s.own, i, i+1)
			return c, at, true
		}
	}
	if len(s.rest) > 0 {
		c, s.rest = s.rest[0], s.rest[1:]
		return c, nil, true
	}
	return nil, nil, len(s.own) > 0
}
