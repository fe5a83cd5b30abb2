//go:build unix

package cli_test

import (
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/parkproof/parkproof/reports"
)

func TestMistakesOnTheCommandLine(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		args []string
		code int
		says []string
	}{
		{[]string{"verfy"}, 64, []string{`no command "verfy"`, "did you mean verify?"}},
		{[]string{"prove", "it"}, 64, []string{`no command "prove"`, "parkproof --help"}},
		{[]string{"list", "all"}, 64, []string{"all"}},
		{[]string{"version", "2"}, 64, []string{"2"}},
		{[]string{"verify", "--nope"}, 64, []string{"unknown flag: --nope", "parkproof verify --help"}},
		{[]string{"verify", "-x"}, 64, []string{"unknown shorthand flag"}},
		{[]string{"verify", "--tags"}, 64, []string{"needs an argument"}},
		{[]string{"verify", "node", "x.mjs"}, 64, []string{`"node" is no flag`, "parkproof verify -- node adapter.mjs"}},
		{[]string{"verify", "node", "--", "x.mjs"}, 64, []string{`"node" is no flag`}},
		{[]string{"verify", "--case", "RTY-999"}, 64, []string{`there is no case "RTY-999"`, "parkproof list"}},
		{[]string{"verify", "--case", "rty-004"}, 64, []string{"did you mean RTY-004?"}},
		{[]string{"verify", "--tags", "@nothing-has-this"}, 64, []string{"no case has the tag @nothing-has-this", "parkproof list --tags"}},
		{[]string{"verify", "--tags", "@must and"}, 64, []string{`"@must and" cannot be read`, "a tag is missing at the end"}},
		{[]string{"verify", "--tags", "must"}, 64, []string{`"must" is no tag`}},
		{[]string{"verify", "--parallel", "0"}, 64, []string{"--parallel 0", "at least one"}},
		{[]string{"verify", "--parallel", "-3"}, 64, []string{"--parallel -3"}},
		{[]string{"verify", "--parallel", "many"}, 64, []string{"many", "--parallel"}},
		{[]string{"verify", "--timeout", "0s"}, 64, []string{"--timeout 0s"}},
		{[]string{"verify", "--timeout", "10"}, 64, []string{"--timeout"}},
		{[]string{"verify", "--broker", ""}, 64, []string{"--broker is empty"}},
		{[]string{"verify", "--broker", "kafka://x"}, 64, []string{"kafka:// is no broker", "auto, a version such as 4.3"}},
		{[]string{"verify", "--broker", "latest"}, 64, []string{`"latest" is unknown`}},
		{[]string{"verify", "--broker", "image:"}, 64, []string{"names no image"}},
		{[]string{"verify", "--broker", "amqps://u:s3cr3t@h/"}, 64, []string{"amqps:// is not supported"}},
		{[]string{"verify", "--broker", "amqp://u:s3cr3t@h:port/"}, 64, []string{"no valid URL"}},
		{[]string{"verify", "--broker", "amqp://u:s3cr3t@h/?heartbeat=3"}, 64, []string{"heartbeat is unknown"}},
		{[]string{"verify", "--broker", "amqp://u:s3cr3t@h/?management=h:15672"}, 64, []string{"management= is no valid URL"}},
		{[]string{"verify", "--tags", "@must and @should"}, 2, []string{"no case is selected"}},
		{[]string{"verify", "--case", "RTY-004", "--tags", "@quorum"}, 2, []string{"no case is selected"}},
	} {
		t.Run(strings.Join(tt.args, " "), func(t *testing.T) {
			r := run(t, options{secrets: []string{"s3cr3t"}}, tt.args...)
			r.says(tt.code, tt.says...)
			if r.stdout.String() != "" {
				t.Errorf("stdout: %s", r.stdout)
			}
			if _, err := os.Stat(r.out); err == nil {
				t.Error("a folder for the report was made")
			}
		})
	}
}

