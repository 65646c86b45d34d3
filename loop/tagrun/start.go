package tagrun

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"descartes/config"
	"descartes/gitops"
	"descartes/loop"
	"descartes/loop/attempt"
	"descartes/loop/book"
	"descartes/loop/journal"
	"descartes/loop/lab"
	"descartes/loop/slot"
	"descartes/loop/source"
	"descartes/loop/store"
	"descartes/loop/trunk"
	"descartes/scheduler"
	"descartes/tasks"
	"descartes/verify"
)

// Start begins a run over a tag, or resumes one: it takes the locks, opens the journal and folds it. The first event is
// written by Run. The caller closes the run.
func Start(ctx context.Context, root string, job *source.Job, tools loop.Tools, opt loop.StartOptions) (_ *Run, err error) {
	r := &Run{job: job, options: opt, did: make(chan func() error), said: make(chan report), made: map[string]*made{},
		news:    make(chan string, 100),
		machine: scheduler.NewRun(), told: told{waits: map[string]time.Time{}, instead: map[string]string{}, waiting: map[string][]*journal.Event{},
			once: map[string]bool{}, held: map[string]string{}}}
	g := &r.ground
	g.root, g.tag, g.config, g.repo, g.home, g.tools = root, job.File.Tag(), &job.Config, tools.Repo,
		store.NewHome(root), &tools
	g.list = store.ListOf(job.File, tools.Repo.Root())
	r.locks = &store.Locks{Who: store.Holder{PID: os.Getpid(), Host: store.Hostname(), At: tools.Now(), Tag: g.tag,
		List: job.Key(), Files: store.FilesOf(job.File)}}
	r.book = &book.Book{History: journal.NewState(), Redact: tools.Redact, Observe: tools.Observe, Root: root,
		State: &store.State{}, TaskID: job.TaskID, Changes: r.statuses}
	defer func() {
		if err != nil {
			err = errors.Join(err, r.Close())
		}
	}()
	ids, err := g.home.LockIDs(ctx, r.locks.Who) // others may start at the same time
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, ids.Release()) }()
	if err := g.home.Beside(ctx, r.locks.Who.List); err != nil {
		return r, err
	}
	if err := tools.Repo.Claim(); err != nil {
		return r, err
	}
	if err := g.home.Make(tools.FS); err != nil {
		return r, err
	}
	path, err := r.choose(ctx)
	if err != nil {
		return r, err
	}
	if err := r.open(path); err != nil {
		return r, err
	}
	if err := r.watchTree(ctx); err != nil {
		return r, err
	}
	return r, g.home.ArchiveEnded(tools.FS, path)
}

