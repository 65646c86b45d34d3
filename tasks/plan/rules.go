package plan

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"descartes/internal/lazyregexp"
	"descartes/internal/markdown"
	"descartes/tasks"
	"descartes/tasks/outline"
	"descartes/tasks/prose"
)

// rule is one way in which people write tasks.
type rule struct {
	name, example string
	find          func(*reader) []task
}

// rules are tried in this order. The first counts that takes at least as many lines that look like work as it leaves
// out, or whose word for a task leaves no doubt, or else the one that comes nearest to that; what it leaves out is said.
func rules() []rule {
	boxes := func(r *reader) []task { return r.named(r.boxes(0, len(r.Lines))) }
	return []rule{
		{explicit[0], "<task><name>Title</name>", (*reader).elements},
		{explicit[1], "### Task 1: Title", (*reader).taskHeadings},
		{"entries \"Task\"", "- **Task 1: Title**", (*reader).taskEntries},
		{"headings with ids", "### U1. Title", func(r *reader) []task { return r.numbered("unit") }},
		{"steps", "## Step 1: Title", func(r *reader) []task {
			if len(r.phases) == 0 || r.phases[0].Word != "step" {
				return nil
			}
			return r.phaseTasks()
		}},
		{"rows of tables", "| # | Task | Status |", func(r *reader) []task { return r.named(r.rows("status")) }},
		{"parts of phases", "## Phase 1: Name, then - [ ] Title", (*reader).phaseItems},
		{phasesAlone, "## Phase 1: Title", (*reader).phaseTasks},
		{"headings of checklists", "### 1. Title, then - [ ] Part", func(r *reader) []task {
			items := r.headingItems(0, len(r.Lines), false)
			if n := without(items, r.boxes(0, len(r.Lines))); n == 0 || 2*n >= len(items) {
				return nil
			}
			return r.named(items)
		}},
		{"boxes", "- [ ] Title", boxes},
		{"numbered sections", "## Change 1: Title", func(r *reader) []task { return r.numbered("section") }},
		{"numbered headings", "## 1. Title", (*reader).numberedHeadings},
		{"rows with a priority", "| Priority | Item |", func(r *reader) []task { return r.named(r.rows("priority")) }},
		{"entries of a list", "## Tasks, then 1. Title", (*reader).listed},
		{"boxes of a checklist", "## Implementation Checklist, then - [ ] Title", func(r *reader) []task {
			r.weak = true
			return boxes(r)
		}},
	}
}

const phasesAlone = "phases"

var explicit = [...]string{"elements <task>", `headings "Task"`}

// choose returns the tasks by the rule that fits best.
func (r *reader) choose() (by rule, list []task) {
	best := 0
	for _, x := range rules() {
		found := x.find(r)
		if len(found) == 0 {
			continue
		}
		taken, left := len(found), 0
		inside := r.inside(found)
		r.leave(x, found, func(n int, _ string) {
			if r.Under(n) < prose.Background {
				left++
			}
		})
		for n := range r.Lines {
			if inside[n] && r.Lines[n].Box != 0 {
				taken++
			}
		}
		if len(list) == 0 || taken-left > best {
			by, list, best = x, found, taken-left
		}
		if left <= taken || x.name == explicit[0] || x.name == explicit[1] {
			return x, found
		}
	}
	return by, list
}

// inside says of each line whether it belongs to one of these tasks.
func (r *reader) inside(list []task) []bool {
	in := make([]bool, len(r.Lines)+1)
	for i := range list {
		for n := list[i].Line - 1; n < list[i].last; n++ {
			in[n] = true
		}
	}
	return in
}

