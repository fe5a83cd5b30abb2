//go:build unix

package process

import (
	"fmt"
	"io"
	"os"
	"sync"
	"time"
)

// wiring is the child's stdin, stdout and stderr: the ends that it gets, the ends
// that stay here, and the copying between those and readers and writers.
type wiring struct {
	child []*os.File // stdin, stdout, stderr, extra
	owned []*os.File // those of child that were opened here
	here  [3]*os.File
	pipes [3]bool // here[i] is the caller's
	copy  []func()
	group sync.WaitGroup
	// copied is closed when all copying has ended.
	copied chan struct{}
}

func wire(command Command) (*wiring, error) {
	w := &wiring{copied: make(chan struct{})}
	err := w.input(command.Stdin, command.PipeStdin)
	if err == nil {
		err = w.output(1, command.Stdout, command.PipeStdout)
	}
	if err == nil {
		err = w.output(2, command.Stderr, command.PipeStderr)
	}
	if err != nil {
		w.closeChild()
		w.close()
		return nil, err
	}
	w.child = append(w.child, command.ExtraFiles...)
	return w, nil
}

func (w *wiring) give(file *os.File, ours bool) {
	w.child = append(w.child, file)
	if ours {
		w.owned = append(w.owned, file)
	}
}

func (w *wiring) input(from io.Reader, pipe bool) error {
	if file, isFile := from.(*os.File); isFile && !pipe {
		w.give(file, false)
		return nil
	}
	if from == nil && !pipe {
		null, err := os.Open(os.DevNull)
		if err == nil {
			w.give(null, true)
		}
		return err
	}
	read, write, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("make a pipe for stdin: %w", err)
	}
	w.give(read, true)
	w.here[0], w.pipes[0] = write, pipe
	if !pipe {
		w.copy = append(w.copy, func() {
			_, _ = io.Copy(write, from) // a child that reads no more ends it
			write.Close()
		})
	}
	return nil
}

func (w *wiring) output(index int, to io.Writer, pipe bool) error {
	if file, isFile := to.(*os.File); isFile && !pipe {
		w.give(file, false)
		return nil
	}
	if to == nil && !pipe {
		null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
		if err == nil {
			w.give(null, true)
		}
		return err
	}
	read, write, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("make a pipe for output: %w", err)
	}
	w.give(write, true)
	w.here[index], w.pipes[index] = read, pipe
	if !pipe {
		w.copy = append(w.copy, func() {
			_, _ = io.Copy(to, read)
			read.Close()
		})
	}
	return nil
}

// startCopies starts the goroutines that copy. The one that feeds stdin from a
// reader is not waited for: only its reader can end it.
func (w *wiring) startCopies() {
	for i, run := range w.copy {
		if i == 0 && w.here[0] != nil && !w.pipes[0] {
			go run()
			continue
		}
		w.group.Go(run)
	}
}

// finish is called at the end of the child: it closes stdin and lets the copying
// end.
func (w *wiring) finish() {
	if w.here[0] != nil {
		w.here[0].Close()
	}
	for i := 1; i < 3; i++ {
		if w.here[i] != nil && !w.pipes[i] {
			_ = w.here[i].SetReadDeadline(time.Now().Add(copyWait))
		}
	}
	go func() {
		w.group.Wait()
		close(w.copied)
	}()
}

func (w *wiring) closeChild() {
	for _, file := range w.owned {
		file.Close()
	}
}

func (w *wiring) close() {
	for _, file := range w.here {
		if file != nil {
			file.Close()
		}
	}
}

func (w *wiring) stdin() io.WriteCloser {
	if !w.pipes[0] {
		return nil
	}
	return w.here[0]
}

func (w *wiring) stdout() io.ReadCloser { return w.reader(1) }
func (w *wiring) stderr() io.ReadCloser { return w.reader(2) }

func (w *wiring) reader(index int) io.ReadCloser {
	if !w.pipes[index] {
		return nil
	}
	return w.here[index]
}
