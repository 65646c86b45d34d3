package loop

import (
	"cmp"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"descartes/internal/oneline"
	"descartes/loop/journal"
	"descartes/scheduler"
	"descartes/tasks"
)

// list takes in what others change in the task list while the run works on it.
type list struct {
	run     *Loop
	tag     *tagWork
	refused bool                    // reported that the list cannot be used as it is now
	wishes  map[string]tasks.Status // of tasks under way: what somebody made of them in the list meanwhile
}

// relist takes in what somebody changed in the task list, and reports whether that may be more to do. A task that is
// under way goes on to its end, also if it was deleted; of any other the status in the list holds, unless that sets
// back what this run did. A run in the project's own folder has the list to itself.
func (w *list) relist() (bool, error) {
	e, why := w.reread()
	if why != nil {
		return false, w.refuse(why)
	}
	if w.refused = false; e == nil {
		return false, nil
	}
	w.tag.queue.passed, w.tag.queue.sched = 0, nil
	if e.Message == "" {
		return false, nil
	}
	return true, w.run.record(e)
}

// reread makes the graph of the list as it is now, and returns the event that says what others changed; nil if that is
// nothing.
func (w *list) reread() (*journal.Event, error) {
	w.run.saver.read()
	if w.run.saver.unread != nil || !w.run.saver.edited || w.run.tools.Here {
		return nil, w.run.saver.unread
	}
	e := &journal.Event{Type: journal.ListChanged, Unit: journal.Unit{Wave: 1}, Message: w.changes()}
	for _, c := range w.run.history.WaveCommits {
		e.Wave = max(e.Wave, c.Wave+1)
	}
	list, waves := slices.Concat(w.run.job.File.Tasks(), w.deleted()), w.run.history.Waves()
	g := w.run.job.graph(list)
	if err := w.fits(g); err != nil {
		return nil, err
	}
	for _, id := range g.Leaves() {
		was, now := w.run.job.Graph.Status(id), g.Status(id)
		_, set := w.run.saver.theirs[id]
		open := w.run.history.Task(id).Open()
		switch {
		case set && open && offList(now):
			if w.tag.queue.at(id) != nil { // its attempt goes on to its end
				w.wishes[id] = now
				g.SetStatus(id, was)
			} else {
				e.Tasks = append(e.Tasks, id)
			}
		case was != "" && (!set || open):
			g.SetStatus(id, was)
		case offList(now):
			if w.run.history.Task(id).Attempts > 0 { // it was blocked
				e.Tasks = append(e.Tasks, id)
			}
		case w.run.history.Task(id).Attempts > 0: // saved by an editor that had read the list before
			g.SetStatus(id, was)
			w.run.saver.pending[id] = was
		default:
			e.Tasks = append(e.Tasks, id)
			waves[id] = cmp.Or(waves[id], e.Wave)
		}
	}
	g.Number(waves)
	w.run.job.all, w.run.job.Graph, w.run.state.TotalWaves = list, g, len(g.Waves())
	w.run.saver.theirs, w.run.saver.edited = nil, false
	e.Of = len(g.Waves())
	return e, nil
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

// fits says why this run cannot use a changed list.
func (w *list) fits(g *scheduler.Graph) error {
	for _, id := range w.run.job.Graph.Leaves() {
		if (w.tag.queue.at(id) != nil || w.run.history.Task(id).Open() ||
			slices.Contains(w.run.trunk.units, id)) && g.Wave(id) == 0 {
			return fmt.Errorf("task %s has begun, and in the changed list it has parts or waits for itself; that holds once it is over", id)
		}
	}
	list := w.run.job.File.Tasks()
	most, proves, bad := w.run.job.survey(list)
	brought := slices.IndexFunc(list, func(t tasks.Task) bool {
		return t.Verify != "" && !slices.ContainsFunc(w.run.job.all,
			func(old tasks.Task) bool { return old.Verify == t.Verify })
	})
	switch {
	case brought >= 0 && !w.run.config.Confined():
		return fmt.Errorf("task %s brings a command that nobody has trusted: %s; start again for it", list[brought].ID,
			list[brought].Verify)
	case len(bad) > 0:
		return bad[0]
	case most > len(w.run.lanes.all):
		return fmt.Errorf("a task asks for %d candidates, and this run has %d slots; start again for it", most,
			len(w.run.lanes.all))
	case proves && w.run.lanes.lab == nil:
		return errors.New("a task asks for a proof, which this run cannot give; start again for it")
	}
	return nil
}

// deleted are the tasks that the list no longer has and the run has begun, or prepares a slot for. They belong to its
// account.
func (w *list) deleted() (list []tasks.Task) {
	for _, t := range w.run.job.all {
		if _, ok := w.run.job.File.Task(t.ID); !ok && (w.run.history.Task(t.ID).Attempts > 0 ||
			w.tag.queue.at(t.ID) != nil || w.tag.rounds.all[t.ID] != nil) {
			t.DependsOn, t.Parent, t.Children, t.Line = nil, "", nil, 0
			list = append(list, t)
		}
	}
	return list
}

// changes says what others changed in the list; "" if that is nothing to a run.
func (w *list) changes() string {
	var added, removed, changed []string
	for _, t := range w.run.job.File.Tasks() {
		old, ok := w.run.job.Graph.Task(t.ID)
		if !ok {
			added = append(added, t.ID)
			continue
		}
		was := *old
		was.Status, was.RawStatus, was.Line = t.Status, t.RawStatus, t.Line
		s, set := w.run.saver.theirs[t.ID]
		set = set && s != w.run.job.Graph.Status(t.ID) && (w.run.history.Task(t.ID).Attempts == 0 || offList(s))
		if set || !reflect.DeepEqual(was, t) {
			changed = append(changed, t.ID)
		}
	}
	for _, t := range w.run.job.all {
		if _, ok := w.run.job.File.Task(t.ID); !ok && t.Line > 0 {
			removed = append(removed, t.ID)
		}
	}
	var parts []string
	for _, p := range []struct {
		ids  []string
		word string
	}{{added, "added"}, {changed, "changed"}, {removed, "removed"}} {
		if len(p.ids) > 0 {
			parts = append(parts, oneline.List(p.ids)+" "+p.word)
		}
	}
	return strings.Join(parts, ", ")
}
