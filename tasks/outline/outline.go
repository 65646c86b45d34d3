// Package outline owns the outline of a Markdown document that people write about tasks, read once: its headings with
// what they number and say, its entries and tables, and the choice of which of them are its tasks.
package outline

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"descartes/internal/lazyregexp"
	"descartes/internal/markdown"
	"descartes/tasks/prose"
)

// Document is a text, its headings and its tables. It does not change after Read.
type Document struct {
	*markdown.Document
	Name   string // of the file, "" where it has none
	Heads  []Heading
	Tables []Table
	words  []string        // of each line, behind its marks and without markup
	label  []prose.Section // of each line: of the label that it follows, as "Acceptance criteria:"; Unknown for none
}

// Heading is a heading of the document itself, or a line in bold that begins like one.
type Heading struct {
	Level   int
	Line    int // its first line, from 0
	End     int // the line behind its section
	Parent  int // index of the enclosing heading, -1 at the top
	Text    string
	Word    string        // "task", "phase" or another word that numbers follow; "" where it begins with its number
	ID      string        // the number, "" if it has none
	Title   string        // what follows the number
	Status  string        // which it says, or done where the one around does, "" for none: prose's word
	Section prose.Section // what it stands over, or a heading around it
}

// Background reports whether the heading is about no work to do, like all under it.
func (h *Heading) Background() bool { return h.Section >= prose.Background }

// IsTask reports whether the heading is one of a task, by the word for it.
func (h *Heading) IsTask() bool { return h.Word == "task" || h.Word == "subtask" }

// BoldLevel is that of a line in bold that begins like a heading.
const BoldLevel = 7

const maxHeads = 50_000

// Read reads a document from a file of this name. An error continues a sentence.
func Read(name, src string) (*Document, error) {
	md, err := markdown.Parse(src)
	if err != nil {
		return nil, err
	}
	d := &Document{Document: md, Name: name, words: make([]string, len(md.Lines))}
	for n := range md.Lines {
		d.words[n] = markdown.Inline(md.Words(n))
	}
	d.findHeads()
	d.findLabels()
	d.findTables()
	return d, nil
}

// Plain is the text of a line, behind its marks and without markup.
func (d *Document) Plain(n int) string { return d.words[n] }

// findHeads finds the headings and where their sections end.
func (d *Document) findHeads() {
	var plain []Heading // "Phase 1: Title" with no marks
	numbered := false
	for n := range d.Lines {
		l := &d.Lines[n]
		h := Heading{Level: l.Level, Line: n, End: len(d.Lines), Parent: -1, Text: prose.Clip(d.words[n])}
		alone := l.Kind == markdown.Text && l.Indent < 4 && (n == 0 || d.Lines[n-1].Kind == markdown.Blank)
		bold := l.Kind == markdown.Text && l.Indent < 4 && markdown.BoldLine(d.Words(n))
		if bold || alone {
			h.Level = BoldLevel
		} else if l.Kind != markdown.Heading {
			continue
		}
		if h.split(); h.Status == "" && struck.MatchString(d.Words(n)) {
			h.Status = "done"
		}
		switch {
		case h.Level == BoldLevel && (h.Title == "" || h.Word == "" && !strings.Contains(h.ID, ".")):
		case h.Level == BoldLevel && !bold:
			if h.Word != "" && h.Word != "section" && h.Word != "unit" && len(plain) < maxHeads {
				plain = append(plain, h)
			}
		case h.Level < BoldLevel || len(d.Heads) < maxHeads:
			d.Heads, numbered = append(d.Heads, h), numbered || h.Word != ""
		}
	}
	d.countPriorities()
	if !numbered {
		d.Heads = append(d.Heads, plain...)
		if len(d.Heads) < 2 {
			d.Heads = append(d.Heads, d.labelHeads()...)
		}
		slices.SortFunc(d.Heads, func(a, b Heading) int { return a.Line - b.Line })
	}
	var open []int
	for i := range d.Heads {
		h := &d.Heads[i]
		for len(open) > 0 && d.Heads[open[len(open)-1]].Level >= h.Level {
			d.Heads[open[len(open)-1]].End = h.Line
			open = open[:len(open)-1]
		}
		// a number among tasks makes one: "6. Verification"
		if up := len(open) - 1; h.Word == "" && (h.ID == "" || up < 0 || d.Heads[open[up]].Section != prose.Work) {
			h.Section = prose.SectionOf(prose.Fold(h.Title))
		}
		if len(open) > 0 {
			h.Parent = open[len(open)-1]
			if up := &d.Heads[h.Parent]; h.Status == "" && (up.Status == "done" || prose.Finished(prose.Fold(up.Title))) {
				h.Status = "done"
			}
			// what is said of a section holds for all in it, but for tasks: some plans put them below the last of all
			if !h.IsTask() {
				h.Section = max(h.Section, d.Heads[h.Parent].Section)
			}
		}
		open = append(open, i)
	}
}

