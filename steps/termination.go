package steps

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/parkproof/parkproof/scenarios/adapter"
	"github.com/parkproof/parkproof/scenarios/adapter/protocol"
	"github.com/parkproof/parkproof/scenarios/ledger"
	"github.com/parkproof/parkproof/toxics"
)

// A termination is what a deployment does to a process: SIGTERM, and the wait for its end.
func (w *World) terminationSteps(s Words) {
	s.Step(`^the consumer's process gets SIGTERM$`, w.terminate)
	s.Step(`^the consumer's process gets SIGTERM at `+point+`$`, w.terminateAt)
	s.Step(`^the consumer's process gets SIGTERM and "([^"]*)" lets go of "([^"]*)"$`, func(ctx context.Context, name, pattern string) error {
		return w.terminateWhileHeld(ctx, name, pattern, ok)
	})
	s.Step(`^the consumer's process gets SIGTERM and "([^"]*)" lets go of "([^"]*)" and fails (?:it|them)$`, func(ctx context.Context, name, pattern string) error {
		return w.terminateWhileHeld(ctx, name, pattern, outcome{verdict: protocol.VerdictFail, reason: defaultReason})
	})
	s.Step(`^the consumer's process has ended$`, w.hasEnded)
}

// terminate asks the process to end, and waits for its end. That is no fault of the case's: whoever ends in
// order leaves no more copies behind than without it.
func (w *World) terminate(ctx context.Context) error {
	p := w.theProcess()
	if p == nil {
		return errNoProcess
	}
	of := p.ending()
	if err := p.terminate(); err != nil {
		return err
	}
	return of.wait(ctx)
}

func (p *consumerProcess) terminate() error {
	p.world.mu.Lock()
	a := p.adapter
	p.world.mu.Unlock()
	p.askToStop()
	if err := a.Terminate(); err != nil {
		return fmt.Errorf("sending SIGTERM to the consumer's process: %w", err)
	}
	return nil
}

// terminateAt has the process asked to end at a point. What passes there is passed on: the process runs on.
func (w *World) terminateAt(at string) error {
	return w.arm("the consumer's process gets SIGTERM at", at, toxics.Fault{Action: toxics.Stop, Act: func() bool {
		if p := w.theProcess(); p != nil {
			_ = p.terminate() // one that has ended meanwhile is seen by its exit
		}
		return false
	}})
}

// terminateWhileHeld asks the process to end while handlers run, and gives these their outcome once it
// takes no more deliveries. A consumer that does not wait for its handlers may have ended by then.
func (w *World) terminateWhileHeld(ctx context.Context, name, pattern string, o outcome) error {
	if err := w.hasInHandler(ctx, name, 1, pattern); err != nil {
		return err
	}
	c, err := w.consumer(name)
	if err != nil {
		return err
	}
	of, from := c.process.ending(), len(w.Ledger.Events())
	if err := c.process.terminate(); err != nil {
		return err
	}
	stops := func(*ledger.Book) bool {
		for _, e := range w.Ledger.Events()[from:] {
			if e.Process != c.process.name {
				continue
			}
			switch e.Kind {
			case ledger.Cancelled, ledger.ChannelClosed, ledger.ConnectionClosed, ledger.ConnectionLost, ledger.ProcessExited:
				return true
			}
		}
		return false
	}
	if !w.within(ctx, recovery, stops) {
		return &Failure{
			Expected: "the consumer to take no more deliveries once its process gets SIGTERM",
			Seen:     "neither a cancel, a close nor an exit in " + recovery.String(),
		}
	}
	// Of handlers that the process took along, none is held any more.
	if err := w.release(name, pattern, o); err != nil && !of.over() {
		return err
	}
	return of.wait(ctx)
}

// ending is the end that a life of a process is to come to.
type ending struct {
	process *consumerProcess
	adapter *adapter.Adapter
	wire    *toxics.Wire
	revived <-chan struct{}
}

// ending is the end of the life that the process has now.
func (p *consumerProcess) ending() ending {
	p.world.mu.Lock()
	defer p.world.mu.Unlock()
	return ending{p, p.adapter, p.wire, p.revived}
}

func (e ending) over() bool {
	select {
	case <-e.adapter.Exited():
		return true
	default:
		return false
	}
}

// wait waits for the end, and where there is a supervisor, until that has started the process again.
func (e ending) wait(ctx context.Context) error {
	w := e.process.world
	limit := time.NewTimer(answer)
	defer limit.Stop()
	seen := "it runs on"
	for _, next := range []<-chan struct{}{e.adapter.Exited(), e.revived} {
		select {
		case <-next:
		case <-ctx.Done():
			return fmt.Errorf("waiting for the process to end: %w", ctx.Err())
		case <-limit.C:
			return &Failure{Expected: fmt.Sprintf("the consumer's process to end within %s", answer), Seen: seen}
		}
		w.mu.Lock()
		e.process.ended = !w.supervised
		w.mu.Unlock()
		if e.process.ended {
			return e.wire.Close()
		}
		seen = "nobody has started it again"
	}
	return nil
}

// hasEnded waits for the end of a process that a fault ends.
func (w *World) hasEnded(ctx context.Context) error {
	p := w.theProcess()
	switch {
	case p == nil:
		return errNoProcess
	case w.supervised:
		return errors.New("the process is started again when it ends: wait for what it then does")
	}
	return p.ending().wait(ctx)
}
