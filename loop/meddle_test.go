package loop

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"descartes/agent"
	"descartes/loop/journal"
	"descartes/loop/source"
	"descartes/loop/store"
	"descartes/loop/workspace"
	"descartes/verify"
)

func TestAgentClearsAwayOurFolder(t *testing.T) {
	t.Parallel()
	w := newWorld(t, threeTasks)
	w.agent = func(_ agent.Request, env map[string]string) agent.Result {
		if err := os.RemoveAll(filepath.Join(w.dir, ".descartes")); err != nil {
			t.Error(err)
		}
		if _, err := w.start(StartOptions{}); err == nil || !strings.Contains(err.Error(),
			"is running in this working tree") {
			t.Errorf("a second loop while the first runs: %v", err)
		}
		w.write("task-"+env["DESCARTES_TASK_ID"]+".txt", "done\n")
		return agent.Result{End: agent.Finished, Complete: true}
	}
	w.mustRun(StartOptions{Name: "night"}, journal.AllDone)
	events, err := journal.ReadEvents(store.NewHome(w.dir).Events("night"))
	if err != nil || len(events) == 0 || events[len(events)-1].Type != journal.LoopFinished {
		t.Errorf("journal: %d events, %v", len(events), err)
	}
	w.clean()
}

func TestAgentForgesTheJournal(t *testing.T) {
	t.Parallel()
	w := newWorld(t, threeTasks)
	path := store.NewHome(w.dir).Events("night")
	forge := map[string]func() error{
		"1": func() error {
			f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
			if err != nil {
				return err
			}
			_, err = f.WriteString(`{"seq":9}` + "\n")
			return errors.Join(err, f.Close())
		},
		"2": func() error { return os.Truncate(path, 10) },
		"3": func() error { return errors.Join(os.Remove(path), os.Mkdir(path, 0o755)) },
	}
	w.agent = func(_ agent.Request, env map[string]string) agent.Result {
		if err := forge[env["DESCARTES_TASK_ID"]](); err != nil {
			t.Error(err)
		}
		w.write("task-"+env["DESCARTES_TASK_ID"]+".txt", "done\n")
		return agent.Result{End: agent.Finished, Complete: true}
	}
	warnings := 0
	w.tell = func(e journal.Event) {
		if e.Type == journal.Warning && strings.Contains(e.Message, "changed") {
			warnings++
		}
	}
	w.mustRun(StartOptions{Name: "night"}, journal.AllDone)
	if _, err := journal.ReadEvents(path); err != nil || warnings != 3 {
		t.Errorf("%v, %d warnings", err, warnings)
	}
	w.clean()
}

func TestVerificationIsRepairedToo(t *testing.T) {
	t.Parallel()
	w := newWorld(t, threeTasks)
	w.check = func(env map[string]string) verify.Result {
		w.write(".scud/tasks/x.json", strings.ReplaceAll(w.read(".scud/tasks/x.json"), "pending", "done"))
		w.git("commit", "-q", "--allow-empty", "-m", "by the verification")
		w.git("checkout", "-q", "-B", "elsewhere")
		w.write("left-"+env["DESCARTES_TASK_ID"], "")
		return verify.Result{Passed: true}
	}
	var told strings.Builder
	w.tell = func(e journal.Event) {
		if e.Type == journal.Warning {
			told.WriteString(e.Message + "\n")
		}
	}
	w.mustRun(StartOptions{}, journal.AllDone)
	if !slices.Equal(w.runs, []string{"1 1", "2 1", "3 1"}) {
		t.Errorf("runs: %v", w.runs)
	}
	if got := w.git("log", "--format=%s", "main"); got != "feat(x): complete wave 2\nfeat(x): complete wave 1\nstart" {
		t.Errorf("main:\n%s", got)
	}
	for _, want := range []string{"the verification changed .scud/tasks/x.json, which was put back",
		workspace.MadeByVerify + "left-1"} {
		if !strings.Contains(told.String(), want) {
			t.Errorf("no warning %q in\n%s", want, told.String())
		}
	}
	if got := w.git("branch", "--format=%(refname:short)"); got != "main" {
		t.Errorf("branches:\n%s", got)
	}
	w.clean()
}

func TestSetAsideTasksAreNotAskedFor(t *testing.T) {
	t.Parallel()
	w := newWorld(t, strings.Replace(threeTasks, `"Three", "status": "pending"`, `"Three", "status": "cancelled"`, 1))
	w.mustRun(StartOptions{}, journal.AllDone)
	j, problems := source.Load(w.dir, w.cfg)
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	if done, err := j.NothingToDo(); err != nil || !done {
		t.Errorf("got %v, %v", done, err)
	}
}

func TestRetriedTaskIsToldWhatFailed(t *testing.T) {
	t.Parallel()
	w := newWorld(t, threeTasks)
	spec, pass := "", false
	w.agent = func(_ agent.Request, env map[string]string) agent.Result {
		if pass && spec == "" {
			spec = env["prompt"]
		}
		w.write("task-"+env["DESCARTES_TASK_ID"]+".txt", env["DESCARTES_ATTEMPT"])
		return agent.Result{End: agent.Finished, Complete: true}
	}
	w.check = func(map[string]string) verify.Result {
		return verify.Result{Passed: pass, Code: 1, Tail: "expected 7 sprockets"}
	}
	w.mustRun(StartOptions{Name: "night"}, journal.TasksBlocked)
	pass, w.cfg.Scud.RetryBlocked = true, true
	w.mustRun(StartOptions{Resume: store.NewHome(w.dir).Named("night")}, journal.AllDone)
	if !strings.Contains(spec, "expected 7 sprockets") {
		t.Errorf("the spec of the retry:\n%s", spec)
	}
}

func TestLinkedTaskFileStaysALink(t *testing.T) {
	t.Parallel()
	w := newWorld(t, threeTasks)
	w.write("real/x.json", threeTasks)
	if err := errors.Join(os.Remove(filepath.Join(w.dir, ".scud/tasks/x.json")),
		os.Symlink("../../real/x.json", filepath.Join(w.dir, ".scud/tasks/x.json"))); err != nil {
		t.Fatal(err)
	}
	w.git("add", "-A")
	w.git("commit", "-q", "-m", "link")
	w.protect = append(w.protect, "real/x.json")
	w.mustRun(StartOptions{}, journal.AllDone)
	if got := w.git("show", "--format=", "--name-only", "HEAD"); got != "real/x.json\ntask-2.txt\ntask-3.txt" {
		t.Errorf("wave 2 holds:\n%s", got)
	}
	w.clean()
}
