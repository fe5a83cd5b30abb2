package kit

import (
	"context"
	"errors"
	"io"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/parkproof/parkproof/scenarios/adapter/protocol"
)

// beginTerminable is begin with a way to ask the process to end.
func beginTerminable(t *testing.T, lib Library) (p *peer, terminate func()) {
	t.Helper()
	asked := make(chan struct{})
	return beginWith(t, lib, Options{Terminate: asked}), func() { close(asked) }
}

func TestAProcessThatIsAskedToEndFinishesItsHandlers(t *testing.T) {
	leakFree(t)
	sessions := make(chan *Session, 1)
	lib := readyWith(sessions, nil)
	closing, handled := make(chan bool, 1), make(chan struct{})
	lib.close = func(_ context.Context, finish bool) error {
		closing <- finish
		<-handled
		return nil
	}
	p, terminate := beginTerminable(t, lib)
	s := p.ready(sessions)
	verdicts := make(chan Verdict, 1)
	go func() { verdicts <- s.Handle(t.Context(), Delivery{Consumer: "c", Message: "m1"}) }()
	p.line()

	terminate()
	if finish := <-closing; !finish {
		t.Error("the library was told not to finish its handlers")
	}
	if len(verdicts) != 0 {
		t.Error("the handler was released")
	}
	p.ask(`{"do":"settle","n":1,"verdict":"fail","reason":"bad luck"}`)
	if v := <-verdicts; v.Verdict != protocol.VerdictFail || v.Reason != "bad luck" {
		t.Errorf("the handler was told %+v", v)
	}
	select {
	case err := <-p.done:
		t.Fatalf("the session ended before its library was closed: %v", err)
	default:
	}
	close(handled)
	if err := p.ended(); err != nil {
		t.Errorf("the session ended with %v", err)
	}
}

func TestAProcessThatIsAskedToEndBeforeInitEnds(t *testing.T) {
	leakFree(t)
	p, terminate := beginTerminable(t, &fake{}) // whose close would panic
	terminate()
	if err := p.ended(); err != nil {
		t.Errorf("the session ended with %v", err)
	}
}

func TestALibraryThatCannotCloseSaysSo(t *testing.T) {
	leakFree(t)
	sessions := make(chan *Session, 1)
	lib := readyWith(sessions, nil)
	stuck := errors.New("the channel is stuck")
	lib.close = func(context.Context, bool) error { return stuck }
	p, terminate := beginTerminable(t, lib)
	p.ready(sessions)
	terminate()
	if err := p.ended(); !errors.Is(err, stuck) || !strings.Contains(err.Error(), "asked to end") {
		t.Errorf("the session ended with %v", err)
	}
}

func TestMainEndsAtSIGTERM(t *testing.T) {
	for name, code := range map[string]int{"closes": 0, "hangs": -1} {
		t.Run(name, func(t *testing.T) {
			// Its stdin stays open and it reads from it: what ends it is the signal alone.
			cmd, in, out, stderr := adapter(t, envCloses+"="+name)
			defer func() { _ = in.Close() }()
			if _, err := io.WriteString(in, `{"id":1,"do":"init","protocol":1}`+"\n"); err != nil {
				t.Fatal(err)
			}
			if line, err := out.ReadString('\n'); err != nil || line != readyLine {
				t.Fatalf("got %q, %v", line, err)
			}
			ended := make(chan error, 1)
			if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
				t.Fatal(err)
			}
			go func() { ended <- cmd.Wait() }()
			var err error
			if code == 0 {
				err = <-ended
			} else {
				err = again(t, cmd, ended)
			}
			var exit *exec.ExitError
			switch {
			case code == 0 && err != nil:
				t.Errorf("the adapter ended with %v: %s", err, stderr)
			case code != 0 && (!errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGTERM):
				t.Errorf("the adapter ended with %v, not by the second signal: %s", err, stderr)
			}
		})
	}
}

// again sends SIGTERM until the process has ended: signals that come at once may be one.
func again(t *testing.T, cmd *exec.Cmd, ended <-chan error) error {
	t.Helper()
	pace := time.NewTicker(20 * time.Millisecond)
	defer pace.Stop()
	limit := time.After(patience)
	for {
		select {
		case err := <-ended:
			return err
		case <-pace.C:
			_ = cmd.Process.Signal(syscall.SIGTERM) // it may have ended meanwhile
		case <-limit:
			t.Fatal("the adapter did not end")
		}
	}
}
