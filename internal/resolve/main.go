//go:build unix

// Command resolve prints what --broker auto stands for on this machine, as a --broker value. It exits with 1
// and one line of reason where there is neither a Docker engine with an image nor an installed server.
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/parkproof/parkproof/scenarios/broker"
)

func main() {
	spec, err := broker.Resolve(context.Background(), broker.Spec{Value: string(broker.KindAuto), Kind: broker.KindAuto})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println(spec)
}
