package run

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"descartes/config"
	"descartes/gitops"
	"descartes/internal/plainfile"
	"descartes/loop"
	"descartes/loop/attempt"
	"descartes/loop/book"
	"descartes/loop/journal"
	"descartes/loop/lab"
	"descartes/loop/slot"
	"descartes/loop/source"
	"descartes/loop/store"
	"descartes/scheduler/prompt"
	"descartes/verify"
)

// Start begins a run of a prompt loop, or resumes one: it takes the locks, opens the journal and folds it. The first
// event is written by Run. The caller closes the run.
func Start(ctx context.Context, root string, job *loop.PromptJob, tools loop.Tools, opt loop.StartOptions) (_ *Run,
	err error) {
	if job.Rules == nil {
		job.Rules = loop.Plain{}
	}
	r := &Run{root: root, job: job, tools: tools, home: store.NewHome(root), options: opt,
		did: make(chan func() error), said: make(chan report), told: told{missing: map[string]bool{}}}
	r.locks = &store.Locks{Who: store.Holder{PID: os.Getpid(), Host: store.Hostname(), At: tools.Now()}}
	r.book = &book.Book{History: journal.NewState(), Redact: tools.Redact, Observe: tools.Observe, Root: root,
		State: &store.State{}, TaskID: func(id string) store.TaskID { return store.TaskID{ID: id} }}
	defer func() {
		if err != nil {
			err = errors.Join(err, r.Close())
		}
	}()
	ids, err := r.home.LockIDs(ctx, r.locks.Who) // others may start at the same time
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, ids.Release()) }()
	if tools.Repo != nil {
		if err := tools.Repo.Claim(); err != nil {
			return r, err
		}
	}
	if err := r.home.Make(tools.FS); err != nil {
		return r, err
	}
	path, err := r.choose(ctx)
	if err != nil {
		return r, err
	}
	if err := r.open(ctx, path); err != nil {
		return r, err
	}
	return r, r.home.ArchiveEnded(tools.FS, path)
}

// choose resumes the given loop, or names another, and takes the lock of its state file.
func (r *Run) choose(ctx context.Context) (path string, err error) {
	s, opt := r.book.State, &r.options
	if path = opt.Resume; path == "" {
		if s.ID, err = r.home.FreeID(opt.Name, opt.Command); err != nil {
			return "", err
		}
		s.StartedAt = r.tools.Now()
		if path, err = r.home.FreePath(r.tools.FS, s.ID, opt.Name, opt.StatePath); err != nil {
			return "", err
		}
	} else if saved, err := store.LoadState(path); err == nil {
		r.locks.Who.Loop = saved.ID
	}
	r.locks.Who.Loop = cmp.Or(s.ID, r.locks.Who.Loop)
	if err := r.locks.Take(ctx, store.LockOf(path)); err != nil {
		return "", err
	}
	if opt.Resume != "" { // read under its lock: another process may have resumed it meanwhile
		saved, err := r.home.Load(path)
		if err != nil {
			return "", err
		}
		if saved.Completed {
			return "", &source.StaleError{Path: path}
		}
		if *s = *saved; s.ID == "" {
			if s.ID, err = r.home.NewID(opt.Command); err != nil {
				return "", err
			}
		}
	}
	r.locks.Who.Loop = s.ID
	s.Kind, s.Version, s.Config, s.Session = r.job.Kind, store.StateVersion, r.job.Config, opt.Session
	if opt.Saved != nil {
		s.Config = *opt.Saved
	}
	s.PID, s.Host = r.locks.Who.PID, r.locks.Who.Host
	s.Completed, s.ExitReason = false, store.ExitReason{Type: "running"}
	if err := r.home.Tidy(r.tools.FS, s.ID, path); err != nil {
		return "", err
	}
	return path, r.locks.All[0].Sign(r.locks.Who)
}

// open opens the journal and folds it.
func (r *Run) open(ctx context.Context, path string) (err error) {
	id := r.ID()
	b := r.book
	var events []journal.Event
	if b.Journal, events, err = journal.Open(r.tools.FS, r.home.Events(id), id, r.tools.Now); err != nil {
		return err
	}
	b.Own = &book.OwnState{FS: r.tools.FS, Path: path}
	if err := os.MkdirAll(r.home.Run(id)+"/logs", 0o755); err != nil {
		return fmt.Errorf("make the run's folder: %w", err)
	}
	if err := r.home.NoteState(r.tools.FS, id, path); err != nil {
		return err
	}
	if err := r.home.ClearRequest(id); err != nil {
		return err
	}
	r.voice = &voice{gate: r.job.Gate, precheck: r.job.Config.Precheck != ""}
	r.place = &place{kind: placeOf(r.job, r.tools.Repo), id: id, root: r.root, dir: r.job.Dir, repo: r.tools.Repo,
		named: r.tools.Named, inTree: r.inTree}
	r.machine = prompt.New(settingsOf(r.job, r.place.kind), accountsOf(&r.job.Config), r.voice)
	if err := r.fold(events); err != nil {
		return err
	}
	if err := r.chooseBranch(ctx); err != nil {
		return err
	}
	return r.home.Give(r.tools.FS, b.State)
}

