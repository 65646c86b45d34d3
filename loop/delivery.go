package loop

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"descartes/config"
	"descartes/gitops"
	"descartes/internal/crash"
	"descartes/internal/oneline"
	"descartes/loop/attempt"
	"descartes/loop/journal"
	"descartes/loop/trunk"
	"descartes/loop/workspace"
)

// delivery brings what iterations changed where it belongs: into commits, or into the user's tree.
type delivery struct {
	run    *Loop
	prompt *promptWork
}

// keepTry keeps what a try of an iteration left that counts for nothing.
func (w *delivery) keepTry(ctx context.Context, it *Iteration, head string, work *workspace.Result,
	why string) (ref string, err error) {
	ref = w.tryRef(it)
	return ref, w.keep(ctx, ref, it, head, work, why)
}

func (w *delivery) keep(ctx context.Context, ref string, it *Iteration, head string, work *workspace.Result,
	why string) error {
	parents := slices.DeleteFunc([]string{head, work.Commits}, func(hash string) bool { return hash == "" })
	if _, err := w.run.tools.Repo.Keep(ctx, ref, work.After, slices.Compact(parents),
		fmt.Sprintf("run %s: iteration %d: %s", w.run.state.ID, it.Number, why)); err != nil {
		return gitErr("keep what an iteration left", err)
	}
	return nil
}

// uncommitted ends an iteration whose work could not be committed. It is made again: on top of what somebody committed
// meanwhile, else from its files.
func (w *delivery) uncommitted(ctx context.Context, u *unit, why error) error {
	if !isGit(why) {
		return why
	}
	end, res := w.run.worker.ends(u), &u.res
	ref, err := w.keepTry(ctx, u.it, u.stand.Head.Hash, &res.Work, journal.NotCommitted)
	if err != nil {
		return errors.Join(why, err)
	}
	end.Verdict, end.Reason, end.Ref = journal.Cancelled, journal.NotCommitted, ref
	if _, meanwhile := errors.AsType[*apartError](why); meanwhile {
		end.Tree = string(u.before)
	}
	return errors.Join(why, w.prompt.gate.ends(end))
}

// published is the last commit of this loop that is on the branch, if it was made on top of another one.
func (w *delivery) published(ctx context.Context, base string) (string, error) {
	tip, err := w.run.trunk.head(ctx)
	if err != nil {
		return "", err
	}
	last, err := w.run.tools.Repo.RefCommit(w.run.trunk.last())
	if err != nil || last == "" || last == base || !w.run.tools.Repo.LeadsTo(ctx, tip, last) || base != "" &&
		!w.run.tools.Repo.LeadsTo(ctx, last, base) {
		return "", err
	}
	return last, nil
}

// takeBack takes out of an iteration's work what only success may claim.
func (w *delivery) takeBack(ctx context.Context, u *unit) error {
	work := &u.res.Work
	if work.After == "" {
		return nil
	}
	files := map[string][]byte{}
	for name, data := range w.prompt.job.Rules.TakeBack(u.it) {
		rel, err := filepath.Rel(w.run.tools.Repo.Root(), filepath.Join(w.run.root, name))
		if err != nil || !filepath.IsLocal(rel) {
			return fmt.Errorf("take back %s: it is not below the repository", name)
		}
		// else it is in no commit anyway
		if rel = filepath.ToSlash(rel); slices.ContainsFunc(work.Changed,
			func(c gitops.Change) bool { return c.Path == rel }) {
			files[rel] = data
		}
	}
	if len(files) == 0 {
		return nil
	}
	after, err := w.run.tools.Repo.WithContent(ctx, work.After, files)
	if err != nil {
		return gitErr("take back what a failed iteration claimed", err)
	}
	if work.After = after; w.prompt.gate.unfit(u) == "" {
		return w.prompt.note(fmt.Sprintf("iteration %d planned, and ticked what was not done: "+
			"it stays open until a build passes its tests", u.it.Number))
	}
	return nil
}

