package ledger

import (
	"fmt"
	"time"
)

// excerptFaults is how many faults a timeline shows, half of them the first and half the last: a flapping link
// fires by the hundred, and each time the same is seen.
const excerptFaults = 40

// Excerpt shortens a timeline that is longer than limit, in lines: it keeps half of that from the beginning and
// half from the end, and in between what stands around the lines of faults. A line of parkproof's stands for
// what is left out.
func Excerpt(lines []Line, limit int) []Line {
	if len(lines) <= limit {
		return lines
	}
	keep := make([]bool, len(lines))
	for i := range lines {
		keep[i] = i < limit/2 || i >= len(lines)-limit/2
	}
	var faults []int
	for i, line := range lines {
		if line.Fault {
			faults = append(faults, i)
		}
	}
	if extra := len(faults) - excerptFaults; extra > 0 {
		faults = append(faults[:excerptFaults/2:excerptFaults/2], faults[excerptFaults/2+extra:]...)
	}
	for _, at := range faults {
		for i := max(0, at-aroundFault); i <= min(len(lines)-1, at+aroundFault); i++ {
			keep[i] = true
		}
	}
	var out []Line
	left, leftFaults := 0, 0
	var from time.Duration
	for i, line := range lines {
		if !keep[i] {
			if left == 0 {
				from = line.At
			}
			left++
			if line.Fault {
				leftFaults++
			}
			if i+1 < len(lines) {
				continue
			}
		}
		if left > 0 {
			what := fmt.Sprintf("leaves out %d lines of this timeline", left)
			if left == 1 {
				what = "leaves out a line of this timeline"
			}
			if leftFaults > 0 {
				what += fmt.Sprintf(", in which a fault fires %s", times(leftFaults))
			}
			out = append(out, Line{At: from, Who: "parkproof", What: what})
			left, leftFaults = 0, 0
		}
		if keep[i] {
			out = append(out, line)
		}
	}
	return out
}
