package gate

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"
)

func block(status, tests, signal string) string {
	return fmt.Sprintf("---RALPH_STATUS---\nSTATUS: %s\nTESTS_STATUS: %s\nEXIT_SIGNAL: %s\nRECOMMENDATION: need the key\n---END_RALPH_STATUS---", status, tests, signal)
}

const twice = "All tasks are done. The project is complete.\n\n"

func pass(ok bool) *Check { return &Check{Name: "verify", Passed: ok, Output: "FAIL: TestX"} }

// The rows of the seed's exit decision table.
func TestExitDecisionTable(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		row, words, signal string
		want               Kind
	}{
		{"< 2 occurrences, false: continue", "Done with one.", "false", Continue},
		{">= 2 occurrences, false: may be casual language", twice, "false", Continue},
		{"< 2 occurrences, true: signal without evidence", "Done.", "true", Continue},
		{">= 2 occurrences, true: EXIT", twice, "true", Done},
	} {
		var s Status
		d := s.Decide(Facts{Final: c.words + "\n" + block("COMPLETE", "PASSING", c.signal), After: parsed("- [x] a"),
			Verify: pass(true), Changed: []string{"a"}})
		if d.Kind != c.want || d.Reason == "" {
			t.Errorf("%s: got %s (%s), want %s", c.row, d.Kind, d.Reason, c.want)
		}
	}
}

// The rows of the seed's loop decision table. Words and signal that say done end the loop whatever STATUS says: with
// BLOCKED it ends as blocked.
func TestLoopDecisionTable(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		row, status, plan, tests, signal string
		want                             Kind
		reason                           string
	}{
		{"IN_PROGRESS, Yes, Any: loop back", "IN_PROGRESS", "- [ ] a", "PASSING", "false", Continue,
			"EXIT_SIGNAL is false"},
		{"IN_PROGRESS, Yes, FAILING: loop back", "IN_PROGRESS", "- [ ] a", "FAILING", "true", Continue,
			"1 unchecked item"},
		{"IN_PROGRESS, No, FAILING: fix failures first", "IN_PROGRESS", "- [x] a", "FAILING", "true", Continue,
			"fix that first"},
		{"BLOCKED, Any, Any: report blocker", "BLOCKED", "- [ ] a", "FAILING", "false", Blocked, "need the key"},
		{"BLOCKED, No, PASSING: report blocker", "BLOCKED", "- [x] a", "PASSING", "true", Blocked, "need the key"},
		{"COMPLETE, No, PASSING: exit gate passes", "COMPLETE", "- [x] a", "PASSING", "true", Done, ""},
		{"COMPLETE, No, PASSING: exit gate fails", "COMPLETE", "- [x] a", "PASSING", "false", Continue,
			"EXIT_SIGNAL is false"},
		{"IN_PROGRESS, No, PASSING, signal and words say done", "IN_PROGRESS", "- [x] a", "PASSING", "true", Done, ""},
		{"nothing said, No, PASSING, signal and words say done", "", "- [x] a", "PASSING", "true", Done, ""},
		{"no known word, No, PASSING, signal and words say done", "SUPERB", "- [x] a", "PASSING", "true", Done, ""},
		{"COMPLETE, Yes, against the plan", "COMPLETE", "- [x] a\n- [ ] b", "PASSING", "true", Continue, `"b"`},
		{"COMPLETE, No, NOT_RUN without verify", "COMPLETE", "- [x] a", "NOT_RUN", "true", Continue,
			"nothing shows that tests pass"},
	} {
		var s Status
		d := s.Decide(Facts{Final: twice + block(c.status, c.tests, c.signal), After: parsed(c.plan),
			Changed: []string{"a"}})
		if d.Kind != c.want || !strings.Contains(d.Reason, c.reason) {
			t.Errorf("%s: got %s (%s), want %s with %q", c.row, d.Kind, d.Reason, c.want, c.reason)
		}
	}
}

