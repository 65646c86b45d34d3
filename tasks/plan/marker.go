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

// findMarkers fills the table of explicit markers: in headings, in lines of text, in tables. Where they disagree the earlier kind holds,
// unless the later one names a part of the same section. Of places within each other the innermost counts: where a phase is marked with all
// its tasks and its items with one each, the item is the task's section.
func (d *Document) findMarkers() {
	d.marks = map[string][]span{}
	for _, find := range []func(mark func(ids []string, at span)){d.headingMarkers, d.lineMarkers, d.tableMarkers} {
		earlier := maps.Clone(d.marks)
		find(func(ids []string, at span) {
			for _, id := range ids {
				known := slices.ContainsFunc(d.marks[id], func(old span) bool { return old.inside(at) && at.inside(old) })
				if !known && len(d.marks[id]) < maxSpans && (earlier[id] == nil || at.inside(earlier[id]...)) {
					d.marks[id] = append(d.marks[id], at)
				}
			}
		})
		for id, list := range d.marks {
			d.marks[id] = slices.DeleteFunc(slices.Clone(list), func(a span) bool {
				return slices.ContainsFunc(list, func(b span) bool { return b.inside(a) && !a.inside(b) })
			})
		}
	}
}

func (d *Document) headingMarkers(mark func(ids []string, at span)) {
	for i, h := range d.heads {
		if text, ids := markerIn(h.text, true); len(ids) > 0 {
			mark(ids, d.section(i, fmt.Sprintf("heading %q marks it (%s)", h.text, text)))
		}
	}
}

var markerText = lazyregexp.New(`(?i)\bscud tasks?\b[ :#]*|\(\s*tasks?\b[ :#]*`)

// markerIn finds "SCUD Task 3", "SCUD Tasks 3.1, 3.2" and, in parentheses alone, "(Task 3)". It returns the marker and the ids; heading
// allows a marker anywhere in the line.
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
		if heading || start == 0 || opened && strings.TrimSpace(s[strings.LastIndexByte(s, ')')+1:]) == "" {
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

// lineMarkers reads lines that begin with a marker ("SCUD Task 3: ..."), and list entries and lines in bold that end with one. Such a line
// marks the checklist entry around it, else the section.
func (d *Document) lineMarkers(mark func(ids []string, at span)) {
	for n := range d.md.Lines {
		kind, words := d.md.Lines[n].Kind, d.md.Words(n)
		if kind != markdown.Text && kind != markdown.Entry || !strings.Contains(words, "ask") && !strings.Contains(words, "ASK") || words[0] == '|' {
			continue
		}
		text := strings.TrimLeft(markdown.Inline(words), "_*> ")
		whole, ids := markerIn(text, false)
		if len(ids) == 0 || kind == markdown.Text && !markdown.BoldLine(words) && !strings.HasPrefix(text, whole) {
			continue // prose that mentions a task
		}
		i := d.headAt(n)
		for i >= 0 && isRoutine(prose.Fold(d.heads[i].text)) {
			i = d.heads[i].parent
		}
		at := span{head: i}
		if i >= 0 && !d.isTitle(i) {
			at = d.section(i, "")
		}
		for k := n; k >= 0 && k > n-maxSpans; k-- {
			if d.md.Lines[k].Box != 0 && d.md.EntryEnd(k, n+1) > n {
				at = span{first: k, end: d.md.EntryEnd(k, len(d.md.Lines)), head: d.headAt(n)}
				break
			}
		}
		if at.how = fmt.Sprintf("line %d marks it (%s)", n+1, whole); at.end > 0 {
			mark(ids, at)
		}
	}
}

// tableMarkers reads the tables that have a column of task ids and a column of plan sections.
func (d *Document) tableMarkers(mark func(ids []string, at span)) {
	for _, t := range d.tables {
		task := slices.IndexFunc(t.head, func(h string) bool {
			h = strings.TrimSuffix(strings.TrimPrefix(strings.ToLower(h), "scud "), "s")
			return slices.Contains([]string{"task", "task id", "id", "task #"}, h)
		})
		section := -1
		for _, word := range []string{"section", "heading", "plan", "item", "phase"} {
			if section < 0 {
				section = slices.IndexFunc(t.head, func(h string) bool { return strings.Contains(strings.ToLower(h), word) })
			}
		}
		for _, r := range t.rows {
			text := r.cell(task)
			if len(text) > 5 && strings.EqualFold(text[:5], "scud ") {
				text = text[5:]
			}
			if ids, rest := idList(text); strings.TrimSpace(rest) == "" { // else it is a title that begins with a number
				for _, i := range d.headings(r.cell(section)) {
					mark(ids, d.section(i, fmt.Sprintf("table row in line %d maps it to %q", r.line+1, r.cell(section))))
				}
			}
		}
	}
}

// headings are those that a reference names: by their text, or by their numbers as in "2.1", "Phase 2", "Phase 1.3a" (a part of 1.3) or
// "Phase 4.2-4.3". One that fits two headings names none.
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