// choose makes the list if the plan is one, and resumes the given loop, or the tag's unfinished one, or names a new one.
// The list is as it was read once nobody else runs the tag.
func (r *Run) choose(ctx context.Context) (path string, err error) {
	g, j, opt, s := &r.ground, r.job, &r.options, r.book.State
	if j.Import != nil {
		if _, err := j.Import.Write(g.root, g.tag); err != nil {
			return "", err
		}
		r.imported = true
	}
	var old *store.Saved
	if opt.Resume == "" {
		old, err = g.home.Unfinished(j.Key())
	} else {
		old = &store.Saved{Path: opt.Resume}
		old.State, err = g.home.Load(opt.Resume)
	}
	if err != nil {
		return "", err
	}
	if old != nil {
		now := g.config
		if opt.Saved != nil { // without secrets, as the old ones
			now = opt.Saved
		}
		r.told.others = !slices.EqualFunc(now.ChecksOf(true), old.State.Config.ChecksOf(true), sameCheck)
		*s, path = *old.State, old.Path
	} else {
		if s.ID, err = g.home.FreeID(opt.Name, opt.Command); err != nil {
			return "", err
		}
		s.StartedAt = g.tools.Now()
		if path, err = g.home.FreePath(g.tools.FS, s.ID, opt.Name, opt.StatePath); err != nil {
			return "", err
		}
	}
	r.told.resumes = old != nil
	if s.ListOn, err = r.listOn(ctx); err != nil {
		return "", err
	}
	g.id, r.locks.Who.Loop = s.ID, s.ID
	s.List = store.ListOf(j.File, g.root).List
	s.Kind, s.Tag, s.TaskFile, s.Scope = store.KindTag, g.tag, r.book.Relative(j.File.Path()), opt.Scope
	if err := r.locks.Take(ctx, store.ListLock(g.repo.Dir(), g.list.Key())); err != nil {
		return "", err
	}
	if err := source.Unchanged(j.File); err != nil {
		return "", err
	}
	if s.ListOn != "" {
		there, _, err := trunk.ListOn(ctx, g.repo, j.File, s.ListOn)
		if err != nil {
			return "", err
		}
		j.GoOn(there)
	}
	if err := r.sayings().Share(ctx, ""); err != nil {
		return "", gitErr("take over the answers", err)
	}
	if j.Answers, err = g.home.Answers(s.Key()); err != nil {
		return "", err
	}
	if err := j.File.Clean(); err != nil { // half written by a killed loop
		return "", fmt.Errorf("remove temporary files: %w", err)
	}
	if err := r.locks.Take(ctx, store.LockOf(path)); err != nil {
		return "", err
	}
	s.Version, s.Config, s.Session = store.StateVersion, *g.config, opt.Session
	if opt.Saved != nil {
		s.Config = *opt.Saved
	}
	s.PID, s.Host = r.locks.Who.PID, r.locks.Who.Host
	s.Completed, s.ExitReason = false, store.ExitReason{Type: "running"}
	return path, g.home.Tidy(g.tools.FS, s.ID, path)
}

// sameCheck reports whether two checks decide the same.
func sameCheck(a, b verify.Check) bool { return a.Name == b.Name && a.Run == b.Run && a.When == b.When }

// sayings are what is said about the tasks of the tag.
func (r *Run) sayings() trunk.Sayings {
	g := &r.ground
	return trunk.Sayings{Repo: g.repo, Home: g.home, FS: g.tools.FS, Tag: g.tag, List: g.list.Key(),
		Key: r.book.State.Key(), Now: g.tools.Now}
}

// open opens the journal and folds it.
func (r *Run) open(path string) (err error) {
	g, b := &r.ground, r.book
	var events []journal.Event
	if b.Journal, events, err = journal.Open(g.tools.FS, g.home.Events(g.id), g.id, g.tools.Now); err != nil {
		return err
	}
	b.Own = &book.OwnState{FS: g.tools.FS, Path: path}
	r.list = &listFile{fs: g.tools.FS, file: r.job.File, sync: b.Journal.Sync, pending: map[string]tasks.Status{},
		busy: func() bool { return g.repo.Underway() != "" }, saved: r.listSaved,
		moved: func() bool { return false }, on: func() string { return b.State.ListOn }}
	if err := os.MkdirAll(g.home.Run(g.id)+"/logs", 0o755); err != nil {
		return fmt.Errorf("make the run's folder: %w", err)
	}
	if err := g.home.NoteState(g.tools.FS, g.id, path); err != nil {
		return err
	}
	if err := g.home.ClearRequest(g.id); err != nil {
		return err
	}
	if err := r.fold(events); err != nil {
		return err
	}
	r.ground.seat = r.newSeats()
	r.ground.inTree = func(ctx context.Context, v voice, do func() error) error {
		return store.InTree(ctx, g.repo.Dir(), r.locks.Who, func(line string) error { return v.note(line) }, do)
	}
	r.trees.wave = &tree{}
	for n := range g.config.Slots() {
		r.lanes = append(r.lanes, &lane{number: n + 1})
	}
	return r.give()
}

