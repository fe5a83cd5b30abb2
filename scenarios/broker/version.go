//go:build unix

package broker

import (
	"cmp"
	"strconv"
	"strings"
)

// compareVersions orders dotted versions by their numbers; what is no number counts
// as -1, and so does what is missing: 4 < 4.0 < 4.0.1.
func compareVersions(a, b string) int {
	as, bs := strings.Split(a, "."), strings.Split(b, ".")
	at := func(parts []string, i int) int {
		if i >= len(parts) {
			return -1
		}
		number, err := strconv.Atoi(parts[i])
		if err != nil {
			return -1
		}
		return number
	}
	for i := range max(len(as), len(bs)) {
		if order := cmp.Compare(at(as, i), at(bs, i)); order != 0 {
			return order
		}
	}
	return 0
}
