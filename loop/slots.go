package loop

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"descartes/agent"
	"descartes/gitops"
	"descartes/internal/oneline"
	"descartes/loop/attempt"
	"descartes/loop/journal"
	"descartes/loop/workspace"
	"descartes/scheduler"
	"descartes/verify"
)

// slots runs the tasks of a tag side by side, each in a working copy of its own. Everything that decides runs under one lock, as it would
// with one agent; the lock is given up while an agent, a command or a long git command works, and while a lane waits.
//
//	lane: next task -> attempts in its slot -> verified -> integrate -> done -> commit the waves that are final -> next task
type slots struct {
	*tagWork // of the run
	mu       sync.Mutex
	changed  *sync.Cond // something has ended: there may be something to do
	pool     *workspace.Pool
	lanes    []*lane

	state  Integration
	on     string // the commit that the state goes on from
	branch string // ref that takes the commits; "" is the user's branch, whose files follow
	queue  []*candidate
	folds  bool // somebody folds or commits: the state is his

	busy    map[string]bool // tasks that a lane has
	order   *scheduler.Queue
	waiting map[string]bool // tasks of which was said that they wait for another's files
	out     *Outcome        // the run ends with it
	err     error
}

// candidate is a verified result that waits to be folded in.
type candidate struct {
	Candidate
	fate *Fate
}

// lane is one slot and the work in it: the run's own, but for where attempts run.
type lane struct {
	*tagWork
	slot  *workspace.Slot
	close func() error // ends its processes
}

// unlocked does something that takes long.
func (s *slots) unlocked(do func()) {
	s.mu.Unlock()
	defer s.mu.Lock()
	do()
}

// openSlots takes the slots and finds out where the run stands.
func (w *tagWork) openSlots(ctx context.Context) (*slots, error) {
	s := &slots{tagWork: w, busy: map[string]bool{}, waiting: map[string]bool{}}
	s.changed = sync.NewCond(&s.mu)
	c := &w.config.Pool
	s.pool = workspace.NewPool(workspace.PoolOptions{Repo: w.tools.Repo, FS: w.tools.FS, Root: w.root, Dir: w.root, Shown: w.tools.Shown,
		Fixed: append(settingsFiles(w.config, w.root), w.job.File.Path()), Fresh: c.Fresh, MaxCopy: c.MaxCopy, Setup: c.Setup, Run: s.setUp, Free: w.tools.Free})
	n := w.config.Slots()
	if err := s.pool.Room(ctx, n); err != nil {
		return nil, err
	}
	var err error
	if s.order, err = w.order(n); err != nil {
		return nil, err
	}
	w.slots = s
	s.state.merge, s.state.verify = w.tools.Repo.MergeTrees, s.verifyState
	s.mu.Lock()
	defer s.mu.Unlock()
	wanted := s.openAttempts()
	for len(s.lanes) < max(n, len(wanted)) {
		number := 0
		if len(s.lanes) < len(wanted) {
			number = wanted[len(s.lanes)]
		}
		l, err := s.openLane(ctx, number)
		if err == nil && l == nil { // somebody else has it, so the attempt in it is lost
			l, err = s.openLane(ctx, 0)
		}
		if err != nil {
			return s, errors.Join(err, s.closeLanes())
		}
		s.lanes = append(s.lanes, l)
	}
	w.ws = s.lanes[0].ws
	return s, s.stand(ctx)
}

// openAttempts lists the slots in which a dead loop left attempts open.
func (s *slots) openAttempts() (numbers []int) {
	for _, t := range s.history.Tasks {
		if t.Open != nil && t.Open.Slot > 0 {
			numbers = append(numbers, t.Open.Slot)
		}
	}
	slices.Sort(numbers)
	return slices.Compact(numbers)
}

