//go:build unix

package main

import (
	"strings"
	"testing"
)

func TestRowHolds(t *testing.T) {
	for _, tt := range []struct {
		name string
		row  row
		want bool
	}{
		{"no bound", row{figure: 0.1}, true},
		{"at its least", row{figure: 0.9, least: 0.9}, true},
		{"below its least", row{figure: 0.899, least: 0.9}, false},
		{"at its most", row{figure: 30, most: 30, unit: "s"}, true},
		{"above its most", row{figure: 30.1, most: 30, unit: "s"}, false},
	} {
		if got := tt.row.holds(); got != tt.want {
			t.Errorf("%s: %t", tt.name, got)
		}
	}
}

func TestTableShowsWhatWasMissed(t *testing.T) {
	var out strings.Builder
	printTable(&out, []row{
		{what: "fast", measured: "10/s", beside: "9/s", figure: 1.11, least: 0.9},
		{what: "slow", measured: "40 s", beside: "3 s", figure: 40, most: 30, unit: "s"},
		{what: "told", measured: "1 s", figure: 1, unit: "s"},
	})
	want := `what  measured  beside  figure  required  
fast  10/s      9/s     1.11    ≥ 0.90    ok
slow  40 s      3 s     40 s    ≤ 30 s    MISSED
told  1 s               1 s               
`
	if out.String() != want {
		t.Errorf("got\n%s\nwant\n%s", out.String(), want)
	}
}

func TestMedian(t *testing.T) {
	for _, tt := range []struct {
		values []float64
		want   float64
	}{
		{[]float64{7}, 7},
		{[]float64{9, 1, 5}, 5},
		{[]float64{4, 1, 2, 100}, 3},
	} {
		if got := median(tt.values); got != tt.want {
			t.Errorf("%v: %v, want %v", tt.values, got, tt.want)
		}
	}
}
