package loop

import (
	"fmt"
	"sync"
	"time"

	"descartes/internal/atomicfile"
	"descartes/internal/crash"
	"descartes/loop/journal"
	"descartes/loop/workspace"
	"descartes/tasks"
)

// saver rewrites the task file and the state file, which are snapshots of what the journal says. A
// rewrite of a large list takes long, so it happens at most every second or twenty times its own
// duration, whichever is longer; a change that came too early is written by a timer.
type saver struct {
	mu      sync.Mutex
	fs      atomicfile.FS
	file    *tasks.File
	own     *ownState
	sync    func() error // makes the journal durable: the state must never be ahead of it
	state   func() *State
	pending map[string]tasks.Status
	last    time.Time
	took    time.Duration
	timer   *time.Timer
	seen    workspace.Look
	mirror  *mirror // nil if none is in step
	err     error   // of a rewrite by the timer; told at the next call
}

// mirror is the file that follows the task file, as Save left it.
type mirror struct {
	path string
	real string // path without links
	data []byte
	seen workspace.Look
}

// note takes status changes in and rewrites the files if it is time. The caller holds mu.
func (s *saver) note(changes map[string]string) error {
	if s.err != nil {
		return s.err
	}
	for id, st := range changes {
		s.pending[id] = tasks.Status(st)
	}
	if len(s.pending) == 0 {
		return nil
	}
	wait := max(time.Second, 20*s.took) - time.Since(s.last)
	if wait <= 0 {
		return s.write()
	}
	if s.timer == nil {
		s.timer = time.AfterFunc(wait, s.late)
	}
	return nil
}

func (s *saver) late() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.timer = nil
	// A file that an agent has changed meanwhile waits for the end of its attempt, which puts it back.
	if len(s.pending) > 0 && s.err == nil && s.intact() {
		s.err = s.write()
	}
}

// flush rewrites both files now.
func (s *saver) flush() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return s.err
	}
	return s.write()
}

// stop ends the timer. No rewrite happens after it.
func (s *saver) stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.timer != nil {
		s.timer.Stop()
		s.timer = nil
	}
	clear(s.pending)
}

// write saves the task file, then the state, whose sequence number says that the task file has it all.
func (s *saver) write() error {
	begin := time.Now()
	if err := s.sync(); err != nil {
		return err
	}
	if len(s.pending) > 0 {
		crash.Point("before-task-file")
		s.file.SetReplace(atomicfile.Replacer(s.fs))
		if err := s.file.Save(s.pending); err != nil {
			return fmt.Errorf("save task file: %w", err)
		}
		clear(s.pending)
		s.look()
		crash.Point("task-file-saved")
	}
	if err := s.own.save(s.state()); err != nil {
		return err
	}
	crash.Point("state-saved")
	s.last = time.Now()
	s.took = s.last.Sub(begin)
	return nil
}

// absorb takes in what another program wrote into the task file since we last did, so that it is not
// taken for the doing of the attempt that begins: id is the task at hand, status what it is now.
func (s *saver) absorb(id string, status tasks.Status) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil || s.intact() {
		return s.err
	}
	return s.takeIn(id, status)
}

// takeIn is absorb for a file that is known to have changed. The caller holds mu.
func (s *saver) takeIn(id string, status tasks.Status) error {
	if _, ok := s.pending[id]; !ok {
		s.pending[id] = status
	}
	return s.write()
}

// look remembers the task file's identity as we left it, and the mirror's.
func (s *saver) look() {
	s.seen = workspace.LookAt(s.file.Path())
	s.mirror = nil
	if m, ok := s.file.Mirror(); ok {
		s.mirror = &mirror{path: m.Path(), real: m.Target(), data: m.Bytes(), seen: workspace.LookAt(m.Path())}
	}
}

// intact reports whether the task file and its mirror are, by their stat data, the ones that we wrote
// or read. The caller holds mu.
func (s *saver) intact() bool {
	return s.seen.Same() && (s.mirror == nil || s.mirror.seen.Same())
}

// writes reports whether a path is the task file or its mirror.
func (s *saver) writes(path string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return path == s.file.Path() || s.mirror != nil && path == s.mirror.path
}

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
