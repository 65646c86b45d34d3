package gate

import (
	"fmt"
	"path"
	"slices"
	"strings"
)

// Planner decides, in a build that may plan again, whether the next iteration plans or builds. It
// plans at most every other time, and only once for each spec, so that a gap that planning cannot
// close does not keep the loop from building.
type Planner struct {
	Planned bool     `json:"planned,omitempty"` // the last iteration planned
	Asked   []string `json:"asked,omitempty"`   // specs that it was planned for
}

// Judge reports whether to plan next, and why. plan is nil where there is no IMPLEMENTATION_PLAN.md;
// verifyFails says that the verify command ran and failed; specs are the spec files that there are.
func (p *Planner) Judge(plan *Plan, verifyFails bool, specs []string) (replan bool, why string) {
	last := p.Planned
	p.Planned = false
	if last {
		return false, "the plan has just been made"
	}
	switch {
	case plan == nil:
		why = "there is no plan"
	case len(plan.Open()) == 0 && verifyFails:
		why = "no item of the plan is unchecked, but verify fails"
	default:
		if why = p.gap(plan, slices.Sorted(slices.Values(specs))); why == "" {
			return false, "the plan covers what is known"
		}
	}
	p.Planned = true
	return true, why
}

// gap says which spec and plan do not fit together, and remembers that it did.
func (p *Planner) gap(plan *Plan, specs []string) string {
	ask := func(spec string) bool {
		if slices.Contains(p.Asked, spec) || len(p.Asked) >= 10000 {
			return false
		}
		p.Asked = append(p.Asked, spec)
		return true
	}
	for _, it := range plan.Open() {
		for _, name := range specNames(it) {
			there := slices.ContainsFunc(specs, func(s string) bool { return path.Base(s) == path.Base(name) })
			if !there && ask(name) {
				return fmt.Sprintf("the spec %s, which %q names, is missing", name, oneLine(it.Text, 80))
			}
		}
	}
	for _, missing := range plan.MissingSpecs {
		if ask(missing) {
			return "the plan says that a spec is missing: " + oneLine(missing, 120)
		}
	}
	said := wordingOf(plan)
	for _, spec := range specs {
		if !said.mentions(spec) && ask(spec) {
			return fmt.Sprintf("the plan does not mention the spec %s", spec)
		}
	}
	return ""
}

// wording is what a plan says of each item, as it is compared with the names of specs.
type wording struct {
	text  []string // in lower case
	words []map[string]bool
}

func wordingOf(plan *Plan) *wording {
	w := &wording{}
	for _, it := range plan.Items {
		text := strings.ToLower(it.Section + " " + it.Text + " " + strings.Join(it.Detail, " "))
		set := map[string]bool{}
		for _, word := range words(text) {
			set[word] = true
		}
		w.text, w.words = append(w.text, text), append(w.words, set)
	}
	return w
}

// mentions reports whether a plan speaks of a spec file: by its name, or by all words of it.
func (w *wording) mentions(spec string) bool {
	base := strings.ToLower(path.Base(spec))
	name := words(strings.TrimSuffix(base, path.Ext(base)))
	for i := range w.text {
		missing := slices.ContainsFunc(name, func(word string) bool { return !w.words[i][word] })
		if len(name) > 0 && !missing || strings.Contains(w.text[i], base) {
			return true
		}
	}
	return false
}