// putAside keeps an iteration's prompt under another name. If that fails, a view shows the loop's own prompt.
func putAside(from, to string) {
	if os.Rename(from, to) != nil && os.MkdirAll(filepath.Dir(to), 0o755) == nil {
		_ = os.Rename(from, to)
	}
}

// withoutOurs takes out of the work what a criteria loop and its agent write below .loop, and what the iteration's
// rules do not take, which a ref keeps.
func (w *delivery) withoutOurs(ctx context.Context, u *unit) error {
	work, criteria := &u.res.Work, w.prompt.gate.criteria() != nil
	if w.run.tools.Repo == nil || work.After == "" {
		return nil
	}
	var paths, beside []string
	changed := slices.DeleteFunc(slices.Clone(work.Changed), func(c gitops.Change) bool {
		mine := OfLoopFile(c.Path) && criteria
		if mine {
			paths = append(paths, c.Path)
		} else if mine = !w.prompt.job.Rules.Takes(c.Path); mine {
			beside = append(beside, c.Path)
		}
		return mine
	})
	if u.it.Beside = len(beside) > 0; u.it.Beside {
		ref := w.tryRef(u.it) + "-code"
		if err := w.keep(ctx, ref, u.it, u.stand.Head.Hash, work, "what planning wrote"); err != nil {
			return err
		}
		if err := w.prompt.note(fmt.Sprintf("iteration %d planned, and wrote what is no document (%s): "+
			"that is in no commit, but kept as %s", u.it.Number, oneline.List(beside), ref)); err != nil {
			return err
		}
	}
	var err error
	work.Changed, work.Left = changed, append(work.Left, beside...)
	if work.After, err = w.run.tools.Repo.TreeWith(ctx, work.After, work.Before, append(paths, beside...)); err != nil {
		return gitErr("take the work of an iteration", err)
	}
	return nil
}

// loose reports whether iterations run in a slot and nobody commits them: each starts from the user's tree as it is,
// and its changes arrive there.
func (w *delivery) loose() bool { return w.run.trunk != nil && !w.run.config.Git.AutoCommit }

// deliver commits what an iteration changed, or brings it into the user's tree.
func (w *delivery) deliver(ctx context.Context, u *unit) error {
	work := &u.res.Work
	if work.TookBack != "" {
		return nil
	}
	if !w.loose() || work.After == "" || work.After == u.it.base {
		return w.commit(ctx, u)
	}
	why := ""
	gctx, done := attempt.Linger(ctx)
	defer done()
	err := w.run.locks.inTree(gctx, func() (err error) {
		why, err = w.run.tools.Repo.Arrive(context.WithoutCancel(ctx), u.it.base, work.After)
		return err
	})
	if why != "" {
		u.it.apart = fmt.Sprintf("your working tree cannot take what iteration %d changed: %s; it is kept as %s",
			u.it.Number, why, w.iterationRef(u.it.Number))
	}
	if err != nil {
		return gitErr(fmt.Sprintf("bring the work of iteration %d into your tree", u.it.Number), err)
	}
	return nil
}

// tryRef keeps a try of an iteration whose work is in no commit; iterationRef names the last one.
func (w *delivery) tryRef(it *Iteration) string {
	return fmt.Sprintf("refs/descartes/%s/iteration-%d-%d", w.run.state.ID, it.Number, it.Try)
}

func (w *delivery) iterationRef(n int) string {
	return fmt.Sprintf("refs/descartes/%s/iteration-%d", w.run.state.ID, n)
}

// commit commits what an iteration changed, and what a dead loop took in and did not commit, and nothing else.
func (w *delivery) commit(ctx context.Context, u *unit) error {
	work := &u.res.Work
	if !w.run.config.Git.AutoCommit || work.After == "" {
		return nil
	}
	if w.prompt.gate.unfit(u) != "" {
		return nil // the next iteration continues from it
	}
	if work.After == u.it.base && len(w.run.trunk.Units) == 0 {
		return w.run.worker.bringNamed(ctx, u)
	}
	if err := w.commitSlot(ctx, u); err != nil {
		return w.uncommitted(context.WithoutCancel(ctx), u, err)
	}
	return nil
}

