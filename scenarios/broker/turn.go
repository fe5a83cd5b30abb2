package broker

import (
	"context"
	"sync"
)

// turn is a lock whose wait obeys a context. The zero turn is free.
type turn struct {
	once sync.Once
	held chan struct{}
}

// take waits for the turn; done gives it to the next.
func (t *turn) take(ctx context.Context) (done func(), err error) {
	t.once.Do(func() { t.held = make(chan struct{}, 1) })
	select {
	case t.held <- struct{}{}:
		return func() { <-t.held }, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}
