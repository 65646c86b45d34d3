package outline

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"descartes/internal/lazyregexp"
	"descartes/internal/markdown"
	"descartes/tasks/prose"
)

// Rule is one way in which people write tasks.
type Rule struct {
	Name, Example string
	Queue         bool // each task waits for the one before it, but for neighbours marked [P]
	sure          bool // its word for a task leaves no doubt
	headings      bool // each task has one: what another one with a number is about was left out
	whole         bool // a numbered entry is a part of what it stands in, wherever that ends
	prose         bool // reports and logs of decisions have such too, and no tasks
	find          func(*Choice) []Item
}

// rules are tried in this order. The first counts that takes at least as many lines that look like work as it leaves
// out, or that is sure, or else the one that comes nearest to that; what it leaves out is said.
func rules() []Rule {
	return []Rule{
		{Name: "boxes with ids", Example: "- [ ] T001 Title", Queue: true, sure: true, find: (*Choice).boxesWithIDs},
		{Name: "elements <task>", Example: "<task><name>Title</name>", sure: true, find: (*Choice).elements},
		{Name: `headings "Task"`, Example: "### Task 1: Title", sure: true, headings: true, find: (*Choice).taskHeadings},
		{Name: `entries "Task"`, Example: "- **Task 1: Title**", find: (*Choice).taskEntries},
		{Name: "headings with ids", Example: "### U1. Title", headings: true, prose: true, find: func(c *Choice) []Item { return c.numbered("unit") }},
		{Name: "steps", Example: "## Step 1: Title", prose: true, find: func(c *Choice) []Item {
			if len(c.Phases) == 0 || c.Phases[0].Word != "step" {
				return nil
			}
			return c.phaseItems()
		}},
		{Name: "rows of tables", Example: "| # | Task | Status |", prose: true, find: func(c *Choice) []Item { return named(c.rows("status")) }},
		{Name: "parts of phases", Example: "## Phase 1: Name, then - [ ] Title", prose: true, find: (*Choice).phaseParts},
		{Name: "phases", Example: "## Phase 1: Title", whole: true, prose: true, find: func(c *Choice) []Item {
			if len(c.Phases) < 2 { // one is spoken of
				return nil
			}
			return c.phaseItems()
		}},
		{Name: "proposed changes", Example: "## Proposed Changes, then ### Component", find: (*Choice).proposed},
		{Name: "headings of checklists", Example: "### 1. Title, then - [ ] Part", headings: true, find: func(c *Choice) []Item {
			items := c.headingItems(0, len(c.Lines), false)
			if n := without(items, c.boxes(0, len(c.Lines))); n == 0 || 2*n >= len(items) {
				return nil
			}
			return named(items)
		}},
		{Name: "boxes", Example: "- [ ] Title", find: func(c *Choice) []Item { return named(c.boxes(0, len(c.Lines))) }},
		{Name: "numbered sections", Example: "## Change 1: Title", prose: true, find: func(c *Choice) []Item { return c.numbered("section") }},
		{Name: "numbered headings", Example: "## 1. Title", prose: true, find: (*Choice).numberedHeadings},
		{Name: "rows with a priority", Example: "| Priority | Item |", prose: true, find: func(c *Choice) []Item { return named(c.rows("priority")) }},
		{Name: "entries of a list", Example: "## Tasks, then 1. Title", find: (*Choice).listed},
		{Name: "boxes of a checklist", Example: "## Implementation Checklist, then - [ ] Title", find: func(c *Choice) []Item {
			c.weak = true
			return named(c.boxes(0, len(c.Lines)))
		}},
		{Name: "entries of a to-do list", Example: "# TODO, then - Title", find: (*Choice).todo},
	}
}

// Choice is a document with what in it are its tasks. It does not change after Choose.
type Choice struct {
	*Document
	By      Rule // no name where there are no tasks
	Items   []Item
	Phases  []Phase
	Doubles []Double
	Work    []*Table // but those that are an index of sections

	about map[int]int // lines of boxes and numbers that only name an item that stands elsewhere, to its place, or a phase
	rowOf map[int]Item
	weak  bool // no work was found: sections called checklist count too
}

// Phase is one phase of a plan.
type Phase struct {
	*Heading     // with an id of its own
	Head     int // place of the heading in the document
}

// Double is the second thing with an id: a task, or a phase by its word. Lines count from 0.
type Double struct {
	What, ID, Own string
	Line, First   int
}

