//go:build unix

package process

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// parentVariable makes the test binary a program that starts a command, says its
// pid, and waits to be killed.
const parentVariable = "PROCESS_TEST_PARENT"

func TestMain(m *testing.M) {
	SuperviseIfAsked()
	if text := os.Getenv(parentVariable); text != "" {
		os.Unsetenv(parentVariable)
		beParent(text)
	}
	goleak.VerifyTestMain(m)
}

func beParent(text string) {
	var command Command
	if err := json.Unmarshal([]byte(text), &command); err != nil {
		panic(err)
	}
	command.Stdout = os.Stdout
	child, err := Start(context.Background(), command)
	if err != nil {
		panic(err)
	}
	fmt.Println("child", child.Pid())
	select {}
}

func within(t *testing.T, limit time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	t.Cleanup(cancel)
	return ctx
}

func eventually(t *testing.T, limit time.Duration, what string, condition func() bool) time.Duration {
	t.Helper()
	began := time.Now()
	for !condition() {
		if time.Since(began) > limit {
			t.Fatalf("not within %s: %s", limit, what)
		}
		time.Sleep(2 * time.Millisecond)
	}
	return time.Since(began)
}

// gone: no process of that id, or one that only waits to be reaped.
func gone(pid int) bool {
	if syscall.Kill(pid, 0) == syscall.ESRCH {
		return true
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	_, after, _ := strings.Cut(string(stat), ") ")
	return strings.HasPrefix(after, "Z")
}

func start(t *testing.T, command Command) *Process {
	t.Helper()
	p, err := Start(within(t, 20*time.Second), command)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = p.Kill(context.Background()) })
	return p
}

func sh(script string) Command { return Command{Path: "sh", Args: []string{"-c", script}} }

func TestStatusAndOutput(t *testing.T) {
	for _, tt := range []struct {
		script string
		want   string
	}{
		{"echo out; echo err >&2; exit 3", "exited with code 3"},
		{"echo out; echo err >&2", "exited with code 0"},
		{"echo out; echo err >&2; kill -TERM $$", "ended by SIGTERM"},
	} {
		t.Run(tt.want, func(t *testing.T) {
			command := sh(tt.script)
			var out, errs bytes.Buffer
			command.Stdout, command.Stderr = &out, &errs
			status, err := start(t, command).Wait(within(t, 10*time.Second))
			if err != nil {
				t.Fatal(err)
			}
			if status.String() != tt.want || status.Success() != (tt.want == "exited with code 0") {
				t.Errorf("status %q, want %q", status, tt.want)
			}
			if out.String() != "out\n" || errs.String() != "err\n" {
				t.Errorf("stdout %q, stderr %q", out.String(), errs.String())
			}
		})
	}
}

func TestStdinFromReaderAndEnvironment(t *testing.T) {
	command := sh("cat; echo $A; pwd; echo ${PARKPROOF_SUPERVISE-unset}; cat <&3")
	command.Stdin = strings.NewReader("in ")
	command.Env = []string{"A=b", "PATH=" + os.Getenv("PATH"), superviseVariable + "=1"}
	command.Dir = t.TempDir()
	extra, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer extra.Close()
	command.ExtraFiles = []*os.File{extra}
	var out bytes.Buffer
	command.Stdout = &out
	p := start(t, command)
	if _, err := write.WriteString("extra"); err != nil {
		t.Fatal(err)
	}
	write.Close()
	if _, err := p.Wait(within(t, 10*time.Second)); err != nil {
		t.Fatal(err)
	}
	if want := "in b\n" + command.Dir + "\nunset\nextra"; out.String() != want {
		t.Errorf("got %q, want %q", out.String(), want)
	}
}

func TestPipesAreTheChildsOwn(t *testing.T) {
	// The child closes its ends and lives on: nobody else may hold them.
	command := sh("read line; echo got $line; exec >&- <&-; sleep 60")
	command.PipeStdin, command.PipeStdout = true, true
	p := start(t, command)
	defer p.Stdout.Close()
	if _, err := io.WriteString(p.Stdin, "hello\n"); err != nil {
		t.Fatal(err)
	}
	all, err := io.ReadAll(p.Stdout)
	if err != nil || string(all) != "got hello\n" {
		t.Fatalf("%q, %v", all, err)
	}
	if _, err := io.WriteString(p.Stdin, "nobody reads"); !errors.Is(err, syscall.EPIPE) {
		t.Errorf("write after the child closed stdin: %v", err)
	}
	if _, ended := p.Status(); ended {
		t.Error("the child ended early")
	}
}

