package loop

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"descartes/agent"
	"descartes/internal/atomicfile"
	"descartes/loop/journal"
	"descartes/tasks"
	"descartes/verify"
)

func TestAnswersAccumulate(t *testing.T) {
	t.Parallel()
	home := NewHome(t.TempDir())
	if got, err := home.Answers("x"); got != nil || err != nil {
		t.Fatalf("without a file: %v, %v", got, err)
	}
	say := func(task, text string) error {
		return home.Answer(t.Context(), atomicfile.OS(), "x", Answer{Task: task, Question: "why?", Text: text, At: time.Unix(1, 0)})
	}
	for n := range maxAnswers + 5 {
		for range 2 { // the second time is none
			if err := say("1", fmt.Sprint(n)); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := say("2", "two"); err != nil {
		t.Fatal(err)
	}
	got, err := home.Answers("x")
	if err != nil || len(got) != maxAnswers+1 || got[0].Text != "5" || got[maxAnswers-1].Text != fmt.Sprint(maxAnswers+4) || got[maxAnswers].Task != "2" {
		t.Errorf("%d answers, first %+v, %v", len(got), got[0], err)
	}
	if fi, err := os.Stat(home.AnswerFile("x")); err != nil || fi.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", fi.Mode(), err)
	}
	for _, text := range []string{strings.Repeat("x", MaxAnswer+1), "\xff"} {
		if say("1", text) == nil {
			t.Errorf("%.9q was taken", text)
		}
	}
	for _, text := range []string{"{", `{"version":"9"}`} {
		if err := os.WriteFile(home.AnswerFile("x"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := home.Answers("x"); err == nil || say("1", "lost") == nil {
			t.Errorf("%s: read", text)
		}
	}
}

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
	if !strings.Contains(prompts["2/2"], "It asked this, and nobody answered; decide yourself:\n\n```\nIs 2/1 right?\n") {
		t.Errorf("the next attempt is told\n%s", prompts["2/2"])
	}
	if len(warned) != 1 || warned[0] != "1 the output has no end event" {
		t.Errorf("warned of %q", warned)
	}
	state, err := LoadState(NewHome(w.dir).Default())
	if err != nil {
		t.Fatal(err)
	}
	b := state.BlockedTasks
	if len(b) != 1 || b[0].Question != "Is 3/1 right?" || b[0].Reason != "it asks: Is 3/1 right?" || b[0].Attempts != 1 {
		t.Errorf("blocked: %+v", b)
	}
	file, err := tasks.Open(w.dir, "x")
	if err != nil {
		t.Fatal(err)
	}
	open, err := NewHome(w.dir).Questions(file)
	if err != nil || len(open) != 1 || open[0].Task != "3" || open[0].Title != "Three" || open[0].Question != "Is 3/1 right?" {
		t.Errorf("open: %+v, %v", open, err)
	}
}

// Several people may answer at once.
func TestAnswersAtOnce(t *testing.T) {
	t.Parallel()
	home := NewHome(t.TempDir())
	var all sync.WaitGroup
	for n := range 16 {
		all.Go(func() {
			if err := home.Answer(t.Context(), atomicfile.OS(), "x", Answer{Task: fmt.Sprint(n), Text: "yes", At: time.Unix(1, 0)}); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if got, err := home.Answers("x"); err != nil || len(got) != 16 {
		t.Errorf("%d answers, %v", len(got), err)
	}
}