// Choose finds the tasks of a document by the rule that fits best. Items have ids, which may be doubles but with the
// first rule.
func (d *Document) Choose() *Choice {
	c := &Choice{Document: d, rowOf: map[int]Item{}}
	c.findPhases()
	c.findRows()
	best, record := 0, recordTitle.MatchString(prose.Fold(c.title()))
	for _, by := range rules() {
		if by.prose && record {
			continue
		}
		found := by.find(c)
		if len(found) == 0 {
			continue
		}
		about := c.elsewhere(found)
		taken, left := len(found), 0
		in := c.inside(found)
		c.leave(by, found, about, func(n int, _ string) {
			if c.Under(n) < prose.Background {
				left++
			}
		})
		for n := range c.Lines {
			if in[n] && c.Lines[n].Box != 0 {
				taken++
			}
		}
		fits := left <= taken || by.sure
		if fits || len(c.Items) == 0 || taken-left > best {
			c.By, c.Items, c.about, best = by, found, about, taken-left
		}
		if fits {
			break
		}
	}
	for n, i := range c.about {
		if i != aPhase && c.Lines[n].Box != 0 && c.Items[i].Status == "" {
			c.Items[i].Status = prose.BoxStatus(c.Lines[n].Box)
		}
	}
	return c
}

// About reports whether a line with a box says how far a task is that stands elsewhere.
func (c *Choice) About(line int) bool { _, ok := c.about[line]; return ok }

// aPhase stands for the place of a phase whose parts are the tasks.
const aPhase = -1

// elsewhere finds the boxes and numbered entries that name a section that is a task, as in a checklist of steps above
// the steps.
func (c *Choice) elsewhere(list []Item) map[int]int {
	places := map[string]int{} // by id and by folded title; -1 for several
	note := func(name string, i int) {
		if k, ok := places[name]; ok && k != i {
			i = -1
		}
		places[name] = i
	}
	for i := range list {
		short, _, _ := strings.Cut(list[i].Title, " (")
		note("title "+prose.Fold(list[i].Title), i)
		note("title "+prose.Fold(short), i)
		note(list[i].ID, i)
	}
	about, in := map[int]int{}, c.inside(list)
	for n := range c.Lines {
		if in[n] || c.Lines[n].Kind != markdown.Entry || c.Lines[n].Box == 0 && c.Lines[n].Number == "" {
			continue
		}
		word, id, title := prose.Numbered(c.Plain(n))
		i, ok := places["title "+prose.Fold(title)]
		if k, known := places[id]; known && (!ok || i < 0) && prose.IsDotted(id) {
			i, ok = k, true
		}
		if ok && i >= 0 && c.Lines[list[i].Line].Kind != markdown.Entry {
			about[n] = i
		} else if word != "" && slices.ContainsFunc(c.Phases, func(f Phase) bool { return f.Word == word && f.Heading.ID == id }) {
			about[n] = aPhase
		}
	}
	return about
}

// inside says of each line whether it belongs to one of these tasks.
func (d *Document) inside(list []Item) []bool {
	in := make([]bool, len(d.Lines)+1)
	for i := range list {
		for n := list[i].Line; n < list[i].Last; n++ {
			in[n] = true
		}
	}
	return in
}

// Together reports whether two items are neighbours that may run at the same time: both are marked so, under one heading.
func (c *Choice) Together(a, b int) bool {
	x, y := &c.Items[a], &c.Items[b]
	return x.Parallel && y.Parallel && c.HeadAt(x.Line) == c.HeadAt(y.Line)
}

// Left visits the lines that look like work and are neither in a task nor a criterion, with why they are no tasks.
func (c *Choice) Left(visit func(line int, reason string)) { c.leave(c.By, c.Items, c.about, visit) }

func (c *Choice) leave(by Rule, list []Item, about map[int]int, visit func(n int, reason string)) {
	in, ids, titles := c.inside(list), map[string]bool{}, map[string]bool{}
	for i := range list {
		ids[list[i].ID], titles[prose.Fold(list[i].Title)] = true, true
	}
	todo := by.Name == "boxes" && c.isTodo() // then a section without boxes is work too
	last, without := -1, false
	unboxed := func(head int) bool {
		if head >= 0 && head != last {
			h := &c.Heads[head]
			last, without = head, !c.isFinished(head) &&
				!slices.ContainsFunc(c.Lines[h.Line:h.End], func(l markdown.Line) bool { return l.Box != 0 })
		}
		return head >= 0 && without
	}
	chosen := fmt.Sprintf("the tasks of this plan are its %s (as in %q)", by.Name, by.Example)
	for n := range c.Lines {
		l, section, head := &c.Lines[n], c.Under(n), c.HeadAt(n)
		row, isRow := c.rowOf[n]
		if _, named := about[n]; in[n] || named || section >= prose.Checklist && section != prose.Aside {
			continue
		}
		switch background := section >= prose.Background; {
		case by.Queue && l.Box != 0 && c.Entry(n).Optional:
			visit(n, Optional)
		case l.Box != 0 && background:
			visit(n, fmt.Sprintf("it stands under %q", c.Heads[head].Text))
		case l.Box != 0, todo && !background && l.Kind == markdown.Entry && l.Indent == 0 && unboxed(head), isRow && !background && !ids[row.Own] && !titles[prose.Fold(row.Title)],
			!by.Queue && head >= 0 && c.Heads[head].Line == n && c.isWork(&c.Heads[head], by) && !holds(list, &c.Heads[head]),
			!by.Queue && l.Number != "" && section == prose.Work && l.Kind == markdown.Entry && !by.whole && !in[n+1]:
			visit(n, chosen)
		}
	}
}

