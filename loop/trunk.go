package loop

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"descartes/gitops"
	"descartes/internal/oneline"
	"descartes/internal/safename"
	"descartes/loop/attempt"
	"descartes/loop/journal"
	"descartes/loop/store"
	"descartes/loop/workspace"
	"descartes/tasks"
	"descartes/verify"
)

// trunk is where the work of slots comes together, and the branch that receives its commits.
type trunk struct {
	run *Loop
	chain
	pool   *workspace.Pool
	branch string // ref that receives the commits; its files follow if it is checked out; "" for a detached HEAD
	away   bool   // it was reported that the branch is no longer checked out

	kept      string // ref of the work that is to be committed, if not the trunk's
	merged    string // where the last run's trunk was, which a branch has now
	halted    bool   // a person has to look at the branch before anything is committed
	unchecked bool   // the state has work that was not verified, and need not be

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
func (l *trunk) done(unit string) bool {
	return l.run.job != nil && l.run.job.Graph.Status(unit) == tasks.Done
}

// newTrunk reads the chain of a resumed run, or plans where that of a new one begins.
func newTrunk(ctx context.Context, l *Loop, pool *workspace.Pool) (t *trunk, err error) {
	repo := l.tools.Repo
	t = &trunk{run: l, pool: pool, branch: l.history.Branch,
		chain: chain{repo: repo, ref: store.TrunkRef(l.state.ID), now: l.tools.Now, grow: l.say}}
	t.proofs = &proofs{t, map[journal.Key]bool{}}
	if t.branch == "" { // a detached HEAD
		if t.branch, err = takes(ctx, l); err != nil {
			return nil, err
		}
	}
	// nobody commits: what there is is the tree as it is
	if l.state.Kind != store.KindTag && !l.config.Git.AutoCommit {
		head, err := repo.Head(ctx)
		if err != nil {
			return nil, gitErr("read HEAD", err)
		}
		t.on = head.Hash
		t.tree, err = repo.Snapshot(ctx)
		return t, err
	}
	found, err := t.read(ctx)
	if err != nil {
		return nil, gitErr("read what is verified", err)
	}
	if found {
		if at, err := repo.RefCommit(t.aside()); err == nil && at != "" && at == t.on {
			t.branch = t.aside()
		}
		return t, nil
	}
	if len(l.history.Verified()) > 0 || len(l.history.WaveCommits) > 0 {
		return nil, gitErr("read what is verified", &gitops.RefusedError{Reason: t.ref +
			", which has the work that this run verified, is gone",
			Hint: "git fetch it from where it is, or start a new run"})
	}
	goes, err := t.goOn(ctx)
	if err == nil && !goes {
		var on string
		if on, err = t.ground(ctx); err == nil {
			err = t.plan(ctx, on)
		}
	}
	if refused, ok := errors.AsType[*gitops.RefusedError](err); ok && !isGit(err) { // since the start was checked
		err = gitErr("start", refused)
	}
	return t, err
}

// goOn lets a new run over a tag begin at the trunk of the last one if that has work of tasks that the list calls done
// and no commit has.
func (t *trunk) goOn(ctx context.Context) (bool, error) {
	if t.run.state.Kind != store.KindTag {
		return false, nil
	}
	last, err := leftBy(ctx, t.run.tools.Repo, t.branch, t.run.state.Tag, t.done)
	if err != nil || last == nil {
		return false, err
	}
	head, err := t.head(ctx)
	if err == nil && head == "" && t.branch != "" { // it is to be made
		if head, err = tipOf(ctx, t.run.tools.Repo, t.branch); err == nil && head != "" {
			err = t.repo.MoveRef(ctx, t.branch, "", head, "descartes: made")
		}
	}
	if last.ref, last.now, last.grow = t.ref, t.chain.now, t.grow; err == nil {
		err = last.save(ctx)
	}
	if err != nil {
		return false, gitErr("begin where the last run ended", err)
	}
	t.chain = *last
	return true, nil
}

// CanBegin reports, as a RefusedError, why a new run, over the tag name or a prompt loop of that name, cannot begin at
// a branch, "" being a detached HEAD, because of what an earlier one left. done says which tasks are done; nil for a
// prompt loop.
func CanBegin(ctx context.Context, repo *gitops.Repo, branch, name string, done func(task string) bool) error {
	if done != nil {
		if last, err := leftBy(ctx, repo, branch, name, done); err != nil || last != nil {
			return err
		}
	}
	_, _, err := groundOf(ctx, repo, branch, asideOf(name))
	return err
}

// Elsewhere is the ref with the work of runs over a tag that a branch, "" being a detached HEAD, lacks, "" for none:
// the branch aside, or the trunk with work that was not committed, whose tasks are named.
func Elsewhere(ctx context.Context, repo *gitops.Repo, branch, tag string) (ref string, loose []string, err error) {
	last, err := leftBy(ctx, repo, branch, tag, func(string) bool { return true })
	if err != nil {
		return "", nil, err
	}
	if last != nil {
		return store.TagTrunkRef(tag), last.units, nil
	}
	on, err := tipOf(ctx, repo, branch)
	if err != nil {
		return "", nil, err
	}
	if _, ours, err := aheadOf(ctx, repo, on, asideOf(tag)); err != nil || !ours {
		return "", nil, err
	}
	return shortRef(asideOf(tag)), nil, nil
}

// KeptAs says where work on tasks is that is in no commit of the user's.
func KeptAs(tasks []string, ref string) string {
	word := "tasks"
	if len(tasks) == 1 {
		word = "task"
	}
	return fmt.Sprintf("the work done on %s %s is kept as %s", word, oneline.List(tasks), ref)
}

// OnBranch says where commits are that the user's files did not follow.
func OnBranch(name, merging string) string {
	return fmt.Sprintf("on the branch %s; to bring them here: %s", name, merging)
}

// aheadOf is the commit of the branch aside if another lacks it, else "". ours says that a run made it.
func aheadOf(ctx context.Context, repo *gitops.Repo, on, aside string) (at string, ours bool, err error) {
	if at, err = repo.RefCommit(aside); err != nil || at == "" || on == "" {
		return "", false, err
	}
	if err := repo.Meet(ctx, on, at); err != nil {
		return "", false, err
	}
	if repo.LeadsTo(ctx, on, at) || holds(ctx, repo, on, at) {
		return "", false, err
	}
	list, err := repo.News(ctx, on, at, "Descartes-Loop", "")
	return at, len(list) > 0, err
}

// leftBy is the trunk of the last run over a tag, if a new one is to begin there; nil if not.
func leftBy(ctx context.Context, repo *gitops.Repo, branch, tag string, done func(task string) bool) (*chain, error) {
	ref, last := store.TagTrunkRef(tag), &chain{repo: repo}
	found, err := last.readAt(ctx, ref)
	if err != nil || !found || len(last.units) == 0 {
		return nil, err
	}
	head, err := tipOf(ctx, repo, branch)
	// somebody merged it
	if err != nil || repo.LeadsTo(ctx, head, last.tip) || head != "" && holds(ctx, repo, head, last.tip) {
		return nil, err
	}
	again := slices.DeleteFunc(slices.Clone(last.units), done)
	switch {
	case len(again) == len(last.units): // all of it is to be done again
		return nil, nil
	case len(again) > 0:
		return nil, &gitops.RefusedError{Reason: fmt.Sprintf(
			"%s holds verified work on %s that is not committed, and %s is to be done again", ref,
			oneline.List(last.units), oneline.List(again)),
			Hint: repo.Merging(ctx, ref) + ", or set the others to pending too, then start again"}
	}
	if did, err := committedSince(ctx, repo, last, head, tag); err != nil || did {
		return nil, err
	}
	return last, nil
}

// committedSince reports whether all units of a tag's trunk were committed since. Trailers of earlier versions name a
// task without its tag: they count where runs made them that go on from the trunk.
func committedSince(ctx context.Context, repo *gitops.Repo, last *chain, head, tag string) (bool, error) {
	news, err := repo.News(ctx, last.on, head, "Descartes-Task", "")
	if err != nil || len(news) == 0 {
		return false, err
	}
	runs, err := repo.RefsWith(ctx, last.tip, store.TrunkRef("*"))
	if err != nil {
		return false, err
	}
	done := map[string]bool{}
	for _, c := range news {
		ours := slices.ContainsFunc(c.Trailers["Descartes-Loop"],
			func(id string) bool { return slices.Contains(runs, store.TrunkRef(id)) })
		for _, n := range c.Tasks() {
			if n.Tag == oneline.Text(tag) || n.Tag == "" && ours {
				done[n.Task] = true
			}
		}
	}
	return !slices.ContainsFunc(last.units, func(id string) bool { return !done[oneline.Text(id)] }), nil
}

// leaveTrunk keeps the trunk for the next run over the tag if it has work that no branch has. A ref that is there it
// removes only where it is this working tree's: else others go on from it.
func (t *trunk) leaveTrunk(ctx context.Context) error {
	ref := store.TagTrunkRef(t.run.state.Tag)
	if t.run.state.Kind != store.KindTag || !t.saved {
		return nil
	}
	was, err := t.repo.RefCommit(ref)
	switch {
	case err != nil || was == t.tip:
	case len(t.units) > 0:
		err = t.repo.MoveRef(ctx, ref, was, t.tip, "descartes: the trunk of run "+t.run.state.ID)
	case was != "" && t.owns(ctx, was):
		t.merged, err = was, t.run.tools.Repo.DeleteRefs(ctx, ref)
	}
	if err != nil {
		return gitErr("keep the trunk", err)
	}
	return nil
}

// owns reports whether the run went on from a trunk, or one in this working tree made it.
func (t *trunk) owns(ctx context.Context, tip string) bool {
	if t.repo.LeadsTo(ctx, t.tip, tip) {
		return true
	}
	refs, err := t.run.tools.Repo.RefsWith(ctx, tip, store.TrunkRef("*"))
	return err == nil && slices.ContainsFunc(refs, func(ref string) bool {
		_, err := os.Stat(t.run.home.Run(strings.Split(ref, "/")[2]))
		return err == nil
	})
}

// ground is the commit that a new run starts from. Where an earlier run left commits on the branch aside, it goes on
// from these.
func (t *trunk) ground(ctx context.Context) (on string, err error) {
	err = t.run.locks.inTree(ctx, func() error {
		tip, ahead, err := groundOf(ctx, t.run.tools.Repo, t.branch, t.aside())
		if on = tip; err != nil || ahead == "" || t.branch == t.aside() {
			return err
		}
		on = ahead
		return t.advance(ctx, tip, ahead, false)
	})
	return on, err
}

// groundOf is the commit of a branch that a new run is to begin at, and the one where the branch aside is ahead of it,
// "" for none.
func groundOf(ctx context.Context, repo *gitops.Repo, branch, aside string) (on, ahead string, err error) {
	if on, err = tipOf(ctx, repo, branch); err != nil {
		return "", "", err
	}
	at, ours, err := aheadOf(ctx, repo, on, aside)
	if err != nil || at == "" {
		return on, "", err
	}
	name, here := shortRef(aside), cmp.Or(shortRef(branch), "HEAD")
	if !ours {
		return "", "", &gitops.RefusedError{Reason: "the branch " + name +
			", where runs put commits that your files cannot follow, was not made by a run",
			Hint: "git branch -m " + name + " ANOTHER-NAME"}
	}
	if !repo.LeadsTo(ctx, at, on) {
		return "", "", &gitops.RefusedError{Reason: fmt.Sprintf(
			"an earlier run's commits are on the branch %s, and %s has moved on since", name, here),
			Hint: repo.Merging(ctx, name) + ", then start again"}
	}
	return on, at, nil
}

// tipOf is the commit of a branch, and of HEAD where it is to be made.
func tipOf(ctx context.Context, repo *gitops.Repo, branch string) (string, error) {
	if branch != "" {
		if at, err := repo.RefCommit(branch); err != nil || at != "" {
			return at, err
		}
	}
	head, err := repo.Head(ctx)
	return head.Hash, err
}

// begin makes the branch that the run is to commit to, and the chain's ref. A branch that was there at the start of a
// run and is gone is reported by head.
func (t *trunk) begin(ctx context.Context) error {
	if t.tip != "" {
		if err := t.save(ctx); err != nil {
			return gitErr("begin "+t.ref, err)
		}
	}
	if t.branch == "" || t.on == "" || len(t.links) > 1 {
		return nil
	}
	if at, err := t.run.tools.Repo.RefCommit(t.branch); err != nil || at != "" {
		return err
	}
	if err := t.run.tools.Repo.SetRef(ctx, t.branch, t.on, "descartes: made"); err != nil {
		return gitErr("make the branch "+t.branch, err)
	}
	return nil
}

// aside is the branch for commits that the user's own tree cannot follow.
func (t *trunk) aside() string { return asideOf(cmp.Or(t.run.state.Tag, t.run.state.ID)) }

func asideOf(name string) string { return "refs/heads/descartes/" + safename.Of(name) }

// head is the commit of the branch.
func (t *trunk) head(ctx context.Context) (string, error) {
	head, err := t.run.tools.Repo.Head(ctx)
	// begun on a detached HEAD: the branch is the user's own affair
	if err == nil && t.branch == "" && head.Branch != "" && t.on != "" {
		return t.on, nil
	}
	if err != nil || t.branch == "" || t.branch == head.Branch {
		return head.Hash, err
	}
	at, err := t.run.tools.Repo.RefCommit(t.branch)
	if err == nil && at == "" && t.on != "" {
		err = &gitops.RefusedError{Reason: "the branch " + shortRef(t.branch) + ", which gets the commits, is gone",
			Hint: fmt.Sprintf("git branch %s %.12s, then resume the run", shortRef(t.branch), t.on)}
	}
	return at, err
}

// elsewhere returns the branch that receives the commits if it is not checked out, else "".
func (t *trunk) elsewhere(ctx context.Context) string {
	if head, err := t.run.tools.Repo.Head(ctx); err != nil || head.Branch == t.branch {
		return ""
	}
	return shortRef(t.branch)
}

// made is how many of the branch's newest commits have all of the loop's; 0 if that is not known. In a prompt loop
// agents' own commits belong to it.
func (t *trunk) made(ctx context.Context) int {
	head, err := t.head(ctx)
	if err != nil || head == "" || len(t.links) == 0 || t.links[0].head == "" {
		return 0
	}
	all, err := t.run.tools.Repo.News(ctx, t.links[0].head, head, "", "")
	ours := slices.IndexFunc(all, func(c gitops.ChainLink) bool {
		return slices.Contains(c.Trailers["Descartes-Loop"], t.run.state.ID)
	})
	if err == nil && t.run.state.Kind == store.KindTag && ours > 0 {
		all = all[ours:]
	}
	return len(all)
}

func shortRef(ref string) string { return strings.TrimPrefix(ref, "refs/heads/") }

// fold folds in candidates and returns the fate of each; with an error, of those that it came to. It verifies in the
// slot of a lane.
func (t *trunk) fold(ctx context.Context, ln *lane, list []Candidate) ([]Fate, error) {
	f := folder{chain: &t.chain}
	f.verify = func(ctx context.Context, tree gitops.Tree, units []string) (verify.Result, error) {
		return t.verify(ctx, ln, tree, units, slices.ContainsFunc(list,
			func(c Candidate) bool { return c.Tree == tree && !c.Suspect }))
	}
	f.more = func(units []string) (more bool) {
		t.run.say(func() { more = len(t.run.checks.at(t.whens(units)[1:]...)) > 0 })
		return more
	}
	fates, err := f.fold(ctx, list)
	for try := 1; errors.Is(err, gitops.ErrGone) && try < 5; try++ { // what no ref names yet
		t.run.tools.Repo.AwaitGC(ctx)
		fates, err = f.fold(ctx, list)
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
func (t *trunk) verify(ctx context.Context, ln *lane, tree gitops.Tree, units []string, done bool) (res verify.Result,
	err error) {
	if t.unchecked {
		return verify.Result{Passed: true}, nil
	}
	var whens []verify.When
	alone := !done
	t.run.say(func() {
		if whens = t.whens(units); done {
			whens = whens[1:]
		} // else the wave's check tells whose fault it is
		alone = alone && !slices.ContainsFunc(t.units, func(unit string) bool { return t.proofs.doubted(unit) != nil })
	})
	if alone {
		if ln, err = t.run.checks.checkLane(ctx, ln); err != nil {
			return res, err
		}
	}
	if res, err = t.examine(ctx, ln, tree, units, whens...); err == nil && res.Passed && alone {
		t.proofs.prove(append(units, t.units...))
	}
	return res, err
}

// examine runs the checks of some points of a run on a state in a lane, as verify does.
func (t *trunk) examine(ctx context.Context, ln *lane, tree gitops.Tree, units []string,
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
func (t *trunk) whens(units []string) []verify.When {
	switch {
	case t.closes != nil && t.closes(units):
		return []verify.When{verify.AtAttempt, verify.AtMerge, verify.AtWave}
	case t.run.config.Slots() == 1: // nothing is merged before the wave
		return []verify.When{verify.AtAttempt}
	}
	return []verify.When{verify.AtAttempt, verify.AtMerge}
}

// commit commits the state in a slot and moves the branch, together with the user's files. If that is impossible the
// commits go to a branch aside. own is the tip of the agent's own commits, which become the branch's if they are still
// on top of it, or "". files, which may be nil, is what the commit has of files that others write too.
func (t *trunk) commit(ctx context.Context, ln *lane, wave gitops.Wave, own string,
	files func() map[string][]byte) (c gitops.Commit, err error) {
	repo := t.run.tools.Repo
	for try := 0; ; try++ {
		head, err := t.head(ctx)
		if err == nil && head != t.on { // another program committed meanwhile
			err = t.catchUp(ctx, ln, head)
		}
		if err != nil {
			return c, err
		}
		units, at := slices.Clone(t.units), head
		if own != "" && repo.LeadsTo(ctx, own, head) {
			at = own
		}
		if repo.ByGit() != "" || t.run.tools.Here { // who makes it reads the files
			base, err := repo.CommitTree(at)
			if err == nil {
				_, err = t.run.lanes.prepare(ctx, ln, workspace.Start{Base: base, Before: t.tree, At: at})
			}
			if err != nil {
				return c, err
			}
		}
		if wave.Tree, wave.On, wave.Began = t.tree, at, t.links[0].head; files != nil {
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
			if err = t.took(ctx, c.Hash, tree, units); err == nil {
				err = ln.slot.Settle(ctx)
			}
			return c, err
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
func (t *trunk) advance(ctx context.Context, tip, commit string, again bool) (err error) {
	repo := t.run.tools.Repo
	var left []gitops.LeftOut
	if head, herr := repo.Head(ctx); t.branch == "" && herr == nil && head.Branch != "" {
		left = []gitops.LeftOut{{Path: shortRef(head.Branch),
			Why: "it was checked out meanwhile, and the run began on a detached HEAD"}}
	} else {
		left, err = repo.Advance(ctx, t.branch, tip, commit, again)
	}
	if err != nil {
		return err
	}
	if len(left) > 0 {
		return t.giveWay(ctx, commit, left)
	}
	head, err := repo.Head(ctx)
	if err != nil || head.Branch == t.branch || t.away || t.branch == t.aside() || t.run.config.Git.Branch != "" ||
		t.run.config.Git.CreateBranch {
		return err
	}
	t.away = true
	return t.run.tell(&journal.Event{Type: journal.Warning, Message: shortRef(t.branch) +
		" is not checked out any more: the commits of this run go there, and your files stay as they are"})
}

// giveWay sends the commits from here on to a branch aside, which is made, or moved forward.
func (t *trunk) giveWay(ctx context.Context, commit string, left []gitops.LeftOut) error {
	if t.branch == t.aside() {
		return &gitops.RefusedError{Reason: "the branch " + shortRef(t.branch) + " cannot get the commit: " +
			workspace.Reasons(left),
			Hint: "check out another branch, or commit or stash your changes, then resume the run"}
	}
	repo, name := t.run.tools.Repo, shortRef(t.aside())
	at, err := repo.RefCommit(t.aside())
	if err != nil {
		return err
	}
	taken, why := "", ""
	if at == "" {
		taken, err = repo.NoRoom(ctx, t.aside())
		taken = shortRef(taken)
		why = "cannot be made beside the branch " + taken
	} else if at != commit && !repo.LeadsTo(ctx, commit, at) {
		taken, why = name, "has commits that they lack"
	}
	if err != nil {
		return err
	}
	if taken != "" {
		return &gitops.RefusedError{Reason: fmt.Sprintf(
			"your working tree cannot follow (%s), and the branch %s, where the commits would go, %s",
			workspace.Reasons(left), name, why),
			Hint: "git branch -m " + taken + " ANOTHER-NAME, then resume the run"}
	}
	if at != commit {
		if err := repo.MoveRef(ctx, t.aside(), at, commit,
			"descartes: commits that the files cannot follow"); err != nil {
			return err
		}
	}
	t.branch = t.aside()
	return t.run.tell(&journal.Event{Type: journal.Warning, Message: fmt.Sprintf(
		"your working tree cannot follow: %s; the commits of this run are %s",
		workspace.Reasons(left), OnBranch(name, repo.Merging(ctx, name)))})
}

// finish publishes the last commit of a dead loop if that was cut short. One that no branch got is forgotten: it is
// made again. One that the chain has taken in was published, and a rewind took it back.
func (t *trunk) finish(ctx context.Context) error {
	commit, err := t.run.tools.Repo.RefCommit(t.last())
	if err != nil || commit == "" || commit == t.on || slices.ContainsFunc(t.links,
		func(l link) bool { return l.brought == commit }) {
		return err
	}
	return t.run.locks.inTree(ctx, func() error {
		head, err := t.head(ctx)
		if err != nil || head == "" {
			return err
		}
		if _, next, err := t.run.tools.Repo.History(ctx, commit, head, t.longest()); err != nil || !next {
			return err
		}
		return t.advance(ctx, head, commit, true)
	})
}

// longest is how many commits one publication may consist of, its base included.
func (t *trunk) longest() int {
	if t.run.state.Kind == store.KindTag {
		return 2
	}
	return rewindLimit // an agent's own
}

// resume takes in what happened to the branch while no process ran the loop: commits that the dead loop made and did
// not record, and those of others.
func (t *trunk) resume(ctx context.Context) error {
	if !t.saved {
		return nil
	}
	if err := t.recorded(ctx); err != nil {
		return gitErr("look for the commits of a killed run", err)
	}
	// the other lanes hold unfinished work
	free := slices.IndexFunc(t.run.lanes.all, func(ln *lane) bool { return ln.order == nil })
	head, err := t.head(ctx)
	if err != nil || head == t.on || free < 0 {
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
func (t *trunk) recorded(ctx context.Context) error {
	repo := t.run.tools.Repo
	last, err := repo.RefCommit(t.last())
	if err != nil || last == "" || last != t.on {
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
func (t *trunk) catchUp(ctx context.Context, ln *lane, head string) error {
	repo := t.run.tools.Repo
	if t.on != "" && !repo.LeadsTo(ctx, head, t.on) {
		if err := t.stillThere(ctx, head); err != nil {
			return err
		}
	}
	news, err := repo.News(ctx, t.on, head, "Descartes-Loop", t.run.state.ID)
	if err != nil {
		return err
	}
	var has []string
	for _, c := range news {
		has = append(has, c.TasksOf(t.run.state.Tag)...)
		for _, n := range c.Trailers["Descartes-Iteration"] {
			has = append(has, iterationUnit(n))
		}
		if err := t.committedAs(ctx, c); err != nil {
			return err
		}
	}
	base, err := repo.CommitTree(head)
	if err != nil {
		return err
	}
	tree, met, err := t.take(ctx, head, has)
	if err != nil {
		return err
	}
	fate := Fate{Conflicts: met}
	if len(met) > 0 {
		if back, err := t.putBack(ctx, &fate, head, has); back || err != nil {
			return cmp.Or(err, t.backOut(ctx, head, has), errPutBack)
		}
	}
	if len(met) == 0 && tree != base {
		res, err := t.verify(ctx, ln, tree, []string{"what was committed meanwhile"}, false)
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
	return t.took(ctx, head, tree, has)
}

// errPutBack says that what was to be committed conflicts with what the branch got, and comes in again after that.
var errPutBack = errors.New("the work comes in again, on top of what was committed meanwhile")

// backOut takes in the branch's commit alone. Of the units only those stay that have changed nothing.
func (t *trunk) backOut(ctx context.Context, head string, has []string) error {
	base, err := t.repo.CommitTree(head)
	if err != nil {
		return err
	}
	was, err := t.repo.CommitTree(t.on)
	if err != nil {
		return err
	}
	units := slices.Clone(t.units)
	if err = t.takeOut(ctx, was, "", units...); err == nil {
		err = t.took(ctx, head, base, has)
	}
	for _, u := range units {
		done := false
		if t.run.say(func() { done = t.done(u) }); err == nil && done && !slices.Contains(has, u) {
			err = t.add(ctx, t.bring(u, u, head, base))
		}
	}
	return err
}

// committedAs records a wave's commit that a dead loop made and did not record.
func (t *trunk) committedAs(ctx context.Context, c gitops.ChainLink) error {
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

func (t *trunk) waveCommits() (list []journal.WaveCommit) {
	t.run.say(func() { list = slices.Clone(t.run.history.WaveCommits) })
	return list
}

// stillThere ends the run with a pause if tasks whose commits the branch had are in none any more: somebody took them
// away. It does so once.
func (t *trunk) stillThere(ctx context.Context, head string) error {
	was, err := t.repo.CommitTree(t.on)
	if err != nil {
		return err
	}
	if is, err := t.repo.CommitTree(head); err != nil || is == was { // only words have changed
		return err
	}
	there, err := t.run.tools.Repo.News(ctx, "", head, "Descartes-Loop", t.run.state.ID)
	if err != nil {
		return err
	}
	var gone []string
	for _, w := range t.waveCommits() {
		if holds(ctx, t.run.tools.Repo, head, w.Commit) { // reworded, squashed, rebased
			continue
		}
		for _, id := range w.Tasks {
			named := func(c gitops.ChainLink) bool {
				return slices.Contains(c.TasksOf(t.run.state.Tag), oneline.Text(id))
			}
			t.run.say(func() {
				if !t.run.history.Task(id).Gone && t.done(id) && !slices.ContainsFunc(there, named) {
					gone = append(gone, id)
				}
			})
		}
	}
	if len(gone) == 0 {
		return nil
	}
	e := &journal.Event{Type: journal.Warning, Reason: journal.ReasonGone, Tasks: gone,
		Message: fmt.Sprintf("%s lost the commit of %s, which this run had made: resume the run to have that done again; if you bring it back first "+
			"(git reflog has it), or its work is there in another form, set it to done: descartes tasks set %s done",
			cmp.Or(shortRef(t.branch), "HEAD"), oneline.List(gone), gone[0])}
	if err := t.run.tell(e); err != nil {
		return err
	}
	t.halted = true
	return &endError{Outcome{Ending: journal.Paused, Message: e.Message}}
}

// holds reports whether a commit has all that another brings, task lists aside.
func holds(ctx context.Context, repo *gitops.Repo, head, commit string) bool {
	merged, met, err := repo.Merge(ctx, head, commit)
	if err != nil || len(met) > 0 {
		return false
	}
	is, err := repo.CommitTree(head)
	if err != nil {
		return false
	}
	changes, err := repo.Changed(ctx, is, merged)
	return err == nil && len(changes) == 0
}

// endError ends a run with an outcome.
type endError struct{ out Outcome }

func (e *endError) Error() string { return e.out.Message }

// drop takes out again what came in last of a unit, which no commit has.
func (t *trunk) drop(ctx context.Context, unit string) error {
	at := len(t.links) - 1
	for at > 0 && t.links[at].unit != unit {
		at--
	}
	if at < 1 || !slices.Contains(t.units, unit) {
		return nil
	}
	next, met, err := t.run.tools.Repo.MergeTrees(ctx, t.links[at].tree, t.tree, t.links[at-1].tree)
	if err == nil && len(met) > 0 {
		err = fmt.Errorf("what came in since does without it only by hand: %s", met[0].Path)
	}
	if err != nil {
		return fmt.Errorf("take out the work of %s: %w", unit, err)
	}
	return t.takeOut(ctx, next, "", unit)
}

// apart reports that somebody else's commit and the verified work do not merge.
func (t *trunk) apart(ctx context.Context, fate *Fate) error {
	return &apartError{&gitops.RefusedError{
		Reason: "somebody committed meanwhile, and the verified work conflicts with that: " + fate.Reason(),
		Hint:   t.run.tools.Repo.Merging(ctx, cmp.Or(t.kept, t.ref)) + ", then resume the run"}}
}

type apartError struct{ refused *gitops.RefusedError }

func (e *apartError) Error() string { return e.refused.Error() }

func (e *apartError) Unwrap() error { return e.refused }

// last is the ref that keeps the last commit, set before it is published.
func (t *trunk) last() string { return "refs/descartes/" + t.run.state.ID + "/commit" }

// iterationUnit is the name of an iteration's work in the chain.
func iterationUnit(number string) string { return "iteration " + number }
