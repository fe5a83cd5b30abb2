package adapter

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/parkproof/parkproof/scenarios/adapter/protocol"
)

// fake is an adapter that is written out by hand: no kit keeps it from doing wrong.
type fake struct{ in *bufio.Reader }

// next reads a request; the end of stdin ends the process, as it must.
func (f fake) next() protocol.Request {
	line, err := f.in.ReadBytes('\n')
	if err != nil {
		os.Exit(0)
	}
	var r protocol.Request
	if err := json.Unmarshal(line, &r); err != nil {
		fmt.Fprintln(os.Stderr, "error: a request that cannot be read:", err)
		os.Exit(9)
	}
	return r
}

// until reads requests until one of the verb comes.
func (f fake) until(verb string) protocol.Request {
	for {
		if r := f.next(); r.Do == verb {
			return r
		}
	}
}

// rest answers everything with an empty object, until stdin ends.
func (f fake) rest() {
	for {
		if r := f.next(); r.ID != 0 {
			fmt.Printf(`{"re":%d,"ok":{}}`+"\n", r.ID)
		}
	}
}

func (f fake) init() {
	fmt.Printf(`{"re":%d,"ok":{"name":"fake","version":"1","supports":["retry"]}}`+"\n", f.next().ID)
}

func (f fake) consume() {
	fmt.Printf(`{"re":%d,"ok":{"queue":"jobs"}}`+"\n", f.until(protocol.DoConsume).ID)
}

