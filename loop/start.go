package loop

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"descartes/internal/atomicfile"
	"descartes/internal/plainfile"
	"descartes/loop/attempt"
	"descartes/loop/journal"
	"descartes/loop/workspace"
	"descartes/tasks"
)

// StartOptions say which loop to begin or to go on with.
type StartOptions struct {
	Name      string // "" draws an id
	Command   string // first part of a drawn id
	StatePath string // "" is the default one, or the named one
	Resume    string // state file of the loop to go on with; "" goes on with the tag's unfinished one, or begins anew
	Scope     Scope
	Saved     *Config  // the settings as the state file is to have them; nil: the job's own
	Own       []string // files that may be uncommitted at the start: reports that this call writes
	Session   string   // of the program that descartes is started from, "" for none
	Branch    string   // made at HEAD before the first attempt; "" for none
	Anew      bool     // ask the providers, whatever is known of their quotas from before
}

// Unfinished finds the tag's last loop that can be gone on with: killed, interrupted, paused or
// stopped by a limit. A live one is not unfinished.
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

// LastOf finds the tag's last loop of any ending.
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

// Start begins a loop, or takes up the one that had not ended. It takes the locks, brings task file
// and journal into step, and leaves the first attempt to Run. The caller closes the loop.
func Start(ctx context.Context, j *Job, tools Tools, opt StartOptions) (_ *Loop, err error) {
	home := NewHome(j.Root)
	l := &Loop{job: j, tools: tools, home: home, scope: opt.Scope, history: journal.NewState(), branch: opt.Branch, missing: map[string]bool{}}
	l.scope.Step = l.scope.Step || l.scope.Task != ""
	defer func() {
		if err != nil {
			err = errors.Join(err, l.Close())
		}
	}()
	who := Holder{PID: os.Getpid(), Host: hostname(), Tag: j.File.Tag(), At: tools.Now(), Files: filesOf(j.File)}
	for _, path := range []string{treeLock(tools.Repo.Dir()), lockOf(home.tree())} {
		k, err := takeLock(ctx, path, lockWait, who)
		if err != nil {
			return l, err
		}
		l.locks = append(l.locks, k)
	}
	if err := tools.Repo.Claim(); err != nil {
		return l, err
	}
	if j.Import != nil {
		if _, err := j.Import.Write(j.Root, j.File.Tag()); err != nil {
			return l, err
		}
	}
	if err := unchanged(j.File); err != nil {
		return l, err
	}
	ids, err := home.lockIDs(ctx, who) // prompt loops may be starting beside us
	if err != nil {
		return l, err
	}
	defer func() { err = errors.Join(err, ids.release()) }()
	if err := home.Make(tools.FS); err != nil {
		return l, err
	}
	if opt.Resume == "" && j.Config.Baseline != BaselineOff {
		l.lastPass = home.passOf(j.File.Tag())
	}
	path, err := l.choose(opt)
	if err != nil {
		return l, err
	}
	who.Loop = l.state.ID
	own, err := takeLock(ctx, lockOf(path), lockWait, who)
	if err != nil {
		return l, err
	}
	l.locks = append(l.locks, own)
	for _, k := range l.locks {
		if err := k.sign(who); err != nil {
			return l, err
		}
	}
	for _, p := range []string{path, j.File.Path(), home.Settings(), home.settings(l.state.ID)} { // what a killed loop left half written
		if _, err := atomicfile.Clean(tools.FS, p); err != nil {
			return l, fmt.Errorf("remove temporary files of %s: %w", p, err)
		}
	}
	return l, l.begin(ctx, path, opt)
}

// StaleError says that the task file became another between its reading and the lock: another loop
// has run meanwhile, or the user has saved it.
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

// choose decides which loop this is and where its state lies.
func (l *Loop) choose(opt StartOptions) (path string, err error) {
	old, err := l.predecessor(opt)
	if err != nil {
		return "", err
	}
	if old != nil {
		l.state, l.resumed = *old.State, true
		l.prepareState(opt)
		return old.Path, nil
	}
	id, err := l.home.freeID(opt)
	if err != nil {
		return "", err
	}
	l.state = State{ID: id, StartedAt: l.tools.Now()}
	l.prepareState(opt)
	return l.home.freePath(l.tools.FS, id, opt)
}

// predecessor is the loop to go on with, or nil.
func (l *Loop) predecessor(opt StartOptions) (*Saved, error) {
	if opt.Resume == "" {
		return l.home.Unfinished(l.job.File.Tag())
	}
	s, err := LoadState(opt.Resume)
	if err != nil {
		return nil, err
	}
	return &Saved{Path: opt.Resume, State: s}, nil
}

func (l *Loop) prepareState(opt StartOptions) {
	s := &l.state
	s.Version, s.Kind, s.Tag, s.Config = StateVersion, KindTag, l.job.File.Tag(), l.job.Config
	if opt.Saved != nil {
		s.Config = *opt.Saved
	}
	s.TotalWaves = len(l.job.Graph.Waves())
	s.TaskFile = l.relative(l.job.File.Path())
	s.PID, s.Host, s.Session = os.Getpid(), hostname(), opt.Session
	s.Completed, s.ExitReason = false, ExitReason{Type: "running"}
}

