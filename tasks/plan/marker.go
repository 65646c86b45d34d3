package plan

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"descartes/internal/lazyregexp"
	"descartes/internal/markdown"
	"descartes/tasks/prose"
)

// findMarkers fills the table of explicit markers: in headings, entries and lines that begin with one, then in tables.
// A table may add what the others do not say, or name a part of the same section. Of places within each other the
// innermost counts: where a phase is marked with all its tasks and its items with one each, the item is the task's
// section.
func (d *Document) findMarkers() {
	d.marks = map[string][]span{}
	for i, h := range d.heads {
		d.mark(h.text, d.section(i, ""))
	}
	for n := range d.md.Lines {
		text, head := strings.TrimLeft(d.words[n], "_*> "), d.headAt(n)
		// "(Tasks 1-3)" may refer to anything, but in a heading
		scud := strings.Index(strings.ToLower(text), "scud task")
		switch kind := d.md.Lines[n].Kind; {
		case kind == markdown.Entry && scud >= 0:
			d.mark(text, span{first: n, end: d.md.EntryEnd(n, len(d.md.Lines)), head: head})
		case kind == markdown.Text && scud == 0 && head >= 0 && !d.isTitle(head):
			d.mark(text, d.section(head, ""))
		}
	}
	d.innermost()
	earlier := maps.Clone(d.marks)
	for _, t := range d.tables {
		d.tableMarkers(&t, earlier)
	}
	d.innermost()
}

// mark notes what a text marks.
func (d *Document) mark(text string, at span) {
	if marker, ids := markerIn(text); len(ids) > 0 {
		at.how = fmt.Sprintf("%q marks it (%s)", text, marker)
		d.marked(ids, at)
	}
}

func (d *Document) marked(ids []string, at span) {
	for _, id := range ids {
		known := slices.ContainsFunc(d.marks[id], func(old span) bool { return old.inside(at) && at.inside(old) })
		if !known && len(d.marks[id]) < maxSpans {
			d.marks[id] = append(d.marks[id], at)
		}
	}
}

func (d *Document) innermost() {
	for id, list := range d.marks {
		d.marks[id] = slices.DeleteFunc(slices.Clone(list), func(a span) bool {
			return slices.ContainsFunc(list, func(b span) bool { return b.inside(a) && !a.inside(b) })
		})
	}
}

var markerText = lazyregexp.New(`(?i)\bscud tasks?\b[ :#]*|\(\s*tasks?\b[ :#]*`)

// markerIn finds "SCUD Task 3", "SCUD Tasks 3.1, 3.2" and, in parentheses alone, "(Task 3)". It returns the marker and
// the ids.
func markerIn(s string) (string, []string) {
	for _, at := range markerText.FindAllStringIndex(s, -1) {
		ids, after := idList(s[at[1]:])
		start := at[0]
		if s[start] == '(' {
			start++
			if !strings.HasPrefix(after, ")") {
				continue
			}
		}
		if len(ids) > 0 {
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

// tableMarkers reads a table that has a column of task ids and a column of plan sections.
func (d *Document) tableMarkers(t *table, earlier map[string][]span) {
	task := slices.IndexFunc(t.head, func(h string) bool {
		h = strings.TrimSuffix(strings.TrimPrefix(strings.ToLower(h), "scud "), "s")
		return slices.Contains([]string{"task", "task id", "id", "task #"}, h)
	})
	section := -1
	for _, word := range []string{"section", "heading", "plan", "item", "phase"} {
		if section < 0 {
			section = slices.IndexFunc(t.head, func(h string) bool {
				return strings.Contains(strings.ToLower(h), word)
			})
		}
	}
	for _, r := range t.rows {
		ids, rest := idList(strings.TrimPrefix(strings.ToLower(r.cell(task)), "scud "))
		if strings.TrimSpace(rest) != "" {
			continue // a title that begins with a number
		}
		for _, i := range d.headings(r.cell(section)) {
			at := d.section(i, fmt.Sprintf("table row in line %d maps it to %q", r.line+1, r.cell(section)))
			for _, id := range ids {
				if earlier[id] == nil || at.inside(earlier[id]...) {
					d.marked([]string{id}, at)
				}
			}
		}
	}
}

// headings are those that a reference names: by their text, or by their numbers as in "2.1", "Phase 2", "Phase 1.3a"
// (a part of 1.3) or "Phase 4.2-4.3". One that fits two headings names none.
func (d *Document) headings(ref string) (all []int) {
	ref = strings.TrimLeft(ref, "§# ")
	one := func(is func(h *heading) bool) bool {
		first := slices.IndexFunc(d.heads, func(h heading) bool { return is(&h) })
		if first < 0 || slices.ContainsFunc(d.heads[first+1:], func(h heading) bool { return is(&h) }) {
			return false
		}
		all = append(all, first)
		return true
	}
	text := prose.Fold(ref)
	if text == "" || one(func(h *heading) bool { return prose.Fold(h.text) == text || prose.Fold(h.title) == text }) {
		return all
	}
	refs, rest := prose.Refs(ref)
	if rest = strings.TrimSpace(rest); rest != "" && rest[0] != ':' {
		return nil
	}
	word, _, worded := strings.Cut(strings.ToLower(ref), " ")
	for _, r := range refs[:min(len(refs), maxSpans)] {
		id := strings.TrimRight(r.ID, "abcdefgh")
		if !one(func(h *heading) bool {
			return h.id == id && (h.word == "" || !worded || strings.TrimSuffix(word, "s") == h.word)
		}) {
			return nil
		}
	}
	return all
}
