package gate

import (
	"fmt"
	"slices"
	"strings"

	"descartes/internal/lazyregexp"
	"descartes/internal/oneline"
)

// Clarity is the score of a spec in the five dimensions of the rubric, 0 to 10 points.
type Clarity [5]Dimension

// Dimension is one of them.
type Dimension struct {
	Name    string `json:"name"`
	Points  int    `json:"points"`  // 0 to 2
	Example string `json:"example"` // of what earns 2
}

// Total is the sum of the points.
func (c Clarity) Total() int {
	n := 0
	for _, d := range c {
		n += d.Points
	}
	return n
}

// Lines show the score to people, one line per dimension.
func (c Clarity) Lines() []string {
	var out []string
	for _, d := range c {
		line := fmt.Sprintf("%-11s %d/2", d.Name, d.Points)
		if d.Points < 2 {
			line += "  clearer: " + d.Example
		}
		out = append(out, line)
	}
	return out
}

// Score judges how clear a spec is by what can be counted in it: targets, places, prohibitions, criteria and their
// commands. The same text always gets the same score, and a person can overrule it by choosing the shape.
func Score(spec string, a Asked) Clarity {
	spec = oneline.Clip(spec, 256<<10)
	points := func(two, one bool) int {
		switch {
		case two:
			return 2
		case one:
			return 1
		}
		return 0
	}
	described := len(strings.Fields(spec)) >= enoughWords
	criteria, commands := len(a.Criteria), 0
	for _, c := range a.Criteria {
		if c.Command != "" {
			commands++
		}
	}
	return Clarity{
		{"Outcome", points(targetText.MatchString(spec), described), "p95 latency <100ms"},
		{"Scope", points(placeText.MatchString(linkText.ReplaceAllString(spec, "")), described),
			"Fix /api/auth/token"},
		{"Constraints", min(2, len(limitText.FindAllString(spec, 2))+len(a.MustNot)), "No new deps, <500 LOC"},
		{"Success", min(2, criteria+commands), `--criterion "tests pass :: make test"`},
		{"Done", points(endText.MatchString(spec) || commands > 0 && commands == criteria, criteria > 0),
			"Done when the PR is merged"},
	}
}

// enoughWords is the length of a spec that says more than a wish.
const enoughWords = 6

var (
	// A number that is compared, a share, a measure (100ms), or a literal result (returns 200).
	targetText = lazyregexp.New(
		`[^\s]*\s?[<>≤≥=]\s?\d[^\s]*|\d+(\.\d+)?\s?(%|[a-zµ]{1,4}\b)|(returns|prints|exits with|responds with) \S+`)
	// A path, a file, a function or code in backquotes; not "client/server", whose parts are two words.
	placeText = lazyregexp.New(
		"`[^`\\s]+`|[\\w.-]*/[\\w.-]+/[\\w./-]*|(^|\\s)\\.{0,2}/[\\w./-]+\\w|\\b[\\w-]+/(\\s|$)|\\b[\\w/-]{2,}\\.[a-z]{1,4}\\b|\\w+\\(\\)|\\b[a-z]+_[a-z]\\w*")
	linkText  = lazyregexp.New(`\w+://\S+`)
	limitText = lazyregexp.New(`(?i)\b(no|not|never|without|only|keep|existing)\b[^.,;\n]*|[<≤]\s?\d[^.,;\n]*`)
	endText   = lazyregexp.New(
		`(?i)\b(done|finished|over|complete) (when|once|as soon as)\b[^.\n]*|\buntil\b[^.\n]*|\b(merged|released|deployed)\b[^.\n]*`)
)

// Shape says how much a loop asks along the way.
type Shape string

// The shapes.
const (
	Tool      Shape = "tool"      // runs without a pause, reports at the end
	Colleague Shape = "colleague" // asks at G1, G2 and G3
	Intent    Shape = "intent"    // does not start: the spec must become clearer first
)

// ShapeFor is the shape for a score: Tool from 8, Colleague from 5, Intent below.
func ShapeFor(score int) Shape {
	switch {
	case score >= 8:
		return Tool
	case score >= 5:
		return Colleague
	}
	return Intent
}

// String is the shape's name in announcements.
func (s Shape) String() string {
	first := min(1, len(s))
	return strings.ToUpper(string(s[:first])) + string(s[first:])
}

// VagueError says that a spec is too vague to start with, and what it lacks.
type VagueError struct{ Clarity Clarity }

func (e *VagueError) Error() string {
	return fmt.Sprintf("the spec scores %d of 10 for clarity, and 5 are needed to start:\n  %s", e.Clarity.Total(),
		strings.Join(e.Clarity.Lines(), "\n  "))
}

// SelectShape returns the shape for a score; asked is auto, tool, colleague or intent. auto and intent reject a spec
// below 5 with a *VagueError; intent rejects every spec, since its work is to make one clearer. Asking for tool or
// colleague by name means that the spec is good enough.
func SelectShape(asked string, c Clarity) (Shape, error) {
	switch Shape(asked) {
	case "", "auto":
		if s := ShapeFor(c.Total()); s != Intent {
			return s, nil
		}
		return Intent, &VagueError{c}
	case Tool, Colleague:
		return Shape(asked), nil
	case Intent:
		return Intent, &VagueError{c}
	}
	return "", fmt.Errorf("shape %q: expected auto, tool, colleague or intent", asked)
}

