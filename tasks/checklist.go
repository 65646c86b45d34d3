package tasks

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"descartes/internal/lazyregexp"
	"descartes/internal/markdown"
	"descartes/tasks/prose"
)

// maxCheckWork bounds how often statements of dependencies are compared with the order of a list.
const maxCheckWork = 50_000_000

const maxEntries = 20_000

// checklist is a Markdown task list whose entries have ids, as spec-kit writes them: "- [ ] T001 [P] [US1] Title". The order of the list
// is the dependency, except between neighbours that are all marked [P].
type checklist struct {
	md      *markdown.Document
	entries []checkEntry
	strays  []int // lines of entries with a box and without an id
	near    []int // lines that were meant to be entries: "-[ ] T001"
	work    int   // done on statements
}

type checkEntry struct {
	line, last int // last: behind what is nested in it
	id, title  string
	parallel   bool
	story      string // of the mark [US1]
	heads      []int  // lines of the headings around it, outermost first
}

// readChecklist finds the entries. It rejects lists whose entries have no ids: positions are no ids, because the list changes.
func readChecklist(src string) (*checklist, *problem) {
	if p := notText(src); p != nil {
		return nil, p
	}
	md, p := readMarkdown(src)
	if p != nil {
		return nil, p
	}
	c := &checklist{md: md}
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
			e.split(markdown.Inline(prose.Clip(md.Words(n))))
			codes = codes || prose.CodeID(e.id)
			c.entries = append(c.entries, e)
		case l.Kind != markdown.Hidden && nearBox(md.Line(n)):
			c.near = append(c.near, n)
		}
	}
	c.drop(codes)
	if len(c.entries) > maxEntries {
		return nil, &problem{0, fmt.Sprintf("the file has more than %d tasks", maxEntries)}
	}
	if len(c.entries) == 0 && len(c.strays) > 0 {
		return nil, &problem{md.Lines[c.strays[0]].Start, `the entries of this checklist have no ids (as in "- [ ] T001 Title"), so a status cannot be saved in it; import it as a plan`}
	}
	if len(c.entries) == 0 {
		return nil, &problem{0, `the file has no tasks: expected a checklist such as "- [ ] T001 Title"`}
	}
	return c, nil
}

// drop removes entries without an id. If some ids are codes like T001, a mere number is no id.
func (c *checklist) drop(codes bool) {
	kept := c.entries[:0]
	for _, e := range c.entries {
		if e.id == "" || codes && !prose.CodeID(e.id) {
			c.strays = append(c.strays, e.line)
			continue
		}
		kept = append(kept, e)
	}
	c.entries = kept
	for k := range kept {
		end := len(c.md.Lines)
		if k+1 < len(kept) {
			end = kept[k+1].line
		}
		kept[k].last = c.md.EntryEnd(kept[k].line, end)
	}
}

// nearBox reports whether a line looks like a mistyped entry: -[ ] T002, - [] T003, - [ ]T004.
func nearBox(line string) bool {
	m := nearEntry.FindStringSubmatch(line)
	return m != nil && prose.CodeID(m[1])
}

var (
	nearEntry = lazyregexp.New(`^\s*[-*+]\s*\[\s*[xX]?\s*\]\s*(\S+)`)
	storyMark = lazyregexp.New(`(?i)^US\d+$`)
	mark      = lazyregexp.New(`^\[([^\]]{0,12})\] *([^(]|$)`)
	priority  = lazyregexp.New(`(?i)priority:([^)]*)\)`)
)

// split takes an entry's text apart: "T001 [P] [US1] Title", the marks also before the id.
func (e *checkEntry) split(s string) {
	s = e.cutMarks(s)
	e.id, e.title = prose.LeadingID(s)
	if e.title = e.cutMarks(e.title); e.title == "" {
		e.title = "Task " + e.id
	}
}

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

// checklistTag is the tag of a file by its place: specs/<tag>/tasks.md and the like.
func checklistTag(path string) string {
	abs, err := filepath.Abs(path)
	if err != nil {
		abs = path
	}
	name := strings.TrimSuffix(filepath.Base(abs), filepath.Ext(abs))
	if strings.EqualFold(filepath.Base(abs), checklistName) {
		name = filepath.Base(filepath.Dir(abs))
	}
	if ValidTag(name) != nil {
		return "tasks"
	}
	return name
}

