package reports

import "slices"

// Verdict is what a case came to.
type Verdict string

// The verdicts of a consumer case.
const (
	// Passed means that every step held and every message has exactly one fate.
	Passed Verdict = "passed"
	// Failed means that the consumer broke a guarantee.
	Failed Verdict = "failed"
	// Known means that the case failed and is listed as known for this broker.
	Known Verdict = "known"
	// Flaky means that the case is listed as flaky; it counts neither way.
	Flaky Verdict = "flaky"
	// Fixed means that the case is listed as known and passed: the list is stale.
	Fixed Verdict = "fixed"
	// Unsupported means that the adapter says it lacks the capability and the case is no must.
	Unsupported Verdict = "unsupported"
	// NotApplicable means that this broker's version or provider has no such thing.
	NotApplicable Verdict = "not-applicable"
	// Unknown means that nothing was observed or a fault never fired: never a pass.
	Unknown Verdict = "unknown"
	// Broken means that parkproof or the broker failed, not the consumer.
	Broken Verdict = "broken"
)

// Verdicts lists all verdicts in the order in which reports count them.
func Verdicts() []Verdict {
	return []Verdict{Passed, Failed, Known, Flaky, Fixed, Unsupported, NotApplicable, Unknown, Broken}
}

// Exit codes of parkproof.
const (
	// ExitPassed: everything that ran passed, or failed as it is known to.
	ExitPassed = 0
	// ExitFailed: something failed, or passed although it is listed as known.
	ExitFailed = 1
	// ExitUnknown: something is unknown, no case was selected, or none passed.
	ExitUnknown = 2
	// ExitBroken: parkproof or a broker failed.
	ExitBroken = 3
	// ExitUsage: the command line cannot be understood.
	ExitUsage = 64
)

// ExitCode is the exit code for a run's verdicts: the first of failed, broken and unknown
// that applies.
func ExitCode(verdicts []Verdict) int {
	has := func(any ...Verdict) bool {
		return slices.ContainsFunc(verdicts, func(v Verdict) bool { return slices.Contains(any, v) })
	}
	switch {
	case has(Failed, Fixed):
		return ExitFailed
	case has(Broken):
		return ExitBroken
	case has(Unknown), !has(Passed):
		return ExitUnknown
	default:
		return ExitPassed
	}
}
