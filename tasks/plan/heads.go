package plan

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"descartes/internal/markdown"

	"descartes/tasks/prose"

	"descartes/tasks"
)

// planHead is one heading of a plan.
type planHead struct {
	level      int
	line       int // from 0
	end        int // line behind its section
	text       string
	word       string // "task", "phase" or another word that numbers follow; "" where the heading begins with its number
	id         string // the number, "" if it has none
	title      string // what follows the number
	status     tasks.Status
	settled    bool // the heading says the status
	background bool // about no work to do, like all under it
}

// planPhase is one phase of a plan.
type planPhase struct {
	head   int
	id     string
	tasks  []int // its tasks that are not part of another
	before int   // the phase that it waits for by its place, -1 for none
	stated bool  // the plan says what it waits for
	beside []int // phases that it runs beside
}

const (
	pseudoLevel = 7 // of a line in bold that begins like a heading
	maxHeads    = 50_000
)

// outline finds the headings and where their sections end.
func (p *planner) outline() {
	for n := range p.md.Lines {
		l := &p.md.Lines[n]
		level, text := l.Level, ""
		switch {
		case l.Kind == markdown.Heading:
			text = strings.TrimRight(p.md.Words(n), "# ")
		case l.Kind == markdown.Text && l.Indent < 4 && markdown.BoldLine(p.md.Words(n)):
			level, text = pseudoLevel, p.md.Words(n)
		default:
			continue
		}
		h := planHead{level: level, line: n, text: prose.Clip(markdown.Inline(prose.Clip(text)))}
		h.split()
		if level == pseudoLevel && (h.word == "" || h.title == "") || len(p.heads) == maxHeads {
			continue
		}
		p.heads = append(p.heads, h)
	}
	var open []int
	for i := range p.heads {
		h := &p.heads[i]
		for len(open) > 0 && p.heads[open[len(open)-1]].level >= h.level {
			p.heads[open[len(open)-1]].end = h.line
			open = open[:len(open)-1]
		}
		h.background = h.word == "" && markdown.Background(prose.Fold(h.title)) || len(open) > 0 && p.heads[open[len(open)-1]].background
		open = append(open, i)
	}
	for _, i := range open {
		p.heads[i].end = len(p.md.Lines)
	}
}

// split takes a heading's text apart: a mark that says how far it is, the word, the number, the title.
func (h *planHead) split() {
	text, status, settled := cutStatus(h.text)
	h.status, h.settled = status, settled
	h.word, h.id, h.title = prose.Numbered(text)
	if title, status, ok := cutStatus(h.title); ok && !settled {
		h.title, h.status, h.settled = title, status, true // "2. ✅ Title"
	}
}

// cutStatus takes marks of status off a heading: a box, a tick, a word in parentheses or behind a dash at the end.
func cutStatus(s string) (rest string, status tasks.Status, settled bool) {
	s, status = strings.TrimSpace(s), tasks.Pending
	last := len(s) - 3
	switch {
	case last > 0 && s[0] == '[' && s[2] == ']' && strings.IndexByte(markdown.Boxes, s[1]) >= 0:
		status, settled, s = tasks.BoxStatus(rune(s[1])), true, strings.TrimSpace(s[3:])
	case last > 0 && s[last] == '[' && s[last+2] == ']' && strings.IndexByte(markdown.Boxes, s[last+1]) >= 0:
		status, settled, s = tasks.BoxStatus(rune(s[last+1])), true, strings.TrimSpace(s[:last])
	}
	for _, tick := range []string{"✅", "✓", "✔️", "✔", "☑"} {
		if cut := strings.TrimSuffix(strings.TrimPrefix(s, tick), tick); cut != s {
			status, settled, s = tasks.Done, true, strings.TrimSpace(cut)
		}
	}
	if open := strings.LastIndexAny(s, "([—"); open > 0 {
		_, n := utf8.DecodeRuneInString(s[open:])
		if known, ok := tasks.ParseStatus(strings.Trim(s[open+n:], ")] .✅✓")); ok && known != tasks.Expanded {
			status, settled, s = known, true, strings.TrimRight(strings.TrimSpace(s[:open]), " -–:")
		}
	}
	return s, status, settled
}

// findPhases fills the list of phases: the headings with the largest of the words for one, those within another left out.
func (p *planner) findPhases() {
	p.phaseIDs = map[string]int{}
	for _, word := range prose.PhaseWords() {
		known := map[string]int{} // id to line
		end := 0
		for i, h := range p.heads {
			if h.word != word || h.background || h.line < end {
				continue
			}
			if first, ok := known[h.id]; ok {
				p.find(h.line+1, "", "line", fmt.Sprintf("a second %s %s: only the one in line %d counts", word, h.id, first))
				continue
			}
			known[h.id], end = h.line+1, h.end
			p.phaseIDs[strings.ToLower(h.id)] = len(p.phases)
			p.phases = append(p.phases, planPhase{head: i, id: h.id, before: -1})
		}
		if len(p.phases) > 0 {
			return
		}
	}
}

// phaseAt is the phase around a line, -1 for none.
func (p *planner) phaseAt(line int) int {
	i, found := slices.BinarySearchFunc(p.phases, line, func(f planPhase, line int) int { return p.heads[f.head].line - line })
	if !found {
		i--
	}
	if i < 0 || line >= p.heads[p.phases[i].head].end {
		return -1
	}
	return i
}

// headAt is the last heading up to a line, -1 for none.
func (p *planner) headAt(line int) int {
	i, found := slices.BinarySearchFunc(p.heads, line, func(h planHead, line int) int { return h.line - line })
	if !found {
		i--
	}
	return i
}
