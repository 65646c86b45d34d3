package specbuild

import (
	"cmp"
	"fmt"
	"slices"
	"sort"
	"strings"

	"descartes/internal/lazyregexp"
	"descartes/internal/markdown"
	"descartes/tasks/prose"
)

// place is a part of the plan that stands for a task.
type place struct {
	extent
	head int    // index of the heading itself, or of the one that encloses an item; -1 for none
	item bool   // a checklist entry, not a heading
	how  string // what matched, for the source map
}

const maxPlaces = 16 // of one task

// findMarkers fills the table of explicit markers: headings, then lines of text, then tables. Where
// they disagree the earlier kind holds, unless the later one names a part of the same section.
func (p *Plan) findMarkers() {
	p.marks = map[string][]place{}
	for i, h := range p.heads {
		if text, ids := markerIn(h.text, true); len(ids) > 0 {
			p.mark(ids, p.headPlace(i, fmt.Sprintf("heading %q marks it (%s)", h.text, text)))
		}
	}
	p.deepest()
	r := p.references()
	p.weaker(func() { p.textMarkers(r) })
	p.weaker(func() { p.tableMarkers(r) })
}

// weaker runs find with an empty table and adds what it found for unnamed tasks, or within the section
// of a named one.
func (p *Plan) weaker(find func()) {
	known := p.marks
	p.marks = map[string][]place{}
	find()
	for id, places := range p.marks {
		old, ok := known[id]
		for _, at := range places {
			if !ok || inside(at.extent, old) && len(known[id]) < 2*maxPlaces {
				known[id] = append(known[id], at)
			}
		}
	}
	p.marks = known
	p.deepest()
}

func (p *Plan) mark(ids []string, at place) {
	for _, id := range ids {
		known := slices.ContainsFunc(p.marks[id], func(old place) bool { return old.extent == at.extent })
		if !known && len(p.marks[id]) < maxPlaces {
			p.marks[id] = append(p.marks[id], at)
		}
	}
}

// deepest keeps the most specific places of each task: where a phase is marked with all its tasks and
// its items with one each, the item is the task's section.
func (p *Plan) deepest() {
	for id, places := range p.marks {
		var keep []place
		for i, a := range places {
			holds := slices.ContainsFunc(places, func(b place) bool { return a.extent != b.extent && inside(b.extent, []place{a}) })
			same := slices.ContainsFunc(places[:i], func(b place) bool { return a.extent == b.extent })
			if !holds && !same {
				keep = append(keep, a)
			}
		}
		p.marks[id] = keep
	}
}

func (p *Plan) headPlace(i int, how string) place {
	return place{extent: extent{p.heads[i].start, p.heads[i].end}, head: i, how: how}
}

var markerText = lazyregexp.New(`(?i)\bscud tasks?\b[ :#]*|\(\s*tasks?\b[ :#]*`)

// markerIn finds "SCUD Task 3", "SCUD Tasks 3.1, 3.2" and, in parentheses alone, "(Task 3)". It returns
// the marker and the ids; heading allows a marker anywhere in the line.
func markerIn(s string, heading bool) (string, []string) {
	for _, at := range markerText.FindAllStringIndex(s, -1) {
		ids, after := idList(s[at[1]:])
		start, bare := at[0], s[at[0]] == '('
		if bare {
			start++
		}
		if len(ids) == 0 || bare && !strings.HasPrefix(after, ")") {
			continue
		}
		opened := strings.HasSuffix(strings.TrimRight(s[:start], " "), "(")
		if heading || start == 0 || opened && strings.Contains(after, ")") && strings.TrimSpace(s[strings.LastIndex(s, ")")+1:]) == "" {
			return strings.TrimSpace(s[start : len(s)-len(after)]), ids
		}
	}
	return "", nil
}

// idList reads "3", "3.1, 3.2", "3 and 4", "3-5" and returns what follows.
func idList(s string) (ids []string, rest string) {
	refs, rest := prose.Refs(s)
	for _, r := range refs {
		ids = append(ids, r.ID)
	}
	return ids, rest
}

