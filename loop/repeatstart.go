package loop

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"time"

	"descartes/gitops"
	"descartes/internal/atomicfile"
	"descartes/loop/journal"
)

// Ceiling is the most iterations that a loop is started with. A loop that has reached its limit is given
// more by resuming it with a higher one.
const Ceiling = 200

// idsWait is how long a start waits for others that draw their ids: each takes a few file syncs.
const idsWait = 60 * time.Second

// StartRepeat begins a prompt loop, or takes up the one of opt.Resume. It takes the loop's lock and leaves the
// first iteration to Run. The caller closes the loop.
func StartRepeat(ctx context.Context, j *RepeatJob, tools Tools, opt StartOptions) (_ *Repeat, err error) {
	r := &Repeat{job: j, tools: tools, home: NewHome(j.Root), history: journal.NewState(), missing: map[string]bool{}, fixed: fixedFiles{root: j.Root}}
	r.guard = &guard{repo: tools.Repo, history: r.history, reworks: true, fs: tools.FS}
	defer func() {
		if err != nil {
			err = errors.Join(err, r.Close())
		}
	}()
	r.who = Holder{PID: os.Getpid(), Host: hostname(), At: tools.Now()}
	ids, err := r.home.lockIDs(ctx, r.who)
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, ids.release()) }()
	if err := r.home.Make(tools.FS); err != nil {
		return r, err
	}
	if err := r.choose(ctx, opt); err != nil {
		return r, err
	}
	for _, p := range []string{r.path, r.home.settings(r.state.ID)} {
		if _, err := atomicfile.Clean(tools.FS, p); err != nil {
			return r, fmt.Errorf("remove temporary files of %s: %w", p, err)
		}
	}
	if err := r.begin(ctx, opt.Anew); err != nil {
		return r, err
	}
	return r, r.home.archiveEnded(tools.FS, r.path)
}

// lockIDs is held while a loop chooses its id and its state file, and until both are on the disk.
func (h Home) lockIDs(ctx context.Context, who Holder) (*lock, error) {
	return takeLock(ctx, lockOf(h.ids()), idsWait, who)
}

// choose decides which loop this is, and takes its lock.
func (r *Repeat) choose(ctx context.Context, opt StartOptions) (err error) {
	if opt.Resume != "" {
		r.path, r.resumed = opt.Resume, true
	} else if err := r.fresh(opt); err != nil {
		return err
	}
	r.who.Loop = r.state.ID
	if r.lock, err = takeLock(ctx, lockOf(r.path), lockWait, r.who); err != nil {
		return err
	}
	if r.resumed { // read under its lock: another may have gone on with it meanwhile
		st, err := LoadState(r.path)
		if err != nil {
			return err
		}
		if st.Completed {
			return &StaleError{Path: r.path}
		}
		r.state = *st
		if r.state.ID == "" {
			if r.state.ID, err = r.home.newID(opt.Command); err != nil {
				return err
			}
		}
		r.who.Loop = r.state.ID
		if err := r.lock.sign(r.who); err != nil {
			return err
		}
	}
	s := &r.state
	s.Version, s.Kind, s.Config, s.Session = StateVersion, r.job.Kind, r.job.Config, opt.Session
	if opt.Saved != nil {
		s.Config = *opt.Saved
	}
	s.PID, s.Host = os.Getpid(), r.who.Host
	s.Completed, s.ExitReason = false, ExitReason{Type: "running"}
	return nil
}

// fresh names a new loop and its state file.
func (r *Repeat) fresh(opt StartOptions) (err error) {
	id, err := r.home.freeID(opt)
	if err != nil {
		return err
	}
	r.state = State{ID: id, StartedAt: r.tools.Now()}
	r.path, err = r.home.freePath(r.tools.FS, id, opt)
	return err
}

