package tasks

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

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
	t.choice, t.wrong = readBoxes(t.path, t.src)
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

// readBoxes chooses the tasks of a document that are entries with boxes and ids.
func readBoxes(path, src string) (*outline.Choice, *problem) {
	md, err := outline.Read(filepath.Base(path), src)
	if err != nil {
		return nil, &problem{0, "the file " + err.Error()}
	}
	first := slices.IndexFunc(md.Lines, func(l markdown.Line) bool { return l.Box != 0 })
	switch c := md.Choose(); {
	case first < 0:
		return nil, &problem{0, `the file has no tasks: expected a checklist such as "- [ ] T001 Title"`}
	case !c.By.Queue:
		return nil, &problem{md.Lines[first].Start,
			`the entries of this checklist have no ids (as in "- [ ] T001 Title"), and not each of its tasks has a box`}
	case len(c.Items) > maxEntries:
		return nil, &problem{0, fmt.Sprintf("the file has more than %d tasks", maxEntries)}
	default:
		return c, nil
	}
}

func (checklist) Read(t *text, f *File) *problem {
	c := t.choice
	for i := range c.Items {
		x := &c.Items[i]
		l := &c.Lines[x.Line]
		task := Task{ID: x.ID, Title: x.Title, Description: around(c, x), Details: nested(c, x), Verify: prose.Verify(c, x.Line+1, x.Last),
			Status: Status(x.Status), RawStatus: x.Status, Priority: "medium", Story: x.Story, Parent: x.Parent, Line: x.Line + 1}
		up := 1 + slices.IndexFunc(c.Items, func(y outline.Item) bool { return y.ID == x.Parent })
		if p := f.add(task, site{span: span{l.Mark, l.MarkEnd}, at: l.Start, up: up}); p != nil {
			return p
		}
		if l.Box == '?' {
			f.findings = append(f.findings, UnknownMark(x.Line+1, x.ID, strings.TrimSpace(c.Line(x.Line))))
		}
	}
	c.Left(func(n int, reason string) { f.findings = append(f.findings, NoTask(n, c.Line(n), reason, c.Closed(n))) })
	for _, x := range c.Doubles {
		f.findings = append(f.findings, Second(x.Line+1, x.What, x.ID, x.Own, x.First+1))
	}
	f.relate(false)
	if !inQueue(c, f) {
		return &problem{0, "the file has too many tasks marked [P] in consecutive groups: their dependencies cannot be listed"}
	}
	for i := range c.Items {
		for n := c.Items[i].Line; n < c.Items[i].Last && f.index[c.Items[i].ID] == i; n++ {
			for _, s := range prose.Statements(c.Plain(n)) {
				f.take(i, s)
			}
		}
	}
	return nil
}

// around names the headings around an entry, without the title of the document.
func around(c *outline.Choice, x *outline.Item) string {
	var names []string
	for i := c.HeadAt(x.Line); i >= 0; i = c.Heads[i].Parent {
		if h := &c.Heads[i]; h.Level > 1 && h.Level < outline.BoldLevel {
			names = append(names, strings.TrimRight(h.Text, "# "))
		}
	}
	slices.Reverse(names)
	return strings.Join(names, " > ")
}

func nested(c *outline.Choice, x *outline.Item) string {
	var lines []string
	for n := x.Line + 1; n < x.Last; n++ {
		lines = append(lines, c.Line(n))
	}
	return prose.Block(lines)
}

// inQueue makes each task wait for the group before its own: a single task, or neighbours under one heading that are
// marked [P]. ok is false if that would be too many dependencies.
func inQueue(c *outline.Choice, f *File) (ok bool) {
	var places []int
	for i := range c.Items {
		if t := &f.tasks[i]; !t.Container() && f.index[t.ID] == i {
			places = append(places, i)
		}
	}
	return f.queue(places, func(before, after int) bool { return c.Together(before, after) })
}

// take adds "(depends on T012)" if that says more than the order of the list. A task cannot wait for one later in the
// list.
func (f *File) take(i int, s prose.Statement) {
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
