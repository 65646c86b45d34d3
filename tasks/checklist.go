package tasks

import (
	"cmp"
	"fmt"
	"iter"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"descartes/internal/lazyregexp"
	"descartes/internal/markdown"
	"descartes/tasks/outline"
	"descartes/tasks/prose"
)

const maxEntries = 20_000

// checklist is a Markdown task list whose entries have ids, as spec-kit, OpenSpec and Kiro write it: "- [ ] T001 [P]
// [US1] Title". The order of the list is the dependency, except between neighbours that are all marked [P].
type checklist struct{}

func (checklist) Match(t *text) bool {
	if !slices.Contains([]string{".md", ".markdown", ".mdx"}, strings.ToLower(filepath.Ext(t.path))) {
		return false
	}
	t.entries, t.wrong = readEntries(t.src)
	return true
}

// Tags is the tag of a file by its place: specs/<tag>/tasks.md and the like.
func (checklist) Tags(t *text) []string {
	abs, err := filepath.Abs(t.path)
	if err != nil {
		abs = t.path
	}
	name := strings.TrimSuffix(filepath.Base(abs), filepath.Ext(abs))
	if strings.EqualFold(filepath.Base(abs), checklistName) {
		name = filepath.Base(filepath.Dir(abs))
	}
	if ValidTag(name) != nil {
		name = "tasks"
	}
	return []string{name}
}

// SetStatus ticks a box, or takes the tick away. What a box cannot say changes nothing else: a run keeps it in its own
// state.
func (checklist) SetStatus(t *Task, s Status) (Status, string) { return binary(t, s, "x", " ") }

// binary is SetStatus of a format that only says whether a task is done.
func binary(t *Task, s Status, yes, no string) (Status, string) {
	switch {
	case s == Done:
		return Done, yes
	case t.Status != Done && s != Pending:
		return t.Status, ""
	}
	return Pending, no
}

// BoxStatus is the status that a mark in a box stands for.
func BoxStatus(mark rune) Status { return Status(prose.BoxStatus(mark)) }

// entries are those of a checklist.
type entries struct {
	md   *outline.Document
	list []checkEntry
	left []Finding
}

type checkEntry struct {
	line, last int // last: behind what is nested in it
	id, title  string
	whole      string // the title with what was taken for an id
	parallel   bool
	optional   bool   // "- [ ] 7.9* Title"
	story      string // of the mark [US1]
	head       int    // of the heading around it, -1 for none
	under      prose.Section
	base       string // the id as written, where an entry above has it too
}

// readEntries finds the entries. A list is a checklist if at least half of its entries have ids; one without gets its
// title for an id, because its place changes. Criteria are no entries, nor is what stands without an id in a section
// that is not about work.
func readEntries(src string) (*entries, *problem) {
	md, err := outline.Read(src)
	if err != nil {
		return nil, &problem{0, "the file " + err.Error()}
	}
	c := &entries{md: md}
	for n := range md.Lines {
		switch l := &md.Lines[n]; {
		case l.Kind == markdown.Entry && l.Box != 0:
			c.list = append(c.list, c.entry(n))
		case l.Kind != markdown.Hidden:
			switch m := nearEntry.FindStringSubmatch(md.Line(n)); {
			case m == nil:
			case m[1] == "*":
				c.leave(n, optional)
			case prose.CodeID(m[1]):
				c.leave(n, `an entry begins with a box and an id, as in "- [ ] T001"`)
			}
		}
	}
	boxes := len(c.list)
	c.choose()
	named := 0
	for _, e := range c.list {
		if e.id != "" {
			named++
		}
	}
	switch {
	case len(c.list) > maxEntries:
		return nil, &problem{0, fmt.Sprintf("the file has more than %d tasks", maxEntries)}
	case boxes > 0 && 2*named < max(1, len(c.list)):
		first := slices.IndexFunc(md.Lines, func(l markdown.Line) bool { return l.Box != 0 })
		return nil, &problem{md.Lines[first].Start,
			`the entries of this checklist have no ids (as in "- [ ] T001 Title"), and not each of its tasks has a box`}
	case len(c.list) == 0:
		return nil, &problem{0, `the file has no tasks: expected a checklist such as "- [ ] T001 Title"`}
	}
	c.nameEntries()
	end := len(md.Lines)
	for k := range slices.Backward(c.list) {
		c.list[k].last = md.EntryEnd(c.list[k].line, end)
		end = c.list[k].line
	}
	return c, nil
}

const optional = "it is optional"

