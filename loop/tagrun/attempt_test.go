package tagrun

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"descartes/agent"
	"descartes/config"
	"descartes/loop"
	"descartes/loop/attempt"
	"descartes/loop/journal"
	"descartes/loop/store"
	"descartes/verify"
)

const oneTask = `{"tag": "x", "tasks": [
  {"id": 1, "title": "One", "status": "pending"}
]}
`

// What did not pass is in no commit, whatever its agent says: it is kept, and each try of it.
func TestUnfitIsInNoCommit(t *testing.T) {
	t.Parallel()
	object := func(by string) []attempt.Look {
		return []attempt.Look{{Name: by, On: func(*attempt.Input) bool { return true },
			At: func(context.Context, *attempt.Subject) (*attempt.Objection, error) {
				return &attempt.Objection{Reason: by + " objects"}, nil
			}}}
	}
	claims := agent.Result{End: agent.Finished, Complete: true, Final: "All is done.\n\n<promise>COMPLETE</promise>"}
	blocked := agent.Result{End: agent.Finished, Blocked: "no key", Final: claims.Final}
	for name, c := range map[string]struct {
		says   agent.Result
		passes bool // its check
		looks  []attempt.Look
		want   bool // in a commit
	}{
		"it passes":        {claims, true, nil, true},
		"its check fails":  {claims, false, nil, false},
		"it is blocked":    {blocked, true, nil, false},
		"it crashes":       {agent.Result{End: agent.Crashed, Code: 1, Reason: "boom", Final: claims.Final}, true, nil, false},
		"it times out":     {agent.Result{End: agent.TimedOut, Reason: "too long", Final: claims.Final}, true, nil, false},
		"the guard":        {claims, true, object("guard"), false},
		"another's review": {claims, true, object("review"), false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, oneTask)
			w.cfg.Scud.MaxIterationsPerTask = 2
			w.looks = c.looks
			w.agent = func(_ agent.Request, env map[string]string) agent.Result {
				w.write("1.txt", env["DESCARTES_ATTEMPT"])
				return c.says
			}
			w.check = func(map[string]string) verify.Result { return verify.Result{Passed: c.passes, Code: 1} }
			if _, err := w.run(loop.StartOptions{}); err != nil {
				t.Fatal(err)
			}
			if in := w.git("log", "--format=%s", "--", "1.txt"); c.want == (in == "") {
				t.Errorf("the commits with the work: %q", in)
			}
			for _, ran := range w.ran {
				n := strings.TrimPrefix(ran, "1 ")
				ref := w.git("for-each-ref", "--format=%(refname)", "refs/descartes/*/tasks/1/"+n)
				if ref == "" || w.git("show", ref+":1.txt") != n {
					t.Errorf("attempt %s is not kept: %q", n, ref)
				}
			}
		})
	}
}

// A run that dies between the end of a dear agent and what follows counts its cost once, and the one that takes it up
// gives the task no further attempt.
func TestCostSurvives(t *testing.T) {
	t.Parallel()
	for _, at := range []journal.Type{journal.AgentFinished, journal.VerifyStarted} {
		t.Run(string(at), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, threeTasks)
			w.cfg.MaxCostPerTask = 0.5
			w.check = func(env map[string]string) verify.Result {
				return verify.Result{Passed: env["DESCARTES_TASK_ID"] != "1", Code: 1}
			}
			usd := 0.6
			w.agent = func(_ agent.Request, env map[string]string) agent.Result {
				r := w.works(env)
				r.Cost = &agent.Cost{USD: &usd, Tokens: &agent.Tokens{Input: 10, Output: 1}}
				return r
			}
			var back func()
			w.tell = func(e journal.Event) {
				if e.Type == at && back == nil {
					back = w.copied()
				}
			}
			w.ends(loop.StartOptions{Name: "night"}, journal.TasksBlocked)
			back()
			w.ran = nil
			out := w.ends(loop.StartOptions{}, journal.TasksBlocked)
			st, err := store.LoadState(store.NewHome(w.dir).Named("night"))
			if err != nil {
				t.Fatal(err)
			}
			if out.Blocked != 1 || len(st.BlockedTasks) != 1 || !strings.HasPrefix(st.BlockedTasks[0].Reason,
				"its attempts cost $0.60, and a task may cost $0.50; the last one: ") {
				t.Errorf("%+v, blocked %+v", out, st.BlockedTasks)
			}
			if c := st.Cost; c == nil || c.USD == nil || *c.USD != 0.6 || c.Runs != 1 || len(w.ran) != 0 {
				t.Errorf("cost %+v after the agents %q", c, w.ran)
			}
		})
	}
}

