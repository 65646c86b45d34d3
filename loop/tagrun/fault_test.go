package tagrun

import (
	"errors"
	"io"
	"os"
	"strings"
	"syscall"
	"testing"

	"descartes/internal/atomicfile"
	"descartes/internal/atomicfile/disktest"
	"descartes/loop"
	"descartes/loop/journal"
	"descartes/loop/trunk"
	"descartes/tasks"
)

// every is n, a tenth of it where crashes are tried, or 1 where all is to be tried, however long that takes.
func every(n int) int {
	switch {
	case os.Getenv("DESCARTES_CRASH_EVERY") == "1":
		return 1
	case crashes:
		return max(1, n/10)
	}
	return n
}

// TestEveryWriteFails lets each operation of a run fail in turn, in three ways, and once and for good. The run must say
// so or succeed; what is on the disk must be readable; and the next run, on a disk that works, must finish without doing
// anything verified twice. In each way every thirtieth operation fails, see every.
func TestEveryWriteFails(t *testing.T) {
	t.Parallel()
	count := &disktest.Faulty{FS: atomicfile.OS()}
	w := newWorld(t, twoTasks)
	w.fs = count
	w.ends(loop.StartOptions{}, journal.AllDone)
	var all []int
	for k := range count.Asked() {
		all = append(all, k+1)
	}
	if len(all) < 15 {
		t.Fatalf("a run asks %d things of the disk", len(all))
	}
	step := every(30)
	for n, fault := range []struct {
		name   string
		err    error
		sticky bool
		at     []int
	}{{"disk full", syscall.ENOSPC, true, all}, {"one error", syscall.EIO, false, all},
		{"short write", io.ErrShortWrite, false, count.Writes()}} {
		t.Run(strings.ReplaceAll(fault.name, " ", "-"), func(t *testing.T) {
			t.Parallel()
			for i := n * step / 3; i < len(fault.at); i += step {
				failAt(t, &disktest.Faulty{FS: atomicfile.OS(), K: fault.at[i], Err: fault.err, Sticky: fault.sticky})
			}
		})
	}
}

func failAt(t *testing.T, f *disktest.Faulty) {
	t.Helper()
	w := newWorld(t, twoTasks)
	w.fs = f
	done := map[string]bool{}
	w.tell = func(e journal.Event) {
		if e.Type == journal.TaskDone {
			done[e.Task] = true
		}
	}
	out, err := w.run(loop.StartOptions{})
	if full := errors.Is(f.Err, syscall.ENOSPC); err == nil && out.Ending != journal.AllDone &&
		(!full || out.Ending != journal.DiskFull || !strings.HasPrefix(out.Message, "the disk is full: ")) {
		t.Errorf("operation %d: ended %+v without an error", f.K, out)
	}
	if !strings.HasSuffix(w.read(".scud/tasks/x.json"), "]}\n") {
		t.Errorf("operation %d: task file %q", f.K, w.read(".scud/tasks/x.json"))
	}
	ran := w.ran
	w.fs, w.ran, w.tell = atomicfile.OS(), nil, nil
	if err == nil && out.Ending == journal.AllDone {
		return
	}
	if out, err := w.run(loop.StartOptions{}); err != nil && !(len(done) == 2 && errors.Is(err, errNothingRuns)) ||
		err == nil && out.Ending != journal.AllDone {
		t.Errorf("operation %d: the next run: %+v, %v (first: %v; ran %v)", f.K, out, err, done, ran)
	}
	for _, r := range w.ran {
		if id, _, _ := strings.Cut(r, " "); done[id] {
			t.Errorf("operation %d: task %s was done and ran again", f.K, id)
		}
	}
	if n := strings.Count(w.git("log", "--format=%s"), "complete wave"); n != 2 {
		t.Errorf("operation %d: %d wave commits", f.K, n)
	}
	w.clean()
}

// TestRewindIsCutShort lets the k-th operation of a rewind fail, for each k. The same call is to finish it: it never
// says that there is nothing to take back while the list has tasks that no commit has.
func TestRewindIsCutShort(t *testing.T) {
	t.Parallel()
	w := newWorld(t, twoTasks)
	w.ends(loop.StartOptions{}, journal.AllDone)
	for k := 1; ; k++ {
		repo := w.repo()
		r, err := trunk.PlanRewind(t.Context(), w.load(), repo, 0)
		if _, none := errors.AsType[*trunk.NoWaveError](err); none { // the last call had all but the state file
			break
		} else if err != nil {
			t.Fatalf("cut short at operation %d: %v", k-1, err)
		}
		_, err = r.Do(t.Context(), &disktest.Faulty{FS: atomicfile.OS(), K: k, Err: syscall.EIO, Sticky: true}, repo, w.now)
		if err == nil {
			t.Fatalf("operation %d did not fail", k)
		}
	}
	for _, task := range w.load().File.Tasks() {
		if task.Status != tasks.Pending {
			t.Errorf("task %s is %s", task.ID, task.Status)
		}
	}
}
