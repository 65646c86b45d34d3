package loop

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"

	"descartes/gitops"
	"descartes/internal/oneline"
	"descartes/loop/attempt"
	"descartes/loop/journal"
	"descartes/loop/store"
	"descartes/loop/trunk"
	"descartes/loop/workspace"
	"descartes/tasks"
	"descartes/verify"
)

// trunk is where the work of slots comes together, and the branch that receives its commits.
type mainline struct {
	run *Loop
	trunk.Chain
	pool   *workspace.Pool
	branch string // ref that receives the commits; its files follow if it is checked out; "" for a detached HEAD
	away   bool   // it was reported that the branch is no longer checked out

	of    string // the branch that the run began at
	aside string // ref for commits that the user's own tree cannot follow
	other string // takes its place where others' commits are there

	merged []gitops.Ref // the trunks of earlier runs, whose work the branch has now
	halted bool         // a person has to look at the branch before anything is committed

	proofs *proofs

	closes func(units []string) bool // whether they complete a wave; nil: there are no waves
	fewer  func(units []string) bool // whether one of them may reduce the number of tests
	task   func(unit string) (*tasks.Task, bool)
}

// takes returns the branch that receives the commits of a run in slots: the one made for it, else the one checked out
// at its start; "" for a detached HEAD.
func takes(ctx context.Context, l *Loop) (string, error) {
	if l.tools.Repo == nil {
		return "", nil
	}
	if name := cmp.Or(l.config.Git.Branch, l.branch); name != "" {
		return "refs/heads/" + name, nil
	}
	head, err := l.tools.Repo.Head(ctx)
	if err != nil {
		return "", gitErr("read HEAD", err)
	}
	return head.Branch, nil
}

// done reports whether a unit's work is done, and not to be made again.
func (l *mainline) done(unit string) bool {
	return l.run.job.Graph.Status(unit) == tasks.Done
}

// newMainline reads the chain of a resumed run, or plans where that of a new one begins.
func newMainline(ctx context.Context, l *Loop, pool *workspace.Pool) (t *mainline, err error) {
	repo := l.tools.Repo
	t = &mainline{run: l, pool: pool, branch: l.history.Branch,
		Chain: trunk.Chain{Repo: repo, Ref: store.TrunkRef(l.state.ID), Now: l.tools.Now, Grow: l.say}}
	t.proofs = &proofs{t, map[journal.Key]bool{}}
	if t.branch == "" { // a detached HEAD
		if t.branch, err = takes(ctx, l); err != nil {
			return nil, err
		}
	}
	t.of = t.branch
	found, err := t.Read(ctx)
	if err != nil {
		return nil, gitErr("read what is verified", err)
	}
	to, err := trunk.To(ctx, repo, t.of, l.list.Key(), t.On)
	if err != nil {
		return nil, gitErr("read what is verified", err)
	}
	if t.branch, t.aside, t.other = to.Ref, to.Aside, to.Else; found {
		return t, nil
	}
	if len(l.history.Verified()) > 0 || len(l.history.WaveCommits) > 0 {
		return nil, gitErr("read what is verified", &gitops.RefusedError{Reason: t.Ref +
			", which has the work that this run verified, is gone",
			Hint: "git fetch it from where it is, or start a new run"})
	}
	goes, err := t.goOn(ctx)
	if err == nil && !goes {
		var on string
		if on, err = t.ground(ctx); err == nil {
			err = t.Plan(ctx, on)
		}
	}
	if refused, ok := errors.AsType[*gitops.RefusedError](err); ok && !isGit(err) { // since the start was checked
		err = gitErr("start", refused)
	}
	return t, err
}

// goOn lets a new run over a tag begin at the trunk of the last one if that has work of tasks that the list calls done
// and no commit has.
func (t *mainline) goOn(ctx context.Context) (bool, error) {
	last, err := trunk.LeftBy(ctx, t.run.tools.Repo, t.branch, t.run.list.Key(), t.done)
	if err != nil || last == nil {
		return false, err
	}
	head, err := t.head(ctx)
	if err == nil && head == "" && t.branch != "" { // it is to be made
		if head, err = trunk.TipOf(ctx, t.run.tools.Repo, t.branch); err == nil && head != "" {
			err = t.Repo.MoveRef(ctx, t.branch, "", head, "descartes: made")
		}
	}
	if last.Ref, last.Now, last.Grow = t.Ref, t.Now, t.Grow; err == nil {
		err = last.Save(ctx)
	}
	if err != nil {
		return false, gitErr("begin where the last run ended", err)
	}
	t.Chain = *last
	return true, nil
}

