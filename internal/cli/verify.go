package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/parkproof/parkproof/features"
	"github.com/parkproof/parkproof/reports"
	"github.com/parkproof/parkproof/scenarios/broker"
	"github.com/parkproof/parkproof/scenarios/runner"
)

// verifyFlags are the flags of verify.
type verifyFlags struct {
	brokers  []string
	tags     string
	cases    []string
	parallel int
	out      string
	timeout  time.Duration
	dryRun   bool
	control  bool
}

func verifyCommand() *cobra.Command {
	var f verifyFlags
	c := &cobra.Command{
		Use:   "verify [flags] [-- ADAPTER [ARGUMENT...]]",
		Short: "Prove a consumer against a broker, case by case",
		Long: `Proves the consumer behind an adapter, case by case. Without an adapter, it proves the reference consumer.

A broker is one of
  auto          a container where a Docker engine answers and an image is there or can be pulled; else the local server
  4.3, 3.13.7   a container of rabbitmq:<version>-management
  image:NAME    a container of that image
  local         a private node of the installed rabbitmq-server; local:PATH of the one there
  amqp://...    a broker that already runs; ?management=http://host:15672 says where its management API is

Exit codes: 0 all passed, 1 something failed, 2 something is unknown or nothing passed, 3 parkproof or a broker
failed, 64 the command line cannot be understood.`,
		Example: `  parkproof verify
  parkproof verify --broker local --case RTY-004
  parkproof verify --broker 3.13 --broker 4.3 -- node my-adapter.mjs`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if at := cmd.ArgsLenAtDash(); len(args) > 0 && at != 0 {
				return usage("%q is no flag: put the adapter's command after --, such as parkproof verify -- node adapter.mjs", args[0])
			}
			return verify(cmd.Context(), cmd.OutOrStdout(), f, args)
		},
	}
	flags := c.Flags()
	flags.StringArrayVar(&f.brokers, "broker", []string{"auto"}, "broker to run on, many times for many")
	flags.StringVar(&f.tags, "tags", "", `only cases with these tags, such as "@must and not @quorum"`)
	flags.StringArrayVar(&f.cases, "case", nil, "only the case with this id, many times for many")
	flags.IntVar(&f.parallel, "parallel", 4*runtime.NumCPU(), "how many cases run side by side")
	flags.StringVar(&f.out, "out", "parkproof-report", "folder for run.json and junit.xml")
	flags.DurationVar(&f.timeout, "timeout", 2*time.Minute, "the longest that one case may take")
	flags.BoolVar(&f.control, "control", false, "speak with the adapter on a socket, named in PARKPROOF_CONTROL: for libraries that print")
	flags.BoolVar(&f.dryRun, "dry-run", false, "only say which cases would run")
	must(c.RegisterFlagCompletionFunc("case", completeCases))
	must(c.RegisterFlagCompletionFunc("broker", cobra.FixedCompletions([]string{"auto", "local", "image:", "amqp://"}, cobra.ShellCompDirectiveNoSpace)))
	must(c.MarkFlagDirname("out"))
	return c
}

// must is for errors that can only come from this package's own mistakes.
func must(err error) {
	if err != nil {
		panic(err)
	}
}

func verify(ctx context.Context, stdout io.Writer, f verifyFlags, adapter []string) error {
	cases, specs, err := plan(f)
	if err != nil {
		return err
	}
	if len(cases) == 0 {
		return &codeError{reports.ExitUnknown, errors.New("no case is selected by these flags")}
	}
	if f.dryRun {
		for _, c := range cases {
			fmt.Fprintf(stdout, "%s  %s\n", c.ID, c.Name)
		}
		return nil
	}
	if adapter, err = orReference(adapter); err != nil {
		return err
	}
	if err := prepare(f.out); err != nil {
		return err
	}
	run := runner.Run(ctx, runner.Options{
		Cases: cases, Brokers: specs, Command: adapter, Control: f.control, Parallel: f.parallel, Timeout: f.timeout,
		Progress: runner.ProgressFor(os.Stdout),
	})
	run.Command = append([]string{"parkproof", "verify"}, shownFlags(f)...)
	reports.WriteSummary(stdout, identified(run, adapter), reports.StyleFor(os.Stdout))
	return conclude(stdout, f.out, run, outcome)
}