// countPriorities makes P0 to P4 ids of headings where P5 and so on are: they number, and are no priorities.
func (d *Document) countPriorities() {
	if !slices.ContainsFunc(d.Heads, func(h Heading) bool { return h.Word == "unit" && (h.ID == "P5" || h.ID == "P6") }) {
		return
	}
	for i := range d.Heads {
		h := &d.Heads[i]
		if m := codeHeading.FindStringSubmatch(h.Text); h.Word == "" && m != nil && prose.Priority(m[1]) != "" {
			h.Word, h.ID, h.Title = "unit", m[1], m[2]
		}
	}
}

// labelHeads are the lines over lists, where a document has no headings: "Steps:" and then entries.
func (d *Document) labelHeads() (heads []Heading) {
	const longest = 60
	for n := 0; n+1 < len(d.Lines) && len(heads) < maxHeads; n++ {
		next := n + 1
		if d.Lines[next].Kind == markdown.Blank {
			next = min(next+1, len(d.Lines)-1)
		}
		if text := strings.TrimRight(d.words[n], ":："); d.Lines[n].Kind == markdown.Text && d.Lines[n].Indent == 0 && (n == 0 || d.Lines[n-1].Kind == markdown.Blank) &&
			d.Lines[next].Kind == markdown.Entry && len(text) <= longest && !strings.HasSuffix(text, ".") {
			heads = append(heads, Heading{Level: BoldLevel - 1, Line: n, End: len(d.Lines), Parent: -1, Text: text, Title: text})
		}
	}
	return heads
}

// findLabels finds the lines that follow a line or an entry such as "Acceptance criteria:".
func (d *Document) findLabels() {
	d.label = make([]prose.Section, len(d.Lines))
	at, section := -1, prose.Unknown // the line of the label, and what it stands over
	for n := range d.Lines {
		l, above := &d.Lines[n], max(n-1, 0)
		switch {
		case l.Kind == markdown.Blank || l.Kind == markdown.Hidden:
			continue
		case l.Kind == markdown.Heading,
			at >= 0 && l.Indent <= d.Lines[at].Indent && (l.Kind == markdown.Text && d.Lines[above].Kind == markdown.Blank ||
				l.Kind == markdown.Entry && d.Lines[at].Kind == markdown.Entry):
			at = -1
		}
		if at >= 0 && (l.Box == 0 || section == prose.Criteria) {
			d.label[n] = section
		}
		if l.Kind == markdown.Heading || l.Box != 0 || l.Number != "" {
			continue
		}
		if text := strings.Replace(d.words[n], "：", ":", 1); strings.HasSuffix(text, ":") || markdown.BoldLine(d.Words(n)) {
			at = -1
			if section = prose.SectionOf(prose.Fold(text)); section >= prose.Background {
				at = n
			}
		}
	}
}

// split takes a heading's text apart: a mark that says how far it is, the word, the number, the title.
func (h *Heading) split() {
	text, status := CutStatus(strings.TrimLeftFunc(h.Text, func(r rune) bool { // an emoji, but no tick
		return (unicode.Is(unicode.So, r) || r == '\ufe0f' || r == ' ') && !strings.ContainsRune("✅✓✔☑", r)
	}))
	h.Status = status
	h.Word, h.ID, h.Title = prose.Numbered(text)
	if h.ID == "" {
		coded := text[len(story.FindString(text)):]
		m := plainCode.FindStringSubmatch(coded)
		if m == nil {
			m = codeHeading.FindStringSubmatch(coded)
		}
		if m != nil && !prose.NoTaskCode(m[1]) {
			h.Word, h.ID, h.Title = "unit", m[1], m[2]
		} else if m := sectionHeading.FindStringSubmatch(text); m != nil && !noTaskWords[strings.ToLower(m[1])] {
			h.Word, h.ID, h.Title = "section", m[2], m[3]
		}
	}
	if title, status := CutStatus(h.Title); status != "" && h.Status == "" {
		h.Title, h.Status = title, status // "2. ✅ Title"
	}
	spoken := h.Level == BoldLevel && strings.HasSuffix(text, h.ID+" "+h.Title) // "Task 3 is done" in bold
	if folded := prose.Fold(h.Title); h.Word != "" && (spoken || severalHeading.MatchString(text) ||
		strings.HasSuffix(text, h.ID+" "+h.Title) && prose.SectionOf(folded) == prose.Criteria &&
			!strings.HasSuffix(folded, "ation")) { // validation, verification
		h.Word, h.ID = "", "" // "Task 1 Acceptance Criteria:" and "Task 1, 2: Title" are about tasks, and are none
	}
}

