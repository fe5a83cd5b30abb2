package steps

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/parkproof/parkproof/scenarios/adapter/protocol"
	"github.com/parkproof/parkproof/scenarios/ledger"
	"github.com/parkproof/parkproof/toxics/frame"
)

// consumer is one consumer of a process, by the name that the case gives it.
type consumer struct {
	name      string
	process   *consumerProcess
	queue     string
	exclusive bool
}

func (w *World) consumerSteps(s Words) {
	const options = `(?: with a ladder of ([0-9ms, ]+?))?(?:(?: and| with) a prefetch of (\d+))?(?: in process "([^"]*)")?`
	s.Step(`^"([^"]*)" (?:consumes|starts to consume) "([^"]*)"`+options+`$`, func(ctx context.Context, name, from, ladder, prefetch, process string) error {
		return w.consumes(ctx, protocol.Request{Consumer: name}, from, ladder, prefetch, process)
	})
	s.Step(`^"([^"]*)" consumes "([^"]*)" with the key "([^"]*)"$`, func(ctx context.Context, name, from, key string) error {
		return w.consumes(ctx, protocol.Request{Consumer: name, Key: key}, from, "", "", "")
	})
	s.Step(`^"([^"]*)" consumes "([^"]*)" with the header "([^"]*)" as "([^"]*)"$`, func(ctx context.Context, name, from, header, value string) error {
		return w.consumes(ctx, protocol.Request{Consumer: name, BindHeaders: map[string]string{header: value}}, from, "", "", "")
	})
	s.Step(`^"([^"]*)" consumes "([^"]*)" from an exclusive queue`+options+`$`, func(ctx context.Context, name, from, ladder, prefetch, process string) error {
		return w.consumes(ctx, protocol.Request{Consumer: name, Exclusive: true}, from, ladder, prefetch, process)
	})
	s.Step(`^"([^"]*)" tries to consume "([^"]*)"`+options+`$`, w.triesToConsume)
	s.Step(`^"([^"]*)" is refused with an error that names the retry queue of (\w+)$`, w.isRefused)
	s.Step(`^the consumer declares at most (\d+) times in (\w+)$`, w.declaresAtMost)
	s.Step(`^"([^"]*)" is stopped$`, w.stops)
	s.Step(`^no consumer was cancelled$`, w.noneCancelled)
	s.Step(`^no channel was opened after the first failure$`, w.noChannelAfterFailure)
}

func (w *World) consumer(name string) (*consumer, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	c := w.consumers[name]
	if c == nil {
		return nil, fmt.Errorf("no consumer %q was started", name)
	}
	return c, nil
}

// request completes a consume with where it consumes from, and starts the process.
func (w *World) request(ctx context.Context, r protocol.Request, from, ladder, prefetch, process string) (*consumerProcess, protocol.Request, error) {
	rungs, err := parseLadder(ladder)
	if err != nil {
		return nil, r, err
	}
	limit := 0
	if prefetch != "" {
		if limit, err = strconv.Atoi(prefetch); err != nil {
			return nil, r, fmt.Errorf("the prefetch %q cannot be read: %w", prefetch, err)
		}
	}
	d, ok := w.declared[from]
	if !ok {
		return nil, r, fmt.Errorf("no exchange or queue %q was declared", from)
	}
	if d.kind == "queue" {
		r.Queue, r.QueueType = w.physical(from), d.queueType
	} else {
		r.Exchange, r.Kind = w.physical(from), d.kind
	}
	p, err := w.process(ctx, process, rungs, limit)
	if err != nil {
		return nil, r, err
	}
	if r.Exchange != "" && !slices.Contains(p.ready.Supports, protocol.CanExchange) {
		return nil, r, &Unsupported{What: protocol.CanExchange}
	}
	return p, r, nil
}

func (w *World) consumes(ctx context.Context, r protocol.Request, from, ladder, prefetch, process string) error {
	p, r, err := w.request(ctx, r, from, ladder, prefetch, process)
	if err != nil {
		return err
	}
	return p.consume(ctx, r)
}

