//go:build unix

package broker

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"strings"
)

// tailFile reads the last n lines of a file; one that is not there has none.
func tailFile(path string, n int) ([]string, error) {
	file, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer file.Close()
	size, err := file.Seek(0, io.SeekEnd)
	if err != nil {
		return nil, err
	}
	// Lines of a RabbitMQ log are short; a longer one comes cut.
	const lineBytes = 512
	whole := true
	if most := int64(n) * lineBytes; size > most {
		size, whole = most, false
	}
	if _, err := file.Seek(-size, io.SeekEnd); err != nil {
		return nil, err
	}
	text, err := io.ReadAll(io.LimitReader(file, size))
	if err != nil {
		return nil, err
	}
	if !whole {
		if at := bytes.IndexByte(text, '\n'); at >= 0 {
			text = text[at+1:]
		}
	}
	return lastLines(string(text), n), nil
}

// lastLines are the last n lines that are not blank.
func lastLines(text string, n int) []string {
	var lines []string
	for line := range strings.Lines(text) {
		if line = strings.TrimRight(line, " \t\r\n"); line != "" {
			lines = append(lines, line)
		}
	}
	if len(lines) > n {
		lines = lines[len(lines)-n:]
	}
	return lines
}