// openLane takes a slot; nil: somebody else has that number.
func (s *slots) openLane(ctx context.Context, number int) (*lane, error) {
	slot, err := s.pool.Take(ctx, number)
	if slot == nil || err != nil {
		return nil, err
	}
	dir := filepath.Join(s.home.Run(s.Loop.state.ID), "slots", strconv.Itoa(slot.Number))
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, errors.Join(fmt.Errorf("make the folder of slot %d: %w", slot.Number, err), slot.Close(true))
	}
	a, v, end, err := s.tools.Slot(slot, dir)
	if err != nil {
		return nil, errors.Join(err, slot.Close(true))
	}
	run := *s.Loop
	run.tools.Agent, run.tools.Verify = yieldingAgent{a, s}, yieldingVerifier{v, s}
	run.ws, run.slot, run.held = &slotSpace{slot, s}, slot.Number, nil
	run.runner = &attempt.Runner{Agent: run.tools.Agent, Verify: run.tools.Verify, Mask: s.tools.Mask, Dir: dir, Exit: filepath.Join(dir, "exit.json")}
	work := *s.tagWork
	work.Loop, run.work = &run, &work
	work.slots = s
	return &lane{&work, slot, end}, nil
}

func (s *slots) closeLanes() (err error) {
	for _, l := range s.lanes {
		err = errors.Join(err, l.close(), l.slot.Close(true))
	}
	return err
}

// yieldingAgent lets the others work while the agent does.
type yieldingAgent struct {
	attempt.Agent
	s *slots
}

func (a yieldingAgent) Run(ctx context.Context, r agent.Request) (res agent.Result, err error) {
	a.s.unlocked(func() { res, err = a.Agent.Run(ctx, r) })
	return res, err
}

type yieldingVerifier struct {
	attempt.Verifier
	s *slots
}

func (v yieldingVerifier) Run(ctx context.Context, r verify.Request) (res verify.Result, err error) {
	v.s.unlocked(func() { res, err = v.Verifier.Run(ctx, r) })
	return res, err
}

// slotSpace is a slot as the run's workspace. What is verified in other slots is nobody's to undo in this one.
type slotSpace struct {
	*workspace.Slot
	s *slots
}

func (w *slotSpace) Prepare(ctx context.Context, start workspace.Start) (stand workspace.Stand, err error) {
	start.Users, start.Left = nil, nil
	w.s.unlocked(func() { stand, err = w.Slot.Prepare(ctx, start) })
	for _, note := range w.s.pool.Notes() {
		err = errors.Join(err, w.s.record(&journal.Event{Type: journal.Warning, Message: note}))
	}
	return stand, err
}

func (w *slotSpace) Look(ctx context.Context) (r workspace.Result, err error) {
	w.s.unlocked(func() { r, err = w.Slot.Look(ctx) })
	return r, err
}

func (w *slotSpace) Result(ctx context.Context, verified bool) (r workspace.Result, err error) {
	w.s.unlocked(func() { r, err = w.Slot.Result(ctx, verified) })
	return r, err
}

func (w *slotSpace) Holds(context.Context) (gitops.Tree, error) { return w.s.state.Tree, nil }

func (w *slotSpace) Untouched(context.Context, string) (back, made []string, err error) {
	return nil, nil, nil
}
func (w *slotSpace) Verified(string, gitops.Tree, gitops.Tree, []string) {}
func (w *slotSpace) Committed([]string)                                  {}
func (w *slotSpace) Forget() error                                       { return nil }

// stand finds the integration state: that of the journal, else HEAD.
func (s *slots) stand(ctx context.Context) error {
	repo := s.tools.Repo
	if s.config.Git.Branch != "" {
		s.branch = "refs/heads/" + s.config.Git.Branch
	}
	if s.history.Integrated != "" {
		s.state.Tree, s.on = gitops.Tree(s.history.Integrated), s.history.IntegratedOn
		if s.branch == "" && s.on != "" {
			if at, err := repo.RefCommit(aside(s.Loop.state.Tag)); err == nil && at == s.on {
				s.branch = aside(s.Loop.state.Tag)
			}
		}
		return nil
	}
	head, err := repo.Head(ctx)
	if err != nil {
		return gitErr("read HEAD", err)
	}
	if s.branch != "" {
		if at, err := repo.RefCommit(s.branch); err != nil || at == "" {
			if err := repo.PinCommit(ctx, s.branch, head.Hash); err != nil {
				return gitErr("make the branch "+s.branch, err)
			}
		}
	}
	if s.on, err = s.tip(ctx); err != nil {
		return err
	}
	s.state.Tree, err = repo.CommitTree(s.on)
	return err
}

