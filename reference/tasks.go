package reference

import "sync"

// tasks counts goroutines. Unlike a sync.WaitGroup it may be added to while it is waited for, which a handler
// that outlives its client does.
type tasks struct {
	mu      sync.Mutex
	running int
	idle    chan struct{} // not nil while somebody waits; closed when nothing runs
}

// start runs f on a goroutine of its own.
func (t *tasks) start(f func()) {
	t.mu.Lock()
	t.running++
	t.mu.Unlock()
	go func() {
		defer t.end()
		f()
	}()
}

func (t *tasks) end() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.running--
	if t.running == 0 && t.idle != nil {
		close(t.idle)
		t.idle = nil
	}
}

// ended returns a channel that is closed once nothing runs.
func (t *tasks) ended() <-chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.running == 0 {
		closed := make(chan struct{})
		close(closed)
		return closed
	}
	if t.idle == nil {
		t.idle = make(chan struct{})
	}
	return t.idle
}
