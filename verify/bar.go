package verify

import (
	"fmt"
	"slices"
	"strings"

	"descartes/internal/lazyregexp"
	"descartes/verify/results"
)

// Bar is what a check must meet besides its exit status: what was known about it before the work. It survives JSON.
type Bar struct {
	Before *results.Set `json:"before,omitempty"` // nil: its tests are unknown
	Ran    bool         `json:"ran,omitempty"`    // it did run
	Failed bool         `json:"failed,omitempty"` // and did not pass
	Known  bool         `json:"known,omitempty"`  // what failed before may fail
	Fewer  bool         `json:"fewer,omitempty"`  // fewer tests than before, or none, are allowed
	Judged bool         `json:"judged,omitempty"` // package judge looks at those that are gone
	Red    []string     `json:"red,omitempty"`    // tests that may fail: the trunk has them so
}

// Measure judges a result by a bar. A pass becomes a failure if no tests ran, fewer than before, or more fail; a
// failure becomes a pass if all that fails had failed before. A check that was ended or cancelled stays as it is.
func (r *Result) Measure(b *Bar) {
	if r.Cancelled || r.TimedOut || r.Overran != "" || r.Signal != 0 {
		return
	}
	if b.Before != nil && r.Tests != nil {
		r.Change = results.Compare(b.Before, r.Tests)
		r.Change.Broken = slices.DeleteFunc(r.Change.Broken, b.isRed)
	}
	if r.Passed {
		r.Why = r.lacks(b)
		r.Passed = r.Why == ""
		return
	}
	switch {
	case r.Tests != nil && len(r.Tests.Failed) > 0 && (r.Change == nil || r.Change.Fewer == 0 || b.Fewer || b.Judged) &&
		!slices.ContainsFunc(r.Tests.Failed, func(name string) bool { return !b.isRed(name) }):
		r.Passed, r.Known, r.Why = true, len(r.Tests.Failed), ""
	case !b.Known || !b.Failed:
	case b.Before == nil && r.Tests == nil:
		r.Passed, r.Standing, r.Why = true, true, ""
	case r.Change != nil && len(r.Tests.Failed) > 0 && len(r.Change.Broken) == 0 && (r.Change.Fewer == 0 || b.Fewer || b.Judged):
		r.Passed, r.Known, r.Why = true, len(r.Tests.Failed), ""
	case r.Change != nil && len(r.Change.Broken) > 0:
		r.Why = fmt.Sprintf("%s that did not fail before: %s", count(len(r.Change.Broken), "test fails", "tests fail"),
			few(r.Change.Broken))
	}
}

func (b *Bar) isRed(test string) bool { return slices.Contains(b.Red, test) }

// lacks says what a pass by exit status lacks, or returns "".
func (r *Result) lacks(b *Bar) string {
	before := 0
	if b.Before != nil {
		before = b.Before.Ran()
	}
	switch {
	case r.Change != nil && len(r.Change.Broken) > 0:
		return fmt.Sprintf("%s that did not fail before, though it ends with exit status 0: %s",
			count(len(r.Change.Broken), "test fails", "tests fail"), few(r.Change.Broken))
	case b.Fewer:
		return ""
	case r.Unread != "":
		return "no tests ran: " + r.Unread
	case r.Cut && before > 0:
		return fmt.Sprintf("it ran %d tests before, and now prints more than the log may hold (max_log)", before)
	case r.Tests == nil && before > 0:
		return fmt.Sprintf("no tests ran: it ran %d before, and now prints no results", before)
	case r.Tests != nil && r.Tests.Ran() == 0:
		return "no tests ran"
	case r.Change != nil && r.Change.Fewer > 0 && !b.Judged:
		gone := r.Change.Gone
		if gone == nil {
			return fmt.Sprintf("%s gone: %d ran, %d before", count(r.Change.Fewer, "test is", "tests are"),
				r.Tests.Ran(), before)
		}
		return fmt.Sprintf("%s gone: %s", count(len(gone), "test is", "tests are"), few(gone))
	}
	return ""
}

// What runners print that found no tests, and what those print that ran some.
var (
	noneRan = lazyregexp.New(
		`(?m)^(?:=* ?no tests ran\b|no packages to test|go: warning: .* matched no packages|Ran 0 tests in |NO TESTS RAN|No tests? found|No test files found|\?\s+\S+\s+\[no test files\])`)
	someRan = lazyregexp.New(`(?m)^(?:ok\s|--- |PASS\b|FAIL\b|Ran [1-9])`)
)

// NoTests reports whether a check found no tests to run, as far as its output tells.
func (r *Result) NoTests() bool {
	if r.Tests != nil {
		return r.Tests.Ran() == 0
	}
	return r.Unread != "" || noneRan.MatchString(r.Tail) && !someRan.MatchString(r.Tail)
}

// Remark is a remark on a pass, or "".
func (r *Result) Remark() string {
	var list []string
	if r.Standing {
		list = append(list, "it fails as before")
	}
	if r.Known > 0 {
		list = append(list, count(r.Known, "known failure", "known failures")+", none new")
	}
	if r.Tries > 1 {
		list = append(list, "flaky: "+fmt.Sprintf("passed in run %d", r.Tries))
	}
	return strings.Join(list, "; ")
}

// Grade says how much a pass proves.
type Grade string

// Accepted is the grade of work that a person accepted.
const Accepted Grade = "accepted"

// RegressionOnly is the grade of an attempt that is known to have turned no test from red to green and added none.
const RegressionOnly Grade = "regression only"

// Better reports whether a test went from red to green or was added; known says whether that can be determined.
func (r *Result) Better() (better, known bool) {
	return r.Change != nil && r.Change.Better(), r.Change != nil
}

// Again combines the result with that of an earlier, failed run: tests that failed then and pass now are flaky.
func (r *Result) Again(before *Result, tries int) {
	r.Tries, r.Flaky = tries, before.Flaky
	if !r.Passed || before.Tests == nil || r.Tests == nil {
		return
	}
	for _, name := range before.Tests.Failed {
		if _, fails := slices.BinarySearch(r.Tests.Failed, name); !fails {
			r.Flaky = append(r.Flaky, name)
		}
	}
	slices.Sort(r.Flaky)
	r.Flaky = slices.Compact(r.Flaky)
}

// count prints a number with its noun.
func count(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

const fewest = 3

// few lists the first names.
func few(list []string) string {
	s := strings.Join(list[:min(fewest, len(list))], ", ")
	if n := len(list) - fewest; n > 0 {
		s += fmt.Sprintf(" and %d more", n)
	}
	return s
}