// behaviours are what adapters do, by name. Each ends the process when stdin ends.
var behaviours = map[string]func(f fake){
	"good": func(f fake) {
		f.init()
		f.consume()
		fmt.Println(`{"event":"connection","state":"up"}`)
		fmt.Println(`{"event":"delivery","n":1,"consumer":"worker","message":"m1"}`)
		r := f.until(protocol.DoSettle)
		fmt.Printf(`{"event":"diagnostic","name":"settled","text":"%d %s"}`+"\n", r.N, r.Verdict)
		f.rest()
	},
	"exit 0": func(fake) { os.Exit(0) },
	"exit 3": func(fake) {
		fmt.Fprintln(os.Stderr, "starting")
		fmt.Fprintln(os.Stderr, "the moon is full")
		os.Exit(3)
	},
	"module": func(fake) {
		fmt.Fprint(os.Stderr, "node:internal/modules:1\n    throw new Error\n    ^\n\nError [ERR_MODULE_NOT_FOUND]: no package 'amqplib'\n    at Error (node:1:1)\n    at main\n\nNode.js v20.1.0\n")
		os.Exit(1)
	},
	"banner":  func(f fake) { fmt.Println("Welcome to library 1.0!"); f.init(); f.rest() },
	"partial": func(fake) { fmt.Print(`{"re":1,"ok":{"na`); os.Exit(0) },
	"partial and lives": func(f fake) {
		fmt.Print(`{"re":1,"ok":{"na`)
		_, _ = io.Copy(io.Discard, f.in)
	},
	"long":    func(f fake) { fmt.Println(strings.Repeat("x", 10<<20)); f.init(); f.rest() },
	"endless": func(f fake) { endless(os.Stdout); f.rest() },
	"binary": func(f fake) {
		_, _ = os.Stdout.Write([]byte{0, 1, 2, 0xff, 0xfe, 27, '[', '3', '1', 'm', '\n'})
		f.rest()
	},
	"number": func(f fake) { fmt.Println(42); f.rest() },
	"never": func(f fake) {
		for {
			f.next()
		}
	},
	"twice":         func(f fake) { f.init(); fmt.Println(`{"re":1,"ok":{"name":"again"}}`); f.rest() },
	"unknown id":    func(f fake) { f.init(); fmt.Println(`{"re":99,"ok":{}}`); f.rest() },
	"negative id":   func(f fake) { f.init(); fmt.Println(`{"re":-1,"ok":{}}`); f.rest() },
	"id as text":    func(f fake) { f.next(); fmt.Println(`{"re":"1","ok":{"name":"fake"}}`); f.rest() },
	"supports text": func(f fake) { f.next(); fmt.Println(`{"re":1,"ok":{"name":"fake","supports":"retry"}}`); f.rest() },
	"name number":   func(f fake) { f.next(); fmt.Println(`{"re":1,"ok":{"name":7}}`); f.rest() },
	"error object":  func(f fake) { f.next(); fmt.Println(`{"re":1,"error":{"message":"no"}}`); f.rest() },
	"event number": func(f fake) {
		f.init()
		fmt.Println(`{"event":"delivery","n":"one","consumer":"worker"}`)
		f.rest()
	},
	"no name":   func(f fake) { f.next(); fmt.Println(`{"re":1,"ok":{"version":"1"}}`); f.rest() },
	"nothing":   func(f fake) { f.next(); fmt.Println(`{"re":1}`); f.rest() },
	"null":      func(f fake) { f.next(); fmt.Println(`{"re":1,"ok":null}`); f.rest() },
	"no queue":  func(f fake) { f.init(); f.rest() },
	"refuses":   func(f fake) { f.next(); fmt.Println(`{"re":1,"error":"the broker is away"}`); f.rest() },
	"incapable": func(f fake) { f.init(); fmt.Printf(`{"re":%d,"unsupported":"queues"}`+"\n", f.next().ID); f.rest() },
	"closes stdout": func(f fake) {
		os.Stdout.Close()
		f.rest()
	},
	"closes stdin": func(f fake) {
		r := f.next()
		os.Stdin.Close()
		fmt.Printf(`{"re":%d,"ok":{"name":"fake"}}`+"\n", r.ID)
		park()
	},
	"dies in consume": func(f fake) {
		f.init()
		f.until(protocol.DoConsume)
		fmt.Fprintln(os.Stderr, "panic: it hurts")
		os.Exit(2)
	},
	"noise": func(f fake) {
		noise := bytes.Repeat([]byte("a line of the log of a library that has a lot to say\n"), 1<<16)
		_, _ = os.Stderr.Write(noise)
		f.init()
		_, _ = os.Stderr.Write(append(noise, "its end\n"...))
		f.rest()
	},
	"prints": func(f fake) {
		f.init()
		fmt.Println("connected!")
		fmt.Println(`{"level":"info","msg":"connected"}`)
		fmt.Println(`{"level":"info","name":{"not":"ours"}}`)
		f.consume()
		f.rest()
	},
	"slow": func(f fake) {
		time.Sleep(300 * time.Millisecond)
		f.init()
		time.Sleep(300 * time.Millisecond)
		f.consume()
		f.rest()
	},
	"does not read": func(f fake) { f.init(); f.consume(); park() },
	"number again": func(f fake) {
		f.init()
		f.consume()
		for range 2 {
			fmt.Println(`{"event":"delivery","n":5,"consumer":"worker","message":"m1"}`)
		}
		f.rest()
	},
	"no number": func(f fake) {
		f.init()
		fmt.Println(`{"event":"delivery","consumer":"worker","message":"m1"}`)
		f.rest()
	},
	"out of order": func(f fake) {
		f.init()
		one, two := f.next(), f.next()
		for _, r := range []protocol.Request{two, one} {
			fmt.Printf(`{"re":%d,"ok":{"queue":"%s"}}`+"\n", r.ID, r.Consumer)
		}
		f.rest()
	},
	"secret": func(f fake) {
		secret := os.Getenv(protocol.EnvURL)
		fmt.Fprintln(os.Stderr, strings.Repeat("-", shownLength-len("amqp://user:s3cr"))+secret)
		fmt.Println("printed " + secret)
		f.rest()
	},
	"stays": func(f fake) { f.init(); _, _ = io.Copy(io.Discard, f.in); park() },
}

// park waits to be killed; nothing else ends it.
func park() {
	for {
		time.Sleep(time.Hour)
	}
}

// endless prints a line that ends nowhere.
func endless(to io.Writer) {
	chunk := bytes.Repeat([]byte("x"), 1<<20)
	for range maxLine>>20 + 2 {
		_, _ = to.Write(chunk)
	}
}

func behave(name string) {
	behaviours[name](fake{in: bufio.NewReaderSize(os.Stdin, 64<<10)})
}
