//go:build unix

package cli_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/parkproof/parkproof/reports"
	"github.com/parkproof/parkproof/scenarios/broker"
	"github.com/parkproof/parkproof/scenarios/process"
)

// program is the parkproof that was built for these tests.
var program string

func TestMain(m *testing.M) {
	process.SuperviseIfAsked()
	if name := os.Getenv(behaviourVariable); name != "" {
		behave(name)
		return
	}
	os.Exit(test(m))
}

func test(m *testing.M) int {
	folder, err := os.MkdirTemp("", "cli-test-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(folder)
	// An ordinary user runs it too.
	if err := os.Chmod(folder, 0o755); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	program = filepath.Join(folder, "parkproof")
	build := exec.Command("go", "build", "-o", program, "../..")
	build.Stderr = os.Stderr
	if err := build.Run(); err != nil {
		fmt.Fprintln(os.Stderr, "building parkproof:", err)
		return 1
	}
	code := m.Run()
	if shared.broker != nil {
		if err := shared.broker.Stop(context.Background()); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	return code
}

// shared is a private node of these tests, which the runs are given by its URL.
var shared struct {
	once   sync.Once
	broker *broker.Broker
	err    error
}

// node starts the shared node, where there is a server to start.
func node(t *testing.T) *broker.Broker {
	t.Helper()
	installed(t)
	shared.once.Do(func() {
		spec, err := broker.Parse("local")
		if err != nil {
			shared.err = err
			return
		}
		shared.broker, shared.err = broker.Start(context.Background(), spec, broker.Options{})
	})
	if shared.err != nil {
		t.Fatal(shared.err)
	}
	return shared.broker
}

// installed skips a test that needs a real broker.
func installed(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("LOUD: -short leaves out what needs a real broker")
	}
	for _, name := range []string{"rabbitmq-server", "/usr/lib/rabbitmq/bin/rabbitmq-server", "/opt/homebrew/sbin/rabbitmq-server"} {
		if _, err := exec.LookPath(name); err == nil {
			return
		}
	}
	t.Skip("LOUD: there is no rabbitmq-server on this machine; nothing is run end to end")
}

// asAdministrator is the shared node's URL, with its management API.
func asAdministrator(t *testing.T) string {
	b := node(t)
	return b.URL("/") + "?management=" + b.ManagementURL()
}

// started is a run of parkproof.
type started struct {
	t           *testing.T
	cmd         *exec.Cmd
	temporary   string // its TMPDIR
	out         string // its --out
	stdout      *watchedBuffer
	stderr      *watchedBuffer
	secrets     []string
	done        chan struct{}
	began, over time.Time
}

// watchedBuffer is a buffer that can be looked at while it is written.
type watchedBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *watchedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *watchedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// options of a run.
type options struct {
	env     []string
	out     string   // instead of a folder of its own
	prefix  []string // a command that parkproof is run by
	secrets []string // must be seen nowhere
}

// start starts parkproof with a TMPDIR of its own.
func start(t *testing.T, o options, args ...string) *started {
	t.Helper()
	r := &started{
		t: t, temporary: t.TempDir(), out: o.out, stdout: &watchedBuffer{}, stderr: &watchedBuffer{},
		secrets: o.secrets, done: make(chan struct{}), began: time.Now(),
	}
	if shared.broker != nil {
		r.secrets = append(r.secrets, shared.broker.Password())
	}
	if r.out == "" {
		r.out = filepath.Join(t.TempDir(), "report")
	}
	if len(args) > 0 && (args[0] == "verify" || args[0] == "explore") && !slices.Contains(args, "--out") {
		args = slices.Insert(slices.Clone(args), 1, "--out", r.out)
	}
	command := append(slices.Clone(o.prefix), append([]string{program}, args...)...)
	r.cmd = exec.Command(command[0], command[1:]...)
	r.cmd.Env = append(os.Environ(), "TMPDIR="+r.temporary)
	r.cmd.Env = append(r.cmd.Env, o.env...)
	r.cmd.Stdout, r.cmd.Stderr = r.stdout, r.stderr
	r.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	// What it leaves holds no end of these pipes for ever.
	r.cmd.WaitDelay = 5 * time.Second
	if err := r.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		_ = r.cmd.Wait()
		r.over = time.Now()
		close(r.done)
	}()
	t.Cleanup(func() {
		select {
		case <-r.done:
		default:
			_ = r.cmd.Process.Kill()
			<-r.done
		}
	})
	return r
}

// wait waits for the end and returns the exit code.
func (r *started) wait(limit time.Duration) int {
	r.t.Helper()
	select {
	case <-r.done:
	case <-time.After(limit):
		r.t.Fatalf("it runs on after %s\n%s%s", limit, r.stdout, r.stderr)
	}
	return r.cmd.ProcessState.ExitCode()
}

// longest bounds a run of a few cases, on a machine that does other things too.
const longest = 3 * time.Minute

// run runs parkproof to its end and checks what holds of every run: nothing is left, no password is
// shown, and there is no stack trace.
func run(t *testing.T, o options, args ...string) *started {
	t.Helper()
	r := start(t, o, args...)
	r.wait(longest)
	r.check()
	return r
}

