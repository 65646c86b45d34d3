package gate

import (
	"errors"
	"strings"
	"testing"
)

// The cells of the rubric that a spec fills by itself: each alone gives its column's points. What is not in a list or
// a command is counted for no success.
func TestClarityRubric(t *testing.T) {
	t.Parallel()
	one, two := []Criterion{{Text: "tests pass"}}, []Criterion{{Text: "tests pass"}, {Text: "manual QA"}}
	for _, c := range []struct {
		row    string
		of     int
		points [3]string
		asked  [3]Asked
	}{
		{"Outcome", 0, [3]string{"Make it better", "Improve the performance of our login page", "p95 latency <100ms"},
			[3]Asked{}},
		{"Scope", 1, [3]string{"Fix the app", "Fix what is broken in auth", "Fix /api/auth/token"}, [3]Asked{}},
		{"Constraints", 2, [3]string{"", "Use existing stack", "No new deps, <500 LOC"}, [3]Asked{}},
		{"Success", 3, [3]string{}, [3]Asked{{}, {Criteria: one}, {Criteria: two}}},
		{"Done", 4, [3]string{"Make it better", "", "PR merged to main"}, [3]Asked{{}, {Criteria: one}, {}}},
	} {
		for want, spec := range c.points {
			d := Score(spec, c.asked[want])[c.of]
			if d.Points != want || d.Name != c.row {
				t.Errorf("%s of %q: got %+v, want %d", c.row, spec, d, want)
			}
		}
	}
}

func TestClarityOfWholeSpecs(t *testing.T) {
	t.Parallel()
	one := []Criterion{{Text: "tests pass"}}
	bound := []Criterion{{Text: "tests pass", Command: "make test"}, {Text: "lint clean", Command: "make lint"}}
	for _, c := range []struct {
		spec  string
		asked Asked
		total int
		shape Shape
	}{
		{"Make it better. Fix the app.", Asked{Criteria: one}, 4, Intent},
		{"Make the app faster", Asked{Criteria: one}, 2, Intent},
		{"", Asked{}, 0, Intent},
		{"Improve the performance of our auth. Use existing stack.", Asked{Criteria: one}, 5, Colleague},
		{"p95 latency <100ms. Fix /api/auth/token. No new deps, <500 LOC. PR merged to main.", Asked{Criteria: bound},
			10, Tool},
		{"Migrate all useState hooks in /components to the new pattern. No new dependencies. Done when the PR is ready for review.", Asked{Criteria: bound}, 8, Tool},
		{"Implement authentication for the pages of administrators", Asked{Criteria: bound}, 6, Colleague},
	} {
		got := Score(c.spec, c.asked)
		if got.Total() != c.total || ShapeFor(got.Total()) != c.shape {
			t.Errorf("%q: got %d, want %d\n%s", c.spec, got.Total(), c.total, strings.Join(got.Lines(), "\n"))
		}
	}
}

// The rows of the seed's decision by score, and what --shape makes of them.
func TestShapeSelection(t *testing.T) {
	t.Parallel()
	clarity := func(total int) Clarity {
		var c Clarity
		for i := range c {
			c[i].Points = min(2, total)
			total -= c[i].Points
		}
		return c
	}
	for score, want := range []Shape{Intent, Intent, Intent, Intent, Intent, Colleague, Colleague, Colleague, Tool,
		Tool, Tool} {
		got, err := SelectShape("auto", clarity(score))
		var vague *VagueError
		if got != want || (want == Intent) != errors.As(err, &vague) {
			t.Errorf("auto at %d: got %s, %v, want %s", score, got, err, want)
		}
		for _, asked := range []Shape{Tool, Colleague} {
			if got, err := SelectShape(string(asked), clarity(score)); got != asked || err != nil {
				t.Errorf("%s at %d: got %s, %v", asked, score, got, err)
			}
		}
		if _, err := SelectShape("intent", clarity(score)); !errors.As(err, &vague) {
			t.Errorf("intent at %d: got %v, want it refused", score, err)
		}
	}
	if _, err := SelectShape("hammer", Clarity{}); err == nil {
		t.Error("an unknown shape is taken")
	}
	_, err := SelectShape("auto", Score("Fix auth", Asked{Criteria: []Criterion{{Text: "a"}}}))
	if err == nil || !strings.Contains(err.Error(), "2 of 10") ||
		!strings.Contains(err.Error(), "Constraints 0/2  clearer: No new deps") {
		t.Errorf("got %v, want the score and what is missing", err)
	}
}

