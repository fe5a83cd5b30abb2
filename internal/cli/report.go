package cli

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/parkproof/parkproof/reports"
)

// Files of a report.
const (
	runFile   = "run.json"
	junitFile = "junit.xml"
)

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
