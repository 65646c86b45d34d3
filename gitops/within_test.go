package gitops

import (
	"os"
	"path/filepath"
	"testing"
)

func TestWithin(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), `a[b]*?\c`)
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	want := filepath.Join(dir, "index.lock")
	if err := os.WriteFile(want, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if got, err := within(dir, "*.lock"); err != nil || len(got) != 1 || got[0] != want {
		t.Errorf("within(%q, *.lock) = %q, %v; want %q", dir, got, err, want)
	}
}
