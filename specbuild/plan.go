package specbuild

import (
	"fmt"
	"strings"
	"sync"

	"descartes/internal/markdown"
)

const (
	// MaxPlanBytes is the largest plan that ParsePlan reads. Beyond it a plan is a data file.
	MaxPlanBytes = 8 << 20
	// maxText is where the text of a heading or a checklist entry is cut.
	maxText = 400
)

// Plan is a parsed plan document: its text and a table of its headings and checklist items, each with
// its range of bytes. Safe for concurrent use.
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

	mu       sync.Mutex // guards what follows, which is made when it is asked for
	idx      *titles    // of the task list that was asked about last
	fallback *Section   // for tasks without a section
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

// ParsePlan reads a Markdown plan; name is used in messages and as the file in a source map.
// What is a heading and what an entry is the business of markdown.Parse.
//
// A plan that is larger than MaxPlanBytes, binary or not UTF-8 is refused.
func ParsePlan(name string, src []byte) (*Plan, error) {
	if len(src) > MaxPlanBytes {
		return nil, fmt.Errorf("plan %s is too large: %.1f MiB, at most %d MiB can be read",
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

// Name is the name that ParsePlan was given.
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
			text := markdown.Bare(clip(p.doc.Words(n), maxText))
			p.heads = append(p.heads, heading{
				level: l.Level, text: text, folded: fold(text), start: p.doc.Offset(n), body: p.doc.Offset(n + l.Rows), parent: -1,
			})
		case l.Kind == markdown.Entry && l.Box != 0:
			end := p.doc.Offset(p.doc.EntryEnd(n, len(p.doc.Lines)))
			text := markdown.Bare(clip(p.doc.Words(n), maxText))
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
