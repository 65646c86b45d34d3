package loop

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"descartes/gitops"
	"descartes/internal/oneline"
	"descartes/internal/receipt"
	"descartes/loop/journal"
	"descartes/loop/workspace"
	"descartes/verify"
)

// Integration folds the results of simultaneous attempts into one state. Each state it accepts has passed verification as a whole.
type Integration struct {
	Tree gitops.Tree // all verified work, in the order of acceptance

	history []Fate                    // accepted candidates
	more    func(units []string) bool // whether these units' combined work needs further checks; nil: never
	merge   func(ctx context.Context, base, ours, theirs gitops.Tree) (gitops.Tree, []gitops.Conflict, error)
	verify  func(ctx context.Context, tree gitops.Tree, units []string) (verify.Result, error)
}

// since returns the units accepted after a state.
func (g *Integration) since(base gitops.Tree) (units []string) {
	for _, f := range slices.Backward(g.history) {
		if f.Tree == base {
			break
		}
		units = append(units, f.Unit)
	}
	slices.Reverse(units)
	return units
}

// accept makes state the current one.
func (g *Integration) accept(state gitops.Tree, fates ...*Fate) {
	g.Tree = state
	for _, f := range fates {
		f.Tree = state
		g.history = append(g.history, *f)
	}
}

// Candidate is a verified result to fold in.
type Candidate struct {
	Unit string
	Base gitops.Tree // integration state its attempt started from
	Tree gitops.Tree // its verified result
}

// Fate says what happened to a candidate: it was accepted, it conflicts, or verification fails with it. In the last two cases the state is as before.
type Fate struct {
	Unit      string
	Tree      gitops.Tree // state in which it was accepted, else ""
	Conflicts []gitops.Conflict
	Failure   *verify.Result // of the state with it on top
	After     []string       // units integrated since its attempt started
}

// Accepted reports whether the candidate is now part of the state.
func (f *Fate) Accepted() bool { return f.Tree != "" }

// Reason says in one line why a candidate was rejected.
func (f *Fate) Reason() string {
	with := "the work integrated meanwhile"
	if len(f.After) > 0 {
		with = "the work of " + oneline.List(f.After) + ", integrated meanwhile"
	}
	switch {
	case f.Accepted():
		return ""
	case len(f.Conflicts) > 0:
		list := make([]string, len(f.Conflicts))
		for i, c := range f.Conflicts {
			list[i] = c.String()
		}
		return "its changes conflict with " + with + ": " + oneline.List(list)
	case f.Failure != nil && len(f.After) == 0: // a check that no attempt runs alone
		return f.Failure.Reason()
	}
	return "verification fails on its changes together with " + with
}

// Detail is what the next attempt learns: where the two conflict, or how the verification failed.
func (f *Fate) Detail() string {
	var b strings.Builder
	for _, c := range f.Conflicts {
		fmt.Fprintf(&b, "%s (%s)", c.Path, c.Kind)
		if c.Why != "" {
			b.WriteString(": " + c.Why)
		}
		b.WriteByte('\n')
	}
	if f.Failure != nil {
		b.WriteString(f.Failure.Tail)
	}
	return b.String()
}

// verdicts holds the result of each verified state; nil means it passed.
type verdicts map[gitops.Tree]*verify.Result

// Fold folds in candidates in the order in which they finished, and returns the fate of each. All that merge are verified together. Only if that
// fails are they verified one by one, and the candidates with which verification fails are left out. After an error the state is as far as it was
// verified; fold the candidates without a fate again.
func (g *Integration) Fold(ctx context.Context, batch []Candidate) ([]Fate, error) {
	known := verdicts{g.Tree: nil}
	state := g.Tree
	fates := make([]Fate, len(batch))
	var units []string
	for i, c := range batch {
		next, conflicts, err := g.merge(ctx, c.Base, state, c.Tree)
		if err != nil {
			return nil, err
		}
		fates[i] = Fate{Unit: c.Unit, Conflicts: conflicts, After: append(g.since(c.Base), units...)}
		if len(conflicts) > 0 {
			continue
		}
		state = next
		if units = append(units, c.Unit); next == c.Tree && (g.more == nil || !g.more(units)) {
			known[next] = nil // its verification just passed
		}
	}
	failure, err := g.check(ctx, known, state, units)
	if err != nil {
		return nil, err
	}
	if failure != nil {
		return g.oneByOne(ctx, known, batch)
	}
	var accepted []*Fate
	for i := range fates {
		if len(fates[i].Conflicts) == 0 {
			accepted = append(accepted, &fates[i])
		}
	}
	g.accept(state, accepted...)
	return fates, nil
}

