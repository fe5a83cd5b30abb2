//go:build unix

// Command bench measures what parkproof promises of its own speed, each figure beside what it is compared
// with, and exits with 1 where one misses what is required. Run it from the module's folder:
//
//	go run ./internal/bench
//
// What is compared is measured in turns, and medians are taken: whatever else the machine does then slows both
// sides alike.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/parkproof/parkproof/scenarios/broker"
	"github.com/parkproof/parkproof/scenarios/ledger"
	"github.com/parkproof/parkproof/scenarios/process"
)

// bound is the longest that all of it may take; on two cores it takes about three minutes.
const bound = 8 * time.Minute

// effort says how often each thing is measured.
type effort struct {
	boots     int // rounds of booting each kind of broker
	reference int // rounds of the reference consumer and of the loop
	frames    int // runs of the frame benchmarks, of a fifth of a second each
	wire      int // rounds of the consumer through the wire, with and without the tap
}

var (
	full  = effort{boots: 3, reference: 7, frames: 9, wire: 15}
	smoke = effort{boots: 1, reference: 1, frames: 1, wire: 1}
)

func main() {
	process.SuperviseIfAsked()
	if len(os.Args) > 1 && os.Args[1] == consumeCommand {
		exit(consume(os.Args[2:]))
	}
	ledger.TuneCollector() // as parkproof does
	isSmoke := flag.Bool("smoke", false, "measure each once, and judge nothing: it only has to work")
	only := flag.String("only", "", "of boot,suite,reference,frames,wire those to measure, with commas between; empty is all")
	flag.Parse()
	if flag.NArg() > 0 {
		exit(fmt.Errorf("%q is no flag: use -smoke or -only", flag.Arg(0)))
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	ctx, cancel := context.WithTimeoutCause(ctx, bound, fmt.Errorf("it took longer than %s", bound))
	defer cancel()

	e := full
	if *isSmoke {
		e = smoke
	}
	rows, err := measure(ctx, e, *only)
	if err != nil {
		exit(err)
	}
	fmt.Println()
	printTable(os.Stdout, rows)
	if missed := slices.ContainsFunc(rows, func(r row) bool { return !r.holds() }); missed && !*isSmoke {
		exit(errors.New("what is required was missed"))
	}
}

// exit ends the program; an error is one line and the code 1.
func exit(err error) {
	if err == nil {
		os.Exit(0)
	}
	fmt.Fprintln(os.Stderr, "bench:", err)
	os.Exit(1)
}

// measurement is a part of the table.
type measurement struct {
	name string
	rows func(context.Context, *bench) ([]row, error)
}

// bench is what the measurements share.
type bench struct {
	effort
	folder    string         // temporary, for binaries and reports
	parkproof string         // the binary
	broker    *broker.Broker // for those that need one that runs
}

func measure(ctx context.Context, e effort, only string) ([]row, error) {
	measurements := []measurement{
		{"suite", suite},
		{"boot", boot},
		{"reference", library},
		{"frames", frames},
		{"wire", wire},
	}
	chosen := measurements
	if only != "" {
		names := strings.Split(only, ",")
		chosen = slices.DeleteFunc(measurements, func(m measurement) bool {
			i := slices.Index(names, m.name)
			if i >= 0 {
				names = slices.Delete(names, i, i+1)
			}
			return i < 0
		})
		if len(names) > 0 {
			return nil, fmt.Errorf("there is no measurement %q", names[0])
		}
	}
	folder, err := os.MkdirTemp("", "parkproof-bench-")
	if err != nil {
		return nil, fmt.Errorf("make a folder: %w", err)
	}
	defer os.RemoveAll(folder)
	b := &bench{effort: e, folder: folder}
	defer b.stop()
	var rows []row
	for _, m := range chosen {
		began := time.Now()
		found, err := m.rows(ctx, b)
		if err != nil {
			if cause := context.Cause(ctx); cause != nil {
				err = errors.Join(cause, err)
			}
			return nil, fmt.Errorf("%s: %w", m.name, err)
		}
		rows = append(rows, found...)
		fmt.Fprintf(os.Stderr, "%s: measured in %.0f s\n", m.name, time.Since(began).Seconds())
	}
	return rows, nil
}

// running returns a local broker, the same one each time.
func (b *bench) running(ctx context.Context) (*broker.Broker, error) {
	if b.broker != nil {
		return b.broker, nil
	}
	var err error
	b.broker, err = startLocal(ctx)
	return b.broker, err
}

// stopLimit bounds the end of a broker, which takes a second.
const stopLimit = 30 * time.Second

func (b *bench) stop() {
	if b.broker == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), stopLimit)
	defer cancel()
	if err := b.broker.Stop(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "bench: stop the broker:", err)
	}
}

func startLocal(ctx context.Context) (*broker.Broker, error) {
	return broker.Start(ctx, broker.Spec{Value: string(broker.KindLocal), Kind: broker.KindLocal}, broker.Options{})
}
