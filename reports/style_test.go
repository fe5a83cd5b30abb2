package reports

import (
	"os"
	"path/filepath"
	"testing"
)

func TestStyleForWhatIsNoTerminal(t *testing.T) {
	f, err := os.Create(filepath.Join(t.TempDir(), "out"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	if got := StyleFor(f); got != (Style{}) {
		t.Errorf("got %+v", got)
	}
}
