package tagrun

import "descartes/loop/store"

// snapshot is the run as its state file would show it now.
func (r *Run) snapshot() *store.State {
	s := r.book.Snapshot()
	if began := r.book.State.StartedAt; !began.IsZero() { // by it a fleet knows the run, before its first event and later
		s.StartedAt = began
	}
	c := r.job.Graph.Counts()
	s.TasksCompleted, s.TasksTotal = c.Done, c.Total
	s.Entries = r.entries()
	return s
}

// listSaved saves the state file, which says up to which event the list is complete.
func (r *Run) listSaved(pending bool) error {
	r.book.State.ListOn = r.list.on()
	s := r.snapshot()
	if pending {
		s.Seq = r.told.listed
	} else if err := r.ground.home.Listed(r.ground.tools.FS, r.ID(), s.Seq); err != nil {
		return err
	}
	r.told.listed = s.Seq
	return r.book.SaveAs(s)
}
