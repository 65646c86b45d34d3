package loop

import (
	"slices"
	"strings"
	"testing"

	"descartes/agent"
	"descartes/gitops"
	"descartes/internal/atomicfile"
	"descartes/loop/journal"
	"descartes/loop/store"
)

const chainOfThree = `{"tag":"x","tasks":[{"id":1,"title":"One","status":"pending"},
  {"id":2,"title":"Two","status":"pending","depends_on":[1]},{"id":3,"title":"Three","status":"pending","depends_on":[2]}]}`

// uncommittedStep has a world make the first task of its tag, which no commit has then.
func uncommittedStep(w *world) {
	w.t.Helper()
	w.cfg.Scud.AutoCommitWaves = false
	w.mustRun(StartOptions{Scope: store.Scope{Step: true}}, journal.StepDone)
	w.cfg.Scud.AutoCommitWaves = true
	if w.git("for-each-ref", store.TagTrunkRef("x", "refs/heads/main")) == "" {
		w.t.Fatal("nothing keeps the step's work")
	}
}

// works fails the test unless HEAD has the work of three tasks, each made once.
func (w *world) works() {
	w.t.Helper()
	for _, id := range []string{"1", "2", "3"} {
		w.git("cat-file", "-e", "HEAD:task-"+id+".txt")
	}
	slices.Sort(w.runs)
	if got := slices.Compact(slices.Clone(w.runs)); !slices.Equal(got, w.runs) {
		w.t.Errorf("work was made twice: %v", w.runs)
	}
}

// What no commit has of a tag is brought by its next run, whatever others committed of the same numbers since: a task
// of another tag, one whose number begins with it, or words of a person that look like a trailer.
func TestTasksOfOtherTags(t *testing.T) {
	t.Parallel()
	for name, meanwhile := range map[string]func(w *world){
		"the same number": func(w *world) { w.other("1") },
		"a longer one":    func(w *world) { w.other("12") },
		"a person's words": func(w *world) {
			w.git("commit", "-q", "--allow-empty", "-m", "as in\n\n  Descartes-Task: x/1\n\nthat is to come\n\nDescartes-Task: y/x/1\nDescartes-Task: x/12")
		},
		"an earlier version's": func(w *world) {
			w.git("commit", "-q", "--allow-empty", "-m", "feat(y)\n\nDescartes-Loop: loop-0000\nDescartes-Wave: 1\nDescartes-Task: 1")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, chainOfThree)
			uncommittedStep(w)
			meanwhile(w)
			w.mustRun(StartOptions{}, journal.AllDone)
			w.works()
			if got := w.git("log", "--format=%(trailers:key=Descartes-Task,valueonly,separator=%x20)", "-2"); got != "x/2\nx/1" &&
				got != "x/3\nx/1 x/2" && got != "x/3\nx/2" {
				t.Errorf("trailers: %s", got)
			}
		})
	}
}

// other has a run over the tag y make its only task.
func (w *world) other(id string) {
	w.t.Helper()
	w.write(".scud/tasks/y.json", `{"tag":"y","tasks":[{"id":`+id+`,"title":"Other","status":"pending"}]}`)
	w.git("add", ".scud/tasks/y.json")
	w.git("commit", "-q", "-m", "another list")
	agents, runs := w.agent, w.runs
	w.agent = func(agent.Request, map[string]string) agent.Result {
		w.write("other.txt", "done\n")
		return agent.Result{End: agent.Finished, Complete: true}
	}
	w.cfg.Scud.Tag = "y"
	w.mustRun(StartOptions{}, journal.AllDone)
	if w.cfg.Scud.Tag, w.agent, w.runs = "x", agents, runs; !strings.Contains(w.git("log", "-1", "--format=%B"),
		"\nDescartes-Task: y/"+id) {
		w.t.Errorf("the commit is %s", w.git("log", "-1", "--format=%B"))
	}
}