// leaveTrunk keeps the trunk for the next run over the list if it has work that the branch lacks.
func (t *mainline) leaveTrunk(ctx context.Context) (err error) {
	t.merged, err = t.Leave(ctx, t.run.tools.Repo, t.run.list.Key(), t.of, t.branch == t.aside && t.of != t.aside,
		func(run string) bool {
			_, err := os.Stat(t.run.home.Run(run))
			return err == nil
		})
	if err != nil {
		return gitErr("keep the trunk", err)
	}
	return nil
}

// ground is the commit that a new run starts from. Where an earlier run left commits on the branch aside, it goes on
// from these.
func (t *mainline) ground(ctx context.Context) (on string, err error) {
	err = t.run.locks.inTree(ctx, func() error {
		tip, ahead, err := trunk.GroundOf(ctx, t.run.tools.Repo, t.branch, t.aside)
		if on = tip; err != nil || ahead == "" || t.branch == t.aside {
			return err
		}
		on = ahead
		return t.advance(ctx, tip, ahead, false)
	})
	return on, err
}

// begin makes the branch that the run is to commit to, and the chain's ref. A branch that was there at the start of a
// run and is gone is reported by head.
func (t *mainline) begin(ctx context.Context) error {
	if t.Tip != "" {
		if err := t.Save(ctx); err != nil {
			return gitErr("begin "+t.Ref, err)
		}
	}
	if t.branch == "" || t.On == "" || len(t.Links) > 1 {
		return nil
	}
	if at, err := t.run.tools.Repo.RefCommit(t.branch); err != nil || at != "" {
		return err
	}
	if err := t.run.tools.Repo.SetRef(ctx, t.branch, t.On, "descartes: made"); err != nil {
		return gitErr("make the branch "+t.branch, err)
	}
	return nil
}

// head is the commit of the branch.
func (t *mainline) head(ctx context.Context) (string, error) {
	return t.to().Head(ctx, t.run.tools.Repo, t.On)
}

// elsewhere returns the branch that receives the commits if it is not checked out, else "".
func (t *mainline) elsewhere(ctx context.Context) string {
	if head, err := t.run.tools.Repo.Head(ctx); err != nil || head.Branch == t.branch {
		return ""
	}
	return trunk.ShortRef(t.branch)
}

// made is how many of the branch's newest commits have all of the loop's; 0 if that is not known.
func (t *mainline) made(ctx context.Context) int {
	head, err := t.head(ctx)
	if err != nil || head == "" || len(t.Links) == 0 || t.Links[0].Head == "" {
		return 0
	}
	all, err := t.run.tools.Repo.News(ctx, t.Links[0].Head, head, "", "")
	ours := slices.IndexFunc(all, func(c gitops.ChainLink) bool {
		return slices.Contains(c.Trailers["Descartes-Loop"], t.run.state.ID)
	})
	if err == nil && ours > 0 {
		all = all[ours:]
	}
	return len(all)
}

// fold folds in candidates and returns the fate of each; with an error, of those that it came to. It verifies in the
// slot of a lane.
func (t *mainline) fold(ctx context.Context, ln *lane, list []trunk.Candidate) ([]trunk.Fate, error) {
	f := trunk.Folder{Chain: &t.Chain}
	f.Verify = func(ctx context.Context, tree gitops.Tree, units []string) (verify.Result, error) {
		return t.verify(ctx, ln, tree, units, slices.ContainsFunc(list,
			func(c trunk.Candidate) bool { return c.Tree == tree && !c.Suspect }))
	}
	f.More = func(units []string) (more bool) {
		t.run.say(func() { more = len(t.run.checks.at(t.whens(units)[1:]...)) > 0 })
		return more
	}
	fates, err := f.Fold(ctx, list)
	for try := 1; errors.Is(err, gitops.ErrGone) && try < 5; try++ { // what no ref names yet
		t.run.tools.Repo.AwaitGC(ctx)
		fates, err = f.Fold(ctx, list)
	}
	for i := range fates {
		if fates[i].Failure != nil {
			err = errors.Join(err, t.proofs.blame(ctx, ln, &fates[i], list[i]))
		}
	}
	return fates, err
}