// commitSlot commits what an iteration changed in its slot, and moves the user's branch.
func (w *delivery) commitSlot(ctx context.Context, u *unit) error {
	t, gctx := w.run.trunk, context.WithoutCancel(ctx)
	t.unchecked = !w.prompt.job.Rules.Checks(u.it)
	tree := u.res.Work.After
	unit := trunk.IterationUnit(strconv.Itoa(u.it.Number))
	t.kept = w.tryRef(u.it)
	made, err := w.keepIteration(gctx, u, u.it.Number, tree)
	if err != nil {
		return err
	}
	from := t.At(u.it.base)
	if from.Tree != u.it.base {
		if tree, made, err = w.without(gctx, u, tree); err != nil {
			return gitErr(fmt.Sprintf("commit iteration %d", u.it.Number), err)
		}
	}
	fates, err := t.fold(gctx, u.lane, []trunk.Candidate{{Unit: unit, Subject: unit, From: from.Hash, Commit: made,
		Tree: tree}})
	if err != nil {
		return err
	}
	if fate := &fates[0]; !fate.Accepted() {
		return gitErr(fmt.Sprintf("commit iteration %d", u.it.Number), t.apart(ctx, fate))
	}
	if owed := w.run.history.Prompt.Owed; owed != "" && owed != string(u.it.base) {
		u.it.owed = t.Tree
	}
	head, err := t.head(gctx)
	if err != nil {
		return gitErr("read the branch", err)
	}
	own, why, err := w.own(gctx, u, head)
	if err != nil {
		return gitErr("read the commits of an iteration", err)
	}
	crash.Point("before-iteration-commit")
	cctx, over := w.run.stop.committing(w.run.config.Deadline)
	defer over()
	done, err := t.commit(cctx, u.lane, gitops.Wave{Message: w.run.tools.Redact.Text(w.message(u))}, own, nil)
	_, meanwhile := errors.AsType[*apartError](err)
	if err != nil {
		if oerr := t.drop(gctx, unit); oerr != nil {
			return oerr
		}
	}
	switch {
	case err != nil && w.prompt.job.Rules.Retries() > 0 && cctx.Err() == nil && !meanwhile:
		u.it.refused = fmt.Sprintf("commit iteration %d: %s", u.it.Number, err)
		return nil
	case err != nil:
		return gitErr(fmt.Sprintf("commit iteration %d", u.it.Number), err)
	}
	crash.Point("iteration-committed")
	if tip := u.res.Work.Commits; tip != "" {
		if u.it.own = w.run.tools.Repo.LeadsTo(gctx, t.On, tip); !u.it.own {
			if err := w.prompt.note(
				fmt.Sprintf("iteration %d: one commit has what the agent committed by itself, which %s", u.it.Number,
					cmp.Or(why, "is not on top of what was committed meanwhile"))); err != nil {
				return err
			}
		}
	}
	return w.committed(gctx, u, done, nil)
}

// without is an iteration's work without what it began with, which an earlier one left and which is not to be
// committed, and a commit of that.
func (w *delivery) without(ctx context.Context, u *unit, tree gitops.Tree) (gitops.Tree, string, error) {
	t := w.run.trunk
	next, met, err := w.run.tools.Repo.MergeTrees(ctx, u.it.base, t.Tree, tree)
	if err == nil && len(met) > 0 {
		err = t.apart(ctx, &trunk.Fate{Conflicts: met})
	}
	if err != nil {
		return "", "", err
	}
	made, err := t.Repo.Link(ctx, t.Tip, gitops.Link{Tree: next, Message: trunk.IterationUnit(strconv.Itoa(u.it.Number)),
		When: w.run.tools.Now()})
	return next, made, err
}

