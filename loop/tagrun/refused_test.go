package tagrun

import (
	"os"
	"testing"

	"descartes/loop"
	"descartes/loop/journal"
	"descartes/loop/store"
)

// TestNeverBegun: a start that is refused before its run says anything, by a fleet or a command that cannot be started,
// leaves its name to the next one.
func TestNeverBegun(t *testing.T) {
	w := newWorld(t, twoTasks)
	for range 2 {
		r, err := w.start(loop.StartOptions{Name: "nightly"})
		if err != nil {
			t.Fatal(err)
		}
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Lstat(store.NewHome(w.dir).Run("nightly")); !os.IsNotExist(err) {
			t.Fatalf("the run's folder: %v", err)
		}
	}
	if out, err := w.run(loop.StartOptions{Name: "nightly"}); err != nil || out.Ending != journal.AllDone {
		t.Fatalf("%+v, %v", out, err)
	}
}