// Closed reports whether a line that was left out says that it is done, or that nobody waits for it.
func (c *Choice) Closed(n int) bool {
	_, status := CutStatus(c.Plain(n))
	return status == "done" || c.Lines[n].Box != 0 && (prose.BoxStatus(c.Lines[n].Box) == "done" || c.By.Queue && c.Entry(n).Optional)
}

// Optional is why an entry is left out that a person may do or leave.
const Optional = "it is optional"

// isWork reports whether a heading is about a task or a phase.
func (c *Choice) isWork(h *Heading, by Rule) bool {
	k := c.PhaseAt(h.Line)
	return h.IsTask() || h.Word == "unit" || k >= 0 && !h.Background() && (c.Phases[k].Line == h.Line ||
		by.headings && h.Word == "" && strings.Contains(h.ID, "."))
}

// holds reports whether a task begins in the section of a heading.
func holds(list []Item, h *Heading) bool {
	return slices.ContainsFunc(list, func(x Item) bool { return h.Line <= x.Line && x.Line < h.End })
}

// boxesWithIDs are the entries with boxes, where at least half of them have ids, in whatever depth: those that have one
// and those at the side of such. What has no id where that is no work, what is optional, and the parts of an entry that
// have no id of their own are none. One without an id gets its title for an id, because its place changes.
func (c *Choice) boxesWithIDs() (list []Item) {
	all := c.allBoxes()
	stems := map[string]bool{} // of ids elsewhere than among criteria
	for _, x := range all {
		stems[stem(x.Own)] = stems[stem(x.Own)] || c.under(&x) < prose.Checklist
	}
	const none = 1 << 30
	above, withID := none, 0 // indentation of the entry with an id that the next ones may stand below
	for _, x := range all {
		section, at := c.under(&x), c.Lines[x.Line].Indent
		if at <= above {
			above = none
		}
		switch {
		case section >= prose.Checklist && (x.Own == "" || !stems[stem(x.Own)]) || x.Optional:
			continue
		case x.Own != "":
			above, withID = at, withID+1
		case at > above || section >= prose.Background:
			continue
		}
		list = append(list, x)
	}
	if 2*withID < max(1, len(list)) {
		return nil
	}
	c.nameBoxes(list)
	end := len(c.Lines)
	for k := range slices.Backward(list) {
		list[k].Last = c.EntryEnd(list[k].Line, end)
		end = list[k].Line
	}
	return list
}

// under is Under but for the sections whose number the id of an entry has: "2. Verification" with "2.1" is work.
func (c *Choice) under(x *Item) (section prose.Section) {
	section = c.label[x.Line]
	for i := c.HeadAt(x.Line); i >= 0; i = c.Heads[i].Parent {
		if h := &c.Heads[i]; h.Level < BoldLevel && h.Word == "" && (h.ID == "" || !strings.HasPrefix(x.Own, h.ID)) {
			section = max(section, prose.SectionOf(prose.Fold(h.Title)))
		}
	}
	return section
}

// allBoxes are all entries with boxes. A word like ES2023 that no other entry's id resembles begins a title, and so
// does a mere number among codes.
func (c *Choice) allBoxes() (list []Item) {
	count, codes := map[string]int{}, false
	for n := range c.Lines {
		if !c.isBox(n) {
			continue
		}
		x := c.Entry(n)
		if strings.Contains(x.Own, "-") && !prose.CodeID(x.Own) {
			x.Own, x.Title = "", x.whole // GSD's "01-01: Title", whose phases are tasks of no list
		}
		count[stem(x.Own)]++
		codes = codes || prose.CodeID(x.Own) && c.under(&x) < prose.Checklist
		list = append(list, x)
	}
	for i := range list {
		x := &list[i]
		alone := prose.CodeID(x.Own) && count[stem(x.Own)] == 1 && len(list) > 1 && strings.HasPrefix(x.whole, x.Own+" ")
		if alone || codes && prose.IsNumber(x.Own) {
			x.Own, x.Title = "", x.whole
		}
	}
	return list
}

// stem is what an id begins with, before its number.
func stem(id string) string {
	return id[:len(id)-len(strings.TrimLeft(id, "ABCDEFGHIJKLMNOPQRSTUVWXYZ-_"))]
}

