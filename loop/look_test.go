package loop

import (
	"context"
	"slices"
	"strings"
	"testing"

	"descartes/agent"
	"descartes/loop/attempt"
	"descartes/loop/journal"
	"descartes/loop/source"
	"descartes/loop/store"
	"descartes/verify"
)

// looking is a look that objects to the attempts at a task for as long as the function says so.
func looking(name string, at func(s *attempt.Subject) *attempt.Objection) attempt.Look {
	return attempt.Look{Name: name, On: func(*attempt.Input) bool { return true },
		At: func(_ context.Context, s *attempt.Subject) (*attempt.Objection, error) { return at(s), s.Working() }}
}

// What a check printed that passed is not what an attempt failed with.
func TestOutputOfFailure(t *testing.T) {
	for _, c := range []struct {
		res  attempt.Result
		want string
	}{
		{attempt.Result{Verify: &verify.Result{Tail: "FAIL: sum"}}, "FAIL: sum"},
		{attempt.Result{Verify: &verify.Result{Passed: true, Tail: "ok"}, Verdict: verify.Failed,
			Reason: "conflict markers are left in list.txt"}, ""},
		{attempt.Result{Verify: &verify.Result{Passed: true, Tail: "ok"},
			Objection: &attempt.Objection{Detail: "sum_test.go lost a test"}}, "sum_test.go lost a test"},
	} {
		if got := Output(&c.res); got != c.want {
			t.Errorf("%+v: got %q, want %q", c.res, got, c.want)
		}
	}
}

// An attempt that passed its verification fails where a look objects. The next one hears why, later looks are not
// asked, and the journal tells which looked, what they said and what their agents cost.
func TestLookObjects(t *testing.T) {
	w := newWorld(t, `{"tag": "x", "tasks": [{"id": 1, "title": "One", "status": "pending"}]}`)
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
	w.mustRun(StartOptions{}, journal.AllDone)
	if !slices.Equal(order, []string{"first", "first", "second"}) {
		t.Errorf("looked in the order %v", order)
	}
	if len(prompts) != 2 || !strings.Contains(prompts[1], "(it is too short)") ||
		!strings.Contains(prompts[1], "The verify command passed, and the first says:") ||
		!strings.Contains(prompts[1], "one.txt has 2 bytes") {
		t.Errorf("the second attempt was not told why: %q", prompts)
	}
	var ends []*journal.Event
	for i, e := range events {
		if e.Type == journal.AttemptFinished {
			ends = append(ends, &events[i])
		}
	}
	if len(ends) != 2 || ends[0].Verdict != journal.Failed || ends[0].Detail.Objector() != "first" ||
		ends[0].Detail.Output != "one.txt has 2 bytes" || ends[0].Detail.Looks[0].Said[0] != "one.txt is odd" ||
		ends[0].Detail.Looks[0].Said[1] != "the asker changed files, which were put back: one.txt" ||
		ends[1].Verdict != journal.Verified || ends[1].Detail.Objector() != "" || len(ends[1].Detail.Looks) != 2 {
		t.Errorf("the attempts ended with %+v", ends)
	}
	s := journal.Fold(events)
	if s.Cost.USD == nil || *s.Cost.USD != 1 {
		t.Errorf("two looks whose agents cost 0.5 each: %+v", s.Cost)
	}
}

// A look may ask a person: the task is blocked with the question, as by an agent's own.
func TestLookAsks(t *testing.T) {
	w := newWorld(t, `{"tag": "x", "tasks": [{"id": 1, "title": "One", "status": "pending"}]}`)
	w.looks = []attempt.Look{looking("guard", func(*attempt.Subject) *attempt.Objection {
		return &attempt.Objection{Reason: "may it change the Makefile?", Detail: "-\tgo test\n+\ttrue", Ask: true}
	})}
	w.mustRun(StartOptions{}, journal.TasksBlocked)
	j, problems := source.Load(w.dir, w.cfg)
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	asked, err := store.NewHome(w.dir).Questions(j.File)
	if err != nil || len(asked) != 1 || asked[0].Question != "may it change the Makefile?\n\n-\tgo test\n+\ttrue" {
		t.Errorf("asked %+v, %v", asked, err)
	}
	if len(w.runs) != 1 {
		t.Errorf("runs %v: a question is not put off by another attempt", w.runs)
	}
}

// An attempt whose verification fails is not looked at.
func TestLookOnlyAtVerified(t *testing.T) {
	w := newWorld(t, `{"tag": "x", "tasks": [{"id": 1, "title": "One", "status": "pending"}]}`)
	w.agent = func(agent.Request, map[string]string) agent.Result { return agent.Result{End: agent.Finished} }
	w.looks = []attempt.Look{looking("guard", func(*attempt.Subject) *attempt.Objection {
		t.Error("looked")
		return nil
	})}
	w.mustRun(StartOptions{}, journal.TasksBlocked)
}
