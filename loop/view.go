package loop

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"descartes/internal/atomicfile"
	"descartes/loop/journal"
	"descartes/tasks"
)

// View is a loop as its journal tells it, whatever its state file could still be given.
type View struct {
	Path    string         // of the state file
	State   State          // that file, as it would be written now
	History *journal.State // what the journal says
	Live    bool
	Asked   Request // what another terminal asked of it, where it is live
	Now     bool    // and whether at once

	Changes map[string]tasks.Status // made by events that the task file may not show yet
}

// View reads a loop's journal into account. file is the loop's task list, for the form of its ids;
// nil leaves them texts. Nothing is changed.
func (h Home) View(s Saved, file *tasks.File) (View, error) {
	v := View{Path: s.Path, State: *s.State, History: journal.NewState()}
	if _, v.Live = live(lockOf(s.Path)); v.Live {
		v.Asked, v.Now = h.Asked(s.State.ID)
	}
	b, err := journal.Load(h.Events(s.State.ID))
	if err != nil || b.Seq == 0 {
		return v, err
	}
	v.History = b
	v.Changes = map[string]tasks.Status{}
	for id, st := range b.TakeChanges(s.State.Seq) {
		v.Changes[id] = tasks.Status(st)
	}
	fill(&v.State, b, func(id string) TaskID {
		if file == nil {
			return TaskID{ID: id}
		}
		t, ok := file.Task(id)
		return TaskID{ID: id, Numeric: ok && t.Numeric}
	})
	v.State.Seq = b.Seq
	return v, nil
}

// Live tells which loop runs in the working tree of this home, if one does.
func (h Home) Live() (Holder, bool) { return live(lockOf(h.tree())) }

// Owner tells which live loop a change of a task list would get in the way of: one over its tag, or one
// whose own task file or mirror the change would write to. The end of an attempt puts those back.
func (h Home) Owner(file *tasks.File) (Holder, bool) {
	who, busy := h.Live()
	if !busy {
		return who, false
	}
	mine := func(path string) bool { return slices.Contains(who.Files, path) }
	return who, who.Tag == file.Tag() || len(who.Files) == 0 || slices.ContainsFunc(filesOf(file), mine)
}

// filesOf lists what a change of a task list writes to: its file and its mirror, each without symbolic links.
func filesOf(file *tasks.File) []string {
	list := []string{file.Path()}
	if mirror, ok := file.Mirror(); ok {
		list = append(list, mirror.Path())
	}
	for i, path := range list {
		if real, err := filepath.EvalSymlinks(path); err == nil {
			list[i] = real
		}
	}
	return list
}

// CatchUp gives the task file what the journals of the tag's dead loops know and could not write any more.
func (h Home) CatchUp(ctx context.Context, fsys atomicfile.FS, file *tasks.File, now func() time.Time) error {
	all, err := h.List()
	if err != nil {
		return err
	}
	for _, s := range all {
		if s.State == nil || s.Archived || s.State.Tag != file.Tag() {
			continue
		}
		if err := h.catchUp(ctx, fsys, s, file, now); err != nil {
			return err
		}
	}
	return nil
}

func (h Home) catchUp(ctx context.Context, fsys atomicfile.FS, s Saved, file *tasks.File, now func() time.Time) (err error) {
	lk, err := takeLock(ctx, lockOf(s.Path), lockWait, Holder{PID: os.Getpid(), Host: hostname(), Loop: s.State.ID, Tag: s.State.Tag, At: now()})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lk.release()) }()
	v, err := h.View(s, file)
	if err != nil || len(v.Changes) == 0 {
		return err
	}
	file.SetReplace(atomicfile.Replacer(fsys))
	if err := file.Save(v.Changes); err != nil {
		return fmt.Errorf("save task file: %w", err)
	}
	return v.State.save(fsys, s.Path)
}

// Find is the loop of that id, or nil. Its error is that of the state file that should be the loop's.
func (h Home) Find(id string) (*Saved, error) {
	all, err := h.List()
	if err != nil {
		return nil, err
	}
	for i := range all {
		s := &all[i]
		if s.State != nil && s.State.ID == id {
			return s, nil
		}
		if s.State == nil && (s.Path == h.Named(id) || s.Path == h.Archived(id)) {
			return nil, s.Err
		}
	}
	return nil, nil
}

