package plan

import (
	"strings"

	"descartes/tasks"
	"descartes/tasks/outline"
	"descartes/tasks/prose"
)

// rows makes tasks of the rows of tables, by this column where a row has no number.
func (r *reader) rows(column string) (all []task) {
	for _, t := range r.work {
		if r.Under(t.Rows[0].Line) < prose.Background {
			all = append(all, rowTasks(t, column)...)
		}
	}
	return all
}

// findRows finds the tables of work, and what their rows are tasks of.
func (r *reader) findRows() {
	type name struct {
		phase int
		text  string
	}
	heads := map[name]bool{}
	for i := range r.Heads {
		h := &r.Heads[i]
		heads[name{r.phaseAt(h.Line), h.ID}], heads[name{r.phaseAt(h.Line), prose.Fold(h.Title)}] = true, true
	}
	for i := range r.Tables {
		t, named := &r.Tables[i], 0
		for _, row := range t.Rows {
			_, title, _ := t.Names(row)
			k := r.phaseAt(row.Line)
			if heads[name{k, prose.Fold(title)}] || prose.CodeID(row.Cells[0]) && heads[name{k, row.Cells[0]}] {
				named++
			}
		}
		if 2*named <= len(t.Rows) {
			r.work, r.rowTasks = append(r.work, t), append(r.rowTasks, rowTasks(t, "status")...)
		}
	}
}

// rowTasks are the tasks of one table, none where not each row has a title, and a number, dependencies or this column.
func rowTasks(t *outline.Table, column string) (items []task) {
	for _, row := range t.Rows {
		ref, title, status := t.Names(row)
		if title == "" || ref.Phase || t.After() < 0 && t.Column(column) < 0 && (ref.ID == "" || t.Column("id", "place") < 0 && !ref.Word) ||
			len(ref.ID) > 1 && prose.NoTaskCode(ref.ID) && ref.ID[1] > '9' {
			return nil
		}
		x := task{Task: tasks.Task{ID: ref.ID, Title: title, Line: row.Line + 1, Verify: row.Cell(t.Column("verify"))},
			last: row.Line + 1, own: ref.ID}
		x.say(status)
		if text := row.Cell(t.Column("text")); text != title {
			x.Description = text
		}
		x.attribute("status", row.Cell(t.Column("status")))
		x.attribute("priority", row.Cell(t.Column("priority")))
		items = append(items, x)
	}
	return items
}

// rowSubject is the task or the phase that a row is about: by its number, its title, or what its first cell begins
// with; both are -1 where there is none.
func (r *reader) rowSubject(t *outline.Table, row outline.Row) subject {
	ref, title, _ := t.Names(row)
	code, rest := prose.LeadingID(row.Cells[0] + " ")
	if !prose.CodeID(code) { // the number of something else
		code = ""
	}
	for _, id := range []string{ref.ID, code} {
		if found := r.resolve(prose.Ref{ID: id, Word: true}, r.phaseAt(row.Line)); id != "" && len(found) == 1 && !ref.Phase {
			return subject{found[0], -1}
		}
	}
	for _, name := range []string{title, rest} {
		if i, ok := r.called[prose.Fold(name)]; ok && i >= 0 {
			return subject{i, -1}
		}
	}
	if k, ok := r.phaseIDs[strings.ToLower(ref.ID)]; ok && ref.Phase {
		return subject{-1, k}
	}
	return subject{-1, -1}
}

// tableOrder takes what the tables say tasks and phases wait for.
func (r *reader) tableOrder() {
	for i := range r.Tables {
		t := &r.Tables[i]
		for _, row := range t.Rows {
			if who := r.rowSubject(t, row); t.After() >= 0 && who != (subject{-1, -1}) {
				r.take(who, row.Line, prose.Statement{Strong: true, Text: row.Cell(t.After())})
			}
		}
	}
}
