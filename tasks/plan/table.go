package plan

import (
	"slices"
	"strings"

	"descartes/internal/markdown"
	"descartes/tasks"
	"descartes/tasks/prose"
)

// table is a table of the plan. The columns are -1 where it has none such.
type table struct {
	head []string
	rows []row

	id, title, text, after, blocks, status, priority int
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
		t.nameColumns()
		for n++; n < len(d.md.Lines) && is(n) && !(n+1 < len(d.md.Lines) && markdown.IsDelimiterRow(d.md.Line(n+1))); n++ {
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

// nameColumns tells the columns apart by their heads.
func (t *table) nameColumns() {
	columns := []*int{&t.id, &t.title, &t.text, &t.after, &t.blocks, &t.status, &t.priority}
	for _, c := range columns {
		*c = -1
	}
	for i, h := range t.head {
		h = strings.ToLower(h)
		if strings.Contains(h, "depend") || strings.HasPrefix(h, "prereq") {
			h = "after"
		}
		for k, names := range [][]string{
			{"id", "#", "no", "no.", "nr", "number", "task id", "task #", "task no", "task no.", "phase", "step"},
			{"title", "task", "tasks", "name", "task name", "work item", "item", "story"},
			{"description", "summary", "details"}, {"deps", "blocked by", "after"}, {"blocks"}, {"status", "state", "done"}, {"priority", "prio"},
		} {
			if *columns[k] < 0 && slices.Contains(names, h) {
				*columns[k] = i
			}
		}
	}
	if t.title < 0 {
		t.title, t.text = t.text, -1
	}
}

// refOf is what a row is about, and its title.
func (t *table) refOf(r row) (ref prose.Ref, title string) {
	title = prose.Clip(r.cell(t.title))
	text := r.cell(t.id)
	if t.id < 0 {
		if id, rest := prose.LeadingID(title); id != "" {
			return prose.Ref{ID: id, Word: true}, rest
		}
		text = title
	}
	if refs, rest := prose.Refs(text); len(refs) == 1 && strings.TrimSpace(rest) == "" {
		return refs[0], title
	}
	return prose.Ref{}, title
}

// tableTasks makes tasks of the first table that has a title in each row, and a number or dependencies.
func (r *reader) tableTasks() bool {
	for i := range r.tables {
		t := &r.tables[i]
		var items []task
		for _, row := range t.rows {
			ref, title := t.refOf(row)
			if title == "" || ref.Phase || ref.ID == "" && t.after < 0 {
				break
			}
			items = append(items, task{Task: tasks.Task{ID: ref.ID, Title: title, Description: row.cell(t.text), Line: row.line + 1}, last: row.line + 1})
		}
		if len(items) < len(t.rows) || t.id < 0 && t.after < 0 {
			continue
		}
		nameItems(items, "")
		for _, item := range items {
			item.made = t.id < 0
			r.add(item)
		}
		return true
	}
	return false
}

// tableRows takes what the tables say about tasks: what they wait for, their status and their priority.
func (r *reader) tableRows() {
	lines := map[int]int{}
	for i := range r.tasks {
		lines[r.tasks[i].Line-1] = i
	}
	for i := range r.tables {
		t := &r.tables[i]
		if t.id < 0 && t.title < 0 || max(t.after, t.blocks, t.status, t.priority) < 0 {
			continue
		}
		for _, row := range t.rows {
			who := subject{-1, -1}
			if task, ok := lines[row.line]; ok {
				who.task = task
			} else {
				who = r.rowSubject(t, row)
			}
			if who.task >= 0 || who.phase >= 0 {
				r.tableRow(t, row, who)
			}
		}
	}
}

func (r *reader) tableRow(t *table, row row, who subject) {
	if text := row.cell(t.after); text != "" {
		r.takeStatement(who, row.line, prose.Statement{Strong: true, Text: text})
	} else if t.after >= 0 {
		r.state(who)
	}
	if text := row.cell(t.blocks); text != "" && !prose.SaysNone(text) {
		r.takeStatement(who, row.line, prose.Statement{Strong: true, Blocks: true, Text: text})
	}
	if who.task < 0 {
		return
	}
	x := &r.tasks[who.task]
	for _, text := range []string{row.cell(t.status), "x (" + row.cell(t.status) + ")"} {
		if _, status, ok := cutStatus("x " + text); ok && !x.settled {
			x.Status, x.settled = status, true
		}
	}
	if word := prose.Priority(row.cell(t.priority)); word != "" {
		x.Priority = word
	}
}

// rowSubject is the task or the phase that a row is about.
func (r *reader) rowSubject(t *table, row row) subject {
	ref, title := t.refOf(row)
	if i, ok := r.index[ref.ID]; ok && !ref.Phase {
		return subject{i, -1}
	}
	if i, ok := r.called[prose.Fold(title)]; ok && i >= 0 && title != "" {
		return subject{i, -1}
	}
	if k := r.phaseOf(ref.ID); ref.Phase {
		return subject{-1, k}
	}
	return subject{-1, -1}
}