// triesToConsume starts a consumer that is expected to be refused; the broker's own refusal is
// part of that.
func (w *World) triesToConsume(ctx context.Context, name, from, ladder, prefetch, process string) error {
	p, r, err := w.request(ctx, protocol.Request{Consumer: name}, from, ladder, prefetch, process)
	if err != nil {
		return err
	}
	w.looks.Lock()
	w.terms.ExpectedCodes[preconditionFailed] = true
	w.looks.Unlock()
	w.refused = p.consume(ctx, r)
	return nil
}

// preconditionFailed is the reply code of a declaration with other arguments: AMQP 0-9-1.
const preconditionFailed = 406

func (w *World) isRefused(_ context.Context, name, delay string) error {
	d, err := time.ParseDuration(delay)
	if err != nil {
		return fmt.Errorf("the delay %q cannot be read: %w", delay, err)
	}
	queue := w.retryQueue(d)
	want := fmt.Sprintf("an error at start that names the retry queue %q", queue)
	var failure *Failure
	switch {
	case w.refused == nil:
		return &Failure{Expected: want, Seen: fmt.Sprintf("%q consumes as if nothing were wrong", name)}
	case !errors.As(w.refused, &failure):
		return w.refused
	case !strings.Contains(failure.Seen, queue):
		return &Failure{Expected: want, Seen: failure.Seen}
	}
	return nil
}

// declaresAtMost watches for a period how often the consumer declares something: one that tries
// again at once, and again, is a hot loop.
func (w *World) declaresAtMost(ctx context.Context, most int, period string) error {
	d, err := time.ParseDuration(period)
	if err != nil {
		return fmt.Errorf("the period %q cannot be read: %w", period, err)
	}
	from := len(w.Ledger.Events())
	count := func() int {
		n := 0
		for _, e := range w.Ledger.Events()[from:] {
			if e.Process != "" && e.Kind == ledger.Asked {
				if _, is := e.Method.(*frame.QueueDeclare); is {
					n++
				}
			}
		}
		return n
	}
	held, err := w.consistently(ctx, d, func(*ledger.Book) bool { return count() <= most })
	if err != nil {
		return err
	}
	if !held {
		return &Failure{
			Expected: fmt.Sprintf("at most %d declarations of queues in %s", most, period),
			Seen:     fmt.Sprintf("%d of them already", count()),
		}
	}
	return nil
}

func (w *World) stops(ctx context.Context, name string) error {
	c, err := w.consumer(name)
	if err != nil {
		return err
	}
	w.Ledger.Add(ledger.Event{Kind: ledger.StopAsked, Process: c.process.name, Consumer: name})
	asking, cancel := context.WithTimeout(ctx, answer)
	defer cancel()
	return judged(c.process.adapter.Stop(asking, name), fmt.Sprintf("%q to stop", name))
}

// noneCancelled is checked at once and at the end of the steps: nobody asked for a cancel.
func (w *World) noneCancelled() error {
	for _, e := range w.Ledger.Events() {
		if e.Process != "" && e.Kind == ledger.Cancelled {
			return &Failure{Expected: "no consumer to be cancelled", Seen: fmt.Sprintf("a cancel of the consumer of queue %q on the wire", e.Queue)}
		}
	}
	return nil
}

// noChannelAfterFailure: a channel for each failure is a leak, sooner or later.
func (w *World) noChannelAfterFailure() error {
	failed, opened := false, 0
	for _, e := range w.Ledger.Events() {
		switch {
		case e.Kind == ledger.HandlerSettled && e.Verdict != protocol.VerdictOK:
			failed = true
		case failed && e.Process != "" && e.Kind == ledger.ChannelOpened:
			opened++
		}
	}
	// A library may open the channel that it publishes on when it first needs it.
	if opened > 1 {
		return &Failure{Expected: "no channel to be opened for a failure", Seen: fmt.Sprintf("%d channels opened after the first failure", opened)}
	}
	return nil
}
