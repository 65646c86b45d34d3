package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"descartes/internal/atomicfile"
	"descartes/loop/journal"
	"descartes/tasks"
)

// View is a loop as its journal describes it, however old its state file is.
type View struct {
	Path    string         // of the state file
	State   State          // what the state file would contain now
	History *journal.State // from the journal
	Live    bool
	Asked   Request // what another terminal asked of it, if it is live
	Now     bool    // and whether at once

	Changes map[string]tasks.Status // status changes that the task file may not show yet
}

// View combines a loop's state with its journal. file, which may be nil, is the loop's task list: it decides whether
// ids are numbers. View changes nothing.
func (h Home) View(s Saved, file *tasks.File) (View, error) {
	v := View{Path: s.Path, State: *s.State, History: journal.NewState()}
	if _, v.Live = Live(LockOf(s.Path)); v.Live {
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
	Fill(&v.State, b, func(id string) TaskID {
		if file == nil {
			return TaskID{ID: id}
		}
		t, ok := file.Task(id)
		return TaskID{ID: id, Numeric: ok && t.Numeric}
	})
	v.State.Seq = b.Seq
	return v, nil
}

// CatchUp writes into the task file what the list's dead loops recorded in their journals but not there, where it is
// theirs to write: elsewhere reports that a branch's list is another one.
func (h Home) CatchUp(ctx context.Context, fsys atomicfile.FS, file *tasks.File, now func() time.Time,
	elsewhere func(branch string) bool) error {
	all, err := h.Of(h.KeyOf(file))
	if err != nil {
		return err
	}
	for _, s := range all {
		if s.Archived || s.State.ListOn != "" {
			continue
		}
		if err := h.catchUp(ctx, fsys, s, file, now, elsewhere); err != nil {
			return err
		}
	}
	return nil
}

func (h Home) catchUp(ctx context.Context, fsys atomicfile.FS, s Saved, file *tasks.File,
	now func() time.Time, elsewhere func(branch string) bool) (err error) {
	lk, err := TakeLock(ctx, LockOf(s.Path), LockWait, Holder{Host: Hostname(), Loop: s.State.ID, Tag: s.State.Tag,
		At: now()})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lk.Release()) }()
	v, err := h.View(s, file)
	if err != nil {
		return err
	}
	for id := range v.Changes {
		if _, ok := file.Task(id); !ok { // deleted since
			delete(v.Changes, id)
		}
	}
	if len(v.Changes) == 0 || elsewhere(v.History.Branch) {
		return nil
	}
	file.SetReplace(atomicfile.Replacer(fsys))
	if err := file.Save(v.Changes); err != nil {
		return fmt.Errorf("save task file: %w", err)
	}
	return errors.Join(v.State.Save(fsys, s.Path), h.Listed(fsys, s.State.ID, v.State.Seq))
}

// Fill copies what the journal says into a state.
func Fill(s *State, h *journal.State, id func(string) TaskID) {
	s.Iteration, s.IterationCount = h.Iteration, h.Iteration
	s.CurrentWave, s.CurrentTask = h.Wave, h.Current
	s.Tree = h.Tree
	s.Grades = h.Grades()
	s.Summaries = summaries(s.Summaries, h)
	if n := len(s.Summaries); n > 0 {
		s.LastIterationAt = &s.Summaries[n-1].CompletedAt
	}
	if !h.Started.IsZero() { // otherwise the journal begins with the resume of a state file that had none
		s.StartedAt = h.Started
	}
	s.WaveCommits, s.BlockedTasks = []WaveCommit{}, []Blocked{}
	for _, e := range h.WaveCommits {
		w := WaveCommit{Wave: e.Wave, Hash: e.Commit, Subject: e.Subject, Timestamp: e.At}
		for _, t := range e.Tasks {
			w.Tasks = append(w.Tasks, id(t))
		}
		s.WaveCommits = append(s.WaveCommits, w)
	}
	for _, e := range h.Blocked() {
		s.BlockedTasks = append(s.BlockedTasks, Blocked{Task: id(e.Task), Title: e.Title, Reason: e.Reason,
			Question: e.Spoken().Question, Denied: e.Spoken().Denied, Attempts: e.Attempt, At: e.TS})
	}
	if h.Cost.Runs > 0 {
		cost := h.Cost
		s.Cost = &cost
	}
	s.Gate = h.Prompt.Gate
	if s.ends(h.Finished, h.Iteration); h.Finished != nil {
		s.CurrentTask = ""
		if t := h.Finished.Event.Totals(); t != nil && t.Tasks != nil {
			s.TasksCompleted, s.TasksTotal = t.Tasks.Done, t.Tasks.Total
		}
	}
}