// leave visits the lines that look like work and are neither in one of the tasks by this rule nor a criterion, with why
// they are no tasks.
func (r *reader) leave(by rule, list []task, visit func(n int, reason string)) {
	in, ids, titles := r.inside(list), map[string]bool{}, map[string]bool{}
	for i := range list {
		ids[list[i].ID], titles[prose.Fold(list[i].Title)] = true, true
	}
	rows := map[int]bool{}
	for i := range r.rowTasks {
		x := &r.rowTasks[i]
		rows[x.Line-1] = !ids[x.own] && !titles[prose.Fold(x.Title)]
	}
	chosen := fmt.Sprintf("the tasks of this plan are its %s (as in %q)", by.name, by.example)
	for n := range r.Lines {
		l, section, head := &r.Lines[n], r.Under(n), r.HeadAt(n)
		if in[n] || r.mentions[n] || section >= prose.Checklist && section != prose.Aside {
			continue
		}
		switch about := section >= prose.Background; {
		case l.Box != 0 && about:
			visit(n, fmt.Sprintf("it stands under %q", r.Heads[head].Text))
		case l.Box != 0, rows[n] && !about,
			head >= 0 && r.Heads[head].Line == n && r.isWork(&r.Heads[head], by) && !holds(list, &r.Heads[head]),
			l.Number != "" && section == prose.Work && l.Kind == markdown.Entry && by.name != phasesAlone && !in[min(n+1, len(in)-1)]:
			visit(n, chosen)
		}
	}
}

// isWork reports whether a heading is about a task or a phase.
func (r *reader) isWork(h *outline.Heading, by rule) bool {
	k := r.phaseAt(h.Line)
	return h.IsTask() || h.Word == "unit" || k >= 0 && !h.Background() && (r.phases[k].Line == h.Line ||
		strings.HasPrefix(by.name, "headings") && h.Word == "" && strings.Contains(h.ID, "."))
}

// holds reports whether a task begins in the section of a heading.
func holds(list []task, h *outline.Heading) bool {
	return slices.ContainsFunc(list, func(t task) bool { return h.Line < t.Line && t.Line <= h.End })
}

// account notes what looks like work and is neither a task, nor a part of one, nor a criterion.
func (r *reader) account(by rule) {
	r.leave(by, r.tasks, func(n int, reason string) {
		_, status := outline.CutStatus(r.Plain(n))
		closed := tasks.BoxStatus(r.Lines[n].Box) == tasks.Done || status == "done"
		r.findings = append(r.findings, tasks.NoTask(n, r.Line(n), reason, closed))
	})
	in := r.inside(r.tasks)
	for n := range r.Lines {
		if r.Lines[n].Box == '?' && in[n] {
			r.findings = append(r.findings, tasks.UnknownMark(n+1, "", r.Plain(n)))
		}
	}
	slices.SortStableFunc(r.findings, func(a, b tasks.Finding) int { return a.Line - b.Line })
}

var elementID = lazyregexp.New(`^\s*<task [^>]*\bid="([^"]*)"`)

// elements makes tasks of elements <task> with a name or a title, as GSD writes them.
func (r *reader) elements() (list []task) {
	for n := 0; n < len(r.Lines); n++ {
		if line := strings.TrimSpace(r.Line(n)); !strings.HasPrefix(line, "<task>") && !strings.HasPrefix(line, "<task ") || r.Fenced(n) {
			continue
		}
		end := n + 1
		for end < len(r.Lines) && !strings.Contains(r.Line(end-1), "</task>") {
			end++
		}
		body := r.Source[r.Offset(n):r.Offset(end)]
		t := task{Task: tasks.Task{Title: prose.Clip(cmp.Or(prose.Element(body, "name"), prose.Element(body, "title"))),
			Line: n + 1, Description: prose.Element(body, "action"), Verify: prose.Element(body, "verify"),
			Acceptance: cmp.Or(prose.Element(body, "done"), prose.Element(body, "acceptance_criteria"))}, last: end}
		if t.Title == "" {
			continue
		}
		if m := elementID.FindStringSubmatch(body); m != nil && prose.IDProblem(m[1]) == "" {
			t.ID = m[1]
		} else if _, id, title := prose.Numbered(t.Title); id != "" && title != "" {
			t.ID, t.Title = id, title
		}
		list = append(list, t)
		n = end - 1
	}
	return r.named(list)
}