// oneByOne verifies the state after each candidate.
func (g *Integration) oneByOne(ctx context.Context, known verdicts, batch []Candidate) (fates []Fate, err error) {
	for _, c := range batch {
		f := Fate{Unit: c.Unit, After: g.since(c.Base)}
		var next gitops.Tree
		if next, f.Conflicts, err = g.merge(ctx, c.Base, g.Tree, c.Tree); err != nil {
			return fates, err
		}
		if len(f.Conflicts) == 0 {
			if f.Failure, err = g.check(ctx, known, next, append(f.After, c.Unit)); err != nil {
				return fates, err
			}
			if f.Failure == nil {
				g.accept(next, &f)
			}
		}
		fates = append(fates, f)
	}
	return fates, nil
}

// check verifies a state unless its result is known. It returns the failure, or nil if it passed.
func (g *Integration) check(ctx context.Context, known verdicts, tree gitops.Tree, units []string) (*verify.Result, error) {
	if failure, ok := known[tree]; ok {
		return failure, nil
	}
	res, err := g.verify(ctx, tree, units)
	if err != nil {
		return nil, err
	}
	if res.Cancelled {
		return nil, stoppedError("the verification of the merged work was stopped")
	}
	if known[tree] = &res; res.Passed {
		known[tree] = nil
	}
	return known[tree], nil
}

// trunk is where the work of slots comes together: all verified work, and the branch that receives its commits.
type trunk struct {
	*Loop
	pool   *workspace.Pool
	merged Integration
	on     string // the commit that the state builds on
	branch string // ref that receives the commits; its files follow if it is checked out; "" for a detached HEAD
	away   bool   // it was reported that the branch is no longer checked out
	queue  []*candidate
	busy   bool   // a lane is folding or committing and owns the state
	loose  string // commit a dead loop made and did not record, or ""
	stop   *stopper

	unchecked bool // the state has work that was not verified, and need not be

	closes func(units []string) bool // whether they complete a wave; nil: there are no waves
	fewer  func(units []string) bool // whether one of them may reduce the number of tests
}

// candidate is a verified result waiting to be folded in.
type candidate struct {
	Candidate
	note func(*Fate) error // records its fate before anybody can commit it
	fate *Fate
	err  error
}

