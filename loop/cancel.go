package loop

import (
	"context"
	"errors"
	"path/filepath"
	"time"

	"descartes/internal/atomicfile"
	"descartes/loop/journal"
)

// CancelDead marks a loop that no process runs as cancelled, in its journal and its state file. It
// can be resumed all the same. A live loop is a *BusyError: ask it with Home.Ask.
func CancelDead(ctx context.Context, fsys atomicfile.FS, home Home, s Saved, now func() time.Time) (err error) {
	lk, err := takeLock(ctx, lockOf(s.Path), 50*time.Millisecond, Holder{Loop: s.State.ID, Tag: s.State.Tag, At: now()})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lk.release()) }()
	if s.State.ID == "" { // of another program: there is no journal, and none is begun for this
		st := *s.State
		st.ExitReason = ExitReason{Type: string(journal.UserCancelled), Message: "cancelled while it was not running"}
		return st.save(fsys, s.Path)
	}
	j, _, err := journal.Open(fsys, home.Events(s.State.ID), s.State.ID, now)
	if err != nil {
		return err
	}
	e := &journal.Event{Type: journal.LoopFinished, Reason: string(journal.UserCancelled), Message: "cancelled while it was not running"}
	if err := errors.Join(j.Append(e), j.Close()); err != nil {
		return err
	}
	st := *s.State
	st.ExitReason = ExitReason{Type: e.Reason, Message: e.Message}
	if err := st.save(fsys, s.Path); err != nil || !dropsLoopFile(st.Config, false, true) {
		return err
	}
	return removeLoopFile(orElse(st.Config.WorkingDirectory, filepath.Dir(string(home))))
}
