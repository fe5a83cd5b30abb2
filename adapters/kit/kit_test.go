package kit

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/parkproof/parkproof/scenarios/adapter/protocol"
)

// envAdapter makes the test binary an adapter.
const envAdapter = "PARKPROOF_KIT_TEST_ADAPTER"

// envCloses says what its close comes to: with "closes" it returns.
const envCloses = "PARKPROOF_KIT_TEST_CLOSE"

// early is a logger that took stdout when its package was initialised, as many libraries do.
var early = log.New(os.Stdout, "early ", 0)

func TestMain(m *testing.M) {
	if os.Getenv(envAdapter) != "" {
		Main(&chatty{})
	}
	goleak.VerifyTestMain(m)
}

// chatty is a library that prints to stdout, and whose close returns only where it is told to.
type chatty struct{}

func (*chatty) Init(_ context.Context, _ *Session, settings Settings) (protocol.Ready, error) {
	fmt.Println("printed")
	early.Println("logged")
	child := exec.Command("sh", "-c", "echo said by a child")
	child.Stdout = os.Stdout
	if err := child.Run(); err != nil {
		return protocol.Ready{}, err
	}
	return protocol.Ready{Name: settings.URLs[0], Supports: []string{protocol.CanRetry}}, nil
}
func (*chatty) Consume(context.Context, Subscription) (string, error) { return "q", nil }
func (*chatty) Stop(context.Context, string) error                    { return nil }
func (*chatty) Close(context.Context, bool) error {
	if os.Getenv(envCloses) == "closes" {
		return nil
	}
	select {}
}

func adapter(t *testing.T, env ...string) (cmd *exec.Cmd, in io.WriteCloser, out *bufio.Reader, stderr *syncBuffer) {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	cmd = exec.CommandContext(ctx, exe)
	cmd.Env = append(os.Environ(), append(env, envAdapter+"=1", protocol.EnvURL+"=amqp://127.0.0.1:9")...)
	stderr = &syncBuffer{}
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

const readyLine = `{"re":1,"ok":{"name":"amqp://127.0.0.1:9","supports":["retry"],"conventions":{}}}` + "\n"

func TestMainProtectsStdoutAndEndsWithStdin(t *testing.T) {
	cmd, in, out, stderr := adapter(t)
	if _, err := io.WriteString(in, `{"id":1,"do":"init","protocol":1}`+"\n"); err != nil {
		t.Fatal(err)
	}
	if line, err := out.ReadString('\n'); err != nil || line != readyLine {
		t.Errorf("got %q, %v", line, err)
	}
	_ = in.Close()
	if rest, err := io.ReadAll(out); err != nil || len(rest) > 0 {
		t.Errorf("afterwards %q, %v", rest, err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("the adapter ended with %v", err)
	}
	for _, want := range []string{"printed", "early logged", "said by a child"} {
		if !strings.Contains(stderr.String(), want) {
			t.Errorf("stderr lacks %q: %s", want, stderr)
		}
	}
}

func TestMainEndsAlthoughTheLibraryHangs(t *testing.T) {
	cmd, in, out, _ := adapter(t)
	if _, err := io.WriteString(in, `{"id":1,"do":"init","protocol":1}`+"\n"); err != nil {
		t.Fatal(err)
	}
	if line, err := out.ReadString('\n'); err != nil || line != readyLine {
		t.Fatalf("got %q, %v", line, err)
	}
	if _, err := io.WriteString(in, `{"id":2,"do":"close"}`+"\n"); err != nil {
		t.Fatal(err)
	}
	_ = in.Close()
	if rest, err := io.ReadAll(out); err != nil || len(rest) > 0 {
		t.Errorf("afterwards %q, %v", rest, err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("the adapter ended with %v", err)
	}
}

func TestMainSpeaksOverTheControlSocket(t *testing.T) {
	// Not t.TempDir: a socket's path may have about 100 bytes, and that one holds the test's name.
	dir, err := os.MkdirTemp("", "kit")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	path := filepath.Join(dir, "control")
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	cmd, _, out, stderr := adapter(t, protocol.EnvControl+"="+path)
	// An adapter that never dials must not hold the test.
	if err := l.(*net.UnixListener).SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	conn, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(conn, `{"id":1,"do":"init","protocol":1}`+"\n"); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(conn).ReadString('\n'); err != nil || line != readyLine {
		t.Errorf("got %q, %v", line, err)
	}
	_ = conn.Close()
	if rest, err := io.ReadAll(out); err != nil || len(rest) > 0 {
		t.Errorf("stdout had %q, %v", rest, err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("the adapter ended with %v: %s", err, stderr)
	}
}

func TestMainSaysWhyItCannotSpeak(t *testing.T) {
	cmd, in, _, stderr := adapter(t, protocol.EnvControl+"=/nowhere/at/all")
	_ = in.Close()
	var exit *exec.ExitError
	if err := cmd.Wait(); !errors.As(err, &exit) || exit.ExitCode() != 1 {
		t.Errorf("the adapter ended with %v", err)
	}
	if got := stderr.String(); !strings.Contains(got, protocol.EnvControl) || strings.Count(got, "\n") != 1 {
		t.Errorf("stderr has %q", got)
	}
}