// nameBoxes gives entries without an id one that stays when the list changes: the words of the title. The second entry
// of an id is one of its own. 1.1 is a part of 1, or of 1.0, if the list has both: of the last one above, else of the
// first.
func (c *Choice) nameBoxes(list []Item) {
	lines := map[string]int{} // from 1, by id
	for _, x := range list {
		if lines[x.Own] == 0 && x.Own != "" {
			lines[x.Own] = x.Line + 1
		}
	}
	base := make([]string, len(list))
	first, above := map[string]int{}, map[string]int{} // places by the id as written
	for i := range list {
		x := &list[i]
		base[i] = cmp.Or(x.Own, prose.Slug(x.Title))
		if x.Title == "" {
			x.Title = "Task " + x.Own
		}
		if x.ID = x.Own; x.Own == "" || lines[x.Own] != x.Line+1 {
			x.ID, x.Made = prose.FreeID(base[i], func(id string) bool { return lines[id] > 0 }), true
			if x.Own != "" {
				c.Doubles = append(c.Doubles, Double{"task", x.Own, x.ID, x.Line, lines[x.Own] - 1})
			}
			lines[x.ID] = x.Line + 1
		}
		if _, ok := first[base[i]]; !ok {
			first[base[i]] = i
		}
	}
	for i := range list {
		above[base[i]] = i
		dot := max(0, strings.LastIndexByte(base[i], '.'))
		for _, places := range []map[string]int{above, first} {
			for _, id := range []string{base[i][:dot], base[i][:dot] + ".0"} {
				if up, ok := places[id]; ok && dot > 0 && base[up] != base[i] && list[i].Parent == "" {
					list[i].Parent = list[up].ID
				}
			}
		}
	}
}

// elements are the elements <task>.
func (c *Choice) elements() (list []Item) {
	for n := 0; n < len(c.Lines); n++ {
		if x, ok := c.element(n); ok {
			list, n = append(list, x), x.Last-1
		}
	}
	return named(list)
}

// taskHeadings makes a task of each heading "Task N". One in the section of another is a part of it. Where each phase
// counts anew, these are its items.
func (c *Choice) taskHeadings() (list []Item) {
	if !slices.ContainsFunc(c.Heads, func(h Heading) bool { return h.IsTask() }) {
		return nil
	}
	ids := map[int]string{} // by heading
	for i := range c.Heads {
		h := &c.Heads[i]
		if !h.IsTask() && !c.isBeside(i) {
			continue
		}
		x := section(h)
		ids[i] = x.ID
		for up := h.Parent; up >= 0 && x.Parent == ""; up = c.Heads[up].Parent {
			x.Parent = ids[up]
		}
		if n := len(list); n > 0 {
			list[n-1].Last = min(list[n-1].Last, h.Line)
		}
		list = append(list, x)
	}
	if c.anew(list) {
		return nil
	}
	return list
}

// anew reports whether an id is in two phases: each of them counts for itself.
func (c *Choice) anew(list []Item) bool {
	phases := map[string]int{} // by id
	return slices.ContainsFunc(list, func(x Item) bool {
		first, known := phases[x.ID]
		phases[x.ID] = c.PhaseAt(x.Line)
		return known && first != phases[x.ID]
	})
}

// isBeside reports whether a heading of a phase has a number and neither is a task by its word nor holds one: "2.1
// Title" where others are called "Task 2.2: Title".
func (c *Choice) isBeside(i int) bool {
	h := &c.Heads[i]
	if h.Word != "" || !strings.Contains(h.ID, ".") || h.Background() || c.PhaseAt(h.Line) < 0 {
		return false
	}
	for up := h.Parent; up >= 0; up = c.Heads[up].Parent {
		if c.Heads[up].IsTask() {
			return false
		}
	}
	for i++; i < len(c.Heads) && c.Heads[i].Line < h.End; i++ {
		if c.Heads[i].IsTask() {
			return false
		}
	}
	return true
}

// taskEntries makes a task of each entry "Task N: Title" without a box, if there are several.
func (c *Choice) taskEntries() []Item {
	items := c.entries(0, len(c.Lines), func(n int) bool {
		text, _ := CutStatus(c.Plain(n))
		word, id, title := prose.Numbered(text)
		return c.Lines[n].Box == 0 && (word == "task" || word == "subtask") && title != "" &&
			!strings.HasSuffix(text, id+" "+title) // "Task 2 needs it" speaks of one
	})
	if len(items) < 2 {
		return nil
	}
	return named(items)
}

