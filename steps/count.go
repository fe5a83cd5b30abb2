package steps

import (
	"fmt"
	"strconv"
	"strings"
)

// parseCount reads "once", "twice" and "3 times".
func parseCount(text string) (int, error) {
	switch text {
	case "once":
		return 1, nil
	case "twice":
		return 2, nil
	}
	n, err := strconv.Atoi(strings.TrimSuffix(text, " times"))
	if err != nil {
		return 0, fmt.Errorf("the count %q cannot be read: say once, twice or a number of times", text)
	}
	return n, nil
}

func times(n int) string {
	switch n {
	case 0:
		return "not at all"
	case 1:
		return "once"
	case 2:
		return "twice"
	default:
		return fmt.Sprintf("%d times", n)
	}
}

// parseNumbers reads "1, 2, 3".
func parseNumbers(text string) ([]int, error) {
	var numbers []int
	for _, part := range strings.Split(text, ",") {
		n, err := strconv.Atoi(strings.TrimSpace(part))
		if err != nil {
			return nil, fmt.Errorf("the numbers %q cannot be read: %w", text, err)
		}
		numbers = append(numbers, n)
	}
	return numbers, nil
}

func joined(numbers []int) string {
	if len(numbers) == 0 {
		return "none"
	}
	parts := make([]string, len(numbers))
	for i, n := range numbers {
		parts[i] = strconv.Itoa(n)
	}
	return strings.Join(parts, ", ")
}
