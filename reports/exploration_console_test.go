package reports

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

func explored(t *testing.T, r *Run, style Style) string {
	t.Helper()
	var b strings.Builder
	if err := WriteExplorations(&b, r, style); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestWriteExplorations(t *testing.T) {
	golden(t, "explorations.golden", explored(t, explorations(), Style{}))
	golden(t, "explorations-80.golden", explored(t, explorations(), Style{Width: 80}))
	golden(t, "explorations-50.golden", explored(t, explorations(), Style{Width: 50}))
	golden(t, "explorations-color.golden", explored(t, explorations(), Style{Color: true, Width: 120}))
	golden(t, "explorations-passed.golden", explored(t, allPassed(), Style{}))
}

func TestExplorationsKeepToTheirWidth(t *testing.T) {
	for _, width := range []int{50, 80, 100, 120} {
		for line := range strings.Lines(explored(t, explorations(), Style{Width: width})) {
			if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > width {
				t.Errorf("%d columns of %d: %s", n, width, line)
			}
		}
	}
}

func TestExplorationsHoldNoControlSequencesAndNoPasswords(t *testing.T) {
	got := explored(t, explorations(), Style{})
	for _, bad := range []string{"\x1b", "\x07", "hunter2", "owned"} {
		if strings.Contains(got, bad) {
			t.Errorf("the text holds %q", bad)
		}
	}
}

func TestColorsOfExplorationsChangeNothingElse(t *testing.T) {
	for _, width := range []int{50, 90} {
		if got, want := Plain(explored(t, explorations(), Style{Color: true, Width: width})), explored(t, explorations(), Style{Width: width}); got != want {
			t.Errorf("without its colours it differs:\n%s", got)
		}
	}
}

func TestWritingExplorationsSaysWhatFailed(t *testing.T) {
	var w io.Writer = full{}
	if err := WriteExplorations(w, explorations(), Style{}); err == nil || err.Error() != "writing what was explored: the disk is full" {
		t.Errorf("got %v", err)
	}
}

// manyPoints are points of which each passed with as many more copies as its figure says; x failed, u was
// not reached, and - was not run.
func manyPoints(figures string) *Exploration {
	e := &Exploration{Path: "CRP-009", Recorded: len(figures)}
	for i, f := range figures {
		p := Point{Connection: 1, Role: "consuming", Method: fmt.Sprintf("method.%d", i+1), Occurrence: 1}
		o := Outcome{Way: "killed", Verdict: Passed}
		switch f {
		case 'x':
			o.Verdict = Failed
		case 'u':
			o.Verdict = Unknown
		default:
			o.Copies = int(f - '0')
		}
		if f != '-' {
			p.Outcomes = []Outcome{o}
		}
		e.Points = append(e.Points, p)
	}
	return e
}

func TestFolded(t *testing.T) {
	for _, tt := range []struct {
		name, figures string
		most          int
		want          string
	}{
		{"nothing", "", 3, ""},
		{"what fits stays", "000", 3, "1 2 3"},
		{"the longest run first", "0001100", 5, "1-3 4 5 6 7"},
		{"then the next", "0001100", 4, "1-3 4-5 6 7"},
		{"all runs of equal points", "0001100", 3, "1-3 4-5 6-7"},
		{"then runs of what passed", "0001100", 2, "1-7"},
		{"the longest of those first", "0101x01", 4, "1-4 5 6 7"},
		{"what did not pass stays alone", "00xx00", 1, "1-2 3 4 5-6"},
		{"what was not reached may not", "0uuu0", 3, "1 2-4 5"},
		{"nor what was not run", "0--x-u", 3, "1 2-3 4 5-6"},
		{"no point hides in what passed", "0u0u0", 1, "1 2 3 4 5"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var got []string
			e := manyPoints(tt.figures)
			for _, b := range e.folded([]string{"killed"}, tt.most) {
				if b.first == b.last {
					got = append(got, fmt.Sprint(b.first+1))
				} else {
					got = append(got, fmt.Sprintf("%d-%d", b.first+1, b.last+1))
				}
			}
			if g := strings.Join(got, " "); g != tt.want {
				t.Errorf("got %s, want %s", g, tt.want)
			}
		})
	}
}

// FuzzFolded holds that the blocks are all points in order, that no point which did not pass shares one with a point
// that was reached, and that so many rows suffice where everything passed.
func FuzzFolded(f *testing.F) {
	f.Add("0001100xuu-00110", 4)
	f.Fuzz(func(t *testing.T, figures string, most int) {
		figures = strings.Map(func(r rune) rune {
			if strings.ContainsRune("0123xu-", r) {
				return r
			}
			return '0'
		}, figures)
		most = max(1, most%40)
		e := manyPoints(figures)
		blocks := e.folded([]string{"killed"}, most)
		next := 0
		for _, b := range blocks {
			if b.first != next || b.last < b.first {
				t.Fatalf("%s: %v", figures, blocks)
			}
			next = b.last + 1
			if in := figures[b.first:next]; len(in) > 1 && strings.ContainsAny(in, "xu-") && strings.Trim(in, "u-") != "" {
				t.Fatalf("%s: %q share a row", figures, in)
			}
		}
		if next != len(figures) {
			t.Fatalf("%s: %v", figures, blocks)
		}
		if !strings.ContainsAny(figures, "xu-") && len(blocks) > most {
			t.Fatalf("%s: %d rows, want at most %d", figures, len(blocks), most)
		}
	})
}