// leave notes a line that looks like an entry and is none.
func (c *entries) leave(n int, reason string) {
	closed := reason == optional || BoxStatus(c.md.Lines[n].Box) == Done
	c.left = append(c.left, NoTask(n, c.md.Line(n), reason, closed))
}

// entry reads one entry with a box.
func (c *entries) entry(n int) checkEntry {
	e := checkEntry{line: n, head: c.md.HeadAt(n)}
	e.whole = e.cutMarks(prose.Clip(c.md.Plain(n)))
	if e.id, e.title = prose.LeadingID(e.whole); strings.Contains(e.id, "-") && !prose.CodeID(e.id) {
		e.id, e.title = "", e.whole // GSD's "01-01: Title", whose phases are tasks of no list
	}
	e.optional = e.id != "" && strings.HasPrefix(e.title, "* ")
	if e.title = e.cutMarks(e.title); e.title == "" {
		e.title = "Task " + e.id
	}
	for h := range c.headsOf(&e) {
		if h.ID == "" {
			e.under = max(e.under, prose.SectionOf(prose.Fold(h.Text)))
		}
	}
	return e
}

// headsOf are the headings around an entry, innermost first.
func (c *entries) headsOf(e *checkEntry) iter.Seq[*outline.Heading] {
	return func(yield func(*outline.Heading) bool) {
		for i := e.head; i >= 0; i = c.md.Heads[i].Parent {
			if h := &c.md.Heads[i]; h.Level < outline.BoldLevel && !yield(h) {
				return
			}
		}
	}
}

// choose leaves out criteria, what has no id where that is no work, what is optional, and the parts of an entry that
// have no id of their own. A word like ES2023 that no other entry's id resembles begins a title, and so does a mere
// number among codes.
func (c *entries) choose() {
	stems, outside := map[string]int{}, map[string]bool{}
	codes := false
	for _, e := range c.list {
		stems[stem(e.id)]++
		outside[stem(e.id)] = outside[stem(e.id)] || e.id != "" && e.under < prose.Checklist
		codes = codes || prose.CodeID(e.id) && e.under < prose.Checklist
	}
	for i := range c.list {
		e := &c.list[i]
		alone := prose.CodeID(e.id) && stems[stem(e.id)] == 1 && len(c.list) > 1 &&
			strings.HasPrefix(e.whole, e.id+" ")
		if alone || e.id != "" && codes && prose.IsNumber(e.id) {
			e.id, e.title = "", e.whole
		}
	}
	indent := math.MaxInt // of the entry with an id that the next ones may stand below
	c.list = slices.DeleteFunc(c.list, func(e checkEntry) bool {
		reason, at := "", c.md.Lines[e.line].Indent
		if at <= indent {
			indent = math.MaxInt
		}
		switch {
		case e.under >= prose.Checklist && (e.id == "" || !outside[stem(e.id)]):
			return true // a criterion
		case e.optional:
			reason = optional
		case e.id != "":
			indent = at
		case at > indent:
			return true // a part of the entry above
		case e.under >= prose.Background:
			reason = "it has no id, and its section is about no work"
		}
		if reason != "" {
			c.leave(e.line, reason)
		}
		return reason != ""
	})
}

// stem is what an id begins with, before its number.
func stem(id string) string {
	return id[:len(id)-len(strings.TrimLeft(id, "ABCDEFGHIJKLMNOPQRSTUVWXYZ-_"))]
}

// nameEntries gives entries without an id one that stays when the list changes: the words of the title. The second entry
// of an id is one of its own.
func (c *entries) nameEntries() {
	lines := map[string]int{} // from 1, by id
	for _, e := range c.list {
		if lines[e.id] == 0 && e.id != "" {
			lines[e.id] = e.line + 1
		}
	}
	for i := range c.list {
		e := &c.list[i]
		first := lines[e.id]
		e.base = cmp.Or(e.id, prose.Slug(e.title))
		if e.id != "" && first == e.line+1 {
			continue
		}
		id := prose.FreeID(e.base, func(id string) bool { return lines[id] > 0 })
		if e.id != "" {
			c.left = append(c.left, Second(e.line+1, "task", e.id, id, first))
		}
		e.id, lines[id] = id, e.line+1
	}
}

var (
	nearEntry = lazyregexp.New(`^\s*[-*+]\s*\[\s*[xX]?\s*\]\s*(\S+)`) // -[ ] T002, - [] T003, - [ ]T004
	storyMark = lazyregexp.New(`(?i)^US\d+$`)
	mark      = lazyregexp.New(`^(?:\[([^\]]{0,12})\]|\((P)\)) *([^(]|$)`)
)

