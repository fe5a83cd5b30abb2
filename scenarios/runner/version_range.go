package runner

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// inRange reports whether a broker's version lies in a range such as ">=3.8,<3.13". A version is
// compared as far as the range says: 4.3.6 is in "=4.3".
func inRange(version, versions string) (bool, error) {
	have, err := parseVersion(version)
	if err != nil {
		return false, err
	}
	for _, condition := range strings.Split(versions, ",") {
		condition = strings.TrimSpace(condition)
		number := strings.TrimLeft(condition, "<>=")
		want, err := parseVersion(number)
		if err != nil {
			return false, err
		}
		order := slices.CompareFunc(have[:min(len(have), len(want))], want, cmp.Compare[int])
		var holds bool
		switch strings.TrimSuffix(condition, number) {
		case ">=":
			holds = order >= 0
		case ">":
			holds = order > 0
		case "<=":
			holds = order <= 0
		case "<":
			holds = order < 0
		case "", "=":
			holds = order == 0
		default:
			return false, fmt.Errorf("the version range %q cannot be read: write such as >=3.8,<3.13", versions)
		}
		if !holds {
			return false, nil
		}
	}
	return true, nil
}

func parseVersion(text string) ([]int, error) {
	number, _, _ := strings.Cut(text, "-")
	number, _, _ = strings.Cut(number, "+")
	var parts []int
	for _, part := range strings.Split(number, ".") {
		n, err := strconv.Atoi(part)
		if err != nil {
			return nil, fmt.Errorf("the version %q cannot be read", text)
		}
		parts = append(parts, n)
	}
	return parts, nil
}
