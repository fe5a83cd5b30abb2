package steps

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/parkproof/parkproof/scenarios/broker"
	"github.com/parkproof/parkproof/scenarios/ledger"
)

const (
	// longestHold is the longest rung that settling waits for; what waits in longer ones is taken
	// out and counted as waiting.
	longestHold = 30 * time.Second
	// dryPasses is how often in a row a pass over all queues must find nothing.
	dryPasses = 2
)

// Settle ends the scenario in order, so that nothing more can happen: what is held is let go of;
// each message comes to its fate or has had its time; the consumer closes; the retry queues run
// dry; every queue is drained. Then the account is final.
func (w *World) Settle(ctx context.Context) error {
	if err := w.heal(); err != nil {
		return err
	}
	w.letGoOfAll()
	if err := w.awaitFates(ctx); err != nil {
		return err
	}
	w.endSupervision()
	for _, p := range w.allProcesses() {
		if p.adapter == nil || p.ended {
			continue
		}
		err := p.close(ctx, true)
		var failure *Failure
		if errors.As(err, &failure) {
			// The process is gone, or refuses to close: its exit is in the ledger, and the rest goes on.
			w.warn(failure.Error())
			err = p.end(ctx, endGrace)
		}
		if err != nil {
			return err
		}
	}
	w.settling.Wait()
	if err := w.awaitNobody(ctx); err != nil {
		return err
	}
	if err := w.runDry(ctx); err != nil {
		return err
	}
	w.looks.Lock()
	w.terms.Drained = true
	w.looks.Unlock()
	return nil
}

// Account is the final account, and the first check of a step that fails now that everything has
// settled, with the place of that check among all checks that steps left for the end.
func (w *World) Account() (account ledger.Account, check int, late error) {
	w.looks.Lock()
	terms := w.terms
	w.looks.Unlock()
	account = ledger.Balance(w.Ledger.Events(), terms)
	for i, check := range w.finals {
		if err := check(); err != nil {
			return account, i, err
		}
	}
	return account, 0, nil
}

// Checks is how many checks the steps have left for the end so far.
func (w *World) Checks() int { return len(w.finals) }

// awaitFates waits until each message in each of its queues is handled, parked, or where it may
// stay, and nothing is unsettled; or until nothing has happened for so long that nothing will.
func (w *World) awaitFates(ctx context.Context) error {
	done := func(b *ledger.Book) bool { return b.Settled() }
	var parked []string
	for _, c := range w.allConsumers() {
		if q := w.conventions().parkedQueue(c.queue); q != "" && !slices.Contains(parked, q) {
			parked = append(parked, q)
		}
	}
	settled, err := w.collected(ctx, parked, done)
	if err != nil || !settled {
		return err
	}
	return w.awaitCopies(ctx, parked, done)
}

// dawdling is by how much a broker under load may be late with a message that it takes out of a queue
// whose time is over.
const dawdling = 300 * time.Millisecond

// awaitCopies waits, where a fault may have made copies that nobody was told of, until none can be on
// its way any more: the queues that hold messages for a time are empty, as are those that are
// consumed, and a copy that was lost sight of has had its time.
func (w *World) awaitCopies(ctx context.Context, parked []string, done func(*ledger.Book) bool) error {
	if !w.look((*ledger.Book).Broken) {
		return nil
	}
	limit, cancel := context.WithTimeout(ctx, w.patience())
	defer cancel()
	for limit.Err() == nil {
		seen := w.doings()
		if err := w.awaitExpiry(ctx); err != nil {
			return err
		}
		var lost time.Duration
		var any bool
		w.look(func(b *ledger.Book) bool { lost, any = b.LastLost(w.Ledger.Events()); return true })
		if rest := lost + w.longestRung() + dawdling - time.Since(w.Ledger.Began()); any && rest > 0 {
			watch, cancel := context.WithTimeout(limit, rest)
			_ = w.Ledger.Until(watch, func([]ledger.Event) bool { return w.doings() != seen })
			cancel()
		}
		if err := w.awaitTaken(limit); err != nil {
			return err
		}
		if w.doings() == seen && w.look(done) {
			return nil
		}
		if settled, err := w.collected(limit, parked, done); err != nil || !settled {
			return err
		}
	}
	return nil
}