// decode makes the tasks of f.
func (c *checklist) decode(f *File) *problem {
	f.binary = boxes
	f.grow(len(c.entries))
	for i := range c.entries {
		e := &c.entries[i]
		l := &c.md.Lines[e.line]
		if reason := prose.IDProblem(e.id); reason != "" {
			return &problem{l.Start, reason}
		}
		status := BoxStatus(l.Box)
		f.tasks = append(f.tasks, Task{ID: e.id, Title: e.title, Description: c.around(e), Details: c.nested(e), Status: status,
			RawStatus: string(status), Priority: c.priority(e), Story: e.story, Line: e.line + 1})
		f.sites = append(f.sites, site{start: int32(l.Mark), end: int32(l.Mark + len(string(l.Box))), at: int32(l.Start)})
		f.enter(i)
	}
	for _, n := range c.strays {
		f.findings = append(f.findings, Finding{Line: n + 1, Kind: "line", Message: fmt.Sprintf("%q has a box but no id: it is not a task", prose.Short(c.md.Words(n)))})
	}
	for _, n := range c.near {
		f.findings = append(f.findings, Finding{Line: n + 1, Kind: "line", Message: fmt.Sprintf(`%q is not a task: an entry begins with "- [ ] T001"`, prose.Short(strings.TrimSpace(c.md.Line(n))))})
	}
	c.relate(f)
	if !c.order(f) {
		return &problem{0, "the file has too many tasks marked [P] in consecutive groups: their dependencies cannot be listed"}
	}
	c.statements(f)
	return nil
}

// around names the headings around an entry, without the title of the document.
func (c *checklist) around(e *checkEntry) string {
	var names []string
	for _, n := range e.heads {
		if c.md.Lines[n].Level > 1 {
			names = append(names, strings.TrimRight(markdown.Inline(prose.Clip(c.md.Words(n))), "# "))
		}
	}
	return strings.Join(names, " > ")
}

func (c *checklist) nested(e *checkEntry) string {
	var lines []string
	for n := e.line + 1; n < e.last; n++ {
		lines = append(lines, c.md.Line(n))
	}
	return prose.Block(lines)
}

// priority reads "(Priority: P1)" in the headings around an entry.
func (c *checklist) priority(e *checkEntry) string {
	for _, n := range slices.Backward(e.heads) {
		if m := priority.FindStringSubmatch(prose.Clip(c.md.Words(n))); m != nil && prose.Priority(m[1]) != "" {
			return prose.Priority(m[1])
		}
	}
	return "medium"
}

// relate makes 1.1 a part of 1 if the list has both, as some programs write it.
func (c *checklist) relate(f *File) {
	var m family
	for i := range f.tasks {
		t := &f.tasks[i]
		dot := strings.LastIndexByte(t.ID, '.')
		if dot <= 0 || f.index[t.ID] != i {
			continue
		}
		if up, ok := f.index[t.ID[:dot]]; ok {
			t.Parent, m.explicit = t.ID[:dot], true
			f.sites[i].up = int32(up + 1)
		}
	}
	f.relate(&m)
}

// order makes each task wait for the group before its own: a single task, or neighbours under one heading that are marked [P]. ok is false if that
// would be too many dependencies.
func (c *checklist) order(f *File) bool {
	var places []int
	for i := range c.entries {
		if t := &f.tasks[i]; !t.Container() && f.index[t.ID] == i {
			places = append(places, i)
		}
	}
	return f.queue(places, func(before, after int) bool {
		a, b := &c.entries[before], &c.entries[after]
		return a.parallel && b.parallel && slices.Equal(a.heads, b.heads)
	})
}

// statements adds "(depends on T012)" if that says more than the order of the list. A task cannot wait for one later in the list.
func (c *checklist) statements(f *File) {
	for i := range c.entries {
		if e := &c.entries[i]; f.index[e.id] == i {
			for n := e.line; n < e.last; n++ {
				for _, s := range prose.Statements(markdown.Inline(c.md.Words(n))) {
					c.take(f, i, s)
				}
			}
		}
	}
}

