package view

import (
	"descartes/loop/journal"
	"descartes/scheduler"
	"descartes/tasks"
)

// Own is a task that a run added and no list has: a check of a wave or of the end that fails, commits that clash. ok is
// false where neither the last run nor what runs left behind knows one of that id.
func (b *Board) Own(id string) (t *tasks.Task, ok bool) {
	if _, listed := b.Graph.Task(id); listed {
		return nil, false
	}
	t = &tasks.Task{ID: id, Status: tasks.Pending}
	for _, a := range b.asked {
		if a.Task == id {
			t.Title, t.Status, ok = a.Title, tasks.Blocked, true
		}
	}
	if b.view == nil {
		return t, ok
	}
	for _, a := range b.view.History.Attempts {
		if a.Task == id {
			t.Title, ok = a.Title, true
		}
	}
	switch b.view.History.Task(id).Stand {
	case journal.StandBlocked:
		t.Status = tasks.Blocked
	case journal.StandDone:
		t.Status = tasks.Done
	case journal.StandUnderway:
		t.Status = tasks.InProgress
	}
	return t, ok
}

// OwnBlocked are those of them that wait for a person.
func (b *Board) OwnBlocked() (list []*tasks.Task) {
	var ids []string
	for _, a := range b.asked {
		ids = append(ids, a.Task)
	}
	if b.view != nil {
		for _, one := range b.view.State.BlockedTasks {
			ids = append(ids, one.Task.ID)
		}
	}
	met := map[string]bool{}
	for _, id := range ids {
		if t, ok := b.Own(id); ok && t.Status == tasks.Blocked && !met[id] {
			met[id] = true
			list = append(list, t)
		}
	}
	return list
}

// ownTask is what views show of one.
func (b *Board) ownTask(t *tasks.Task) Task {
	state := scheduler.StateReady
	switch t.Status {
	case tasks.Blocked:
		state = scheduler.StateBlocked
	case tasks.Done:
		state = scheduler.StateDone
	case tasks.InProgress:
		state = scheduler.StateRunning
	}
	return Task{ID: b.ID(t.ID), Title: t.Title, Status: t.Status, State: string(state), Stand: Stand(state)}
}