// aside is the branch that takes commits which the user's own tree cannot follow.
func aside(tag string) string { return "refs/heads/descartes/" + fileName(tag) }

// tip is the commit that the next one goes on.
func (s *slots) tip(ctx context.Context) (string, error) {
	if s.branch != "" {
		return s.tools.Repo.RefCommit(s.branch)
	}
	head, err := s.tools.Repo.Head(ctx)
	return head.Hash, err
}

// run works through the tag. The lock is held but where something is waited for.
func (s *slots) run(ctx context.Context, stop *stopper) (*Outcome, error) {
	stop.yield = s.unlocked
	s.mu.Lock()
	defer s.mu.Unlock()
	first := s.lanes[0]
	if out, err := first.baseline(ctx, stop); out != nil || err != nil {
		return out, err
	}
	var wg sync.WaitGroup
	for _, l := range s.lanes[:s.config.Slots()] {
		wg.Go(func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.end(s.work(ctx, stop, l))
		})
	}
	s.unlocked(wg.Wait)
	if s.out == nil && s.err == nil {
		end := s.ending()
		s.out = &end
	}
	return s.out, s.err
}

// end has the run end, unless another lane had said how.
func (s *slots) end(out *Outcome, err error) {
	if s.out == nil && s.err == nil {
		s.out, s.err = out, err
	}
	s.changed.Broadcast()
}

// work is one lane's: task after task, until nothing is left.
func (s *slots) work(ctx context.Context, stop *stopper, l *lane) (*Outcome, error) {
	for s.out == nil && s.err == nil {
		if out := l.limits(ctx, stop); out != nil {
			return out, nil
		}
		id, err := s.next(l)
		if err != nil {
			return nil, err
		}
		if id == "" {
			if len(s.busy) == 0 {
				if again, err := s.takeAnswers(); err != nil || !again {
					return nil, err
				}
				continue
			}
			s.changed.Wait()
			continue
		}
		s.busy[id] = true
		out, err := s.task(ctx, stop, l, id)
		delete(s.busy, id)
		if err == nil {
			err = s.commitFinal(ctx, stop, l)
		}
		if out != nil || err != nil {
			return out, err
		}
		s.changed.Broadcast()
	}
	return nil, nil
}

// next is a task that a lane can go on with or begin: one whose attempt is open in its slot, else the first of those that are ready, as the
// queue orders them. Held tasks are told of.
func (s *slots) next(l *lane) (string, error) {
	for _, id := range sortedIDs(s.history.Tasks) {
		if t := s.history.Tasks[id]; t.Open != nil && t.Open.Slot == l.slot.Number && !s.busy[id] && s.job.Graph.Ready(id) {
			return id, s.enter(s.job.Graph.Wave(id))
		}
	}
	var ready []string
	for _, wave := range s.job.Graph.Waves() {
		open := false
		for _, id := range wave.Tasks {
			if s.busy[id] {
				open = true
				continue
			}
			if s.scope.Task != "" && id != s.scope.Task || s.elsewhere(l, id) {
				continue
			}
			run, err := s.due(id)
			if err != nil {
				return "", err
			}
			if run {
				ready = append(ready, id)
				open = true
			}
		}
		if open && (s.config.Barrier || s.scope.Step) || s.scope.Step && s.stepped(wave) {
			break
		}
	}
	id, err := s.first(ready)
	if err != nil || id == "" {
		return "", err
	}
	return id, s.enter(s.job.Graph.Wave(id))
}

