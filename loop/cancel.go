package loop

import (
	"cmp"
	"context"
	"errors"
	"os"
	"path/filepath"
	"time"

	"descartes/internal/atomicfile"
	"descartes/loop/journal"
	"descartes/loop/source"
	"descartes/loop/store"
)

// ErrTerminated is the cause of a run's context that SIGTERM ended.
var ErrTerminated = errors.New("terminated")

// CancelDead marks a loop without a process as cancelled, in its journal and its state file. It can still be resumed.
// A live loop is a *store.BusyError: use store.Home.Ask.
func CancelDead(ctx context.Context, fsys atomicfile.FS, home store.Home, s store.Saved,
	now func() time.Time) (err error) {
	lk, err := store.TakeLock(ctx, store.LockOf(s.Path), 50*time.Millisecond,
		store.Holder{Loop: s.State.ID, Tag: s.State.Tag, At: now()})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lk.Release()) }()
	// written by another program: it has no journal, and gets none for this
	if _, gone := os.Stat(home.Events(s.State.ID)); s.State.ID == "" || gone != nil {
		st := *s.State
		st.ExitReason = store.ExitReason{Type: string(journal.UserCancelled),
			Message: "cancelled while it was not running"}
		return st.Save(fsys, s.Path)
	}
	j, _, err := journal.Open(fsys, home.Events(s.State.ID), s.State.ID, now)
	if err != nil {
		return err
	}
	e := &journal.Event{Type: journal.LoopFinished, Reason: string(journal.UserCancelled),
		Message: "cancelled while it was not running"}
	if err := errors.Join(j.Append(e), j.Close()); err != nil {
		return err
	}
	root := filepath.Dir(string(home))
	list, _ := source.OpenTasks(root, s.State.Config.Scud) // else ids are written as texts
	v, err := home.View(s, list)
	if err != nil {
		return err
	}
	v.State.Seq = s.State.Seq
	if err := v.State.Save(fsys, s.Path); err != nil || !DropsLoopFile(s.State.Config, false, true) {
		return err
	}
	return RemoveLoopFile(cmp.Or(s.State.Config.WorkingDirectory, root))
}