// A trunk that no commit has is removed only by a run of the working tree that made it.
func TestTrunkOfAnotherTree(t *testing.T) {
	t.Parallel()
	w := newWorld(t, chainOfThree)
	dir := t.TempDir() + "/other"
	w.git("worktree", "add", "-q", "-b", "other", dir)
	uncommittedStep(w)
	other := &world{t: t, dir: dir, pool: t.TempDir(), fs: atomicfile.OS(), now: gitops.Now, protect: w.protect, cfg: w.cfg,
		check: w.check}
	other.agent = func(_ agent.Request, env map[string]string) agent.Result {
		other.write("task-"+env["DESCARTES_TASK_ID"]+".txt", "done there\n")
		return agent.Result{End: agent.Finished, Complete: true}
	}
	other.mustRun(StartOptions{}, journal.AllDone)
	other.works()
	if w.git("for-each-ref", store.TagTrunkRef("x", "refs/heads/main")) == "" {
		t.Error("the first tree's work is gone")
	}
	w.mustRun(StartOptions{}, journal.AllDone)
	w.works()
}

// beside returns a world in another folder of the same repository, whose agents write who made a file.
func (w *world) beside(dir, who string) *world {
	other := &world{t: w.t, dir: dir, pool: w.t.TempDir(), fs: atomicfile.OS(), now: gitops.Now, protect: w.protect,
		cfg: w.cfg, check: w.check}
	other.agent = func(_ agent.Request, env map[string]string) agent.Result {
		other.write(who+"-"+env["DESCARTES_TASK_ID"]+".txt", "done\n")
		return agent.Result{End: agent.Finished, Complete: true}
	}
	return other
}

// Runs over two lists, or to two branches, go on from their own work alone, whatever their tags are called.
func TestTrunksApart(t *testing.T) {
	t.Parallel()
	tests := map[string]func(w *world) (one, two *world){
		"working trees": func(w *world) (one, two *world) {
			dir := t.TempDir() + "/other"
			w.git("worktree", "add", "-q", "-b", "said", dir) // a name that a ref of ours has too
			return w.beside(w.dir, "one"), w.beside(dir, "two")
		},
		"lists of a project": func(w *world) (one, two *world) {
			w.write("more/list.json", chainOfThree)
			w.git("add", "-A")
			w.git("commit", "-q", "-m", "another list")
			one, two = w.beside(w.dir, "one"), w.beside(w.dir, "two")
			two.cfg.Scud.TasksFile = "more/list.json"
			return one, two
		},
	}
	for name, lists := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, chainOfThree)
			one, two := lists(w)
			list := two.cfg.Scud.TasksFile
			for _, each := range []*world{one, two} {
				each.cfg.Scud.AutoCommitWaves = false
				each.mustRun(StartOptions{Scope: store.Scope{Step: true}}, journal.StepDone)
				each.cfg.Scud.AutoCommitWaves = true
			}
			for _, each := range []*world{one, two} {
				each.mustRun(StartOptions{}, journal.AllDone)
			}
			for who, each := range map[string]*world{"one": one, "two": two} {
				for _, id := range []string{"1", "2", "3"} {
					each.git("cat-file", "-e", "HEAD:"+who+"-"+id+".txt")
				}
				if got := len(strings.Fields(each.git("log", "--format=%(trailers:key=Descartes-List,valueonly)"))); got > 0 != (list != "") {
					t.Errorf("%s: %d commits name their list", who, got)
				}
			}
			if list == "" {
				if files := one.git("ls-tree", "--name-only", "HEAD"); strings.Contains(files, "two-") {
					t.Errorf("one has the other's work: %s", files)
				}
			}
			if left := w.git("for-each-ref", store.TagRefs); left != "" {
				t.Errorf("trunks are left that no run goes on from: %s", left)
			}
		})
	}
}

// Commits that went aside are taken up by the next run over the same list and branch, and by no other.
func TestAsideOfAnotherBranch(t *testing.T) {
	t.Parallel()
	w := newWorld(t, chainOfThree)
	dir := t.TempDir() + "/other"
	w.git("worktree", "add", "-q", "-b", "other", dir)
	one, two := w.beside(w.dir, "one"), w.beside(dir, "two")
	two.write("two-1.txt", "the user's\n")
	two.mustRun(StartOptions{}, journal.AllDone)
	one.write("one-1.txt", "the user's\n")
	one.mustRun(StartOptions{}, journal.AllDone)
	for branch, has := range map[string]string{"descartes/x": "two", "descartes/x-main": "one"} {
		w.git("cat-file", "-e", branch+":"+has+"-3.txt")
		if files := w.git("ls-tree", "--name-only", branch); strings.Contains(files, map[string]string{"one": "two-", "two": "one-"}[has]) {
			t.Errorf("%s has both: %s", branch, files)
		}
	}
}
