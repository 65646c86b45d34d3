//go:build crashpoints

package atomicfile

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// TestMain is also the process that dies: with DESCARTES_CRASH_AT set it writes one file and leaves.
func TestMain(m *testing.M) {
	path := os.Getenv("ATOMICFILE_TEST_WRITE")
	if path == "" {
		os.Exit(m.Run())
	}
	if err := Write(OS(), path, []byte("new bytes"), 0o600); err != nil {
		os.Exit(1)
	}
	os.Exit(0)
}

func TestKilledAtEveryPoint(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for k := 1; ; k++ {
		path := filepath.Join(t.TempDir(), "f")
		if err := os.WriteFile(path, []byte("old"), 0o600); err != nil {
			t.Fatal(err)
		}
		env := append(os.Environ(), "ATOMICFILE_TEST_WRITE="+path, "DESCARTES_CRASH_AT="+strconv.Itoa(k))
		process, err := os.StartProcess(self, []string{self}, &os.ProcAttr{Env: env})
		if err != nil {
			t.Fatal(err)
		}
		state, err := process.Wait()
		if err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if state.Success() {
			if k != 4 || string(text) != "new bytes" {
				t.Errorf("%d points reached, want 3; the file holds %q", k-1, text)
			}
			return
		}
		if want := map[bool]string{true: "old", false: "new bytes"}[k < 3]; string(text) != want {
			t.Errorf("killed at point %d: the file holds %q, want %q", k, text, want)
		}
		if left := temporaries(t, path); len(left) > 1 || (len(left) == 1) != (k < 3) {
			t.Errorf("killed at point %d: the temporary files are %q", k, left)
		}
		if err := Clean(OS(), path); err != nil {
			t.Errorf("killed at point %d: %v", k, err)
		}
		if left := temporaries(t, path); len(left) > 0 {
			t.Errorf("killed at point %d: %q left after cleaning", k, left)
		}
	}
}

// temporaries names the files that an unfinished Write left beside path.
func temporaries(t *testing.T, path string) (left []string) {
	for _, name := range names(t, filepath.Dir(path)) {
		if strings.Contains(name, tempMark) {
			left = append(left, name)
		}
	}
	return left
}