// fold takes in the journal of earlier runs.
func (r *Run) fold(events []journal.Event) error {
	r.voice.folds = true
	for i := range events {
		r.book.History.Apply(&events[i])
		e, says, err := carriedBy(&events[i])
		if err != nil {
			return err
		}
		if e != nil {
			r.voice.told = says
			r.machine.Apply(prompt.Entry{When: events[i].TS, Event: e})
		}
	}
	r.voice.folds, r.voice.told = false, nil
	if err := r.voice.restore(r.ID(), r.book.History.Prompt.Gate); err != nil {
		return err
	}
	var err error
	r.told.gate, err = r.voice.state()
	return err
}

// chooseBranch finds the branch that receives the commits: the one made for the run, else the one checked out at its
// start; "" for a detached HEAD. Once commits went aside the later ones do too.
func (r *Run) chooseBranch(ctx context.Context) error {
	if r.place.kind != prompt.Branch {
		return nil
	}
	name := cmp.Or(r.job.Config.Git.Branch, r.options.Branch)
	r.place.made = name != "" || r.job.Config.Git.CreateBranch
	if r.place.branch = r.book.History.Branch; r.place.branch != "" {
		if at, err := r.tools.Repo.RefCommit(r.place.aside()); err != nil {
			return gitErr("read the branch", err)
		} else if last, err := r.tools.Repo.RefCommit(r.place.last()); err == nil && at != "" && at == last {
			r.place.branch = r.place.aside()
		}
		return nil
	}
	if name != "" {
		r.place.branch = "refs/heads/" + name
		return nil
	}
	head, err := r.tools.Repo.Head(ctx)
	if err != nil {
		return gitErr("read HEAD", err)
	}
	r.place.branch = head.Branch
	return nil
}

func placeOf(job *loop.PromptJob, repo *gitops.Repo) prompt.Place {
	switch {
	case repo == nil:
		return prompt.Folder
	case job.Config.Git.AutoCommit:
		return prompt.Branch
	}
	return prompt.Tree
}

func settingsOf(job *loop.PromptJob, where prompt.Place) prompt.Settings {
	s := prompt.Settings{Mode: prompt.Loop, Place: where}
	switch job.Kind {
	case store.KindPlan:
		s.Mode = prompt.Plan
	case store.KindBuild:
		s.Mode = prompt.Build
	}
	if pl, ok := job.Rules.(planner); ok {
		s.Replan = pl.Replans()
	}
	c := &job.Config
	s.Claims = s.Mode != prompt.Loop && c.Promised()
	list := c.ChecksOf(false)
	atEnd := func(one verify.Check) bool { return one.At(verify.AtEnd) }
	s.Last = slices.ContainsFunc(list, atEnd)
	switch c.Baseline {
	case "", config.BaselineOff:
	case config.BaselineKnown:
		s.Baseline = len(list) > 0
	default: // what fails at the end is not known to fail
		s.Baseline = slices.ContainsFunc(list, func(one verify.Check) bool { return !atEnd(one) })
	}
	if c.Reviews() {
		s.Reviewers, s.OtherReviewer = backends(c.Reviewers()), c.Paranoid()
	}
	return s
}

func backends(list []config.Choice) (names []string) {
	for _, one := range list {
		names = append(names, one.Backend)
	}
	return names
}

// accountsOf are the accounts that the run may use, best first.
func accountsOf(c *config.Config) (names []string) { return backends(c.Choices(nil)) }

// mostCrashes is how many iterations in a row may crash if the breaker's setting says nothing.
const mostCrashes = 5

// limitsOf are the limits in the settings.
func limitsOf(c *config.Config) prompt.Limits {
	l := prompt.Limits{Iterations: c.MaxIterations}
	l.USD, l.MaxWait, l.OnLimitStop = c.MaxCostUSD, seconds(c.MaxWaitSecs), c.OnLimit == config.OnLimitStop
	if c.Deadline != nil {
		l.Deadline = *c.Deadline
	}
	if c.Breaker >= 0 {
		l.Crashes = cmp.Or(c.Breaker, mostCrashes)
	}
	return l
}