func TestMarksOfRunsSayTheMostCopies(t *testing.T) {
	for figures, want := range map[string]string{"00": "·", "11": "+1", "01": "≤+1", "20": "≤+2", "0": "·", "uu": "unknown", "x": "failed", "-": "unknown"} {
		e := manyPoints(figures)
		if got := e.marks(block{0, len(figures) - 1}, []string{"killed"})[0].text; got != want {
			t.Errorf("%s: got %s, want %s", figures, got, want)
		}
	}
}

func TestTableHasFewLinesWhereAllIsWell(t *testing.T) {
	for _, e := range []*Exploration{manyPoints(strings.Repeat("0101100210", 30)), &allPassed().Explorations[0], {Recorded: 300, Points: ladder(9)}} {
		for _, width := range []int{0, 40, 60, 80, 100} {
			text := explored(t, &Run{Explorations: []Exploration{*e}}, Style{Width: width})
			table, _, _ := strings.Cut(text, "\n\n")
			if n := strings.Count(table, "\n") + 1; n > mostLines {
				t.Errorf("%s, %d columns: %d lines:\n%s", e.Path, width, n, table)
			}
		}
	}
}

func TestTableShowsAllPointsWhereTheyFit(t *testing.T) {
	text := explored(t, &Run{Explorations: []Exploration{*manyPoints(strings.Repeat("0", mostLines-2))}}, Style{})
	table, _, _ := strings.Cut(text, "\n\n")
	if n := strings.Count(table, " method."); n != mostLines-2 {
		t.Errorf("%d rows:\n%s", n, table)
	}
}

func TestEveryPointThatDidNotPassIsNamed(t *testing.T) {
	figures := strings.Repeat("0x0", 30)
	text := explored(t, &Run{Explorations: []Exploration{*manyPoints(figures)}}, Style{})
	table, rest, _ := strings.Cut(text, "\n\n")
	for i, f := range figures {
		if row := fmt.Sprintf(" method.%d ", i+1); f == 'x' && !strings.Contains(table, row) {
			t.Errorf("the table lacks the row of point %d", i+1)
		}
	}
	if want := "and at 25 other points: 17, 20, 23, 26, 29"; !strings.Contains(rest, want) {
		t.Errorf("the failures lack %q:\n%s", want, rest)
	}
}

func TestFailuresAreManyOnlyWhereReasonsAre(t *testing.T) {
	e := manyPoints(strings.Repeat("x", 30))
	for i := range e.Points {
		e.Points[i].Outcomes[0].Reason = fmt.Sprintf("reason %d", i)
	}
	text := explored(t, &Run{Explorations: []Exploration{*e}}, Style{})
	if n := strings.Count(text, "FAILED"); n != mostGroups {
		t.Errorf("%d groups, want %d", n, mostGroups)
	}
	if want := "(10 runs of CRP-009 more did not pass; run.json has them)"; !strings.Contains(text, want) {
		t.Errorf("it lacks %q", want)
	}
}

func TestOutcomeOfExplorations(t *testing.T) {
	for _, tt := range []struct {
		run  *Run
		want string
	}{
		{&Run{Seconds: 1.25, ExitCode: 2}, "No path was explored, in 1.2 s (exit code 2)"},
		{allPassed(), "1 path: 42 of 42 points, 175 of 175 runs passed, in 65.4 s (exit code 0)"},
		{explorations(), "4 failed, 1 broken, 2 unknown, 5 points not run, 2 paths not explored, of 231 runs on 6 paths, in 65.4 s (exit code 1)"},
		{&Run{Explorations: explorations().Explorations[5:], ExitCode: 2}, "No run passed, on 1 path, in 0.0 s (exit code 2)"},
		{&Run{Explorations: explorations().Explorations[:1], Interrupted: true, ExitCode: 3}, "1 path: 42 of 42 points, 175 of 175 runs passed; interrupted before all had run, in 0.0 s (exit code 3)"},
	} {
		lines := strings.Split(strings.TrimSpace(explored(t, tt.run, Style{})), "\n")
		if got := lines[len(lines)-1]; got != tt.want {
			t.Errorf("got %q, want %q", got, tt.want)
		}
	}
}

func TestBrokersThatCouldNotBeHadAreNamed(t *testing.T) {
	text := explored(t, &Run{Brokers: []Broker{{Name: "4.3", Error: "no engine at amqp://u:hunter2@h"}}}, Style{})
	if want := "! 4.3 could not be had: no engine at amqp://u:***@h\n"; !strings.Contains(text, want) {
		t.Errorf("it lacks %q:\n%s", want, text)
	}
}

func TestSpan(t *testing.T) {
	if got := span([]int{0, 2, 3, 6, 7, 8}); got != "1, 3, 4, 7 to 9" {
		t.Errorf("got %q", got)
	}
	if got := span(slices.Collect(func(func(int) bool) {})); got != "" {
		t.Errorf("got %q", got)
	}
}