// numbered makes a task of each heading with this word, of the level that has the most, if there are several. Where
// each phase counts anew, these are its items.
func (c *Choice) numbered(word string) []Item {
	levels := [BoldLevel + 1][]Item{}
	best := 0
	var all []Item
	for i := range c.Heads {
		if h := &c.Heads[i]; h.Word == word && !h.Background() {
			all = append(all, section(h))
			levels[h.Level] = append(levels[h.Level], section(h))
		}
	}
	for k := range levels {
		if len(levels[k]) > len(levels[best]) {
			best = k
		}
	}
	if len(levels[best]) < 2 || c.anew(all) {
		return nil
	}
	return levels[best]
}

// rows makes tasks of the rows of tables, by this column where a row has no number.
func (c *Choice) rows(column string) (all []Item) {
	for _, t := range c.Work {
		if c.Under(t.Rows[0].Line) < prose.Background {
			all = append(all, t.items(column)...)
		}
	}
	return all
}

// items are the tasks of a table, none where a row is none.
func (t *Table) items(column string) (items []Item) {
	known := false
	for _, r := range t.Rows {
		x, ok := t.row(r, column)
		if !ok {
			return nil
		}
		known = known || x.Status != ""
		items = append(items, x)
	}
	if !known && column == "status" && t.Column("id", "place") < 0 && t.After() < 0 && !prose.CodeID(items[0].Own) {
		return nil // "available", "stable": of something else than work
	}
	return items
}

// findRows finds the tables of work, and what their rows are tasks of.
func (c *Choice) findRows() {
	type name struct {
		phase int
		text  string
	}
	heads := map[name]bool{}
	for i := range c.Heads {
		h := &c.Heads[i]
		heads[name{c.PhaseAt(h.Line), h.ID}], heads[name{c.PhaseAt(h.Line), prose.Fold(h.Title)}] = true, true
	}
	for i := range c.Tables {
		t, index := &c.Tables[i], 0
		for _, r := range t.Rows {
			_, title, _ := t.Names(r)
			k := c.PhaseAt(r.Line)
			if heads[name{k, prose.Fold(title)}] || prose.CodeID(r.Cells[0]) && heads[name{k, r.Cells[0]}] {
				index++
			}
		}
		if 2*index <= len(t.Rows) {
			c.Work = append(c.Work, t)
			for _, x := range t.items("status") {
				c.rowOf[x.Line] = x
			}
		}
	}
}

// phaseItems makes a task of each phase.
func (c *Choice) phaseItems() (list []Item) {
	for i := range c.Phases {
		list = append(list, section(c.Phases[i].Heading))
		list[i].Made = true
	}
	return list
}

// phaseParts makes tasks of the items in phases, and of phases without any, if some phase has items.
func (c *Choice) phaseParts() (list []Item) {
	items := make([][]Item, len(c.Phases))
	// through: numbered on from phase to phase, so that the numbers are ids
	some, through, last := false, len(c.Phases) > 1, 0
	var codes []Item
	for i := range c.Phases {
		items[i] = c.itemsOf(&c.Phases[i])
		some, through = some || len(items[i]) > 0, through && len(items[i]) > 0
		for _, x := range items[i] {
			n, err := strconv.Atoi(x.ID)
			through, last = through && err == nil && n > last, n
			if prose.CodeID(x.ID) {
				codes = append(codes, x)
			}
		}
	}
	if !some {
		return nil
	}
	whole, anew := c.phaseItems(), c.anew(codes)
	for i := range c.Phases {
		if len(items[i]) == 0 {
			items[i] = whole[i : i+1]
		} else if through {
			nameItems(items[i], "")
		} else {
			nameItems(items[i], c.Phases[i].ID)
		}
		// the heading says that all is done, and nobody ticked a box
		untouched := !slices.ContainsFunc(items[i], func(x Item) bool { return x.Status != "" && x.Status != "pending" })
		for _, x := range items[i] {
			if whole[i].Status == "done" && (x.Status == "" || untouched) {
				x.Status = "done"
			}
			if anew && prose.CodeID(x.ID) { // each has its own WP1
				x.ID, x.Made = c.Phases[i].ID+"."+x.ID, true
			}
			list = append(list, x)
		}
	}
	return list
}

// itemsOf finds the items of a phase: its boxes where each numbered heading in it has some, else numbered headings, else
// boxes, else a numbered list.
func (c *Choice) itemsOf(f *Phase) []Item {
	heads, boxes := c.headingItems(f.Head+1, f.End, true), c.boxes(f.Line+1, f.End)
	switch {
	case len(boxes) > 0 && without(heads, boxes) == 0:
		return boxes
	case len(heads) > 0:
		return heads
	}
	return c.entries(f.Line+1, f.End, func(n int) bool { return c.isNumbered(n) && c.isWorkOf(f, n) })
}