// fold takes in the journal of earlier runs, and what of it the list does not have yet.
func (r *Run) fold(events []journal.Event) error {
	b := r.book
	if n := int64(len(events)); n < b.State.Seq {
		return &journal.DamageError{Path: b.Journal.Path(), Line: len(events) + 1,
			Err: fmt.Errorf("it ends after event %d, the task list has %d", n, b.State.Seq)}
	}
	var last scheduler.Event
	for i := range events {
		b.History.Apply(&events[i])
		e, ok, err := kinds.Read(&events[i], nil)
		if err != nil {
			return err
		}
		if last != nil && (ok || events[i].Type == journal.LoopRewound) {
			r.machine.Apply(last)
			last = nil
		}
		if ok {
			last = e
		}
	}
	if last != nil {
		before := r.stages()
		r.machine.Apply(last)
		r.told.before = map[string]scheduler.Stage{}
		for _, t := range r.machine.Tasks {
			if was := before[t.ID]; was != t.Stage && (t.Stage == scheduler.Done || t.Stage == scheduler.Blocked) {
				r.told.before[t.ID] = was
			}
		}
	}
	r.ends.half = r.machine.Breaker.IsOpen()
	g := r.job.Graph
	g.Number(b.History.Waves())
	b.State.TotalWaves = len(g.Waves())
	for id, st := range r.job.Ahead {
		r.list.pending[id] = st
		g.SetStatus(id, st)
	}
	for id, st := range b.History.TakeChanges(b.State.Seq) {
		if _, ok := g.Task(id); ok {
			r.list.pending[id] = tasks.Status(r.status(id, st))
			g.SetStatus(id, r.list.pending[id])
		}
	}
	r.list.look()
	return nil
}

// newSeats starts what works in slots.
func (r *Run) newSeats() func(*slot.Slot) (*seats, error) {
	g, c := &r.ground, r.ground.config
	fixed, _ := source.Protected(c, g.root, r.job.File)
	// else statuses are written into the list meanwhile
	fixed = append(fixed, r.job.File.Path())
	o := slot.PoolOptions{Repo: g.repo, Loop: g.id, FS: g.tools.FS, Place: g.tools.Pool, Root: g.root, Dir: g.root,
		Layers: g.tools.Layers, Shown: g.tools.Shown, Fixed: fixed, Fresh: c.Pool.Fresh, MaxCopy: c.Pool.MaxCopy,
		Keep: c.Pool.Keep, Redact: g.tools.Redact, Setup: c.Pool.Setup,
		SetupOn: c.Pool.SetupOn}
	say := func(line string) error {
		return r.say(report{lines: []*journal.Event{{Type: journal.Warning, Message: line}}})
	}
	var bench *lab.Lab
	below := "."
	if c.NeedsLab() {
		log := g.home.NamedLog(g.id, "setup-lab")
		bench = lab.New(lab.Options{Pool: o, Clone: true, Files: filepath.Join(g.home.Private(g.id), "lab"), Log: log,
			Shown: r.book.Relative(log), Redact: g.tools.Redact, Setup: seconds(c.Pool.SetupTimeout), Warn: say,
			Start: func(s *slot.Slot, dir string) (attempt.Verifier, func() error, error) {
				_, v, end, err := g.tools.Slot(s, dir)
				return v, end, err
			}})
		if rel, err := filepath.Rel(g.repo.Root(), g.root); err == nil {
			below = filepath.ToSlash(rel)
		}
		r.bench = bench
	}
	o.Run = func(ctx context.Context, s *slot.Slot, command string) error {
		log := g.home.NamedLog(g.id, fmt.Sprintf("setup-%d", s.Number))
		var runner *attempt.Runner
		if err := r.say(report{do: func() error {
			if at := r.seatsOf(s); at != nil {
				runner = at.runner
			}
			return nil
		}}); err != nil || runner == nil {
			return cmp.Or(err, fmt.Errorf("slot %d is nobody's", s.Number))
		}
		return lab.SetUp(ctx, runner.Verify, s, lab.Setup{Command: command, Log: log, Shown: r.book.Relative(log),
			Redact: g.tools.Redact, Timeout: seconds(c.Pool.SetupTimeout)})
	}
	g.pool = slot.NewPool(o)
	return func(slot *slot.Slot) (*seats, error) {
		var l attempt.Lab
		if bench != nil {
			l = bench
		}
		s, err := openSeats(g, l, below, slot)
		if err != nil {
			return nil, err
		}
		return s, r.say(report{do: func() error {
			r.seats = append(r.seats, s)
			return nil
		}})
	}
}