// Interruptions are no attempts, but one that takes the machine down each time has to end somewhere.
func TestInterruptionsAreNoAttempts(t *testing.T) {
	t.Parallel()
	w := newWorld(t, oneTask)
	w.cfg.Scud.MaxIterationsPerTask = 1
	w.agent = func(agent.Request, map[string]string) agent.Result {
		w.interrupt(nil)
		return agent.Result{End: agent.Cancelled}
	}
	for range 9 {
		w.ends(loop.StartOptions{}, journal.UserCancelled)
	}
	if out := w.ends(loop.StartOptions{}, journal.TasksBlocked); len(w.ran) != 10 || out.Blocked != 1 {
		t.Errorf("agents %v, outcome %+v", w.ran, out)
	}
	st := w.state()
	if len(st.BlockedTasks) != 1 || !strings.HasPrefix(st.BlockedTasks[0].Reason,
		"10 attempts in a row were interrupted") || st.Iteration != 0 {
		t.Errorf("state: %+v", st)
	}
}

// A person who has a blocked task tried again has its agent told what failed.
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
	w.ends(loop.StartOptions{Name: "night"}, journal.TasksBlocked)
	pass, w.cfg.Scud.RetryBlocked = true, true
	w.ends(loop.StartOptions{Resume: store.NewHome(w.dir).Named("night")}, journal.AllDone)
	if !strings.Contains(spec, "expected 7 sprockets") {
		t.Errorf("the spec of the retry:\n%s", spec)
	}
}

