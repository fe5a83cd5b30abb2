package cli

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"

	"github.com/parkproof/parkproof/reports"
)

// Files of a report.
const (
	runFile   = "run.json"
	junitFile = "junit.xml"
)

// prepare makes the report's folder and finds out, before anything is run, whether files can be
// written there.
func prepare(folder string) error {
	if info, err := os.Stat(folder); err == nil && !info.IsDir() {
		return usage("--out %s is a file: give a folder", folder)
	}
	err := os.MkdirAll(folder, 0o755)
	if err == nil {
		probe := filepath.Join(folder, ".parkproof-probe")
		err = replace(probe, []byte("can this be written?\n"))
		_ = os.Remove(probe)
	}
	if err != nil {
		return &codeError{reports.ExitBroken, fmt.Errorf("no report can be written to %s: %w", folder, err)}
	}
	return nil
}

// identified puts into a run's record which parkproof ran, and which consumer.
func identified(run *reports.Run, adapter []string) *reports.Run {
	run.Tool = reports.Tool{Version: version(), Go: runtime.Version(), System: runtime.GOOS + "/" + runtime.GOARCH}
	run.Consumer.Command = shownCommand(adapter)
	return run
}

// conclude writes the report and returns how a run ended: outcome says in one line why it did not pass.
func conclude(stdout io.Writer, folder string, run *reports.Run, outcome func(*reports.Run) error) error {
	if err := write(folder, run); err != nil {
		code := run.ExitCode
		if code != reports.ExitFailed {
			code = reports.ExitBroken
		}
		return &codeError{code, err}
	}
	fmt.Fprintf(stdout, "Report: %s, %s\n", filepath.Join(folder, runFile), filepath.Join(folder, junitFile))
	if run.ExitCode != reports.ExitPassed {
		return &codeError{run.ExitCode, outcome(run)}
	}
	return nil
}

// write writes the report's files, each whole or not at all.
func write(folder string, run *reports.Run) error {
	for _, file := range []struct {
		name  string
		write func(io.Writer) error
	}{{runFile, run.WriteJSON}, {junitFile, run.WriteJUnit}} {
		var content bytes.Buffer
		if err := file.write(&content); err != nil {
			return err
		}
		if err := replace(filepath.Join(folder, file.name), content.Bytes()); err != nil {
			return fmt.Errorf("the report could not be written: %w", err)
		}
	}
	return nil
}

// replace puts the content in the place of the file, and leaves nothing where it cannot.
func replace(path string, content []byte) error {
	temporary, err := os.CreateTemp(filepath.Dir(path), ".parkproof-*")
	if err != nil {
		return err
	}
	_, err = temporary.Write(content)
	if closed := temporary.Close(); err == nil {
		err = closed
	}
	if err == nil {
		err = os.Chmod(temporary.Name(), 0o644)
	}
	if err == nil {
		err = os.Rename(temporary.Name(), path)
	}
	if err != nil {
		_ = os.Remove(temporary.Name())
	}
	return err
}
