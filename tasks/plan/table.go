package plan

import (
	"slices"
	"strings"

	"descartes/internal/markdown"
	"descartes/tasks"
	"descartes/tasks/prose"
)

// table is a table of the plan.
type table struct {
	head []string
	rows []row
}

type row struct {
	line  int
	cells []string
}

// cell is a cell of the row, "" where the row is too short or there is no such column.
func (r row) cell(column int) string {
	if column < 0 || column >= len(r.cells) {
		return ""
	}
	return r.cells[column]
}

// findTables reads the tables. One without a blank line behind it ends where the next one begins.
func (d *Document) findTables() {
	is := func(n int) bool { return d.md.Lines[n].Kind != markdown.Hidden && strings.Contains(d.md.Line(n), "|") }
	for n := 1; n < len(d.md.Lines); n++ {
		if !is(n) || !is(n-1) || !markdown.IsDelimiterRow(d.md.Line(n)) {
			continue
		}
		t := table{head: d.cells(n - 1)}
		for n++; n < len(d.md.Lines) && is(n) && !(n+1 < len(d.md.Lines) &&
			markdown.IsDelimiterRow(d.md.Line(n+1))); n++ {
			t.rows = append(t.rows, row{n, d.cells(n)})
		}
		if len(t.rows) > 0 {
			d.tables = append(d.tables, t)
		}
	}
}

func (d *Document) cells(line int) []string {
	cells := markdown.Cells(d.md.Line(line))
	for i, c := range cells {
		cells[i] = markdown.Inline(c)
	}
	return cells
}

// column is the first one with a head such as these, in lower case; -1 for none.
func (t *table) column(names ...string) int {
	return slices.IndexFunc(t.head, func(h string) bool { return slices.Contains(names, strings.ToLower(h)) })
}

func (t *table) after() int {
	return t.column("depends on", "dependencies", "depends", "prerequisites", "deps", "blocked by", "after")
}

// names is what a row is about: the number in its first columns, its title, and the column of that, -1 for none.
func (t *table) names(r row) (ref prose.Ref, title string, numbered bool) {
	id := t.column("id", "#", "no", "no.", "nr", "number", "task id", "task #", "task no", "task no.", "phase", "step")
	at := t.column("title", "task", "tasks", "name", "task name", "work item", "item", "story")
	if at < 0 {
		at = t.column("description", "summary", "details")
	}
	title = prose.Clip(r.cell(at))
	text := r.cell(id)
	if id < 0 {
		if id, rest := prose.LeadingID(title); id != "" {
			return prose.Ref{ID: id, Word: true}, rest, false
		}
		text = title
	}
	if refs, rest := prose.Refs(text); len(refs) == 1 && strings.TrimSpace(rest) == "" {
		ref = refs[0]
	}
	return ref, title, id >= 0
}

// tableTasks makes tasks of the first table that has a title in each row, and a number or dependencies.
func (r *reader) tableTasks() bool {
	for i := range r.tables {
		t := &r.tables[i]
		var items []task
		for _, row := range t.rows {
			ref, title, numbered := t.names(row)
			if title == "" || ref.Phase || t.after() < 0 && (ref.ID == "" || !numbered) {
				break
			}
			x := task{Task: tasks.Task{ID: ref.ID, Title: title, Line: row.line + 1}, last: row.line + 1}
			if text := row.cell(t.column("description", "summary", "details")); text != title {
				x.Description = text
			}
			x.attribute("status", row.cell(t.column("status", "state", "done")))
			x.attribute("priority", row.cell(t.column("priority", "prio")))
			items = append(items, x)
		}
		if len(items) == len(t.rows) && r.addItems(items) {
			return true
		}
	}
	return false
}

// tableRows takes what the tables say tasks and phases wait for.
func (r *reader) tableRows() {
	for i := range r.tables {
		t := &r.tables[i]
		if t.after() < 0 {
			continue
		}
		for _, row := range t.rows {
			ref, title, _ := t.names(row)
			who := subject{-1, -1}
			if i, ok := r.index[ref.ID]; ok && !ref.Phase {
				who.task = i
			} else if i, ok := r.called[prose.Fold(title)]; ok && i >= 0 {
				who.task = i
			} else if k, ok := r.phaseIDs[strings.ToLower(ref.ID)]; ok && ref.Phase {
				who.phase = k
			} else {
				continue
			}
			r.take(who, row.line, prose.Statement{Strong: true, Text: row.cell(t.after())})
		}
	}
}
