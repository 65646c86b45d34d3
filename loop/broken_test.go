package loop

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"descartes/agent"
	"descartes/loop/journal"
)

// An error that ends the run in the middle of an attempt leaves the attempt open: the next run repairs what it did, whether
// its agent is known to have finished or not, and everything that the agents wrote is committed.
func TestErrorInMidAttempt(t *testing.T) {
	t.Parallel()
	for _, way := range []struct {
		name   string
		recall func() agent.Result
	}{
		{"agent finished", func() agent.Result { return agent.Result{End: agent.Finished, Complete: true} }},
		{"agent unknown", nil},
	} {
		t.Run(way.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, threeTasks)
			w.write(".gitattributes", "*.bin filter=x\n")
			w.git("add", "-A")
			w.git("commit", "-q", "-m", "attributes")
			for _, kv := range [][2]string{{"filter.x.required", "true"}, {"filter.x.clean", "false"}, {"filter.x.smudge", "cat"}} {
				w.git("config", kv[0], kv[1])
			}
			w.agent = func(_ agent.Request, env map[string]string) agent.Result {
				id := env["DESCARTES_TASK_ID"]
				if _, err := os.Stat(filepath.Join(w.dir, "task-"+id+".bin")); err != nil {
					w.write("task-"+id+".bin", id+"\n")
				}
				return agent.Result{End: agent.Finished, Complete: true}
			}
			for range 2 { // the second run fails in the same place, and must lose nothing either
				w.mustRun(StartOptions{Name: "night"}, journal.GitRefused)
				w.recall = way.recall
			}
			w.git("config", "filter.x.clean", "cat")
			w.mustRun(StartOptions{}, journal.AllDone)
			if got := w.git("ls-files", "*.bin"); got != "task-1.bin\ntask-2.bin\ntask-3.bin" {
				t.Errorf("committed %q", got)
			}
			if n := strings.Count(w.git("log", "--format=%s"), "complete wave"); n != 2 {
				t.Errorf("%d wave commits", n)
			}
			w.clean()
		})
	}
}

// The index is put back by the run that takes the attempt over, after one that an error ended in the middle of it.
func TestErrorInMidAttemptKeepsTheIndex(t *testing.T) {
	t.Parallel()
	w := newWorld(t, threeTasks)
	w.cfg.AllowDirty = true
	w.write("staged.txt", "staged\n")
	w.git("add", "staged.txt")
	w.write("base.txt", "not staged\n")
	w.write("mine.txt", "untracked\n")
	w.git("config", "filter.x.required", "true")
	w.git("config", "filter.x.clean", "cat")
	w.agent = func(_ agent.Request, env map[string]string) agent.Result {
		w.write("task-"+env["DESCARTES_TASK_ID"]+".txt", "done\n")
		if env["DESCARTES_TASK_ID"] == "2" {
			w.git("add", "-A")
			w.cut = os.ErrInvalid
		}
		return agent.Result{End: agent.Finished, Complete: true}
	}
	const before = " M base.txt\nA  staged.txt\n?? mine.txt"
	if out, err := w.run(StartOptions{Name: "night"}); err == nil || out.Ending != journal.OwnError {
		t.Fatalf("got %+v, %v, want an error", out, err)
	}
	w.cut = nil
	w.recall = func() agent.Result { return agent.Result{End: agent.Finished, Complete: true} }
	w.agent = func(_ agent.Request, env map[string]string) agent.Result {
		w.write("task-"+env["DESCARTES_TASK_ID"]+".txt", "done\n")
		return agent.Result{End: agent.Finished, Complete: true}
	}
	w.mustRun(StartOptions{}, journal.AllDone)
	if got := w.git("status", "--porcelain"); got != before {
		t.Errorf("git status afterwards:\n%s\nwant\n%s", got, before)
	}
	if _, err := os.Stat(filepath.Join(w.dir, ".git", "descartes-index")); err == nil {
		t.Error("the saved index is still there after the end")
	}
}
