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

// column is the first one whose head means this, -1 for none.
func (t *table) column(label string) int {
	return slices.IndexFunc(t.head, func(h string) bool { return prose.Label(h) == label })
}

func (t *table) after() int {
	if at := t.column("depends"); at >= 0 {
		return at
	}
	return t.column("after")
}

// names is what a row is about: the number in its first columns, its title, and the column of that, -1 for none.
func (t *table) names(r row) (ref prose.Ref, title string, numbered bool) {
	id, at := t.column("id"), t.column("title")
	if at < 0 {
		at = t.column("text")
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

// tableTasks makes tasks of the rows of tables that have a title in each row, and a number, a status or dependencies.
func (r *reader) tableTasks() bool {
	var all []task
	for i := range r.tables {
		t := &r.tables[i]
		items := r.rowTasks(t)
		if head := r.headAt(t.rows[0].line); head >= 0 && r.heads[head].background() {
			continue
		}
		all = append(all, items...)
	}
	return r.addItems(all)
}

// rowTasks are the tasks of one table, none where not each row has a title.
func (r *reader) rowTasks(t *table) (items []task) {
	for _, row := range t.rows {
		ref, title, numbered := t.names(row)
		if title == "" || ref.Phase || t.after() < 0 && t.column("status") < 0 && (ref.ID == "" || !numbered) {
			return nil
		}
		x := task{Task: tasks.Task{ID: ref.ID, Title: title, Line: row.line + 1}, last: row.line + 1, own: ref.ID}
		if text := row.cell(t.column("text")); text != title {
			x.Description = text
		}
		x.attribute("status", row.cell(t.column("status")))
		x.attribute("priority", row.cell(t.column("priority")))
		items = append(items, x)
	}
	return items
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