func TestHelp(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{}, {"--help"}, {"help"}, {"verify", "--help"}} {
		r := run(t, options{}, args...)
		r.passes()
		if !strings.Contains(r.stdout.String(), "Usage:") {
			t.Errorf("%q: %s", args, r.stdout)
		}
	}
}

func TestDryRunStartsNothing(t *testing.T) {
	t.Parallel()
	r := run(t, options{}, "verify", "--dry-run", "--broker", "amqp://127.0.0.1:1/", "--case", "RTY-004", "--case", "RTY-001", "--", "/does/not/exist")
	r.passes()
	if lines := strings.Split(strings.TrimSpace(r.stdout.String()), "\n"); len(lines) != 2 || !strings.HasPrefix(lines[0], "RTY-001  ") {
		t.Errorf("%q", lines)
	}
}

func TestBrokersThatCannotBeHad(t *testing.T) {
	t.Parallel()
	b := node(t)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	nobody := listener.Addr().String()
	listener.Close()
	for _, tt := range []struct {
		name, value string
		says        []string
	}{
		{"nobody", "amqp://u:s3cr%2Ft-x@" + nobody + "/", []string{"amqp://u:***@" + nobody, "cannot be reached"}},
		{"password", "amqp://parkproof:s3cr%2Ft-x@" + b.Addr() + "/", []string{"refuses the user name or password"}},
		{"vhost", b.URL("absent"), []string{`may not open virtual host "absent", or there is none`}},
		{"management", b.URL("/") + "?management=http://admin:s3cr%252Ft-x@" + nobody, []string{"its management API at http://" + nobody}},
		{"no server", "local:/nonexistent", []string{"local:/nonexistent: no such file"}},
		{"no image", "image:does/not-exist", []string{"image:does/not-exist"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := run(t, options{secrets: []string{"s3cr", "s3cr/t-x", "s3cr%2Ft-x"}}, "verify", "--broker", tt.value)
			r.says(3, tt.says...)
			record := r.record()
			if len(record.Brokers) != 1 || record.Brokers[0].Error == "" || record.ExitCode != 3 || record.Interrupted {
				t.Errorf("%+v", record.Brokers)
			}
			if n := strings.Count(r.stdout.String(), "\n"); n > 12 {
				t.Errorf("%d lines say what one does:\n%s", n, r.stdout)
			}
		})
	}
}

