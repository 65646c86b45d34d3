package plan

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"descartes/internal/markdown"
	"descartes/tasks/outline"
	"descartes/tasks/prose"
)

// findMarkers fills the table of explicit markers: in headings, entries and lines that begin with one, then in tables.
// A table may add what the others do not say, or name a part of the same section. Of places within each other the
// innermost counts: where a phase is marked with all its tasks and its items with one each, the item is the task's
// section.
func (d *Document) findMarkers() {
	d.marks = map[string][]span{}
	for i, h := range d.Heads {
		d.mark(h.Text, d.section(i, ""))
	}
	for n := range d.Lines {
		text, head := strings.TrimLeft(d.Plain(n), "_*> "), d.HeadAt(n)
		// "(Tasks 1-3)" may refer to anything, but in a heading
		scud := strings.Index(strings.ToLower(text), "scud task")
		switch kind := d.Lines[n].Kind; {
		case kind == markdown.Entry && scud >= 0:
			d.mark(text, span{first: n, end: d.EntryEnd(n, len(d.Lines)), head: head})
		case kind == markdown.Text && scud == 0 && head >= 0 && !d.IsTitle(head):
			d.mark(text, d.section(head, ""))
		}
	}
	d.innermost()
	earlier := maps.Clone(d.marks)
	for _, t := range d.Tables {
		d.tableMarkers(&t, earlier)
	}
	d.innermost()
}

// mark notes what a text marks.
func (d *Document) mark(text string, at span) {
	if marker, ids := prose.Marker(text); len(ids) > 0 {
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

// tableMarkers reads a table that has a column of task ids and a column of plan sections.
func (d *Document) tableMarkers(t *outline.Table, earlier map[string][]span) {
	task := slices.IndexFunc(t.Head, func(h string) bool {
		h = strings.TrimSuffix(strings.TrimPrefix(strings.ToLower(h), "scud "), "s")
		return slices.Contains([]string{"task", "task id", "id", "task #"}, h)
	})
	section := -1
	for _, word := range []string{"section", "heading", "plan", "item", "phase"} {
		if section < 0 {
			section = slices.IndexFunc(t.Head, func(h string) bool {
				return strings.Contains(strings.ToLower(h), word)
			})
		}
	}
	for _, r := range t.Rows {
		ids, rest := prose.IDs(strings.TrimPrefix(strings.ToLower(r.Cell(task)), "scud "))
		if strings.TrimSpace(rest) != "" {
			continue // a title that begins with a number
		}
		for _, i := range d.headings(r.Cell(section)) {
			at := d.section(i, fmt.Sprintf("table row in line %d maps it to %q", r.Line+1, r.Cell(section)))
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
	one := func(is func(h *outline.Heading) bool) bool {
		first := slices.IndexFunc(d.Heads, func(h outline.Heading) bool { return is(&h) })
		if first < 0 || slices.ContainsFunc(d.Heads[first+1:], func(h outline.Heading) bool { return is(&h) }) {
			return false
		}
		all = append(all, first)
		return true
	}
	text := prose.Fold(ref)
	if text == "" || one(func(h *outline.Heading) bool { return prose.Fold(h.Text) == text || prose.Fold(h.Title) == text }) {
		return all
	}
	refs, rest := prose.Refs(ref)
	if rest = strings.TrimSpace(rest); rest != "" && rest[0] != ':' {
		return nil
	}
	word, _, worded := strings.Cut(strings.ToLower(ref), " ")
	for _, r := range refs[:min(len(refs), maxSpans)] {
		id := strings.TrimRight(r.ID, "abcdefgh")
		if !one(func(h *outline.Heading) bool {
			return h.ID == id && (h.Word == "" || !worded || strings.TrimSuffix(word, "s") == h.Word)
		}) {
			return nil
		}
	}
	return all
}
