package reports

import "testing"

func TestExitCodeIsTheFirstThatApplies(t *testing.T) {
	for _, tt := range []struct {
		name     string
		verdicts []Verdict
		want     int
	}{
		{"nothing selected", nil, ExitUnknown},
		{"all passed", []Verdict{Passed, Passed}, ExitPassed},
		{"passed beside what need not pass", []Verdict{Passed, Known, Flaky, Unsupported, NotApplicable}, ExitPassed},
		{"none passed", []Verdict{NotApplicable, Unsupported}, ExitUnknown},
		{"only known failures", []Verdict{Known}, ExitUnknown},
		{"failed", []Verdict{Passed, Failed}, ExitFailed},
		{"fixed: the list is stale", []Verdict{Passed, Fixed}, ExitFailed},
		{"failed before broken", []Verdict{Broken, Failed, Unknown}, ExitFailed},
		{"broken before unknown", []Verdict{Passed, Unknown, Broken}, ExitBroken},
		{"unknown", []Verdict{Passed, Unknown}, ExitUnknown},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := ExitCode(tt.verdicts); got != tt.want {
				t.Errorf("ExitCode(%v) = %d, want %d", tt.verdicts, got, tt.want)
			}
		})
	}
}
