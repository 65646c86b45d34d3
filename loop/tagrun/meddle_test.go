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
	"descartes/verify"
)

// An agent that is not kept from it clears away what is ours: the run keeps its lock and its journal.
func TestAgentClearsAwayOurFolder(t *testing.T) {
	t.Parallel()
	w := newWorld(t, threeTasks)
	w.agent = func(_ agent.Request, env map[string]string) agent.Result {
		if err := os.RemoveAll(filepath.Join(w.dir, ".descartes")); err != nil {
			t.Error(err)
		}
		if _, err := w.start(loop.StartOptions{}); err == nil || !strings.Contains(err.Error(),
			"is running in this working tree") {
			t.Errorf("a second run while the first works: %v", err)
		}
		return w.works(env)
	}
	w.ends(loop.StartOptions{Name: "night"}, journal.AllDone)
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
		return w.works(env)
	}
	warnings := 0
	w.tell = func(e journal.Event) {
		if e.Type == journal.Warning && strings.Contains(e.Message, "changed") {
			warnings++
		}
	}
	w.ends(loop.StartOptions{Name: "night"}, journal.AllDone)
	if _, err := journal.ReadEvents(path); err != nil || warnings != 3 {
		t.Errorf("%v, %d warnings", err, warnings)
	}
	w.clean()
}

// What a check does to the list, to branches and to files in its tree goes with it.
func TestCheckChangesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, threeTasks)
	w.check = func(env map[string]string) verify.Result {
		w.write(".scud/tasks/x.json", strings.ReplaceAll(w.read(".scud/tasks/x.json"), "pending", "done"))
		w.git("commit", "-q", "--allow-empty", "-m", "by the check")
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
	w.ends(loop.StartOptions{}, journal.AllDone)
	if !slices.Equal(w.ran, []string{"1 1", "2 1", "3 1"}) {
		t.Errorf("ran %v", w.ran)
	}
	if got := w.git("log", "--format=%s", "main"); got != "feat(x): complete wave 2\nfeat(x): complete wave 1\nstart" {
		t.Errorf("main:\n%s", got)
	}
	for _, want := range []string{"the verification changed .scud/tasks/x.json, which was put back", "left-1"} {
		if !strings.Contains(told.String(), want) {
			t.Errorf("no warning %q in\n%s", want, told.String())
		}
	}
	if got := w.git("branch", "--format=%(refname:short)"); got != "main" {
		t.Errorf("branches:\n%s", got)
	}
	if files := w.git("ls-tree", "-r", "--name-only", "main"); strings.Contains(files, "left-") {
		t.Errorf("main has\n%s", files)
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
		w.write(".scud/tasks/tasks.json", "{}")
		return w.works(env)
	}
	w.ends(loop.StartOptions{}, journal.AllDone)
	if got := strings.Count(w.read(".scud/tasks/tasks.json"), `"done"`); got != 2 {
		t.Errorf("mirror:\n%s", w.read(".scud/tasks/tasks.json"))
	}
	w.clean()
}

// What another program writes into the task file between two attempts stays, and is not the doing of the next one.
func TestForeignChangeBetweenAttempts(t *testing.T) {
	t.Parallel()
	w := newWorld(t, threeTasks)
	var warned []string
	edit := func(old, now string) {
		w.write(".scud/tasks/x.json", strings.Replace(w.read(".scud/tasks/x.json"), old, now, 1))
	}
	w.tell = func(e journal.Event) {
		switch {
		case e.Type == journal.Warning:
			warned = append(warned, e.Message)
		case e.Type == journal.TaskDone && e.Task == "1":
			edit(`"Three"`, `"Three, sharper"`)
		case e.Type == journal.Integrated && e.Task == "2":
			edit(`"title": "Two"`, `"title": "Two", "note": "mine"`)
		}
	}
	w.ends(loop.StartOptions{}, journal.AllDone)
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

// A program that had read the list before writes it back when the run is over already: what is done stays done.
func TestOlderCopyAtTheEnd(t *testing.T) {
	t.Parallel()
	w := newWorld(t, threeTasks)
	w.tell = func(e journal.Event) {
		if e.Type == journal.LoopFinished {
			w.write(".scud/tasks/x.json", strings.Replace(threeTasks, `"pending"`, `"in-progress"`, 1))
		}
	}
	w.ends(loop.StartOptions{}, journal.AllDone)
	if got := strings.Count(w.read(".scud/tasks/x.json"), `"done"`); got != 3 {
		t.Errorf("task file:\n%s", w.read(".scud/tasks/x.json"))
	}
	w.clean()
}

// What the user has not committed is in no commit, and stays as it is, whatever an agent does with git.
func TestUsersChangesStay(t *testing.T) {
	t.Parallel()
	w := newWorld(t, threeTasks)
	w.write("mine.txt", "not finished")
	w.write("base.txt", "my edit\n")
	w.write("staged.txt", "staged\n")
	w.git("add", "staged.txt")
	w.agent = func(_ agent.Request, env map[string]string) agent.Result {
		w.works(env)
		switch env["DESCARTES_TASK_ID"] {
		case "1":
			w.git("add", "-A")
		case "2":
			w.git("stash", "-q", "-u")
		case "3":
			w.git("clean", "-q", "-fd")
			w.git("reset", "-q", "--hard")
		}
		return w.works(env)
	}
	w.ends(loop.StartOptions{}, journal.AllDone)
	if got := w.git("status", "--porcelain"); got != " M base.txt\nA  staged.txt\n?? mine.txt" {
		t.Errorf("status:\n%s", got)
	}
	if w.read("mine.txt") != "not finished" || w.read("base.txt") != "my edit\n" {
		t.Errorf("mine.txt %q, base.txt %q", w.read("mine.txt"), w.read("base.txt"))
	}
	if got := w.git("log", "--name-only", "--format=", "-2"); strings.Contains(got, "mine.txt") ||
		strings.Contains(got, "base.txt") || strings.Contains(got, "staged.txt") {
		t.Errorf("commits hold:\n%s", got)
	}
	if got := w.git("stash", "list"); got != "" {
		t.Errorf("stashes:\n%s", got)
	}
}