// The steps of an attempt, and the order in which they are told. Those of an iteration are the same: see package run.
func TestStepsOfAnAttempt(t *testing.T) {
	t.Parallel()
	said := agent.Result{End: agent.Finished, Final: "<promise>COMPLETE</promise>", Complete: true}
	passes, fails := verify.Result{Passed: true}, verify.Result{Code: 1}
	for _, c := range []struct {
		name  string
		agent agent.Result
		check verify.Result
		want  string
	}{
		{"verified", said, passes, "started agent verify_started verify_finished finished"},
		{"verify fails", said, fails, "started agent verify_started verify_finished finished"},
		{"crashed", agent.Result{End: agent.Crashed, Code: 1, Reason: "boom"}, passes, "started agent finished"},
		{"timed out", agent.Result{End: agent.TimedOut, Reason: "too long"}, passes, "started agent finished"},
		{"limited", agent.Result{End: agent.Limited, Reason: "quota"}, passes, "started agent finished"},
		{"refused", agent.Result{End: agent.Refused, Reason: "no key"}, passes, "started agent finished"},
		{"cancelled", agent.Result{End: agent.Cancelled, Reason: "stopped"}, passes, "started agent finished"},
		{"with a note", agent.Result{End: agent.Finished, Complete: true, Final: said.Final, Notes: []string{"odd"}},
			passes, "started agent warning verify_started verify_finished finished"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, oneTask)
			var steps []string
			w.cfg.OnLimit, w.cfg.Scud.MaxIterationsPerTask = config.OnLimitStop, 1
			w.agent = func(_ agent.Request, env map[string]string) agent.Result {
				w.works(env)
				return c.agent
			}
			w.check = func(map[string]string) verify.Result { return c.check }
			w.tell = func(e journal.Event) {
				if slices.Contains(steps, "finished") || e.Type == journal.Step ||
					len(steps) == 0 && e.Type != journal.AttemptStarted {
					return
				}
				step := strings.TrimPrefix(string(e.Type), "attempt_")
				steps = append(steps, strings.Replace(step, "agent_finished", "agent", 1))
			}
			if _, err := w.run(loop.StartOptions{}); err != nil {
				t.Fatal(err)
			}
			if got := strings.Join(steps, " "); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

// looking is a look that objects to the attempts at a task for as long as the function says so.
func looking(name string, at func(s *attempt.Subject) *attempt.Objection) attempt.Look {
	return attempt.Look{Name: name, On: func(*attempt.Input) bool { return true },
		At: func(_ context.Context, s *attempt.Subject) (*attempt.Objection, error) { return at(s), s.Working() }}
}

// An attempt that passed its checks fails where a look objects. The next one hears why, later looks are not asked, and
// the journal tells which looked, what they said and what their agents cost.
func TestLookObjects(t *testing.T) {
	t.Parallel()
	w := newWorld(t, oneTask)
	var prompts, order []string
	usd := 0.5
	w.agent = func(q agent.Request, env map[string]string) agent.Result {
		if env["DESCARTES_REVIEW"] != "" {
			w.write("one.txt", "meddled\n")
			if !q.Reads || env["prompt"] != "is it good?" {
				t.Errorf("asked %q, only to read: %v", env["prompt"], q.Reads)
			}
			return agent.Result{End: agent.Finished, Final: "no", Cost: &agent.Cost{USD: &usd}}
		}
		prompts = append(prompts, env["prompt"])
		w.write("one.txt", env["DESCARTES_ATTEMPT"]+"\n")
		return agent.Result{End: agent.Finished, Complete: true}
	}
	w.looks = []attempt.Look{
		looking("first", func(s *attempt.Subject) *attempt.Objection {
			order = append(order, "first")
			if s.Input.Base == "" || s.Result.Work.After == s.Input.Base || !s.Result.Verify.Passed {
				t.Errorf("base %q, after %q, verify %+v", s.Input.Base, s.Result.Work.After, s.Result.Verify)
			}
			if err := s.Note("one.txt is\nodd"); err != nil {
				t.Error(err)
			}
			if res, err := s.Consult(t.Context(), attempt.Question{Who: "asker",
				Among: []attempt.With{{Backend: s.Input.Backend}}, Prompt: "is it good?"}); err != nil ||
				res.Final != "no" {
				t.Errorf("it said %+v, %v", res, err)
			}
			if len(order) == 1 {
				return &attempt.Objection{Reason: "it is too short", Detail: "one.txt has 2 bytes"}
			}
			return nil
		}),
		looking("second", func(*attempt.Subject) *attempt.Objection { order = append(order, "second"); return nil }),
	}
	var events []journal.Event
	w.tell = func(e journal.Event) { events = append(events, e) }
	w.ends(loop.StartOptions{}, journal.AllDone)
	if !slices.Equal(order, []string{"first", "first", "second"}) {
		t.Errorf("looked in the order %v", order)
	}
	if len(prompts) != 2 || !strings.Contains(prompts[1], "(it is too short)") ||
		!strings.Contains(prompts[1], "The verify command passed, and the first says:") ||
		!strings.Contains(prompts[1], "one.txt has 2 bytes") {
		t.Errorf("the second attempt was not told why: %q", prompts)
	}
	var ended []*journal.Event
	for i, e := range events {
		if e.Type == journal.AttemptFinished {
			ended = append(ended, &events[i])
		}
	}
	if len(ended) != 2 || ended[0].Verdict != journal.Failed || ended[0].Detail.Objector() != "first" ||
		ended[0].Detail.Output != "one.txt has 2 bytes" || ended[0].Detail.Looks[0].Said[0] != "one.txt is odd" ||
		ended[0].Detail.Looks[0].Said[1] != "the asker changed files, which were put back: one.txt" ||
		ended[1].Verdict != journal.Verified || ended[1].Detail.Objector() != "" || len(ended[1].Detail.Looks) != 2 {
		t.Errorf("the attempts ended with %+v", ended)
	}
	if s := journal.Fold(events); s.Cost.USD == nil || *s.Cost.USD != 1 {
		t.Errorf("two looks whose agents cost 0.5 each: %+v", s.Cost)
	}
	if got := w.git("show", "HEAD:one.txt"); got != "2" {
		t.Errorf("the commit has %q", got)
	}
}

// A look may ask a person: the task is blocked with the question, as by an agent's own, and no other attempt is made.
func TestLookAsks(t *testing.T) {
	t.Parallel()
	w := newWorld(t, oneTask)
	w.looks = []attempt.Look{looking("guard", func(*attempt.Subject) *attempt.Objection {
		return &attempt.Objection{Reason: "may it change the Makefile?", Detail: "-\tgo test\n+\ttrue", Ask: true}
	})}
	w.ends(loop.StartOptions{}, journal.TasksBlocked)
	asked := w.questions()
	if len(asked) != 1 || asked[0].Question != "may it change the Makefile?\n\n-\tgo test\n+\ttrue" {
		t.Errorf("asked %+v", asked)
	}
	if len(w.ran) != 1 {
		t.Errorf("ran %v: a question is not put off by another attempt", w.ran)
	}
}

// An attempt whose check fails is not looked at.
func TestLookOnlyAtVerified(t *testing.T) {
	t.Parallel()
	w := newWorld(t, oneTask)
	w.check = func(map[string]string) verify.Result { return verify.Result{Code: 1} }
	w.looks = []attempt.Look{looking("guard", func(*attempt.Subject) *attempt.Objection {
		t.Error("looked")
		return nil
	})}
	w.ends(loop.StartOptions{}, journal.TasksBlocked)
}

// questions are those that people are asked about the tag.
func (w *world) questions() []store.Question {
	w.t.Helper()
	j := w.load()
	asked, err := store.NewHome(w.dir).Questions(j.File, j.Graph.Status)
	if err != nil {
		w.t.Fatal(err)
	}
	return asked
}

// An agent that asks has its task blocked at once if it changed nothing; else its work is judged, and what it asked is
// the next attempt's to decide. What the client had to note is a warning.
func TestQuestions(t *testing.T) {
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
	w.ends(loop.StartOptions{}, journal.TasksBlocked)
	if got := fmt.Sprint(w.ran); got != "[1 1 2 1 2 2 3 1]" || checked != 3 {
		t.Errorf("ran %v, checked %d times", got, checked)
	}
	if !strings.Contains(prompts["2/2"],
		"It asked this, and has no answer yet; decide yourself:\n\n```\nIs 2/1 right?\n") {
		t.Errorf("the next attempt is told\n%s", prompts["2/2"])
	}
	if len(warned) != 1 || warned[0] != "1 the output has no end event" {
		t.Errorf("warned of %q", warned)
	}
	if b := w.state().BlockedTasks; len(b) != 1 || b[0].Question != "Is 3/1 right?" ||
		b[0].Reason != "it asks: Is 3/1 right?" || b[0].Attempts != 1 {
		t.Errorf("blocked: %+v", b)
	}
	if open := w.questions(); len(open) != 1 || open[0].Task != "3" || open[0].Title != "Three" ||
		open[0].Question != "Is 3/1 right?" {
		t.Errorf("open: %+v", open)
	}
}