// elsewhere reports whether a task's attempt is open in the slot of another lane that works.
func (s *slots) elsewhere(l *lane, id string) bool {
	t := s.history.Tasks[id]
	return t != nil && t.Open != nil && slices.ContainsFunc(s.lanes[:s.config.Slots()], func(x *lane) bool { return x != l && x.slot.Number == t.Open.Slot })
}

// stepped reports whether this run has begun a task of the wave, which is all that a step does.
func (s *slots) stepped(wave scheduler.Wave) bool { return s.entered == wave.Number }

// task gives one task its attempts until it is done or blocked.
func (s *slots) task(ctx context.Context, stop *stopper, l *lane, id string) (*Outcome, error) {
	for l.again = id; l.again != ""; {
		l.again = ""
		if s.out != nil || s.err != nil { // the run ends: the task goes on another time
			return nil, nil
		}
		if out := l.limits(ctx, stop); out != nil {
			return out, nil
		}
		if out, err := s.openOrNew(ctx, stop, l, id); out != nil || err != nil {
			return out, err
		}
	}
	return nil, nil
}

// openOrNew brings an attempt that a dead loop left open to its end, or makes the next one.
func (s *slots) openOrNew(ctx context.Context, stop *stopper, l *lane, id string) (*Outcome, error) {
	t := s.history.Tasks[id]
	if t == nil || t.Open == nil {
		if t != nil {
			again, ok, err := s.settled(ctx, l, id)
			if again {
				l.again = id
			}
			if ok || err != nil {
				return nil, err
			}
		}
		u, err := l.unit(ctx, id)
		if err != nil {
			return nil, err
		}
		return l.step(ctx, stop, u)
	}
	u, ok := l.revive(id, t.Open.Attempt)
	if !ok {
		return nil, fmt.Errorf("task %s vanished from the graph", id)
	}
	if t.Open.Slot != l.slot.Number { // it ran in the user's tree, or in a slot that is in use or gone
		u.res.Verdict, u.res.Reason = verify.Cancelled, "the run was interrupted, and goes on in another slot"
		e := l.Loop.work.event(journal.AttemptFinished, u)
		e.Verdict, e.Reason, e.Detail = journal.Cancelled, u.res.Reason, &journal.Detail{}
		l.again = id
		return nil, l.record(e)
	}
	if err := l.adopt(ctx, stop, u, t.Open, t.Agent); err != nil {
		return nil, err
	}
	if changed := u.res.Work.Changed; len(changed) > 0 && u.res.Agent.End == agent.Cancelled {
		if err := l.warn(u, "the interrupted attempt left changes, which the next one goes on from: "+workspace.Paths(changed)); err != nil {
			return nil, err
		}
	}
	out, err := l.conclude(ctx, stop, u)
	if u.res.Verdict == verify.Cancelled && err == nil && stop.asked(ctx) == nil {
		out, l.again = nil, id
	}
	return out, err
}

// settled finishes what a dead loop left between the end of an attempt and the end of its task: a verified result is folded in, a task without
// attempts left is blocked. ok is false where there is nothing of it.
func (s *slots) settled(ctx context.Context, l *lane, id string) (again, ok bool, err error) {
	u, known := l.revive(id, s.history.Begun[id])
	if !known {
		return false, false, nil
	}
	if i := slices.IndexFunc(s.history.Verified, func(v journal.VerifiedTask) bool { return v.Task == id }); i >= 0 {
		v := s.history.Verified[i]
		u.base, u.res.Verdict = gitops.Tree(v.Base), verify.Verified
		u.res.Work.After, u.res.Work.Left = gitops.Tree(v.Tree), v.Left
		again, err = l.integrate(ctx, u, v.Ref)
		return again, true, err
	}
	f, failed := s.history.Failures[id]
	if failed && (f.Verdict == journal.Blocked || s.history.Counted[id] >= s.config.Scud.MaxIterationsPerTask) {
		u.res.Verdict, u.res.Reason = verify.Verdict(f.Verdict), f.Reason
		return false, true, l.block(ctx, u)
	}
	return false, false, nil
}

