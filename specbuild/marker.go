package specbuild

import (
	"fmt"
	"slices"
	"sort"
	"strconv"
	"strings"
	"unicode/utf8"

	"descartes/internal/markdown"
)

// place is a part of the plan that stands for a task.
type place struct {
	extent
	head int    // index of the heading itself, or of the one that encloses an item; -1 for none
	item bool   // a checklist entry, not a heading
	how  string // what matched, for the source map
}

const (
	maxRange  = 100 // of "SCUD Tasks 3-9"
	maxPlaces = 16  // of one task
)

// findMarkers fills the table of explicit markers: headings, then lines of text, then tables. Where
// they disagree the earlier kind holds, unless the later one names a part of the same section.
func (p *Plan) findMarkers() {
	p.marks = map[string][]place{}
	scud := p.mentions("CUD Task", "CUD task", "cud Task", "cud task")
	if len(scud) == 0 && !strings.Contains(p.src, "--") && !strings.Contains(p.src, "(Task") && !strings.Contains(p.src, "(task") {
		return
	}
	for i, h := range p.heads {
		if text, ids := markerIn(h.text, true); len(ids) > 0 {
			p.mark(ids, p.headPlace(i, fmt.Sprintf("heading %q marks it (%s)", h.text, text)))
		}
	}
	p.deepest()
	r := p.references()
	p.weaker(func() { p.textMarkers(r, scud) })
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

// markerIn finds "SCUD Task 3", "SCUD Tasks 3.1, 3.2" and, in parentheses alone, "(Task 3)". It returns
// the marker and the ids; heading allows a marker anywhere in the line.
func markerIn(s string, heading bool) (string, []string) {
	lower := strings.ToLower(s)
	for from := 0; ; {
		i := strings.Index(lower[from:], "task")
		if i < 0 || len(lower) != len(s) {
			return "", nil
		}
		i += from
		from = i + len("task")
		rest := strings.TrimPrefix(lower[from:], "s")
		rest = s[len(s)-len(rest):]
		before := strings.TrimRight(lower[:i], " ")
		scud := strings.HasSuffix(before, "scud") && len(before) < i
		start := i
		if scud {
			start = len(before) - len("scud")
		}
		opened := strings.HasSuffix(strings.TrimRight(s[:start], " "), "(")
		ids, after := idList(rest)
		closed := strings.HasPrefix(after, ")") || strings.Contains(after, ")")
		if len(ids) == 0 || !scud && !(opened && strings.HasPrefix(after, ")")) {
			continue
		}
		whole := strings.TrimSpace(s[start : len(s)-len(after)])
		if heading || start == 0 || opened && closed && strings.TrimSpace(s[strings.LastIndex(s, ")")+1:]) == "" {
			return whole, ids
		}
	}
}

// idList reads "3", "3.1, 3.2", "3 and 4", "3-5" and returns what follows.
func idList(s string) (ids []string, rest string) {
	for {
		t := strings.TrimLeft(s, " #*`:")
		id, after := cutID(t)
		if id == "" {
			return ids, s
		}
		if lo, hi, ok := strings.Cut(id, "-"); ok && isNumber(lo) && isNumber(hi) {
			ids = appendRange(ids, lo, hi)
		} else {
			ids = append(ids, id)
		}
		s = strings.TrimLeft(after, "`*")
		t = strings.TrimLeft(s, " ")
		if r, ok := cutRange(t); ok && isNumber(id) {
			if hi, after := cutID(strings.TrimLeft(r, " ")); isNumber(hi) {
				ids = appendRange(ids[:len(ids)-1], id, hi)
				s, t = after, strings.TrimLeft(after, " ")
			}
		}
		next, ok := cutAny(t, ",", "&", "/", "and ", "und ")
		if !ok {
			return ids, s
		}
		s = strings.TrimPrefix(strings.TrimLeft(next, " "), "and ")
	}
}

func cutRange(s string) (string, bool) {
	return cutAny(s, "–", "—", "-", "to ", "through ")
}

func cutAny(s string, prefixes ...string) (string, bool) {
	for _, pre := range prefixes {
		if rest, ok := strings.CutPrefix(s, pre); ok {
			return rest, true
		}
	}
	return s, false
}

// cutID takes a task id off the start of s. An id in a list has a digit in it: without one it is a word
// of the sentence.
func cutID(s string) (id, rest string) {
	n := 0
	for n < len(s) && isIDByte(s[n]) {
		n++
	}
	id = strings.TrimRight(s[:n], ".:-_")
	if !strings.ContainsAny(id, "0123456789") {
		return "", s
	}
	if r, _ := utf8.DecodeRuneInString(s[len(id):]); isWordRune(r) {
		return "", s // the id goes on in a script that ids are not written in
	}
	return id, s[len(id):]
}

func isIDByte(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || strings.IndexByte("-_.:", c) >= 0
}

func isNumber(s string) bool {
	return s != "" && len(s) < 7 && strings.Trim(s, "0123456789") == ""
}

func appendRange(ids []string, lo, hi string) []string {
	a, _ := strconv.Atoi(lo)
	b, _ := strconv.Atoi(hi)
	if b < a || b-a > maxRange {
		return append(ids, lo, hi)
	}
	for ; a <= b; a++ {
		ids = append(ids, strconv.Itoa(a))
	}
	return ids
}

// textMarkers looks at lines that begin with a marker ("SCUD Task 3: ...") and at list entries and bold
// lines that end with one. Such a line marks its checklist entry, else the heading that its own text
// names, else the section that it stands in.
func (p *Plan) textMarkers(r references, lines []int) {
	for _, n := range lines {
		if p.doc.Fenced(n) {
			continue
		}
		at := p.doc.Offset(n)
		raw := strings.TrimSpace(p.doc.Line(n))
		if strings.HasPrefix(raw, "#") || strings.HasPrefix(raw, "|") {
			continue
		}
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

// mentions are the lines that hold one of the words.
func (p *Plan) mentions(words ...string) []int {
	var lines []int
	for _, word := range words {
		for at := 0; ; {
			i := strings.Index(p.src[at:], word)
			if i < 0 {
				break
			}
			n := p.doc.LineAt(at + i)
			lines = append(lines, n)
			at = p.doc.Offset(n + 1)
		}
	}
	slices.Sort(lines)
	return slices.Compact(lines)
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
