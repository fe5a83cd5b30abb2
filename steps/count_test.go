package steps

import (
	"slices"
	"testing"
)

func TestCounts(t *testing.T) {
	for text, want := range map[string]int{"once": 1, "twice": 2, "3 times": 3, "0 times": 0, "1000 times": 1000} {
		if got, err := parseCount(text); err != nil || got != want {
			t.Errorf("%q is %d, %v; want %d", text, got, err, want)
		}
	}
	for _, text := range []string{"", "thrice", "times", "3.5 times", "99999999999999999999 times"} {
		if n, err := parseCount(text); err == nil {
			t.Errorf("%q was read as %d", text, n)
		}
	}
	for n, want := range map[int]string{0: "not at all", 1: "once", 2: "twice", 3: "3 times"} {
		if got := times(n); got != want {
			t.Errorf("%d is %q", n, got)
		}
	}
}

func TestNumbers(t *testing.T) {
	for text, want := range map[string][]int{"1": {1}, "1, 2, 3": {1, 2, 3}, "1,2": {1, 2}, " 7 ,  8": {7, 8}} {
		if got, err := parseNumbers(text); err != nil || !slices.Equal(got, want) {
			t.Errorf("%q is %v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "1,", "one", "1 2"} {
		if got, err := parseNumbers(text); err == nil {
			t.Errorf("%q was read as %v", text, got)
		}
	}
	if joined([]int{1, 2, 3}) != "1, 2, 3" || joined(nil) != "none" {
		t.Errorf("%q, %q", joined([]int{1, 2, 3}), joined(nil))
	}
}
