package gate

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"

	"descartes/internal/oneline"
)

func TestParseCriterion(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		in   string
		want Criterion
		err  string
	}{
		{"tests pass", Criterion{Text: "tests pass"}, ""},
		{"tests pass :: make test", Criterion{Text: "tests pass", Command: "make test"}, ""},
		{" tests  pass::make test ", Criterion{Text: "tests pass", Command: "make test"}, ""},
		{"a::b holds :: check a", Criterion{Text: "a::b holds", Command: "check a"}, ""},
		{"", Criterion{}, "no text"},
		{":: make", Criterion{}, "no text"},
		{"tests pass ::", Criterion{}, "no command"},
		{strings.Repeat("x", 2000), Criterion{}, "longer"},
	} {
		got, err := ParseCriterion(c.in)
		if c.err == "" && (err != nil || got != c.want) || c.err != "" &&
			(err == nil || !strings.Contains(err.Error(), c.err)) {
			t.Errorf("%q: got %+v, %v, want %+v, %q", oneline.Clip(c.in, 40), got, err, c.want, c.err)
		}
	}
	if _, err := ParseCriteria([]string{"Tests pass", "tests  PASS :: x"}); err == nil ||
		!strings.Contains(err.Error(), "same name") {
		t.Errorf("two of one name: %v", err)
	}
}

func TestParseYAML(t *testing.T) {
	t.Parallel()
	want := Asked{Criteria: []Criterion{{Text: "tests pass", Command: "make test"},
		{Text: "UI renders", Verification: "observation"}}}
	for _, src := range []string{
		"- tests pass :: make test\n- {text: UI renders, verification: observation}\n",
		"- \"tests pass :: make test\"\n- criterion: UI renders\n  verification: observation\n",
		"criteria:\n  - text: tests pass\n    command: make test\n  - UI renders\nverification:\n  UI renders: observation\n",
	} {
		got, err := ParseYAML([]byte(src))
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%q: got %+v, %v", src, got, err)
		}
	}
	got, err := ParseYAML([]byte("criteria: [a]\nmustNot:\n- secrets in code :: grep -rq SECRET .\n"))
	if err != nil || len(got.MustNot) != 1 || got.MustNot[0].Command != "grep -rq SECRET ." {
		t.Errorf("mustNot: got %+v, %v", got, err)
	}
	for src, says := range map[string]string{
		"":                           "empty",
		"a: b":                       "names no criterion",
		"- [a]":                      "line 1: expected a text",
		"- a\n- A":                   "same name",
		"- {text: a, wrong: b}":      `unknown key "wrong"`,
		"criteria: yes":              "expected a list",
		"\t- a":                      "read criteria",
		"hello":                      "expected a list of criteria",
		"- &x [*x]":                  "expected a text",
		strings.Repeat("- a\n", 3e5): "larger than 1 MiB",
	} {
		if _, err := ParseYAML([]byte(src)); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: got %v, want %q", oneline.Clip(src, 40), err, says)
		}
	}
}

func TestParseShape(t *testing.T) {
	t.Parallel()
	want := Asked{
		Criteria: []Criterion{{Text: "tests pass", Command: "npm test", Verification: "execution output"},
			{Text: "UI: it renders", Verification: "observation"}},
		MustNot: []Criterion{{Text: "new dependencies"}},
	}
	for name, text := range map[string]string{
		"plain": "criteria:\n- tests pass :: npm test\n- \"UI: it renders\"\n\nmustNot:\n- new dependencies\n\nverification:\n- tests pass: execution output\n- \"UI: it renders\": observation\n",
		"fenced": "# Shape: x\n\n## Implementation Criteria\n\nMachine-verifiable conditions:\n\n```yaml\ncriteria:\n  - \"tests pass\"\n  - 'UI: it renders'\n```\n\n### Criteria Details\n\n" +
			"| Criterion | Verification Type | Command/Method |\n|---|---|---|\n| tests pass | execution output | `npm test` |\n| UI: it renders | observation | " + "`look`" + " |\n\n" +
			"## Must-NOT Constraints\n\nThings to avoid:\n\n```yaml\nmustNot:\n  - \"new dependencies\"\n```\n\n### Why These Constraints\n\n| Constraint | Rationale |\n|---|---|\n| new dependencies | x |\n\n## Risk Assessment\n\n- nothing\n",
		"headings": "## Criteria\n- [ ] tests pass :: npm test\n- [ ] UI: it renders\n## mustNot\n- new dependencies\n## Verification\n\n| Criterion | Type |\n|:--|:-:|\n| tests pass | execution output |\n| UI: it renders | observation |\n",
		"returns":  "criteria:\r\n- tests pass :: npm test\r\n- UI: it renders\r\nmustNot:\r\n- new dependencies\r\nverification:\r\n  tests pass: execution output\r\n  UI: it renders: observation\r\n",
	} {
		got, err := ParseShape(text)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %+v, %v, want %+v", name, got, err, want)
		}
	}
	for text, says := range map[string]string{"": "has no criteria", "criteria:\n": "has no criteria",
		"criteria:\n- a\n- A\n": "same name", "criteria:\n- :: x\n": "no text"} {
		if _, err := ParseShape(text); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: got %v, want %q", text, err, says)
		}
	}
}

