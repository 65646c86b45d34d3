package plan

import (
	"slices"
	"strings"

	"descartes/internal/markdown"

	"descartes/tasks/prose"

	"descartes/tasks"
)

// planTable is a table with a column of task ids, or of tasks.
type planTable struct {
	id, title, text, after, blocks, status, priority int // columns, -1 for none
	rows                                             []planRow
}

type planRow struct {
	line  int
	cells []string
}

// cell is a cell of the row, "" where the row is too short or there is no such column.
func (r planRow) cell(column int) string {
	if column < 0 || column >= len(r.cells) {
		return ""
	}
	return r.cells[column]
}

// tables finds the tables that may be about tasks.
func (p *planner) tables() []planTable {
	var list []planTable
	for n := 1; n < len(p.md.Lines); n++ {
		if p.md.Lines[n].Kind == markdown.Hidden || !markdown.IsDelimiterRow(p.md.Line(n)) || p.md.Lines[n-1].Kind == markdown.Hidden {
			continue
		}
		t := columnsOf(tableCells(p.md.Line(n - 1)))
		for n++; n < len(p.md.Lines) && p.md.Lines[n].Kind != markdown.Hidden && strings.Contains(p.md.Line(n), "|"); n++ {
			t.rows = append(t.rows, planRow{n, tableCells(p.md.Line(n))})
		}
		if len(t.rows) > 0 && (t.id >= 0 || t.title >= 0) {
			list = append(list, t)
		}
	}
	return list
}

// tableCells splits a row of a table.
func tableCells(line string) []string {
	cells := markdown.Cells(line)
	for i, c := range cells {
		cells[i] = markdown.Inline(c)
	}
	return cells
}

// columnsOf tells the columns apart by their heads.
func columnsOf(head []string) planTable {
	t := planTable{id: -1, title: -1, text: -1, after: -1, blocks: -1, status: -1, priority: -1}
	for i, h := range head {
		column := &t.text
		switch h = strings.ToLower(h); {
		case slices.Contains([]string{"id", "#", "no", "no.", "nr", "number", "task id", "task #", "task no", "task no.", "phase", "step"}, h):
			column = &t.id
		case slices.Contains([]string{"title", "task", "tasks", "name", "task name", "work item", "item", "story"}, h):
			column = &t.title
		case strings.Contains(h, "depend") || h == "deps" || h == "blocked by" || h == "after" || strings.HasPrefix(h, "prereq"):
			column = &t.after
		case h == "blocks":
			column = &t.blocks
		case h == "status" || h == "state" || h == "done":
			column = &t.status
		case h == "priority" || h == "prio":
			column = &t.priority
		case h != "description" && h != "summary" && h != "details":
			continue
		}
		if *column < 0 {
			*column = i
		}
	}
	if t.title < 0 {
		t.title, t.text = t.text, -1
	}
	return t
}

// refOf is what a row is about, and its title.
func (t *planTable) refOf(r planRow) (ref prose.Ref, title string) {
	title = r.cell(t.title)
	text := r.cell(t.id)
	title = prose.Clip(title)
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
func (p *planner) tableTasks(list []planTable) bool {
	for _, t := range list {
		items := make([]planItem, 0, len(t.rows))
		for _, r := range t.rows {
			ref, title := t.refOf(r)
			if title == "" || ref.Phase || ref.ID == "" && t.after < 0 {
				break
			}
			items = append(items, planItem{planTask{Task: tasks.Task{ID: ref.ID, Title: title, Description: r.cell(t.text)}}, r.line, r.line + 1})
		}
		if len(items) < len(t.rows) || t.id < 0 && t.after < 0 {
			continue
		}
		p.nameItems(items, "")
		for _, it := range items {
			it.task.made = t.id < 0
			p.add(it.task, it.line, it.end)
		}
		return true
	}
	return false
}

// tableRows takes what the tables say about tasks: what they wait for, their status and their priority.
func (p *planner) tableRows(list []planTable) {
	lines := map[int]int{}
	for i := range p.plan.tasks {
		lines[p.plan.tasks[i].Line-1] = i
	}
	for _, t := range list {
		if t.after < 0 && t.blocks < 0 && t.status < 0 && t.priority < 0 {
			continue
		}
		for _, r := range t.rows {
			task, ok := lines[r.line]
			phase := -1
			if !ok {
				task, phase = p.rowTask(&t, r)
			}
			if task >= 0 || phase >= 0 {
				p.tableRow(&t, r, task, phase)
			}
		}
	}
}

func (p *planner) tableRow(t *planTable, r planRow, task, phase int) {
	if text := r.cell(t.after); text != "" {
		p.takeStatement(task, phase, r.line, prose.Statement{Strong: true, Text: text})
	} else if t.after >= 0 {
		p.state(task, phase)
	}
	if text := r.cell(t.blocks); text != "" && !prose.SaysNone(text) {
		p.takeStatement(task, phase, r.line, prose.Statement{Strong: true, Blocks: true, Text: text})
	}
	if task < 0 {
		return
	}
	x := &p.plan.tasks[task]
	for _, text := range []string{r.cell(t.status), "x (" + r.cell(t.status) + ")"} {
		if _, status, ok := cutStatus("x " + text); ok && !x.settled {
			x.Status, x.settled = status, true
		}
	}
	if word := prose.Priority(r.cell(t.priority)); word != "" {
		x.Priority = word
	}
}

// rowTask is the task or the phase that a row is about.
func (p *planner) rowTask(t *planTable, r planRow) (task, phase int) {
	ref, title := t.refOf(r)
	if i, ok := p.index[ref.ID]; ok && !ref.Phase {
		return i, -1
	}
	if i, ok := p.titles[prose.Fold(title)]; ok && i >= 0 && title != "" {
		return i, -1
	}
	if k := p.phaseOf(ref.ID); k >= 0 && ref.Phase {
		return -1, k
	}
	return -1, -1
}
