package loop

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"descartes/gitops"
	"descartes/internal/oneline"
	"descartes/internal/plainfile"
	"descartes/loop/attempt"
	"descartes/loop/journal"
	"descartes/loop/lab"
	"descartes/loop/source"
	"descartes/loop/workspace"
)

// Workspace is where attempts run; see package workspace.
type Workspace interface {
	attempt.Workspace
	Prepare(ctx context.Context, s workspace.Start) (workspace.Stand, error)
}

// lane is where attempts run one after the other: a slot.
type lane struct {
	ws     Workspace
	slot   *workspace.Slot // ws
	runner *attempt.Runner
	end    func() error // ends the slot's processes and releases it

	begins bool           // it is being prepared for an attempt
	busy   bool           // something is made in it, or its slot has what is waiting to be integrated
	order  *journal.Event // start of an attempt that a killed run ordered from a fleet; nil for none
}

// number is the slot's number.
func (ln *lane) number() int { return ln.slot.Number }

// env is the additional environment of commands.
func (ln *lane) env() []string { return ln.slot.Env() }

// lanes are those of a run, with what its slots need.
type lanes struct {
	run         *Loop
	all         []*lane
	lab         *lab.Lab // nil: no look needs one
	checker     *lane    // that of the check slot; nil while nothing needed one
	uncheckable bool     // a check slot would lead back into the user's tree
}

// prepare sets up a lane for a unit. It is slow.
func (l *lanes) prepare(ctx context.Context, ln *lane, s workspace.Start) (stand workspace.Stand, err error) {
	stand, err = ln.ws.Prepare(ctx, s)
	for _, note := range l.run.trunk.pool.Notes() {
		err = errors.Join(err, l.run.tell(&journal.Event{Type: journal.Warning, Message: note}))
	}
	return stand, err
}

// holds is the tree that work on something new starts from: all that is integrated.
func (l *Loop) holds() gitops.Tree { return l.trunk.Tree }

// open makes the lanes, one per slot, and does what comes before the first unit. An outcome ends the run. It is slow.
func (l *lanes) open(ctx context.Context) (out *Outcome, err error) {
	l.openLab()
	err = errors.Join(l.openSlots(ctx, l.run.config.Slots()), l.mask())
	if err == nil {
		err = l.run.trunk.resume(ctx)
	}
	if err != nil {
		return nil, err
	}
	if out, err := l.run.checks.baseline(l.all[0]); out != nil || err != nil {
		return out, err
	}
	if err := l.run.trunk.begin(ctx); err != nil {
		return nil, err
	}
	return l.run.work.recover()
}

// mask overwrites secrets in all logs of the run: the process that was to do so when a command ended may have been
// killed, and the journal does not say which commands it left, besides those of attempts. A new run has none.
func (l *lanes) mask() (err error) {
	for _, dir := range []string{filepath.Join(l.run.home.Run(l.run.state.ID), "logs"),
		l.run.home.Private(l.run.state.ID)} {
		walked := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err == nil && d.Type().IsRegular() && filepath.Ext(path) == ".log" {
				_, err = l.run.tools.Redact.Log(path, 0, 0)
			}
			return err
		})
		if !errors.Is(walked, fs.ErrNotExist) {
			err = errors.Join(err, walked)
		}
	}
	return err
}

func (l *lanes) runner(a attempt.Agent, v attempt.Verifier, dir string) *attempt.Runner {
	r := &attempt.Runner{Agent: a, Verify: v, Redact: l.run.tools.Redact, Dir: dir, Looks: l.run.tools.Looks,
		Repo: l.run.tools.Repo}
	if l.lab != nil {
		r.Lab, r.Below = l.lab, "."
		if rel, err := filepath.Rel(l.run.tools.Repo.Root(), l.run.dir); err == nil {
			r.Below = filepath.ToSlash(rel)
		}
	}
	return r
}

// openSlots takes n slots, ends the attempts that a killed run left open, and finds the state of the run.
func (l *lanes) openSlots(ctx context.Context, n int) error {
	o := l.pool()
	o.Run = func(_ context.Context, s *workspace.Slot) error { return l.setUp(s) }
	if l.run.branch != "" {
		if err := l.run.locks.inTree(ctx, func() error {
			return l.run.tools.Repo.TakeBranch(ctx, l.run.branch, written(l.run))
		}); err != nil {
			return gitErr("take the branch "+l.run.branch, err)
		}
	}
	pool := workspace.NewPool(o)
	var err error
	if l.run.trunk, err = newMainline(ctx, l.run, pool); err != nil {
		return err
	}
	if err := l.run.trunk.finish(ctx); err != nil {
		return gitErr("finish the last commit", err)
	}
	for _, e := range l.run.history.Left() {
		number := e.Slot
		if l.run.tools.Away != nil { // its slot only says that an order is out
			number = 0
		}
		var ln *lane // nil: another run has the slot
		if e.Slot > 0 {
			if ln, err = l.openSlot(ctx, number); err != nil { // and end what still runs there
				return err
			}
		}
		if ln != nil && l.run.tools.Away != nil {
			ln.order = e
			l.all = append(l.all, ln)
			continue
		}
		err = l.run.work.killed(ctx, ln, e)
		if ln != nil && len(l.all) < n {
			l.all = append(l.all, ln)
		} else if ln != nil {
			err = errors.Join(err, ln.end())
		}
		if err != nil {
			return err
		}
	}
	for len(l.all) < n {
		ln, err := l.openSlot(ctx, 0)
		if err != nil {
			return err
		}
		l.all = append(l.all, ln)
	}
	return nil
}