// textMarkers looks at lines that begin with a marker ("SCUD Task 3: ...") and at list entries and bold lines that
// end with one. Such a line marks its checklist entry, else the heading that its own text names, else its section.
func (p *Plan) textMarkers(r references) {
	for n := range p.doc.Lines {
		raw := strings.TrimSpace(p.doc.Line(n))
		if !strings.Contains(raw, "ask") && !strings.Contains(raw, "ASK") || p.doc.Fenced(n) || strings.HasPrefix(raw, "#") || strings.HasPrefix(raw, "|") {
			continue
		}
		at := p.doc.Offset(n)
		text := markdown.Bare(strings.TrimLeft(raw, "->*+ "))
		if p.doc.Lines[n].Box != 0 {
			text = markdown.Bare(p.doc.Words(n))
		}
		whole, ids := markerIn(text, false)
		if len(ids) == 0 || !strings.HasPrefix(text, whole) && raw == text {
			continue // prose that mentions a task
		}
		if where, ok := p.lineMeans(r, at, strings.Replace(text, whole, "", 1)); ok {
			where.how = fmt.Sprintf("line %d marks it (%s)", n+1, whole)
			p.mark(ids, where)
		}
	}
}

// lineMeans is the place that a marked line at offset at stands for.
func (p *Plan) lineMeans(r references, at int, rest string) (place, bool) {
	last := sort.Search(len(p.items), func(i int) bool { return p.items[i].start > at }) - 1
	for i := last; i >= 0 && i > last-maxPlaces; i-- {
		if it := p.items[i]; at < it.end {
			return place{extent: extent{it.start, it.end}, head: it.parent, item: true}, true
		}
	}
	if places := p.resolve(r, strings.Trim(rest, " ():-–—*")); len(places) > 0 {
		return places[0], true
	}
	i := p.headAt(at)
	for i >= 0 && isBoilerplate(p.heads[i].folded) {
		i = p.heads[i].parent
	}
	if i < 0 || p.heads[i].level == 1 && p.heads[i].end == len(p.src) {
		return place{}, false
	}
	return p.headPlace(i, ""), true
}

// headAt is the innermost heading whose section holds offset at, or -1.
func (p *Plan) headAt(at int) int {
	return sort.Search(len(p.heads), func(i int) bool { return p.heads[i].start > at }) - 1
}

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
	ids, rest := idList(scudWord.ReplaceAllString(c[task], ""))
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

var (
	scudWord  = lazyregexp.New(`(?i)^scud `)
	reference = lazyregexp.New(`^(?:([a-z]+)\s+)?(\d+(?:\.\d+)*)(?:[a-z]?|:.*|\s*(?:-|–|—|to )\s*(\d+(?:\.\d+)*))$`)
)

// references finds headings by what people call them. Each table maps to the index of the one heading
// that is meant, or to ambiguous.
type references struct {
	text   map[string]int // the whole text, and the text without its number, folded
	number map[string]int // "phase 2", "2.1"
}

const ambiguous = -1

func (p *Plan) references() references {
	r := references{map[string]int{}, map[string]int{}}
	for i, h := range p.heads {
		kind, num, rest := prose.Numbered(h.text)
		note(r.text, h.folded, i)
		if num != "" {
			note(r.text, prose.Fold(rest), i)
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
	if i, ok := lookup(r.text, prose.Fold(ref)); ok {
		return []place{p.headPlace(i, "")}
	}
	var out []place
	kind := ""
	for _, part := range strings.FieldsFunc(strings.ToLower(ref), func(r rune) bool { return r == ',' || r == '&' }) {
		m := reference.FindStringSubmatch(strings.TrimSpace(part))
		if m == nil {
			return nil
		}
		kind = cmp.Or(m[1], kind)
		i, ok := r.numbered(kind, m[2])
		last := i
		if m[3] != "" && ok {
			last, ok = r.numbered(kind, m[3])
		}
		if !ok || last < i {
			return nil
		}
		for k := i; k <= last && len(out) < maxPlaces; k++ {
			if p.heads[k].parent == p.heads[i].parent {
				out = append(out, p.headPlace(k, ""))
			}
		}
	}
	return out
}

// numbered finds the one heading with a number; kind is the word before it ("phase") or "".
func (r references) numbered(kind, num string) (int, bool) {
	if i, ok := lookup(r.number, strings.TrimSpace(kind+" "+num)); ok {
		return i, true
	}
	if strings.Contains(num, ".") {
		return lookup(r.number, num) // "Phase 2.1" is the heading "2.1"
	}
	return 0, false
}
