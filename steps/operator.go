package steps

import "context"

func (w *World) operatorSteps(s Words) {
	s.Step(`^the operator closes the connections of the consumer (\d+) times, each time once "([^"]*)" consumes again$`, w.closesRepeatedly)
}

// closesRepeatedly closes the consumer's connections, waits until the consumer is back, and does it again.
func (w *World) closesRepeatedly(ctx context.Context, times int, name string) error {
	for range times {
		if err := w.closesConnections(ctx); err != nil {
			return err
		}
		if err := w.consumesAgain(ctx, name); err != nil {
			return err
		}
	}
	return nil
}
