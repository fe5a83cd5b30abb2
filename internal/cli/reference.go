package cli

import (
	"github.com/spf13/cobra"

	"github.com/parkproof/parkproof/adapters/reference"
)

func referenceCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "reference",
		Short: "Run the reference consumer as an adapter, on stdin and stdout",
		Long:  "Runs the reference consumer as an adapter: it speaks the adapter protocol on stdin and stdout, and ends when its\nstdin does. verify without an adapter starts it by itself.",
		Args:  cobra.NoArgs,
		Run:   func(*cobra.Command, []string) { reference.Main() },
	}
}
