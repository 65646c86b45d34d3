package view

import (
	"context"
	"slices"
	"time"

	"descartes/loop/journal"
	"descartes/loop/store"
	"descartes/tasks"
)

// Follow hands over a run and what is written to its journal, until ctx ends or with an error; what is written by then
// is handed over too. It waits for the state file of a run that has just begun. Whoever gets the events has the run
// see them.
func Follow(ctx context.Context, root string, find func() (*store.Saved, error),
	each func(*Loop, []journal.Event, error)) {
	saved, err := find()
	for over := false; saved == nil && err == nil && !over; saved, err = find() {
		select {
		case <-time.After(200 * time.Millisecond):
		case <-ctx.Done(): // it may have been as short as that
			over = true
		}
	}
	if saved == nil && err == nil {
		return
	}
	var l *Loop
	if err == nil {
		l, err = Of(root, *saved)
	}
	if err != nil {
		each(nil, nil, err)
		return
	}
	for events, err := range journal.Watch(ctx, store.NewHome(root).Events(l.ID)) {
		each(l, events, err)
	}
}

// See takes in what its journal says since, and how the loop is now, and reports whether anything changed. An event
// that it knows counts for nothing.
func (l *Loop) See(events []journal.Event) bool {
	r, home := &l.Run, store.NewHome(l.Run.Root)
	v := store.View{State: *r.State, History: r.History, Live: home.IsLive(store.Saved{Path: r.Path, State: r.State})}
	if v.Live {
		v.Asked, v.Now = home.Asked(r.ID)
	}
	if len(events) == 0 && v.Live == r.Live && PendingOf(&v) == r.Asked {
		return false
	}
	if slices.ContainsFunc(events, func(e journal.Event) bool {
		return e.Type == journal.ListChanged && e.Seq > r.History.Seq
	}) && l.Again() == nil {
		return true
	}
	for i := range events {
		if events[i].Seq > r.History.Seq {
			r.History.Apply(&events[i])
		}
	}
	id := func(id string) store.TaskID { return store.TaskID{ID: id} }
	if l.Board != nil {
		id = l.Board.ID
		for id, status := range r.History.TakeChanges(0) {
			l.Board.know(id, tasks.Status(status))
		}
	}
	if r.History.Seq > 0 {
		store.Fill(r.State, r.History, id)
	}
	r.Live, r.Asked, r.Loose = v.Live, PendingOf(&v), r.History.Uncommitted()
	r.Outcome = outcome(r)
	l.fold(time.Now())
	return true
}

// Again reads everything anew: its list may have changed.
func (l *Loop) Again() error {
	fresh, err := Of(l.Run.Root, store.Saved{Path: l.Run.Path, State: l.Run.State})
	if err == nil {
		here := l.Run.Here
		*l = *fresh
		l.From(here)
	}
	return err
}