// verify runs the checks that an integration state has to pass. It returns the first result that is not a pass, else
// the last. done says that an attempt's checks have already passed on the state.
func (t *mainline) verify(ctx context.Context, ln *lane, tree gitops.Tree, units []string, done bool) (res verify.Result,
	err error) {
	var whens []verify.When
	alone := !done
	t.run.say(func() {
		if whens = t.whens(units); done {
			whens = whens[1:]
		} // else the wave's check tells whose fault it is
		alone = alone && !slices.ContainsFunc(t.Units, func(unit string) bool { return t.proofs.doubted(unit) != nil })
	})
	if alone {
		if ln, err = t.run.checks.checkLane(ctx, ln); err != nil {
			return res, err
		}
	}
	if res, err = t.examine(ctx, ln, tree, units, whens...); err == nil && res.Passed && alone {
		t.proofs.prove(append(units, t.Units...))
	}
	return res, err
}

// examine runs the checks of some points of a run on a state in a lane, as verify does.
func (t *mainline) examine(ctx context.Context, ln *lane, tree gitops.Tree, units []string,
	whens ...verify.When) (res verify.Result, err error) {
	log := t.run.home.NamedLog(t.run.state.ID, "integration")
	res.Passed = true
	var ids []string
	var checks []attempt.Command
	t.run.say(func() {
		// else it is what others committed
		ids = slices.DeleteFunc(slices.Clone(units), func(id string) bool { return !t.run.history.Task(id).Open() })
		checks = t.run.checks.commands(t.run.checks.at(whens...), "", t.fewer != nil && t.fewer(units))
		for _, id := range ids {
			if t.task == nil || !slices.Contains(whens, verify.AtAttempt) {
				break
			}
			if one, ok := t.task(id); ok {
				checks = append(checks, ownCheck(one)...)
			}
		}
	})
	for _, c := range checks {
		when := verify.AtMerge
		if c.At(verify.AtWave) {
			when = verify.AtWave
		}
		if res, err = t.run.checks.onState(ctx, ln, tree, when, &c, "integration of "+oneline.List(units), log,
			ids...); err != nil || !res.Passed {
			return res, err
		}
	}
	return res, nil
}

// whens returns the points whose checks apply to a state with these units: the wave's too, if they complete one.
func (t *mainline) whens(units []string) []verify.When {
	switch {
	case t.closes != nil && t.closes(units):
		return []verify.When{verify.AtAttempt, verify.AtMerge, verify.AtWave}
	case t.run.config.Slots() == 1: // nothing is merged before the wave
		return []verify.When{verify.AtAttempt}
	}
	return []verify.When{verify.AtAttempt, verify.AtMerge}
}

// commit commits the state in a slot and moves the branch, together with the user's files. If that is impossible the
// commits go to a branch aside. files, which may be nil, is what the commit has of files that others write too.
func (t *mainline) commit(ctx context.Context, ln *lane, wave gitops.Wave,
	files func() map[string][]byte) (c gitops.Commit, err error) {
	repo := t.run.tools.Repo
	for try := 0; ; try++ {
		head, err := t.head(ctx)
		if err == nil && head != t.On { // another program committed meanwhile
			err = t.catchUp(ctx, ln, head)
		}
		if err != nil {
			return c, err
		}
		units, at := slices.Clone(t.Units), head
		if repo.ByGit() != "" { // who makes it reads the files
			base, err := repo.CommitTree(at)
			if err == nil {
				_, err = t.run.lanes.prepare(ctx, ln, workspace.Start{Base: base, Before: t.Tree, At: at})
			}
			if err != nil {
				return c, err
			}
		}
		if wave.Tree, wave.On, wave.Began = t.Tree, at, t.Links[0].Head; files != nil {
			wave.Files = files()
		}
		c, err = ln.slot.Repo().CommitWave(ctx, wave)
		if err != nil || c.Empty && at == head {
			return c, err
		}
		c.Hash = cmp.Or(c.Hash, at)
		tree, err := repo.CommitTree(c.Hash)
		if err != nil {
			return c, err
		}
		if err = repo.SetRef(ctx, t.last(), c.Hash, "descartes: made"); err == nil {
			err = t.run.locks.inTree(ctx, func() error { return t.advance(ctx, head, c.Hash, false) })
		}
		if err == nil {
			return c, t.Took(ctx, c.Hash, tree, units)
		}
		// else another run or program committed meanwhile
		if now, herr := t.head(ctx); herr != nil || now == head || now == c.Hash || try == mostTries {
			return c, err
		}
	}
}

// mostTries is how often a commit may meet another's that came first.
const mostTries = 50

