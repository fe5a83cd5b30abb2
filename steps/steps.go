package steps

import "github.com/cucumber/godog"

// Words takes definitions of steps: a regular expression, and the function that does it.
// *godog.ScenarioContext is one.
type Words interface{ Step(expr, do any) }

var _ Words = (*godog.ScenarioContext)(nil)

// Register gives a scenario all the words, on this world.
func (w *World) Register(s Words) {
	w.exchangeSteps(s)
	w.queueSteps(s)
	w.consumerSteps(s)
	w.processSteps(s)
	w.handlerSteps(s)
	w.messageSteps(s)
	w.deliverySteps(s)
	w.parkingSteps(s)
	w.propertySteps(s)
	w.declarationSteps(s)
	w.faultSteps(s)
	w.linkSteps(s)
	w.recoverySteps(s)
	w.pathSteps(s)
	w.copySteps(s)
	w.limitSteps(s)
	w.terminationSteps(s)
	w.channelSteps(s)
	w.lossSteps(s)
	w.nodeSteps(s)
	w.removalSteps(s)
	w.operatorSteps(s)
	w.outageSteps(s)
}

// expressions keeps the expressions of definitions.
type expressions []string

func (e *expressions) Step(expr, _ any) { *e = append(*e, expr.(string)) }

// Expressions are the regular expressions of all steps, to hold cases against.
func Expressions() []string {
	var all expressions
	new(World).Register(&all)
	return all
}
