package loop

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"descartes/gitops"
	"descartes/internal/oneline"
	"descartes/internal/plainfile"
	"descartes/loop/attempt"
	"descartes/loop/journal"
	"descartes/loop/lab"
	"descartes/loop/store"
	"descartes/loop/workspace"
)

// Workspace is where attempts run; see package workspace.
type Workspace interface {
	attempt.Workspace
	Prepare(ctx context.Context, s workspace.Start) (workspace.Stand, error)
}

// lane is where attempts run one after the other: a slot, or a folder without git.
type lane struct {
	ws     Workspace
	slot   *workspace.Slot // ws; nil: it is a folder without git
	runner *attempt.Runner
	end    func() error // ends a slot's processes and releases it; nil for a folder

	task  string         // the task it works on, or ""
	waits bool           // it has nothing to do until another lane ends something
	unit  *unit          // its current unit, or nil
	order *journal.Event // start of an attempt that a killed run ordered from a fleet
}

// number is the slot's number; 0 for a folder.
func (ln *lane) number() int {
	if ln.slot == nil {
		return 0
	}
	return ln.slot.Number
}

// env is the additional environment of commands.
func (ln *lane) env() []string {
	if ln.slot == nil {
		return nil
	}
	return ln.slot.Env()
}

// prepare sets up a lane for a unit.
func (l *Loop) prepare(ctx context.Context, ln *lane, s workspace.Start) (stand workspace.Stand, err error) {
	l.unlocked(func() { stand, err = ln.ws.Prepare(ctx, s) })
	if l.trunk == nil {
		return stand, err
	}
	for _, note := range l.trunk.pool.Notes() {
		err = errors.Join(err, l.record(&journal.Event{Type: journal.Warning, Message: note}))
	}
	return stand, err
}

// holds is the tree that work on something new starts from: all that is integrated; "" without git.
func (l *Loop) holds() gitops.Tree {
	if l.trunk == nil {
		return ""
	}
	return l.trunk.tree
}

// open makes the lanes: one per slot, or one for a folder without git.
func (l *Loop) open(ctx context.Context, stop *stopper) error {
	l.openLab()
	switch {
	case l.state.Kind == store.KindTag:
		return l.openSlots(ctx, stop, l.config.Slots())
	case l.tools.Repo != nil: // each iteration waits for the one before
		return l.openSlots(ctx, stop, 1)
	}
	dir, fixed := l.work.place()
	ws := workspace.NewFolder(l.tools.FS, l.root, dir, fixed)
	l.lanes = []*lane{{ws: ws, runner: l.runner(l.tools.Agent, l.tools.Verify, l.home.SlotFiles("", l.state.ID, 0))}}
	if open := l.history.Prompt.Open; open != nil {
		return l.work.killed(ctx, l.lanes[0], open)
	}
	return nil
}

func (l *Loop) runner(a attempt.Agent, v attempt.Verifier, dir string) *attempt.Runner {
	r := &attempt.Runner{Agent: a, Verify: v, Redact: l.tools.Redact, Dir: dir, Looks: l.tools.Looks, Repo: l.tools.Repo}
	if l.lab != nil {
		dir, _ := l.work.place()
		r.Lab, r.Below = l.lab, "."
		if rel, err := filepath.Rel(l.tools.Repo.Root(), dir); err == nil {
			r.Below = filepath.ToSlash(rel)
		}
	}
	return r
}