// advance moves the branch to a commit, together with the user's files if it is checked out. If that is impossible,
// later commits go to a branch aside. again says that an earlier call was cut short. The caller has the working tree.
func (t *mainline) advance(ctx context.Context, tip, commit string, again bool) error {
	repo := t.run.tools.Repo
	f, err := t.to().Follow(ctx, repo, tip, commit, again)
	if err != nil {
		return err
	}
	if len(f.Left) > 0 {
		t.branch, t.aside = f.Ref, f.Ref
		name := trunk.ShortRef(f.Ref)
		return t.run.tell(&journal.Event{Type: journal.Warning, Message: fmt.Sprintf(
			"your working tree cannot follow: %s; the commits of this run are %s", gitops.Reasons(f.Left),
			trunk.OnBranch(name, repo.Merging(ctx, name)))})
	}
	if !f.Behind || t.away || t.branch == t.aside || t.run.config.Git.Branch != "" || t.run.config.Git.CreateBranch {
		return nil
	}
	t.away = true
	return t.run.tell(&journal.Event{Type: journal.Warning, Message: trunk.ShortRef(t.branch) +
		" is not checked out any more: the commits of this run go there, and your files stay as they are"})
}

// to is the branch that gets the commits.
func (t *mainline) to() trunk.Branch {
	return trunk.Branch{Ref: t.branch, Aside: t.aside, Else: t.other}
}

// finish publishes the last commit of a dead loop if that was cut short. One that no branch got is forgotten: it is
// made again. One that the chain has taken in was published, and a rewind took it back.
func (t *mainline) finish(ctx context.Context) error {
	commit, err := t.run.tools.Repo.RefCommit(t.last())
	if err != nil || commit == "" || commit == t.On || slices.ContainsFunc(t.Links,
		func(l trunk.Link) bool { return l.Brought == commit }) {
		return err
	}
	return t.run.locks.inTree(ctx, func() error {
		head, err := t.head(ctx)
		if err != nil || head == "" {
			return err
		}
		if _, next, err := t.run.tools.Repo.History(ctx, commit, head, 2); err != nil || !next {
			return err
		}
		return t.advance(ctx, head, commit, true)
	})
}

// resume takes in what happened to the branch while no process ran the loop: commits that the dead loop made and did
// not record, and those of others.
func (t *mainline) resume(ctx context.Context) error {
	if !t.Saved {
		return nil
	}
	if err := t.recorded(ctx); err != nil {
		return gitErr("look for the commits of a killed run", err)
	}
	// the other lanes hold unfinished work
	free := slices.IndexFunc(t.run.lanes.all, func(ln *lane) bool { return ln.order == nil })
	head, err := t.head(ctx)
	if err != nil || head == t.On || free < 0 {
		return err
	}
	t.run.tools.Repo.AwaitGC(ctx)
	err = t.catchUp(ctx, t.run.lanes.all[free], head)
	if errors.Is(err, errPutBack) {
		return nil
	}
	if _, apart := errors.AsType[*apartError](err); apart {
		return gitErr("continue from what was committed meanwhile", err)
	}
	return err
}

// recorded records the last commit if a dead loop took it in and got no further: no later look at the branch meets it.
func (t *mainline) recorded(ctx context.Context) error {
	repo := t.run.tools.Repo
	last, err := repo.RefCommit(t.last())
	if err != nil || last == "" || last != t.On {
		return err
	}
	made, err := repo.ReadCommit(last)
	if err != nil {
		return err
	}
	news, err := repo.News(ctx, made.Parent(), last, "Descartes-Loop", t.run.state.ID)
	for _, c := range news {
		err = errors.Join(err, t.committedAs(ctx, c))
	}
	return err
}

// catchUp takes in the branch's new commits, once the result is verified as a whole. Their trailers say which of them
// are ours.
func (t *mainline) catchUp(ctx context.Context, ln *lane, head string) error {
	if err := t.stillThere(ctx, head); err != nil {
		return err
	}
	m, err := t.TakeIn(ctx, t.run.tools.Repo, head, t.run.state.Tag, t.run.state.ID)
	if err != nil {
		return err
	}
	for _, c := range m.Commits {
		if err := t.committedAs(ctx, c); err != nil {
			return err
		}
	}
	fate := trunk.Fate{Conflicts: m.Met}
	if len(m.Met) > 0 {
		return cmp.Or(t.putBack(ctx, &fate, head, m.Has), t.backOut(ctx, head, m.Has), errPutBack)
	}
	if m.Tree != m.Base {
		res, err := t.verify(ctx, ln, m.Tree, []string{"what was committed meanwhile"}, false)
		if err != nil {
			return err
		}
		if !res.Passed {
			fate.Failure = &res
		}
	}
	if !fate.Accepted() {
		return t.apart(ctx, &fate)
	}
	return t.Took(ctx, head, m.Tree, m.Has)
}

