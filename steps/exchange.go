package steps

import (
	"fmt"
)

func (w *World) exchangeSteps(s Words) {
	s.Step(`^an? (fanout|direct|topic|headers) exchange "([^"]*)"$`, w.declareExchange)
	s.Step(`^the exchange "([^"]*)" is bound to the exchange "([^"]*)"$`, w.bindExchange)
}

func (w *World) declareExchange(kind, name string) error {
	topology, err := w.topology()
	if err != nil {
		return err
	}
	if err := topology.ExchangeDeclare(w.physical(name), kind, true, false, false, false, nil); err != nil {
		return fmt.Errorf("declaring exchange %q: %w", name, err)
	}
	w.declared[name] = declared{kind: kind}
	return nil
}

func (w *World) bindExchange(to, from string) error {
	topology, err := w.topology()
	if err != nil {
		return err
	}
	if err := topology.ExchangeBind(w.physical(to), "", w.physical(from), false, nil); err != nil {
		return fmt.Errorf("binding exchange %q to %q: %w", to, from, err)
	}
	return nil
}
