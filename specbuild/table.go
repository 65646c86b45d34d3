package specbuild

import (
	"fmt"
	"strings"

	"descartes/internal/markdown"
)

// tableMarkers reads the tables that have a column of task ids and a column of plan sections.
func (p *Plan) tableMarkers(r references) {
	var delimiters []int
	for n := p.doc.Body; n < len(p.doc.Lines); n++ {
		if n > 0 && p.doc.Lines[n].Kind != markdown.Hidden && markdown.IsDelimiterRow(p.doc.Line(n)) {
			delimiters = append(delimiters, n)
		}
	}
	for i, n := range delimiters {
		head := cells(p.doc.Line(n - 1))
		task, section := taskColumn(head), sectionColumn(head)
		if task < 0 || section < 0 {
			continue
		}
		end := len(p.doc.Lines)
		if i+1 < len(delimiters) {
			end = delimiters[i+1] - 1 // a table without a blank line behind it ends where the next one begins
		}
		for row := n + 1; row < end; row++ {
			line := p.doc.Line(row)
			if !strings.Contains(line, "|") {
				break
			}
			p.tableRow(r, row, cells(line), task, section)
		}
	}
}

func (p *Plan) tableRow(r references, row int, c []string, task, section int) {
	if task >= len(c) || section >= len(c) {
		return
	}
	text := c[task]
	for _, word := range []string{"scud ", "tasks ", "task "} {
		if len(text) > len(word) && strings.EqualFold(text[:len(word)], word) {
			text = text[len(word):]
		}
	}
	ids, rest := idList(text)
	if strings.TrimSpace(rest) != "" {
		return // a title that begins with a number, not a list of ids
	}
	for _, where := range p.resolve(r, c[section]) {
		where.how = fmt.Sprintf("table row in line %d maps it to %q", row+1, c[section])
		p.mark(ids, where)
	}
}

func taskColumn(head []string) int {
	for i, h := range head {
		switch strings.ToLower(h) {
		case "scud task", "scud tasks", "scud task id", "scud id", "task", "tasks", "task id", "task #":
			return i
		}
	}
	return -1
}

func sectionColumn(head []string) int {
	for _, want := range []string{"section", "heading", "plan", "item", "phase"} {
		for i, h := range head {
			if strings.Contains(strings.ToLower(h), want) {
				return i
			}
		}
	}
	return -1
}

// cells splits a table row.
func cells(line string) []string {
	list := markdown.Cells(line)
	for i, c := range list {
		list[i] = markdown.Bare(c)
	}
	return list
}

// references finds headings by what people call them. Each table maps to the index of the one heading
// that is meant, or to ambiguous.
type references struct {
	text   map[string]int // the whole text, folded
	bare   map[string]int // the text without its number
	number map[string]int // "phase 2", "2.1"
}

const ambiguous = -1

func (p *Plan) references() references {
	r := references{map[string]int{}, map[string]int{}, map[string]int{}}
	for i, h := range p.heads {
		kind, num, rest := numberOf(h.text)
		note(r.text, h.folded, i)
		note(r.bare, fold(rest), i)
		if num != "" {
			note(r.number, strings.TrimSpace(kind+" "+num), i)
		}
	}
	return r
}

func note(m map[string]int, key string, i int) {
	if _, ok := m[key]; ok {
		i = ambiguous
	}
	m[key] = i
}

func lookup(m map[string]int, key string) (int, bool) {
	i, ok := m[key]
	return i, ok && i != ambiguous && key != ""
}

// resolve finds the headings that a reference names: their text, or their number as in "2.1",
// "Phase 2", "Phase 1.3a" (a part of 1.3) or "Phase 4.2-4.3". A reference that fits two headings names
// none.
func (p *Plan) resolve(r references, ref string) []place {
	ref = strings.TrimSpace(strings.TrimLeft(ref, "§# "))
	if i, ok := lookup(r.text, fold(ref)); ok {
		return []place{p.headPlace(i, "")}
	}
	if i, ok := lookup(r.bare, fold(ref)); ok {
		return []place{p.headPlace(i, "")}
	}
	lower, kind := strings.ToLower(ref), ""
	if rest, ok := cutAny(lower, "phase ", "section ", "step ", "milestone ", "part ", "task ", "item ", "stage "); ok {
		kind, lower = lower[:len(lower)-len(rest)-1], strings.TrimSpace(rest)
	}
	var out []place
	for _, part := range strings.FieldsFunc(lower, func(r rune) bool { return r == ',' || r == '&' }) {
		places := p.resolveNumber(r, kind, strings.TrimSpace(part))
		if places == nil {
			return nil
		}
		out = append(out, places...)
	}
	return out
}

// resolveNumber finds "2", "2.1", "1.3a" and "4.2-4.3" among the numbered headings.
func (p *Plan) resolveNumber(r references, kind, s string) []place {
	num, rest := cutNumber(s)
	i, ok := r.numbered(kind, num)
	if !ok {
		return nil
	}
	out := []place{p.headPlace(i, "")}
	rest = strings.TrimSpace(rest)
	if to, ok := cutAny(rest, "-", "–", "—", "to "); ok {
		last, tail := cutNumber(strings.TrimSpace(to))
		j, ok := r.numbered(kind, last)
		if !ok || j < i || strings.TrimSpace(tail) != "" {
			return nil
		}
		for k := i + 1; k <= j && len(out) < maxPlaces; k++ {
			if p.heads[k].parent == p.heads[i].parent {
				out = append(out, p.headPlace(k, ""))
			}
		}
		return out
	}
	if len(rest) > 1 && rest[0] != ':' {
		return nil // more than a letter follows: some other kind of reference
	}
	return out
}

// numbered finds the one heading with a number; kind is the word before it ("phase") or "".
func (r references) numbered(kind, num string) (int, bool) {
	if num == "" {
		return 0, false
	}
	if i, ok := lookup(r.number, strings.TrimSpace(kind+" "+num)); ok {
		return i, true
	}
	if strings.Contains(num, ".") {
		return lookup(r.number, num) // "Phase 2.1" is the heading "2.1"
	}
	return 0, false
}