// Reversibility says how hard it would be to undo the work.
type Reversibility string

// The classes.
const (
	Type2A Reversibility = "2A" // under a minute: config changes, renames
	Type2B Reversibility = "2B" // under five minutes: dependencies, refactors
	Type1  Reversibility = "1"  // hours or more: schema changes, public APIs
)

// The table's examples; a spec without any is 2B: a checkpoint at each step costs little.
var (
	type1Text  = lazyregexp.New(`(?i)\b(schemas?|public apis?)\b`)
	type2AText = lazyregexp.New(`(?i)\b(config|configuration|renames?)\b`)
	type2BText = lazyregexp.New(`(?i)\b(dependenc(y|ies)|deps|refactor\w*)\b`)
	negated    = lazyregexp.New(`(?i)\b(no|not|without|never)(\s+\w+){0,3}\s*$`)
)

// Classify derives from a spec how hard it would be to undo.
func Classify(spec string) Reversibility {
	spec = oneline.Clip(spec, 256<<10)
	says := func(text *lazyregexp.Regexp) bool {
		return slices.ContainsFunc(text.FindAllStringIndex(spec, 100),
			func(at []int) bool { return !negated.MatchString(spec[max(0, at[0]-60):at[0]]) })
	}
	switch {
	case says(type1Text):
		return Type1
	case !says(type2BText) && says(type2AText):
		return Type2A
	}
	return Type2B
}

// Checkpoint reports whether to keep the state after each step.
func (r Reversibility) Checkpoint() bool { return r == Type2B || r == Type1 }

// Precheck reports whether somebody else must agree before the first step.
func (r Reversibility) Precheck() bool { return r == Type1 }

// Text describes the class and what it requires.
func (r Reversibility) Text() string {
	return string(r) + map[Reversibility]string{
		Type2A: " (rollback in under a minute): execute freely",
		Type2B: " (rollback in under 5 minutes): a checkpoint at each step",
		Type1:  " (rollback takes hours): a pre-check must agree first, and a checkpoint at each step",
	}[r]
}

// ParseReversibility reads a class as a person writes it.
func ParseReversibility(s string) (Reversibility, error) {
	switch r := Reversibility(strings.ToUpper(strings.TrimSpace(s))); r {
	case Type2A, Type2B, Type1:
		return r, nil
	}
	return "", fmt.Errorf("reversibility %q: expected 2A, 2B or 1", s)
}

// Workflow is the kind of work that a spec asks for.
type Workflow string

// The workflows.
const (
	Build    Workflow = "A"
	Debug    Workflow = "B"
	Refactor Workflow = "C"
)

var (
	buildText    = lazyregexp.New(`(?i)\b(adds?|implements?|creates?|new feature)\b`)
	debugText    = lazyregexp.New(`(?i)\b(fix(es)?|debug|broken|errors?|failing|bugs?)\b`)
	refactorText = lazyregexp.New(`(?i)\b(refactor(s|ing)?|clean ?up|reorganize|migrat(es?|ion))\b`)
)

// DetectWorkflow counts the indicators of each workflow in a spec; among equals the first mentioned wins. A spec
// without any is A.
func DetectWorkflow(spec string) Workflow {
	best, most, first := Build, 0, len(spec)
	for _, kind := range []struct {
		w    Workflow
		text *lazyregexp.Regexp
	}{{Build, buildText}, {Debug, debugText}, {Refactor, refactorText}} {
		if at := kind.text.FindAllStringIndex(oneline.Clip(spec, 256<<10), -1); len(at) > most || len(at) == most &&
			most > 0 && at[0][0] < first {
			best, most, first = kind.w, len(at), at[0][0]
		}
	}
	return best
}

// Name is the workflow with its letter: "A (Build)".
func (w Workflow) Name() string {
	return fmt.Sprintf("%s (%s)", string(w), map[Workflow]string{Build: "Build", Debug: "Debug",
		Refactor: "Refactor"}[w])
}

// Gate is what the workflow requires before its work, as the prompt says it.
func (w Workflow) Gate() string {
	return map[Workflow]string{
		Build:    "Library search required: before you write new code, search the project and the libraries that it uses for what already does the job, and say what you found.",
		Debug:    "Root cause before workaround: reproduce the failure and name its root cause before you change anything; a workaround is not a fix.",
		Refactor: "Deletion before redesign: look first for what can be deleted; redesign only what has to stay. Behaviour stays as it is.",
	}[w]
}

var freelyText = lazyregexp.New(`(?i)\bproceed\s+without\s+confirmation\b`)

// Freely reports whether a spec says "proceed without confirmation" and does not forbid it.
func Freely(spec string) bool {
	at := freelyText.FindStringIndex(oneline.Clip(spec, 256<<10))
	return at != nil && !negated.MatchString(spec[max(0, at[0]-60):at[0]])
}