// isWorkOf reports whether what stands over an entry of a phase says that it is work: nothing but the phase, or a heading
// or a label for work.
func (c *Choice) isWorkOf(f *Phase, n int) bool {
	if k := c.HeadAt(n); k != f.Head && !prose.IsWork(prose.Fold(c.Heads[k].Title)) {
		return false
	}
	for up := n - 1; up > f.Line && c.Lines[up].Kind != markdown.Heading; up-- {
		l := &c.Lines[up]
		if text := strings.Replace(c.Plain(up), "：", ":", 1); l.Kind == markdown.Text && l.Indent == 0 &&
			(strings.HasSuffix(text, ":") || markdown.BoldLine(c.Words(up))) {
			return prose.IsWork(prose.Fold(text))
		}
	}
	return true
}

// without counts the headings without a box in their section.
func without(heads, boxes []Item) (n int) {
	for _, h := range heads {
		if !slices.ContainsFunc(boxes, func(b Item) bool { return h.Line < b.Line && b.Line < h.Last }) {
			n++
		}
	}
	return n
}

// headingItems are the numbered headings of the highest level that has such, among the headings from i on; with worded
// those count too whose number follows a word.
func (c *Choice) headingItems(i, end int, worded bool) (items []Item) {
	level := BoldLevel + 1
	for ; i < len(c.Heads) && c.Heads[i].Line < end; i++ {
		h := &c.Heads[i]
		if h.ID == "" || h.Background() || h.Level > level || h.Word != "" && !worded || c.IsTitle(i) {
			continue
		}
		if h.Level < level {
			level, items = h.Level, items[:0]
		}
		x := section(h)
		x.Last = min(x.Last, end)
		items = append(items, x)
	}
	return items
}

// numberedHeadings makes tasks of these, unless they are the chapters of a document: nothing says that they are work, or
// one of them is its summary, its list of tasks, or another section that is no task.
func (c *Choice) numberedHeadings() []Item {
	items := c.headingItems(0, len(c.Lines), true)
	if len(items) < 2 {
		return nil
	}
	first := &c.Heads[c.HeadAt(items[0].Line)]
	level := first.Level
	around := prose.Fold(c.title())
	if first.Parent >= 0 && !c.IsTitle(first.Parent) {
		around = prose.Fold(c.Heads[first.Parent].Title)
	}
	if !workList.MatchString(around) && prose.SectionOf(around) != prose.Work && !prose.Finished(around) && !c.saysWork(items) {
		return nil
	}
	if slices.ContainsFunc(c.Heads, func(h Heading) bool {
		return h.Level == level && h.ID != "" && (h.Background() || prose.SectionOf(prose.Fold(h.Title)) != prose.Unknown)
	}) {
		return nil
	}
	return named(items)
}

// proposed are the headings right below one over proposed changes, as Antigravity's plans have it.
func (c *Choice) proposed() (items []Item) {
	for i := range c.Heads {
		h := &c.Heads[i]
		if h.Parent < 0 || h.Level >= BoldLevel || !proposal.MatchString(prose.Fold(c.Heads[h.Parent].Title)) {
			continue
		}
		x := section(h)
		x.Title = strings.TrimSpace(fileMark.ReplaceAllString(x.Title, ""))
		items = append(items, x)
	}
	return named(items)
}

// saysWork reports whether most of some sections have a status or say what only work has: files, effort, a box.
func (c *Choice) saysWork(items []Item) bool {
	n := 0
	for _, x := range items {
		if x.Status != "" || slices.ContainsFunc(c.Lines[x.Line+1:x.Last], func(l markdown.Line) bool {
			name, _, ok := strings.Cut(strings.Replace(c.Plain(c.LineAt(l.Start)), "：", ":", 1), ":")
			return l.Box != 0 || ok && (workLabel.MatchString(prose.Fold(name)) || prose.Label(name) != "")
		}) {
			n++
		}
	}
	return 2*n > len(items)
}

// title is what the document calls itself: by its first heading, or else by its name.
func (d *Document) title() string {
	if len(d.Heads) > 0 && d.Heads[0].Level == 1 {
		return d.Heads[0].Text
	}
	return strings.NewReplacer("_", " ", ".markdown", "", ".md", "").Replace(d.Name)
}

