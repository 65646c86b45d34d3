package specbuild

import (
	"fmt"
	"strings"
	"sync"

	"descartes/internal/lazyregexp"
	"descartes/internal/markdown"
	"descartes/internal/oneline"
	"descartes/tasks/prose"
)

const (
	// MaxPlanBytes is the largest plan that ParsePlan reads. Beyond it a plan is a data file.
	MaxPlanBytes = 8 << 20
	// maxText is where the text of a heading or a checklist entry is cut.
	maxText = 400
)

// Plan is a parsed plan document: its text and a table of its headings and checklist items, each with its range of bytes. Safe for concurrent use.
type Plan struct {
	name    string
	doc     *markdown.Document
	src     string             // of doc: LF line ends, no BOM
	heads   []heading          // document order
	items   []item             // checklist items, document order
	marks   map[string][]place // by task id: explicit markers
	named   map[string][]int   // by task id: headings "Task <id>"
	numbers map[string][]int   // headings by number

	tasksRestart, numbersRestart bool // "Task 1", "1." come again in a later phase

	mu       sync.Mutex // guards the fields below, which are computed on demand
	idx      *titles    // of the last task list asked about
	fallback *Section   // for tasks without a section
	general  []place    // sections about every task
	looked   bool       // general is computed
}

// extent is a range of bytes of the plan's text.
type extent struct{ start, end int }

// heading is one heading of the document itself; those in quotes, lists and fences are text.
type heading struct {
	level  int
	text   string // without emphasis, code marks and link targets
	folded string // text as isBoilerplate and its like want it
	start  int    // offset of its first line
	body   int    // offset behind the heading's own lines
	end    int    // offset of the next heading of the same or a higher level
	parent int    // index of the enclosing heading, -1 at the top
}

// item is one entry of a checklist, with what is nested in it.
type item struct {
	text   string
	start  int
	end    int
	parent int // index of the enclosing heading, -1 at the top
}

// ParsePlan reads a Markdown plan; name is used in messages and as the file in a source map. markdown.Parse decides
// what a heading is and what an entry is.
//
// A plan that is larger than MaxPlanBytes, binary or not UTF-8 is refused.
func ParsePlan(name string, src []byte) (*Plan, error) {
	if len(src) > MaxPlanBytes {
		return nil, fmt.Errorf("plan %s is too large: %.1f MiB, and at most %d MiB are allowed",
			name, float64(len(src))/(1<<20), MaxPlanBytes>>20)
	}
	if err := markdown.CheckText(src); err != nil {
		return nil, fmt.Errorf("plan %s %w", name, err)
	}
	p := &Plan{name: name, src: lineEnds(strings.TrimPrefix(string(src), markdown.BOM))}
	doc, err := markdown.Parse(p.src)
	if err != nil {
		return nil, fmt.Errorf("plan %s %w", name, err)
	}
	p.doc = doc
	p.outline()
	p.findMarkers()
	p.findTaskHeadings()
	return p, nil
}

// Name is the name given to ParsePlan.
func (p *Plan) Name() string { return p.name }

// lineEnds turns CRLF and lone CR into LF, so that the line count stays what an editor shows.
func lineEnds(s string) string {
	if strings.IndexByte(s, '\r') < 0 {
		return s
	}
	return strings.ReplaceAll(strings.ReplaceAll(s, "\r\n", "\n"), "\r", "\n")
}

// outline fills the tables of headings and checklist items.
func (p *Plan) outline() {
	for n := range p.doc.Lines {
		switch l := &p.doc.Lines[n]; {
		case l.Kind == markdown.Heading:
			text := markdown.Bare(oneline.Clip(p.doc.Words(n), maxText))
			p.heads = append(p.heads, heading{
				level: l.Level, text: text, folded: prose.Fold(text), start: p.doc.Offset(n), body: p.doc.Offset(n + l.Rows), parent: -1,
			})
		case l.Kind == markdown.Entry && l.Box != 0:
			end := p.doc.Offset(p.doc.EntryEnd(n, len(p.doc.Lines)))
			text := markdown.Bare(oneline.Clip(p.doc.Words(n), maxText))
			p.items = append(p.items, item{text: text, start: p.doc.Offset(n), end: end, parent: len(p.heads) - 1})
		}
	}
	p.closeHeadings()
}

// closeHeadings gives each heading its end and its parent, with one stack.
func (p *Plan) closeHeadings() {
	var open []int
	for i := range p.heads {
		h := &p.heads[i]
		for len(open) > 0 && p.heads[open[len(open)-1]].level >= h.level {
			p.heads[open[len(open)-1]].end = h.start
			open = open[:len(open)-1]
		}
		if len(open) > 0 {
			h.parent = open[len(open)-1]
		}
		open = append(open, i)
	}
	for _, i := range open {
		p.heads[i].end = len(p.src)
	}
}

// path is the text of a heading's enclosing headings, outermost first.
func (p *Plan) path(i int) []string {
	var path []string
	for ; i >= 0; i = p.heads[i].parent {
		path = append(path, p.heads[i].text)
	}
	for a, b := 0, len(path)-1; a < b; a, b = a+1, b-1 {
		path[a], path[b] = path[b], path[a]
	}
	return path
}

const (
	maxOverview     = 4 << 10 // bytes of the overview in an outline
	maxOutlineLines = 80
)

