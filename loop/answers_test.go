package loop

import (
	"strings"
	"testing"

	"descartes/agent"
	"descartes/loop/journal"
	"descartes/loop/store"
	"descartes/tasks"
	"descartes/verify"
)

// Each kind of ending with a question, and what becomes of a run's notes.
func TestQuestionBlocksAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t, threeTasks)
	checked := 0
	w.check = func(env map[string]string) verify.Result {
		checked++
		return verify.Result{Passed: env["DESCARTES_TASK_ID"] != "2" || env["DESCARTES_ATTEMPT"] != "1"}
	}
	prompts := map[string]string{}
	w.agent = func(_ agent.Request, env map[string]string) agent.Result {
		id := env["DESCARTES_TASK_ID"] + "/" + env["DESCARTES_ATTEMPT"]
		prompts[id] = env["prompt"]
		r := agent.Result{End: agent.Finished, Question: "Is " + id + " right?"}
		if id != "3/1" {
			w.write(strings.ReplaceAll(id, "/", "-"), "x")
		}
		if id == "1/1" {
			r.Notes = []string{"the output has no end event"}
		}
		return r
	}
	var warned []string
	w.tell = func(e journal.Event) {
		if e.Type == journal.Warning {
			warned = append(warned, e.Task+" "+e.Message)
		}
	}
	out := w.mustRun(StartOptions{}, journal.TasksBlocked)
	if out.Ending != journal.TasksBlocked || strings.Join(w.runs, ",") != "1 1,2 1,2 2,3 1" || checked != 3 {
		t.Errorf("%+v after %v, verified %d times", out, w.runs, checked)
	}
	if !strings.Contains(prompts["2/2"],
		"It asked this, and has no answer yet; decide yourself:\n\n```\nIs 2/1 right?\n") {
		t.Errorf("the next attempt is told\n%s", prompts["2/2"])
	}
	if len(warned) != 1 || warned[0] != "1 the output has no end event" {
		t.Errorf("warned of %q", warned)
	}
	state, err := store.LoadState(store.NewHome(w.dir).Default())
	if err != nil {
		t.Fatal(err)
	}
	b := state.BlockedTasks
	if len(b) != 1 || b[0].Question != "Is 3/1 right?" || b[0].Reason != "it asks: Is 3/1 right?" ||
		b[0].Attempts != 1 {
		t.Errorf("blocked: %+v", b)
	}
	file, err := tasks.Open(w.dir, "x")
	if err != nil {
		t.Fatal(err)
	}
	open, err := store.NewHome(w.dir).Questions(file)
	if err != nil || len(open) != 1 || open[0].Task != "3" || open[0].Title != "Three" ||
		open[0].Question != "Is 3/1 right?" {
		t.Errorf("open: %+v, %v", open, err)
	}
}
