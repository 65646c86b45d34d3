package outline

import (
	"cmp"
	"strings"

	"descartes/internal/lazyregexp"
	"descartes/internal/markdown"
	"descartes/tasks/prose"
)

// Item is a task as a document has it: an entry of a list, a row of a table, a section, an element.
type Item struct {
	Line, Last int    // its first line, from 0, and the line behind its own text
	ID         string // "" where it has none yet
	Own        string // the id that its text begins with
	Made       bool   // the id is not one that the document gives to a task: a number of a list, or ours
	Title      string
	Status     string // that is written at it, in prose's words; "" for none
	Parent     string // id
	Priority   string // in prose's words; "" for none
	Verify     string // its own check
	Text       string // that stands elsewhere than in its lines
	Acceptance string
	Parallel   bool   // marked [P] or (P)
	Optional   bool   // "7.9* Title"
	Story      string // of the mark [US1]

	whole string // the title with Own, of an entry
}

// Entry reads an entry of a list. Its id is what it begins with, or the number before it, or "".
func (d *Document) Entry(n int) Item {
	l := &d.Lines[n]
	x := Item{Line: n, Last: n + 1, ID: l.Number, Title: prose.Clip(d.Plain(n))}
	if l.Box != 0 {
		x.Status = prose.BoxStatus(l.Box)
		x.cutMarks()
	} else {
		x.Title, x.Status = CutStatus(x.Title) // "1. **[x] Title**"
		if x.Status == "" && ticked.MatchString(x.Title) {
			x.Status = "done"
		}
	}
	if struck.MatchString(d.Words(n)) && l.Box == 0 && x.Status == "" {
		x.Status = "done"
	} else if x.Status == "pending" && struck.MatchString(d.Words(n)) {
		x.Status = "cancelled"
	}
	x.whole = x.Title
	if id, title := prose.LeadingID(x.Title); id != "" {
		x.ID, x.Own, x.Title = id, id, title
		x.Optional = l.Box != 0 && strings.HasPrefix(title, "* ")
	}
	if strings.HasPrefix(x.Title, "* ") && l.Box != 0 { // "- [ ]* 2.3 Title"
		if id, title := prose.LeadingID(x.Title[2:]); id != "" {
			x.ID, x.Own, x.Title, x.Optional = id, id, title, true
		}
	}
	if l.Box != 0 {
		x.cutMarks()
	}
	return x
}

var (
	storyMark = lazyregexp.New(`(?i)^US\d+$`)
	wordMark  = lazyregexp.New(`^(?:\[([^\]]{0,12})\]|\((P)\)) *([^(]|$)`)
)

// cutMarks drops [P], (P) and other short words in brackets off the start of the title.
func (x *Item) cutMarks() {
	for m := wordMark.FindStringSubmatchIndex(x.Title); m != nil; m = wordMark.FindStringSubmatchIndex(x.Title) {
		word := "P"
		if m[2] >= 0 {
			word = x.Title[m[2]:m[3]]
		}
		switch {
		case strings.EqualFold(word, "P"):
			x.Parallel = true
		case storyMark.MatchString(word):
			x.Story = strings.ToUpper(word)
		}
		x.Title = x.Title[m[6]:]
	}
}

// ticked recognises a tick and a word within a line: "Title ✅ DONE - how".
var ticked = lazyregexp.New(`(?i)[✅✓✔]\x{fe0f}? *(?:` + prose.DoneWords + `)(?:[^\pL]|$)`)

// struck recognises what is struck out.
var struck = lazyregexp.New(`^(?:\*\*)?~~[^~]+~~`)

// section is the task of a heading.
func section(h *Heading) Item {
	return Item{ID: h.ID, Title: h.Title, Line: h.Line, Last: h.End, Status: h.Status}
}

// row is the task of a row, ok where it has a title and may be one: with a number, dependencies or this column.
func (t *Table) row(r Row, column string) (x Item, ok bool) {
	ref, title, status := t.Names(r)
	if title == "" || ref.Phase || t.After() < 0 && t.Column(column) < 0 && (ref.ID == "" || t.Column("id", "place") < 0 && !ref.Word) ||
		len(ref.ID) > 1 && prose.NoTaskCode(ref.ID) && ref.ID[1] > '9' {
		return x, false
	}
	x = Item{ID: ref.ID, Own: ref.ID, Title: title, Line: r.Line, Last: r.Line + 1, Status: status, Verify: r.Cell(t.Column("verify"))}
	if text := r.Cell(t.Column("text")); text != title {
		x.Text = text
	}
	for _, name := range []string{"status", "priority"} {
		x.Attribute(name, r.Cell(t.Column(name)))
	}
	return x, true
}

// Attribute reads "Status: done", "Priority: high", and cells under such heads.
func (x *Item) Attribute(name, value string) {
	switch value = strings.Trim(value, " *`."); prose.Label(name) {
	case "status":
		x.Status = cmp.Or(statusOf(value), x.Status)
	case "priority":
		x.Priority = cmp.Or(prose.Priority(value), x.Priority)
	}
}

// choices are words with a box before each, of which the last one that is ticked holds.
var choices = lazyregexp.New(`\[(.)\] *([^\[]+)`)

func statusOf(value string) string {
	status := prose.Status(value)
	for _, m := range choices.FindAllStringSubmatch(value, -1) {
		if prose.BoxStatus([]rune(m[1])[0]) == "done" {
			status = prose.Status(m[2])
		}
	}
	for _, text := range []string{"x " + value, "x (" + value + ")"} {
		if status == "" {
			_, status = CutStatus(text)
		}
	}
	return status
}

var elementID = lazyregexp.New(`^\s*<task [^>]*\bid="([^"]*)"`)

// element is the task of the element <task> that begins in a line, as GSD writes them, ok where it has a name or a title.
func (d *Document) element(n int) (x Item, ok bool) {
	if line := strings.TrimSpace(d.Line(n)); !strings.HasPrefix(line, "<task>") && !strings.HasPrefix(line, "<task ") || d.Fenced(n) {
		return x, false
	}
	end := n + 1
	for end < len(d.Lines) && !strings.Contains(d.Line(end-1), "</task>") {
		end++
	}
	body := d.Source[d.Offset(n):d.Offset(end)]
	first := func(names ...string) string {
		for _, name := range names {
			if text := prose.Element(body, name); text != "" {
				return text
			}
		}
		return ""
	}
	x = Item{Title: prose.Clip(first("name", "title")), Line: n, Last: end, Text: first("action"), Verify: first("verify"),
		Acceptance: first("done", "acceptance_criteria")}
	if m := elementID.FindStringSubmatch(body); m != nil && prose.IDProblem(m[1]) == "" {
		x.ID = m[1]
	} else if _, id, title := prose.Numbered(x.Title); id != "" && title != "" {
		x.ID, x.Title = id, title
	}
	return x, x.Title != ""
}

// isBox reports whether a line is an entry with a box.
func (d *Document) isBox(n int) bool { return d.Lines[n].Box != 0 && d.Lines[n].Kind == markdown.Entry }

// isNumbered reports whether a line is an entry with a number.
func (d *Document) isNumbered(n int) bool { return d.Lines[n].Number != "" }
