package ledger

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// numberedLines are n lines that say their number, from 1, with faults at those given.
func numberedLines(n int, faults ...int) []Line {
	lines := make([]Line, n)
	for i := range lines {
		lines[i] = Line{What: fmt.Sprint(i + 1), Fault: slices.Contains(faults, i+1)}
	}
	return lines
}

// runs tells which numbers an excerpt has: "1-3 [leaves out 4 ...] 8-9".
func runs(lines []Line) string {
	var parts []string
	for i := 0; i < len(lines); i++ {
		from := i
		var a, b int
		if _, err := fmt.Sscan(lines[i].What, &a); err != nil {
			parts = append(parts, "["+lines[i].Who+" "+lines[i].What+"]")
			continue
		}
		for b = a; i+1 < len(lines) && lines[i+1].What == fmt.Sprint(b+1); i++ {
			b++
		}
		if part := fmt.Sprintf("%d-%d", a, b); i > from {
			parts = append(parts, part)
		} else {
			parts = append(parts, fmt.Sprint(a))
		}
	}
	return strings.Join(parts, " ")
}

func TestExcerpt(t *testing.T) {
	var flapping []int
	for n := range 100 {
		flapping = append(flapping, 100*n+50)
	}
	for name, tt := range map[string]struct {
		lines []Line
		limit int
		want  string
	}{
		"none":              {nil, 4, ""},
		"a short one":       {numberedLines(4), 4, "1-4"},
		"one more":          {numberedLines(5), 4, "1-2 [parkproof leaves out a line of this timeline] 4-5"},
		"without a fault":   {numberedLines(100), 4, "1-2 [parkproof leaves out 96 lines of this timeline] 99-100"},
		"around a fault":    {numberedLines(100, 50), 4, "1-2 [parkproof leaves out 35 lines of this timeline] 38-62 [parkproof leaves out 36 lines of this timeline] 99-100"},
		"faults near":       {numberedLines(100, 50, 60), 4, "1-2 [parkproof leaves out 35 lines of this timeline] 38-72 [parkproof leaves out 26 lines of this timeline] 99-100"},
		"a fault at an end": {numberedLines(100, 1, 98), 4, "1-13 [parkproof leaves out 72 lines of this timeline] 86-100"},
		"no limit at all":   {numberedLines(30, 10), 0, "1-22 [parkproof leaves out 8 lines of this timeline]"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := runs(Excerpt(tt.lines, tt.limit)); got != tt.want {
				t.Errorf("the excerpt has\n%s\nwant\n%s", got, tt.want)
			}
		})
	}

	lines := Excerpt(numberedLines(10_000, flapping...), 100)
	fires := 0
	for _, l := range lines {
		if l.Fault {
			fires++
		}
	}
	if fires != excerptFaults || len(lines) > excerptFaults*(2*aroundFault+2)+100 {
		t.Errorf("of 100 faults, %d are shown, in %d lines", fires, len(lines))
	}
	if got := runs(lines); !strings.Contains(got, "leaves out 6075 lines of this timeline, in which a fault fires 60 times]") {
		t.Errorf("the excerpt does not say that it leaves out faults: %s", got)
	}
}
