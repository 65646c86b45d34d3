package gate

import (
	"fmt"
	"slices"
	"strings"
)

// Dimension is one of the five by which the clarity of a spec is scored.
type Dimension struct {
	Name   string
	Points int    // 0 to 2
	Reason string // what in the spec earned them
	Ask    string // what would earn more; "" at 2
}

// Clarity is the score of a spec: 0 to 10 points.
type Clarity struct {
	Outcome, Scope, Constraints, Success, Done Dimension
}

// Dimensions are the five in their order.
func (c Clarity) Dimensions() []Dimension {
	return []Dimension{c.Outcome, c.Scope, c.Constraints, c.Success, c.Done}
}

// Total is the sum of the points.
func (c Clarity) Total() int {
	n := 0
	for _, d := range c.Dimensions() {
		n += d.Points
	}
	return n
}

// Lines are the score for people: one line per dimension.
func (c Clarity) Lines() []string {
	var out []string
	for _, d := range c.Dimensions() {
		line := fmt.Sprintf("%-11s %d/2  %s", d.Name, d.Points, d.Reason)
		if d.Ask != "" {
			line += " (clearer: " + d.Ask + ")"
		}
		out = append(out, line)
	}
	return out
}

// Score judges how clear a spec is, by its text and by the criteria and conditions that come with it.
// It is a rule of thumb made of words, the same for the same text: what it cannot see, a person says
// by choosing the shape.
func Score(spec string, a Asked) Clarity {
	r := read(spec)
	for _, c := range a.Criteria {
		r.add(c.Text)
	}
	return Clarity{Outcome: r.outcome(), Scope: r.scope(), Constraints: r.constraints(a), Success: r.success(a), Done: r.done(a)}
}

// specText is a spec in clauses, each in lower case words and as it was written.
type specText struct {
	raw     []string
	clauses [][]string
}

func read(spec string) *specText {
	r := &specText{}
	r.add(clip(spec, 256<<10))
	return r
}

func (r *specText) add(text string) {
	for line := range strings.SplitSeq(text, "\n") {
		for _, c := range sentences(line) {
			c = strings.TrimSpace(c)
			if ws := words(c); len(ws) > 0 {
				r.raw, r.clauses = append(r.raw, c), append(r.clauses, ws)
			}
		}
	}
}

// find is the first clause for which ok holds, shortened for a reason.
func (r *specText) find(ok func(i int) bool) (string, bool) {
	for i := range r.clauses {
		if ok(i) {
			return fmt.Sprintf("%q", oneLine(r.raw[i], 80)), true
		}
	}
	return "", false
}

func has(ws []string, any ...string) bool {
	return slices.ContainsFunc(ws, func(w string) bool { return slices.Contains(any, w) })
}

// phrase reports whether text stands in ws, word by word.
func phrase(ws []string, text string) bool {
	want := strings.Fields(text)
	for i := 0; i+len(want) <= len(ws); i++ {
		if slices.Equal(ws[i:i+len(want)], want) {
			return true
		}
	}
	return false
}

func (r *specText) outcome() Dimension {
	d := Dimension{Name: "Outcome", Ask: `a result that can be measured, as in "p95 latency <100ms"`}
	if text, ok := r.find(func(i int) bool { return measured(r.raw[i], r.clauses[i]) }); ok {
		return Dimension{d.Name, 2, "measurable: " + text, ""}
	}
	if text, ok := r.find(func(i int) bool { return has(r.clauses[i], metrics()...) || len(target(r.clauses[i])) > 0 }); ok {
		d.Points, d.Reason = 1, "says what is to change, not how much: "+text
		return d
	}
	d.Reason = "no result is named"
	return d
}

// measured reports whether a clause has a target: a number that is not a size of the change itself, a
// change from one thing to another, or a literal result.
func measured(raw string, ws []string) bool {
	if has(ws, "loc", "lines", "deps", "dependencies", "files") {
		return false
	}
	number := strings.ContainsAny(raw, "0123456789")
	switch {
	case number && (strings.ContainsAny(raw, "<>≤≥%=") || has(ws, "under", "below", "above", "least", "most", "than", "within", "exactly", "returns", "return", "status", "responds", "code", "exit", "ms")):
		return true
	case has(ws, "returns", "prints", "responds", "outputs") && strings.ContainsAny(raw, "`\""):
		return true
	case has(ws, "replace", "migrate", "rename", "convert", "move") && has(ws, "with", "to", "by", "into"):
		return true
	}
	return false
}

func (r *specText) scope() Dimension {
	d := Dimension{Name: "Scope", Ask: `the files, functions or paths, as in "Fix /api/auth/token"`}
	if text, ok := r.find(func(i int) bool { return located(r.raw[i]) }); ok {
		return Dimension{d.Name, 2, "names a place: " + text, ""}
	}
	if text, ok := r.find(func(i int) bool {
		return slices.ContainsFunc(target(r.clauses[i]), func(w string) bool { return len(w) > 2 && !slices.Contains(metrics(), w) })
	}); ok {
		d.Points, d.Reason = 1, "names a part: "+text
		return d
	}
	d.Reason = "no part of the project is named"
	return d
}