// errPutBack says that what was to be committed conflicts with what the branch got, and comes in again after that.
var errPutBack = errors.New("the work comes in again, on top of what was committed meanwhile")

// backOut takes in the branch's commit alone. Of the units only those stay that have changed nothing.
func (t *mainline) backOut(ctx context.Context, head string, has []string) error {
	base, err := t.Repo.CommitTree(head)
	if err != nil {
		return err
	}
	was, err := t.Repo.CommitTree(t.On)
	if err != nil {
		return err
	}
	units := slices.Clone(t.Units)
	if err = t.TakeOut(ctx, was, "", units...); err == nil {
		err = t.Took(ctx, head, base, has)
	}
	for _, u := range units {
		done := false
		if t.run.say(func() { done = t.done(u) }); err == nil && done && !slices.Contains(has, u) {
			err = t.Add(ctx, t.Bring(u, u, head, base))
		}
	}
	return err
}

// committedAs records a wave's commit that a dead loop made and did not record.
func (t *mainline) committedAs(ctx context.Context, c gitops.ChainLink) error {
	numbers := c.Trailers["Descartes-Wave"]
	if len(numbers) == 0 || slices.ContainsFunc(t.waveCommits(),
		func(w journal.WaveCommit) bool { return w.Commit == c.Hash }) {
		return nil
	}
	tasks := c.TasksOf(t.run.state.Tag)
	number, err := strconv.Atoi(numbers[0])
	if err != nil || slices.ContainsFunc(t.waveCommits(), func(w journal.WaveCommit) bool {
		return w.Wave == number && slices.Equal(w.Tasks, tasks)
	}) {
		return err // amended or rebased
	}
	files, err := t.run.tools.Repo.CommitChanges(ctx, c.Hash)
	if err != nil {
		return err
	}
	return t.run.tell(&journal.Event{Type: journal.WaveCommitted, Unit: journal.Unit{Wave: number, Of: len(files)},
		Commit: c.Hash, Tree: string(c.Tree), Tasks: tasks, Message: c.Subject})
}

func (t *mainline) waveCommits() (list []journal.WaveCommit) {
	t.run.say(func() { list = slices.Clone(t.run.history.WaveCommits) })
	return list
}

// stillThere ends the run with a pause if tasks whose commits the branch had are in none any more: somebody took them
// away. It does so once.
func (t *mainline) stillThere(ctx context.Context, head string) error {
	lost, err := t.Lost(ctx, t.run.tools.Repo, head, t.run.state.Tag, t.run.state.ID, t.waveCommits())
	if err != nil {
		return err
	}
	var gone []string
	t.run.say(func() {
		for _, id := range lost {
			if !t.run.history.Task(id).Gone && t.done(id) {
				gone = append(gone, id)
			}
		}
	})
	if len(gone) == 0 {
		return nil
	}
	e := &journal.Event{Type: journal.Warning, Reason: journal.ReasonGone, Tasks: gone,
		Message: fmt.Sprintf("%s lost the commit of %s, which this run had made: resume the run to have that done again; if you bring it back first "+
			"(git reflog has it), or its work is there in another form, set it to done: descartes tasks set %s done",
			cmp.Or(trunk.ShortRef(t.branch), "HEAD"), oneline.List(gone), gone[0])}
	if err := t.run.tell(e); err != nil {
		return err
	}
	t.halted = true
	return &endError{Outcome{Ending: journal.Paused, Message: e.Message}}
}

// endError ends a run with an outcome.
type endError struct{ out Outcome }

func (e *endError) Error() string { return e.out.Message }

// apart reports that somebody else's commit and the verified work do not merge.
func (t *mainline) apart(ctx context.Context, fate *trunk.Fate) error {
	return &apartError{&gitops.RefusedError{
		Reason: "somebody committed meanwhile, and the verified work conflicts with that: " + fate.Reason(),
		Hint:   t.run.tools.Repo.Merging(ctx, t.Ref) + ", then resume the run"}}
}

type apartError struct{ refused *gitops.RefusedError }

func (e *apartError) Error() string { return e.refused.Error() }

func (e *apartError) Unwrap() error { return e.refused }

// last is the ref that keeps the last commit, set before it is published.
func (t *mainline) last() string { return "refs/descartes/" + t.run.state.ID + "/commit" }
