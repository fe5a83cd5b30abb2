package steps

// A loss that is the broker's doing and not the consumer's: a deleted queue takes along what is in it, and
// what comes home to a queue that is not there is dropped.
func (w *World) lossSteps(s Words) {
	s.Step(`^the broker may lose "([^"]*)"$`, func(message string) {
		w.looks.Lock()
		defer w.looks.Unlock()
		w.terms.DroppedOnPurpose[message] = true
	})
}
