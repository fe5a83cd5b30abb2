package docs_test

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/parkproof/parkproof/steps"
)

// TestFaultsAreWrittenAsTheyAreRead: every step that the page shows has one definition, and nothing is
// wrong with its fault.
func TestFaultsAreWrittenAsTheyAreRead(t *testing.T) {
	text, err := os.ReadFile("faults.md")
	if err != nil {
		t.Fatal(err)
	}
	var definitions []*regexp.Regexp
	for _, expression := range steps.Expressions() {
		definitions = append(definitions, regexp.MustCompile(expression))
	}
	shown := 0
	for _, block := range strings.Split(string(text), "```gherkin\n")[1:] {
		block, _, _ = strings.Cut(block, "```")
		for _, line := range strings.Split(strings.TrimSpace(block), "\n") {
			shown++
			_, step, _ := strings.Cut(line, " ")
			fit := 0
			for _, d := range definitions {
				if d.MatchString(step) {
					fit++
				}
			}
			if fit != 1 {
				t.Errorf("%s: %d definitions", line, fit)
			}
			given := []steps.Line{{Text: `a classic queue "jobs"`}, {Text: `"m1" is published to "jobs"`}, {Text: step}}
			if err := steps.Check(given); err != nil {
				t.Errorf("%s: %v", line, err)
			}
		}
	}
	if shown < 20 {
		t.Errorf("only %d steps were found on the page", shown)
	}
}