var (
	// recordTitle recognises a folded title of what was done or decided.
	recordTitle = lazyregexp.New(`\b(?:report|results?|retrospective|post-?mortem|change ?log|release notes|decisions?|minutes|meeting notes)(?: archive| log)?(?:$| ?[(:—–])`)
	proposal    = lazyregexp.New(`^(?:[0-9.]+ )?(?:proposed (?:file |code )?(?:changes|modifications)|cambios propuestos|alterações propostas|mudanças propostas|vorgeschlagene änderungen|changements proposés|предлагаемые изменения|提案する変更|変更内容|修正内容|제안된 변경.*|제안 변경.*|拟议的?(?:更改|变更)|提议的?(?:更改|变更)|建议的?(?:更改|变更))$`)
	fileMark    = lazyregexp.New(`^\[(?:NEW|MODIFY|DELETE|RENAME)\]`)
	workList    = lazyregexp.New(`\b(?:tasks?|steps|to-?dos?|to do|fixes|improvements|issues|bugs|actions|changes|order)\b`)
	workLabel   = lazyregexp.New(`^(?:files?(?: .*)?|effort|estimated? .*|impact|owner|verif.*|acceptance.*|fix|action|problem|changes?|steps?|tasks?|duration|goal)$`)

	// workTitle recognises a folded heading over a list of tasks by its last or first words.
	workTitle = lazyregexp.New(`(?:^|[\s/])(?:tasks|to-?dos?|action items|steps|(?:delivery|build|execution|suggested|implementation|recommended) order)$|^plan (?:to|for)\b|(?:任务|任務|タスク|작업)$|^(?:里程碑|マイルストーン|마일스톤)`)
	planTitle = lazyregexp.New(`\bplan\b`)
	todoTitle = lazyregexp.New(`^(?:[^:]* )?(?:to-?dos?|to do|backlog|roadmap|feuille de route|hoja de ruta)(?: list)?(?:\.md)?(?:$| ?[:—–(-])|(?:路线图|ロードマップ|로드맵|待办)`)
)

// listed makes tasks of the lists under headings such as "Tasks", or else of one directly under a title that says that
// it is a plan: of their numbered entries, or under a heading of all if none has a number.
func (c *Choice) listed() []Item {
	var items []Item
	for _, whole := range []bool{false, true} {
		end := 0
		for i := range c.Heads {
			h := &c.Heads[i]
			title, _, _ := strings.Cut(prose.Fold(h.Title), " (")
			if h.Line < end || h.Background() || whole && i > 0 || whole != c.IsTitle(i) && len(c.Heads) > 1 ||
				h.Section != prose.Work && !workTitle.MatchString(title) && !(whole && planTitle.MatchString(title)) {
				continue
			}
			if end = h.End; whole && len(c.Heads) > 1 {
				end = c.Heads[1].Line
			}
			found := c.entries(h.Line+1, end, c.isNumbered)
			if len(found) == 0 && !whole && !strings.Contains(h.ID, ".") { // "6.3 Tasks" may be a chapter about them
				found = c.anyEntries(h.Line+1, end)
			}
			items = append(items, found...)
		}
		if len(items) > 0 {
			break
		}
	}
	return named(items)
}

// todo makes tasks of all entries of a document whose name or title says that it is a list of what is to be done.
func (c *Choice) todo() []Item {
	if !c.isTodo() {
		return nil
	}
	items := append(c.rows("title"), c.anyEntries(0, len(c.Lines))...)
	slices.SortStableFunc(items, func(a, b Item) int { return a.Line - b.Line })
	return named(items)
}

// isTodo reports whether the name or the title of the document says so.
func (c *Choice) isTodo() bool {
	name := prose.Fold(strings.NewReplacer("_", " ", "-", " ", ".markdown", "", ".md", "").Replace(c.Name))
	return todoTitle.MatchString(name) || todoTitle.MatchString(prose.Fold(c.title()))
}

// anyEntries are all entries in some lines, unless most are the fields of something: "author: somebody".
func (c *Choice) anyEntries(first, end int) []Item {
	items := c.entries(first, end, func(int) bool { return true })
	fields := 0
	for _, x := range items {
		if name, _, ok := prose.Labelled(x.Title); ok && !strings.Contains(name, " ") {
			fields++
		}
	}
	if 2*fields > len(items) {
		return nil
	}
	return items
}

// isFinished reports whether a heading, or one around it, stands over what was done.
func (c *Choice) isFinished(i int) bool {
	return i >= 0 && (prose.Finished(prose.Fold(c.Heads[i].Title)) || c.isFinished(c.Heads[i].Parent))
}

func (c *Choice) boxes(first, end int) []Item { return c.entries(first, end, c.isBox) }

// entries are the list entries of a kind in some lines, background left out. What is nested in one is its text.
func (c *Choice) entries(first, end int, match func(n int) bool) (items []Item) {
	for n := first; n < end; n++ {
		l, section := &c.Lines[n], c.Under(n)
		if l.Kind != markdown.Entry || !match(n) || section >= prose.Aside || section == prose.Checklist && !c.weak ||
			section == prose.Background && (l.Box == 0 || len(c.Phases) > 0) {
			continue
		}
		x := c.Entry(n)
		if l.Box == 0 && x.Status == "" && c.isFinished(c.HeadAt(n)) {
			x.Status = "done"
		}
		if l.Box == 0 && !strings.Contains(x.Title, " ") && prose.SaysNone(x.Title) {
			continue
		}
		x.Last = c.EntryEnd(n, end)
		items = append(items, x)
		n = x.Last - 1
	}
	return items
}

