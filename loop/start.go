package loop

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"
	"time"

	"descartes/internal/atomicfile"
	"descartes/internal/plainfile"
	"descartes/loop/journal"
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

// Unfinished finds the tag's last loop that can be resumed: killed, interrupted, paused or stopped by a limit. A live loop does not count.
func (h Home) Unfinished(tag string) (*Saved, error) {
	all, err := h.List()
	if err != nil {
		return nil, err
	}
	var found *Saved
	for i := range all {
		s := &all[i]
		if s.State == nil || s.Archived || s.State.Tag != tag || s.State.Completed {
			continue
		}
		if found == nil || s.State.StartedAt.After(found.State.StartedAt) {
			found = s
		}
	}
	return found, nil
}

// LastOf finds the tag's last loop, however it ended.
func (h Home) LastOf(tag string) (*Saved, error) {
	all, err := h.List()
	if err != nil {
		return nil, err
	}
	var found *Saved
	for i := range all {
		if s := &all[i]; s.State != nil && s.State.Tag == tag && (found == nil || s.State.StartedAt.After(found.State.StartedAt)) {
			found = s
		}
	}
	return found, nil
}

// Source is what a run works on: a *Job or a *PromptJob.
type Source interface {
	begin(l *Loop, opt StartOptions) work
}

// Start begins a run, or resumes one. It takes the locks, brings task file and journal in line, and leaves the first attempt to Run. The caller
// closes the loop.
func Start(ctx context.Context, root string, j Source, tools Tools, opt StartOptions) (_ *Loop, err error) {
	l := &Loop{root: root, tools: tools, home: NewHome(root), history: journal.NewState(), state: &State{}, missing: map[string]bool{}, branch: opt.Branch}
	l.changed = sync.NewCond(&l.mu)
	l.who = Holder{PID: os.Getpid(), Host: hostname(), At: tools.Now()}
	l.work = j.begin(l, opt)
	defer func() {
		if err != nil {
			err = errors.Join(err, l.Close())
		}
	}()
	if err := l.work.hold(ctx); err != nil {
		return l, err
	}
	ids, err := l.home.lockIDs(ctx, l.who) // others may start at the same time
	if err != nil {
		return l, err
	}
	defer func() { err = errors.Join(err, ids.release()) }()
	if err := l.home.Make(tools.FS); err != nil {
		return l, err
	}
	path, err := l.work.choose(ctx, opt)
	if err != nil {
		return l, err
	}
	s := l.state
	s.Version, s.Config, s.Session = StateVersion, *l.config, opt.Session
	if opt.Saved != nil {
		s.Config = *opt.Saved
	}
	s.PID, s.Host = l.who.PID, l.who.Host
	s.Completed, s.ExitReason = false, ExitReason{Type: "running"}
	for _, p := range []string{path, l.home.settings(s.ID)} { // half written by a killed loop
		if _, err := atomicfile.Clean(tools.FS, p); err != nil {
			return l, fmt.Errorf("remove temporary files of %s: %w", p, err)
		}
	}
	if err := l.begin(ctx, path, opt); err != nil {
		return l, err
	}
	return l, l.home.archiveEnded(tools.FS, path)
}

// takeLock takes the lock of the loop's state file, and writes the loop's id into all its locks.
func (l *Loop) takeLock(ctx context.Context, path string) error {
	l.who.Loop = l.state.ID
	own, err := takeLock(ctx, lockOf(path), lockWait, l.who)
	if err != nil {
		return err
	}
	l.locks = append(l.locks, own)
	return l.sign()
}

func (l *Loop) sign() error {
	for _, k := range l.locks {
		if err := k.sign(l.who); err != nil {
			return err
		}
	}
	return nil
}

// fresh names a new loop and its state file.
func (l *Loop) fresh(opt StartOptions) (path string, err error) {
	id, err := l.home.freeID(opt)
	if err != nil {
		return "", err
	}
	*l.state = State{ID: id, StartedAt: l.tools.Now()}
	return l.home.freePath(l.tools.FS, id, opt)
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
	if err := l.home.note(l.tools.FS, l.state.ID, path); err != nil {
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
	now, err := plainfile.Read("", f.Path(), maxKept)
	if err != nil {
		return fmt.Errorf("read task file: %w", err)
	}
	if !bytes.Equal(now, f.Bytes()) {
		return &StaleError{Path: f.Path()}
	}
	return nil
}

// lockIDs locks the choice of id and state file, until both are on disk.
func (h Home) lockIDs(ctx context.Context, who Holder) (*lock, error) {
	return takeLock(ctx, lockOf(h.ids()), idsWait, who)
}

// freeID is a new loop's id: the name asked for, or a drawn one. The caller holds the lock of the ids.
func (h Home) freeID(opt StartOptions) (string, error) {
	if opt.Name == "" {
		return h.newID(opt.Command)
	}
	if err := ValidID(opt.Name); err != nil {
		return "", err
	}
	if h.taken(opt.Name) {
		return "", fmt.Errorf("a loop named %q exists: descartes loop list shows it; choose another name", opt.Name)
	}
	return opt.Name, nil
}

// freePath is a new loop's state file: the path asked for, the one for its name, or the default one, from which a finished loop is archived first.
// The caller holds the lock of the ids.
func (h Home) freePath(fsys atomicfile.FS, id string, opt StartOptions) (string, error) {
	path := opt.StatePath
	if path == "" && opt.Name != "" {
		return h.Named(id), nil
	}
	if path == "" {
		path = h.Default()
	}
	_, busy := live(lockOf(path))
	old, err := LoadState(path)
	switch {
	case errors.Is(err, fs.ErrNotExist) && !busy:
		return path, nil
	case err != nil && !busy:
		return "", err
	}
	if busy || !old.Completed {
		if opt.StatePath != "" {
			who, what := "a loop", "can be resumed"
			if old != nil {
				who = "loop " + old.ID
			}
			if busy {
				what = "is running"
			}
			return "", fmt.Errorf("%s belongs to %s, which %s", path, who, what)
		}
		return h.Named(id), nil
	}
	return path, h.archive(fsys, old, path)
}

// archiveEnded archives the state files of named prompt loops that have ended; a tag loop can still be resumed to retry its blocked tasks. The caller
// holds the lock of the ids. but is its own state file, which stays.
func (h Home) archiveEnded(fsys atomicfile.FS, but string) error {
	all, err := h.List()
	if err != nil {
		return err
	}
	for _, s := range all {
		if s.State == nil || s.Archived || s.State.Kind == KindTag || !s.State.Completed || s.Path == but || s.Path != h.Named(s.State.ID) {
			continue
		}
		if _, busy := live(lockOf(s.Path)); busy {
			continue
		}
		if err := h.archive(fsys, s.State, s.Path); err != nil {
			return err
		}
	}
	return nil
}

// Ceiling is the most iterations a loop can start with. A loop at its limit continues if it is resumed with a higher one.
const Ceiling = 200

// idsWait is how long a start waits for others that choose their ids: each takes a few file syncs.
const idsWait = 60 * time.Second
