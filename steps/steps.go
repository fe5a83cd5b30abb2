package steps

import "github.com/cucumber/godog"

// Register gives a scenario all the words, on this world.
func (w *World) Register(s *godog.ScenarioContext) {
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
}
