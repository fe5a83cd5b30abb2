package cli

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/parkproof/parkproof/features"
	"github.com/parkproof/parkproof/reports"
	"github.com/parkproof/parkproof/scenarios/runner"
)

func listCommand() *cobra.Command {
	var tags bool
	c := &cobra.Command{
		Use:   "list",
		Short: "List the cases: ids, levels, sources, names",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cases, err := runner.Load(features.FS)
			if err != nil {
				return &codeError{reports.ExitBroken, err}
			}
			if tags {
				return listTags(cmd.OutOrStdout(), cases)
			}
			return list(cmd.OutOrStdout(), cases)
		},
	}
	c.Flags().BoolVar(&tags, "tags", false, "list the tags and how many cases have each")
	return c
}

func list(out io.Writer, cases []*runner.Case) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, c := range cases {
		if _, err := fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", c.ID, c.Level, strings.Join(c.Sources, ","), c.Name); err != nil {
			return fmt.Errorf("listing the cases: %w", err)
		}
	}
	return w.Flush()
}

func listTags(out io.Writer, cases []*runner.Case) error {
	count := map[string]int{}
	for _, c := range cases {
		for _, tag := range c.Tags {
			if tag != "@"+c.ID {
				count[tag]++
			}
		}
	}
	tags := make([]string, 0, len(count))
	for tag := range count {
		tags = append(tags, tag)
	}
	slices.Sort(tags)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, tag := range tags {
		if _, err := fmt.Fprintf(w, "%s\t%d\n", tag, count[tag]); err != nil {
			return fmt.Errorf("listing the tags: %w", err)
		}
	}
	return w.Flush()
}