// outlineSection is the fallback for a task without a section: the overview and the headings. It is the same for all tasks, so it is made once.
func (p *Plan) outlineSection() Section {
	if p.fallback == nil {
		p.fallback = &Section{
			Rule: RuleOutline, Why: "no section fits the task",
			Overview: p.overview(), Outline: p.headingList(),
		}
	}
	return *p.fallback
}

// isTitle reports whether a heading is the title of the whole document.
func (p *Plan) isTitle(i int) bool {
	return i == 0 && p.heads[0].level == 1 && p.heads[0].end == len(p.src) && len(p.heads) > 1
}

// overview is the plan's section of that name, else the text before the first heading under the title,
// cut at the end of a block.
func (p *Plan) overview() *Part {
	for i, h := range p.heads {
		switch h.folded {
		case "overview", "summary", "introduction", "goal", "goals", "objective", "executive summary":
			if h.parent < 0 || p.isTitle(h.parent) {
				return p.short(p.headPlace(i, ""))
			}
		}
	}
	at := p.introduction()
	if strings.TrimSpace(p.src[at.start:at.end]) == "" {
		return nil
	}
	return p.short(at)
}

// rulesHeading recognises the heading of a section that every task has to keep to.
var rulesHeading = lazyregexp.New(`^(?:(?:the|our|project|coding|code|global|general|ground|house|engineering|technical|design|implementation|development|style|key|core|hard|non-functional) )*` +
	`(?:rules|constraints|conventions|guidelines|principles|standards|invariants)(?: (?:and|&) (?:\w+ )?(?:rules|constraints|conventions|guidelines|principles|standards|assumptions|invariants))*$` +
	`|^(?:(?:explicit )?non-goals|out of scope|what we(?:'|’)?re not doing|what (?:we are|this is) not doing)$`)

const maxGeneral = 4 << 10 // bytes of each section of rules

// generalPlaces returns the plan's introduction, which is what comes before its first section, and its sections of rules, constraints or conventions,
// each cut at the end of a block.
func (p *Plan) generalPlaces() []place {
	if p.looked {
		return p.general
	}
	p.looked = true
	at := p.introduction()
	if _, body, _ := strings.Cut(strings.TrimSpace(p.src[at.start:at.end]), "\n"); len(p.heads) > 0 && (at.head < 0 && strings.TrimSpace(p.src[at.start:at.end]) != "" || at.head == 0 && strings.TrimSpace(body) != "") {
		p.general = append(p.general, at)
	}
	for i, h := range p.heads {
		if (h.parent < 0 || p.isTitle(h.parent)) && !p.isTitle(i) && rulesHeading.MatchString(h.folded) {
			p.general = append(p.general, p.headPlace(i, ""))
		}
	}
	for i := range p.general {
		g := &p.general[i]
		g.end = p.blockEnd(g.start, g.end, maxGeneral)
	}
	return p.general
}

// introduction is what stands before the plan's first section, under its title where it has one.
func (p *Plan) introduction() place {
	at := place{extent: extent{p.doc.Offset(p.doc.Body), len(p.src)}, head: -1}
	if len(p.heads) > 0 {
		at.end = p.heads[0].start
		if p.isTitle(0) {
			at = place{extent: extent{p.heads[0].start, p.heads[1].start}}
		}
	}
	return at
}

// short is a part of at most maxOverview bytes.
func (p *Plan) short(at place) *Part {
	at.end = p.blockEnd(at.start, at.end, maxOverview)
	part := p.part(at)
	if part.Text == "" {
		return nil
	}
	return &part
}

// blockEnd is the end of the last whole block between start and end that fits in size bytes: a place
// behind a blank line outside fences, else behind a line.
func (p *Plan) blockEnd(start, end, size int) int {
	if end-start <= size {
		return end
	}
	first := p.doc.LineAt(start)
	block, whole := start, start
	for n := first; n < len(p.doc.Lines) && p.doc.Offset(n+1)-start <= size; n++ {
		whole = p.doc.Offset(n + 1)
		if strings.TrimSpace(p.doc.Line(n)) == "" && !p.doc.Fenced(n) {
			block = whole
		}
	}
	if block > start {
		return block
	}
	return whole
}

// headingList is the headings of the plan, indented by level, without those that every phase has. A plan
// with too many of them loses the deepest levels first.
func (p *Plan) headingList() string {
	deepest := 6
	for ; deepest > 1 && p.countTo(deepest) > maxOutlineLines; deepest-- {
	}
	var b strings.Builder
	written, left := 0, 0
	for _, h := range p.heads {
		if isRoutine(h) {
			continue
		}
		if h.level > deepest || written == maxOutlineLines {
			left++
			continue
		}
		written++
		fmt.Fprintf(&b, "%s- %s (line %d)\n", strings.Repeat("  ", h.level-1), oneline.Clip(h.text, 120), p.doc.LineAt(h.start)+1)
	}
	if left > 0 {
		fmt.Fprintf(&b, "- ... and %d more headings\n", left)
	}
	return strings.TrimRight(b.String(), "\n")
}

// isRoutine recognises "Overview" and "Success Criteria" inside a phase.
func isRoutine(h heading) bool { return h.level > 2 && isBoilerplate(h.folded) }

func (p *Plan) countTo(level int) int {
	n := 0
	for _, h := range p.heads {
		if h.level <= level && !isRoutine(h) {
			n++
		}
	}
	return n
}