// begin opens the journal, replays it, and records that the loop runs.
func (r *Repeat) begin(ctx context.Context, anew bool) error {
	j, events, err := journal.Open(r.tools.FS, r.home.Events(r.state.ID), r.state.ID, r.tools.Now)
	if err != nil {
		return err
	}
	r.journal, r.own = j, &ownState{fs: r.tools.FS, path: r.path}
	if n := int64(len(events)); n > 0 && n < r.state.Seq {
		return &journal.DamageError{Path: j.Path(), Line: len(events) + 1, Err: fmt.Errorf("it ends after event %d, the state file knows %d", n, r.state.Seq)}
	}
	if err := os.MkdirAll(r.home.Run(r.state.ID)+"/logs", 0o755); err != nil {
		return fmt.Errorf("make the run's folder: %w", err)
	}
	if err := r.home.note(r.tools.FS, r.state.ID, r.path); err != nil {
		return err
	}
	if err := r.home.clearRequest(r.state.ID); err != nil {
		return err
	}
	if err := r.readHandoff(); err != nil {
		return fmt.Errorf("handoff: %w", err)
	}
	first := &journal.Event{Type: journal.LoopStarted}
	if r.resumed {
		first.Type = journal.LoopResumed
	}
	if len(events) == 0 && r.resumed { // the state file is all that there is
		first.Iteration = r.state.Iteration
	}
	r.replay(events, first.Iteration)
	r.pacer = newPacer(r.tools, &r.job.Config, &r.history.Providers, r.state.ID, anew)
	r.pacer.tell = func(e *journal.Event) error {
		e.Iteration = r.history.Iteration
		return r.record(e)
	}
	r.pacer.saved = r.save
	if err := r.restoreGate(); err != nil {
		return err
	}
	r.raise()
	if err := r.holdLoopFile(ctx); err != nil {
		return err
	}
	if err := r.lookForUsers(ctx, first); err != nil {
		return err
	}
	if err := r.record(first); err != nil {
		return err
	}
	for _, n := range r.notes {
		if err := r.warn(n); err != nil {
			return err
		}
	}
	return r.save()
}

// lookForUsers notes what the user has not committed, and keeps it. What an interrupted iteration left is its own, as
// what every iteration left where none commits: it cannot be told from what was changed by hand since.
func (r *Repeat) lookForUsers(ctx context.Context, first *journal.Event) error {
	if r.tools.Repo == nil || r.history.Prompt.Open != nil || r.resumed && !r.job.Config.Git.AutoCommit {
		return nil
	}
	if who, held := live(treeLock(r.tools.Repo.Dir())); held && who.Tag != "" {
		return nil // whose is whose is not known
	}
	_, err := r.inTree(ctx, func() (err error) {
		if first.Paths, err = r.tools.Repo.Dirty(ctx); err != nil {
			return gitErr("look for uncommitted changes", err)
		}
		first.Paths = slices.DeleteFunc(first.Paths, ours)
		if b := &r.history.Prompt; b.Owed != "" && b.Last != nil && b.Last.Tree != "" { // what the last iterations left
			left, err := r.tools.Repo.Changed(ctx, gitops.Tree(b.Owed), gitops.Tree(b.Last.Tree))
			if err != nil {
				return gitErr("look for what the last iterations left", err)
			}
			first.Paths = slices.DeleteFunc(first.Paths, func(p string) bool {
				return !slices.Contains(r.history.UserPaths, p) && slices.ContainsFunc(left, func(c gitops.Change) bool { return c.Path == p })
			})
		}
		return r.keepUsers(ctx, first.Paths)
	})
	return err
}

// keepUsers keeps what the user has not committed when a loop begins.
func (r *Repeat) keepUsers(ctx context.Context, paths []string) error {
	if r.resumed || len(paths) == 0 {
		return nil
	}
	tree, err := r.tools.Repo.Snapshot(ctx)
	if err == nil {
		err = r.tools.Repo.Pin(ctx, StartRef(r.state.ID), tree)
	}
	if err != nil {
		return gitErr("keep the state before the run", err)
	}
	return nil
}

// replay takes the journal of an earlier run into account. The state file's summaries count where the
// journal does not reach back that far.
func (r *Repeat) replay(events []journal.Event, base int) {
	if len(events) > 0 {
		base = events[0].Iteration
	}
	old := slices.DeleteFunc(r.state.Summaries, func(s IterationSummary) bool { return s.Iteration >= base })
	r.state.Summaries = old
	for i := range events {
		r.history.Apply(&events[i])
		if events[i].Type == journal.IterationFinished {
			r.state.addSummary(turnSummary(&events[i]))
		}
	}
}

// freeID is the id of a new loop: the name asked for, or a drawn one. The caller holds the lock of the ids.
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

// freePath is the state file of a new loop: the one asked for, the named one, or the default one
// once the finished loop that lies there is archived. The caller holds the lock of the ids.
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
			who := "a loop"
			if old != nil {
				who = "loop " + old.ID
			}
			return "", fmt.Errorf("%s belongs to %s, which has not ended", path, who)
		}
		return h.Named(id), nil
	}
	return path, h.archive(fsys, old, path)
}

// archiveEnded puts the state files of named prompt loops that are over into the archive; one over a tag can still
// be gone on with when its blocked tasks are tried again. The caller holds the lock of the ids; but is the state
// file of its own loop.
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
