package plan

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"descartes/internal/lazyregexp"
	"descartes/internal/markdown"
	"descartes/internal/oneline"
	"descartes/tasks"
	"descartes/tasks/outline"
	"descartes/tasks/prose"
)

// The rules that find a task's section, in the order in which they are tried.
const (
	RuleMarker  = "marker"       // the plan says so: "(SCUD Task 3)", "SCUD Task 3:", a table
	RuleHeading = "task heading" // a heading "Task <id>"
	RuleTask    = "plan task"    // a task of the plan with the same id and title: the list was imported from it
	// a heading or checklist entry whose words are all in the title, or the other way round
	RuleTitle   = "title"
	RuleParent  = "parent"  // the section of the task that this one is a part of
	RuleOutline = "outline" // nothing fits: overview and list of headings
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

// Overlaps reports whether two parts have lines in common.
func (p Part) Overlaps(q Part) bool { return p.FirstLine <= q.LastLine && q.FirstLine <= p.LastLine }

// span is the lines of the plan that stand for something.
type span struct {
	first, end int    // from 0, the line behind it
	head       int    // index of the heading itself, or of the one around; -1 for none
	how        string // what matched
}

func (s span) inside(list ...span) bool {
	return slices.ContainsFunc(list, func(p span) bool { return p.first <= s.first && s.end <= p.end })
}

const (
	maxSpans    = 16      // of one task
	maxCriteria = 6 << 10 // bytes of an enclosing section's success criteria
	maxGeneral  = 4 << 10 // bytes of the overview, and of each section of rules
	maxOutline  = 80      // lines
)

// Section finds what the plan says about a task. parents are its containers, outermost first.
//
// A section is the heading and everything up to the next heading of the same or a higher level. If no rule is sure it
// returns the outline: a wrong section is worse than none.
func (d *Document) Section(t tasks.Task, parents []tasks.Task) Section {
	rule, found := d.find(t, parents)
	if rule == RuleOutline {
		return Section{Rule: rule, Why: "no section fits the task", Outline: d.contents, Overview: d.overview}
	}
	s := Section{Rule: rule, Why: found[0].how}
	if len(found) > 1 {
		s.Why += fmt.Sprintf(", and %d more", len(found)-1)
	}
	slices.SortFunc(found, func(a, b span) int { return a.first - b.first })
	for _, at := range found {
		s.Parts = append(s.Parts, d.part(at))
		if c := d.criteria(at); c.end > 0 && !c.inside(found...) {
			part := d.part(c)
			if known := slices.ContainsFunc(s.Criteria, func(o Part) bool {
				return o.FirstLine == part.FirstLine
			}); !known && len(part.Text) <= maxCriteria {
				s.Criteria = append(s.Criteria, part)
			}
		}
	}
	for _, part := range d.general {
		if !slices.ContainsFunc(s.Parts, part.Overlaps) {
			s.General = append(s.General, part)
		}
	}
	return s
}

// General is what the plan says of every task: its introduction and its sections of rules.
func (d *Document) General() []Part { return d.general }

// Find returns the sections whose headings, outermost first, its own last, are as wanted; those within another one
// left out.
func (d *Document) Find(is func(path []string) bool) (list []Part) {
	end := 0
	for i := range d.Heads {
		if h := &d.Heads[i]; h.Line >= end && h.Level < outline.BoldLevel && is(d.path(i)) {
			list, end = append(list, d.part(d.section(i, ""))), h.End
		}
	}
	return list
}

// Length is the number of lines.
func (d *Document) Length() int { return len(d.Lines) }

// find tries the rules in order.
func (d *Document) find(t tasks.Task, parents []tasks.Task) (rule string, found []span) {
	id := t.ID[strings.LastIndexByte(t.ID, ':')+1:] // phase1:2.1 is 2.1 in the plan of phase1
	if found = d.marks[id]; len(found) > 0 {
		return RuleMarker, slices.Clone(found)
	}
	if i, ok := d.index[id]; ok {
		at, x := d.tasks[i].span(d), &d.tasks[i]
		switch headed := at.head >= 0 && d.Heads[at.head].Line == at.first; {
		case headed && !x.made:
			return RuleHeading, []span{d.section(at.head, fmt.Sprintf("heading %q", d.Heads[at.head].Text))}
		case prose.Fold(x.Title) == prose.Fold(t.Title):
			at.how = "the plan's own task of this name"
			return RuleTask, []span{at}
		}
	}
	var above []span
	if n := len(parents); n > 0 {
		if rule, above = d.find(parents[n-1], parents[:n-1]); rule == RuleOutline {
			above = nil
		}
	}
	if at, ok := d.byTitle(prose.Keywords(t.Title), above); ok {
		return RuleTitle, []span{at}
	}
	if above != nil {
		above[0].how = fmt.Sprintf("section of task %s, which this one is a part of", parents[len(parents)-1].ID)
		return RuleParent, above
	}
	return RuleOutline, nil
}

// section is that of a heading.
func (d *Document) section(i int, how string) span {
	return span{d.Heads[i].Line, d.Heads[i].End, i, how}
}

// part cuts a span out of the plan, without blank lines and a rule at its end.
func (d *Document) part(at span) Part {
	text := strings.ReplaceAll(d.Source[d.Offset(at.first):d.Offset(at.end)], "\r\n", "\n")
	text = strings.TrimRight(text, " \t\n")
	text = strings.TrimRight(strings.TrimSuffix(text, "\n---"), " \t\n")
	return Part{Heading: d.path(at.head), Text: text, FirstLine: at.first + 1,
		LastLine: at.first + 1 + strings.Count(text, "\n")}
}

// path is the text of a heading and of those around it, outermost first.
func (d *Document) path(i int) (path []string) {
	for ; i >= 0; i = d.Heads[i].Parent {
		path = append(path, d.Heads[i].Text)
	}
	slices.Reverse(path)
	return path
}

// Shorten is a part without what is beyond size bytes, cut at the end of a block where that is possible.
func (d *Document) Shorten(p Part, size int) Part {
	short := d.part(d.shorten(span{first: p.FirstLine - 1, end: p.LastLine, head: -1}, size))
	short.Heading = p.Heading
	return short
}

func (d *Document) shorten(at span, size int) span {
	start, block, n := d.Offset(at.first), 0, at.first
	for ; n < at.end && d.Offset(n+1)-start <= size; n++ {
		if d.Lines[n].Kind == markdown.Blank {
			block = n + 1
		}
	}
	if n < at.end {
		at.end = cmp.Or(block, n)
	}
	return at
}

// criteria is the success criteria of the nearest section around that has any, those of the whole plan left out.
func (d *Document) criteria(at span) span {
	up := at.head
	if up >= 0 && d.Heads[up].Line == at.first {
		up = d.Heads[up].Parent
	}
	for ; up >= 0 && !d.IsTitle(up); up = d.Heads[up].Parent {
		for i := up + 1; i < len(d.Heads) && d.Heads[i].Line < d.Heads[up].End; i++ {
			if h := &d.Heads[i]; h.Parent == up && h.Word == "" && d.Heads[up].Section < prose.Checklist &&
				h.Section >= prose.Checklist && h.Section != prose.Aside {
				return d.section(i, "")
			}
		}
	}
	return span{}
}

// ruleHeading recognises the heading of a section that every task has to keep to.
var ruleHeading = lazyregexp.New(
	`^(?:(?:the|our|project|coding|code|global|general|ground|house|engineering|technical|design|implementation|development|style|key|core|hard|non-functional) )*` +
		`(?:rules|constraints|conventions|guidelines|principles|standards|invariants)(?: (?:and|&) (?:\w+ )?(?:rules|constraints|conventions|guidelines|principles|standards|assumptions|invariants))*$` +
		`|^(?:(?:explicit )?non-goals|out of scope|what we(?:'|’)?re not doing|what (?:we are|this is) not doing)$`)

// overviewHeading recognises the heading over what the plan is about.
var overviewHeading = lazyregexp.New(`^(?:overview|(?:executive )?summary|introduction|goals?|objective)$`)

// findGeneral finds what is said of every task: the plan's introduction, which is what comes before its first section,
// and its sections of rules, constraints or conventions.
func (d *Document) findGeneral() {
	intro := span{d.Body, len(d.Lines), -1, ""}
	if len(d.Heads) > 0 {
		intro.end = d.Heads[0].Line
		if d.IsTitle(0) {
			intro = span{d.Heads[0].Line, d.Heads[1].Line, 0, ""}
		}
	}
	intro = d.shorten(intro, maxGeneral)
	if part := d.part(intro); len(d.Heads) > 0 && part.Text != "" &&
		(intro.head < 0 || strings.Contains(part.Text, "\n")) {
		d.general = append(d.general, part)
	}
	for i := range d.Heads {
		at := d.shorten(d.section(i, ""), maxGeneral)
		switch up, text := d.Heads[i].Parent, prose.Fold(d.Heads[i].Text); {
		case d.IsTitle(i) || up >= 0 && !d.IsTitle(up):
		case ruleHeading.MatchString(text):
			d.general = append(d.general, d.part(at))
		case overviewHeading.MatchString(text) && d.overview == nil:
			part := d.part(at)
			d.overview = &part
		}
	}
	if part := d.part(intro); d.overview == nil && part.Text != "" {
		d.overview = &part
	}
	d.contents = d.headingList()
}

// headingList is the headings of the plan, indented by level, without those that every phase has. A plan with too many
// of them loses the deepest levels first.
func (d *Document) headingList() string {
	var list []string
	total := 0
	for deepest := outline.BoldLevel - 1; deepest == outline.BoldLevel-1 || deepest > 0 && len(list) > maxOutline; deepest-- {
		list = list[:0]
		for i := range d.Heads {
			if h := &d.Heads[i]; h.Level <= deepest && (h.Level <= 2 || !prose.Routine(prose.Fold(h.Text))) {
				list = append(list, fmt.Sprintf("%s- %s (line %d)", strings.Repeat("  ", h.Level-1),
					oneline.Clip(h.Text, 120), h.Line+1))
			}
		}
		total = max(total, len(list))
	}
	if list = list[:min(len(list), maxOutline)]; total > len(list) {
		list = append(list, fmt.Sprintf("- ... and %d more headings", total-len(list)))
	}
	return strings.Join(list, "\n")
}
