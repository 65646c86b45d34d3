package tagrun

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"descartes/loop"
	"descartes/loop/journal"
)

// TestStoppedAtEachLine has SIGTERM, or Ctrl-C, come with a line of the journal, with every seventeenth, see every. That is no
// error of ours, whatever it keeps from its end, and no agent starts after it. The next run ends as it would have, and no
// verified attempt is made again.
func TestStoppedAtEachLine(t *testing.T) {
	t.Parallel()
	step := every(17)
	for name, c := range map[string]struct {
		first int
		stop  func(*world)
		end   journal.Ending
	}{
		"SIGTERM": {step / 2, func(w *world) { w.interrupt(loop.ErrTerminated) }, journal.Interrupted},
		"Ctrl-C":  {step, func(w *world) { close(w.stop) }, journal.UserCancelled},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for k := max(1, c.first); stoppedAt(t, k, c.end, c.stop); k += step {
			}
		})
	}
}

// stoppedAt reports whether a run has that many lines.
func stoppedAt(t *testing.T, k int, end journal.Ending, stop func(*world)) bool {
	t.Helper()
	w := newWorld(t, threeTasks)
	w.shim = true
	w.cfg.Scud.MaxIterationsPerTask = 2
	w.check = oneLateThreeNever
	verified, lines, at, begins := map[string]bool{}, 0, "", 0
	w.tell = func(e journal.Event) {
		if lines++; lines == k {
			at = fmt.Sprintf("with line %d (%s %s)", k, e.Type, e.Task)
			if stop(w); e.Type == journal.WaveStarted || e.Type == journal.TaskStarted { // its agent's start is written with it
				begins--
			}
		}
		if lines > k && e.Type == journal.AttemptStarted {
			begins++
		}
		if e.Type == journal.AttemptFinished && e.Verdict == journal.Verified {
			verified[e.Task] = true
		}
	}
	out, err := w.run(loop.StartOptions{})
	if err != nil || out.Ending != end && out.Ending != journal.TasksBlocked || begins > 0 {
		t.Fatalf("%s: %+v, %v, %d agents started after it", at, out, err, begins)
	}
	if lines < k {
		return false
	}
	w.tell, w.ran = nil, nil
	if out.Ending == end {
		w.ends(loop.StartOptions{}, journal.TasksBlocked)
	}
	for _, ran := range w.ran {
		if id, _, _ := strings.Cut(ran, " "); verified[id] {
			t.Errorf("%s: task %s was verified, and then ran %v", at, id, w.ran)
		}
	}
	want := strings.NewReplacer(`"One", "status": "pending"`, `"One", "status": "done"`, `"Two", "status": "pending"`,
		`"Two", "status": "done"`, `"Three", "status": "pending"`, `"Three", "status": "blocked"`).Replace(threeTasks)
	if got := w.read(".scud/tasks/x.json"); got != want {
		t.Errorf("%s: the list is\n%s", at, got)
	}
	trailers := strings.Fields(w.git("log", "--reverse", "--format=%(trailers:key=Descartes-Task,valueonly)"))
	if !slices.Equal(trailers, []string{"x/1", "x/2"}) {
		t.Errorf("%s: commits of %v", at, trailers)
	}
	w.clean()
	return true
}