// openSlots takes n slots, ends the attempts that a killed run left open, and finds the state of the run.
func (l *Loop) openSlots(ctx context.Context, stop *stopper, n int) error {
	o := l.pool()
	o.Run = func(ctx context.Context, s *workspace.Slot) error {
		ctx, end := stop.soon(ctx)
		defer end()
		return l.setUp(ctx, s)
	}
	room := n
	take := l.tools.Repo.ForwardBranch
	o.Shut, o.Say = l.config.Confined(), func(line string) error {
		l.mu.Lock()
		defer l.mu.Unlock()
		return l.record(&journal.Event{Type: journal.Warning, Message: line})
	}
	if o.Here = l.tools.Here; o.Here {
		room, take = 0, l.tools.Repo.NewBranch
	}
	if l.branch != "" {
		if err := l.inTree(ctx, func() error { return take(ctx, l.branch) }); err != nil {
			return gitErr("take the branch "+l.branch, err)
		}
	}
	pool := workspace.NewPool(o)
	if err := pool.Room(ctx, room, l.lab != nil); err != nil {
		return err
	}
	var err error
	if l.trunk, err = l.newTrunk(ctx, stop, pool); err != nil {
		return err
	}
	if o.Here {
		if err := l.openHere(ctx); err != nil {
			return err
		}
	}
	if err := l.trunk.finish(ctx); err != nil {
		return err
	}
	for _, e := range l.history.Left() {
		if len(l.lanes) > 0 && e.Slot == l.lanes[0].number() && o.Here {
			if err := l.work.killed(ctx, l.lanes[0], e); err != nil {
				return err
			}
			continue
		}
		number := e.Slot
		if l.tools.Away != nil { // its slot only says that an order is out
			number = 0
		}
		var ln *lane // nil: another run has the slot
		if e.Slot > 0 {
			if ln, err = l.openSlot(ctx, number); err != nil { // and end what still runs there
				return err
			}
		}
		if ln != nil && l.tools.Away != nil {
			ln.task, ln.order = e.Task, e
			l.lanes = append(l.lanes, ln)
			continue
		}
		err = l.work.killed(ctx, ln, e)
		if ln != nil && len(l.lanes) < n {
			l.lanes = append(l.lanes, ln)
		} else if ln != nil {
			err = errors.Join(err, ln.end())
		}
		if err != nil {
			return err
		}
	}
	for len(l.lanes) < n {
		ln, err := l.openSlot(ctx, 0)
		if err != nil {
			return err
		}
		l.lanes = append(l.lanes, ln)
	}
	return nil
}

// openHere takes the project's own folder, and deals with what a killed run left there before anything changes it.
func (l *Loop) openHere(ctx context.Context) error {
	made, err := l.tools.Repo.RefCommit(l.trunk.last())
	if err != nil {
		return gitErr("read the last commit", err)
	}
	ln, err := l.openSlot(ctx, 0)
	if err != nil {
		return err
	}
	if l.unlocked(func() { err = ln.slot.Interrupted(ctx, made) }); err != nil {
		return errors.Join(err, ln.end())
	}
	l.lanes = append(l.lanes, ln)
	return nil
}

// pool says how to make the project's slots.
func (l *Loop) pool() workspace.PoolOptions {
	c := &l.config.Pool
	dir, fixed := l.work.place()
	return workspace.PoolOptions{Repo: l.tools.Repo, Loop: l.state.ID, FS: l.tools.FS, Place: l.tools.Pool, Root: l.root, Dir: dir, Shown: l.tools.Shown, Fixed: fixed, Fresh: c.Fresh, MaxCopy: c.MaxCopy, Keep: c.Keep,
		Setup: c.Setup, Free: l.tools.Free}
}

// openLab makes the lab, if a configured look needs one. It takes its slot on first use.
func (l *Loop) openLab() {
	if !l.config.NeedsLab() || l.tools.Repo == nil {
		return
	}
	log := filepath.Join(l.home.Run(l.state.ID), "logs", "setup-lab.log")
	l.lab = lab.New(lab.Options{Pool: l.pool(), Files: filepath.Join(l.home.Private(l.state.ID), "lab"), Log: log, Shown: l.relative(log), Redact: l.tools.Redact, Setup: seconds(l.config.Pool.SetupTimeout),
		Start: func(s *workspace.Slot, dir string) (attempt.Verifier, func() error, error) {
			_, v, end, err := l.tools.Slot(s, dir)
			return v, end, err
		},
		Warn: func(line string) error {
			l.mu.Lock()
			defer l.mu.Unlock()
			return l.record(&journal.Event{Type: journal.Warning, Message: line})
		}})
}

// CheckLab returns what keeps the lab from running what the settings ask for; repo may be nil.
func CheckLab(ctx context.Context, root string, c *Config, repo *gitops.Repo) []Problem {
	if c.Holdout.Dir != "" && c.Holdout.Run == "" {
		return []Problem{{Message: "holdout.dir is set without holdout.run: nothing would run the checks in it", Hint: "name the command in descartes.yaml, or leave holdout out"}}
	}
	if !c.NeedsLab() {
		return nil
	}
	if repo == nil {
		return []Problem{{Message: "held-out checks and proofs run on a copy of the project, which needs a git repository", Hint: "git init"}}
	}
	var problems []Problem
	h := c.Holdout
	dir := h.Folder(root)
	fi, err := os.Stat(dir)
	rel, rerr := filepath.Rel(dir, repo.Root())
	switch inside, ierr := filepath.Rel(repo.Root(), dir); {
	case h.Run == "":
	case h.Dir == "":
		problems = append(problems, Problem{Message: "holdout.run is set without holdout.dir", Hint: "name the folder of the checks in descartes.yaml, so that it can be hidden"})
	case err != nil || !fi.IsDir():
		problems = append(problems, Problem{Message: "holdout.dir " + oneline.Text(h.Dir) + " is not a folder", Hint: "name one outside the project, with the checks in it"})
	case rerr == nil && rel != ".." && !strings.HasPrefix(rel, "../"):
		problems = append(problems, Problem{Message: "holdout.dir " + oneline.Text(h.Dir) + " contains the project itself", Hint: "move the checks into their own folder"})
	case ierr != nil || inside == ".." || strings.HasPrefix(inside, "../"): // inside the project, as it should be
	case !c.Confined():
		problems = append(problems, Problem{Message: "holdout.dir " + oneline.Text(h.Dir) + " is in the project, and nothing hides it without a sandbox", Hint: "move it out of the project"})
	default:
		ignored, err := repo.Ignored(ctx)
		if err != nil {
			return append(problems, Problem{Message: err.Error(), Err: err})
		}
		if path := filepath.ToSlash(inside) + "/"; !slices.ContainsFunc(ignored, func(i string) bool { return strings.HasSuffix(i, "/") && strings.HasPrefix(path, i) }) {
			problems = append(problems, Problem{Message: "holdout.dir " + oneline.Text(h.Dir) + " is in the project, and git does not ignore it", Hint: "move it out of the project, or add it to .gitignore"})
		}
	}
	return problems
}