// headTask is the task of a heading.
func headTask(h *outline.Heading) task {
	t := task{Task: tasks.Task{ID: h.ID, Title: h.Title, Line: h.Line + 1}, last: h.End}
	t.say(h.Status)
	return t
}

// taskHeadings makes a task of each heading "Task N". One in the section of another is a part of it. Where each phase
// counts anew, these are its items.
func (r *reader) taskHeadings() (list []task) {
	if !slices.ContainsFunc(r.Heads, func(h outline.Heading) bool { return h.IsTask() }) {
		return nil
	}
	ids := map[int]string{} // by heading
	for i := range r.Heads {
		h := &r.Heads[i]
		if !h.IsTask() && !r.isBeside(i) {
			continue
		}
		t := headTask(h)
		ids[i] = t.ID
		for up := h.Parent; up >= 0 && t.Parent == ""; up = r.Heads[up].Parent {
			t.Parent = ids[up]
		}
		if n := len(list); n > 0 {
			list[n-1].last = min(list[n-1].last, h.Line)
		}
		list = append(list, t)
	}
	if r.anew(list) {
		return nil
	}
	return list
}

// anew reports whether an id is in two phases: each of them counts for itself.
func (r *reader) anew(list []task) bool {
	phases := map[string]int{} // by id
	return slices.ContainsFunc(list, func(t task) bool {
		first, known := phases[t.ID]
		phases[t.ID] = r.phaseAt(t.Line - 1)
		return known && first != phases[t.ID]
	})
}

// isBeside reports whether a heading of a phase has a number and neither is a task by its word nor holds one: "2.1
// Title" where others are called "Task 2.2: Title".
func (r *reader) isBeside(i int) bool {
	h := &r.Heads[i]
	if h.Word != "" || !strings.Contains(h.ID, ".") || h.Background() || r.phaseAt(h.Line) < 0 {
		return false
	}
	for up := h.Parent; up >= 0; up = r.Heads[up].Parent {
		if r.Heads[up].IsTask() {
			return false
		}
	}
	for i++; i < len(r.Heads) && r.Heads[i].Line < h.End; i++ {
		if r.Heads[i].IsTask() {
			return false
		}
	}
	return true
}

// taskEntries makes a task of each entry "Task N: Title" without a box, if there are several.
func (r *reader) taskEntries() []task {
	items := r.entries(0, len(r.Lines), func(n int) bool {
		text, _ := outline.CutStatus(r.Plain(n))
		word, id, title := prose.Numbered(text)
		return r.Lines[n].Box == 0 && (word == "task" || word == "subtask") && title != "" &&
			!strings.HasSuffix(text, id+" "+title) // "Task 2 needs it" speaks of one
	})
	if len(items) < 2 {
		return nil
	}
	return r.named(items)
}

// numbered makes a task of each heading with this word, of the level that has the most, if there are several. Where
// each phase counts anew, these are its items.
func (r *reader) numbered(word string) []task {
	levels := [outline.BoldLevel + 1][]task{}
	best := 0
	var all []task
	for i := range r.Heads {
		if h := &r.Heads[i]; h.Word == word && !h.Background() {
			all = append(all, headTask(h))
			levels[h.Level] = append(levels[h.Level], headTask(h))
		}
	}
	for k := range levels {
		if len(levels[k]) > len(levels[best]) {
			best = k
		}
	}
	if len(levels[best]) < 2 || r.anew(all) {
		return nil
	}
	return levels[best]
}

// phaseTasks makes a task of each phase.
func (r *reader) phaseTasks() (list []task) {
	for i := range r.phases {
		list = append(list, headTask(r.phases[i].Heading))
		list[i].made = true
	}
	return list
}