func (c *checklist) take(f *File, i int, s prose.Statement) {
	refs, rest := prose.Refs(s.Text)
	if s.Beside || !prose.IsList(refs, rest) {
		return
	}
	for _, r := range refs {
		if c.work += 1 + len(f.tasks[i].DependsOn); c.work > maxCheckWork {
			return
		}
		k, ok := f.index[r.ID]
		switch {
		case r.Phase || !s.Strong && !r.Word || ok && k == i:
		case !ok && s.Strong && prose.CodeID(r.ID) && prose.CodeID(c.entries[i].id) && !s.Blocks:
			f.note(i, "dependency", fmt.Sprintf("it depends on %s, which is not in the list", r.ID))
		case !ok:
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

// readMarkdown is markdown.Parse for a file.
func readMarkdown(src string) (*markdown.Document, *problem) {
	doc, err := markdown.Parse(src)
	if err != nil {
		return nil, &problem{0, "the file " + err.Error()}
	}
	return doc, nil
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

// binary is a format that only says whether a task is done. A status without a word in the file means "not done" there: setting it unticks a done
// task, and otherwise changes nothing. A run keeps the rest in its own state.
type binary uint8

const (
	notBinary binary = iota
	boxes            // - [x], in a tasks.md
	flags            // "passes": true, in a prd.json
)

// plain is the status that can be read back after s was written.
func (b binary) plain(s Status) Status {
	if b == notBinary || s == Done {
		return s
	}
	return Pending
}

// word returns what to write for a status.
func (b binary) word(s Status) string {
	switch {
	case b == boxes && s == Done:
		return "x"
	case b == boxes:
		return " "
	case s == Done:
		return "true"
	}
	return "false"
}

// has reports whether the file, with the task's status now, already says s.
func (b binary) has(now, s Status) bool {
	return b != notBinary && (now == s || now != Done && s != Done && s != Pending)
}

// Holds reports whether the file can express a status. A tasks.md and a prd.json know only done and not done.
func (f *File) Holds(s Status) bool { return f.binary.plain(s) == s }

const (
	checklistName = "tasks.md"
	storiesName   = "prd.json"
)

// isChecklist reports whether a file is Markdown by its name.
func isChecklist(path string) bool {
	ext := strings.ToLower(filepath.Ext(path))
	return ext == ".md" || ext == ".markdown" || ext == ".mdx"
}

// otherSources lists the places outside of SCUD and Task Master in which the tag is looked for, after all of theirs: the
// tasks.md of spec-kit, OpenSpec or Kiro in the directory of the tag, and prd.json, which names its own.
func otherSources(root, tag string) []source {
	list := []source{
		{path: filepath.Join(root, storiesName), other: true},
		{path: filepath.Join(root, ".ralph", storiesName), other: true},
		{path: filepath.Join(root, "scripts", "ralph", storiesName), other: true},
	}
	if plainTag(tag) == nil {
		var own []source
		for _, dir := range checklistDirs() {
			own = append(own, source{path: filepath.Join(root, dir, tag, checklistName), own: true})
		}
		list = append(own, list...)
	}
	return list
}

// checklistDirs are the folders in which a tag has one of its own with a tasks.md: those of spec-kit, OpenSpec and Kiro.
func checklistDirs() []string {
	return []string{"specs", filepath.Join("openspec", "changes"), filepath.Join(".kiro", "specs")}
}

// checklistTags returns the tags that have a tasks.md in the project at root. OpenSpec's archive has a folder for each, and is none.
func checklistTags(root string) (tags []string) {
	for _, dir := range checklistDirs() {
		entries, err := os.ReadDir(filepath.Join(root, dir))
		if err != nil {
			continue
		}
		for _, e := range entries {
			path := filepath.Join(root, dir, e.Name(), checklistName)
			if info, err := os.Stat(path); err != nil || !info.Mode().IsRegular() {
				continue
			}
			if _, err := load(path); err == nil {
				tags = append(tags, e.Name())
			}
		}
	}
	return tags
}
