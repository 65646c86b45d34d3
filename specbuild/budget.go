package specbuild

import (
	"fmt"
	"slices"
	"strings"

	"descartes/tasks/plan"
)

// minSection is the least that a cut leaves of a plan section, unless it leaves nothing: less would mislead.
const minSection = 400

// fit leaves out parts of the draft, the least specific first, until its text fits. Each step leaves one thing out and
// names it, or returns "" if there is nothing to leave out.
func (d *draft) fit(spec Spec) Spec {
	s := d.section
	if s == nil {
		s = &plan.Section{}
	}
	file := ""
	if d.Plan != nil {
		file = d.Plan.Name
	}
	steps := []func() string{
		func() string {
			return drop(s.Overview != nil || s.Outline != "", "outline of "+file,
				func() { s.Overview, s.Outline = nil, "" })
		},
		func() string {
			return drop(len(s.General) > 0, "what "+file+" says of every task", func() { s.General = nil })
		},
		func() string {
			return drop(len(d.besideGeneral) > 0, "what the documents beside the list say of every task",
				func() { d.besideGeneral = nil })
		},
	}
	for n := len(d.Files) - 1; n >= 0; n-- {
		steps = append(steps, func() string { return drop(true, d.Files[n].Name, func() { d.Files = d.Files[:n] }) })
	}
	steps = append(steps,
		func() string {
			return drop(len(d.besideOwn) > 0, "what the documents beside the list say of this task",
				func() { d.besideOwn = nil })
		},
		func() string { return d.cutSection(spec) },
		func() string {
			if len(s.Criteria) == 0 {
				return ""
			}
			line := s.Criteria[0].FirstLine
			s.Criteria = nil
			return fmt.Sprintf("success criteria in %s, line %d", file, line)
		},
		func() string { return drop(clean(d.Handoff) != "", "handoff", func() { d.Handoff = "" }) },
		func() string {
			return drop(len(d.Parents) > 0, "the tasks that this one is a part of", func() { d.Parents = nil })
		},
		d.cutDelivered, d.cutAcceptance, d.cutOutput)
	for _, cut := range steps {
		if spec.Tokens <= d.Budget.Tokens {
			break
		}
		if name := cut(); name != "" {
			d.noted = append(d.noted, name)
			spec = d.render()
		}
	}
	return spec
}

func drop(there bool, name string, cut func()) string {
	if !there {
		return ""
	}
	cut()
	return name
}

// cutSection shortens the plan section from its end, at the end of a block; a section that would become too short is
// left out.
func (d *draft) cutSection(spec Spec) string {
	if d.section == nil || len(d.section.Parts) == 0 {
		return ""
	}
	p := d.section.Parts
	first, last := p[0].FirstLine, p[len(p)-1].LastLine
	over := (spec.Tokens-d.Budget.Tokens)*4 + 120 // the note about it costs something too
	for len(p) > 0 && over > 0 {
		part := &p[len(p)-1]
		if keep := len(part.Text) - over; keep >= minSection {
			*part = d.Plan.Shorten(*part, keep)
			break
		}
		over -= len(part.Text)
		p = p[:len(p)-1]
	}
	if d.section.Parts = p; len(p) > 0 {
		first = p[len(p)-1].LastLine + 1
	}
	return fmt.Sprintf("%s, lines %d-%d", d.Plan.Name, first, last)
}

func (d *draft) cutDelivered() string {
	there := slices.ContainsFunc(d.Dependencies, func(dep Dependency) bool { return dep.Delivered != "" })
	d.Dependencies = slices.Clone(d.Dependencies)
	return drop(there, "what its dependencies delivered", func() {
		for i := range d.Dependencies {
			d.Dependencies[i].Delivered = ""
		}
	})
}

// cutAcceptance leaves out criteria that come from a document: those in the task file are nowhere else.
func (d *draft) cutAcceptance() string {
	var names []string
	d.accept = slices.DeleteFunc(d.accept, func(g criteriaGroup) bool {
		if g.Source.File != "" {
			names = append(names, fmt.Sprintf("acceptance criteria in %s, line %d", g.Source.File, g.Source.FirstLine))
		}
		return g.Source.File != ""
	})
	return strings.Join(names, ", ")
}

func (d *draft) cutOutput() string {
	f := d.Attempt.Failure
	if f == nil || f.Output == "" && f.Words == "" {
		return ""
	}
	short := *f
	short.Checks, short.Output, short.Question, short.Words = nil, "", "", ""
	d.Attempt.Failure = &short
	return "output of the last attempt"
}