// phaseItems makes tasks of the items in phases, and of phases without any, if some phase has items.
func (r *reader) phaseItems() (list []task) {
	items := make([][]task, len(r.phases))
	// through: numbered on from phase to phase, so that the numbers are ids
	some, through, last := false, len(r.phases) > 1, 0
	var codes []task
	for i := range r.phases {
		items[i] = r.itemsOf(&r.phases[i])
		some, through = some || len(items[i]) > 0, through && len(items[i]) > 0
		for _, t := range items[i] {
			n, err := strconv.Atoi(t.ID)
			through, last = through && err == nil && n > last, n
			if prose.CodeID(t.ID) {
				codes = append(codes, t)
			}
		}
	}
	if !some {
		return nil
	}
	whole, anew := r.phaseTasks(), r.anew(codes)
	for i := range r.phases {
		if len(items[i]) == 0 {
			items[i] = whole[i : i+1]
		} else if through {
			nameItems(items[i], "")
		} else {
			nameItems(items[i], r.phases[i].ID)
		}
		for _, t := range items[i] {
			if whole[i].Status == tasks.Done && !t.settled {
				t.say("done")
			}
			if anew && prose.CodeID(t.ID) { // each has its own WP1
				t.ID, t.made = r.phases[i].ID+"."+t.ID, true
			}
			list = append(list, t)
		}
	}
	return list
}

// itemsOf finds the items of a phase: its boxes where each numbered heading in it has some, else numbered headings, else
// boxes, else a numbered list.
func (r *reader) itemsOf(f *phase) []task {
	heads, boxes := r.headingItems(f.head+1, f.End, true), r.boxes(f.Line+1, f.End)
	switch {
	case len(boxes) > 0 && without(heads, boxes) == 0:
		return boxes
	case len(heads) > 0:
		return heads
	}
	return r.entries(f.Line+1, f.End, r.isNumbered)
}

// without counts the headings without a box in their section.
func without(heads, boxes []task) (n int) {
	for _, h := range heads {
		if !slices.ContainsFunc(boxes, func(b task) bool { return h.Line < b.Line && b.Line <= h.last }) {
			n++
		}
	}
	return n
}

// headingItems are the numbered headings of the highest level that has such, among the headings from i on; with worded
// those count too whose number follows a word.
func (r *reader) headingItems(i, end int, worded bool) (items []task) {
	level := outline.BoldLevel + 1
	for ; i < len(r.Heads) && r.Heads[i].Line < end; i++ {
		h := &r.Heads[i]
		if h.ID == "" || h.Background() || h.Level > level || h.Word != "" && !worded {
			continue
		}
		if h.Level < level {
			level, items = h.Level, items[:0]
		}
		t := headTask(h)
		t.last = min(t.last, end)
		items = append(items, t)
	}
	return items
}

// numberedHeadings makes tasks of these, unless they are the chapters of a document: one of them is its summary, or
// another section that is about no work.
func (r *reader) numberedHeadings() []task {
	items := r.headingItems(0, len(r.Lines), true)
	if len(items) < 2 {
		return nil
	}
	level := r.Heads[r.HeadAt(items[0].Line-1)].Level
	if slices.ContainsFunc(r.Heads, func(h outline.Heading) bool {
		return h.Level == level && h.Background() && h.ID != ""
	}) {
		return nil
	}
	return r.named(items)
}

// workTitle recognises a folded heading over a list of tasks by its last or first words.
var workTitle = lazyregexp.New(`(?:^|[\s/])(?:tasks|to-?dos?|action items|steps|(?:delivery|build|execution|suggested) order)$|^plan (?:to|for)\b|(?:任务|任務|タスク|작업)$|^(?:里程碑|マイルストーン|마일스톤)`)

var planTitle = lazyregexp.New(`\bplan\b`)