// openSlot takes the slot with that number, or with 0 the first free one. It returns nil if another run has it.
func (l *Loop) openSlot(ctx context.Context, number int) (*lane, error) {
	slot, err := l.trunk.pool.Take(ctx, number)
	if slot == nil || err != nil {
		return nil, err
	}
	return l.newLane(slot)
}

// newLane makes the lane of a slot, or releases that.
func (l *Loop) newLane(slot *workspace.Slot) (*lane, error) {
	dir := l.home.SlotFiles(l.tools.Pool, l.state.ID, slot.Number)
	if l.tools.Here && slot.Tree() == l.tools.Repo.Root() {
		dir = filepath.Join(l.home.Run(l.state.ID), "slot") // no sandbox shows what is in the pool
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, errors.Join(fmt.Errorf("make the folder of slot %d: %w", slot.Number, err), slot.Close())
	}
	a, v, end, err := l.tools.Slot(slot, dir)
	if err != nil {
		return nil, errors.Join(err, slot.Close())
	}
	return &lane{ws: slot, slot: slot, runner: l.runner(a, v, dir),
		end: func() error { return errors.Join(end(), plainfile.RemoveAll(dir), slot.Close()) }}, nil
}

// closeLanes ends the processes of the slots and releases them.
func (l *Loop) closeLanes() (err error) {
	for _, ln := range l.lanes {
		if ln.end != nil {
			err = errors.Join(err, ln.end())
		}
	}
	if l.checker != nil {
		err = errors.Join(err, l.checker.end())
	}
	if l.lab != nil {
		err = errors.Join(err, l.lab.Close())
	}
	return err
}

// leave gives the project's own folder back at the branch's commit. An attempt that a resumed run finishes stays as it is, and so does what somebody
// edited meanwhile.
func (l *Loop) leave(ctx context.Context, out *Outcome) error {
	if !l.tools.Here || len(l.lanes) == 0 || len(l.history.Left()) > 0 {
		return nil
	}
	var err error
	l.unlocked(func() { err = l.lanes[0].slot.Leave(context.WithoutCancel(ctx)) })
	if _, edited := errors.AsType[*gitops.EditedError](err); edited && out.Ending == journal.Paused {
		return nil
	}
	if err != nil {
		return l.record(&journal.Event{Type: journal.Warning, Message: "this folder stays as it is: " + err.Error()})
	}
	return nil
}

// setUp runs the set-up command in a slot.
func (l *Loop) setUp(ctx context.Context, slot *workspace.Slot) error {
	lanes := l.lanes
	if l.checker != nil {
		lanes = append(lanes[:len(lanes):len(lanes)], l.checker)
	}
	i := slices.IndexFunc(lanes, func(ln *lane) bool { return ln.slot == slot })
	if i < 0 {
		return fmt.Errorf("slot %d is nobody's", slot.Number)
	}
	log := filepath.Join(l.home.Run(l.state.ID), "logs", fmt.Sprintf("setup-%d.log", slot.Number))
	return lab.SetUp(ctx, lanes[i].runner.Verify, slot, lab.Setup{Command: l.config.Pool.Setup, Log: log, Shown: l.relative(log), Redact: l.tools.Redact, Timeout: seconds(l.config.Pool.SetupTimeout)})
}

// stoppedError says what a request to stop at once interrupted.
type stoppedError string

func (e stoppedError) Error() string { return string(e) }
func (e stoppedError) Unwrap() error { return context.Canceled }
