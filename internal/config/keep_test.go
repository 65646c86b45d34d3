package config

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"descartes/internal/atomicfile"
)

// TestAddKeep writes pool.keep into settings files as people write them, and leaves those alone that have it.
func TestAddKeep(t *testing.T) {
	t.Parallel()
	want := []string{".env*", "local.cfg", "a, b", "it's", "data/"}
	for _, before := range []string{"", "verify: make", "# x\nverify: make\n", "pool:\n    setup: make\nverify: make\n", "pool: # slots\n\n  # once\n  setup: make\n"} {
		file := filepath.Join(t.TempDir(), "descartes.yaml")
		if err := os.WriteFile(file, []byte(before), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := AddKeep(atomicfile.OS(), file, want); err != nil {
			t.Errorf("%q: %v", before, err)
			continue
		}
		if f, err := ReadFile(file, true); err != nil || !slices.Equal(f.Config.Pool.Keep, want) {
			t.Errorf("%q: got %v, %v, want %v", before, f, err, want)
		}
	}
	for _, before := range []string{"pool: {setup: make}\n", "pool:\n  keep: [a]\n"} {
		file := filepath.Join(t.TempDir(), "descartes.yaml")
		if err := os.WriteFile(file, []byte(before), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := AddKeep(atomicfile.OS(), file, want); err == nil {
			t.Errorf("%q was changed", before)
		}
		if now, _ := os.ReadFile(file); string(now) != before {
			t.Errorf("%q became %q", before, now)
		}
	}
}