func (r *specText) constraints(a Asked) Dimension {
	d := Dimension{Name: "Constraints", Ask: `what must not change or grow, as in "No new deps, <500 LOC"`}
	var general, exact []string
	for i, ws := range r.clauses {
		number := strings.ContainsAny(r.raw[i], "0123456789")
		noWhat := slices.Index(ws, "no")
		switch {
		case number && has(ws, "loc", "lines", "files", "deps", "dependencies", "mb", "kb"),
			noWhat >= 0 && noWhat+1 < len(ws) && (has(ws, "new", "breaking", "changes", "other", "external", "additional") && len(ws) <= 12),
			has(ws, "without") && has(ws, "changing", "breaking", "adding", "touching", "new"),
			phrase(ws, "do not") && has(ws, "change", "touch", "modify", "add", "break"), phrase(ws, "don t") && has(ws, "change", "touch", "modify", "add", "break"),
			has(ws, "compatible", "compatibility"), phrase(ws, "must not"):
			exact = append(exact, r.raw[i])
		case has(ws, "existing", "keep", "preserve", "only", "unchanged", "conventions") || has(ws, "without"):
			general = append(general, r.raw[i])
		}
	}
	switch n := len(exact) + len(general); {
	case len(a.MustNot) > 1 || len(a.MustNot) == 1 && (n > 0 || a.MustNot[0].Command != ""):
		d.Points, d.Reason = 2, fmt.Sprintf("%s that must not become true", count(len(a.MustNot), "condition"))
	case len(exact) > 0:
		d.Points, d.Reason = 2, fmt.Sprintf("explicit: %q", oneLine(exact[0], 80))
	case n > 1:
		d.Points, d.Reason = 2, fmt.Sprintf("%d constraints: %q and others", n, oneLine(general[0], 80))
	case n == 1:
		d.Points, d.Reason = 1, fmt.Sprintf("general: %q", oneLine(general[0], 80))
	case len(a.MustNot) == 1:
		d.Points, d.Reason = 1, fmt.Sprintf("must not be: %q", oneLine(a.MustNot[0].Text, 80))
	default:
		d.Reason = "none stated"
	}
	if d.Points == 2 {
		d.Ask = ""
	}
	return d
}

func (r *specText) success(a Asked) Dimension {
	d := Dimension{Name: "Success", Ask: `a second way to verify, or criteria with commands, as in --criterion "tests pass :: make test"`}
	var ways []string
	way := func(w string) {
		if !slices.Contains(ways, w) {
			ways = append(ways, w)
		}
	}
	for i, ws := range r.clauses {
		if has(ws, "test", "tests", "suite", "spec") && has(ws, "pass", "passes", "passing", "green", "succeed", "succeeds", "all", "existing", "run") {
			way("tests")
		}
		for _, w := range ws {
			switch w {
			case "lint", "linter", "typecheck", "benchmark", "coverage", "ci", "qa", "screenshot", "e2e", "compiles", "latency", "p95", "p99":
				way(w)
			case "manual", "manually":
				way("qa")
			}
		}
		if has(ws, "returns", "responds", "prints") && measured(r.raw[i], ws) {
			way("a literal result")
		}
	}
	bound := len(ways)
	for _, c := range a.Criteria {
		if c.Command != "" {
			bound++
		}
	}
	switch {
	case bound > 1 || len(a.Criteria) > 1:
		d.Points, d.Ask = 2, ""
		d.Reason = "more than one way to verify"
	case len(ways) == 1 || len(a.Criteria) == 1:
		d.Points, d.Reason = 1, "one way to verify"
	default:
		d.Reason = "none stated"
	}
	if len(ways) > 0 {
		d.Reason += ": " + strings.Join(ways, ", ")
	} else if n := len(a.Criteria); n > 0 {
		d.Reason += ": " + fmt.Sprintf("%d given as criteria", n)
	}
	return d
}

func (r *specText) done(a Asked) Dimension {
	d := Dimension{Name: "Done", Ask: `the point at which it is over, as in "PR merged to main"`}
	if text, ok := r.find(func(i int) bool {
		ws := r.clauses[i]
		return has(ws, "merged", "deployed", "released", "published", "pushed", "committed", "shipped", "tagged") ||
			has(ws, "pr", "release", "branch") && has(ws, "open", "opened", "ready", "review", "approved")
	}); ok {
		return Dimension{d.Name, 2, "an observable end: " + text, ""}
	}
	bound := len(a.Criteria) > 0
	for _, c := range a.Criteria {
		bound = bound && c.Command != ""
	}
	if bound {
		return Dimension{d.Name, 2, "every criterion has a command that decides", ""}
	}
	text, ok := r.find(func(i int) bool {
		ws := r.clauses[i]
		return has(ws, "when", "until", "once") && has(ws, "work", "works", "done", "finished", "complete", "it", "all", "pass", "passes", "green") ||
			phrase(ws, "is done") || has(ws, "promise")
	})
	switch {
	case ok:
		d.Points, d.Reason = 1, "a vague end: "+text
	case len(a.Criteria) > 0:
		d.Points, d.Reason = 1, "when the criteria are met, by the agent's word"
	default:
		d.Reason = "implied"
	}
	return d
}
