package judge

import (
	"fmt"

	"descartes/verify"
	"descartes/verify/results"
)

// weighing is one check: its results before the commit, on it, and with the judges as they were on its code.
type weighing struct {
	check         string // its name
	before, after *verify.Result
	old           *verify.Result // nil: it was not run, as nothing was put back
	canary        *verify.Result // with a test that must fail; nil: there was none
	muted         []string       // tests that must fail and do not run, but do on the code as it was
	only          bool           // all that judges and was changed are new files of tests
	cut           bool           // code is gone
	asks          bool           // the task asks for a change of tests
	way           string         // what allows one, for a refusal
}

// weigh is the rule.
func (w *weighing) weigh() (found []Finding) {
	add := func(rule string, refuses bool, format string, args ...any) {
		text := fmt.Sprintf(format, args...)
		if w.check != "" {
			text = w.check + ": " + text
		}
		found = append(found, Finding{Rule: rule, Refuses: refuses, Text: text})
	}
	before, after := tests(w.before), tests(w.after)
	if !w.after.Passed {
		add("fails", true, "%s", w.after.Reason())
		return found
	}
	if w.after.Standing {
		add("fails", false, "it fails as it did before, and single results are unknown")
	}
	if bad := both(named(failedOf(after)), failedOf(before)); len(bad) > 0 && w.after.Code == 0 && !w.before.Passed {
		add("stays-red", !w.asks, "the check ends with exit status 0 now, and %s that failed before still fail: %s%s",
			count(len(bad), "test"), few(bad), w.way)
	}
	if n := len(ranOf(before)); n > 0 && len(ranOf(after)) == 0 && (after == nil || after.More == 0) {
		add("fewer", !w.asks, "no test ran, and %d did before%s", n, w.way)
		return found
	}
	stays := w.oldResults(add)
	w.fewer(add, stays)
	w.canaries(add)
	return found
}

// oldResults says what the judges as they were say of the new code, and returns the tests that fail with them.
func (w *weighing) oldResults(add func(string, bool, string, ...any)) (fail []string) {
	if w.old == nil {
		return nil
	}
	before, old := tests(w.before), tests(w.old)
	unbuilt := before != nil && len(named(before.Failed)) < len(before.Failed) // what ran then says nothing of these
	fail = named(failedOf(old))
	var red, broke, fresh []string
	after := tests(w.after)
	for _, n := range fail {
		switch {
		case has(failedOf(after), n): // it stays red with the new tests, too
		case has(failedOf(before), n), unbuilt && !has(ranOf(before), n):
			red = append(red, n)
		case has(passedOf(before), n):
			broke = append(broke, n)
		default:
			fresh = append(fresh, n)
		}
	}
	var turned []string
	for _, n := range passedOf(old) {
		if has(failedOf(before), n) || unbuilt && !has(ranOf(before), n) {
			turned = append(turned, n)
		}
	}
	if len(red) > 0 {
		refuses, way := len(red) > len(turned) && !w.asks, ""
		if refuses {
			way = w.way
		}
		verb := "fail"
		if len(red) == 1 {
			verb = "fails"
		}
		add("stays-red", refuses, "with the tests as they were %s %s as before, and %d pass now: %s%s",
			count(len(red), "test"), verb, len(turned), few(red), way)
	}
	if len(broke) > 0 {
		add("old-fails", false, "with the tests as they were %s that passed before fail: %s", count(len(broke), "test"),
			few(broke))
	}
	if len(fresh) > 0 {
		add("old-fails", false, "with the tests as they were %s fail that did not run before: %s",
			count(len(fresh), "test"), few(fresh))
	}
	if odd := without(without(failedOf(old), fail), failedOf(before)); len(odd) > 0 && len(red)+len(broke) == 0 {
		add("old-fails", false, "the tests as they were cannot be built or loaded: %s", few(odd))
	}
	if !w.old.Passed && len(failedOf(old)) == 0 && !w.after.Standing { // what fails has no results
		stays := !w.before.Passed && len(failedOf(before)) == 0
		refuses, way := stays && !w.asks && !w.only, "" // a check may ask for tests, as one of coverage does
		if refuses {
			way = w.way
		}
		add("stays-red", refuses, "with the tests as they were the check fails%s: %s%s",
			map[bool]string{true: ", as it did before"}[stays], w.old.Reason(), way)
	}
	return fail
}

// fewer looks at tests that ran before and do not now.
func (w *weighing) fewer(add func(string, bool, string, ...any), fail []string) {
	before, after, old := tests(w.before), tests(w.after), (*results.Set)(nil)
	if w.old != nil {
		old = tests(w.old)
	}
	if before == nil || after == nil {
		return
	}
	lost := without(ranOf(before), ranOf(after))
	n := len(ranOf(before)) + before.More - len(ranOf(after)) - after.More
	off := both(lost, after.Skipped)
	switch {
	case len(lost) == 0 && n <= 0:
	case n > 0 && old != nil && len(without(lost, old.Passed)) == 0 && len(lost) > 0:
		add("lost", false, "%s lost, though the old tests pass: %s", are(n), few(lost))
	case n > 0 && unloaded(old) && len(without(lost, passedOf(before))) == 0: // they are made for what the code was
		add("lost", false, "%s lost that passed, and the old tests do not fit the new code: %s", are(n), few(lost))
	case n > 0 && w.cut:
		add("lost", false, "%s lost, with code that is gone: %s", are(n), few(lost))
	case n > 0:
		way := w.way
		if w.asks {
			way = ""
		}
		add("fewer", !w.asks, "%s lost, and no code is gone: %s%s", are(n), few(lost), way)
	case len(off) == 0 && len(lost) > 0 && (old == nil || len(without(lost, old.Passed)) > 0):
		add("lost", false, "%s ran before and not now: %s", count(len(lost), "test"), few(lost))
	}
	if len(off) > 0 {
		add("skipped", false, "%s skipped now: %s", count(len(off), "test"), few(off))
	}
	if fresh := without(after.Skipped, append(ranOf(before), before.Skipped...)); len(fresh) > 0 && n >= 0 {
		add("skipped", false, "%s added and skipped: %s", count(len(fresh), "test"), few(fresh))
	}
}

// canaries looks at the test that must fail.
func (w *weighing) canaries(add func(string, bool, string, ...any)) {
	if w.canary == nil {
		return
	}
	set := tests(w.canary)
	for _, n := range passedOf(set) {
		if isCanary(n) {
			add("must-fail", true, "a test that must fail passes: the code under test changes how it is judged")
			return
		}
	}
	if len(w.muted) > 0 {
		add("must-fail", true, "a test that must fail does not run, and does on the code as it was: %s", few(w.muted))
	} else if w.canary.Passed {
		add("must-fail", true, "a test that must fail does not make the check fail")
	}
}

// unloaded reports whether some tests could not be built or loaded.
func unloaded(s *results.Set) bool { return s != nil && len(named(s.Failed)) < len(s.Failed) }

// are counts tests, with the verb.
func are(n int) string {
	if n == 1 {
		return "1 test is"
	}
	return fmt.Sprintf("%d tests are", n)
}

func failedOf(s *results.Set) []string {
	if s == nil {
		return nil
	}
	return s.Failed
}

func passedOf(s *results.Set) []string {
	if s == nil {
		return nil
	}
	return s.Passed
}

func has(list []string, name string) bool {
	for _, s := range list {
		if s == name {
			return true
		}
	}
	return false
}
