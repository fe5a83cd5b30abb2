//go:build unix

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/parkproof/parkproof/reports"
	"github.com/parkproof/parkproof/scenarios/process"
)

const (
	// suiteAtMost is how long all cases may take once the broker has booted, in seconds, on two cores.
	suiteAtMost = 30
	// suiteParallel is how many cases run side by side meanwhile.
	suiteParallel = "8"
)

// suite measures the whole suite, from the first case's begin to the end, beside the longest case's time:
// cases that run side by side can take no less.
func suite(ctx context.Context, b *bench) ([]row, error) {
	if err := b.build(ctx); err != nil {
		return nil, err
	}
	// Cases in which things break wait for a consumer's own backoff, and for brokers that start again.
	run, _, err := b.verify(ctx, "--tags", "not @chaos")
	if err != nil {
		return nil, err
	}
	took := run.Seconds - run.Brokers[0].FirstCaseSeconds
	longest := slices.MaxFunc(run.Cases, func(a, b reports.Case) int {
		if a.Seconds < b.Seconds {
			return -1
		}
		return 1
	})
	return []row{{
		what:     fmt.Sprintf("suite of %d cases after the boot, --parallel %s", len(run.Cases), suiteParallel),
		measured: fmt.Sprintf("%.1f s", took),
		beside:   fmt.Sprintf("%.1f s the longest case (%s)", longest.Seconds, longest.ID),
		figure:   took, most: suiteAtMost, unit: "s",
	}}, nil
}

// build makes the binary that the measurements run.
func (b *bench) build(ctx context.Context) error {
	if b.parkproof != "" {
		return nil
	}
	path := filepath.Join(b.folder, "parkproof")
	if _, err := output(ctx, nil, "go", "build", "-o", path, "."); err != nil {
		return err
	}
	b.parkproof = path
	return nil
}

// verify runs parkproof on a local broker, and returns its record and when it was launched. A case that
// does not pass is an error: the time of a suite that fails means nothing.
func (b *bench) verify(ctx context.Context, flags ...string) (*reports.Run, time.Time, error) {
	out := filepath.Join(b.folder, "report")
	launched := time.Now()
	flags = append([]string{"verify", "--broker", "local", "--parallel", suiteParallel, "--out", out}, flags...)
	text, err := output(ctx, nil, b.parkproof, flags...)
	if err != nil {
		return nil, launched, fmt.Errorf("%w\n%s", err, text)
	}
	record, err := os.ReadFile(filepath.Join(out, "run.json"))
	if err != nil {
		return nil, launched, err
	}
	run := new(reports.Run)
	if err := json.Unmarshal(record, run); err != nil {
		return nil, launched, fmt.Errorf("read the record of the run: %w", err)
	}
	if len(run.Cases) == 0 || len(run.Brokers) != 1 {
		return nil, launched, fmt.Errorf("the record has %d cases on %d brokers", len(run.Cases), len(run.Brokers))
	}
	return run, launched, nil
}

// output runs a command with more environment, and returns what it printed. The command never outlives this
// process.
func output(ctx context.Context, env []string, path string, args ...string) (string, error) {
	var out strings.Builder
	p, err := process.Start(ctx, process.Command{
		Path: path, Args: args, Env: append(os.Environ(), env...), Stdout: &out, Stderr: os.Stderr,
		Grace: process.MaxGrace,
	})
	if err != nil {
		return "", err
	}
	status, err := p.Wait(ctx)
	if err != nil {
		patient, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopLimit)
		defer cancel()
		_, stopped := p.Stop(patient, process.MaxGrace)
		return "", errors.Join(err, stopped)
	}
	if !status.Success() {
		return out.String(), fmt.Errorf("%s %s %s", filepath.Base(path), args[0], status)
	}
	return out.String(), nil
}