func TestAdaptersThatDoNotWork(t *testing.T) {
	t.Parallel()
	admin := asAdministrator(t)
	folder := t.TempDir()
	script := filepath.Join(folder, "adapter.sh")
	if err := os.WriteFile(script, []byte("#!/bin/sh\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		behaviour string
		command   []string
		flags     []string
		code      int
		says      []string
	}{
		{command: []string{"/does/not/exist"}, code: 3, says: []string{"cannot start /does/not/exist: no such file"}},
		{command: []string{"no-such-program-anywhere"}, code: 3, says: []string{"no program of that name in PATH"}},
		{command: []string{script}, code: 3, says: []string{"no permission to execute it"}},
		{behaviour: "exits", code: 3, says: []string{"the adapter ended (exited with code 4) before it answered init", "the configuration has an error on line 3"}},
		{behaviour: "garbage", code: 3, says: []string{"no JSON object before it answered init", "library 1.0"}},
		{behaviour: "silent", flags: []string{"--timeout", "2s"}, code: 3, says: []string{"the adapter did not answer init in time"}},
		{behaviour: "twice", code: 3, says: []string{"answered request 1 (init) twice"}},
		{behaviour: "incapable", code: 1, says: []string{"cases failed, first ", "the adapter does not support retry"}},
	} {
		name := tt.behaviour
		if name == "" {
			name = filepath.Base(tt.command[0])
		}
		t.Run(name, func(t *testing.T) {
			o, command := options{}, append([]string{"--"}, tt.command...)
			if tt.behaviour != "" {
				o, command = adapter(tt.behaviour)
			}
			args := append([]string{"verify", "--broker", admin, "--parallel", "8", "--tags", "not @own-broker"}, tt.flags...)
			r := run(t, o, append(args, command...)...)
			r.says(tt.code, tt.says...)
			if strings.ContainsRune(r.stderr.String(), '\x1b') {
				t.Errorf("what the adapter printed reaches the terminal: %q", r.stderr)
			}
			want := reports.Broken
			if tt.code == 1 {
				want = reports.Failed
			}
			for _, c := range r.record().Cases {
				if c.Verdict != want && !(tt.code == 1 && c.Level == "should" && c.Verdict == reports.Unsupported) {
					t.Errorf("%s is %s: %s", c.ID, c.Verdict, c.Reason)
				}
			}
			// A hundred cases that cannot run do not each wait.
			if took := r.over.Sub(r.began); took > time.Minute {
				t.Errorf("it took %s", took)
			}
		})
	}
	if left := vhosts(t); len(left) > 0 {
		t.Errorf("virtual hosts are left: %q", left)
	}
}

func TestAConsumerThatDiesHasFailed(t *testing.T) {
	t.Parallel()
	o, command := adapter("dies")
	r := run(t, o, append([]string{"verify", "--broker", asAdministrator(t), "--case", "RTY-004"}, command...)...)
	r.says(1, "1 of 1 cases failed, first RTY-004")
	c := r.record().Cases[0]
	named := slices.ContainsFunc(c.Findings, func(f reports.Finding) bool {
		return strings.Contains(f.Guarantee, "process") && strings.Contains(f.Text, "exited with code 7")
	})
	if c.Verdict != reports.Failed || !named || c.Try != 1 {
		t.Errorf("%s at try %d: %+v", c.Verdict, c.Try, c.Findings)
	}
	if !strings.Contains(r.stdout.String(), "out of cheese") {
		t.Errorf("its last words are not shown:\n%s", r.stdout)
	}
}

func TestReportsThatCannotBeWritten(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, []byte("precious"), 0o644); err != nil {
		t.Fatal(err)
	}
	r := run(t, options{}, "verify", "--broker", "amqp://127.0.0.1:1/", "--out", file)
	r.says(64, "--out "+file+" is a file: give a folder")
	if content, _ := os.ReadFile(file); string(content) != "precious" {
		t.Errorf("the file is %q", content)
	}
	r = run(t, options{}, "verify", "--broker", "amqp://127.0.0.1:1/", "--out", filepath.Join(file, "below"))
	r.says(3, "no report can be written to ", "not a directory")
}