// listed makes tasks of the lists under headings such as "Tasks", or else of one directly under a title that says that
// it is a plan: of their numbered entries, or under a heading of all if none has a number.
func (r *reader) listed() []task {
	var items []task
	for _, whole := range []bool{false, true} {
		end := 0
		for i := range r.Heads {
			h := &r.Heads[i]
			if title := prose.Fold(h.Title); h.Line < end || h.Background() || whole && i > 0 || whole != r.IsTitle(i) && len(r.Heads) > 1 ||
				h.Section != prose.Work && !workTitle.MatchString(title) && !(whole && planTitle.MatchString(title)) {
				continue
			}
			if end = h.End; whole && len(r.Heads) > 1 {
				end = r.Heads[1].Line
			}
			found := r.entries(h.Line+1, end, r.isNumbered)
			if len(found) == 0 && !whole {
				found = r.entries(h.Line+1, end, func(int) bool { return true })
			}
			items = append(items, found...)
		}
		if len(items) > 0 {
			break
		}
	}
	return r.named(items)
}

func (r *reader) isNumbered(n int) bool { return r.Lines[n].Number != "" }

func (r *reader) boxes(first, end int) []task {
	return r.entries(first, end, func(n int) bool { return r.Lines[n].Box != 0 })
}

// entries are the list entries of a kind in some lines, background left out. What is nested in one is its text.
func (r *reader) entries(first, end int, match func(n int) bool) (items []task) {
	for n := first; n < end; n++ {
		l, section := &r.Lines[n], r.Under(n)
		if l.Kind != markdown.Entry || !match(n) || section >= prose.Aside || section == prose.Checklist && !r.weak ||
			section == prose.Background && (l.Box == 0 || len(r.phases) > 0) {
			continue
		}
		t := r.entryTask(n)
		t.last = r.EntryEnd(n, end)
		items = append(items, t)
		n = t.last - 1
	}
	return items
}

// entryTask is the task of one list entry; its id is what the entry begins with, or the number before it, or "".
func (r *reader) entryTask(n int) task {
	l := &r.Lines[n]
	t := task{Task: tasks.Task{ID: l.Number, Line: n + 1}}
	if t.Title = prose.Clip(r.Plain(n)); l.Box != 0 {
		t.say(prose.BoxStatus(l.Box))
	} else if title, status := outline.CutStatus(t.Title); status != "" {
		t.Title = title // "1. **[x] Title**"
		t.say(status)
	}
	t.whole = t.Title
	if id, title := prose.LeadingID(t.Title); id != "" {
		t.ID, t.own, t.Title = id, id, title
	}
	return t
}

// named is a list outside of phases, with ids.
func (r *reader) named(items []task) []task {
	nameItems(items, "")
	return items
}

// nameItems gives the items of a phase their ids: what they have if that is one of its own (2.1, T004), else the
// number of the phase and their own, else their place. A prefix of "" is for lists outside of phases.
func nameItems(items []task, prefix string) {
	seen := map[string]bool{}
	unique := true
	all := !slices.ContainsFunc(items, func(t task) bool { return t.whole != "" && !prose.CodeID(t.own) })
	for k := range items { // a word like ES2023 is an id only where all entries begin with one
		t := &items[k]
		if !all && prose.CodeID(t.own) && t.whole != "" {
			t.ID, t.Title = "", t.whole
		}
		unique = unique && t.ID != "" && !seen[t.ID]
		seen[t.ID] = true
	}
	dashed := prefix + "-"
	if prefix != "" {
		prefix += "."
	}
	for k := range items {
		t := &items[k]
		t.made = !unique || !prose.CodeID(t.ID) // numbers of a plan seldom are numbers of tasks
		switch {
		case unique && (prose.CodeID(t.ID) || strings.HasPrefix(t.ID, prefix) ||
			strings.HasPrefix(strings.TrimLeft(t.ID, "0"), dashed)):
		case unique && !strings.Contains(t.ID, "."):
			t.ID = prefix + t.ID
		default:
			t.ID = fmt.Sprint(prefix, k+1)
		}
	}
}