// Last is the loop that is live, else the one that was active last, or nil. Its error is that of
// the state file that hides it.
func (h Home) Last() (*Saved, error) {
	all, err := h.List()
	if err != nil {
		return nil, err
	}
	var found *Saved
	for i := range all {
		s := &all[i]
		if s.State == nil {
			if s.Path == h.Default() {
				return nil, s.Err
			}
			continue
		}
		if _, busy := live(lockOf(s.Path)); busy {
			return s, nil
		}
		if found == nil || h.Active(s).After(h.Active(found)) {
			found = s
		}
	}
	return found, nil
}

// Active is when a loop last wrote its journal.
func (h Home) Active(s *Saved) time.Time {
	if fi, err := os.Stat(filepath.Clean(h.Events(s.State.ID))); err == nil {
		return fi.ModTime()
	}
	return s.State.StartedAt
}

// fill puts into a state what the journal says of the loop.
func fill(s *State, h *journal.State, id func(string) TaskID) {
	s.Iteration, s.IterationCount = h.Iteration, h.Iteration
	s.CurrentWave, s.CurrentTask = h.Wave, h.Current
	s.Tree, s.VerifyLeft = h.Tree, slices.Clone(h.VerifyLeft[:min(len(h.VerifyLeft), maxLeft)])
	s.Undone = slices.Clone(h.Undone)
	if !h.Started.IsZero() { // else the journal begins where a state file without one was resumed
		s.StartedAt = h.Started
	}
	s.WaveCommits, s.BlockedTasks = []WaveCommit{}, []Blocked{}
	for _, e := range h.WaveCommits {
		w := WaveCommit{Wave: e.Wave, Hash: e.Commit, Timestamp: e.At}
		for _, t := range e.Tasks {
			w.Tasks = append(w.Tasks, id(t))
		}
		s.WaveCommits = append(s.WaveCommits, w)
	}
	for _, e := range h.Blocked {
		s.BlockedTasks = append(s.BlockedTasks, Blocked{Task: id(e.Task), Title: e.Title, Reason: e.Reason, Question: e.Question, Denied: e.Denied, Attempts: e.Attempts, At: e.At})
	}
	if h.Cost.Runs > 0 {
		cost := h.Cost
		s.Cost = &cost
	}
	s.Agents = slices.Clone(h.Agents)
	s.Gate = h.Prompt.Gate
	s.Completed, s.ExitReason = false, ExitReason{Type: "running"}
	if f := h.Finished; f != nil {
		s.ExitReason = ExitReason{Type: string(f.Ending), Message: f.Message}
		s.Completed = f.Ending.Final() || f.Ending == journal.BaselineFails && h.Iteration == 0 // nothing is left of it to go on with
		s.CurrentTask = ""
	}
}

// NextSpec is what the journal says for the spec of a task's next attempt, or of the one with that number: the
// failure before it, and what the tasks before it had delivered then. A blocked task's next attempt is that of
// --retry-blocked; any other attempt after a loop's end is one of a new loop, which knows nothing.
func (h Home) NextSpec(id, task string, attempt int) (SpecRequest, error) {
	events, err := journal.ReadEvents(h.Events(id))
	if err != nil {
		return SpecRequest{Task: task, Attempt: attempt}, err
	}
	b := journal.NewState()
	for i := range events {
		e := &events[i]
		if e.Type == journal.AttemptStarted && e.Task == task && e.Attempt == attempt {
			r := request(b, task)
			r.Of, r.Before = e.Of, e.TS
			return r, nil
		}
		b.Apply(e)
	}
	r, next := request(b, task), b.Begun[task]+1
	switch {
	case slices.ContainsFunc(b.Blocked, func(t journal.BlockedTask) bool { return t.Task == task }):
		r.Attempt = 1
	case b.Finished != nil && b.Finished.Ending.Final():
		r, next = SpecRequest{Task: task, Attempt: 1}, 1
	}
	if attempt > next {
		r.Attempt, r.Failure = r.Attempt+attempt-next, nil
	}
	return r, nil
}

// request is what a task's next attempt is told of what was before it.
func request(h *journal.State, task string) SpecRequest {
	r := SpecRequest{Task: task, Attempt: h.Counted[task] + 1, Refinements: slices.Clone(h.Refinements[task]), Delivered: func(id string) string { return h.Delivered[id] }}
	if f, ok := h.Failures[task]; ok {
		r.Failure = failure(f)
	}
	if f, ok := h.CutShort[task]; ok {
		r.Cut = failure(f)
	}
	return r
}

// IsLive reports whether a process runs the loop now.
func (h Home) IsLive(s Saved) bool {
	_, busy := live(lockOf(s.Path))
	return busy
}
