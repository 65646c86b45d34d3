package specbuild

import (
	"fmt"
	"strings"
)

const (
	maxOverview     = 4 << 10 // bytes of the overview in an outline
	maxOutlineLines = 80
)

// outlineSection is what a task gets for which no section was found: the overview and the headings. It
// is the same for all tasks, so it is made once.
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
	at := place{extent: extent{p.doc.Offset(p.doc.Body), len(p.src)}, head: -1}
	if len(p.heads) > 0 {
		at.end = p.heads[0].start
		if p.isTitle(0) {
			at = place{extent: extent{p.heads[0].start, p.heads[1].start}}
		}
	}
	if strings.TrimSpace(p.src[at.start:at.end]) == "" {
		return nil
	}
	return p.short(at)
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
		fmt.Fprintf(&b, "%s- %s (line %d)\n", strings.Repeat("  ", h.level-1), clip(h.text, 120), p.doc.LineAt(h.start)+1)
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

// clip shortens a line to at most size bytes at the border of a rune.
func clip(s string, size int) string {
	if len(s) <= size {
		return s
	}
	cut := 0
	for i := range s {
		if i > size-3 {
			break
		}
		cut = i
	}
	return s[:cut] + "..."
}
