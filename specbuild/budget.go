package specbuild

import (
	"fmt"
	"slices"
	"strings"
)

// minSection is the least that a cut leaves of a plan section, unless it leaves nothing: less would mislead.
const minSection = 400

// fit leaves out parts of the draft, the least specific first, until its text fits.
func (d *draft) fit(spec Spec) Spec {
	steps := []func() string{d.cutOutline, d.cutGeneral, d.cutBesideGeneral}
	for range d.req.Files {
		steps = append(steps, d.cutFile)
	}
	steps = append(steps, d.cutBeside, func() string { return d.cutSection(spec) }, d.cutCriteria, d.cutHandoff, d.cutParents, d.cutDelivered, d.cutAcceptance, d.cutOutput)
	for _, cut := range steps {
		if spec.Tokens <= d.req.Budget.Tokens {
			break
		}
		if name := cut(); name != "" {
			d.noted = append(d.noted, name)
			spec = d.render()
		}
	}
	return spec
}

// Each cut leaves one thing out and names it, or returns "" if there is nothing to leave out.

func (d *draft) cutOutline() string {
	if d.section == nil || d.section.Rule != RuleOutline || d.section.Overview == nil && d.section.Outline == "" {
		return ""
	}
	d.section.Overview, d.section.Outline = nil, ""
	return "outline of " + d.req.Plan.Name()
}

func (d *draft) cutGeneral() string {
	if d.section == nil || len(d.section.General) == 0 {
		return ""
	}
	d.section.General = nil
	return "what " + d.req.Plan.Name() + " says of every task"
}

func (d *draft) cutFile() string {
	last := len(d.req.Files) - 1
	name := d.req.Files[last].Name
	d.req.Files = d.req.Files[:last]
	return name
}

// cutSection shortens the plan section from its end, at the end of a block; a section that would become too short is left out.
func (d *draft) cutSection(spec Spec) string {
	if d.section == nil || len(d.section.Parts) == 0 {
		return ""
	}
	p, plan := d.section.Parts, d.req.Plan
	first, last := p[0].FirstLine, p[len(p)-1].LastLine
	over := (spec.Tokens-d.req.Budget.Tokens)*4 + 120 // the note about it costs something too
	for len(p) > 0 && over > 0 {
		part := &p[len(p)-1]
		start := plan.doc.Offset(part.FirstLine - 1)
		keep := len(part.Text) - over
		if keep < minSection {
			over -= len(part.Text)
			p = p[:len(p)-1]
			continue
		}
		end := plan.blockEnd(start, start+len(part.Text), keep)
		text := plan.part(place{extent: extent{start, end}, head: -1})
		part.Text, part.LastLine = text.Text, text.LastLine
		over = 0
	}
	d.section.Parts = p
	if len(p) == 0 {
		return fmt.Sprintf("%s, lines %d-%d", plan.Name(), first, last)
	}
	return fmt.Sprintf("%s, lines %d-%d", plan.Name(), p[len(p)-1].LastLine+1, last)
}

func (d *draft) cutCriteria() string {
	if d.section == nil || len(d.section.Criteria) == 0 {
		return ""
	}
	line := d.section.Criteria[0].FirstLine
	d.section.Criteria = nil
	return fmt.Sprintf("success criteria in %s, line %d", d.req.Plan.Name(), line)
}

func (d *draft) cutHandoff() string {
	if clean(d.req.Handoff) == "" {
		return ""
	}
	d.req.Handoff = ""
	return "handoff"
}

func (d *draft) cutParents() string {
	if len(d.req.Parents) == 0 {
		return ""
	}
	d.req.Parents = nil
	return "the tasks that this one is a part of"
}

func (d *draft) cutDelivered() string {
	for _, dep := range d.req.Dependencies {
		if dep.Delivered != "" && !d.noDelivered {
			d.noDelivered = true
			return "what its dependencies delivered"
		}
	}
	return ""
}

// cutAcceptance leaves out criteria that come from a document: those in the task file are nowhere else.
func (d *draft) cutAcceptance() string {
	var names []string
	d.accept = slices.DeleteFunc(d.accept, func(g criteriaGroup) bool {
		if g.source.File != "" {
			names = append(names, fmt.Sprintf("acceptance criteria in %s, line %d", g.source.File, g.source.FirstLine))
		}
		return g.source.File != ""
	})
	return strings.Join(names, ", ")
}

func (d *draft) cutOutput() string {
	if f := d.req.Attempt.Failure; f == nil || f.Output == "" && f.Words == "" {
		return ""
	}
	d.noOutput = true
	return "output of the last attempt"
}
