//go:build unix

package main

import (
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
)

// row is one figure of the table, and what is required of it.
type row struct {
	what     string
	measured string // with its unit
	beside   string // what it is compared with, with its unit
	// figure is what is judged: a ratio, or an amount in the unit of the bounds.
	figure float64
	// least and most bound the figure; 0 is no bound.
	least, most float64
	unit        string // of figure and bounds; "" for a ratio
}

// holds says whether the figure is within its bounds.
func (r row) holds() bool {
	return (r.least == 0 || r.figure >= r.least) && (r.most == 0 || r.figure <= r.most)
}

func (r row) amount(value float64) string {
	if r.unit == "" {
		return fmt.Sprintf("%.2f", value)
	}
	return fmt.Sprintf("%.4g %s", value, r.unit)
}

func (r row) required() string {
	switch {
	case r.least > 0:
		return "≥ " + r.amount(r.least)
	case r.most > 0:
		return "≤ " + r.amount(r.most)
	}
	return ""
}

func (r row) judgement() string {
	switch {
	case r.required() == "":
		return ""
	case r.holds():
		return "ok"
	}
	return "MISSED"
}

func printTable(out io.Writer, rows []row) {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "what\tmeasured\tbeside\tfigure\trequired\t")
	for _, r := range rows {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", r.what, r.measured, r.beside, r.amount(r.figure), r.required(), r.judgement())
	}
	w.Flush()
}

// median is the middle of the values, of which there is at least one.
func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}
