package loop

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"sync"

	"descartes/internal/atomicfile"
	"descartes/internal/plainfile"
	"descartes/loop/journal"
	"descartes/loop/store"
	"descartes/tasks"
)

// StartOptions say which loop to start or resume.
type StartOptions struct {
	Name      string // "" draws an id
	Command   string // first part of a drawn id
	StatePath string // "": the default one, or the one for Name
	Resume    string // state file of the loop to resume; "" resumes the tag's unfinished one, or starts a new one
	Scope     Scope
	Saved     *Config  // the settings to store in the state file; nil: the job's own
	Own       []string // files that may be uncommitted at the start: reports that this call writes
	Session   string   // id from the program that started descartes, or ""
	Branch    string   // made at HEAD before the first attempt; "" for none
	Yes       bool     // a person's answer to the loop's open question
	Anew      bool     // ask the providers, whatever earlier runs recorded about their quotas
}

// Source is what a run works on: a *Job or a *PromptJob.
type Source interface {
	begin(l *Loop, opt StartOptions) work
}

// Start begins a run, or resumes one. It takes the locks, brings task file and journal in line, and leaves the first attempt to Run. The caller
// closes the loop.
func Start(ctx context.Context, root string, j Source, tools Tools, opt StartOptions) (_ *Loop, err error) {
	l := &Loop{root: root, tools: tools, home: store.NewHome(root), history: journal.NewState(), state: &store.State{}, missing: map[string]bool{}, branch: opt.Branch}
	l.changed = sync.NewCond(&l.mu)
	l.who = store.Holder{PID: os.Getpid(), Host: store.Hostname(), At: tools.Now()}
	l.work = j.begin(l, opt)
	defer func() {
		if err != nil {
			err = errors.Join(err, l.Close())
		}
	}()
	if err := l.work.hold(ctx); err != nil {
		return l, err
	}
	ids, err := l.home.LockIDs(ctx, l.who) // others may start at the same time
	if err != nil {
		return l, err
	}
	defer func() { err = errors.Join(err, ids.Release()) }()
	if err := l.home.Make(tools.FS); err != nil {
		return l, err
	}
	path, err := l.work.choose(ctx, opt)
	if err != nil {
		return l, err
	}
	s := l.state
	s.Version, s.Config, s.Session = store.StateVersion, *l.config, opt.Session
	if opt.Saved != nil {
		s.Config = *opt.Saved
	}
	s.PID, s.Host = l.who.PID, l.who.Host
	s.Completed, s.ExitReason = false, store.ExitReason{Type: "running"}
	for _, p := range []string{path, l.home.GitSettings(s.ID)} { // half written by a killed loop
		if _, err := atomicfile.Clean(tools.FS, p); err != nil {
			return l, fmt.Errorf("remove temporary files of %s: %w", p, err)
		}
	}
	if err := l.begin(ctx, path, opt); err != nil {
		return l, err
	}
	return l, l.home.ArchiveEnded(tools.FS, path)
}

// takeLock takes the lock of the loop's state file, and writes the loop's id into all its locks.
func (l *Loop) takeLock(ctx context.Context, path string) error {
	l.who.Loop = l.state.ID
	own, err := store.TakeLock(ctx, store.LockOf(path), store.LockWait, l.who)
	if err != nil {
		return err
	}
	l.locks = append(l.locks, own)
	return l.sign()
}

func (l *Loop) sign() error {
	for _, k := range l.locks {
		if err := k.Sign(l.who); err != nil {
			return err
		}
	}
	return nil
}

// fresh names a new loop and its state file.
func (l *Loop) fresh(opt StartOptions) (path string, err error) {
	id, err := l.home.FreeID(opt.Name, opt.Command)
	if err != nil {
		return "", err
	}
	*l.state = store.State{ID: id, StartedAt: l.tools.Now()}
	return l.home.FreePath(l.tools.FS, id, opt.Name, opt.StatePath)
}

// begin opens the journal, replays it, and records that the loop runs.
func (l *Loop) begin(ctx context.Context, path string, opt StartOptions) error {
	j, events, err := journal.Open(l.tools.FS, l.home.Events(l.state.ID), l.state.ID, l.tools.Now)
	if err != nil {
		return err
	}
	l.journal = j
	l.saver = &saver{fs: l.tools.FS, own: &ownState{fs: l.tools.FS, path: path}, sync: l.journal.Sync, state: l.snapshot, pending: map[string]tasks.Status{},
		saved: l.state.Seq}
	if err := os.MkdirAll(l.home.Run(l.state.ID)+"/logs", 0o755); err != nil {
		return fmt.Errorf("make the run's folder: %w", err)
	}
	if err := l.home.NoteState(l.tools.FS, l.state.ID, path); err != nil {
		return err
	}
	if err := l.home.ClearRequest(l.state.ID); err != nil {
		return err
	}
	if err := l.work.replay(ctx, events); err != nil {
		return err
	}
	l.backoff = newBackoff(l.tools, l.config, &l.history.Providers, l.state.ID, opt.Anew)
	l.backoff.saved = l.flush
	first := &journal.Event{Type: journal.LoopStarted}
	if l.resumed {
		first.Type = journal.LoopResumed
	}
	if first.Branch, err = l.takes(ctx); err != nil {
		return err
	}
	if err := l.work.opening(ctx, first, len(events) == 0); err != nil {
		return err
	}
	if err := l.record(first); err != nil {
		return err
	}
	if err := l.work.opened(len(events) == 0); err != nil {
		return err
	}
	return l.flush()
}

// StaleError says that the task file changed between reading and locking it: another loop ran meanwhile, or the user saved it.
type StaleError struct{ Path string }

func (e *StaleError) Error() string {
	return fmt.Sprintf("%s was changed while the loop was starting; look at it, and start again", e.Path)
}

func unchanged(f *tasks.File) error {
	now, err := plainfile.Read("", f.Path(), store.MaxFile)
	if err != nil {
		return fmt.Errorf("read task file: %w", err)
	}
	if !bytes.Equal(now, f.Bytes()) {
		return &StaleError{Path: f.Path()}
	}
	return nil
}

// Ceiling is the most iterations a loop can start with. A loop at its limit continues if it is resumed with a higher one.
const Ceiling = 200
