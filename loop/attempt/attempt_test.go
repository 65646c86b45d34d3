package attempt

import (
	"encoding/json"
	"reflect"
	"testing"
	"time"

	"descartes/agent"
	"descartes/gitops"
	"descartes/loop/slot"
	"descartes/specbuild"
	"descartes/verify"
	"descartes/verify/judge"
	"descartes/verify/results"
)

// Another machine may make an attempt: what it is given and what it returns are the same after a way through JSON.
func TestDataSurvivesJSON(t *testing.T) {
	usd := 0.25
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	in := Input{Name: "3 1", Needs: []string{"gpu"}, Backend: "claude", Model: "m", Promise: "DONE", Session: "s",
		Spent: &agent.Tokens{Input: 1, CacheRead: 1, CacheWrite: 1, Output: 1}, Keep: true, Words: 9, Prompt: "do\n",
		Env: []string{"A=b"}, Log: "/x/log", Always: true,
		Agent:  Clocks{Timeout: time.Hour, Idle: time.Minute, Start: time.Second, Exit: 2 * time.Second, Spin: 7},
		Clocks: Clocks{Timeout: time.Minute},
		Checks: []Command{{Check: verify.Check{Name: "one", Run: "true", Timeout: time.Minute, When: verify.AtWave,
			Retry: 1, Results: []string{"a.xml"}}, Bar: &verify.Bar{
			Before: &results.Set{Passed: []string{"t"}, More: 1}, Ran: true, Failed: true, Known: true, Fewer: true, Judged: true},
			Criterion: true}}, All: true, Again: true, Better: true, Careful: true, Base: "b", First: "f",
		Review: &Review{Among: []With{{"codex", "m"}}, Known: []Known{{"t", "w"}},
			Opinion: specbuild.Opinion{Tag: "x", Tasks: []specbuild.Reviewed{
				{Name: "Task 1", Criteria: []specbuild.Criterion{{Text: "c", Shared: true}}}}, Wave: 1, Ask: "a",
				Checks: []specbuild.PassedCheck{{Name: "n"}}, DiffStat: "s", Diff: "d", Whole: true, Unread: "u"}},
		Guard: &Guard{Levels: map[string]judge.Level{"all": judge.Fail}, Allow: []string{"tests"}, Title: "t",
			Protect: []string{"*.sql"}, Yes: []string{"q"}}, Prove: true,
		Holdout: &Holdout{Run: "true", Dir: "/d", Log: "/l", Timeout: time.Second}}
	through(t, in)
	through(t, Result{Changed: 1, Paced: true, Untaken: "a name", Verdict: verify.Verified, Reason: "verify passed",
		Grade: verify.RegressionOnly, Proof: "p",
		Agent: agent.Result{End: agent.Finished, Cause: agent.Budget, Code: 1, Signal: 9, Reason: "r", Until: at,
			Final: "f", Complete: true, Blocked: "b", Question: "q",
			Notes: []string{"n"}, Cost: &agent.Cost{USD: &usd, Estimated: true,
				Tokens: &agent.Tokens{Input: 1, Output: 2, CacheRead: 3, CacheWrite: 4}}, Session: "s", Gone: true,
			Model:  "m",
			Events: 5, Unknown: 1, Duration: time.Second, Bytes: 10},
		Verify: &verify.Result{Name: "n", Command: "c", Passed: true, Code: 1, Signal: 2, TimedOut: true,
			Cancelled: true, Overran: "o", Tail: "t", Duration: time.Second,
			Tests: &results.Set{Failed: []string{"f"}}, Unread: "u", Change: &results.Change{Broken: []string{"f"}},
			Known: 1, Standing: true, Tries: 2, Flaky: []string{"x"}},
		Checks: []Ran{{Command: Command{Check: verify.Check{Run: "true"}}, Result: verify.Result{Passed: true}}},
		Looks: []Looked{{Name: "guard", Objects: true, Said: []string{"s"}, Shown: []string{"e"},
			Agent: &agent.Result{End: agent.Finished}, Took: time.Second}},
		Objection: &Objection{By: "guard", Reason: "r", Detail: "d", Ask: true},
		Work: slot.Result{Before: "1", Seen: "2", After: "3", Changed: []gitops.Change{{Op: 'A', Path: "a"}},
			Left:  []string{"l"},
			Grown: []gitops.Change{{Op: 'M', Path: "go.sum"}}, Uncovered: []string{"u"},
			LeftOut: []gitops.LeftOut{{Path: "p", Why: "w"}},
			Old:     []gitops.LeftOut{{Path: "o", Why: "w"}}, Nested: []string{"n"}, Commits: "c"}})
}

func through[T any](t *testing.T, v T) {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	var back T
	if err := json.Unmarshal(b, &back); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(v, back) {
		t.Errorf("got  %+v\nwant %+v", back, v)
	}
	missing(t, reflect.TypeOf(v).Name(), reflect.ValueOf(v))
}

// missing names the fields that the example leaves empty: of these the test says nothing.
func missing(t *testing.T, name string, v reflect.Value) {
	t.Helper()
	switch v.Kind() {
	case reflect.Pointer:
		missing(t, name, v.Elem())
	case reflect.Struct:
		for i := range v.NumField() {
			if f := v.Type().Field(i); f.IsExported() && v.Field(i).IsZero() && name != "Result.Checks" &&
				name != "Input.Clocks" {
				t.Errorf("%s.%s is not in the example", name, f.Name)
			}
		}
	}
}
