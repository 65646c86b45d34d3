package loop

import (
	"sync"

	"descartes/internal/atomicfile"
	"descartes/loop/journal"
	"descartes/loop/workspace"
)

// ownState is the state file of a live loop as the loop left it. Another program may mark the loop there as cancelled,
// which ends it at its next boundary.
type ownState struct {
	fs   atomicfile.FS
	path string

	mu        sync.Mutex
	seen      workspace.Look // the zero one until we have written it
	cancelled bool
}

// save replaces the file, and remembers what somebody else wrote into it.
func (o *ownState) save(s *State) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.look()
	if err := s.save(o.fs, o.path); err != nil {
		return err
	}
	o.seen = workspace.LookAt(o.path)
	return nil
}

// marked reports whether somebody else marked the loop as cancelled.
func (o *ownState) marked() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.look()
	return o.cancelled
}

func (o *ownState) look() {
	if o.cancelled || o.seen.Path == "" || o.seen.Same() {
		return
	}
	s, err := LoadState(o.path)
	o.cancelled = err == nil && s.ExitReason.Type == string(journal.UserCancelled)
}