// seatsOf is what works in a slot.
func (r *Run) seatsOf(slot *slot.Slot) *seats {
	if i := slices.IndexFunc(r.seats, func(s *seats) bool { return s.slot == slot }); i >= 0 {
		return r.seats[i]
	}
	return nil
}

// branch is the ref that is to receive the commits: the one made for the run, else the one checked out at its start; ""
// for a detached HEAD, or where nothing is to be committed there.
func (r *Run) branch(ctx context.Context) (string, error) {
	c := r.ground.config
	if was := r.book.History.Branch; trunk.IsAside(was, r.ground.list.Key()) { // where it was to commit to none
		return "", nil
	} else if was != "" {
		return was, nil
	}
	if !c.Scud.AutoCommitWaves {
		return "", nil
	}
	if name := cmp.Or(c.Git.Branch, r.options.Branch); name != "" {
		return "refs/heads/" + name, nil
	}
	head, err := r.ground.repo.Head(ctx)
	if err != nil {
		return "", gitErr("read HEAD", err)
	}
	return head.Branch, nil
}

// listOn is the branch whose list alone is to have the statuses of the run: where its commits go to another one than is
// checked out. A list that HEAD does not have is the user's file alone.
func (r *Run) listOn(ctx context.Context) (string, error) {
	g := &r.ground
	branch, err := r.branch(ctx)
	if err != nil {
		return "", err
	}
	if r.told.resumes {
		h, err := journal.Load(g.home.Events(r.book.State.ID))
		if err != nil {
			return "", err
		}
		branch = cmp.Or(h.Branch, branch)
	}
	head, err := g.repo.Head(ctx)
	if err != nil {
		return "", gitErr("read HEAD", err)
	}
	if branch == head.Branch && branch != "" || !trunk.HasList(ctx, g.repo, r.job.File, head.Hash) {
		return "", nil
	}
	if branch == "" {
		branch, err = trunk.AsideFor(ctx, g.repo, "", g.list.Key())
	}
	return branch, wrapped("start", err)
}

// settings are how the run goes.
func (r *Run) settings() scheduler.Settings {
	c, opt := r.ground.config, &r.options
	s := scheduler.Settings{Barrier: c.Barrier, Step: opt.Scope.Step || opt.Scope.Task != "", Only: opt.Scope.Task,
		PerTask: c.Commit == config.CommitTask, ChecksAtOnce: c.ChecksAtOnce, Careful: c.Careful(), OtherReviewer: c.Paranoid(),
		RespectScope: c.RespectScope, Breaker: c.Breaker,
		Baseline: cmp.Or(c.Baseline, config.BaselineRequire)}
	switch {
	case c.Breaker == 0:
		s.Breaker = config.DefaultBreaker
	case c.Breaker < 0:
		s.Breaker = 0
	}
	for _, one := range c.ChecksOf(true) {
		switch {
		case one.At(verify.AtAttempt):
		case one.At(verify.AtEnd):
			s.EndChecks = append(s.EndChecks, one.Title())
		default:
			s.WaveChecks = append(s.WaveChecks, one.Title())
		}
	}
	if len(c.ChecksOf(true)) == 0 {
		s.Baseline = config.BaselineOff
	}
	for _, one := range c.Choices(nil) {
		s.Accounts = append(s.Accounts, one.Backend)
	}
	return s
}

