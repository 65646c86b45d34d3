// Package plan owns Markdown plans, each read once: the tasks in one, what they depend on, and what it says about a
// task of any list.
package plan

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"descartes/internal/lazyregexp"
	"descartes/internal/markdown"
	"descartes/tasks"
	"descartes/tasks/prose"
)

// MaxBytes is how large a plan may be. Beyond it a plan is a data file.
const MaxBytes = 8 << 20

// Document is a plan: its headings, list entries and tables, the tasks in it, and which of its sections are about
// which task. It does not change after Parse.
type Document struct {
	Name string // as given to Parse

	md       *markdown.Document
	words    []string // of each line, behind its marks and without markup
	heads    []heading
	tables   []table
	marks    map[string][]span // by task id: what an explicit marker names
	general  []Part            // what is said of every task
	overview *Part             // nil if there is none
	outlined string            // the headings, one per line
	titles   titles

	tasks    []task
	index    map[string]int // id to place among tasks
	findings []tasks.Finding
	fault    error // why there are no tasks
}

// heading is a heading of the document itself, or a line in bold that begins like one.
type heading struct {
	level      int
	line       int // its first line, from 0
	end        int // the line behind its section
	parent     int // index of the enclosing heading, -1 at the top
	text       string
	word       string // "task", "phase" or another word that numbers follow; "" where it begins with its number
	id         string // the number, "" if it has none
	title      string // what follows the number
	status     tasks.Status
	settled    bool // the heading says the status
	background bool // about no work to do, like all under it
	aside      bool // not even where it has boxes
}

const (
	boldLevel = 7 // of a line in bold that begins like a heading
	maxHeads  = 50_000
)

// Parse reads a plan; name is used in messages. One that is larger than MaxBytes or is not text is a
// *tasks.FormatError; one without tasks is not.
func Parse(name string, src []byte) (*Document, error) {
	if len(src) > MaxBytes {
		return nil, &tasks.FormatError{Path: name, Reason: fmt.Sprintf("larger than %d MiB", MaxBytes>>20)}
	}
	if err := markdown.CheckText(src); err != nil {
		return nil, &tasks.FormatError{Path: name, Reason: "the file " + err.Error()}
	}
	// Lines are counted as an editor does, and places are those of the source: "\r" alone ends a line too.
	src = slices.Clone(src)
	for i, c := range src {
		if c == '\r' && !bytes.HasPrefix(src[i+1:], []byte("\n")) {
			src[i] = '\n'
		}
	}
	md, err := markdown.Parse(string(src))
	if err != nil {
		return nil, &tasks.FormatError{Path: name, Reason: "the file " + err.Error()}
	}
	d := &Document{Name: name, md: md, words: make([]string, len(md.Lines))}
	for n := range md.Lines {
		d.words[n] = markdown.Inline(md.Words(n))
	}
	d.outline()
	d.findTables()
	d.readTasks()
	d.findMarkers()
	d.findGeneral()
	d.indexTitles()
	return d, nil
}

// Tasks returns the tasks in the order of the plan, or a *tasks.FormatError if it has none or too many. Their lists
// are shared: the caller must not change them.
//
// Tasks are headings "Task N: Title", or else phases with their items (numbered headings, checklists, numbered lists),
// or else the rows of a table, phases alone, a checklist, numbered headings, or the list under a heading such as
// "Tasks" or "Plan". Phases wait for the phase before them, except where the plan states dependencies.
func (d *Document) Tasks() ([]tasks.Task, error) {
	if d.fault != nil {
		return nil, d.fault
	}
	list := make([]tasks.Task, len(d.tasks))
	for i := range d.tasks {
		list[i] = d.tasks[i].Task
	}
	return list, nil
}

// Findings returns what the reader of tasks had to assume, such as a dependency on a missing task.
func (d *Document) Findings() []tasks.Finding { return d.findings }

// outline finds the headings and where their sections end.
func (d *Document) outline() {
	for n := range d.md.Lines {
		l := &d.md.Lines[n]
		h := heading{level: l.Level, line: n, parent: -1, text: prose.Clip(d.words[n])}
		switch {
		case l.Kind == markdown.Heading:
		case l.Kind == markdown.Text && l.Indent < 4 && markdown.BoldLine(d.md.Words(n)):
			h.level = boldLevel
		default:
			continue
		}
		h.split()
		if h.level < boldLevel || h.word != "" && h.title != "" && len(d.heads) < maxHeads {
			d.heads = append(d.heads, h)
		}
	}
	var open []int
	for i := range d.heads {
		h := &d.heads[i]
		for len(open) > 0 && d.heads[open[len(open)-1]].level >= h.level {
			d.heads[open[len(open)-1]].end = h.line
			open = open[:len(open)-1]
		}
		h.background = h.word == "" && isBackground(prose.Fold(h.title))
		h.aside = h.background && isAside(prose.Fold(h.title))
		if len(open) > 0 {
			h.parent = open[len(open)-1]
			h.background = h.background || d.heads[h.parent].background
			h.aside = h.aside || d.heads[h.parent].aside
		}
		open = append(open, i)
	}
	for _, i := range open {
		d.heads[i].end = len(d.md.Lines)
	}
}

