//go:build unix

package main

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// What is required of the benchmarks that stand beside the code.
const (
	handledAtLeast = 0.9 // of a bare consume-and-ack loop's rate
	failedAtLeast  = 0.8 // of a bare loop's that publishes, awaits the confirm and acks, pipelined
	framesAtLeast  = 1e6 // method frames a second
	bodiesAtLeast  = 500 // MB a second
)

// library compares the reference consumer with bare loops on the client that it is built on.
func library(ctx context.Context, b *bench) ([]row, error) {
	running, err := b.running(ctx)
	if err != nil {
		return nil, err
	}
	at := running.URL(running.DefaultVhost()) + "?management=" + url.QueryEscape(running.ManagementURL())
	out, err := output(ctx, []string{"PARKPROOF_TEST_AMQP=" + at},
		"go", "test", "-run", "^$", "-bench", "^Benchmark(Handled|Failed)$", "-benchtime", strconv.Itoa(b.reference)+"x", "./reference")
	if err != nil {
		return nil, fmt.Errorf("%w\n%s", err, running.Hide(out))
	}
	results := parseBenchmarks(out)
	var rows []row
	for _, side := range []struct {
		name, what string
		least      float64
	}{
		{"BenchmarkHandled", "reference, messages handled", handledAtLeast},
		{"BenchmarkFailed", "reference, messages failed and parked", failedAtLeast},
	} {
		ratio, err := results.median(side.name, "ratio")
		if err != nil {
			return nil, err
		}
		ours, err := results.median(side.name, "reference-msgs/s")
		if err != nil {
			return nil, err
		}
		bare, err := results.median(side.name, "bare-msgs/s")
		if err != nil {
			return nil, err
		}
		rows = append(rows, row{
			what: side.what, measured: fmt.Sprintf("%.0f/s", ours), beside: fmt.Sprintf("%.0f/s a bare loop", bare),
			figure: ratio, least: side.least,
		})
	}
	return rows, nil
}

// frames measures the frame reader. The best of its short runs is judged: it is pure computation, which other
// work on the machine can only slow down.
func frames(ctx context.Context, b *bench) ([]row, error) {
	out, err := output(ctx, nil, "go", "test", "-run", "^$", "-bench", "^Benchmark(Methods|Bodies)$",
		"-benchtime", "200ms", "-count", strconv.Itoa(b.frames), "./toxics/frame")
	if err != nil {
		return nil, fmt.Errorf("%w\n%s", err, out)
	}
	results := parseBenchmarks(out)
	methods, err := results.best("BenchmarkMethods", "frames/s")
	if err != nil {
		return nil, err
	}
	rows := []row{{
		what: "frame reader, methods decoded", measured: fmt.Sprintf("%.0f/s", methods),
		figure: methods / 1e6, least: framesAtLeast / 1e6, unit: "M/s",
	}}
	for _, side := range []struct{ name, what string }{
		{"BenchmarkBodies/kept", "frame reader, bodies kept"},
		{"BenchmarkBodies/digest", "frame reader, bodies above the bound"},
	} {
		rate, err := results.best(side.name, "MB/s")
		if err != nil {
			return nil, err
		}
		rows = append(rows, row{
			what: side.what, measured: fmt.Sprintf("%.0f MB/s", rate), figure: rate, least: bodiesAtLeast, unit: "MB/s",
		})
	}
	return rows, nil
}

// benchmarks are results of go test -bench: by the benchmark's name, without the number of processors, and
// the unit, one value a run.
type benchmarks map[string]map[string][]float64

func parseBenchmarks(out string) benchmarks {
	results := benchmarks{}
	for line := range strings.Lines(out) {
		fields := strings.Fields(line)
		if len(fields) < 4 || !strings.HasPrefix(fields[0], "Benchmark") {
			continue
		}
		name := fields[0]
		if i := strings.LastIndexByte(name, '-'); i > 0 {
			if _, err := strconv.Atoi(name[i+1:]); err == nil {
				name = name[:i]
			}
		}
		if results[name] == nil {
			results[name] = map[string][]float64{}
		}
		for i := 2; i+1 < len(fields); i += 2 {
			if value, err := strconv.ParseFloat(fields[i], 64); err == nil {
				results[name][fields[i+1]] = append(results[name][fields[i+1]], value)
			}
		}
	}
	return results
}

func (b benchmarks) best(name, unit string) (float64, error) {
	values := b[name][unit]
	if len(values) == 0 {
		return 0, fmt.Errorf("%s reported no %s", name, unit)
	}
	return slices.Max(values), nil
}

func (b benchmarks) median(name, unit string) (float64, error) {
	values := b[name][unit]
	if len(values) == 0 {
		return 0, fmt.Errorf("%s reported no %s", name, unit)
	}
	return median(values), nil
}