var (
	codeHeading = lazyregexp.New(`^\[?([A-Z]{1,8}-?[0-9]+(?:-[0-9]+)?[a-h]?(?:\.[0-9]+)*)(?:\] *[:：—–-]* *|(?: ?[(（][^)）]*[)）])?(?:[.:：] *| +[—–-] +))(\S.*)$`)
	// what may stand before it
	story = lazyregexp.New(`(?i)^(?:user )?(?:story|issue|ticket|feature) +`)
	// the same without a mark behind it, where it is plainly no word: P0.1, T-1, T001; tried first
	plainCode      = lazyregexp.New(`^([A-Z]{1,8}(?:-[0-9]+|0[0-9]+|[0-9]+\.[0-9]+))(?:[.][0-9]+)* +([^—–·:.\s-].*)$`)
	sectionHeading = lazyregexp.New(`^(\pL[\pL-]{2,19}) ([0-9]+[a-h]?)(?:[.:：] *| +[—–-] +)(\S.*)$`)
	severalHeading = lazyregexp.New(`^\pL+ ?[0-9.]+(?: ?[、,，&] ?[0-9.]+)+ ?[:：]`)

	// what such a heading numbers that is no task
	noTaskWords = prose.Set("alternative appendix approach assumption attempt case challenge chapter concern criterion " +
		"decision draft example figure finding goal hypothesis level objective observation open option problem principle " +
		"question reason requirement review risk round scenario section table test tier version")
)

var (
	// mark is a box or a tick at one end of a heading.
	mark  = lazyregexp.New(`^(?:\[(.)\]|✅|✓|✔️|✔|☑)|(?:\[(.)\]|✅|✓|✔️|✔|☑)$`)
	coded = lazyregexp.New("^(.* )`(\\[.\\])`$")
	// doneWord is such a word at the end, maybe with a date.
	doneWord = lazyregexp.New(`(?i)\s*(?:[(\[]\s*(?:[✅✓✔]\x{fe0f}?\s*)?|[—–-]\s+(?:[✅✓✔]\x{fe0f}?\s*)?|[✅✓✔]\x{fe0f}?\s*)` +
		`(?:(?:already|all|fully) )?(?:` + prose.DoneWords + `)` +
		`(?:[\s,:–-]*(?:on |in |at )?(?:[a-z]{3,9}\.? )?[0-9][0-9./: -]*)?[)\]]?(?:\s*\([^()]*\))?$`)
)

// CutStatus takes marks of status off a heading or a cell: a box, a tick, a word in parentheses or behind a dash at the
// end. status is "" where there is none.
func CutStatus(s string) (rest, status string) {
	s = strings.TrimSpace(s)
	if m := coded.FindStringSubmatch(s); m != nil { // "Title `[x]`"
		s = m[1] + m[2]
	}
	if at := doneWord.FindStringIndex(s); at != nil && at[0] > 0 {
		s, status = s[:at[0]], "done"
	}
	for m := mark.FindStringSubmatch(s); m != nil; m = mark.FindStringSubmatch(s) {
		box := m[1] + m[2]
		if box != "" && !strings.Contains(markdown.Boxes, box) || m[0] == s {
			break
		}
		if status = "done"; box != "" {
			status = prose.BoxStatus([]rune(box)[0])
		}
		s = strings.TrimSpace(strings.TrimSuffix(strings.TrimPrefix(s, m[0]), m[0]))
	}
	if open := strings.LastIndexAny(s, "([—（"); open > 0 {
		mark, n := utf8.DecodeRuneInString(s[open:])
		closed := mark == '—' || strings.LastIndexAny(s, ")]）") > open
		if known := prose.Status(strings.Trim(s[open+n:], ")] .✅✓）")); known != "" && closed && s[open+n] != ' ' {
			status, s = known, strings.TrimRight(strings.TrimSpace(s[:open]), " -–:")
		}
	}
	return s, status
}

