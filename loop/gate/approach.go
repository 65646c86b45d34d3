package gate

import (
	"fmt"
	"slices"
	"strings"
)

// Shape says how much a loop asks on its way.
type Shape string

// The shapes.
const (
	Tool      Shape = "tool"      // runs without a pause, reports at the end
	Colleague Shape = "colleague" // asks at G1, G2 and G3
	Intent    Shape = "intent"    // does not start: the spec has to become clearer first
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
	switch s {
	case Tool:
		return "Tool"
	case Colleague:
		return "Colleague"
	case Intent:
		return "Intent"
	}
	return string(s)
}

// VagueError says that a spec is too vague to start with, and what is missing.
type VagueError struct{ Clarity Clarity }

// Error names the score and, per dimension that lacks points, what would earn them.
func (e *VagueError) Error() string {
	var missing []string
	for _, d := range e.Clarity.Dimensions() {
		if d.Points < 2 {
			missing = append(missing, fmt.Sprintf("%s %d/2: %s; say %s", d.Name, d.Points, d.Reason, d.Ask))
		}
	}
	return fmt.Sprintf("the spec scores %d of 10 for clarity, and 5 are needed to start:\n  %s", e.Clarity.Total(), strings.Join(missing, "\n  "))
}

// SelectShape is what asked, one of auto, tool, colleague and intent, comes to for a score. auto and
// intent refuse a spec below 5 with a *VagueError; intent refuses every spec, since its work is to
// make one clearer. Who asks for tool or colleague by name has decided that the spec will do.
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

// Reversibility says how hard it would be to take the work back.
type Reversibility string

// The classes.
const (
	Type2A Reversibility = "2A" // under a minute: config changes, renames
	Type2B Reversibility = "2B" // under five minutes: dependencies, refactors
	Type1  Reversibility = "1"  // hours or more: schema changes, public APIs
)

// Classify reads from a spec how hard it would be to take back, and by which word. What names nothing
// that is known is 2B: a checkpoint at each step costs little.
func Classify(spec string) (Reversibility, string) {
	lines := strings.Join(words(clip(spec, 256<<10)), " ")
	ws := strings.Fields(lines)
	for _, p := range []string{"schema", "schemas", "database migration", "data migration", "migrate the database", "migrate data", "public api", "public apis",
		"public interface", "breaking change", "drop table", "drop column", "delete data", "delete the data", "delete users", "production", "deploy", "deploys",
		"publish", "wire format", "file format", "protocol", "encryption", "billing", "payment", "payments"} {
		if phrase(ws, p) && !negated(ws, p) {
			return Type1, fmt.Sprintf("it speaks of %q", p)
		}
	}
	for _, p := range []string{"dependency", "dependencies", "deps", "upgrade", "refactor", "refactoring", "restructure", "reorganize", "migrate", "rewrite", "replace", "split", "extract"} {
		if phrase(ws, p) && !negated(ws, p) {
			return Type2B, fmt.Sprintf("it speaks of %q", p)
		}
	}
	for _, p := range []string{"config", "configuration", "setting", "settings", "rename", "renames", "typo", "typos", "comment", "comments", "readme", "docs", "documentation", "copy"} {
		if phrase(ws, p) {
			return Type2A, fmt.Sprintf("it speaks of %q", p)
		}
	}
	return Type2B, "it names nothing that is easier or harder to take back"
}

// negated reports whether a phrase is what must not happen: "no new dependencies".
func negated(ws []string, p string) bool {
	want := strings.Fields(p)
	for i := 0; i+len(want) <= len(ws); i++ {
		if slices.Equal(ws[i:i+len(want)], want) && !has(ws[max(0, i-4):i], "no", "not", "without", "never", "don") {
			return false
		}
	}
	return true
}

// Checkpoint reports whether the state is to be kept after each step.
func (r Reversibility) Checkpoint() bool { return r == Type2B || r == Type1 }

// Precheck reports whether somebody else must agree before the first step.
func (r Reversibility) Precheck() bool { return r == Type1 }

// Text is the class with what it asks for.
func (r Reversibility) Text() string {
	switch r {
	case Type2A:
		return "2A (rollback in under a minute): execute freely"
	case Type2B:
		return "2B (rollback in under 5 minutes): a checkpoint at each step"
	case Type1:
		return "1 (rollback takes hours): a pre-check must agree first, and a checkpoint at each step"
	}
	return string(r)
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

// DetectWorkflow counts the indicators of each workflow in a spec; of equal ones the first to be
// named counts. A spec without any is A.
func DetectWorkflow(spec string) Workflow {
	ws := words(clip(spec, 256<<10))
	best, most, first := Build, 0, len(ws)
	for _, kind := range []struct {
		w     Workflow
		words []string
	}{
		{Build, []string{"add", "adds", "implement", "implements", "create", "creates", "new feature"}},
		{Debug, []string{"fix", "fixes", "debug", "broken", "error", "errors", "failing", "bug", "bugs"}},
		{Refactor, []string{"refactor", "refactors", "refactoring", "clean up", "cleanup", "reorganize", "migrate", "migrates", "migration"}},
	} {
		n, at := 0, len(ws)
		for i := range ws {
			for _, p := range kind.words {
				if want := strings.Fields(p); i+len(want) <= len(ws) && slices.Equal(ws[i:i+len(want)], want) {
					n, at = n+1, min(at, i)
				}
			}
		}
		if n > most || n == most && n > 0 && at < first {
			best, most, first = kind.w, n, at
		}
	}
	return best
}

// Name is the workflow with its letter: "A (Build)".
func (w Workflow) Name() string {
	switch w {
	case Build:
		return "A (Build)"
	case Debug:
		return "B (Debug)"
	case Refactor:
		return "C (Refactor)"
	}
	return string(w)
}

// Gate is what the workflow asks for before its work, as the prompt says it.
func (w Workflow) Gate() string {
	switch w {
	case Build:
		return "Library search required: before you write new code, search the project and the libraries that it uses for what already does the job, and say what you found."
	case Debug:
		return "Root cause before workaround: reproduce the failure and name its root cause before you change anything; a workaround is no fix."
	case Refactor:
		return "Deletion before redesign: look first for what can be deleted; redesign only what has to stay. Behaviour stays as it is."
	}
	return ""
}

// Freely reports whether a spec says "proceed without confirmation", and does not forbid it.
func Freely(spec string) bool {
	ws := words(clip(spec, 256<<10))
	const say = "proceed without confirmation"
	return phrase(ws, say) && !negated(ws, say)
}