func TestCannotStart(t *testing.T) {
	folder := t.TempDir()
	write := func(name, text string, mode os.FileMode) string {
		path := filepath.Join(folder, name)
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for _, tt := range []struct {
		name    string
		command Command
		is      error
		says    string
	}{
		{"not in PATH", Command{Path: "no-such-program-here"}, fs.ErrNotExist, "no program of that name in PATH"},
		{"no such file", Command{Path: filepath.Join(folder, "absent")}, fs.ErrNotExist, "no such file"},
		{"not executable", Command{Path: write("plain", "#!/bin/sh\n", 0o600)}, fs.ErrPermission, "chmod +x"},
		{"a folder", Command{Path: folder}, fs.ErrPermission, "it is a folder"},
		{"interpreter", Command{Path: write("script", "#!/no/such/interpreter\n", 0o700)}, fs.ErrNotExist, "interpreter /no/such/interpreter"},
		{"no format", Command{Path: write("text", "hello\n", 0o700)}, syscall.ENOEXEC, "neither a program"},
		{"working directory", Command{Path: "sh", Dir: filepath.Join(folder, "absent")}, fs.ErrNotExist, "working directory"},
		{"nothing", Command{}, nil, "no program is named"},
		{"removing /", Command{Path: "sh", RemoveOnExit: []string{"/tmp/.."}}, nil, "refusing to remove"},
		{"grace", Command{Path: "sh", Grace: time.Minute}, nil, "outside 0..3s"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := Start(within(t, 10*time.Second), tt.command)
			var typed *StartError
			if !errors.As(err, &typed) || !strings.Contains(err.Error(), tt.says) || strings.Contains(err.Error(), "\n") {
				t.Errorf("got %v, want a line with %q", err, tt.says)
			}
			if tt.is != nil && !errors.Is(err, tt.is) {
				t.Errorf("%v is not %v", err, tt.is)
			}
		})
	}
}

func TestRelativePathIsOfTheWorkingDirectory(t *testing.T) {
	folder := t.TempDir()
	if err := os.WriteFile(filepath.Join(folder, "run"), []byte("#!/bin/sh\nexit 4\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	status, err := start(t, Command{Path: "./run", Dir: folder}).Wait(within(t, 10*time.Second))
	if err != nil || status.Code != 4 {
		t.Errorf("%v, %v", status, err)
	}
}

func TestStartObeysItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := Start(ctx, sh("sleep 60")); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

func TestKillLeavesNothingOfTheGroup(t *testing.T) {
	command := sh("sleep 60 & echo $!; sleep 60 & echo $!; wait")
	command.PipeStdout = true
	p := start(t, command)
	defer p.Stdout.Close()
	pids := readPids(t, p.Stdout, 2)
	if group, err := syscall.Getpgid(pids[0]); err != nil || group != p.Pid() {
		t.Errorf("group %d of the grandchild, %v, want %d", group, err, p.Pid())
	}
	status, err := p.Kill(within(t, 5*time.Second))
	if err != nil || status.Signal != syscall.SIGKILL {
		t.Errorf("%v, %v", status, err)
	}
	for _, pid := range append(pids, p.Pid()) {
		if !gone(pid) {
			t.Errorf("process %d is still there", pid)
		}
	}
	if err := p.Signal(syscall.SIGTERM); !errors.Is(err, os.ErrProcessDone) {
		t.Errorf("signal after the end: %v", err)
	}
	if _, err := p.Kill(within(t, time.Second)); err != nil {
		t.Errorf("second kill: %v", err)
	}
}

func TestLeaderThatExitsTakesItsGroupAlong(t *testing.T) {
	command := sh("sleep 60 & echo $!")
	command.PipeStdout = true
	p := start(t, command)
	defer p.Stdout.Close()
	pids := readPids(t, p.Stdout, 1)
	status, err := p.Wait(within(t, 5*time.Second))
	if err != nil || !status.Success() {
		t.Errorf("%v, %v", status, err)
	}
	if !gone(pids[0]) {
		t.Errorf("process %d is still there", pids[0])
	}
}

func TestPauseAndResume(t *testing.T) {
	command := sh("while :; do echo tick; sleep 0.01; done")
	command.PipeStdout = true
	p := start(t, command)
	defer p.Stdout.Close()
	lines := bufio.NewReader(p.Stdout)
	if _, err := lines.ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	if err := p.Pause(); err != nil {
		t.Fatal(err)
	}
	stopped := func() bool {
		stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.Pid()))
		_, after, _ := strings.Cut(string(stat), ") ")
		// D: a shell that waits for a forked child, itself stopped before exec.
		return strings.HasPrefix(after, "T") || strings.HasPrefix(after, "D")
	}
	if _, err := os.Stat("/proc/self/stat"); err == nil {
		eventually(t, 2*time.Second, "the child is stopped", stopped)
	}
	if _, ended := p.Status(); ended {
		t.Error("a paused process counts as ended")
	}
	if err := p.Resume(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat("/proc/self/stat"); err == nil {
		eventually(t, 2*time.Second, "the child runs again", func() bool { return !stopped() })
	}
	// A paused process can be stopped, too.
	if err := p.Pause(); err != nil {
		t.Fatal(err)
	}
	status, err := p.Stop(within(t, 10*time.Second), 5*time.Second)
	if err != nil || status.Signal != syscall.SIGTERM {
		t.Errorf("%v, %v", status, err)
	}
}

func TestStopKillsAfterTheGrace(t *testing.T) {
	command := sh("trap '' TERM; echo ready; while :; do sleep 1; done")
	command.PipeStdout = true
	p := start(t, command)
	defer p.Stdout.Close()
	if _, err := bufio.NewReader(p.Stdout).ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	status, err := p.Stop(within(t, 10*time.Second), 100*time.Millisecond)
	if err != nil || status.Signal != syscall.SIGKILL {
		t.Errorf("%v, %v", status, err)
	}
	if took := time.Since(began); took < 100*time.Millisecond || took > 2*time.Second {
		t.Errorf("took %s", took)
	}
}

func TestSupervisorThatIsKilledTakesItsChildAlong(t *testing.T) {
	p := start(t, sh("sleep 60 & wait"))
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.Pid()))
	if err != nil {
		t.Skip("LOUD: no /proc here, so the supervisor's pid cannot be found")
	}
	_, after, _ := strings.Cut(string(stat), ") ")
	supervisor, err := strconv.Atoi(strings.Fields(after)[1])
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(supervisor, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Wait(within(t, 10*time.Second)); err != nil {
		t.Fatal(err)
	}
	if !gone(p.Pid()) {
		t.Error("the child is still there")
	}
}