// takes returns the branch that receives the commits of a run in slots: the one made for it, else the one checked out at its start; "" for a detached
// HEAD.
func (l *Loop) takes(ctx context.Context) (string, error) {
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

// push pushes the branch with the commits, and the refs of kept attempts, to the branch's remote. If it cannot, it warns with the command to type.
func (l *Loop) push(ctx context.Context, stop *stopper, out *Outcome) error {
	if !l.config.Git.Push || out.Ending == journal.BaselineFails || out.Ending == journal.DiskFull {
		return nil
	}
	branch := "refs/heads/" + l.branch
	if l.trunk != nil {
		branch = l.trunk.branch
	} else if l.branch == "" {
		head, err := l.tools.Repo.Head(context.WithoutCancel(ctx))
		if err != nil {
			return gitErr("read HEAD", err)
		}
		branch = head.Branch
	}
	var specs []string
	own := "refs/descartes/" + l.state.ID + "/"
	if at, err := l.tools.Repo.RefCommit(branch); err == nil && at != "" { // otherwise the run ended before the branch was made
		specs = append(specs, branch)
	}
	specs = append(specs, own+"*:"+own+"*", "^"+own+"state", "^"+own+"commit", "^"+own+"baseline") // these three move from run to run
	remote, err := l.tools.Repo.Remote(branch)
	all := specs
	if l.hasNotes() {
		all = append(slices.Clip(specs), receipt.NotesRef)
	}
	command := fmt.Sprintf("git push %s '%s'", cmp.Or(remote, "REMOTE"), strings.Join(all, "' '"))
	if err == nil {
		pctx, done := stop.committing(ctx, nil) // not ended by what ended the run
		defer done()
		var notes error
		l.unlocked(func() {
			if err = l.tools.Repo.Push(pctx, remote, specs); err == nil {
				notes = l.pushNotes(pctx, remote)
			}
		})
		if err == nil && notes != nil {
			return l.record(&journal.Event{Type: journal.Warning, Message: fmt.Sprintf("the work of this run is pushed, its receipts are not: %v; to push them: git push %s %s", notes, remote, receipt.NotesRef)})
		}
	}
	if err == nil {
		return nil
	}
	out.Unpushed = command
	return l.record(&journal.Event{Type: journal.Warning, Message: fmt.Sprintf("the work of this run is not pushed: %v; to push it: %s", err, command)})
}

// hasNotes reports whether there are receipts.
func (l *Loop) hasNotes() bool {
	at, err := l.tools.Repo.RefCommit(receipt.NotesRef)
	return err == nil && at != ""
}

// pushNotes merges the receipts that others pushed into ours and pushes the result. It never forces.
func (l *Loop) pushNotes(ctx context.Context, remote string) error {
	if !l.hasNotes() {
		return nil
	}
	if err := l.tools.Repo.MergeNotes(ctx, remote, receipt.NotesRef, receipt.Join); err != nil {
		return err
	}
	return l.tools.Repo.Push(ctx, remote, []string{receipt.NotesRef})
}

// newTrunk finds the integration state: from the journal, else the tip of the branch.
func (l *Loop) newTrunk(ctx context.Context, stop *stopper, pool *workspace.Pool) (t *trunk, err error) {
	repo := l.tools.Repo
	t = &trunk{Loop: l, stop: stop, pool: pool, merged: Integration{merge: repo.MergeTrees}, branch: l.history.Branch}
	if t.branch == "" { // from an earlier version, or a detached HEAD
		if t.branch, err = l.takes(ctx); err != nil {
			return nil, err
		}
	}
	if l.history.Integrated != "" {
		t.merged.Tree, t.on = gitops.Tree(l.history.Integrated), l.history.IntegratedOn
		if at, err := repo.RefCommit(t.aside()); err == nil && at != "" && at == t.on {
			t.branch = t.aside()
		}
		return t, t.finish(ctx)
	}
	if t.on, err = t.tip(ctx); err != nil {
		return nil, err
	}
	if t.on == "" { // the branch is to be made
		head, err := repo.Head(ctx)
		if err != nil {
			return nil, gitErr("read HEAD", err)
		}
		t.on = head.Hash
	}
	if l.state.Kind != KindTag && !l.config.Git.AutoCommit { // nobody commits: what there is is the tree as it is
		t.merged.Tree, err = repo.Snapshot(ctx)
		return t, err
	}
	if t.merged.Tree, err = repo.CommitTree(t.on); err != nil {
		return nil, err
	}
	return t, t.finish(ctx)
}

// begin makes the branch that the run is to commit to. One that was there at the start of a run and is gone is reported by tip.
func (t *trunk) begin(ctx context.Context) error {
	if t.history.Integrated != "" || t.branch == "" || t.on == "" {
		return nil
	}
	if at, err := t.tools.Repo.RefCommit(t.branch); err != nil || at != "" {
		return err
	}
	if err := t.tools.Repo.PinCommit(ctx, t.branch, t.on); err != nil {
		return gitErr("make the branch "+t.branch, err)
	}
	return nil
}

// aside is the branch for commits that the user's own tree cannot follow.
func (t *trunk) aside() string {
	return "refs/heads/descartes/" + FileName(cmp.Or(t.state.Tag, t.state.ID))
}

// tip is the commit the next one builds on.
func (t *trunk) tip(ctx context.Context) (string, error) {
	head, err := t.tools.Repo.Head(ctx)
	if err == nil && t.branch == "" && head.Branch != "" && t.on != "" { // begun on a detached HEAD: the branch is the user's own affair
		return t.on, nil
	}
	if err != nil || t.branch == "" || t.branch == head.Branch {
		return head.Hash, err
	}
	at, err := t.tools.Repo.RefCommit(t.branch)
	if err == nil && at == "" && t.on != "" {
		err = &gitops.RefusedError{Reason: "the branch " + shortRef(t.branch) + ", which gets the commits, is gone", Hint: fmt.Sprintf("git branch %s %.12s, then resume the loop", shortRef(t.branch), t.on)}
	}
	return at, err
}

// elsewhere returns the branch that receives the commits if it is not checked out, else "".
func (t *trunk) elsewhere(ctx context.Context) string {
	if head, err := t.tools.Repo.Head(ctx); err != nil || head.Branch == t.branch {
		return ""
	}
	return shortRef(t.branch)
}

func shortRef(ref string) string { return strings.TrimPrefix(ref, "refs/heads/") }

// alone calls do while nobody else folds or commits, and no git gc runs.
func (t *trunk) alone(ctx context.Context, do func() error) error {
	for t.busy {
		t.changed.Wait()
	}
	t.busy = true
	defer func() { t.busy = false; t.changed.Broadcast() }()
	t.unlocked(func() { t.tools.Repo.AwaitGC(ctx) })
	return do()
}

// fold waits for its turn, then folds in all waiting candidates, the lane's own included. It verifies in the lane's slot.
func (t *trunk) fold(ctx context.Context, ln *lane, c Candidate, note func(*Fate) error) (*Fate, error) {
	mine := &candidate{Candidate: c, note: note}
	t.queue = append(t.queue, mine)
	err := t.alone(ctx, func() error {
		if mine.fate != nil { // another lane folded it meanwhile
			return nil
		}
		batch := t.queue
		t.queue = nil
		list := make([]Candidate, len(batch))
		for i := range batch {
			list[i] = batch[i].Candidate
		}
		t.merged.verify = func(ctx context.Context, tree gitops.Tree, units []string) (verify.Result, error) {
			return t.verify(ctx, ln, tree, units, slices.ContainsFunc(list, func(c Candidate) bool { return c.Tree == tree }))
		}
		t.merged.more = func(units []string) bool { return len(t.checksAt(t.whens(units)[1:]...)) > 0 }
		fates, err := t.merged.Fold(ctx, list)
		for i := range fates {
			batch[i].fate = &fates[i]
			batch[i].err = batch[i].note(&fates[i])
		}
		t.queue = append(batch[len(fates):], t.queue...) // interrupted: whoever is next folds these
		return err
	})
	if mine.fate == nil {
		t.queue = slices.DeleteFunc(t.queue, func(x *candidate) bool { return x == mine })
		return nil, err
	}
	return mine.fate, mine.err
}

// verify runs the checks that an integration state has to pass. It returns the first result that is not a pass, else the last. done says that an
// attempt's checks have already passed on the state.
func (t *trunk) verify(ctx context.Context, ln *lane, tree gitops.Tree, units []string, done bool) (res verify.Result, err error) {
	if t.unchecked {
		return verify.Result{Passed: true}, nil
	}
	whens := t.whens(units)
	if done {
		whens = whens[1:]
	}
	log := filepath.Join(t.home.Run(t.state.ID), "logs", "integration.log")
	res.Passed = true
	tasks := slices.DeleteFunc(slices.Clone(units), func(id string) bool { return t.history.Tasks[id] == nil }) // else it is what others committed
	for _, c := range t.commands(t.checksAt(whens...), "", t.fewer != nil && t.fewer(units)) {
		when := verify.AtMerge
		if c.At(verify.AtWave) {
			when = verify.AtWave
		}
		if res, err = t.onState(ctx, t.stop, ln, tree, when, &c, "integration of "+oneline.List(units), log, tasks...); err != nil || !res.Passed {
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
	case t.config.Slots() == 1: // nothing is merged before the wave
		return []verify.When{verify.AtAttempt}
	}
	return []verify.When{verify.AtAttempt, verify.AtMerge}
}

// commit commits the state in a slot and moves the branch, together with the user's files. If that is impossible the commits go to a branch aside.
// own is the tip of the agent's own commits, which become the branch's if they are still on top of it, or "". made finds the commit that a dead loop had
// made, nil: none is looked for; tries counts from 0.
func (t *trunk) commit(ctx context.Context, ln *lane, wave gitops.Wave, own string, made func(tip string) (string, bool, error), tries int) (c gitops.Commit, tree gitops.Tree, err error) {
	repo := t.tools.Repo
	tip, err := t.tip(ctx)
	if err != nil {
		return c, "", err
	}
	base, err := repo.CommitTree(tip)
	if err != nil {
		return c, "", err
	}
	if tip != t.on && t.resumed && made != nil { // a loop that died before it recorded the hash may have made it
		if hash, found, err := made(tip); err != nil || found && hash == tip {
			if err == nil {
				t.merged.Tree, t.on = base, tip
			}
			return gitops.Commit{Hash: hash}, base, err
		}
	}
	if tip != t.on { // another program committed meanwhile
		if err := t.follow(ctx, ln, tip, base); err != nil {
			return c, "", err
		}
	}
	at := tip
	if own != "" && repo.LeadsTo(ctx, own, tip) {
		if base, err = repo.CommitTree(own); err != nil {
			return c, "", err
		}
		at = own
	}
	if _, err := t.prepare(ctx, ln, workspace.Start{Base: base, Before: t.merged.Tree, At: at}); err != nil {
		return c, "", err
	}
	wave.Results, wave.Root = []gitops.Pair{{Base: base, Result: t.merged.Tree, Head: at}}, tip == ""
	t.unlocked(func() { c, err = ln.slot.Repo().CommitWave(ctx, wave) }) // its hooks may be slow
	if err != nil || c.Empty && at == tip {
		return c, base, err
	}
	c.Hash = cmp.Or(c.Hash, at)
	if tree, err = repo.CommitTree(c.Hash); err != nil {
		return c, "", err
	}
	if err = repo.PinCommit(ctx, t.last(), c.Hash); err == nil {
		err = t.publish(ctx, tip, c.Hash, false)
	}
	if err != nil {
		if now, terr := t.tip(ctx); terr == nil && now != tip && now != c.Hash && tries < 3 { // another program committed during the hooks
			return t.commit(ctx, ln, wave, own, made, tries+1)
		}
		return c, "", err
	}
	t.merged.Tree, t.on = tree, c.Hash
	return c, tree, ln.slot.Settle(ctx)
}

// publish moves the branch to a commit, together with the user's files if it is checked out. If that is impossible, later commits go to a branch
// aside. again says that an earlier call was cut short.
func (t *trunk) publish(ctx context.Context, tip, commit string, again bool) (err error) {
	repo := t.tools.Repo
	var left []gitops.LeftOut
	if head, herr := repo.Head(ctx); t.branch == "" && herr == nil && head.Branch != "" {
		left = []gitops.LeftOut{{Path: shortRef(head.Branch), Why: "it was checked out meanwhile, and the run began on no branch"}}
	} else if t.branch == "" {
		left, err = repo.Forward(ctx, tip, commit, again)
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
	if err != nil || head.Branch == t.branch || t.away || t.branch == t.aside() || t.config.Git.Branch != "" || t.config.Git.CreateBranch {
		return err
	}
	t.away = true
	return t.record(&journal.Event{Type: journal.Warning, Message: shortRef(t.branch) + " is not checked out any more: the commits of this run go there, and your files stay as they are"})
}

// giveWay sends the commits from here on to a branch aside.
func (t *trunk) giveWay(ctx context.Context, commit string, left []gitops.LeftOut) error {
	if t.branch == t.aside() {
		return &gitops.RefusedError{Reason: "the branch " + shortRef(t.branch) + " cannot get the commit: " + workspace.Reasons(left), Hint: "check out another branch, or commit or stash your changes, then resume the loop"}
	}
	t.branch = t.aside()
	if err := t.tools.Repo.PinCommit(ctx, t.branch, commit); err != nil {
		return err
	}
	return t.record(&journal.Event{Type: journal.Warning, Message: fmt.Sprintf("your working tree cannot follow: %s; the commits of this run are on the branch %s: commit or stash your changes, then git merge %[2]s",
		workspace.Reasons(left), shortRef(t.branch))})
}

// finish publishes the last commit of a dead loop if that was cut short.
func (t *trunk) finish(ctx context.Context) error {
	commit, err := t.tools.Repo.RefCommit(t.last())
	if err != nil || commit == "" || commit == t.on || commit == t.history.LastCommit {
		return err
	}
	tip, err := t.tip(ctx)
	if err != nil {
		return err
	}
	if _, next, err := t.tools.Repo.History(ctx, commit, tip, t.longest()); err != nil || next {
		if t.loose = commit; err != nil || commit == tip {
			return err
		}
		return t.publish(ctx, tip, commit, true)
	}
	if _, below, err := t.tools.Repo.History(ctx, tip, commit, rewindLimit); err != nil || !below { // the branch never had the commit
		return err
	}
	t.loose = commit
	return nil
}

// longest is how many commits one publication may consist of, its base included.
func (t *trunk) longest() int {
	if t.state.Kind == KindTag {
		return 2
	}
	return rewindLimit // an agent's own
}

// catchUp updates the state with what happened to the branch while no process ran the loop: a commit the dead loop made and did not record, whose
// trailers say what it contains, and commits by others.
func (t *trunk) catchUp(ctx context.Context) error {
	if t.loose != "" {
		wave, err := t.tools.Repo.ReadWave(ctx, t.loose)
		if err != nil || wave.Loop != t.state.ID {
			return err
		}
		t.merged.Tree, t.on = wave.Tree, t.loose
		if err := t.record(&journal.Event{Type: journal.WaveCommitted, Wave: wave.Number, Commit: t.loose, Tree: string(wave.Tree), Tasks: wave.Tasks, Message: wave.Subject, Of: wave.Files}); err != nil {
			return err
		}
	}
	free := slices.IndexFunc(t.lanes, func(ln *lane) bool { return ln.task == "" }) // the other lanes hold unfinished work
	tip, err := t.tip(ctx)
	if err != nil || tip == t.on || free < 0 {
		return err
	}
	base, err := t.tools.Repo.CommitTree(tip)
	if err != nil {
		return err
	}
	err = t.alone(ctx, func() error { return t.follow(ctx, t.lanes[free], tip, base) })
	if _, apart := errors.AsType[*apartError](err); apart {
		return gitErr("continue from what was committed meanwhile", err)
	}
	return err
}

// follow updates the state with a commit by somebody else, once the result is verified as a whole.
func (t *trunk) follow(ctx context.Context, ln *lane, tip string, base gitops.Tree) error {
	if done, err := t.mergedByHand(ctx, ln, tip, t.merged.Tree); done || err != nil {
		return err
	}
	was, err := t.tools.Repo.CommitTree(t.on)
	if err != nil {
		return err
	}
	next, met, err := t.merged.merge(ctx, was, base, t.merged.Tree)
	if err != nil {
		return err
	}
	fate := Fate{Conflicts: met}
	if len(met) == 0 && next != base {
		res, err := t.verify(ctx, ln, next, []string{"what was committed meanwhile"}, false)
		if err != nil {
			return err
		}
		if !res.Passed {
			fate.Failure = &res
		}
	}
	if len(met) > 0 || fate.Failure != nil {
		return t.apart(&fate)
	}
	t.merged.Tree, t.on = next, tip
	return nil
}

// apart reports that somebody else's commit and the verified work do not merge.
func (t *trunk) apart(fate *Fate) error {
	return &apartError{&gitops.RefusedError{Reason: "somebody committed meanwhile, and the verified work conflicts with that: " + fate.Reason(),
		Hint: "git merge " + t.kept() + ", then resume the loop"}}
}

type apartError struct{ refused *gitops.RefusedError }

func (e *apartError) Error() string { return e.refused.Error() }
func (e *apartError) Unwrap() error { return e.refused }

// mergedByHand continues from a person's merge of the kept work, once that is verified.
func (t *trunk) mergedByHand(ctx context.Context, ln *lane, tip string, work gitops.Tree) (bool, error) {
	repo := t.tools.Repo
	kept, err := repo.RefCommit(t.kept())
	if err != nil || kept == "" || tip == "" {
		return false, nil
	}
	if tree, err := repo.CommitTree(kept); err != nil || tree != work || !repo.LeadsTo(ctx, tip, kept) {
		return false, nil
	}
	base, err := repo.CommitTree(tip)
	if err != nil {
		return false, err
	}
	if base != work {
		res, err := t.verify(ctx, ln, base, []string{"what was merged by hand"}, false)
		if err != nil {
			return false, err
		}
		if !res.Passed {
			return false, t.apart(&Fate{Failure: &res})
		}
	}
	t.merged.Tree, t.on = base, tip
	return true, nil
}

// pin keeps the state as a commit that a person can merge.
func (t *trunk) pin(ctx context.Context) error {
	if _, err := t.tools.Repo.Keep(ctx, t.kept(), t.merged.Tree, slices.DeleteFunc([]string{t.on}, func(h string) bool { return h == "" }), "descartes: verified so far\n\nWhat loop "+t.state.ID+" has verified, and no commit contains yet."); err != nil {
		return gitErr("keep the verified work", err)
	}
	return nil
}

// last is the ref that keeps the last commit, set before it is published.
func (t *trunk) last() string { return "refs/descartes/" + t.state.ID + "/commit" }

// kept is the ref that keeps the state.
func (t *trunk) kept() string { return "refs/descartes/" + t.state.ID + "/state" }