// cutMarks drops [P], (P) and other short words in brackets off the start.
func (e *checkEntry) cutMarks(s string) string {
	for m := mark.FindStringSubmatchIndex(s); m != nil; m = mark.FindStringSubmatchIndex(s) {
		word := "P"
		if m[2] >= 0 {
			word = s[m[2]:m[3]]
		}
		switch {
		case strings.EqualFold(word, "P"):
			e.parallel = true
		case storyMark.MatchString(word):
			e.story = strings.ToUpper(word)
		}
		s = s[m[6]:]
	}
	return s
}

func (checklist) Read(t *text, f *File) *problem {
	c := t.entries
	for i := range c.list {
		e := &c.list[i]
		l := &c.md.Lines[e.line]
		status := BoxStatus(l.Box)
		task := Task{ID: e.id, Title: e.title, Description: c.around(e), Details: c.nested(e),
			Verify: prose.Verify(c.md, e.line+1, e.last), Status: status,
			RawStatus: string(status), Priority: "medium", Story: e.story, Line: e.line + 1}
		if p := f.add(task, site{span: span{l.Mark, l.MarkEnd}, at: l.Start}); p != nil {
			return p
		}
		if l.Box == '?' {
			f.findings = append(f.findings, UnknownMark(e.line+1, e.id, strings.TrimSpace(c.md.Line(e.line))))
		}
	}
	f.findings = append(f.findings, c.left...)
	first, above := map[string]int{}, map[string]int{} // places by the id as written
	for i := range c.list {
		if _, ok := first[c.list[i].base]; !ok {
			first[c.list[i].base] = i
		}
	}
	for i := range f.tasks { // 1.1 is a part of 1, or of 1.0, if the list has both: of the last one above, else of the first
		base := c.list[i].base
		above[base] = i
		dot := strings.LastIndexByte(base, '.')
		for _, places := range []map[string]int{above, first} {
			for _, id := range []string{base[:max(0, dot)], base[:max(0, dot)] + ".0"} {
				if up, ok := places[id]; ok && dot > 0 && c.list[up].base != base && f.tasks[i].Parent == "" {
					f.tasks[i].Parent, f.sites[i].up = c.list[up].id, up+1
				}
			}
		}
	}
	f.relate(false)
	if !c.order(f) {
		return &problem{0, "the file has too many tasks marked [P] in consecutive groups: their dependencies cannot be listed"}
	}
	for i := range c.list {
		for n := c.list[i].line; n < c.list[i].last && f.index[c.list[i].id] == i; n++ {
			for _, s := range prose.Statements(c.md.Plain(n)) {
				c.take(f, i, s)
			}
		}
	}
	return nil
}

// around names the headings around an entry, without the title of the document.
func (c *entries) around(e *checkEntry) string {
	var names []string
	for h := range c.headsOf(e) {
		if h.Level > 1 {
			names = append(names, strings.TrimRight(h.Text, "# "))
		}
	}
	slices.Reverse(names)
	return strings.Join(names, " > ")
}

func (c *entries) nested(e *checkEntry) string {
	var lines []string
	for n := e.line + 1; n < e.last; n++ {
		lines = append(lines, c.md.Line(n))
	}
	return prose.Block(lines)
}

// order makes each task wait for the group before its own: a single task, or neighbours under one heading that are
// marked [P]. ok is false if that would be too many dependencies.
func (c *entries) order(f *File) bool {
	var places []int
	for i := range c.list {
		if t := &f.tasks[i]; !t.Container() && f.index[t.ID] == i {
			places = append(places, i)
		}
	}
	return f.queue(places, func(before, after int) bool {
		a, b := &c.list[before], &c.list[after]
		return a.parallel && b.parallel && a.head == b.head
	})
}

// take adds "(depends on T012)" if that says more than the order of the list. A task cannot wait for one later in the
// list.
func (c *entries) take(f *File, i int, s prose.Statement) {
	refs, rest := prose.Refs(s.Text)
	if s.Beside || !prose.IsList(refs, rest) {
		return
	}
	for _, r := range refs {
		k, ok := f.index[r.ID]
		switch {
		case !ok || k == i || r.Phase || !s.Strong && !r.Word:
		case s.Blocks:
			f.wait(k, i)
		default:
			f.wait(i, k)
		}
	}
}

// wait makes task i wait for task k, which comes before it in the list.
func (f *File) wait(i, k int) {
	t, on := &f.tasks[i], f.tasks[k].ID
	switch {
	case slices.Contains(t.DependsOn, on):
	case k > i:
		f.note(i, "dependency", fmt.Sprintf("it depends on %s, which comes later: the order of the list counts", on))
	default:
		t.DependsOn = append(slices.Clip(t.DependsOn), on)
	}
}
