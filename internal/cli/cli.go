// Package cli has the commands: flags in, exit code out, one file a command.
package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/parkproof/parkproof/reports"
	"github.com/parkproof/parkproof/scenarios/runner"
)

// codeError carries an exit code; its text is empty where everything has been said.
type codeError struct {
	code int
	err  error
}

func (e *codeError) Error() string {
	if e.err == nil {
		return ""
	}
	return e.err.Error()
}

func (e *codeError) Unwrap() error { return e.err }

// usage is a mistake on the command line.
func usage(format string, args ...any) error {
	return &codeError{reports.ExitUsage, fmt.Errorf(format, args...)}
}

// Main runs the command line and returns the exit code.
func Main(args []string) int {
	ctx, stop := interruptible()
	defer stop()
	root := command()
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	var coded *codeError
	var mistake *runner.UsageError
	switch {
	case err == nil:
		return reports.ExitPassed
	case errors.As(err, &coded):
		if coded.err != nil {
			fmt.Fprintln(os.Stderr, "parkproof: "+coded.Error())
		}
		return coded.code
	case errors.As(err, &mistake):
	default: // cobra's own errors are about flags and arguments
	}
	fmt.Fprintln(os.Stderr, "parkproof: "+err.Error())
	return reports.ExitUsage
}

// interruptible is a context that ends at the first Ctrl-C or SIGTERM, so that everything is
// cleaned up; the second one ends the process at once, and what it leaves is cleaned up by its
// supervisors and by the next run.
func interruptible() (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(context.Background())
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		<-signals
		cancel()
		<-signals
		os.Exit(reports.ExitBroken)
	}()
	return ctx, cancel
}

func command() *cobra.Command {
	root := &cobra.Command{
		Use:           "parkproof",
		Short:         "Prove that a message consumer retries and parks without losing anything",
		Long:          "parkproof proves, against a real RabbitMQ, that a message consumer retries and parks what it cannot\nprocess without losing, duplicating or re-broadcasting it.",
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          cobra.ArbitraryArgs, // so that a command that is none comes here
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return cmd.Help()
			}
			meant := ""
			if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
				meant = fmt.Sprintf("did you mean %s? ", near[0])
			}
			return usage("there is no command %q: %sparkproof --help shows them all", args[0], meant)
		},
		SuggestionsMinimumDistance: 2,
	}
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return usage("%w: %s --help shows the flags", err, cmd.CommandPath())
	})
	root.AddCommand(verifyCommand(), exploreCommand(), listCommand(), referenceCommand(), versionCommand())
	return root
}
