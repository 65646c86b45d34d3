package tagrun

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"descartes/agent"
	"descartes/loop"
	"descartes/loop/journal"
	"descartes/loop/store"
)

// The disk fills up in the middle of a run. It ends, uses up no attempt, and goes on when there is room.
func TestDiskFills(t *testing.T) {
	t.Parallel()
	w := newWorld(t, threeTasks)
	w.cfg.MinFreeDisk = 100 << 20
	free := int64(3 << 20)
	w.free = func(dir string) (int64, error) {
		if strings.HasSuffix(dir, ".descartes") {
			return 0, errors.New("a file system that does not tell")
		}
		if len(w.ran) > 0 {
			return free, nil
		}
		return 1 << 30, nil
	}
	out := w.ends(loop.StartOptions{}, journal.DiskFull)
	if !strings.HasPrefix(out.Message, "3 MiB free on the disk of "+w.dir+", and an attempt needs at least 100 MiB") {
		t.Fatalf("got %+v", out)
	}
	if want := []string{"1 1"}; !slices.Equal(w.ran, want) {
		t.Fatalf("ran %v, want %v", w.ran, want)
	}
	free = 1 << 30
	w.ends(loop.StartOptions{Resume: store.NewHome(w.dir).Default()}, journal.AllDone)
	if want := []string{"1 1", "2 1", "3 1"}; !slices.Equal(w.ran, want) {
		t.Errorf("ran %v, want %v", w.ran, want)
	}
}

// Agents fill the disk with the slots. The run ends with what fills it removed, so that resuming it goes on.
func TestPoolFills(t *testing.T) {
	t.Parallel()
	w := newWorld(t, threeTasks)
	w.cfg.MinFreeDisk = 100 << 20
	junk := filepath.Join(w.pool, "1", "tree", "junk.ign")
	w.write(".git/info/exclude", "*.ign\n")
	w.free = func(dir string) (int64, error) {
		if _, err := os.Stat(junk); err == nil && strings.HasPrefix(dir, w.pool) {
			return 3 << 20, nil
		}
		return 1 << 30, nil
	}
	w.agent = func(_ agent.Request, env map[string]string) agent.Result {
		if len(w.ran) == 1 {
			w.write("junk.ign", "junk\n")
		}
		return w.works(env)
	}
	out := w.ends(loop.StartOptions{}, journal.DiskFull)
	if !strings.HasPrefix(out.Message, "3 MiB free on the disk of "+w.pool+", and an attempt needs at least 100 MiB") {
		t.Fatalf("got %+v", out)
	}
	w.ends(loop.StartOptions{Resume: store.NewHome(w.dir).Default()}, journal.AllDone)
	if want := []string{"1 1", "2 1", "3 1"}; !slices.Equal(w.ran, want) {
		t.Errorf("ran %v, want %v", w.ran, want)
	}
}
