//go:build unix

package adapter

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestAdaptersThatDoNotConnect are told to speak on the socket, and do not: the line says so, and
// neither a process nor a folder is left.
func TestAdaptersThatDoNotConnect(t *testing.T) {
	for _, tt := range []struct {
		name    string
		command []string
		limit   time.Duration
		want    string
	}{
		{"ends at once", []string{"sh", "-c", "exit 3"}, time.Minute, "the adapter ended (exited with code 3) before it connected to the socket in PARKPROOF_CONTROL"},
		{"never connects", []string{"sleep", "600"}, 300 * time.Millisecond, "the adapter did not connect in time to the socket in PARKPROOF_CONTROL"},
		{"does not exist", []string{"no-such-program-anywhere"}, time.Minute, "the adapter could not be started"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			temporary := t.TempDir()
			t.Setenv("TMPDIR", temporary)
			ctx, cancel := context.WithTimeout(t.Context(), tt.limit)
			defer cancel()
			a, err := Start(ctx, Options{Command: tt.command, Control: true})
			if err == nil {
				_ = a.Kill(t.Context())
				t.Fatal("it was started")
			}
			var broken *BrokenError
			if !errors.As(err, &broken) || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("the error is %q, want %q", err, tt.want)
			}
			if left, _ := filepath.Glob(filepath.Join(temporary, "*")); len(left) > 0 {
				t.Errorf("left: %q", left)
			}
		})
	}
}

// TestTheSocketIsPrivate: whoever could connect to it could drive the case.
func TestTheSocketIsPrivate(t *testing.T) {
	c, err := openControl()
	if err != nil {
		t.Fatal(err)
	}
	defer c.close()
	info, err := os.Stat(c.folder)
	if err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the socket's folder is %v, %v", info.Mode(), err)
	}
}
