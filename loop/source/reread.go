package source

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"descartes/internal/oneline"
	"descartes/scheduler"
	"descartes/tasks"
)

// Standing is where a task stands in the run that reads its list again.
type Standing struct {
	AtWork bool // an attempt is under way, or a slot is prepared for one
	Begun  bool // it had an attempt
	Open   bool // it was started, and is neither done nor blocked
	Merged bool // its work is in the trunk and in no commit
}

// Run is what the run that reads its list again knows, and what it can do.
type Run struct {
	Stands func(task string) Standing
	Wrote  map[string]tasks.Status // statuses that others wrote into the list, since it was read last
	Waves  map[string]int          // of the tasks that began or were added
	Next   int                     // the first wave that is not committed

	Proves bool // it can have tests fail without the work
	Trusts bool // it may run commands that nobody has read: a sandbox confines them
}

// Change is what others changed in a list.
type Change struct {
	Words  string                  // what, in one line; "" if that is nothing to a run
	Tasks  []string                // that are new, or stand otherwise now
	Wishes map[string]tasks.Status // of tasks at work: these hold once their attempts have ended
	Undone map[string]tasks.Status // what the run made of tasks, and an older copy of the list has undone
}

// Reread makes the job's graph from the list as its file was read last. A task at work goes on to its end, also if it
// was deleted; of any other the status in the list holds, unless that undoes what the run did. With an error, which
// says why this run cannot use the list, the job is as before.
func (j *Job) Reread(run Run) (*Change, error) {
	c := &Change{Words: j.changed(run), Wishes: map[string]tasks.Status{}, Undone: map[string]tasks.Status{}}
	list, waves := slices.Concat(j.File.Tasks(), j.deleted(run)), maps.Clone(run.Waves)
	g := j.graph(list)
	if err := j.fits(g, run); err != nil {
		return nil, err
	}
	for _, id := range g.Leaves() {
		was, now, stands := j.Graph.Status(id), g.Status(id), run.Stands(id)
		_, wrote := run.Wrote[id]
		switch {
		case wrote && stands.Open && !now.Open() && stands.AtWork:
			c.Wishes[id] = now
			g.SetStatus(id, was)
		case wrote && stands.Open && !now.Open():
			c.Tasks = append(c.Tasks, id)
		case was != "" && (!wrote || stands.Open):
			g.SetStatus(id, was)
		case !now.Open():
			if stands.Begun { // it was blocked
				c.Tasks = append(c.Tasks, id)
			}
		case stands.Begun: // saved by an editor that had read the list before
			g.SetStatus(id, was)
			c.Undone[id] = was
		default:
			c.Tasks = append(c.Tasks, id)
			waves[id] = cmp.Or(waves[id], run.Next)
		}
	}
	g.Number(waves)
	j.all, j.Graph = list, g
	return c, nil
}

// fits says why a run cannot use a changed list.
func (j *Job) fits(g *scheduler.Graph, run Run) error {
	for _, id := range j.Graph.Leaves() {
		if s := run.Stands(id); (s.AtWork || s.Open || s.Merged) && g.Wave(id) == 0 {
			return fmt.Errorf(
				"task %s has begun, and in the changed list it has parts or waits for itself; that holds once it is over",
				id)
		}
	}
	list := j.File.Tasks()
	proves, bad := j.survey(list)
	brought := slices.IndexFunc(list, func(t tasks.Task) bool {
		return t.Verify != "" &&
			!slices.ContainsFunc(j.all, func(old tasks.Task) bool { return old.Verify == t.Verify })
	})
	switch {
	case brought >= 0 && !run.Trusts:
		return fmt.Errorf("task %s brings a command that nobody has trusted: %s; start again for it", list[brought].ID,
			list[brought].Verify)
	case len(bad) > 0:
		return bad[0]
	case proves && !run.Proves:
		return errors.New("a task asks for a proof, which this run cannot give; start again for it")
	}
	return nil
}

// deleted are the tasks that the list no longer has and the run has begun, or prepares a slot for. They belong to its
// account.
func (j *Job) deleted(run Run) (list []tasks.Task) {
	for _, t := range j.all {
		if _, ok := j.File.Task(t.ID); ok {
			continue
		}
		if s := run.Stands(t.ID); s.Begun || s.AtWork {
			t.DependsOn, t.Parent, t.Children, t.Line = nil, "", nil, 0
			list = append(list, t)
		}
	}
	return list
}

// changed says what others changed in the list; "" if that is nothing to a run.
func (j *Job) changed(run Run) string {
	var added, removed, changed []string
	for _, t := range j.File.Tasks() {
		old, ok := j.Graph.Task(t.ID)
		if !ok {
			added = append(added, t.ID)
			continue
		}
		was := *old
		was.Status, was.RawStatus, was.Line = t.Status, t.RawStatus, t.Line
		s, wrote := run.Wrote[t.ID]
		wrote = wrote && s != j.Graph.Status(t.ID) && (!run.Stands(t.ID).Begun || !s.Open())
		if wrote || !reflect.DeepEqual(was, t) {
			changed = append(changed, t.ID)
		}
	}
	for _, t := range j.all {
		if _, ok := j.File.Task(t.ID); !ok && t.Line > 0 {
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