// inTree calls do while nobody else writes in the user's working tree or moves his branch. It is slow.
func (r *Run) inTree(ctx context.Context, do func() error) error {
	return store.InTree(ctx, r.tools.Repo.Dir(), r.locks.Who, r.note, do)
}

// Close releases the run's files and locks. What was recorded is on disk before it returns.
func (r *Run) Close() error {
	var errs []error
	if r.place != nil {
		errs = append(errs, r.place.close())
	}
	if err := r.book.Close(); !r.ends.full || !loop.DiskFull(err) {
		errs = append(errs, err)
	}
	return errors.Join(append(errs, r.locks.Release())...)
}

// seat opens the slot, or the folder, in which the run works; number is the slot of a killed try, or 0.
func (r *Run) seat(ctx context.Context, number int) error {
	p, c := r.place, &r.job.Config
	fixed, _ := source.Protected(c, r.root, nil)
	if p.kind == prompt.Folder {
		p.ws = slot.NewFolder(r.tools.FS, r.root, p.dir, fixed)
		p.runner = &attempt.Runner{Agent: r.tools.Agent, Verify: r.tools.Verify, Redact: r.tools.Redact,
			Dir: r.home.SlotFiles("", p.id, 0), Looks: r.tools.Looks}
		return nil
	}
	p.takes, p.open = r.options.Branch, r.openSlot
	o := slot.PoolOptions{Repo: p.repo, Loop: p.id, FS: r.tools.FS, Place: r.tools.Pool,
		Root: r.root, Dir: p.dir, Shown: r.tools.Shown, Layers: r.tools.Layers, Fixed: fixed,
		Fresh: c.Pool.Fresh, MaxCopy: c.Pool.MaxCopy, Keep: c.Pool.Keep, Redact: r.tools.Redact, Setup: c.Pool.Setup,
		SetupOn: c.Pool.SetupOn}
	if c.NeedsLab() {
		p.bench = r.newLab(o)
	}
	o.Run = r.setUp
	p.pool = slot.NewPool(o)
	for _, n := range []int{number, 0} {
		if got, err := p.take(ctx, n); got || err != nil {
			return err
		}
	}
	return errors.New("no slot is free")
}

// openSlot starts what works in a slot, or releases that.
func (r *Run) openSlot(slot *slot.Slot) (s seats, err error) {
	p, t := r.place, &r.tools
	dir := r.home.SlotFiles(t.Pool, p.id, slot.Number)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return s, errors.Join(fmt.Errorf("make the folder of slot %d: %w", slot.Number, err), slot.Close())
	}
	a, v, end, err := t.Slot(slot, dir)
	if err != nil {
		return s, errors.Join(err, slot.Close())
	}
	w := &attempt.Runner{Agent: a, Verify: v, Redact: t.Redact, Dir: dir, Looks: t.Looks, Repo: p.repo}
	if p.bench != nil {
		w.Lab, w.Below = p.bench, "."
		if rel, err := filepath.Rel(p.repo.Root(), p.dir); err == nil {
			w.Below = filepath.ToSlash(rel)
		}
	}
	return seats{slot: slot, ws: slot, runner: w,
		end: func() error { return errors.Join(end(), plainfile.RemoveAll(dir), slot.Close()) }}, nil
}

// newLab is where looks run commands on trees. It takes a slot when it is first needed.
func (r *Run) newLab(o slot.PoolOptions) *lab.Lab {
	log := r.home.NamedLog(r.place.id, "setup-lab")
	return lab.New(lab.Options{Pool: o, Clone: true, Files: filepath.Join(r.home.Private(r.place.id), "lab"), Log: log,
		Shown: book.Relative(r.root, log), Redact: r.tools.Redact, Setup: seconds(r.job.Config.Pool.SetupTimeout), Warn: r.note,
		Start: func(s *slot.Slot, dir string) (attempt.Verifier, func() error, error) {
			_, v, end, err := r.tools.Slot(s, dir)
			return v, end, err
		}})
}

// note tells people something, from an action's goroutine.
func (r *Run) note(line string) error {
	return r.tell(&attempt.Step{Moment: attempt.Noted, Lines: []string{line}})
}

// hand is the text of the handoff file.
func (r *Run) hand() (string, error) {
	path := r.job.Config.PromptHandoff
	if path == "" {
		return "", nil
	}
	text, err := source.ReadText(r.root, path, store.MaxHandoff)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("handoff: %w", err)
	}
	return text, nil
}