// split takes a heading's text apart: a mark that says how far it is, the word, the number, the title.
func (h *heading) split() {
	text, status, settled := cutStatus(h.text)
	h.status, h.settled = status, settled
	h.word, h.id, h.title = prose.Numbered(text)
	if title, status, ok := cutStatus(h.title); ok && !settled {
		h.title, h.status, h.settled = title, status, true // "2. ✅ Title"
	}
}

// mark is a box or a tick at one end of a heading.
var mark = lazyregexp.New(`^(?:\[(.)\]|✅|✓|✔️|✔|☑)|(?:\[(.)\]|✅|✓|✔️|✔|☑)$`)

// cutStatus takes marks of status off a heading: a box, a tick, a word in parentheses or behind a dash at the end.
func cutStatus(s string) (rest string, status tasks.Status, settled bool) {
	s, status = strings.TrimSpace(s), tasks.Pending
	for m := mark.FindStringSubmatch(s); m != nil; m = mark.FindStringSubmatch(s) {
		box := m[1] + m[2]
		if box != "" && !strings.Contains(markdown.Boxes, box) || m[0] == s {
			break
		}
		if status, settled = tasks.Done, true; box != "" {
			status = tasks.BoxStatus([]rune(box)[0])
		}
		s = strings.TrimSpace(strings.TrimSuffix(strings.TrimPrefix(s, m[0]), m[0]))
	}
	if open := strings.LastIndexAny(s, "([—"); open > 0 {
		_, n := utf8.DecodeRuneInString(s[open:])
		if known, ok := tasks.ParseStatus(strings.Trim(s[open+n:], ")] .✅✓")); ok && known != tasks.Expanded {
			status, settled, s = known, true, strings.TrimRight(strings.TrimSpace(s[:open]), " -–:")
		}
	}
	return s, status, settled
}

// headAt is the last heading up to a line, -1 for none.
func (d *Document) headAt(line int) int {
	i, found := slices.BinarySearchFunc(d.heads, line, func(h heading, line int) int { return h.line - line })
	if !found {
		i--
	}
	return i
}

// isTitle reports whether a heading is the title of the whole document.
func (d *Document) isTitle(i int) bool {
	return i == 0 && d.heads[0].level == 1 && d.heads[0].end == len(d.md.Lines) && len(d.heads) > 1
}

// isCriteria reports whether a folded heading stands over the checks that work must pass.
func isCriteria(heading string) bool {
	switch heading {
	case "automated verification", "manual verification", "verification", "definition of done", "done when",
		"success metrics", "validation":
		return true
	}
	return strings.HasSuffix(heading, "criteria") || strings.HasSuffix(heading, "checklist") ||
		strings.HasPrefix(heading, "checkpoint") ||
		strings.HasPrefix(heading, "success criteria") || strings.HasPrefix(heading, "acceptance criteria")
}

// isBackground reports whether a folded heading stands over what is no work to do: what is there already, what is left
// out, how it is checked.
func isBackground(heading string) bool {
	switch heading {
	case "overview", "summary", "executive summary", "introduction", "background", "context", "motivation", "goals",
		"non-goals",
		"problem statement", "current state", "current state analysis", "what exists", "desired end state",
		"desired state",
		"what we're not doing", "what we are not doing", "what we’re not doing", "out of scope", "scope",
		"testing strategy", "test strategy", "testing", "test plan", "manual testing", "manual testing steps",
		"key discoveries",
		"key findings", "references", "related", "notes", "performance considerations", "security considerations",
		"open questions", "risks", "risk assessment", "table of contents", "contents", "appendix", "timeline",
		"rollback plan", "scud task mapping", "task mapping", "changelog", "prerequisites", "requirements",
		"assumptions":
		return true
	}
	return isCriteria(heading)
}

// isAside reports whether boxes under a folded heading of the background are no tasks either.
func isAside(heading string) bool {
	switch heading {
	case "what we're not doing", "what we are not doing", "what we’re not doing", "out of scope", "non-goals",
		"open questions", "risks",
		"risk assessment", "assumptions", "prerequisites", "what exists", "current state", "current state analysis":
		return true
	}
	return isCriteria(heading)
}

// isRoutine reports whether a folded heading is one that every plan has, so that it says nothing about a task; what is
// under it may be about one.
func isRoutine(heading string) bool {
	switch heading {
	case "goal", "approach", "implementation approach", "implementation phases", "phases", "changes",
		"changes required",
		"required changes", "files to modify", "new files", "modified files", "dependencies", "next steps",
		"design decisions", "details", "work items":
		return true
	}
	return isBackground(heading) || isList(heading)
}

// isList reports whether the entries under a folded heading are tasks, where nothing else in the plan is.
func isList(heading string) bool {
	switch heading {
	case "plan", "tasks", "task list", "steps", "implementation", "implementation plan", "implementation steps",
		"todo":
		return true
	}
	return false
}
