package gitops

import (
	"os"
	"path/filepath"
	"testing"
)

// A filter that only the project has is found; one that the machine has too is the machine's.
func TestOutside(t *testing.T) {
	t.Parallel()
	top := t.TempDir()
	if err := os.MkdirAll(filepath.Join(top, ".git"), 0o755); err != nil {
		t.Fatal(err)
	}
	own := top + "/.venv/bin:/bin"
	if got, want := outside([]string{"PATH=" + own}, top), "PATH=/bin:"+own; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