// The rows of the seed's exit evaluation table, as far as they can be checked.
func TestExitEvaluationTable(t *testing.T) {
	t.Parallel()
	good := Facts{Final: twice + block("COMPLETE", "NOT_RUN", "true"), After: parsed("- [x] a"), Verify: pass(true),
		Changed: []string{"a"}}
	for _, c := range []struct {
		row    string
		change func(*Facts)
		want   Kind
		reason string
	}{
		{"all hold", func(*Facts) {}, Done, "no item is unchecked"},
		{"no plan", func(f *Facts) { f.After = nil }, Done, "no IMPLEMENTATION_PLAN.md"},
		{"Tasks remaining?", func(f *Facts) { f.After = parsed("- [ ] a") }, Continue, "unchecked item"},
		{"Tests passing?", func(f *Facts) { f.Verify = pass(false) }, Continue, "verify fails"},
		{"Tests passing? The agent says no", func(f *Facts) { f.Final = twice + block("COMPLETE", "FAILING", "true") },
			Continue, "tests fail"},
		{"Errors in iteration?", func(f *Facts) { f.Err = "the agent crashed (exit 1)" }, Continue, "crashed"},
		{"no status block", func(f *Facts) { f.Final = twice }, Continue, "no status block"},
	} {
		var s Status
		f := good
		c.change(&f)
		if d := s.Decide(f); d.Kind != c.want || !strings.Contains(d.Reason, c.reason) {
			t.Errorf("%s: got %s (%s), want %s with %q", c.row, d.Kind, d.Reason, c.want, c.reason)
		}
	}
}

// Each gate asks for one task in an iteration, and warns of more.
func TestOneTaskPerIteration(t *testing.T) {
	t.Parallel()
	for name, g := range map[string]interface{ Decide(Facts) Decision }{
		"promise": &Promise{Word: "DONE"}, "status": &Status{}, "criteria": newCriteria(t, Options{}),
	} {
		for after, want := range map[string]int{"- [x] a\n- [x] b": 1, "- [x] a\n- [ ] b": 0} {
			d := g.Decide(Facts{Final: block("IN_PROGRESS", "PASSING", "false"), Before: parsed("- [ ] a\n- [ ] b"),
				After: parsed(after), Changed: []string{"a"}})
			warned := strings.Count(strings.Join(d.Warnings, "\n"),
				`2 items were checked off in one iteration, where one is asked for: "a", "b"`)
			if warned != want || strings.Count(d.Prompt, "ONE task") != want {
				t.Errorf("%s, %q: got warnings %q, prompt %q", name, after, d.Warnings, d.Prompt)
			}
		}
	}
}

func TestStatusSaysWhatIsWrongWithTheBlock(t *testing.T) {
	t.Parallel()
	var s Status
	d := s.Decide(Facts{Final: "---RALPH_STATUS---\nSTATUS: SUPERB\nEXIT_SIGNAL: perhaps\n"})
	if len(d.Warnings) != 3 {
		t.Errorf("got %q", d.Warnings)
	}
	d = s.Decide(Facts{Final: "hm"})
	if len(d.Warnings) != 1 || !strings.Contains(d.Prompt, "RALPH_STATUS") || s.Missed != 1 {
		t.Errorf("got %q, %q, %d", d.Warnings, d.Prompt, s.Missed)
	}
	d = s.Decide(Facts{Final: block("BLOCKED", "", "false")})
	if d.Kind != Blocked || d.Reason != "the agent is blocked: need the key" {
		t.Errorf("got %s %q", d.Kind, d.Reason)
	}
	d = s.Decide(Facts{Final: "I lack a password.\n---RALPH_STATUS---\nSTATUS: BLOCKED\n---END_RALPH_STATUS---"})
	if d.Reason != "the agent is blocked: I lack a password." {
		t.Errorf("got %q", d.Reason)
	}
}

func TestInstructionsAreUnderstood(t *testing.T) {
	t.Parallel()
	var s Status
	text := s.Prompt(Choose(parsed(seedPlan), Situation{}))
	r, ok := ParseReport(text)
	if !ok || r.ExitSignal || r.Status != "" {
		t.Errorf("the format shown is read as %+v, %v; want a block that says nothing", r, ok)
	}
	if !strings.Contains(text, "ONE task") || !strings.Contains(text, "Implement user authentication") {
		t.Errorf("the prompt does not name the task: %s", text)
	}
	shown := "All tasks are done, and the work is complete.\n" + block("COMPLETE", "PASSING", "true")
	if d := s.Decide(Facts{Final: shown, Changed: []string{"a"}}); d.Kind != Done {
		t.Errorf("what the instructions ask for is not enough: %s", d.Reason)
	}
}

