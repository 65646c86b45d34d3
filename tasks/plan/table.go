package plan

import (
	"strings"

	"descartes/tasks/outline"
	"descartes/tasks/prose"
)

// rowSubject is the task or the phase that a row is about: by its number, its title, or what its first cell begins
// with; both are -1 where there is none.
func (r *reader) rowSubject(t *outline.Table, row outline.Row) subject {
	ref, title, _ := t.Names(row)
	code, rest := prose.LeadingID(row.Cells[0] + " ")
	if !prose.CodeID(code) { // the number of something else
		code = ""
	}
	for _, id := range []string{ref.ID, code} {
		if found := r.resolve(prose.Ref{ID: id, Word: true}, r.PhaseAt(row.Line)); id != "" && len(found) == 1 && !ref.Phase {
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
