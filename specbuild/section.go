package specbuild

import (
	"fmt"
	"slices"
	"strings"

	"descartes/tasks"

	"descartes/internal/markdown"
)

// The rules that find a task's section, in the order in which they are tried.
const (
	RuleMarker  = "marker"       // the plan says so: "(SCUD Task 3)", "SCUD Task 3:", a table
	RuleHeading = "task heading" // a heading "Task <id>"
	RuleTitle   = "title"        // a heading or checklist entry with the words of the title
	RuleParent  = "parent"       // the section of the task that this one is a part of
	RuleNumber  = "number"       // a heading numbered like the task, whose text agrees with the title
	RuleOutline = "outline"      // nothing fits: overview and list of headings
)

// Section is what a plan says about one task. It has either Parts or, with RuleOutline, Overview and Outline.
type Section struct {
	Rule     string // one of the Rule constants
	Why      string // what matched, in one line
	Parts    []Part // in document order
	Criteria []Part // success criteria of the enclosing phases, unless they are in Parts
	General  []Part // what the plan says about all tasks and is not in Parts: introduction and rules, within limits
	Overview *Part  // nil if the plan has none
	Outline  string // the headings of the plan, one per line
}

// Part is a piece of the plan, cut at line ends.
type Part struct {
	Heading   []string // the enclosing headings, outermost first, its own last
	Text      string
	FirstLine int // from 1
	LastLine  int
}

// Section finds what the plan says about a task. parents are its containers, outermost first. all is the task list of the tag, which decides how rare
// words are and which tasks compete; it is remembered by address, so pass the same slice for all tasks of a run.
//
// A section is the heading and everything up to the next heading of the same or a higher level. If no rule is sure it returns the outline: a wrong
// section is worse than none.
func (p *Plan) Section(t tasks.Task, parents []tasks.Task, all []tasks.Task) Section {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.idx == nil || !p.idx.of(all) {
		p.idx = newTitles(p, all)
	}
	f, ok := p.find(t, parents)
	if !ok {
		return p.outlineSection()
	}
	s := Section{Rule: f.rule, Why: f.why}
	slices.SortFunc(f.places, func(a, b place) int { return a.start - b.start })
	for _, at := range f.places {
		s.Parts = append(s.Parts, p.part(at))
	}
	s.Criteria = p.criteria(f.places)
	for _, at := range p.generalPlaces() {
		if !inside(at.extent, f.places) && !slices.ContainsFunc(f.places, func(own place) bool { return inside(own.extent, []place{at}) }) {
			s.General = append(s.General, p.part(at))
		}
	}
	return s
}

// found is the outcome of the rules.
type found struct {
	rule   string
	why    string
	places []place
}

// find tries the rules in order.
func (p *Plan) find(t tasks.Task, parents []tasks.Task) (found, bool) {
	id := ownID(t.ID)
	if places := p.marks[id]; len(places) > 0 {
		return found{RuleMarker, joinWhy(places), slices.Clone(places)}, true
	}
	if f, ok := p.byTaskHeading(id, t); ok {
		return f, true
	}
	var above found
	hasAbove := false
	if n := len(parents); n > 0 {
		above, hasAbove = p.find(parents[n-1], parents[:n-1])
	}
	if f, ok := p.byTitle(t, parents, above.places); ok {
		return f, true
	}
	if hasAbove {
		parent := parents[len(parents)-1]
		why := fmt.Sprintf("section of task %s, which this one is a part of (%s: %s)", parent.ID, above.rule, above.why)
		if above.rule == RuleParent {
			why = above.why
		}
		return found{RuleParent, why, above.places}, true
	}
	return p.byNumber(id, t)
}

// ownID is an id without the tag in front: "phase1:2.1" is "2.1" in the plan of phase1.
func ownID(id string) string {
	return id[strings.LastIndexByte(id, ':')+1:]
}

func joinWhy(places []place) string {
	why := places[0].how
	if len(places) > 1 {
		why += fmt.Sprintf(", and %d more", len(places)-1)
	}
	return why
}

// part cuts a place out of the plan, without blank lines at its end.
func (p *Plan) part(at place) Part {
	text := strings.TrimRight(p.src[at.start:at.end], " \t\n")
	text = strings.TrimRight(strings.TrimSuffix(text, "\n---"), " \t\n")
	first := p.doc.LineAt(at.start)
	return Part{
		Heading: p.path(at.head), Text: text,
		FirstLine: first + 1, LastLine: first + 1 + strings.Count(text, "\n"),
	}
}

// maxCriteria is how long success criteria of an enclosing section may be.
const maxCriteria = 6 << 10

// criteria returns the success criteria of the nearest enclosing section that has any. Those of the whole plan are not the task's.
func (p *Plan) criteria(places []place) []Part {
	var out []Part
	for _, at := range places {
		up := at.head
		if up >= 0 && !at.item {
			up = p.heads[up].parent
		}
		for ; up >= 0 && !p.isTitle(up); up = p.heads[up].parent {
			if i, ok := p.criteriaOf(up); ok {
				c := p.headPlace(i, "")
				part := p.part(c)
				known := slices.ContainsFunc(out, func(o Part) bool { return o.FirstLine == part.FirstLine })
				if !known && !inside(c.extent, places) && len(part.Text) <= maxCriteria {
					out = append(out, part)
				}
				break
			}
		}
	}
	return out
}

// criteriaOf is the first heading directly under up that is about success criteria.
func (p *Plan) criteriaOf(up int) (int, bool) {
	for i := up + 1; i < len(p.heads) && p.heads[i].start < p.heads[up].end; i++ {
		if p.heads[i].parent == up && markdown.Criteria(p.heads[i].folded) {
			return i, true
		}
	}
	return 0, false
}