// own is the tip of the agent's own commits if they can become the branch's as they are, or "" and why not.
func (w *delivery) own(ctx context.Context, u *unit, tip string) (own, why string, err error) {
	repo, work := w.run.tools.Repo, &u.res.Work
	switch {
	case work.Commits == "":
		return "", "", nil
	case tip == "" || tip != u.stand.Head.Hash || !repo.LeadsTo(ctx, work.Commits, tip):
		return "", "is not on top of the branch", nil
	case repo.ByGit() != "":
		return "", "is neither signed nor seen by hooks (" + repo.ByGit() + ")", nil
	}
	paths, err := repo.Between(ctx, tip, work.Commits)
	if err != nil {
		return "", "", err
	}
	for _, path := range paths {
		if slices.Contains(work.Left, path) || slices.Contains(work.Named.Paths, path) || repo.Protects(path) ||
			w.prompt.gate.criteria() != nil && OfLoopFile(path) {
			return "", "contains " + path + ", which is no work", nil
		}
	}
	return work.Commits, "", nil
}

// committed records that a commit contains an iteration's work, from which the next one starts.
func (w *delivery) committed(ctx context.Context, u *unit, made gitops.Commit, err error) error {
	if err != nil {
		return gitErr(fmt.Sprintf("commit iteration %d", u.it.Number), err)
	}
	t := w.run.trunk
	w.run.say(func() {
		w.run.recordWithNext(&journal.Event{Type: journal.Integrated,
			Unit: journal.Unit{Iteration: u.it.Number, Attempt: u.it.Try}, Tree: string(t.Tree), Commit: t.On})
	})
	for _, n := range made.Notes {
		if err := w.prompt.note(n); err != nil {
			return err
		}
	}
	u.it.commit = cmp.Or(made.Hash, t.On)
	return w.run.worker.bringNamed(ctx, u)
}

func (w *delivery) message(u *unit) string {
	subject := w.prompt.job.Rules.Subject(u.it)
	if subject == "" {
		n := config.Names{Iteration: u.it.Number, Wave: u.it.Number, Tag: w.run.state.ID, At: w.run.tools.Now()}
		subject = n.Expand(cmp.Or(w.run.config.Git.CommitTemplate, config.DefaultCommitTemplate))
	}
	return fmt.Sprintf("%s\n\nDescartes-Loop: %s\nDescartes-Iteration: %d\n", strings.TrimSpace(oneline.Text(subject)),
		w.run.state.ID, u.it.Number)
}

// checkpoint keeps the tree after an iteration as a ref below refs/descartes/<loop>/, the start as iteration-0: if the
// work is of a class that asks for it, the agent committed by itself, or a slot has uncommitted work.
func (w *delivery) checkpoint(ctx context.Context, u *unit) error {
	c, work := w.prompt.gate.criteria(), &u.res.Work
	class := c != nil && c.Class.Checkpoint()
	open := w.run.trunk != nil && u.it.commit == "" && work.After != u.it.base
	if !class && !open && (work.Commits == "" || u.it.own) || work.After == "" {
		return nil
	}
	if class && u.it.Number == 1 && u.it.Try == 1 {
		if _, err := w.keepIteration(ctx, u, 0, u.it.base); err != nil {
			return err
		}
	}
	kept, err := w.keepIteration(ctx, u, u.it.Number, work.After)
	if err != nil {
		return err
	}
	if u.it.ref = w.iterationRef(u.it.Number); open && !w.loose() {
		err = w.run.tools.Repo.SetRef(ctx, w.tryRef(u.it), kept, "descartes: in no commit")
	}
	return err
}

// keepIteration keeps a tree as that of an iteration, with the agent's own commits, and returns its commit.
func (w *delivery) keepIteration(ctx context.Context, u *unit, n int, tree gitops.Tree) (string, error) {
	var parents []string
	from := u.stand.Head.Hash
	if !w.loose() && w.run.trunk != nil {
		from = w.run.trunk.At(u.it.base).Hash
	}
	for _, p := range []string{from, u.res.Work.Commits} {
		if p != "" && !slices.Contains(parents, p) {
			parents = append(parents, p)
		}
	}
	commit, err := w.run.tools.Repo.Keep(ctx, w.iterationRef(n), tree, parents,
		fmt.Sprintf("run %s: checkpoint of iteration %d", w.run.state.ID, n))
	if err != nil {
		return "", gitErr("keep a checkpoint", err)
	}
	return commit, nil
}
