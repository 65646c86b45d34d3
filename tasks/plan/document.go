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
	level   int
	line    int // its first line, from 0
	end     int // the line behind its section
	parent  int // index of the enclosing heading, -1 at the top
	text    string
	word    string // "task", "phase" or another word that numbers follow; "" where it begins with its number
	id      string // the number, "" if it has none
	title   string // what follows the number
	status  tasks.Status
	settled bool          // the heading says the status
	section prose.Section // what it stands over, or a heading around it
}

// background reports whether the heading is about no work to do, like all under it.
func (h *heading) background() bool { return h.section >= prose.Background }

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
		if h.level < boldLevel || (h.word != "" || strings.Contains(h.id, ".")) && h.title != "" && len(d.heads) < maxHeads {
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
		if len(open) > 0 {
			h.parent = open[len(open)-1]
		}
		if h.word == "" {
			h.section = prose.SectionOf(prose.Fold(h.title))
		}
		// what is said of a section holds for all in it, but for tasks: some plans put them below the last of all
		if h.parent >= 0 && h.word != "task" && h.word != "subtask" {
			h.section = max(h.section, d.heads[h.parent].section)
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
	if h.id == "" {
		if m := codeHeading.FindStringSubmatch(text); m != nil && !noTaskCodes[strings.TrimRight(m[2], "-")] {
			h.word, h.id, h.title = "unit", m[1], m[3]
		} else if m := sectionHeading.FindStringSubmatch(text); m != nil && !noTaskWords[strings.ToLower(m[1])] {
			h.word, h.id, h.title = "section", m[2], m[3]
		}
	}
	if title, status, ok := cutStatus(h.title); ok && !settled {
		h.title, h.status, h.settled = title, status, true // "2. ✅ Title"
	}
	if folded := prose.Fold(h.title); h.word != "" && strings.HasSuffix(text, h.id+" "+h.title) &&
		(strings.HasPrefix(folded, "acceptance") || strings.HasPrefix(folded, "success criteria")) {
		h.word, h.id = "", "" // "Task 1 Acceptance Criteria:" is about a task, and is none
	}
}

var (
	codeHeading    = lazyregexp.New(`^(([A-Z]{1,8}-?)[0-9]+[a-h]?(?:\.[0-9]+)*)(?:[.:] +| +[—–-] +)(\S.*)$`)
	sectionHeading = lazyregexp.New(`^(\pL[\pL-]{2,19}) ([0-9]+[a-h]?)(?:[.:：] *| +[—–-] +)(\S.*)$`)

	// what such a heading numbers that is no task
	noTaskCodes = set("AC ADR BR C D EC FR G H K KD NF NFR P Q R REQ RISK SC V")
	noTaskWords = set("alternative appendix approach assumption attempt case chapter concern criterion day decision draft " +
		"example figure finding goal hypothesis iteration level objective observation open option problem principle question " +
		"reason requirement review risk round scenario section table test tier version week")
)

func set(words string) map[string]bool {
	in := map[string]bool{}
	for _, w := range strings.Fields(words) {
		in[w] = true
	}
	return in
}

var (
	// mark is a box or a tick at one end of a heading.
	mark = lazyregexp.New(`^(?:\[(.)\]|✅|✓|✔️|✔|☑)|(?:\[(.)\]|✅|✓|✔️|✔|☑)$`)
	// doneWord is such a word at the end, maybe with a date.
	doneWord = lazyregexp.New(`(?i)\s*(?:[(\[]\s*(?:[✅✓✔]\x{fe0f}?\s*)?|[—–-]\s+(?:[✅✓✔]\x{fe0f}?\s*)?|[✅✓✔]\x{fe0f}?\s*)` +
		`(?:done|completed?|finished|implemented|shipped|merged)\b` +
		`(?:[\s,:–-]*(?:on |in |at )?(?:[a-z]{3,9}\.? )?[0-9][0-9./: -]*)?[)\]]?$`)
)

// cutStatus takes marks of status off a heading: a box, a tick, a word in parentheses or behind a dash at the end.
func cutStatus(s string) (rest string, status tasks.Status, settled bool) {
	s, status = strings.TrimSpace(s), tasks.Pending
	if at := doneWord.FindStringIndex(s); at != nil && at[0] > 0 {
		s, status, settled = s[:at[0]], tasks.Done, true
	}
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
	if open := strings.LastIndexAny(s, "([—（"); open > 0 {
		_, n := utf8.DecodeRuneInString(s[open:])
		if known, ok := statusWord(strings.Trim(s[open+n:], ")] .✅✓）")); ok && known != tasks.Expanded {
			status, settled, s = known, true, strings.TrimRight(strings.TrimSpace(s[:open]), " -–:")
		}
	}
	return s, status, settled
}

// statusWord reads a word for a status.
func statusWord(s string) (tasks.Status, bool) {
	if known := prose.Status(s); known != "" {
		return tasks.Status(known), true
	}
	return tasks.ParseStatus(s)
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
	return prose.SectionOf(heading) != prose.Unknown
}
