package reports

import (
	"errors"
	"io"
	"strings"
	"testing"
	"unicode/utf8"
)

func summary(t *testing.T, r *Run, style Style) string {
	t.Helper()
	var b strings.Builder
	if err := WriteSummary(&b, r, style); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestWriteSummary(t *testing.T) {
	golden(t, "summary.golden", summary(t, sampleRun(), Style{}))
	golden(t, "summary-80.golden", summary(t, sampleRun(), Style{Width: 80}))
	golden(t, "summary-color.golden", summary(t, sampleRun(), Style{Color: true, Width: 100}))
}

func TestSummaryKeepsToItsWidth(t *testing.T) {
	for line := range strings.Lines(summary(t, sampleRun(), Style{Width: 80})) {
		if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > 80 {
			t.Errorf("%d columns: %s", n, line)
		}
	}
}

func TestSummaryHoldsNoControlSequencesAndNoPasswords(t *testing.T) {
	got := summary(t, sampleRun(), Style{})
	for _, bad := range []string{"\x1b", "\x00", "\x07", "\u202e", "hunter2", "owned"} {
		if strings.Contains(got, bad) {
			t.Errorf("the summary holds %q", bad)
		}
	}
}

func TestColorsChangeNothingElse(t *testing.T) {
	if got, want := Plain(summary(t, sampleRun(), Style{Color: true, Width: 90})), summary(t, sampleRun(), Style{Width: 90}); got != want {
		t.Errorf("without its colours it differs:\n%s", got)
	}
}

func TestOutcome(t *testing.T) {
	cases := func(vs ...Verdict) *Run {
		r := &Run{Seconds: 1.25}
		for _, v := range vs {
			r.Cases = append(r.Cases, Case{Verdict: v})
		}
		r.ExitCode = ExitCode(r.Verdicts())
		return r
	}
	for _, tt := range []struct {
		run  *Run
		want string
	}{
		{cases(), "No case ran, in 1.2 s (exit code 2)"},
		{cases(Passed), "1 case passed, in 1.2 s (exit code 0)"},
		{cases(Passed, Passed, Known), "2 cases passed, in 1.2 s (exit code 0)"},
		{cases(Known, Unsupported), "No case passed, of 2 cases, in 1.2 s (exit code 2)"},
		{cases(Passed, Failed, Failed, Broken), "2 failed, 1 broken, of 4 cases, in 1.2 s (exit code 1)"},
		{&Run{Interrupted: true}, "No case ran; interrupted before all cases had run, in 0.0 s (exit code 0)"},
	} {
		lines := strings.Split(strings.TrimSpace(summary(t, tt.run, Style{})), "\n")
		if got := lines[len(lines)-1]; got != tt.want {
			t.Errorf("got %q, want %q", got, tt.want)
		}
	}
}

func TestKept(t *testing.T) {
	count := func(n int, marked ...int) (shown int, all bool) {
		timeline := make([]Moment, n)
		for _, m := range marked {
			timeline[m].Marked = true
		}
		keep := kept(timeline)
		all = true
		for i, k := range keep {
			if k {
				shown++
			}
			if timeline[i].Marked && !k {
				all = false
			}
		}
		return shown, all
	}
	for _, tt := range []struct {
		n      int
		marked []int
		shown  int
	}{
		{0, nil, 0},
		{longestTimeline, nil, longestTimeline},
		{longestTimeline + 1, nil, 2 * timelineEnds},
		{100, []int{50}, 2*timelineEnds + 5},
		{100, []int{0, 99}, 2 * timelineEnds},
		{100, []int{13}, 2*timelineEnds + 6}, // line 10 would be a gap of one
	} {
		shown, all := count(tt.n, tt.marked...)
		if shown != tt.shown || !all {
			t.Errorf("of %d lines, marked %v: %d shown, want %d; all marked ones: %v", tt.n, tt.marked, shown, tt.shown, all)
		}
	}
	var many []int
	for i := range 500 {
		many = append(many, i*2)
	}
	if shown, _ := count(1000, many...); shown > 2*timelineEnds+mostMarked*(2*timelineAround+1) {
		t.Errorf("%d lines shown of a timeline with many marked", shown)
	}
}

type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("the disk is full") }

func TestWritersSayWhatFailed(t *testing.T) {
	for name, write := range map[string]func(io.Writer) error{
		"writing the summary": func(w io.Writer) error { return WriteSummary(w, sampleRun(), Style{}) },
		"writing JUnit XML":   sampleRun().WriteJUnit,
	} {
		if err := write(full{}); err == nil || err.Error() != name+": the disk is full" {
			t.Errorf("got %v", err)
		}
	}
}
