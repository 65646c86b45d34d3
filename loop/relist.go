package loop

import (
	"fmt"
	"maps"
	"slices"

	"descartes/loop/journal"
	"descartes/loop/source"
	"descartes/tasks"
)

// list takes in what others change in the task list while the run works on it.
type list struct {
	run     *Loop
	tag     *tagWork
	refused bool                    // reported that the list cannot be used as it is now
	wishes  map[string]tasks.Status // of tasks under way: what somebody made of them in the list meanwhile
}

// relist takes in what somebody changed in the task list, and reports whether that may be more to do.
func (w *list) relist() (bool, error) {
	saver, job := w.run.saver, w.run.job
	if saver.read(); saver.unread != nil {
		return false, w.refuse(saver.unread)
	}
	if !saver.edited {
		w.refused = false
		return false, nil
	}
	next := 1
	for _, c := range w.run.history.WaveCommits {
		next = max(next, c.Wave+1)
	}
	c, err := job.Reread(source.Run{Stands: w.stands, Wrote: saver.theirs, Waves: w.run.history.Waves(), Next: next,
		Candidates: len(w.run.lanes.all), Proves: w.run.lanes.lab != nil, Trusts: w.run.config.Confined()})
	if err != nil {
		return false, w.refuse(err)
	}
	maps.Copy(w.wishes, c.Wishes)
	maps.Copy(saver.pending, c.Undone)
	saver.theirs, saver.edited, w.refused = nil, false, false
	w.run.state.TotalWaves = len(job.Graph.Waves())
	w.tag.queue.passed, w.tag.queue.sched = 0, nil
	if c.Words == "" {
		return false, nil
	}
	return true, w.run.record(&journal.Event{Type: journal.ListChanged,
		Unit: journal.Unit{Wave: next, Of: w.run.state.TotalWaves}, Message: c.Words, Tasks: c.Tasks})
}

// stands is where a task stands in this run.
func (w *list) stands(id string) source.Standing {
	t := w.run.history.Task(id)
	return source.Standing{AtWork: w.tag.queue.at(id) != nil || w.tag.rounds.all[id] != nil, Begun: t.Attempts > 0,
		Open: t.Open(), Merged: slices.Contains(w.run.trunk.Units, id)}
}

// wished gives up a task that somebody took off the list while an attempt at it ran, and reports whether somebody did.
func (w *list) wished(id string) (bool, error) {
	status, ok := w.wishes[id]
	if !ok {
		return false, nil
	}
	delete(w.wishes, id)
	w.run.job.Graph.SetStatus(id, status)
	return true, w.run.record(&journal.Event{Type: journal.ListChanged,
		Unit: journal.Unit{Wave: w.run.waveOf(id), Of: len(w.run.job.Graph.Waves())}, Tasks: []string{id},
		Message: id + " is " + string(status)})
}

// refuse reports once that a list cannot be used as it is now.
func (w *list) refuse(why error) error {
	if w.refused {
		return nil
	}
	w.refused = true
	return w.run.record(&journal.Event{Type: journal.Warning,
		Message: fmt.Sprintf("the task list stays as last read: %v", why)})
}

// unwritten says why statuses cannot be written into the list now; nil if none wait for that.
func (w *list) unwritten() error {
	if w.run.saver.read(); len(w.run.saver.pending) == 0 {
		return nil
	}
	return w.run.saver.unread
}
