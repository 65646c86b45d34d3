package loop

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"descartes/internal/atomicfile"
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
	Scope     store.Scope
	Saved     *Config  // the settings to store in the state file; nil: the job's own
	Own       []string // files that may be uncommitted at the start: reports that this call writes
	Session   string   // id from the program that started descartes, or ""
	Branch    string   // made at HEAD before the first attempt; "" for none
	Yes       bool     // a person's answer to the loop's open question
	Anew      bool     // ask the providers, whatever earlier runs recorded about their quotas
}

// Start begins a run over a tag, or resumes one. It takes the locks, brings task file and journal in line, and leaves
// the first attempt to Run. The caller closes the loop.
func Start(ctx context.Context, root string, j Tag, tools Tools, opt StartOptions) (_ *Loop, err error) {
	l := &Loop{root: root, tools: tools, home: store.NewHome(root), history: journal.NewState(), state: &store.State{},
		branch: opt.Branch, inbox: make(chan func()), over: make(chan struct{})}
	l.who = store.Holder{PID: os.Getpid(), Host: store.Hostname(), At: tools.Now()}
	l.locks, l.lanes, l.worker, l.checks, l.closing = &locks{run: l}, &lanes{run: l}, &worker{l, map[string]bool{}},
		&checks{run: l}, &closing{l}
	l.work = j.begin(l, opt)
	defer func() {
		if err != nil {
			err = errors.Join(err, l.Close())
		}
	}()
	ids, err := l.home.LockIDs(ctx, l.who) // others may start at the same time
	if err != nil {
		return l, err
	}
	defer func() { err = errors.Join(err, ids.Release()) }()
	if err := l.home.Beside(ctx, l.who.List); err != nil {
		return l, err
	}
	if tools.Repo != nil {
		if err := tools.Repo.Claim(); err != nil {
			return l, err
		}
	}
	if err := l.home.Make(tools.FS); err != nil {
		return l, err
	}
	path, err := j.choose(ctx, l, opt)
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
	if err := atomicfile.Clean(tools.FS, path); err != nil { // half written by a killed loop
		return l, fmt.Errorf("remove temporary files of %s: %w", path, err)
	}
	if err := begin(ctx, l, path, opt); err != nil {
		return l, err
	}
	return l, l.home.ArchiveEnded(tools.FS, path)
}

// locks are those that the run has until it ends.
type locks struct {
	run *Loop
	all []*store.Lock
}

// take gets a lock that the run has until it ends.
func (l *locks) take(ctx context.Context, path string) error {
	k, err := store.TakeLock(ctx, path, store.LockWait, l.run.who)
	if err == nil {
		l.all = append(l.all, k)
	}
	return err
}

// inTree calls do while nobody else writes in the user's working tree or moves his branch. It is slow.
func (l *locks) inTree(ctx context.Context, do func() error) error {
	path := store.TreeLock(l.run.tools.Repo.Dir())
	for wait, said := treeSaid, false; ; wait = time.Minute {
		var k *store.Lock
		var err error
		if k, err = store.TakeLock(ctx, path, wait, l.run.who); err == nil {
			return errors.Join(do(), k.Release())
		}
		if errors.Is(err, context.Canceled) {
			return stoppedError("the wait for others that write in this working tree was stopped")
		}
		busy, ok := errors.AsType[*store.BusyError](err)
		if !ok {
			return err
		}
		if !said {
			said = true
			if err := l.run.Warn("waiting for run " + busy.Holder.Loop +
				", which writes in this working tree"); err != nil {
				return err
			}
		}
	}
}

// treeSaid is how long a run waits for the working tree before it says so.
const treeSaid = 5 * time.Second

// fresh names a new loop and its state file.
func fresh(l *Loop, opt StartOptions) (path string, err error) {
	id, err := l.home.FreeID(opt.Name, opt.Command)
	if err != nil {
		return "", err
	}
	*l.state = store.State{ID: id, StartedAt: l.tools.Now()}
	return l.home.FreePath(l.tools.FS, id, opt.Name, opt.StatePath)
}

// begin opens the journal, replays it, and records that the loop runs.
func begin(ctx context.Context, l *Loop, path string, opt StartOptions) error {
	j, events, err := journal.Open(l.tools.FS, l.home.Events(l.state.ID), l.state.ID, l.tools.Now)
	if err != nil {
		return err
	}
	l.journal = j
	l.saver = &saver{fs: l.tools.FS, own: &OwnState{FS: l.tools.FS, Path: path}, sync: l.journal.Sync, state: l.State,
		pending: map[string]tasks.Status{},
		busy:    func() bool { return l.tools.Repo != nil && l.tools.Repo.Underway() != "" },
		saved:   l.state.Seq,
		listed:  func(seq int64) error { return l.home.Listed(l.tools.FS, l.state.ID, seq) }}
	if err := os.MkdirAll(l.home.Run(l.state.ID)+"/logs", 0o755); err != nil {
		return fmt.Errorf("make the run's folder: %w", err)
	}
	if err := l.home.NoteState(l.tools.FS, l.state.ID, path); err != nil {
		return err
	}
	if err := l.home.ClearRequest(l.state.ID); err != nil {
		return err
	}
	first := &journal.Event{Type: journal.LoopStarted}
	if l.resumed {
		first.Type = journal.LoopResumed
	}
	if first.Branch, err = takes(ctx, l); err != nil {
		return err
	}
	more, err := l.work.replay(ctx, events, first)
	if err != nil {
		return err
	}
	l.backoff = newBackoff(l.tools, l.config, &l.history.Providers, l.state.ID, opt.Anew)
	l.backoff.saved = l.flush
	if err := l.record(append([]*journal.Event{first}, more...)...); err != nil {
		return err
	}
	fill(l.state, l.job)
	if err := errors.Join(l.home.Listed(l.tools.FS, l.state.ID, l.state.Seq),
		l.home.Give(l.tools.FS, l.state)); err != nil {
		return err
	}
	return l.flush()
}