// begin opens the journal, replays it, and records that the loop runs.
func (l *Loop) begin(ctx context.Context, path string, opt StartOptions) error {
	j, events, err := journal.Open(l.tools.FS, l.home.Events(l.state.ID), l.state.ID, l.tools.Now)
	if err != nil {
		return err
	}
	l.journal = j
	if n := int64(len(events)); n < l.state.Seq {
		return &journal.DamageError{Path: j.Path(), Line: len(events) + 1, Err: fmt.Errorf("it ends after event %d, the state file knows %d", n, l.state.Seq)}
	}
	for i := range events {
		l.history.Apply(&events[i])
	}
	l.saver = &saver{fs: l.tools.FS, file: l.job.File, own: &ownState{fs: l.tools.FS, path: path}, sync: l.journal.Sync, state: l.snapshot, pending: map[string]tasks.Status{}}
	l.pacer = newPacer(l.tools, &l.job.Config, &l.history.Providers, l.state.ID, opt.Anew)
	l.pacer.tell, l.pacer.saved = func(e *journal.Event) error { return l.record(e) }, l.flush
	l.catchUp()
	l.saver.look()
	l.ws = workspace.NewTree(workspace.Options{Repo: l.tools.Repo, FS: l.tools.FS, Root: l.job.Root, Dir: l.job.Root, Settings: l.home.settings(l.state.ID),
		Fixed: append(settingsFiles(&l.job.Config, l.job.Root), l.job.File.Ahead(l.job.Root)...), OwnList: l.saver.writes, Watch: true, Loop: l.state.ID})
	l.runner = &attempt.Runner{Agent: l.tools.Agent, Verify: l.tools.Verify, Mask: l.tools.Mask, Dir: l.home.Run(l.state.ID), Exit: l.home.ExitFile(l.state.ID)}
	if err := os.MkdirAll(l.home.Run(l.state.ID)+"/logs", 0o755); err != nil {
		return fmt.Errorf("make the run's folder: %w", err)
	}
	if err := l.home.note(l.tools.FS, l.state.ID, path); err != nil {
		return err
	}
	if err := l.home.clearRequest(l.state.ID); err != nil {
		return err
	}
	l.tuned = l.home.tunedNames(l.state.Tag)
	l.spare = newSpareLog(l.home.Run(l.state.ID) + "/logs")
	first, err := l.opening(ctx, len(events) == 0)
	if err != nil {
		return err
	}
	if err := l.record(first); err != nil {
		return err
	}
	if len(events) == 0 {
		if err := l.tellUncommitted(); err != nil {
			return err
		}
	}
	return l.flush()
}

// catchUp gives the task file what the journal knows and a dead loop could not write any more.
func (l *Loop) catchUp() {
	seq := l.state.Seq
	for id, st := range l.history.TakeChanges(seq) {
		if _, ok := l.job.Graph.Task(id); ok {
			l.saver.pending[id] = tasks.Status(st)
			l.job.Graph.SetStatus(id, tasks.Status(st))
		}
	}
}

// opening is the event that a run begins with: what the user had changed, what is tried again.
func (l *Loop) opening(ctx context.Context, fresh bool) (*journal.Event, error) {
	e := &journal.Event{Type: journal.LoopResumed, Reason: journal.ReasonTakeover}
	if l.job.Config.Scud.RetryBlocked {
		e.Tasks, e.Reason = l.job.blockedTasks(), journal.ReasonRetry
	}
	if !fresh {
		return e, nil
	}
	e.Type = journal.LoopStarted
	dirty, err := l.tools.Repo.Dirty(ctx)
	if err != nil {
		return nil, gitErr("look for uncommitted changes", err)
	}
	tree, err := l.tools.Repo.Snapshot(ctx)
	if err != nil {
		return nil, gitErr("snapshot the working tree", err)
	}
	if len(dirty) > 0 {
		if err := l.tools.Repo.Pin(ctx, StartRef(l.state.ID), tree); err != nil {
			return nil, gitErr("keep the state before the run", err)
		}
	}
	left, err := l.home.leftBefore(ctx, l.tools.Repo, dirty)
	if err != nil {
		return nil, gitErr("look for what verify left", err)
	}
	e.Paths, e.Tree = without(dirty, left), string(tree)
	if len(left) > 0 {
		e.Detail = &journal.Detail{Left: left}
	}
	if len(e.Tasks) == 0 {
		e.Reason = ""
	}
	return e, nil
}

// tellUncommitted names the tasks that are done though no commit holds their work: those of an
// earlier loop with --no-commit.
func (l *Loop) tellUncommitted() error {
	last, err := l.home.LastOf(l.state.Tag)
	if err != nil || last == nil {
		return err
	}
	events, err := journal.ReadEvents(l.home.Events(last.State.ID))
	if err != nil {
		return nil // it is told of by the commands that show that loop
	}
	b := journal.Fold(events)
	if len(b.Verified) == 0 || len(l.history.UserPaths) == 0 {
		return nil
	}
	ids := make([]string, len(b.Verified))
	for i, v := range b.Verified {
		ids[i] = v.Task
	}
	return l.record(&journal.Event{Type: journal.Warning, Message: fmt.Sprintf("loop %s ran with --no-commit: the work of its tasks (%s) is in no commit yet, and this loop will not commit it; commit it yourself",
		last.State.ID, strings.Join(ids, ", "))})
}
