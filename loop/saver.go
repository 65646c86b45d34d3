package loop

import (
	"bytes"
	"fmt"
	"sync"
	"time"

	"descartes/internal/atomicfile"
	"descartes/internal/crash"
	"descartes/loop/journal"
	"descartes/loop/store"
	"descartes/loop/workspace"
	"descartes/tasks"
)

// saver rewrites the task file and the state file, which are snapshots of the journal. Rewriting a large list is slow,
// so it happens at most every second or every twenty times its own duration, whichever is longer; a change that came
// too early waits for a tick of the engine, which alone calls it.
type saver struct {
	fs      atomicfile.FS
	file    *tasks.File
	own     *OwnState
	sync    func() error // makes the journal durable first: the state must never be ahead of it
	state   func() *store.State
	pending map[string]tasks.Status
	last    time.Time
	took    time.Duration
	seen    workspace.Look
	mirror  *mirror     // nil if it is not in step
	busy    func() bool // somebody's rebase or merge is open, which a changed list would stop: it waits

	unread error                   // why the task file cannot be read now: what was last read of it holds
	theirs map[string]tasks.Status // statuses that others wrote since the run last took them
	edited bool                    // others changed the file since then
	saved  int64                   // the task file includes events up to this one
	listed func(seq int64) error   // notes that
	news   bool                    // statuses changed since it was noted
}

// mirror is the file that follows the task file, as Save last wrote it.
type mirror struct {
	path string
	real string // path without links
	data []byte
	seen workspace.Look
}

// note takes in status changes and rewrites the files if it is time.
func (s *saver) note(changes map[string]string) error {
	s.news = s.news || len(changes) > 0
	for id, st := range changes {
		if _, ok := s.file.Task(id); ok { // otherwise somebody deleted it
			s.pending[id] = tasks.Status(st)
		}
	}
	return s.late()
}

// late rewrites the files if a change waits and it is time.
func (s *saver) late() error {
	if len(s.pending) == 0 || time.Since(s.last) < max(time.Second, 20*s.took) {
		return nil
	}
	return s.write()
}

// write saves the task file, notes up to which event it is complete, and renders the state. A task file that cannot be
// read waits: a later run writes into it what it lacks.
func (s *saver) write() error {
	begin := time.Now()
	if err := s.sync(); err != nil {
		return err
	}
	s.read()
	if len(s.pending) > 0 && s.unread == nil && (s.busy == nil || !s.busy()) {
		crash.Point("before-task-file")
		s.file.SetReplace(atomicfile.Replacer(s.fs))
		before := s.file.Tasks()
		want, err := s.file.With(s.pending)
		if err == nil {
			err = s.file.Save(s.pending)
		}
		if err != nil {
			return fmt.Errorf("save task file: %w", err)
		}
		if !bytes.Equal(want, s.file.Bytes()) { // it was edited just now
			s.compare(before)
		}
		clear(s.pending)
		s.look()
		crash.Point("task-file-saved")
	}
	state := s.state()
	if len(s.pending) > 0 {
		state.Seq = s.saved
	} else if s.news {
		if err := s.listed(state.Seq); err != nil {
			return err
		}
		s.news = false
	}
	if err := s.own.Save(state); err != nil {
		return err
	}
	s.saved = state.Seq
	crash.Point("state-saved")
	s.last = time.Now()
	s.took = s.last.Sub(begin)
	return nil
}

// read takes in what others wrote into the task file.
func (s *saver) read() {
	if s.file == nil || s.unread == nil && s.intact() {
		return
	}
	before := s.file.Tasks()
	if s.unread = s.file.Refresh(); s.unread != nil {
		return
	}
	s.compare(before)
	s.look()
}

// compare notes that others changed the list since it was as given, and the statuses that they changed.
func (s *saver) compare(before []tasks.Task) {
	s.edited = true
	if s.theirs == nil {
		s.theirs = map[string]tasks.Status{}
	}
	known := make(map[string]tasks.Status, len(before))
	for i := range before {
		known[before[i].ID] = before[i].Status
	}
	for _, t := range s.file.Tasks() {
		ours, mine := s.pending[t.ID]
		if mine && ours.Open() && !t.Status.Open() { // what a person decided goes before that it has begun
			mine = false
			delete(s.pending, t.ID)
		}
		if !mine && known[t.ID] != t.Status {
			s.theirs[t.ID] = t.Status
		}
	}
	for id := range s.pending {
		if _, ok := s.file.Task(id); !ok {
			delete(s.pending, id)
		}
	}
}

// content is the task file, or its mirror, as it is to be: with the statuses that are not written yet.
func (s *saver) content(f *tasks.File) []byte {
	if f == s.file {
		s.read() // another run may write about another tag
		if b, err := f.With(s.pending); err == nil {
			return b
		}
	}
	return f.Bytes()
}

// look remembers the task file's identity as we left it, and the mirror's.
func (s *saver) look() {
	s.seen = workspace.LookAt(s.file.Path())
	s.mirror = nil
	if m, ok := s.file.Mirror(); ok {
		s.mirror = &mirror{path: m.Path(), real: m.Target(), data: m.Bytes(), seen: workspace.LookAt(m.Path())}
	}
}

// intact reports whether, by their stat data, the task file and its mirror are as we last wrote or read them.
func (s *saver) intact() bool {
	return s.seen.Same() && (s.mirror == nil || s.mirror.seen.Same())
}

// OwnState is a live loop's state file. Another program may mark the loop as cancelled there, which ends it at its
// next boundary.
type OwnState struct {
	FS   atomicfile.FS
	Path string

	mu        sync.Mutex
	seen      workspace.Look // zero until we have written it
	cancelled bool
}

// Save replaces the file, and remembers what another program wrote into it.
func (o *OwnState) Save(s *store.State) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.look()
	if err := s.Save(o.FS, o.Path); err != nil {
		return err
	}
	o.seen = workspace.LookAt(o.Path)
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
