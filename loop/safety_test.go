package loop

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"descartes/loop/journal"
)

// TestDiskFills: the disk fills up in the middle of a run. It ends, uses up no attempt, and goes on when there is room.
func TestDiskFills(t *testing.T) {
	w := newWorld(t, threeTasks)
	w.cfg.MinFreeDisk = 100 << 20
	free := int64(1 << 30)
	w.free = func(dir string) (int64, error) {
		if strings.HasSuffix(dir, ".descartes") {
			return 0, errors.New("a file system that does not tell")
		}
		if len(w.runs) > 0 {
			return free, nil
		}
		return 1 << 30, nil
	}
	free = 3 << 20
	out := w.mustRun(StartOptions{}, journal.DiskFull)
	if !strings.HasPrefix(out.Message, "3 MiB free on the disk of "+w.dir+", and an attempt needs at least 100 MiB") {
		t.Fatalf("got %+v", out)
	}
	if want := []string{"1 1"}; !slices.Equal(w.runs, want) {
		t.Fatalf("ran %v, want %v", w.runs, want)
	}
	free = 1 << 30
	w.mustRun(StartOptions{Resume: NewHome(w.dir).Default()}, journal.AllDone)
	if want := []string{"1 1", "2 1", "3 1"}; !slices.Equal(w.runs, want) {
		t.Errorf("ran %v, want %v", w.runs, want)
	}
}