// TestDeathOfTheParent kills a real parent with SIGKILL.
func TestDeathOfTheParent(t *testing.T) {
	for _, tt := range []struct {
		name   string
		script string
		grace  time.Duration
		atMost time.Duration
		says   string
	}{
		{name: "at once", script: "sleep 60 & echo pid $!; sleep 60 & echo pid $!; wait", atMost: time.Second},
		{name: "polite child", script: "trap 'echo bye > $MARK; exit' TERM; sleep 60 & echo pid $!; echo pid $!; wait", grace: 2 * time.Second, atMost: time.Second, says: "bye"},
		{name: "stubborn child", script: "trap '' TERM; sleep 60 & echo pid $!; echo pid $!; while :; do wait; done", grace: 300 * time.Millisecond, atMost: 3 * time.Second},
		{name: "daemon", script: "(setsid sh -c 'echo pid $$; echo pid $$; exec sleep 60' &); sleep 60", atMost: time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if tt.name == "daemon" && !adopts() {
				t.Skip("LOUD: only Linux adopts orphans that left the group")
			}
			folder := filepath.Join(t.TempDir(), "data")
			if err := os.MkdirAll(filepath.Join(folder, "deep"), 0o700); err != nil {
				t.Fatal(err)
			}
			mark := filepath.Join(t.TempDir(), "mark")
			command := sh(tt.script)
			command.Env = append(os.Environ(), "MARK="+mark)
			command.Grace = tt.grace
			command.RemoveOnExit = []string{folder}
			text, err := json.Marshal(command)
			if err != nil {
				t.Fatal(err)
			}
			parent := exec.Command(os.Args[0])
			parent.Env = append(os.Environ(), parentVariable+"="+string(text))
			parent.Stderr = os.Stderr
			out, err := parent.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := parent.Start(); err != nil {
				t.Fatal(err)
			}
			pids := readPids(t, out, 3)
			if err := parent.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			_ = parent.Wait()
			took := eventually(t, 5*time.Second, "nothing is left", func() bool {
				for _, pid := range pids {
					if !gone(pid) {
						return false
					}
				}
				_, err := os.Stat(folder)
				return errors.Is(err, fs.ErrNotExist)
			})
			t.Logf("gone after %s", took)
			if took > tt.atMost {
				t.Errorf("took %s, more than %s", took, tt.atMost)
			}
			if got, _ := os.ReadFile(mark); strings.TrimSpace(string(got)) != tt.says {
				t.Errorf("the child said %q, want %q", got, tt.says)
			}
		})
	}
}

func TestFoldersStayWhenTheChildEnds(t *testing.T) {
	folder := t.TempDir()
	command := sh("exit 0")
	command.RemoveOnExit = []string{folder}
	if _, err := start(t, command).Wait(within(t, 5*time.Second)); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(folder); err != nil {
		t.Error(err)
	}
}

func adopts() bool {
	_, err := os.Stat("/proc/self/task")
	return err == nil
}

// readPids reads n lines that end in a pid.
func readPids(t *testing.T, from io.Reader, n int) []int {
	t.Helper()
	lines := bufio.NewScanner(from)
	var pids []int
	for len(pids) < n && lines.Scan() {
		fields := strings.Fields(lines.Text())
		pid, err := strconv.Atoi(fields[len(fields)-1])
		if err != nil {
			t.Fatalf("line %q: %v", lines.Text(), err)
		}
		pids = append(pids, pid)
	}
	if len(pids) != n {
		t.Fatalf("read %v, want %d pids", pids, n)
	}
	return pids
}

func BenchmarkStart(b *testing.B) {
	for b.Loop() {
		p, err := Start(context.Background(), Command{Path: "true"})
		if err != nil {
			b.Fatal(err)
		}
		if _, err := p.Wait(context.Background()); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkBareStart(b *testing.B) {
	for b.Loop() {
		if err := exec.Command("true").Run(); err != nil {
			b.Fatal(err)
		}
	}
}
