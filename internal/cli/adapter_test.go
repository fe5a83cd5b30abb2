//go:build unix

package cli_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/parkproof/parkproof/adapters/reference"
	"github.com/parkproof/parkproof/scenarios/adapter/protocol"
)

// behaviourVariable makes the test binary an adapter that behaves as it says.
const behaviourVariable = "CLI_TEST_ADAPTER"

// adapter are the arguments that make the test binary the adapter, and the environment for it.
func adapter(behaviour string) (options, []string) {
	return options{env: []string{behaviourVariable + "=" + behaviour}}, []string{"--", os.Args[0]}
}

var behaviours = map[string]func(requests *bufio.Reader){
	"exits": func(*bufio.Reader) {
		fmt.Fprintln(os.Stderr, "the configuration has an error on line 3")
		os.Exit(4)
	},
	"garbage": func(in *bufio.Reader) {
		fmt.Println("\x1b[31mlibrary 1.0\x1b[0m is ready \x00\xff")
		_, _ = io.Copy(io.Discard, in)
	},
	"silent": func(in *bufio.Reader) { _, _ = io.Copy(io.Discard, in) },
	"twice": func(in *bufio.Reader) {
		answers(in, func(protocol.Request) string { return `{"name":"fake","supports":["retry","park"],"queue":"jobs"}` }, 2)
	},
	"incapable": func(in *bufio.Reader) {
		answers(in, func(protocol.Request) string { return `{"name":"fake","version":"0.1","supports":[]}` }, 1)
	},
	// The reference consumer, until a handler is to be told its verdict.
	"dies": func(in *bufio.Reader) {
		through(in, func(r map[string]any) {
			if r["do"] == protocol.DoSettle {
				fmt.Fprintln(os.Stderr, "fatal error: out of cheese")
				os.Exit(7)
			}
		})
	},
	// The reference consumer with names of its own.
	"unprefixed": func(in *bufio.Reader) { through(in, func(r map[string]any) { delete(r, "prefix") }) },
	// The reference consumer, but failures are told as successes: cases fail. It logs its URL.
	"leaks": func(in *bufio.Reader) {
		through(in, func(r map[string]any) {
			fmt.Fprintln(os.Stderr, "connecting to "+os.Getenv(protocol.EnvURL))
			if r["do"] == protocol.DoSettle {
				r["verdict"] = protocol.VerdictOK
			}
		})
	},
	// It tells its URL wherever it can.
	"refuses": func(in *bufio.Reader) {
		url, _ := json.Marshal("cannot connect to " + os.Getenv(protocol.EnvURL))
		for {
			r := next(in)
			fmt.Println("the library prints " + os.Getenv(protocol.EnvURL))
			fmt.Printf(`{"re":%d,"error":%s}`+"\n", r.ID, url)
		}
	},
}

func behave(name string) {
	behaviours[name](bufio.NewReader(os.Stdin))
	os.Exit(0)
}

func next(in *bufio.Reader) protocol.Request {
	line, err := in.ReadBytes('\n')
	if err != nil {
		os.Exit(0)
	}
	var r protocol.Request
	if err := json.Unmarshal(line, &r); err != nil {
		os.Exit(9)
	}
	return r
}

// answers answers every request so many times.
func answers(in *bufio.Reader, ok func(protocol.Request) string, times int) {
	for {
		r := next(in)
		if r.ID != 0 { // in one write, so that nothing comes between
			fmt.Print(strings.Repeat(fmt.Sprintf(`{"re":%d,"ok":%s}`+"\n", r.ID, ok(r)), times))
		}
	}
}

// through runs the reference consumer behind something that sees and changes its requests.
func through(in *bufio.Reader, change func(map[string]any)) {
	read, write, err := os.Pipe()
	if err != nil {
		os.Exit(9)
	}
	os.Stdin = read
	go func() {
		defer write.Close()
		for {
			line, err := in.ReadBytes('\n')
			if err != nil {
				return
			}
			var r map[string]any
			if err := json.Unmarshal(line, &r); err != nil {
				os.Exit(9)
			}
			change(r)
			if line, err = json.Marshal(r); err != nil {
				os.Exit(9)
			}
			if _, err := write.Write(append(line, '\n')); err != nil {
				return
			}
		}
	}()
	reference.Main()
}