func TestAReportWithoutPermission(t *testing.T) {
	t.Parallel()
	o := options{}
	folder := t.TempDir()
	if err := os.Chmod(folder, 0o555); err != nil {
		t.Fatal(err)
	}
	if os.Getuid() == 0 {
		if _, err := exec.LookPath("runuser"); err != nil {
			t.Skip("LOUD: root may write anywhere, and there is no runuser to become another user; not tested")
		}
		o.prefix = []string{"runuser", "-u", "nobody", "--"}
		// The way to the folder, which is root's alone.
		for dir := filepath.Dir(folder); dir != os.TempDir() && dir != "/"; dir = filepath.Dir(dir) {
			if err := os.Chmod(dir, 0o755); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, out := range []string{folder, filepath.Join(folder, "below")} {
		r := run(t, o, "verify", "--broker", "amqp://127.0.0.1:1/", "--out", out)
		r.says(3, "no report can be written to "+out, "permission denied")
	}
}

func TestAReportOnAFullDisk(t *testing.T) {
	t.Parallel()
	const page = 4096
	t.Run("before", func(t *testing.T) {
		disk := mount(t, 2*page)
		if err := os.WriteFile(filepath.Join(disk, "filler"), make([]byte, 2*page), 0o644); err != nil {
			t.Fatal(err)
		}
		r := run(t, options{}, "verify", "--broker", "amqp://127.0.0.1:1/", "--out", disk)
		r.says(3, "no report can be written to ", "no space left on device")
	})
	t.Run("after", func(t *testing.T) {
		disk := mount(t, 2*page)
		r := run(t, options{}, "verify", "--broker", asAdministrator(t), "--tags", "@source:C32", "--parallel", "4", "--out", disk)
		r.says(3, "the report could not be written", "no space left on device")
		// Nothing is there that looks like a report and is half of one.
		if files := filesIn(t, disk); len(files) > 0 {
			t.Errorf("left: %q", files)
		}
		if !strings.Contains(r.stdout.String(), "cases passed") {
			t.Errorf("the summary is missing:\n%s", tail(r.stdout.String()))
		}
	})
}

func TestTwoRunsAtOnce(t *testing.T) {
	installed(t)
	args := []string{"verify", "--broker", "local", "--case", "RTY-001", "--case", "RTY-004", "--case", "ISO-001"}
	one, two := start(t, options{}, args...), start(t, options{}, args...)
	for _, r := range []*started{one, two} {
		r.wait(longest)
		r.check()
		r.passes()
		if n := r.record().Count(reports.Passed); n != 3 {
			t.Errorf("%d cases passed", n)
		}
	}
}

func TestInterruptedRun(t *testing.T) {
	installed(t)
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM} {
		r := start(t, options{}, "verify", "--broker", "local", "--parallel", "4")
		r.until("ok   ", longest)
		if runtime.GOOS == "linux" && len(processesOf(r.temporary)) < 4 {
			t.Error("nothing of the run is found: this test cannot fail")
		}
		asked := time.Now()
		if err := r.cmd.Process.Signal(sig); err != nil {
			t.Fatal(err)
		}
		r.wait(30 * time.Second)
		if took := time.Since(asked); took > 15*time.Second {
			t.Errorf("%s: it took %s to end", sig, took)
		}
		r.check()
		r.says(3, "the run was interrupted")
		record := r.record()
		if !record.Interrupted || record.ExitCode != 3 || len(record.Cases) == 0 || len(record.Cases) > 80 {
			t.Errorf("interrupted %t, exit code %d, %d cases", record.Interrupted, record.ExitCode, len(record.Cases))
		}
		for _, c := range record.Cases {
			if c.Verdict != reports.Passed {
				t.Errorf("%s, which the interruption met, is %s: %s", c.ID, c.Verdict, c.Reason)
			}
		}
	}
}

func TestInterruptedWhileTheBrokerBoots(t *testing.T) {
	installed(t)
	r := start(t, options{}, "verify", "--broker", "local", "--case", "RTY-001")
	for deadline := time.Now().Add(30 * time.Second); len(processesOf(r.temporary)) < 4; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the node does not start")
		}
	}
	if err := r.cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	r.wait(15 * time.Second)
	r.check()
	r.says(3, "the run was interrupted; 0 cases had run")
}

func TestAKilledRunLeavesNoProcess(t *testing.T) {
	installed(t)
	r := start(t, options{}, "verify", "--broker", "local", "--parallel", "4")
	r.until("ok   ", longest)
	if found := processesOf(r.temporary); runtime.GOOS == "linux" && len(found) < 5 {
		t.Errorf("only %q are found: this test cannot fail", found)
	}
	if err := r.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	r.nothingLeft(5 * time.Second)
}

func TestTheNextRunSweepsVirtualHosts(t *testing.T) {
	admin := asAdministrator(t)
	r := start(t, options{}, "verify", "--broker", admin, "--parallel", "4")
	r.until("ok   ", longest)
	if err := r.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	r.nothingLeft(5 * time.Second)
	left := vhosts(t)
	if len(left) == 0 {
		t.Fatal("the killed run left no virtual host: this test cannot fail")
	}
	next := run(t, options{}, "verify", "--broker", admin, "--case", "RTY-001")
	next.passes()
	if !strings.Contains(next.stdout.String(), "removed what a killed run left") {
		t.Errorf("it does not say what it removed:\n%s", next.stdout)
	}
	for _, name := range vhosts(t) {
		if slices.Contains(left, name) {
			t.Errorf("%s is still there", name)
		}
	}
}

