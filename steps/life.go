package steps

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/parkproof/parkproof/scenarios/adapter"
	"github.com/parkproof/parkproof/scenarios/ledger"
	"github.com/parkproof/parkproof/toxics"
)

// life is a process of the consumer from its start to its end; the process's numbers of handler calls
// begin again in each.
type life struct {
	process *consumerProcess
	adapter *adapter.Adapter // guarded by the world's mu
	// noted is closed once its end is in the ledger.
	noted chan struct{}
}

// mostLives bounds how often a process is started again: one that dies at every start would go on for
// ever.
const mostLives = 20

// died is told of the end of the process. A supervisor, where the case has one, starts it again.
func (p *consumerProcess) died(l *life, wire *toxics.Wire) {
	w := p.world
	a := l.adapter
	w.mu.Lock()
	for k, calls := range w.held {
		w.held[k] = slices.DeleteFunc(calls, func(c heldCall) bool { return c.life.adapter == a })
		if len(w.held[k]) == 0 {
			delete(w.held, k)
		}
	}
	revive := w.supervised && !w.settled && !p.closing && p.life == l && p.lives < mostLives
	if revive {
		w.reviving.Add(1)
		defer w.reviving.Done()
	}
	w.mu.Unlock()
	if !revive {
		return
	}
	_ = wire.Close() // what is left of its connections
	ctx, cancel := context.WithTimeout(w.open, 2*answer)
	defer cancel()
	if err := p.again(ctx); err != nil {
		w.warn("the process could not be started again: " + err.Error())
		return
	}
	w.mu.Lock()
	close(p.revived)
	p.revived = make(chan struct{})
	w.mu.Unlock()
}

// again starts the process again and has it consume what it consumed.
func (p *consumerProcess) again(ctx context.Context) error {
	w := p.world
	w.mu.Lock()
	for _, line := range p.adapter.Log() {
		p.past = append(p.past, w.Broker.Hide(line))
	}
	consumed, last := slices.Clone(p.consumed), p.life
	w.mu.Unlock()
	<-last.noted
	if err := p.start(ctx); err != nil {
		return err
	}
	for _, r := range consumed {
		if err := p.consumeOnce(ctx, r); err != nil {
			return err
		}
	}
	return nil
}

// supervise does something that the process may die of, or refuse since a fault fired: then it is done
// again once the process has been started again, as its supervisor would; its start has been done then.
func (p *consumerProcess) supervise(ctx context.Context, start bool, do func(context.Context) error) error {
	w := p.world
	for {
		w.mu.Lock()
		revived, supervised := p.revived, w.supervised
		w.mu.Unlock()
		fired := w.faultsFired()
		err := do(ctx)
		var failure *Failure
		if err == nil || !supervised || !errors.As(err, &failure) && !p.gone() {
			return err
		}
		if !p.gone() {
			// It has not died, but said that it cannot go on.
			if w.faultsFired() == fired {
				return err
			}
			w.mu.Lock()
			a := p.adapter
			w.mu.Unlock()
			p.askToStop()
			if err := a.Kill(ctx); err != nil {
				return fmt.Errorf("ending a process that has refused: %w", err)
			}
		}
		limit := time.NewTimer(2 * answer)
		select {
		case <-revived:
			limit.Stop()
			if start {
				return nil
			}
		case <-ctx.Done():
			limit.Stop()
			return fmt.Errorf("waiting for the process to be started again: %w", ctx.Err())
		case <-limit.C:
			return err
		}
	}
}

// gone reports whether the process has ended.
func (p *consumerProcess) gone() bool {
	p.world.mu.Lock()
	a := p.adapter
	p.world.mu.Unlock()
	if a == nil {
		return false
	}
	select {
	case <-a.Exited():
		return true
	default:
		return false
	}
}

// kill kills the process and returns when its exit was seen.
func (p *consumerProcess) kill() error {
	p.world.mu.Lock()
	a := p.adapter
	p.world.mu.Unlock()
	if a == nil {
		return errors.New("the consumer's process has not been started")
	}
	p.askToStop()
	ctx, cancel := context.WithTimeout(context.Background(), ours)
	defer cancel()
	if err := a.Kill(ctx); err != nil {
		return fmt.Errorf("killing the consumer's process: %w", err)
	}
	<-a.Exited()
	return nil
}

// faultsFired is how many faults have fired so far.
func (w *World) faultsFired() int {
	n := 0
	for _, e := range w.Ledger.Events() {
		if e.Kind == ledger.Fired {
			n++
		}
	}
	return n
}

// endSupervision has no process started again any more, and waits for one that is being.
func (w *World) endSupervision() {
	w.mu.Lock()
	w.settled = true
	w.mu.Unlock()
	w.reviving.Wait()
}
