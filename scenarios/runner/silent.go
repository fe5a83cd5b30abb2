package runner

import (
	"regexp"

	"github.com/cucumber/godog"
	messages "github.com/cucumber/messages/go/v34"
)

// parkingWords are in every step that looks at parked messages.
var parkingWords = regexp.MustCompile(`\b(parked|parking)\b`)

// silent is a godog formatter that writes nothing.
type silent struct{}

func (silent) TestRunStarted()                                                   {}
func (silent) Feature(*messages.GherkinDocument, string, []byte)                 {}
func (silent) Pickle(*godog.Scenario)                                            {}
func (silent) Defined(*godog.Scenario, *godog.Step, *godog.StepDefinition)       {}
func (silent) Failed(*godog.Scenario, *godog.Step, *godog.StepDefinition, error) {}
func (silent) Passed(*godog.Scenario, *godog.Step, *godog.StepDefinition)        {}
func (silent) Skipped(*godog.Scenario, *godog.Step, *godog.StepDefinition)       {}
func (silent) Undefined(*godog.Scenario, *godog.Step, *godog.StepDefinition)     {}
func (silent) Pending(*godog.Scenario, *godog.Step, *godog.StepDefinition)       {}
func (silent) Ambiguous(*godog.Scenario, *godog.Step, *godog.StepDefinition, error) {
}
func (silent) Summary() {}
