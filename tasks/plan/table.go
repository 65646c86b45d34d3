package plan

import (
	"strings"

	"descartes/tasks"
	"descartes/tasks/outline"
	"descartes/tasks/prose"
)

// rows makes tasks of the rows of tables.
func (r *reader) rows() (all []task) {
	for i := range r.Tables {
		if r.Under(r.Tables[i].Rows[0].Line) < prose.Background {
			all = append(all, rowTasks(&r.Tables[i])...)
		}
	}
	return all
}

// rowTasks are the tasks of one table, none where not each row has a title, and a number, a status or dependencies.
func rowTasks(t *outline.Table) (items []task) {
	for _, row := range t.Rows {
		ref, title, status := t.Names(row)
		if title == "" || ref.Phase || t.After() < 0 && t.Column("status") < 0 && (ref.ID == "" || t.Column("id") < 0 && !ref.Word) ||
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

// tableOrder takes what the tables say tasks and phases wait for.
func (r *reader) tableOrder() {
	for i := range r.Tables {
		t := &r.Tables[i]
		if t.After() < 0 {
			continue
		}
		for _, row := range t.Rows {
			ref, title, _ := t.Names(row)
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
			r.take(who, row.Line, prose.Statement{Strong: true, Text: row.Cell(t.After())})
		}
	}
}