func (r *started) check() {
	r.t.Helper()
	r.nothingLeft(0)
	texts := map[string]string{"stdout": r.stdout.String(), "stderr": r.stderr.String()}
	for _, name := range []string{"run.json", "junit.xml"} {
		if content, err := os.ReadFile(filepath.Join(r.out, name)); err == nil {
			texts[name] = string(content)
		}
	}
	for name, text := range texts {
		for _, secret := range r.secrets {
			if strings.Contains(text, secret) {
				at := strings.Index(text, secret)
				r.t.Errorf("%s shows a password: …%s", name, text[max(0, at-200):at])
			}
		}
		for _, sign := range []string{"goroutine ", "panic: runtime", "runtime error"} {
			if strings.Contains(text, sign) {
				r.t.Errorf("%s has a stack trace: %s", name, text)
			}
		}
	}
}

// nothingLeft checks that there is no process of the run and no folder, within the time.
func (r *started) nothingLeft(within time.Duration) {
	r.t.Helper()
	var left []string
	for deadline := time.Now().Add(within); ; time.Sleep(20 * time.Millisecond) {
		left = append(processesOf(r.temporary), filesIn(r.t, r.temporary)...)
		if len(left) == 0 {
			return
		}
		if time.Now().After(deadline) {
			break
		}
	}
	r.t.Errorf("left: %q", left)
}

func filesIn(t *testing.T, folder string) []string {
	t.Helper()
	entries, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, filepath.Join(folder, e.Name()))
	}
	return names
}

// processesOf lists the processes whose environment has the TMPDIR: all that a run started, whoever
// their parents are now. Where there is no /proc, it lists none.
func processesOf(temporary string) []string {
	environments, _ := filepath.Glob("/proc/[0-9]*/environ")
	var found []string
	for _, path := range environments {
		content, err := os.ReadFile(path)
		if err != nil || !bytes.Contains(content, []byte("TMPDIR="+temporary+"\x00")) {
			continue
		}
		line, _ := os.ReadFile(filepath.Join(filepath.Dir(path), "cmdline"))
		found = append(found, filepath.Base(filepath.Dir(path))+" "+strings.ReplaceAll(string(line), "\x00", " "))
	}
	return found
}

// says checks the exit code and that stderr is one line with these parts.
func (r *started) says(code int, parts ...string) {
	r.t.Helper()
	if got := r.cmd.ProcessState.ExitCode(); got != code {
		r.t.Errorf("exit code %d, want %d\n%s%s", got, code, tail(r.stdout.String()), r.stderr)
	}
	text := r.stderr.String()
	if !strings.HasPrefix(text, "parkproof: ") || strings.Count(text, "\n") != 1 || !strings.HasSuffix(text, "\n") || len(text) > 700 {
		r.t.Errorf("stderr is not one line: %q", text)
	}
	for _, part := range parts {
		if !strings.Contains(text, part) {
			r.t.Errorf("%q does not say %q", text, part)
		}
	}
}

// passes checks that all went well.
func (r *started) passes() {
	r.t.Helper()
	if code := r.cmd.ProcessState.ExitCode(); code != 0 || r.stderr.String() != "" {
		r.t.Errorf("exit code %d\n%s%s", code, tail(r.stdout.String()), r.stderr)
	}
}

func tail(text string) string {
	if len(text) > 4000 {
		return "…" + text[len(text)-4000:]
	}
	return text
}

// record is the run's run.json.
func (r *started) record() *reports.Run {
	r.t.Helper()
	file, err := os.Open(filepath.Join(r.out, "run.json"))
	if err != nil {
		r.t.Fatal(err)
	}
	defer file.Close()
	record, err := reports.ReadJSON(bufio.NewReader(file))
	if err != nil {
		r.t.Fatal(err)
	}
	return record
}

// until waits until the run's stdout has the text.
func (r *started) until(text string, limit time.Duration) {
	r.t.Helper()
	for deadline := time.Now().Add(limit); !strings.Contains(r.stdout.String(), text); time.Sleep(10 * time.Millisecond) {
		select {
		case <-r.done:
			r.t.Fatalf("it ended before it said %q\n%s%s", text, tail(r.stdout.String()), r.stderr)
		default:
		}
		if time.Now().After(deadline) {
			r.t.Fatalf("it did not say %q in %s\n%s%s", text, limit, tail(r.stdout.String()), r.stderr)
		}
	}
}

func within(t *testing.T, limit time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	t.Cleanup(cancel)
	return ctx
}

// vhosts are the virtual hosts of the shared node that parkproof made.
func vhosts(t *testing.T) []string {
	t.Helper()
	out, err := node(t).Ctl(within(t, 30*time.Second), "list_vhosts", "--quiet", "--no-table-headers")
	if err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(strings.Fields(out), func(name string) bool { return !strings.HasPrefix(name, "pp-") })
}

// mount makes a file system of that size, of root's rights.
func mount(t *testing.T, bytes int) string {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("LOUD: only root can mount a small disk; a full one is not tested")
	}
	folder := t.TempDir()
	if out, err := exec.Command("mount", "-t", "tmpfs", "-o", "size="+strconv.Itoa(bytes), "tmpfs", folder).CombinedOutput(); err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) || errors.Is(err, exec.ErrNotFound) {
			t.Skipf("LOUD: a small disk cannot be mounted here, a full one is not tested: %s", out)
		}
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if out, err := exec.Command("umount", folder).CombinedOutput(); err != nil {
			t.Errorf("%v: %s", err, out)
		}
	})
	return folder
}