// outcome is one line about a run that did not pass: what the exit code says, and where it began.
func outcome(run *reports.Run) error {
	if run.Interrupted {
		return fmt.Errorf("the run was interrupted; %d cases had run", len(run.Cases))
	}
	if run.ExitCode != reports.ExitFailed {
		for _, b := range run.Brokers {
			if b.Error != "" {
				line, _, _ := strings.Cut(b.Error, "\n")
				return errors.New(strings.TrimSuffix(line, "; the end of its log:"))
			}
		}
	}
	for _, is := range []struct {
		verdict reports.Verdict
		words   string
	}{
		{reports.Failed, "failed"}, {reports.Fixed, "passed though listed as known"}, {reports.Broken, "broken"}, {reports.Unknown, "unknown"},
	} {
		at := slices.IndexFunc(run.Cases, func(c reports.Case) bool { return c.Verdict == is.verdict })
		if at < 0 {
			continue
		}
		first := run.Cases[at]
		return fmt.Errorf("%d of %d cases %s, first %s: %s",
			run.Count(is.verdict), len(run.Cases), is.words, first.ID, reports.OneLine(first.Reason))
	}
	return errors.New("no case passed")
}

// plan chooses the cases and reads the brokers, and finds what is wrong with the flags before
// anything is started.
func plan(f verifyFlags) ([]*runner.Case, []broker.Spec, error) {
	if f.parallel < 1 {
		return nil, nil, usage("--parallel %d: at least one case has to run at a time", f.parallel)
	}
	if f.timeout <= 0 {
		return nil, nil, usage("--timeout %s: a case needs some time", f.timeout)
	}
	all, err := runner.Load(features.FS)
	if err != nil {
		return nil, nil, &codeError{reports.ExitBroken, err}
	}
	cases, err := runner.Select(all, runner.Selection{Cases: f.cases, Tags: f.tags})
	if err != nil {
		return nil, nil, err
	}
	specs, err := parseBrokers(f.brokers)
	return cases, specs, err
}

// parseBrokers reads the values of --broker.
func parseBrokers(values []string) ([]broker.Spec, error) {
	var specs []broker.Spec
	for _, value := range values {
		spec, err := broker.Parse(value)
		if err != nil {
			return nil, &codeError{reports.ExitUsage, err}
		}
		specs = append(specs, spec)
	}
	return specs, nil
}

// orReference is the adapter's command, or the reference's where none was given.
func orReference(adapter []string) ([]string, error) {
	if len(adapter) > 0 {
		return adapter, nil
	}
	self, err := os.Executable()
	if err != nil {
		return nil, &codeError{reports.ExitBroken, fmt.Errorf("finding this program, for the reference consumer: %w", err)}
	}
	return []string{self, "reference"}, nil
}

// shownCommand is the adapter's command without passwords and the folder of this very program.
func shownCommand(command []string) []string {
	shown := make([]string, len(command))
	for i, word := range command {
		shown[i] = reports.Redact(word)
	}
	if self, err := os.Executable(); err == nil && command[0] == self {
		shown[0] = filepath.Base(self)
	}
	return shown
}

// shownFlags are the flags that were given, for the record; a broker's URL is shown without its
// password.
func shownFlags(f verifyFlags) []string {
	var shown []string
	for _, value := range f.brokers {
		if spec, err := broker.Parse(value); err == nil {
			shown = append(shown, "--broker", spec.String())
		}
	}
	if f.tags != "" {
		shown = append(shown, "--tags", f.tags)
	}
	for _, id := range f.cases {
		shown = append(shown, "--case", id)
	}
	return shown
}

func completeCases(_ *cobra.Command, _ []string, begun string) ([]string, cobra.ShellCompDirective) {
	cases, err := runner.Load(features.FS)
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	var ids []string
	for _, c := range cases {
		if strings.HasPrefix(c.ID, strings.ToUpper(begun)) {
			ids = append(ids, c.ID+"\t"+c.Name)
		}
	}
	return ids, cobra.ShellCompDirectiveNoFileComp
}
