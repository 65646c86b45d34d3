package loop

import (
	"strings"
	"testing"

	"descartes/agent"
	"descartes/loop/journal"
	"descartes/loop/source"
	"descartes/verify"
)

// What another program writes into the task file between two attempts stays, and is not the doing of the next one.
func TestForeignChangeBetweenAttempts(t *testing.T) {
	t.Parallel()
	w := newWorld(t, threeTasks)
	var warned []string
	w.tell = func(e journal.Event) {
		switch {
		case e.Type == journal.Warning:
			warned = append(warned, e.Message)
		case e.Type == journal.TaskDone && e.Task == "1":
			w.write(".scud/tasks/x.json", strings.Replace(w.read(".scud/tasks/x.json"), `"Three"`, `"Three, sharper"`,
				1))
		case e.Type == journal.TaskDone && e.Task == "2":
			w.write(".scud/tasks/x.json", strings.Replace(w.read(".scud/tasks/x.json"), `"title": "Two"`,
				`"title": "Two", "note": "mine"`, 1))
		}
	}
	w.mustRun(StartOptions{}, journal.AllDone)
	want := strings.NewReplacer(`"pending"`, `"done"`, `"Three"`, `"Three, sharper"`, `"title": "Two"`,
		`"title": "Two", "note": "mine"`).Replace(threeTasks)
	if got := w.read(".scud/tasks/x.json"); got != want {
		t.Errorf("task file:\n%s\nwant\n%s", got, want)
	}
	if len(warned) > 0 {
		t.Errorf("warnings: %q", warned)
	}
	w.clean()
}

// A task file that another program has broken stays as it is: the run goes on without it, and waits for a person to
// have it written.
func TestForeignDamage(t *testing.T) {
	t.Parallel()
	w := newWorld(t, threeTasks)
	const half = `{"tag": "x", "tasks": [`
	w.tell = func(e journal.Event) {
		if e.Type == journal.TaskDone {
			w.write(".scud/tasks/x.json", half)
		}
	}
	w.mustRun(StartOptions{}, journal.Paused)
	if got := w.read(".scud/tasks/x.json"); got != half {
		t.Errorf("task file: %q", got)
	}
	if len(w.runs) != 3 {
		t.Errorf("attempts: %q", w.runs)
	}
}

// The plan's own dependencies count, and an import makes the task file before the first attempt.
func TestPlanAsSource(t *testing.T) {
	t.Parallel()
	w := newWorld(t, threeTasks)
	w.write("plan.md", "# Plan\n\n## Task 1: One\n\n## Task 2: Two\n\n## Task 3: Three\n\nDepends on: 2\n")
	w.cfg.Scud.PlanPath = "plan.md"
	j, problems := source.Load(w.dir, w.cfg)
	if len(problems) > 0 || len(j.Graph.Added()) != 1 || j.Graph.Wave("3") != 3 {
		t.Fatalf("got %v, added %v", problems, j.Graph.Added())
	}
	w.cfg.Scud.Tag = "new"
	if j, problems = source.Load(w.dir, w.cfg); j != nil || len(problems) != 1 {
		t.Errorf("without import: got %v", problems)
	}
	j, problems = source.LoadOrImport(w.dir, w.cfg)
	if len(problems) > 0 || j.Import == nil || len(j.File.Tasks()) != 3 {
		t.Fatalf("got %v", problems)
	}
	l, err := Start(t.Context(), w.dir, Tag{j}, w.tools(w.repo()), StartOptions{Command: "loop"})
	if err != nil {
		t.Fatal(err)
	}
	out, err := l.Run(t.Context(), nil)
	if cerr := l.Close(); err != nil || cerr != nil || out.Ending != journal.AllDone {
		t.Fatalf("got %v, %v, %v", out, err, cerr)
	}
	if got := strings.Count(w.read(".scud/tasks/new.json"), `"done"`); got != 3 {
		t.Errorf("%d tasks are done in the new file", got)
	}
}

// A list that knows only done and not done: what is blocked is known from the loop, and is tried again on request
// only.
func TestBlockedWithoutAWord(t *testing.T) {
	t.Parallel()
	w := newWorld(t, threeTasks)
	w.write("specs/y/tasks.md", "# Tasks\n\n- [ ] T001 One\n- [ ] T002 [P] Two\n- [ ] T003 [P] Three\n")
	w.git("add", "-A")
	w.git("commit", "-q", "-m", "list")
	w.cfg.Scud.Tag, w.cfg.Scud.MaxIterationsPerTask = "y", 1
	bad := true
	w.check = func(env map[string]string) verify.Result {
		return verify.Result{Passed: env["DESCARTES_TASK_ID"] != "T002" || !bad, Code: 1}
	}
	w.mustRun(StartOptions{}, journal.TasksBlocked)
	if got, want := w.read("specs/y/tasks.md"),
		"# Tasks\n\n- [x] T001 One\n- [ ] T002 [P] Two\n- [x] T003 [P] Three\n"; got != want {
		t.Errorf("got\n%s", got)
	}
	j, _ := source.Load(w.dir, w.cfg)
	if len(j.Runnable()) != 0 || j.Graph.Status("T002") != "blocked" {
		t.Errorf("runnable: %v", j.Runnable())
	}
	bad, w.cfg.Scud.RetryBlocked = false, true
	w.mustRun(StartOptions{}, journal.AllDone)
	if got := w.read("specs/y/tasks.md"); strings.Contains(got, "[ ]") {
		t.Errorf("got\n%s", got)
	}
	w.clean()
}

// An attempt may not change the file that follows tasks.scg either.
func TestMirrorIsPutBack(t *testing.T) {
	t.Parallel()
	w := newWorld(t, threeTasks)
	w.write(".scud/tasks/tasks.scg",
		"# SCUD Graph v1\n# Phase: z\n\n@nodes\n1 | One | P | 1 | M\n2 | Two | P | 1 | M\n")
	w.write(".scud/tasks/tasks.json",
		`{"z": {"name": "z", "tasks": [{"id": "1", "title": "One", "status": "pending"}, {"id": "2", "title": "Two", "status": "pending"}]}}`)
	w.git("add", "-A")
	w.git("commit", "-q", "-m", "list")
	w.cfg.Scud.Tag = "z"
	w.agent = func(_ agent.Request, env map[string]string) agent.Result {
		w.write("task-"+env["DESCARTES_TASK_ID"]+".txt", "done\n")
		w.write(".scud/tasks/tasks.json", "{}")
		return agent.Result{End: agent.Finished, Complete: true}
	}
	w.mustRun(StartOptions{}, journal.AllDone)
	if got := strings.Count(w.read(".scud/tasks/tasks.json"), `"done"`); got != 2 {
		t.Errorf("mirror:\n%s", w.read(".scud/tasks/tasks.json"))
	}
	w.clean()
}