func TestTheNextRunSweepsContainers(t *testing.T) {
	admin := asAdministrator(t)
	docker := func(args ...string) string {
		out, err := exec.Command("docker", args...).Output()
		if err != nil {
			t.Skipf("LOUD: no Docker engine answers; the sweep of containers is not tested end to end: %v", err)
		}
		return strings.TrimSpace(string(out))
	}
	var image string
	for _, name := range strings.Fields(docker("image", "ls", "--format", "{{.Repository}}:{{.Tag}}")) {
		if strings.Contains(name, "rabbitmq:3.10") {
			image = name
		}
	}
	if image == "" {
		t.Skip("LOUD: there is no image of RabbitMQ 3.10 here; the sweep of containers is not tested end to end")
	}
	before := strings.Fields(docker("ps", "-aq", "--no-trunc"))
	r := start(t, options{}, "verify", "--broker", "image:"+image, "--case", "RTY-001", "--case", "RTY-005", "--parallel", "1")
	r.until("up in", longest)
	if err := r.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	r.nothingLeft(5 * time.Second)
	var left []string
	for _, id := range strings.Fields(docker("ps", "-aq", "--no-trunc", "--filter", "ancestor="+image)) {
		if !slices.Contains(before, id) {
			left = append(left, id)
		}
	}
	next := run(t, options{}, "verify", "--broker", admin, "--case", "RTY-001")
	next.passes()
	now := strings.Fields(docker("ps", "-aq", "--no-trunc"))
	for _, id := range left {
		if slices.Contains(now, id) {
			t.Errorf("container %s is still there", id)
		}
	}
	if len(left) == 0 {
		t.Log("the container had gone by itself")
	}
}

// sharedVhost is a virtual host of somebody else's on the shared node, and the URL of a user who may
// use it and nothing more.
func sharedVhost(t *testing.T, name, password string) string {
	t.Helper()
	b := node(t)
	user := "user-of-" + name
	for _, args := range [][]string{
		{"add_vhost", name},
		{"add_user", user, password},
		{"set_permissions", "-p", name, user, ".*", ".*", ".*"},
		{"set_permissions", "-p", name, b.User(), ".*", ".*", ".*"},
	} {
		if _, err := b.Ctl(within(t, 30*time.Second), args...); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() {
		for _, args := range [][]string{{"delete_vhost", name}, {"delete_user", user}} {
			if _, err := b.Ctl(within(t, 30*time.Second), args...); err != nil {
				t.Error(err)
			}
		}
	})
	return "amqp://" + url.UserPassword(user, password).String() + "@" + b.Addr() + "/" + url.PathEscape(name)
}

// tenant puts a queue with a message, and an exchange, into a virtual host, as somebody who works there.
func tenant(t *testing.T, vhost, queue, exchange string) (untouched func()) {
	t.Helper()
	b := node(t)
	conn, err := b.Dial(within(t, 20*time.Second), vhost)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	ch, err := conn.Channel()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ch.QueueDeclare(queue, true, false, false, false, nil); err != nil {
		t.Fatal(err)
	}
	if err := ch.ExchangeDeclare(exchange, "fanout", true, false, false, false, nil); err != nil {
		t.Fatal(err)
	}
	if err := ch.Confirm(false); err != nil {
		t.Fatal(err)
	}
	sent, err := ch.PublishWithDeferredConfirm("", queue, true, false, amqp.Publishing{Body: []byte("precious"), DeliveryMode: amqp.Persistent})
	if err != nil || !sent.Wait() {
		t.Fatal(err)
	}
	return func() {
		t.Helper()
		queues, err := b.Queues(within(t, 20*time.Second), vhost)
		if err != nil {
			t.Fatal(err)
		}
		if len(queues) != 1 || queues[0].Name != queue || queues[0].Total != 1 {
			t.Errorf("the queues of the virtual host are %+v", queues)
		}
		exchanges, err := b.Exchanges(within(t, 20*time.Second), vhost)
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, x := range exchanges {
			if x.Name != "" && !strings.HasPrefix(x.Name, "amq.") {
				names = append(names, x.Name)
			}
		}
		if !slices.Equal(names, []string{exchange}) {
			t.Errorf("the exchanges of the virtual host are %q", names)
		}
	}
}