// doings is how many events there are of the consumer's: parkproof's own looks at the broker are events
// too.
func (w *World) doings() int {
	n := 0
	for _, e := range w.Ledger.Events() {
		if e.Process != "" {
			n++
		}
	}
	return n
}

// awaitTaken waits until the queues that are consumed have nothing ready, as long as they are.
func (w *World) awaitTaken(ctx context.Context) error {
	for _, c := range w.allConsumers() {
		if c.exclusive {
			continue
		}
		err := poll(ctx, quiet, func() (bool, error) {
			q, err := w.inspect(c.queue)
			var refused *amqp.Error
			if errors.As(err, &refused) && (refused.Code == amqp.NotFound || refused.Code == amqp.ResourceLocked) {
				return true, nil
			}
			return q.Messages == 0 || q.Consumers == 0, err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (w *World) allConsumers() []*consumer {
	w.mu.Lock()
	defer w.mu.Unlock()
	var cs []*consumer
	for _, c := range w.consumers {
		cs = append(cs, c)
	}
	return cs
}

// awaitNobody waits until the broker has no consumer left on any queue: it removes a channel's
// consumers from a queue and puts back what they had unacked in one step.
func (w *World) awaitNobody(ctx context.Context) error {
	for _, queue := range w.queues() {
		err := poll(ctx, ours, func() (bool, error) {
			q, err := w.inspect(queue)
			var refused *amqp.Error
			if errors.As(err, &refused) && (refused.Code == amqp.NotFound || refused.Code == amqp.ResourceLocked) {
				return refused.Code == amqp.NotFound, nil
			}
			return q.Consumers == 0, err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// queues are all queues of the scenario.
func (w *World) queues() []string {
	var names []string
	w.look(func(b *ledger.Book) bool {
		for name := range b.Topology.Queues {
			if w.mine(name) {
				names = append(names, name)
			}
		}
		return true
	})
	slices.Sort(names)
	return names
}

// runDry waits until the queues that hold messages for a time have let them go, and takes out all
// that is left anywhere, until a whole pass finds nothing twice.
func (w *World) runDry(ctx context.Context) error {
	if err := w.awaitExpiry(ctx); err != nil {
		return err
	}
	for dry := 0; dry < dryPasses; {
		found := 0
		for _, queue := range w.queues() {
			n, err := w.drain(queue)
			if err != nil {
				return err
			}
			found += n
		}
		if found == 0 {
			dry++
		} else {
			dry = 0
		}
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("draining the queues: %w", err)
		}
	}
	return w.confirmDry(ctx)
}

// confirmDry asks the broker for its live totals, which also count what is unacked or on its way
// to be dead-lettered.
func (w *World) confirmDry(ctx context.Context) error {
	if !w.owned || !w.Broker.Can(broker.Management) {
		return nil
	}
	var left string
	err := poll(ctx, ours, func() (bool, error) {
		left = ""
		queues, err := w.Broker.Queues(ctx, w.vhost)
		if err != nil {
			return false, err
		}
		for _, q := range queues {
			// Numbers that may be old say nothing that the empty passes have not said.
			if !q.Known || q.Age > 0 || q.Total == 0 {
				continue
			}
			left = fmt.Sprintf("queue %q holds %d", q.Name, q.Total)
			if _, err := w.drain(q.Name); err != nil {
				return false, err
			}
		}
		return left == "", nil
	})
	if err != nil {
		return err
	}
	if left != "" {
		return fmt.Errorf("the broker's queues did not run dry: %s", left)
	}
	return nil
}

// awaitExpiry waits until the queues with a message TTL are empty by themselves.
func (w *World) awaitExpiry(ctx context.Context) error {
	holding := map[string]time.Duration{}
	w.look(func(b *ledger.Book) bool {
		for name, q := range b.Topology.Queues {
			if ttl, ok := q.Args.Integer(amqp.QueueMessageTTLArg); ok && !q.Exclusive && w.mine(name) {
				holding[name] = time.Duration(ttl) * time.Millisecond
			}
		}
		return true
	})
	for name, ttl := range holding {
		if ttl > longestHold {
			continue
		}
		err := poll(ctx, ttl+ours, func() (bool, error) {
			q, err := w.inspect(name)
			var refused *amqp.Error
			if errors.As(err, &refused) && refused.Code == amqp.NotFound {
				return true, nil
			}
			return q.Messages == 0, err
		})
		if err != nil {
			return err
		}
	}
	return nil
}
