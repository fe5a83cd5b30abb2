// Command parkproof proves, against a real RabbitMQ, that a message consumer retries and parks what
// it cannot process without losing, duplicating or re-broadcasting it.
package main

import (
	"os"

	"github.com/parkproof/parkproof/internal/cli"
	"github.com/parkproof/parkproof/scenarios/ledger"
	"github.com/parkproof/parkproof/scenarios/process"
)

func main() {
	process.SuperviseIfAsked()
	ledger.TuneCollector()
	os.Exit(cli.Main(os.Args[1:]))
}