const seedState = `{
  "spec": "original user request verbatim",
  "criteria": [
    "tests pass",
    "all routes refactored",
    "no lint errors"
  ],
  "criteriaStatus": {
    "tests pass": false,
    "all routes refactored": false,
    "no lint errors": true
  },
  "exit_signal": false,
  "steps": [
    "step1",
    "step2",
    "step3"
  ],
  "completedSteps": [
    "step1"
  ],
  "remainingSteps": [
    "step2",
    "step3"
  ],
  "iteration": 2,
  "status": "in_progress",
  "circuitBreaker": {
    "stuckCount": 0,
    "lastUnmet": "tests pass"
  }
}
`

func TestStateOfTheExample(t *testing.T) {
	t.Parallel()
	s, problems, err := DecodeState([]byte(seedState))
	if err != nil || len(problems) > 0 {
		t.Fatalf("%v, %q", err, problems)
	}
	if s.Iteration != 2 || !s.Status["no lint errors"].Met || s.Breaker.LastUnmet != "tests pass" ||
		len(s.Remaining) != 2 {
		t.Errorf("got %+v", s)
	}
	var got, want any
	if err := errors.Join(json.Unmarshal(s.Encode(nil), &got), json.Unmarshal([]byte(seedState), &want)); err != nil ||
		!reflect.DeepEqual(got, want) {
		t.Errorf("got back %v, %v", got, err)
	}
}

func TestStateForms(t *testing.T) {
	t.Parallel()
	in := `{"criteria":["b","a"],"criteriaStatus":{"a":{"met":true,"verification":"observation","by":"me"},"b":false},"mine":{"x":[1,2]},"circuitBreaker":{"stuckCount":1,"lastUnmet":"b","why":"<x>"}}`
	s, problems, err := DecodeState([]byte(in))
	if err != nil || len(problems) > 0 {
		t.Fatalf("%v, %q", err, problems)
	}
	if m := s.Status["a"]; !m.Met || m.Verification != "observation" {
		t.Errorf("got %+v", m)
	}
	out := string(s.Encode([]byte(in)))
	for _, kept := range []string{`"by": "me"`, `"mine"`, `"why": "<x>"`} {
		if !strings.Contains(out, kept) {
			t.Errorf("%s is lost: %s", kept, out)
		}
	}
	for in, n := range map[string]int{
		`{"iteration":"two","criteria":5}`:                       1,
		`{"criteriaStatus":{"a":"yes","b":null,"c":{"met":1}}}`:  3,
		`{"criteriaStatus":[],"circuitBreaker":7}`:               1,
		`{"criteriaStatus":{"a":{"met":true,"verification":5}}}`: 1,
		`{"spec":null}`: 0,
	} {
		if s, problems, err := DecodeState([]byte(in)); err != nil || len(problems) != n || s.Status["a"].Met &&
			n != 1 {
			t.Errorf("%s: got %+v, %q, %v, want %d problems", in, s, problems, err, n)
		}
	}
	for _, in := range []string{"", "null", "[]", "{", `"x"`, "{}x"} {
		if _, _, err := DecodeState([]byte(in)); err == nil || !strings.Contains(err.Error(), "not a JSON object") {
			t.Errorf("%q: got %v", in, err)
		}
	}
}

func FuzzDecodeState(f *testing.F) {
	f.Add([]byte(seedState))
	f.Add([]byte(`{"criteriaStatus":{"a":{"met":true,"x":1}},"y":[null]}`))
	f.Fuzz(func(t *testing.T, in []byte) {
		s, _, err := DecodeState(in)
		if err != nil {
			return
		}
		once := s.Encode(in)
		again, _, err := DecodeState(once)
		if err != nil {
			t.Fatalf("%s: %v", once, err)
		}
		if twice := again.Encode(once); string(twice) != string(once) {
			t.Errorf("encoded %s, then %s", once, twice)
		}
	})
}

func FuzzParseShape(f *testing.F) {
	f.Add("criteria:\n- a :: b\nmustNot:\n- c\nverification:\n| a | b | `c` |\n")
	f.Add("```yaml\ncriteria:\n  - \"a\"\n```\n\"a\": {\"verification\": \"x\"}")
	f.Fuzz(func(t *testing.T, text string) {
		if a, err := ParseShape(text); err == nil {
			for _, c := range append(a.Criteria, a.MustNot...) {
				if c.Text == "" {
					t.Error("a criterion without text")
				}
			}
		}
	})
}

// FuzzParseYAML: what is read of a file of criteria is a list that a loop can work with, with texts and bounded.
func FuzzParseYAML(f *testing.F) {
	for _, text := range []string{"- tests pass :: make test\n- a: b\n- text: lint clean\n  run: make lint\n",
		"criteria: &a [x, {criterion: y, verification: read it}]\nmustNot: *a\nverification: {x: see}\n",
		"must-not:\n- TODO left :: grep -r TODO .\n", "a: &a [*a]\n", "- !!binary x\n- [a]\n- ? {b: c}\n  : d\n", "--- 1\n"} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		a, err := ParseYAML(text)
		if err != nil {
			return
		}
		if err := CheckCriteria(a.Criteria); err != nil || len(a.Criteria) == 0 {
			t.Errorf("%q: read %+v: %v", text, a, err)
		}
		for _, c := range append(a.Criteria, a.MustNot...) {
			if c.Text == "" || len(c.Text) > maxText {
				t.Errorf("%q: a criterion %+v", text, c)
			}
		}
	})
}