// The rows of the seed's reversibility table.
func TestReversibilityTable(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		row, spec            string
		want                 Reversibility
		checkpoint, precheck bool
	}{
		{"2A config changes", "change the config of the linter", Type2A, false, false},
		{"2A renames", "rename the helper", Type2A, false, false},
		{"2B dependencies", "upgrade all dependencies", Type2B, true, false},
		{"2B refactors", "refactor the parser", Type2B, true, false},
		{"1 schema changes", "add a column to the schema", Type1, true, true},
		{"1 public APIs", "change the public API of the client", Type1, true, true},
		{"2B where nothing is known", "add a page", Type2B, true, false},
		{"what must not happen does not count", "rename the helper, no schema change, no new dependencies", Type2A,
			false, false},
	} {
		got := Classify(c.spec)
		if got != c.want || got.Checkpoint() != c.checkpoint || got.Precheck() != c.precheck ||
			!strings.HasPrefix(got.Text(), string(got)) {
			t.Errorf("%s: got %s, want %s", c.row, got, c.want)
		}
	}
	if r, err := ParseReversibility(" 2b "); r != Type2B || err != nil {
		t.Errorf("got %s, %v", r, err)
	}
	if _, err := ParseReversibility("3"); err == nil {
		t.Error("class 3 is taken")
	}
}

// The rows of the seed's workflow table.
func TestWorkflowTable(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		spec string
		want Workflow
		gate string
	}{
		{"add a page", Build, "Library search required"},
		{"implement a page", Build, "Library search required"},
		{"create a page", Build, "Library search required"},
		{"a new feature for pages", Build, "Library search required"},
		{"fix the page", Debug, "Root cause before workaround"},
		{"debug the page", Debug, "Root cause before workaround"},
		{"the page is broken", Debug, "Root cause before workaround"},
		{"the page shows an error", Debug, "Root cause before workaround"},
		{"failing tests", Debug, "Root cause before workaround"},
		{"refactor the page", Refactor, "Deletion before redesign"},
		{"clean up the page", Refactor, "Deletion before redesign"},
		{"reorganize the pages", Refactor, "Deletion before redesign"},
		{"migrate the pages", Refactor, "Deletion before redesign"},
		{"fix the page and add a test", Debug, "Root cause before workaround"},
		{"refactor and clean up, then add a test", Refactor, "Deletion before redesign"},
		{"address the prefix", Build, "Library search required"},
	} {
		got := DetectWorkflow(c.spec)
		if got != c.want || !strings.HasPrefix(got.Gate(), c.gate) || !strings.HasPrefix(got.Name(), string(got)) {
			t.Errorf("%q: got %s, %q, want %s", c.spec, got, got.Gate(), c.want)
		}
	}
}

func TestScopeNamesAPlace(t *testing.T) {
	t.Parallel()
	for spec, want := range map[string]int{
		"Fix main.go": 2, "Fix src/auth.ts": 2, "Fix ./run": 2, "Fix a/b/c": 2, "Fix parseToken()": 2,
		"Fix `Parse`": 2, "Fix parse_token": 2, "Fix docs/": 2,
		"Fix client/server talk": 0, "Fix CI/CD jobs": 0, "Fix login, e.g. at night": 0, "Fix version 1.2 login": 0,
		"Fix login, see https://example.com/a/b/c": 0,
		"Fix everything in the whole old project":  1,
	} {
		if d := Score(spec, Asked{})[1]; d.Points != want {
			t.Errorf("%q: got %d, want %d", spec, d.Points, want)
		}
	}
}

func FuzzScore(f *testing.F) {
	f.Add("p95 latency <100ms. Fix /api/auth/token.")
	f.Fuzz(func(t *testing.T, spec string) {
		c := Score(spec, Asked{})
		for _, d := range c {
			if d.Points < 0 || d.Points > 2 {
				t.Errorf("%+v", d)
			}
		}
		if c != Score(spec, Asked{}) {
			t.Error("the same spec scores differently")
		}
		Classify(spec)
		DetectWorkflow(spec)
	})
}

func TestFreely(t *testing.T) {
	t.Parallel()
	for spec, want := range map[string]bool{
		"Fix it. Proceed without confirmation.":        true,
		"Never proceed without confirmation.":          false,
		"Do not proceed without confirmation from me.": false,
		"Fix it.": false, "proceed": false, "": false,
	} {
		if got := Freely(spec); got != want {
			t.Errorf("%q: got %v", spec, got)
		}
	}
}