// HeadAt is the last heading up to a line, -1 for none.
func (d *Document) HeadAt(line int) int {
	i, found := slices.BinarySearchFunc(d.Heads, line, func(h Heading, line int) int { return h.Line - line })
	if !found {
		i--
	}
	return i
}

// Under is what a line stands under.
func (d *Document) Under(line int) prose.Section {
	section := d.label[line]
	if i := d.HeadAt(line); i >= 0 {
		section = max(section, d.Heads[i].Section)
	}
	return section
}

// IsTitle reports whether a heading is the title of the whole document.
func (d *Document) IsTitle(i int) bool {
	return i == 0 && d.Heads[0].Level == 1 && d.Heads[0].End == len(d.Lines) && len(d.Heads) > 1
}

// Table is a table of the document.
type Table struct {
	Head []string
	Rows []Row
}

// Row is a row of a table, in a line counted from 0.
type Row struct {
	Line  int
	Cells []string
}

// Cell is a cell of the row, "" where the row is too short or there is no such column.
func (r Row) Cell(column int) string {
	if column < 0 || column >= len(r.Cells) {
		return ""
	}
	return r.Cells[column]
}

// Column is the first one whose head means one of these labels, the first label first; -1 for none.
func (t *Table) Column(labels ...string) int {
	for _, label := range labels {
		if at := slices.IndexFunc(t.Head, func(h string) bool { return prose.Label(h) == label }); at >= 0 {
			return at
		}
	}
	return -1
}

// After is the column that says what a row waits for, -1 for none.
func (t *Table) After() int { return t.Column("depends", "after") }

// covered are the requirements that specd puts before what must hold.
var covered = lazyregexp.New(`^(?:[A-Z]+[0-9.]+[ ,]*)+: *`)

// Names is what a row is about: the number in its first columns, its title, and the status that stands there.
func (t *Table) Names(r Row) (ref prose.Ref, title, status string) {
	id, at := t.Column("id", "place"), t.Column("title")
	if place := t.Column("place"); at < 0 && place >= 0 && (place != id || t.Column("status") >= 0 && t.Column("text", "criteria") < 0) {
		at = place // "| # | Phase | What |", "| Phase | Status |" with "M0 Title"
	} else if at < 0 {
		at = t.Column("text", "criteria")
	}
	title, status = CutStatus(prose.Clip(r.Cell(at)))
	title = title[len(covered.FindString(title)):]
	text := title
	if id >= 0 && id == at {
		if code, rest := prose.LeadingID(title); prose.CodeID(code) {
			return prose.Ref{ID: code, Word: true}, rest, status
		}
		title = ""
	}
	if id >= 0 {
		var said string
		if text, said = CutStatus(r.Cell(id)); said != "" {
			status = said
		}
	} else if id, rest := prose.LeadingID(title); id != "" {
		return prose.Ref{ID: id, Word: true}, rest, status
	}
	if len(text) == 1 && 'A' <= text[0] && text[0] <= 'Z' && id >= 0 {
		return prose.Ref{ID: text, Word: true}, title, status
	}
	if refs, rest := prose.Refs(text); len(refs) == 1 && strings.TrimSpace(rest) == "" {
		ref = refs[0]
	}
	return ref, title, status
}

// findTables reads the tables. One without a blank line behind it ends where the next one begins.
func (d *Document) findTables() {
	is := func(n int) bool { return d.Lines[n].Kind != markdown.Hidden && strings.Contains(d.Line(n), "|") }
	for n := 1; n < len(d.Lines); n++ {
		if !is(n) || !is(n-1) || !markdown.IsDelimiterRow(d.Line(n)) {
			continue
		}
		t := Table{Head: d.cells(n - 1)}
		for n++; n < len(d.Lines) && is(n) && !(n+1 < len(d.Lines) && markdown.IsDelimiterRow(d.Line(n+1))); n++ {
			t.Rows = append(t.Rows, Row{n, d.cells(n)})
		}
		if len(t.Rows) > 0 {
			d.Tables = append(d.Tables, t)
		}
	}
}

func (d *Document) cells(line int) []string {
	cells := markdown.Cells(d.Line(line))
	for i, c := range cells {
		cells[i] = markdown.Inline(c)
		if struck.MatchString(c) {
			cells[i] = "✅ " + cells[i] // no longer open
		}
	}
	return cells
}