// named is a list outside of phases, with ids.
func named(items []Item) []Item {
	nameItems(items, "")
	return items
}

// nameItems gives the items of a phase their ids: what they have if that is one of its own (2.1, T004), else the
// number of the phase and their own, else their place. A prefix of "" is for lists outside of phases.
func nameItems(items []Item, prefix string) {
	seen := map[string]bool{}
	unique := true
	all := !slices.ContainsFunc(items, func(x Item) bool { return x.whole != "" && !prose.CodeID(x.Own) })
	for k := range items { // a word like ES2023 is an id only where all entries begin with one
		x := &items[k]
		if !all && prose.CodeID(x.Own) && x.whole != "" {
			x.ID, x.Title = "", x.whole
		}
		unique = unique && x.ID != "" && !seen[x.ID]
		seen[x.ID] = true
	}
	dashed := prefix + "-"
	if prefix != "" {
		prefix += "."
	}
	for k := range items {
		x := &items[k]
		x.Made = !unique || !prose.CodeID(x.ID) // numbers of a plan seldom are numbers of tasks
		switch {
		case unique && (prose.CodeID(x.ID) || strings.HasPrefix(x.ID, prefix) ||
			strings.HasPrefix(strings.TrimLeft(x.ID, "0"), dashed)):
		case unique && !strings.Contains(x.ID, "."):
			x.ID = prefix + x.ID
		default:
			x.ID = fmt.Sprint(prefix, k+1)
		}
	}
}

// findPhases fills the list of phases: the headings with the largest of the words for one, those within another and the
// title of the document left out. The second one of a number is a phase of its own, but elsewhere than among the others it only speaks of one.
func (c *Choice) findPhases() {
	for _, word := range prose.PhaseWords {
		size, place := map[int]int{}, map[string]int{} // lines by the heading around; that by id
		heads := func(visit func(i int, h *Heading)) {
			end := 0
			for i := range c.Heads {
				if h := &c.Heads[i]; h.Word == word && !h.Background() && h.Line >= end && !c.IsTitle(i) {
					visit(i, h)
					end = h.End
				}
			}
		}
		heads(func(_ int, h *Heading) { size[h.Parent] += h.End - h.Line })
		heads(func(_ int, h *Heading) {
			if at, ok := place[h.ID]; !ok || size[h.Parent] > size[at] {
				place[h.ID] = h.Parent
			}
		})
		known := map[string]int{} // id to line, from 1
		heads(func(i int, h *Heading) {
			if place[h.ID] != h.Parent {
				return
			}
			own := *h
			if own.ID = prose.FreeID(h.ID, func(id string) bool { return known[id] > 0 }); own.ID != h.ID {
				c.Doubles = append(c.Doubles, Double{word, h.ID, own.ID, h.Line, known[h.ID] - 1})
			}
			known[own.ID] = h.Line + 1
			c.Phases = append(c.Phases, Phase{&own, i})
		})
		if len(c.Phases) > 1 {
			c.addUnnumbered(known)
		}
		if len(c.Phases) > 0 {
			return
		}
	}
}

// addUnnumbered makes phases of the sections with boxes that stand before or between those with a number, as the "MVP"
// of a roadmap.
func (c *Choice) addUnnumbered(known map[string]int) {
	list, k := []Phase{}, 0
	first, last := c.Phases[0].Heading, c.Phases[len(c.Phases)-1].Line
	for i := range c.Heads {
		h := &c.Heads[i]
		if k < len(c.Phases) && c.Phases[k].Line == h.Line {
			list, k = append(list, c.Phases[k]), k+1
			continue
		}
		around := prose.Unknown
		if h.Parent >= 0 {
			around = c.Heads[h.Parent].Section
		}
		boxed := slices.ContainsFunc(c.Lines[h.Line:h.End], func(l markdown.Line) bool { return l.Box != 0 })
		if h.Line < last && h.ID == "" && h.Level == first.Level && h.Parent == first.Parent && h.Section == around && boxed {
			own := *h
			name, _, _ := strings.Cut(prose.Slug(h.Title), "-")
			own.ID = prose.FreeID(name, func(id string) bool { return known[id] > 0 })
			known[own.ID] = h.Line + 1
			list = append(list, Phase{&own, i})
		}
	}
	c.Phases = list
}

// PhaseAt is the phase around a line, -1 for none.
func (c *Choice) PhaseAt(line int) int {
	i, found := slices.BinarySearchFunc(c.Phases, line, func(f Phase, line int) int { return f.Line - line })
	if !found {
		i--
	}
	if i < 0 || line >= c.Phases[i].End {
		return -1
	}
	return i
}