// limits are those in the settings.
func (r *Run) limits() scheduler.Limits {
	c := r.ground.config
	l := scheduler.Limits{Attempts: max(1, c.Scud.MaxIterationsPerTask), Total: c.Scud.MaxTotalIterations,
		TaskUSD: c.MaxCostPerTask}
	if l.Total <= 0 {
		l.Total = 1 << 30
	}
	l.USD, l.MaxWait, l.OnLimitStop = c.MaxCostUSD, seconds(c.MaxWaitSecs), c.OnLimit == config.OnLimitStop
	if c.Deadline != nil {
		l.Deadline = *c.Deadline
	}
	return l
}

// statuses takes in what lines of the journal say of tasks.
func (r *Run) statuses(changes map[string]string) error {
	for id, status := range changes {
		changes[id] = r.status(id, status)
		r.job.Graph.SetStatus(id, tasks.Status(changes[id]))
	}
	return r.list.note(changes)
}

// status is what the list is to say of a task that the journal calls so: what is merged is in progress until the branch
// has it, also where the run ends before.
func (r *Run) status(id, journal string) string {
	if t := r.machine.Task(id); t != nil && t.Stage == scheduler.Merged {
		return string(tasks.InProgress)
	}
	return journal
}

// give notes for the next run what the state file says that nothing else does.
func (r *Run) give() error {
	r.book.State.Entries = r.entries()
	return r.ground.home.Give(r.ground.tools.FS, r.book.State)
}

// entries are those of a plan with boxes, by which the next run knows them again.
func (r *Run) entries() (list []store.Entry) {
	if !r.job.File.IsPlan() {
		return nil
	}
	for _, t := range r.job.Tasks() {
		list = append(list, store.Entry{ID: t.ID, Title: t.Title})
	}
	return list
}

// watchTree has the list read and written only where the tree has its branch. A list that no commit has is the same on
// each.
func (r *Run) watchTree(ctx context.Context) error {
	g := &r.ground
	from, err := g.repo.Head(ctx)
	if err != nil {
		return gitErr("read HEAD", err)
	}
	on := r.book.State.ListOn
	if on == from.Branch {
		on = ""
	}
	if on == "" && !trunk.HasList(ctx, g.repo, r.job.File, from.Hash) {
		return nil
	}
	at := func() string {
		head, err := g.repo.Head(context.WithoutCancel(ctx))
		if err != nil {
			return "?" // no branch's name
		}
		return head.Branch
	}
	r.list.moved = func() bool {
		now := at()
		return now != from.Branch && now != r.now.branch || g.repo.Switching()
	}
	r.list.on = func() string {
		switch now := at(); {
		case on != "" && now != r.now.branch:
			return on
		case now != from.Branch && now != r.now.branch:
			return from.Branch
		}
		return ""
	}
	return nil
}

// Close releases the run's files and locks. What was recorded is on disk before it returns.
func (r *Run) Close() error {
	var errs []error
	for _, s := range r.seats {
		errs = append(errs, s.end())
	}
	if r.bench != nil {
		errs = append(errs, r.bench.Close())
	}
	if r.list != nil && r.machine.Ended != "" && r.ends.full == "" {
		errs = append(errs, r.writeLast())
	}
	if err := r.book.Close(); r.ends.full == "" || !loop.DiskFull(err) {
		errs = append(errs, err)
	}
	if r.imported && !r.book.Begun() {
		r.unmake()
	}
	return errors.Join(append(errs, r.locks.Release())...)
}

// noRoom says that a disk has too little room for another attempt, or "".
func (r *Run) noRoom() string {
	g := &r.ground
	if g.config.MinFreeDisk <= 0 || g.tools.Free == nil {
		return ""
	}
	return loop.Room(g.tools.Free, g.config.MinFreeDisk, g.root, filepath.Join(g.root, ".descartes"), g.tools.Pool)
}

// keptRefs are the attempts that are kept, of this run and of others.
func (r *Run) keptRefs(ctx context.Context) ([]gitops.Ref, error) {
	refs, err := r.ground.repo.Refs(ctx, "refs/descartes/")
	if err != nil {
		return nil, gitErr("look for the attempts of earlier runs", err)
	}
	return refs, nil
}
