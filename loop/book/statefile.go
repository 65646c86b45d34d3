package book

import (
	"sync"

	"descartes/internal/atomicfile"
	"descartes/loop/journal"
	"descartes/loop/slot"
	"descartes/loop/store"
)

// Save rewrites the state file. The journal is on disk before it.
func (b *Book) Save() error { return b.SaveAs(b.Snapshot()) }

// SaveAs has the state file show that, which is a snapshot and what the run knows besides.
func (b *Book) SaveAs(s *store.State) error {
	if err := b.Journal.Sync(); err != nil {
		return err
	}
	return b.Own.save(s)
}

// OwnState is a live loop's state file. Another program may mark the loop as cancelled there, which ends it at its
// next boundary.
type OwnState struct {
	FS   atomicfile.FS
	Path string

	mu        sync.Mutex
	seen      slot.Look // zero until we have written it
	cancelled bool
}

// save replaces the file, and remembers what another program wrote into it.
func (o *OwnState) save(s *store.State) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.look()
	if err := s.Save(o.FS, o.Path); err != nil {
		return err
	}
	o.seen = slot.LookAt(o.Path)
	return nil
}

// Marked reports whether another program marked the loop as cancelled.
func (o *OwnState) Marked() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.look()
	return o.cancelled
}

func (o *OwnState) look() {
	if o.cancelled || o.seen.Path == "" || o.seen.Same() {
		return
	}
	s, err := store.LoadState(o.Path)
	o.cancelled = err == nil && s.ExitReason.Type == string(journal.UserCancelled)
}
