//go:build crashpoints

package crash

import (
	"os"
	"path/filepath"
	"testing"
)

// TestMain is also the process that dies: with DESCARTES_CRASH_AT set it reaches three points and leaves.
func TestMain(m *testing.M) {
	if os.Getenv("DESCARTES_CRASH_AT") == "" {
		os.Exit(m.Run())
	}
	for _, name := range []string{"one", "two", "three"} {
		Point(name)
	}
	os.Exit(0)
}

func TestPointKillsAtK(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for at, want := range map[string]string{"1": "one\n", "2": "one\ntwo\n", "3": "one\ntwo\nthree\n",
		"4":    "one\ntwo\nthree\n",
		"1 t*": "one\ntwo\n", "2 t*": "one\ntwo\nthree\n"} {
		list := filepath.Join(t.TempDir(), "points")
		env := append(os.Environ(), "DESCARTES_CRASH_AT="+at, "DESCARTES_CRASH_COUNT_FILE="+list)
		process, err := os.StartProcess(self, []string{self}, &os.ProcAttr{Env: env})
		if err != nil {
			t.Fatal(err)
		}
		state, err := process.Wait()
		if err != nil {
			t.Fatal(err)
		}
		if survived := state.Success(); survived != (at == "4") {
			t.Errorf("at %s: survived = %v", at, survived)
		}
		got, err := os.ReadFile(list)
		if err != nil {
			t.Fatal(err)
		}
		if string(got) != want {
			t.Errorf("at %s: reached %q, want %q", at, got, want)
		}
	}
}
