package verify

import (
	"testing"

	"descartes/verify/results"
)

// What a result comes to beside its exit status, by what was known before.
func TestMeasure(t *testing.T) {
	t.Parallel()
	set := func(passed, failed int) *results.Set {
		s := &results.Set{}
		for i := range passed {
			s.Passed = append(s.Passed, string(rune('a'+i)))
		}
		for i := range failed {
			s.Failed = append(s.Failed, string(rune('p'+i)))
		}
		return s
	}
	broken := &results.Set{Passed: []string{"a"}, Failed: []string{"b", "p"}}
	for name, c := range map[string]struct {
		res   Result
		bar   Bar
		want  string // why it fails; "" where it passes
		known int
	}{
		"nothing is known": {Result{Passed: true}, Bar{}, "", 0},
		"as before":        {Result{Passed: true, Tests: set(2, 0)}, Bar{Before: set(2, 0)}, "", 0},
		"none ran":         {Result{Passed: true, Tests: set(0, 0)}, Bar{}, "no tests ran", 0},
		"none may run": {Result{Passed: true, Tests: set(0, 0)},
			Bar{Fewer: true, Before: set(2, 0)}, "", 0},
		"only skipped": {Result{Passed: true, Tests: &results.Set{Skipped: []string{"a", "b"}}},
			Bar{Before: set(2, 0)}, "no tests ran", 0},
		"no results any more": {Result{Passed: true}, Bar{Before: set(2, 0)},
			"no tests ran: it ran 2 before, and now prints no results", 0},
		"no files": {Result{Passed: true, Unread: "no file of a.xml was written"}, Bar{},
			"no tests ran: no file of a.xml was written", 0},
		"one is gone": {Result{Passed: true, Tests: set(2, 0)}, Bar{Before: set(3, 0)},
			"1 test is gone: c", 0},
		"five are gone": {Result{Passed: true, Tests: set(1, 0)}, Bar{Before: set(6, 0)},
			"5 tests are gone: b, c, d and 2 more", 0},
		"gone without names": {Result{Passed: true, Tests: &results.Set{More: 3}},
			Bar{Before: &results.Set{More: 5}}, "2 tests are gone: 3 ran, 5 before", 0},
		"exit status 0 and a failure": {Result{Passed: true, Tests: broken},
			Bar{Before: &results.Set{Passed: []string{"a", "b"}, Failed: []string{"p"}}},
			"1 test fails that did not fail before, though it ends with exit status 0: b", 0},
		"exit status 0 and an old failure": {Result{Passed: true, Tests: set(2, 1)}, Bar{Before: set(2, 1)}, "", 0},
		"fails": {Result{Why: "w", Tests: set(2, 1)}, Bar{Before: set(2, 1), Failed: true},
			"w", 0},
		"known failures": {Result{Why: "w", Tests: set(2, 2)},
			Bar{Before: set(2, 2), Failed: true, Known: true}, "", 2},
		"fewer known failures": {Result{Why: "w", Tests: set(3, 1)},
			Bar{Before: set(2, 2), Failed: true, Known: true}, "", 1},
		"a new failure": {Result{Why: "w", Tests: broken},
			Bar{Before: &results.Set{Passed: []string{"a", "b"}, Failed: []string{"p"}}, Failed: true, Known: true},
			"1 test fails that did not fail before: b", 0},
		"known failures and fewer tests": {Result{Why: "w", Tests: set(1, 1)},
			Bar{Before: set(2, 1), Failed: true, Known: true}, "w", 0},
		"fails without a failing test": {Result{Why: "w", Tests: set(2, 0)},
			Bar{Before: set(2, 1), Failed: true, Known: true}, "w", 0},
		"known, and it passed before": {Result{Why: "w", Tests: set(2, 1)}, Bar{Before: set(2, 1), Known: true}, "w",
			0},
		"known, without results":             {Result{Why: "w"}, Bar{Failed: true, Known: true}, "", 0},
		"known, results vanish":              {Result{Why: "w"}, Bar{Before: set(1, 1), Failed: true, Known: true}, "w", 0},
		"accepted as red":                    {Result{Why: "w", Tests: set(2, 1)}, Bar{Before: set(3, 0), Red: []string{"p"}}, "", 1},
		"accepted as red, and nothing known": {Result{Why: "w", Tests: set(2, 1)}, Bar{Red: []string{"p"}}, "", 1},
		"accepted as red, and another": {Result{Why: "w", Tests: set(1, 2)}, Bar{Before: set(3, 0), Red: []string{"p"}}, "w",
			0},
		"another's tests are accepted as red": {Result{Passed: true}, Bar{Red: []string{"p"}}, "", 0},
		"timed out": {Result{TimedOut: true, Overran: "o", Tests: set(2, 2)},
			Bar{Before: set(2, 2), Failed: true, Known: true}, "", 0},
	} {
		res := c.res
		res.Measure(&c.bar)
		if passed := c.want == "" && !c.res.TimedOut; res.Passed != passed || res.Why != c.want ||
			res.Known != c.known {
			t.Errorf("%s: got %v %q known %d, want %v %q known %d", name, res.Passed, res.Why, res.Known, passed,
				c.want, c.known)
		}
	}
}

func TestNoTests(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		"": false, "hello\n": false,
		"?   \ta/b\t[no test files]\n":                                      true,
		"?   \ta/b\t[no test files]\nok  \ta/c\t0.1s\n":                     false,
		"go: warning: \"./...\" matched no packages\nno packages to test\n": true,
		"Ran 0 tests in 0.000s\n\nNO TESTS RAN\n":                           true,
		"Ran 3 tests in 0.000s\n\nOK\n":                                     false,
		"No tests found, exiting with code 1\n":                             true,
	} {
		if got := (&Result{Tail: text}).NoTests(); got != want {
			t.Errorf("%q: got %v", text, got)
		}
	}
	if !(&Result{Tests: &results.Set{}}).NoTests() || (&Result{Tests: &results.Set{Passed: []string{"a"}}}).NoTests() {
		t.Error("what is known of tests is not taken")
	}
}
