package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/parkproof/parkproof/features"
	"github.com/parkproof/parkproof/reports"
	"github.com/parkproof/parkproof/scenarios/broker"
	"github.com/parkproof/parkproof/scenarios/runner"
)

// exploreFlags are the flags of explore.
type exploreFlags struct {
	brokers  []string
	paths    []string
	queues   []string
	parallel int
	out      string
	timeout  time.Duration
	control  bool
}

// pointsAtOnce is how many runs of a path go on side by side for each processor: most of the time each
// waits for a timer of the broker's or of its consumer's backoff.
const pointsAtOnce = 8

func exploreCommand() *cobra.Command {
	var f exploreFlags
	c := &cobra.Command{
		Use:   "explore [flags] [-- ADAPTER [ARGUMENT...]]",
		Short: "Break a consumer's path at every point on the wire",
		Long: `Records four paths of a message (handled at once, a whole ladder to parking, parked at once, and the start-up) and
runs each again once for every point that passed over the wire: every method in both directions of every connection, and the
inside of every content. At each, the connection is cut before it, after it, and unseen by its sender, and the process is
killed; confirms are also held back. Nothing may be lost or released unsafely, each cut may add one copy at most, and the
consumer must consume again afterwards, once; a killed process is started again, as its supervisor would.

Without an adapter, it explores the reference consumer. Exit codes are those of parkproof verify.`,
		Example: `  parkproof explore
  parkproof explore --broker local --queue quorum --path CRP-006 -- node my-adapter.mjs`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if at := cmd.ArgsLenAtDash(); len(args) > 0 && at != 0 {
				return usage("%q is no flag: put the adapter's command after --, such as parkproof explore -- node adapter.mjs", args[0])
			}
			return explore(cmd.Context(), cmd.OutOrStdout(), f, args)
		},
	}
	flags := c.Flags()
	flags.StringArrayVar(&f.brokers, "broker", []string{"auto"}, "broker to run on, many times for many; see parkproof verify --help")
	flags.StringArrayVar(&f.paths, "path", nil, "only the path with this id, many times for many")
	flags.StringArrayVar(&f.queues, "queue", []string{"classic", "quorum"}, "type of the source queue: classic, quorum, or both")
	flags.IntVar(&f.parallel, "parallel", pointsAtOnce*runtime.NumCPU(), "how many runs go on side by side")
	flags.StringVar(&f.out, "out", "parkproof-report", "folder for run.json and junit.xml")
	flags.DurationVar(&f.timeout, "timeout", 2*time.Minute, "the longest that one run of a path may take")
	flags.BoolVar(&f.control, "control", false, "speak with the adapter on a socket, named in PARKPROOF_CONTROL: for libraries that print")
	must(c.MarkFlagDirname("out"))
	return c
}

func explore(ctx context.Context, stdout io.Writer, f exploreFlags, adapter []string) error {
	paths, specs, err := planExplore(f)
	if err != nil {
		return err
	}
	if adapter, err = orReference(adapter); err != nil {
		return err
	}
	if err := prepare(f.out); err != nil {
		return err
	}
	progress := runner.ProgressFor(os.Stdout)
	if plain, is := progress.(*runner.Plain); is {
		plain.FailuresOnly = true
	}
	run := runner.Explore(ctx, runner.Options{
		Cases: paths, Brokers: specs, Command: adapter, Control: f.control, Parallel: f.parallel, Timeout: f.timeout,
		Progress: progress,
	})
	run.Command = []string{"parkproof", "explore"}
	for _, spec := range specs {
		run.Command = append(run.Command, "--broker", spec.String())
	}
	reports.WriteExplorations(stdout, identified(run, adapter), reports.StyleFor(os.Stdout))
	return conclude(stdout, f.out, run, exploredOutcome)
}

// exploredOutcome is one line about an exploration that did not pass.
func exploredOutcome(run *reports.Run) error {
	if run.Interrupted {
		return fmt.Errorf("the run was interrupted")
	}
	for _, e := range run.Explorations {
		if e.Problem != "" && e.Verdict != reports.NotApplicable {
			return fmt.Errorf("%s could not be explored: %s", e.Path, reports.OneLine(e.Problem))
		}
	}
	for _, verdict := range []reports.Verdict{reports.Failed, reports.Broken, reports.Unknown} {
		at := slices.IndexFunc(run.Cases, func(c reports.Case) bool { return c.Verdict == verdict })
		if at >= 0 {
			return fmt.Errorf("%d runs %s, first %s: %s", run.Count(verdict), verdict, run.Cases[at].ID, reports.OneLine(run.Cases[at].Reason))
		}
	}
	return outcome(run)
}

// planExplore chooses the paths and reads the brokers.
func planExplore(f exploreFlags) ([]*runner.Case, []broker.Spec, error) {
	if f.parallel < 1 {
		return nil, nil, usage("--parallel %d: at least one run has to go on at a time", f.parallel)
	}
	if f.timeout <= 0 {
		return nil, nil, usage("--timeout %s: a run needs some time", f.timeout)
	}
	for _, q := range f.queues {
		if q != "classic" && q != "quorum" {
			return nil, nil, usage("--queue %s: a source queue is classic or quorum", q)
		}
	}
	all, err := runner.LoadPaths(features.FS)
	if err != nil {
		return nil, nil, &codeError{reports.ExitBroken, err}
	}
	paths, err := runner.Select(all, runner.Selection{Cases: f.paths})
	if err != nil {
		return nil, nil, err
	}
	if len(f.paths) == 0 {
		paths = slices.DeleteFunc(paths, func(c *runner.Case) bool { return !slices.Contains(f.queues, runner.QueueType(c)) })
	}
	specs, err := parseBrokers(f.brokers)
	return paths, specs, err
}