// pool says how to make the project's slots.
func (l *lanes) pool() workspace.PoolOptions {
	c := &l.run.config.Pool
	return workspace.PoolOptions{Repo: l.run.tools.Repo, Loop: l.run.state.ID, FS: l.run.tools.FS,
		Place: l.run.tools.Pool, Root: l.run.root, Dir: l.run.dir, Shown: l.run.tools.Shown, Layers: l.run.tools.Layers,
		Fixed: l.run.fixed,
		Fresh: c.Fresh, MaxCopy: c.MaxCopy, Keep: c.Keep, Redact: l.run.tools.Redact,
		Setup: c.Setup}
}

// openLab makes the lab, if a configured look needs one. It takes its slot on first use.
func (l *lanes) openLab() {
	if !l.run.config.NeedsLab() || l.run.tools.Repo == nil {
		return
	}
	log := l.run.home.NamedLog(l.run.state.ID, "setup-lab")
	l.lab = lab.New(lab.Options{Pool: l.pool(), Files: filepath.Join(l.run.home.Private(l.run.state.ID), "lab"),
		Log: log, Shown: l.run.relative(log), Redact: l.run.tools.Redact,
		Setup: seconds(l.run.config.Pool.SetupTimeout),
		Start: func(s *workspace.Slot, dir string) (attempt.Verifier, func() error, error) {
			_, v, end, err := l.run.tools.Slot(s, dir)
			return v, end, err
		},
		Warn: l.run.Warn})
}

// CheckLab returns what keeps the lab from running what the settings ask for; repo may be nil.
func CheckLab(ctx context.Context, root string, c *Config, repo *gitops.Repo) []source.Problem {
	if c.Holdout.Dir != "" && c.Holdout.Run == "" {
		return []source.Problem{{Message: "holdout.dir is set without holdout.run: nothing would run the checks in it",
			Hint: "name the command in descartes.yaml, or leave holdout out"}}
	}
	if !c.NeedsGit() {
		return nil
	}
	if repo == nil {
		return []source.Problem{{Message: "held-out checks and proofs run on a copy of the project, which needs a git repository", Hint: "git init"}}
	}
	var problems []source.Problem
	h := c.Holdout
	dir := h.Folder(root)
	fi, err := os.Stat(dir)
	rel, rerr := filepath.Rel(dir, repo.Root())
	switch inside, ierr := filepath.Rel(repo.Root(), dir); {
	case h.Run == "":
	case h.Dir == "":
		problems = append(problems, source.Problem{Message: "holdout.run is set without holdout.dir",
			Hint: "name the folder of the checks in descartes.yaml, so that it can be hidden"})
	case err != nil || !fi.IsDir():
		problems = append(problems, source.Problem{Message: "holdout.dir " + oneline.Text(h.Dir) + " is not a folder",
			Hint: "name one outside the project, with the checks in it"})
	case rerr == nil && rel != ".." && !strings.HasPrefix(rel, "../"):
		problems = append(problems, source.Problem{Message: "holdout.dir " + oneline.Text(h.Dir) +
			" contains the project itself", Hint: "move the checks into their own folder"})
	case ierr != nil || inside == ".." || strings.HasPrefix(inside, "../"): // inside the project, as it should be
	case !c.Confined():
		problems = append(problems, source.Problem{Message: "holdout.dir " + oneline.Text(h.Dir) +
			" is in the project, and nothing hides it without a sandbox", Hint: "move it out of the project"})
	default:
		ignored, err := repo.Ignored(ctx)
		if err != nil {
			return append(problems, source.Problem{Message: err.Error(), Err: err})
		}
		if path := filepath.ToSlash(inside) + "/"; !slices.ContainsFunc(ignored,
			func(i string) bool { return strings.HasSuffix(i, "/") && strings.HasPrefix(path, i) }) {
			problems = append(problems, source.Problem{Message: "holdout.dir " + oneline.Text(h.Dir) +
				" is in the project, and git does not ignore it",
				Hint: "move it out of the project, or add it to .gitignore"})
		}
	}
	return problems
}

