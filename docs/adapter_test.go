package docs

import (
	"bufio"
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
)

// fakeAMQP stands for amqplib: as much of it as the page's adapter calls. A subscription gets one
// message, m1, at once. What is published to a retry exchange comes again by its routing key, and
// what is published elsewhere is printed.
const fakeAMQP = `
const consumers = new Map()
let tag = 0
const channel = {
  on () {},
  async prefetch () {},
  async assertExchange () {},
  async assertQueue () {},
  async bindQueue () {},
  async consume (queue, callback) {
    consumers.set(queue, callback)
    callback({ content: Buffer.from('hi'), fields: { exchange: 'orders', routingKey: 'k' }, properties: { messageId: 'm1', expiration: '5' } })
    return { consumerTag: String(++tag) }
  },
  publish (exchange, key, content, properties, confirmed) {
    console.error('published', exchange, key, properties.headers['x-attempt'], properties.headers['x-exchange'], String(properties.expiration))
    confirmed(null)
    if (exchange) setImmediate(() => consumers.get(key)({ content, properties, fields: { exchange: '', routingKey: key } }))
  },
  ack () { console.error('acked') },
  async cancel (tag) { console.error('cancelled', tag) },
  async close () {}
}
const listeners = {}
export default {
  connect: async (url) => {
    console.error('connected', url)
    return {
      on: (name, listener) => { listeners[name] = listener },
      createConfirmChannel: async () => channel,
      close: async () => listeners.close()
    }
  }
}
`

// pagesAdapter starts the adapter that is on the page.
func pagesAdapter(t *testing.T) (cmd *exec.Cmd, in io.WriteCloser, out *bufio.Reader, stderr *strings.Builder) {
	t.Helper()
	node, err := exec.LookPath("node")
	if err != nil {
		t.Skip("NOT TESTED: the adapter on docs/adapter-protocol.md needs node, which is not installed here")
	}
	code := regexp.MustCompile("(?s)```js\n(.*?)```").FindStringSubmatch(read(t, "adapter-protocol.md"))
	if code == nil {
		t.Fatal("the page has no adapter")
	}
	dir := t.TempDir()
	for path, text := range map[string]string{
		"adapter.mjs":                       code[1],
		"node_modules/amqplib/index.mjs":    fakeAMQP,
		"node_modules/amqplib/package.json": `{"name":"amqplib","type":"module","exports":"./index.mjs"}`,
	} {
		path = filepath.Join(dir, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	t.Cleanup(cancel)
	cmd = exec.CommandContext(ctx, node, "adapter.mjs")
	cmd.Dir = dir
	stderr = new(strings.Builder)
	cmd.Stderr = stderr
	if in, err = cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	pipe, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return cmd, in, bufio.NewReader(pipe), stderr
}

// At SIGTERM the page's adapter finishes what it has in hand, and ends though its stdin is open.
func TestThePagesAdapterEndsAtSIGTERM(t *testing.T) {
	cmd, in, out, stderr := pagesAdapter(t)
	defer func() { _ = in.Close() }()
	tell := func(line string) {
		t.Helper()
		if _, err := io.WriteString(in, line+"\n"); err != nil {
			t.Fatal(err)
		}
	}
	hear := func(want string) {
		t.Helper()
		if line, err := out.ReadString('\n'); err != nil || !strings.HasPrefix(line, want) {
			t.Fatalf("it says %q (%v), want %s...", line, err, want)
		}
	}
	tell(`{"id":1,"do":"init","protocol":1,"urls":["amqp://127.0.0.1"],"ladder_ms":[100]}`)
	hear(`{"re":1,"ok":`)
	tell(`{"id":2,"do":"consume","consumer":"worker","queue":"jobs"}`)
	hear(`{"event":"delivery","n":1,`)
	hear(`{"re":2,"ok":{"queue":"jobs"}}`)
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	tell(`{"do":"settle","n":1,"verdict":"ok"}`)
	hear(`{"event":"connection","state":"down"}`)
	if rest, err := io.ReadAll(out); err != nil || len(rest) > 0 {
		t.Errorf("afterwards %q, %v", rest, err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("the adapter ended with %v", err)
	}
	for _, want := range []string{"cancelled 1\n", "acked\n"} {
		if !strings.Contains(stderr.String(), want) {
			t.Errorf("the log lacks %q:\n%s", want, stderr.String())
		}
	}
}

func TestThePagesAdapterWorks(t *testing.T) {
	cmd, in, out, stderr := pagesAdapter(t)
	for _, step := range []struct {
		ask  string
		want []string // the beginnings of the lines that answer
	}{
		{`{"id":1,"do":"init","protocol":2}`, []string{`{"re":1,"error":"this adapter speaks version 1`}},
		{
			`{"id":2,"do":"init","protocol":1,"urls":["amqp://127.0.0.1/pp7"],"ladder_ms":[100],"heartbeat_s":2,"prefix":"pp7"}`,
			[]string{`{"re":2,"ok":{"name":"plain-amqplib"`},
		},
		{`{"id":3,"do":"dance"}`, []string{`{"re":3,"unsupported":`}},
		{`{"id":4,"do":"consume","consumer":"sums","queue":"sums","replies":true}`, []string{`{"re":4,"unsupported":`}},
		{
			`{"id":5,"do":"consume","consumer":"billing","exchange":"orders","kind":"fanout"}`,
			[]string{`{"event":"delivery","n":1,"consumer":"billing","message":"m1","attempt":1,"body":"aGk="}`, `{"re":5,"ok":{"queue":"orders..billing"}}`},
		},
		{
			`{"do":"settle","n":1,"verdict":"fail","as":"nothing"}`,
			[]string{`{"event":"delivery","n":2,"consumer":"billing","message":"m1","attempt":2,"headers":{`},
		},
		{`{"do":"settle","n":9,"verdict":"ok"}`, nil}, // nobody waits: no reason to die
		{`{"do":"settle","n":2,"verdict":"park","as":"wrapped","reason":"poison"}`, nil},
		{`{"id":6,"do":"close","finish":true}`, []string{`{"event":"connection","state":"down"}`, `{"re":6,"ok":{}}`}},
	} {
		if _, err := io.WriteString(in, step.ask+"\n"); err != nil {
			t.Fatal(err)
		}
		for _, want := range step.want {
			line, err := out.ReadString('\n')
			if err != nil || !strings.HasPrefix(line, want) {
				t.Fatalf("%s was answered %q (%v), want %s...", step.ask, line, err, want)
			}
		}
	}
	_ = in.Close()
	if rest, err := io.ReadAll(out); err != nil || len(rest) > 0 {
		t.Errorf("afterwards %q, %v", rest, err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("the adapter ended with %v", err)
	}
	at := 0
	for _, want := range []string{
		"connected amqp://127.0.0.1/pp7?heartbeat=2\n",
		"published pp7.retry.100 orders..billing 2 orders undefined\n", "acked\n",
		"published  orders..billing.parked 2 orders undefined\n", "acked\n",
	} {
		i := strings.Index(stderr.String()[at:], want)
		if i < 0 {
			t.Fatalf("the log lacks %q, or has it in another place:\n%s", want, stderr.String())
		}
		at += i + len(want)
	}
	for _, want := range []string{"cancelled 1\n", "delivery 9 does not wait\n"} {
		if !strings.Contains(stderr.String(), want) {
			t.Errorf("the log lacks %q:\n%s", want, stderr.String())
		}
	}
}
