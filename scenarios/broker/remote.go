//go:build unix

package broker

import (
	"context"
	"fmt"
)

// remote is a broker that already runs: nothing is started or stopped there.
type remote struct{ to access }

func newRemote(spec Spec, options Options) (*remote, error) {
	if options.Config != "" || options.Advanced != "" || len(options.Env) > 0 {
		return nil, fmt.Errorf("broker %s: a configuration cannot be given to a broker that already runs: %w", spec.String(), ErrUnsupported)
	}
	return &remote{to: spec.access}, nil
}

func (r *remote) start(context.Context) error                { return nil }
func (r *remote) stop(context.Context) error                 { return ErrUnsupported }
func (r *remote) kill(context.Context) error                 { return ErrUnsupported }
func (r *remote) pause(context.Context, bool) error          { return ErrUnsupported }
func (r *remote) died() <-chan struct{}                      { return nil }
func (r *remote) access() access                             { return r.to }
func (r *remote) log(context.Context, int) ([]string, error) { return nil, ErrUnsupported }

func (r *remote) control(context.Context, []string) (string, error) { return "", ErrUnsupported }
func (r *remote) can(Capability) bool                               { return false }
func (r *remote) describe(*Product)                                 {}
func (r *remote) remove(context.Context) error                      { return nil }