// openSlot takes the slot with that number, or with 0 the first free one. It returns nil if another run has it.
func (l *lanes) openSlot(ctx context.Context, number int) (*lane, error) {
	slot, err := l.run.trunk.pool.Take(ctx, number)
	if slot == nil || err != nil {
		return nil, err
	}
	return l.newLane(slot)
}

// newLane makes the lane of a slot, or releases that.
func (l *lanes) newLane(slot *workspace.Slot) (*lane, error) {
	dir := l.run.home.SlotFiles(l.run.tools.Pool, l.run.state.ID, slot.Number)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, errors.Join(fmt.Errorf("make the folder of slot %d: %w", slot.Number, err), slot.Close())
	}
	a, v, end, err := l.run.tools.Slot(slot, dir)
	if err != nil {
		return nil, errors.Join(err, slot.Close())
	}
	return &lane{ws: slot, slot: slot, runner: l.runner(a, v, dir),
		end: func() error { return errors.Join(end(), plainfile.RemoveAll(dir), slot.Close()) }}, nil
}

// close ends the processes of the slots and releases them.
func (l *lanes) close() (err error) {
	for _, ln := range l.all {
		err = errors.Join(err, ln.end())
	}
	if l.checker != nil {
		err = errors.Join(err, l.checker.end())
	}
	if l.lab != nil {
		err = errors.Join(err, l.lab.Close())
	}
	return err
}

// leave keeps the trunk, and says where the commits are. It is slow.
func (l *closing) leave(ctx context.Context, out *Outcome) (err error) {
	if out.Ending == journal.DiskFull {
		err = l.run.lanes.drop()
	}
	if l.run.trunk == nil {
		return err
	}
	// a list with new statuses is among what is in the way of a merge
	err = errors.Join(err, l.run.trunk.leaveTrunk(ctx), l.run.saveFiles())
	out.Branch, out.Commits = l.run.trunk.elsewhere(ctx), l.run.trunk.made(ctx)
	if out.Branch != "" || len(l.run.trunk.Units) > 0 {
		out.Merging = l.run.tools.Repo.Merging(ctx, cmp.Or(out.Branch, l.run.trunk.Ref))
	}
	return err
}

// setUp runs the set-up command in a slot. For an attempt, whatever asks the run to stop ends it: it can simply be
// done again.
func (l *lanes) setUp(slot *workspace.Slot) error {
	var ln *lane
	if l.run.say(func() { ln = l.of(slot) }); ln == nil {
		return fmt.Errorf("slot %d is nobody's", slot.Number)
	}
	ctx := l.run.stop.now // a commit goes on
	if ln.begins {
		ctx = l.run.stop.soon()
	}
	log := l.run.home.NamedLog(l.run.state.ID, fmt.Sprintf("setup-%d", slot.Number))
	return lab.SetUp(ctx, ln.runner.Verify, slot, lab.Setup{Command: l.run.config.Pool.Setup, Log: log,
		Shown: l.run.relative(log), Redact: l.run.tools.Redact, Timeout: seconds(l.run.config.Pool.SetupTimeout)})
}

// stoppedError says what a request to stop at once interrupted.
type stoppedError string

func (e stoppedError) Error() string { return string(e) }
func (e stoppedError) Unwrap() error { return context.Canceled }

// noRoom says that a disk has too little room for another attempt, or returns "". On a full disk an attempt would fail
// for nothing.
func (l *lanes) noRoom() string {
	if l.run.config.MinFreeDisk <= 0 || l.run.tools.Free == nil {
		return ""
	}
	return Room(l.run.tools.Free, l.run.config.MinFreeDisk, l.run.root, filepath.Join(l.run.root, ".descartes"),
		l.run.tools.Pool)
}

// drop removes the slots of a run that ends because their disk is full: what agents left there would fill it at each
// resume.
func (l *lanes) drop() (err error) {
	if l.run.trunk == nil || l.run.tools.Free == nil || Room(l.run.tools.Free, max(l.run.config.MinFreeDisk, 1),
		l.run.tools.Pool) == "" {
		return nil
	}
	for _, ln := range l.all {
		err = errors.Join(err, ln.slot.Drop())
	}
	return err
}

// DiskFull reports whether an error means a full disk; git only says so in words.
func DiskFull(err error) bool {
	return err != nil && (errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) ||
		strings.Contains(strings.ToLower(err.Error()), syscall.ENOSPC.Error()))
}

// Room says which folder's file system has too little room, or returns "". One that does not report its free space is
// ignored.
func Room(free func(dir string) (int64, error), least int64, dirs ...string) string {
	for _, dir := range dirs {
		if n, err := free(dir); dir != "" && err == nil && n < least {
			return fmt.Sprintf("%s free on the disk of %s, and an attempt needs at least %s", mebibytes(n), dir,
				mebibytes(least))
		}
	}
	return ""
}

func mebibytes(n int64) string { return fmt.Sprintf("%.0f MiB", float64(n)/(1<<20)) }