func sortedIDs(m map[string]*journal.Task) (ids []string) {
	for id := range m {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}

// integrate folds a verified result into the state, and records what became of it. again: the task gets another attempt, on top of the state.
func (w *tagWork) integrate(ctx context.Context, u *unit, ref string) (again bool, err error) {
	s := w.slots
	tree, err := w.tools.Repo.TreeWithout(u.base, u.res.Work.After, u.res.Work.Left)
	if err != nil {
		return false, gitErr("take the work of task "+u.task.ID, err)
	}
	fate, err := s.fold(ctx, w, Candidate{Unit: u.task.ID, Base: u.base, Tree: tree})
	if err != nil {
		return false, err
	}
	e := w.event(journal.Integrated, u)
	e.Tree, e.Commit = string(s.state.Tree), s.on
	if fate.Accepted() {
		if err := w.tools.Repo.Pin(ctx, "refs/descartes/"+w.Loop.state.ID+"/state", s.state.Tree); err != nil {
			return false, gitErr("pin the state", err)
		}
		done := w.event(journal.TaskDone, u)
		done.Ref = ref
		return false, w.record(e, done)
	}
	e.Verdict, e.Reason, e.Detail = journal.Failed, fate.Reason(), &journal.Detail{Output: tail(fate.Detail(), maxWords)}
	if err := w.record(e); err != nil {
		return false, err
	}
	u.res.Verdict, u.res.Reason, u.base = verify.Failed, e.Reason, s.state.Tree
	if w.history.Counted[u.task.ID] >= w.config.Scud.MaxIterationsPerTask {
		return false, w.block(ctx, u)
	}
	return true, nil
}

// fold waits for its turn and folds in all that wait, the lane's own candidate among them. Who folds verifies in his own slot.
func (s *slots) fold(ctx context.Context, w *tagWork, c Candidate) (*Fate, error) {
	mine := &candidate{Candidate: c}
	s.queue = append(s.queue, mine)
	for mine.fate == nil {
		if s.folds {
			s.changed.Wait()
			continue
		}
		s.folds = true
		batch := s.queue
		s.queue = nil
		list := make([]Candidate, len(batch))
		for i := range batch {
			list[i] = batch[i].Candidate
		}
		fates, err := s.state.Fold(context.WithValue(ctx, folder{}, w), list)
		for i := range fates {
			batch[i].fate = &fates[i]
		}
		s.queue = append(batch[len(fates):], s.queue...) // of an interrupted one: for whoever is next
		s.folds = false
		s.changed.Broadcast()
		if err != nil && mine.fate == nil {
			s.queue = slices.DeleteFunc(s.queue, func(x *candidate) bool { return x == mine })
			return nil, err
		}
	}
	return mine.fate, nil
}

// folder is the key of the lane that folds.
type folder struct{}

// verifyState runs the verify command on an integration state, in the slot of the lane that folds.
func (s *slots) verifyState(ctx context.Context, tree gitops.Tree, units []string) (verify.Result, error) {
	w := ctx.Value(folder{}).(*tagWork)
	command := verifyCommand(s.config, KindTag)
	if command == "" {
		return verify.Result{Passed: true}, nil
	}
	log := filepath.Join(s.home.Run(s.Loop.state.ID), "logs", "integration.log")
	if _, err := w.ws.Prepare(ctx, workspace.Start{Base: tree, Aside: strings.TrimSuffix(log, ".log")}); err != nil {
		return verify.Result{}, err
	}
	return w.tools.Verify.Run(ctx, Timed(s.config, verify.Request{Label: "integration of " + oneline.List(units), Command: command, Dir: w.ws.Dir(),
		Env: append(w.ws.(*slotSpace).Env(), "DESCARTES_LOOP_ID="+s.Loop.state.ID, "DESCARTES_TAG="+s.Loop.state.Tag), Log: log, Mask: s.tools.Mask}))
}

// setUp runs the set-up command in a slot.
func (s *slots) setUp(ctx context.Context, slot *workspace.Slot) error {
	i := slices.IndexFunc(s.lanes, func(l *lane) bool { return l.slot == slot })
	if i < 0 {
		return fmt.Errorf("slot %d is nobody's", slot.Number)
	}
	v := s.lanes[i].tools.Verify.(yieldingVerifier).Verifier // the lock is given up already
	log := filepath.Join(s.home.Run(s.Loop.state.ID), "logs", fmt.Sprintf("setup-%d.log", slot.Number))
	res, err := v.Run(ctx, verify.Request{Label: "setup", Command: s.config.Pool.Setup, Dir: slot.Dir(), Env: slot.Env(), Log: log, Mask: s.tools.Mask,
		Timeout: time.Duration(s.config.Pool.SetupTimeout) * time.Second, Grace: 5 * time.Second})
	if err != nil {
		return fmt.Errorf("set up slot %d: %w", slot.Number, err)
	}
	if res.Cancelled {
		return context.Canceled
	}
	if !res.Passed {
		return &SetupError{Slot: slot.Number, Command: s.config.Pool.Setup, Reason: strings.TrimPrefix(res.Reason(), "verify "), Output: res.Tail, Log: s.relative(log)}
	}
	return nil
}

// SetupError says that pool.setup failed in a slot.
type SetupError struct {
	Slot            int
	Command, Reason string
	Output, Log     string
}

func (e *SetupError) Error() string {
	lines := strings.Split(strings.TrimRight(e.Output, "\n"), "\n")
	return fmt.Sprintf("pool.setup in slot %d: `%s` %s: %s (see %s)", e.Slot, oneline.Text(e.Command), e.Reason, oneline.Text(lines[len(lines)-1]), e.Log)
}

// commitFinal commits each wave whose last task is final. The state that it commits holds what is done of later waves too.
func (s *slots) commitFinal(ctx context.Context, stop *stopper, l *lane) error {
	for _, wave := range s.job.Graph.Waves() {
		final := !slices.ContainsFunc(wave.Tasks, func(id string) bool {
			st, _ := s.job.Graph.State(id)
			return s.busy[id] || st == "ready" || st == "waiting" || st == "running"
		})
		if !final { // the commits of a tag are in the order of its waves
			return nil
		}
		if err := s.commitAlone(ctx, stop, l, wave.Number, wave.Tasks); err != nil {
			return err
		}
	}
	return nil
}

// commitAlone commits a wave while nobody folds.
func (s *slots) commitAlone(ctx context.Context, stop *stopper, l *lane, number int, ids []string) error {
	for s.folds {
		s.changed.Wait()
	}
	s.folds = true
	defer func() { s.folds = false; s.changed.Broadcast() }()
	return l.commitWave(ctx, stop, number, ids)
}

// commit makes a wave's commit in a slot and has the branch follow, with the user's files. Where they cannot the commits go to a branch aside.
func (s *slots) commit(ctx context.Context, w *tagWork, number int, done []string, wave gitops.Wave) (c gitops.Commit, tree gitops.Tree, err error) {
	repo := s.tools.Repo
	tip, err := s.tip(ctx)
	if err != nil {
		return c, "", err
	}
	base, err := repo.CommitTree(tip)
	if err != nil {
		return c, "", err
	}
	if tip != s.on && w.resumed && s.branch == "" { // a loop that died before it could note the hash may have made it
		if hash, found, err := repo.FindWave(ctx, s.Loop.state.ID, number, done); err != nil || found && hash == tip {
			if err == nil {
				s.state.Tree, s.on = base, tip
			}
			return gitops.Commit{Hash: hash}, base, err
		}
	}
	if tip != s.on { // somebody committed meanwhile
		if err := s.follow(ctx, w, tip, base); err != nil {
			return c, "", err
		}
	}
	slot := w.ws.(*slotSpace).Slot
	if _, err := w.ws.Prepare(ctx, workspace.Start{Base: base, Before: s.state.Tree, At: tip}); err != nil {
		return c, "", err
	}
	wave.Results, wave.UserPaths = []gitops.Pair{{Base: base, Result: s.state.Tree, Head: tip}}, nil
	if c, err = slot.Repo().CommitWave(ctx, wave); err != nil || c.Empty {
		return c, base, err
	}
	if tree, err = repo.CommitTree(c.Hash); err != nil {
		return c, "", err
	}
	if s.branch != "" {
		err = repo.MoveRef(ctx, s.branch, tip, c.Hash)
	} else {
		var left []gitops.LeftOut
		if left, err = repo.Forward(ctx, tip, c.Hash); err == nil && len(left) > 0 {
			s.branch = aside(s.Loop.state.Tag)
			if err = repo.PinCommit(ctx, s.branch, c.Hash); err == nil {
				err = s.record(&journal.Event{Type: journal.Warning, Message: fmt.Sprintf("your working tree cannot follow: %s; the commits of this run are on the branch %s: commit or stash your changes, then git merge %[2]s",
					workspace.Reasons(left), strings.TrimPrefix(s.branch, "refs/heads/"))})
			}
		}
	}
	if err != nil {
		return c, "", err
	}
	s.state.Tree, s.on = tree, c.Hash
	return c, tree, nil
}

// follow brings in what somebody else committed: the state goes on from there, once it is verified as a whole.
func (s *slots) follow(ctx context.Context, w *tagWork, tip string, base gitops.Tree) error {
	was, err := s.tools.Repo.CommitTree(s.on)
	if err != nil {
		return err
	}
	next, met, err := s.state.merge(ctx, was, base, s.state.Tree)
	if err != nil {
		return err
	}
	fate := Fate{Conflicts: met}
	if len(met) == 0 && next != base {
		res, err := s.verifyState(context.WithValue(ctx, folder{}, w), next, []string{"what was committed meanwhile"})
		if err != nil {
			return err
		}
		if !res.Passed {
			fate.Failure = &res
		}
	}
	if len(met) > 0 || fate.Failure != nil {
		return &gitops.RefusedError{Reason: fmt.Sprintf("somebody committed %.12s meanwhile, and the verified work does not go with it: %s", tip, fate.Reason()),
			Hint: "the verified work is kept as refs/descartes/" + s.Loop.state.ID + "/state: merge it by hand"}
	}
	s.state.Tree, s.on = next, tip
	return nil
}

// sideBySide runs a tag in slots.
func (w *tagWork) sideBySide(ctx context.Context, stop *stopper) (Outcome, error) {
	if w.history.Integrated == "" && (w.history.Open != nil && w.history.Open.Slot == 0 || len(w.history.Verified) > 0) {
		return Outcome{}, errors.New("the loop has work in your working tree that no commit holds: resume it there first, with -j 1 and without --isolate")
	}
	s, err := w.openSlots(ctx)
	if full, ok := errors.AsType[*workspace.RoomError](err); ok {
		return Outcome{Ending: journal.DiskFull, Message: full.Error()}, nil
	}
	if err != nil {
		return Outcome{}, err
	}
	out, err := s.run(ctx, stop)
	if out == nil {
		out = &Outcome{}
	}
	return *out, err
}

// settle commits what is done when the run ends.
func (s *slots) settle(ctx context.Context, stop *stopper) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, wave := range s.job.Graph.Waves() {
		if err := s.commitAlone(ctx, stop, s.lanes[0], wave.Number, wave.Tasks); err != nil {
			return err
		}
	}
	return nil
}