// The law of the gate: whatever the facts, Done needs every condition.
func TestStatusIsNeverDoneWithoutEveryCondition(t *testing.T) {
	t.Parallel()
	rnd := rand.New(rand.NewPCG(1, 2))
	pick := func(list ...string) string { return list[rnd.IntN(len(list))] }
	done := 0
	var s Status
	for range 500 {
		final := pick("", "Done.", twice, "It is not done.") + pick("", "\n```\n") +
			pick("", block(pick("COMPLETE", "IN_PROGRESS", "BLOCKED", "?"), pick("PASSING", "FAILING", "NOT_RUN"),
				pick("true", "false", "?")))
		f := Facts{Final: final, After: parsed(pick("- [x] a", "- [ ] a", "- [x] a\n  - [ ] b")),
			Err: pick("", "", "boom"), OutputBytes: rnd.Int64N(2000)}
		if rnd.IntN(2) == 0 {
			f.Verify = pass(rnd.IntN(2) == 0)
		}
		if rnd.IntN(3) > 0 {
			f.Changed = []string{"a"}
		}
		if s.Decide(f).Kind != Done {
			continue
		}
		done++
		r, ok := ParseReport(f.Final)
		if !ok || !r.ExitSignal || Indicators(f.Final) < 2 || len(f.After.Open()) > 0 || f.Err != "" ||
			f.Verify != nil && !f.Verify.Passed || Tests(r, f.Verify) != Passing {
			t.Fatalf("done with %+v", f)
		}
	}
	if done == 0 {
		t.Error("never done: the test says nothing")
	}
}

func idle(n int, at time.Time) Facts {
	return Facts{Iteration: n, Final: block("IN_PROGRESS", "NOT_RUN", "false"), Now: at}
}

func TestStatusOpensAndResumes(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	var s Status
	for n := 1; n <= 2; n++ {
		if d := s.Decide(idle(n, at)); d.Kind != Continue {
			t.Fatalf("iteration %d: %s", n, d.Reason)
		}
		saved, err := json.Marshal(&s)
		if err != nil {
			t.Fatal(err)
		}
		var back Status
		if err := json.Unmarshal(saved, &back); err != nil || !reflect.DeepEqual(s, back) {
			t.Fatalf("saved %s, got back %+v, %v", saved, back, err)
		}
		s = back
	}
	d := s.Decide(idle(3, at))
	if d.Kind != Open || !strings.Contains(d.Reason,
		"3 iterations in a row changed no file and checked off no item") || !d.Until.Equal(at.Add(30*time.Minute)) {
		t.Errorf("got %s %q until %s", d.Kind, d.Reason, d.Until)
	}
	if d := s.Begin(at.Add(time.Minute)); d.Kind != Open || !d.Until.Equal(at.Add(30*time.Minute)) ||
		d.Question == "" {
		t.Errorf("taken up again at once: got %+v", d)
	}
	if d := s.Answer(false); d.Kind != Open {
		t.Errorf("a no: got %+v", d)
	}
	if d := s.Answer(true); d.Kind != Continue || s.Breaker.State != BreakerHalfOpen {
		t.Errorf("a yes: got %+v", d)
	}
	if d := s.Decide(idle(4, at)); d.Kind != Open {
		t.Errorf("the try made no progress: got %+v", d)
	}
	if d := s.Begin(at.Add(time.Hour)); d.Kind != Continue {
		t.Errorf("after the cooldown: got %+v", d)
	}
	moved := idle(5, at)
	moved.Changed = []string{"a"}
	if d := s.Decide(moved); d.Kind != Continue || s.Breaker.State != "" {
		t.Errorf("the try made progress: got %+v, %+v", d, s.Breaker)
	}
}

// One item is asked for, whichever gate decides.
func TestOneItem(t *testing.T) {
	t.Parallel()
	f := Facts{Final: "done", Before: parsed("- [ ] a\n- [ ] b\n"), After: parsed("- [x] a\n- [x] b\n")}
	for _, g := range []interface{ Decide(Facts) Decision }{&Promise{Word: "X"}, &Status{}, &Criteria{}} {
		d := g.Decide(f)
		if !strings.Contains(strings.Join(d.Warnings, "\n"), "2 items were checked off") ||
			!strings.Contains(d.Prompt, "exactly ONE task") {
			t.Errorf("%T: warnings %q, prompt %q", g, d.Warnings, d.Prompt)
		}
	}
}
