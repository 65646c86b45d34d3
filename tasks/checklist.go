package tasks

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"descartes/internal/lazyregexp"
	"descartes/internal/markdown"
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
func BoxStatus(mark rune) Status {
	switch mark {
	case 'x', 'X', '✓', '✔', '✅', '☑':
		return Done
	case '~', '/':
		return InProgress
	case '-':
		return Cancelled
	case '>':
		return Deferred
	case '!':
		return Blocked
	}
	return Pending
}

// entries are those of a checklist.
type entries struct {
	md     *markdown.Document
	list   []checkEntry
	strays []int // lines of entries with a box and without an id, or that were meant to be entries: "-[ ] T001"
}

type checkEntry struct {
	line, last int // last: behind what is nested in it
	id, title  string
	parallel   bool
	story      string // of the mark [US1]
	heads      []int  // lines of the headings around it, outermost first
}

// readEntries finds the entries. It rejects lists whose entries have no ids: positions are no ids, because the list
// changes. If some ids are codes like T001, a mere number is none.
func readEntries(src string) (*entries, *problem) {
	md, err := markdown.Parse(src)
	if err != nil {
		return nil, &problem{0, "the file " + err.Error()}
	}
	c := &entries{md: md}
	var heads []int
	codes := false
	for n := range md.Lines {
		switch l := &md.Lines[n]; {
		case l.Kind == markdown.Heading:
			for len(heads) > 0 && md.Lines[heads[len(heads)-1]].Level >= l.Level {
				heads = heads[:len(heads)-1]
			}
			heads = append(slices.Clip(heads), n)
		case l.Kind == markdown.Entry && l.Box != 0:
			e := checkEntry{line: n, heads: heads}
			e.id, e.title = prose.LeadingID(e.cutMarks(markdown.Inline(prose.Clip(md.Words(n)))))
			if e.title = e.cutMarks(e.title); e.title == "" {
				e.title = "Task " + e.id
			}
			codes = codes || prose.CodeID(e.id)
			c.list = append(c.list, e)
		case l.Kind != markdown.Hidden:
			if m := nearEntry.FindStringSubmatch(md.Line(n)); m != nil && prose.CodeID(m[1]) {
				c.strays = append(c.strays, n)
			}
		}
	}
	c.list = slices.DeleteFunc(c.list, func(e checkEntry) bool {
		stray := e.id == "" || codes && !prose.CodeID(e.id)
		if stray {
			c.strays = append(c.strays, e.line)
		}
		return stray
	})
	switch {
	case len(c.list) > maxEntries:
		return nil, &problem{0, fmt.Sprintf("the file has more than %d tasks", maxEntries)}
	case len(c.list) == 0 && len(c.strays) > 0:
		return nil, &problem{md.Lines[c.strays[0]].Start,
			`the entries of this checklist have no ids (as in "- [ ] T001 Title"), and not each of its tasks has a box`}
	case len(c.list) == 0:
		return nil, &problem{0, `the file has no tasks: expected a checklist such as "- [ ] T001 Title"`}
	}
	end := len(md.Lines)
	for k := range slices.Backward(c.list) {
		c.list[k].last = md.EntryEnd(c.list[k].line, end)
		end = c.list[k].line
	}
	return c, nil
}

var (
	nearEntry = lazyregexp.New(`^\s*[-*+]\s*\[\s*[xX]?\s*\]\s*(\S+)`) // -[ ] T002, - [] T003, - [ ]T004
	storyMark = lazyregexp.New(`(?i)^US\d+$`)
	mark      = lazyregexp.New(`^\[([^\]]{0,12})\] *([^(]|$)`)
)

// cutMarks drops [P] and other short words in brackets off the start.
func (e *checkEntry) cutMarks(s string) string {
	for m := mark.FindStringSubmatchIndex(s); m != nil; m = mark.FindStringSubmatchIndex(s) {
		switch word := s[m[2]:m[3]]; {
		case strings.EqualFold(word, "P"):
			e.parallel = true
		case storyMark.MatchString(word):
			e.story = strings.ToUpper(word)
		}
		s = s[m[4]:]
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
		if p := f.add(task, site{span: span{l.Mark, l.Mark + len(string(l.Box))}, at: l.Start}); p != nil {
			return p
		}
	}
	for _, n := range c.strays {
		f.findings = append(f.findings, Finding{Line: n + 1, Kind: "line",
			Message: fmt.Sprintf(`%q is not a task: an entry begins with a box and an id, as in "- [ ] T001"`,
				prose.Short(strings.TrimSpace(c.md.Line(n))))})
	}
	for i := range f.tasks { // 1.1 is a part of 1, if the list has both
		t := &f.tasks[i]
		dot := strings.LastIndexByte(t.ID, '.')
		if dot <= 0 || f.index[t.ID] != i {
			continue
		}
		if up, ok := f.index[t.ID[:dot]]; ok {
			t.Parent = t.ID[:dot]
			f.sites[i].up = up + 1
		}
	}
	f.relate(false)
	if !c.order(f) {
		return &problem{0, "the file has too many tasks marked [P] in consecutive groups: their dependencies cannot be listed"}
	}
	for i := range c.list {
		for n := c.list[i].line; n < c.list[i].last && f.index[c.list[i].id] == i; n++ {
			for _, s := range prose.Statements(markdown.Inline(c.md.Words(n))) {
				c.take(f, i, s)
			}
		}
	}
	return nil
}

// around names the headings around an entry, without the title of the document.
func (c *entries) around(e *checkEntry) string {
	var names []string
	for _, n := range e.heads {
		if c.md.Lines[n].Level > 1 {
			names = append(names, strings.TrimRight(markdown.Inline(prose.Clip(c.md.Words(n))), "# "))
		}
	}
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
		return a.parallel && b.parallel && slices.Equal(a.heads, b.heads)
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
