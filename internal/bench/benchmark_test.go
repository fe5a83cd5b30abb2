//go:build unix

package main

import "testing"

func TestParseBenchmarks(t *testing.T) {
	results := parseBenchmarks(`goos: linux
pkg: example.com/frame
BenchmarkMethods-2         	    5166	    231512 ns/op	 434.70 MB/s	  12958260 frames/s	      64 B/op	       3 allocs/op
BenchmarkMethods-2         	    5166	    231512 ns/op	 434.70 MB/s	  14000000 frames/s	      64 B/op	       3 allocs/op
BenchmarkBodies/kept       	    1000	   1000000 ns/op	1048.58 MB/s
PASS
ok  	example.com/frame	3.5s
`)
	for _, tt := range []struct {
		name, unit string
		want       float64
	}{
		{"BenchmarkMethods", "frames/s", 13479130},
		{"BenchmarkMethods", "MB/s", 434.70},
		{"BenchmarkBodies/kept", "MB/s", 1048.58},
	} {
		if got, err := results.median(tt.name, tt.unit); err != nil || got != tt.want {
			t.Errorf("%s %s: %v, %v, want %v", tt.name, tt.unit, got, err, tt.want)
		}
	}
	if _, err := results.median("BenchmarkBodies/digest", "MB/s"); err == nil {
		t.Error("a benchmark that did not run has a result")
	}
}
