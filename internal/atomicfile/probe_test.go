package atomicfile

import (
	"os"
	"path/filepath"
	"testing"
)

func TestProbe(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "f")
	if err := os.WriteFile(path, []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := Probe(OS(), path); err != nil {
		t.Error(err)
	}
	if got := names(t, dir); len(got) != 1 {
		t.Errorf("left behind: %v", got)
	}
	if err := Probe(OS(), filepath.Join(dir, "none", "f")); err == nil {
		t.Error("of a missing folder: no error")
	}
	if err := Probe(OS(), dir); err == nil {
		t.Error("of a folder: no error")
	}
}