var fewCases = []string{
	"--case", "RTY-001", "--case", "RTY-004", "--case", "ISO-001", "--case", "ISO-006", "--case", "ORG-004", "--case", "PRK-002", "--case", "TOP-006",
}

func TestABrokerThatRunsAlready(t *testing.T) {
	t.Parallel()
	r := run(t, options{}, append([]string{"verify", "--broker", asAdministrator(t)}, append(fewCases, "--case", "TOP-002")...)...)
	r.passes()
	if n := r.record().Count(reports.Passed); n != 8 {
		t.Errorf("%d passed", n)
	}
}

func TestASharedVirtualHost(t *testing.T) {
	t.Parallel()
	const password = "pa/ss w0rd&"
	address := sharedVhost(t, "shop", password)
	untouched := tenant(t, "shop", "orders", "events")
	o := options{secrets: []string{password, url.QueryEscape(password), url.PathEscape(password)}}
	r := run(t, o, append([]string{"verify", "--broker", address}, append(fewCases, "--case", "TOP-002")...)...)
	r.passes()
	record := r.record()
	if record.Count(reports.Passed) != 7 || record.Count(reports.NotApplicable) != 1 {
		t.Errorf("%v", record.Verdicts())
	}
	if !strings.Contains(r.stdout.String(), "cases run one by one") {
		t.Errorf("it does not say that it cannot make virtual hosts:\n%s", r.stdout)
	}
	untouched()
}

// TestASharedVirtualHostWithTheConsumersOwnNames: a retry queue that is there may be in use, and must
// be neither emptied nor removed.
func TestASharedVirtualHostWithTheConsumersOwnNames(t *testing.T) {
	t.Parallel()
	address := sharedVhost(t, "production", "w0rd-of-production")
	untouched := tenant(t, "production", "retry.100", "events")
	o, command := adapter("unprefixed")
	o.secrets = []string{"w0rd-of-production"}
	r := run(t, o, append([]string{"verify", "--broker", address, "--case", "RTY-001", "--case", "RTY-004"}, command...)...)
	r.says(2, "no case passed")
	for _, c := range r.record().Cases {
		if c.Verdict != reports.NotApplicable || !strings.Contains(c.Reason, `queue "retry.100" of the consumer is in this shared virtual host already`) {
			t.Errorf("%s: %s", c.Verdict, c.Reason)
		}
	}
	untouched()
}

func TestPasswordsAreShownNowhere(t *testing.T) {
	t.Parallel()
	// Each character is written in another way in a URL's userinfo, path and query.
	const password = "Tr0ub4dor/&+ %3@ö"
	address := sharedVhost(t, "secrets", password)
	secrets := []string{
		password, url.QueryEscape(password), url.PathEscape(password), url.UserPassword("", password).String()[1:],
		"Tr0ub4dor", // whatever is cut or encoded, this stays
	}
	for _, behaviour := range []string{"leaks", "refuses"} {
		o, command := adapter(behaviour)
		o.secrets = secrets
		r := run(t, o, append([]string{"verify", "--broker", address, "--case", "RTY-001", "--case", "PRK-001"}, command...)...)
		if code := r.cmd.ProcessState.ExitCode(); code == 0 {
			t.Errorf("%s: all passed:\n%s", behaviour, r.stdout)
		}
		shown := fmt.Sprintf("%+v", r.record())
		if !strings.Contains(shown, "***") {
			t.Errorf("%s: the URL was shown nowhere: this test cannot fail", behaviour)
		}
	}
	// In the adapter's command, and with the management's own.
	r := run(t, options{secrets: append(secrets, "0ther-w0rd")}, "verify", "--case", "RTY-001",
		"--broker", address+"?management="+url.QueryEscape("http://admin:0ther-w0rd@127.0.0.1:1"), "--", "/does/not/exist", "--url", address)
	r.says(3)
}
