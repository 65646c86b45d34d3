package loop

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"descartes/agent"
	"descartes/gitops"
	"descartes/internal/crash"
	"descartes/internal/oneline"
	"descartes/loop/attempt"
	"descartes/loop/journal"
	"descartes/loop/workspace"
)

// treeWait is how long an iteration waits for the others that look at the working tree or commit in it.
const treeWait = 60 * time.Second

// watches reports whether what an iteration changes is looked at.
func (r *Repeat) watches() bool {
	return r.tools.Repo != nil && (r.job.Watch || r.job.Config.Git.AutoCommit)
}

// inTree does something with the working tree that no other loop may do at the same time. A loop over a tag holds
// the tree for as long as it runs; that is the holder's name then, and nothing is done.
func (r *Repeat) inTree(ctx context.Context, do func() error) (holder string, err error) {
	path := treeLock(r.tools.Repo.Dir())
	k, err := takeLock(ctx, path, treeWait, r.who)
	var busy *BusyError
	if errors.As(err, &busy) {
		return busy.Holder.Loop, nil
	}
	if err != nil {
		return "", err
	}
	err = r.tools.Repo.Claim()
	if err == nil {
		err = do()
	}
	return "", errors.Join(err, k.release())
}

// lookBefore notes what stands before an iteration.
func (r *Repeat) lookBefore(ctx context.Context, t *turn) error {
	r.fixed.remember(settingsFiles(&r.job.Config, r.job.Root))
	if r.tools.Repo == nil {
		return nil
	}
	if who, held := live(treeLock(r.tools.Repo.Dir())); held && who.Tag != "" {
		return r.warnWatched(beside(who.Loop, who.Tag))
	}
	t.alone = r.alone()
	holder, err := r.inTree(ctx, func() (err error) {
		if r.watches() || len(r.history.UserPaths) > 0 {
			if t.before, err = r.tools.Repo.Snapshot(ctx); err != nil {
				return gitErr("snapshot the working tree", err)
			}
		}
		if t.git, err = r.tools.Repo.Guard(ctx); err != nil {
			return gitErr("read the state of the repository", err)
		}
		t.stands = true
		return r.guard.keepSettings(r.home, r.state.ID, t.git)
	})
	if holder != "" {
		return r.warnWatched(beside(holder, ""))
	}
	return err
}

// standAt notes what stood before an iteration that a dead loop had begun.
func (r *Repeat) standAt(ctx context.Context, t *turn, open journal.Event) error {
	if r.tools.Repo == nil {
		return nil
	}
	t.alone = r.alone()
	_, err := r.inTree(ctx, func() (err error) {
		head := gitops.Head{Branch: open.Branch, Hash: open.Commit}
		if t.git, err = r.tools.Repo.GuardSince(ctx, head, r.home.keptSettings(r.state.ID), open.TS, r.home.ended(r.state.ID, open, r.tools.Now())); err != nil {
			return gitErr("read the state of the repository", err)
		}
		t.stands = head != gitops.Head{}
		return nil
	})
	return err
}

// alone reports whether no other loop over a prompt works in the project.
func (r *Repeat) alone() bool {
	all, err := r.home.List()
	return err == nil && !slices.ContainsFunc(all, func(s Saved) bool {
		return s.State != nil && !s.Archived && s.State.Kind != KindTag && s.Path != r.path && r.home.IsLive(s)
	})
}

// repair undoes what no attempt may change, and says so; who is the part of the iteration that did it. Only a loop that
// commits, and has the tree for itself, may say where the branch and the index stand.
func (r *Repeat) repair(ctx context.Context, t *turn, who string) error {
	if !t.stands {
		return nil
	}
	ctx = context.WithoutCancel(ctx)
	var notes []string
	_, err := r.inTree(ctx, func() (err error) {
		repair := r.guard.repairSettings
		if t.alone = t.alone && r.alone() && r.tools.Repo.OursSince(ctx, t.git, r.state.ID); t.alone && r.job.Config.Git.AutoCommit {
			repair = r.guard.repair
		}
		notes, err = repair(ctx, &t.footing, who)
		return err
	})
	for _, n := range notes {
		err = errors.Join(err, r.warnUndone(n))
	}
	return err
}

// warnWatched warns where what an iteration changes is to be told apart.
func (r *Repeat) warnWatched(message string) error {
	if !r.watches() {
		return nil
	}
	return r.warn(message)
}

func beside(loop, tag string) string {
	if tag != "" {
		loop += " over tag " + tag
	}
	return "loop " + loop + " works in this tree: what this iteration changes is not told apart, and not committed by this loop"
}

// lookBetween notes what stands when the agent has ended, where the verification that follows could add to it.
func (r *Repeat) lookBetween(ctx context.Context, t *turn) error {
	if t.before == "" || !r.job.Config.Git.AutoCommit || !r.verifies(t) {
		return nil
	}
	_, err := r.inTree(ctx, func() (err error) {
		if t.seen, err = r.tools.Repo.Snapshot(ctx); err != nil {
			return gitErr("snapshot the working tree", err)
		}
		return nil
	})
	return err
}

// tellLeavings parts what only the verification made from the work.
func (r *Repeat) tellLeavings(ctx context.Context, t *turn) (err error) {
	if t.seen == "" {
		return nil
	}
	if t.left, t.taken, _, err = leavings(ctx, r.tools.Repo, t.base, t.seen, t.after, r.history.VerifyLeft); err != nil {
		return gitErr("compare the working tree", err)
	}
	t.changed = slices.DeleteFunc(t.changed, func(c gitops.Change) bool { return slices.Contains(t.left, c.Path) })
	if fresh := without(t.left, r.history.VerifyLeft); len(fresh) > 0 {
		return r.warn(workspace.MadeByVerify + oneline.List(fresh))
	}
	return nil
}

// lookAfter notes what an iteration changed, and commits it.
func (r *Repeat) lookAfter(rctx context.Context, stop *stopper, t *turn) error {
	if t.before == "" || !r.watches() {
		return nil
	}
	ctx, done := attempt.Linger(rctx)
	defer done()
	holder, err := r.inTree(ctx, func() (err error) {
		if t.after, err = r.tools.Repo.Snapshot(ctx); err != nil {
			return gitErr("snapshot the working tree", err)
		}
		if left, _ := r.tools.Repo.LeftOut(t.started); len(left) > 0 {
			if err := r.warn(fmt.Sprintf("iteration %d left what no commit can hold: %s", t.Iteration, workspace.Reasons(left))); err != nil {
				return err
			}
		}
		if t.after == t.base {
			return nil
		}
		if t.changed, err = r.tools.Repo.Changed(ctx, t.base, t.after); err != nil {
			return gitErr("compare the working tree", err)
		}
		if err := r.tellLeavings(ctx, t); err != nil {
			return err
		}
		if old := uncovered(r.tools.Repo, t.changed, r.history.Prompt.Since); len(old) > 0 {
			t.left = append(t.left, old...)
			t.changed = slices.DeleteFunc(t.changed, func(c gitops.Change) bool { return slices.Contains(old, c.Path) })
			if err := r.warn(uncoveredStay + oneline.List(old)); err != nil {
				return err
			}
		}
		t.Facts, t.Watched = r.facts(t), true
		if command := r.job.Config.VerificationCommand; r.fails(t).Reason != "" || t.Result.End == agent.Cancelled && command != "" && command != NoVerify {
			return nil // what comes next goes on with it
		}
		return r.commit(rctx, stop, t)
	})
	if holder != "" {
		return r.warn(beside(holder, ""))
	}
	return err
}

// commit commits what an iteration changed and nothing else. One that a dead loop had made is found to leave
// nothing to commit.
func (r *Repeat) commit(ctx context.Context, stop *stopper, t *turn) error {
	if !r.job.Config.Git.AutoCommit {
		return nil
	}
	w := gitops.Wave{Message: r.tools.Mask.Text(r.message(t)), Results: []gitops.Pair{{Base: t.base, Result: t.after, Head: t.git.Head().Hash, Without: without(slices.Concat(r.history.VerifyLeft, t.left), t.taken)}}, UserPaths: r.history.UserPaths}
	crash.Point("before-iteration-commit")
	cctx, over := stop.committing(ctx, r.job.Config.Deadline)
	defer over()
	c, err := r.tools.Repo.CommitWave(cctx, w)
	if err != nil && r.job.Mode.Retries > 0 && cctx.Err() == nil {
		t.refused = fmt.Sprintf("commit iteration %d: %s", t.Iteration, err)
		return nil
	}
	if err != nil {
		return gitErr(fmt.Sprintf("commit iteration %d", t.Iteration), err)
	}
	crash.Point("iteration-committed")
	for _, n := range c.Notes {
		if err := r.warn(n); err != nil {
			return err
		}
	}
	if !c.Empty {
		t.commit = c.Hash
	}
	return nil
}

func (r *Repeat) message(t *turn) string {
	subject := ""
	if f := r.job.Mode.Subject; f != nil {
		subject = f(t.Round)
	}
	if subject == "" {
		n := Names{Iteration: t.Iteration, Wave: t.Iteration, Tag: r.state.ID, At: r.tools.Now()}
		subject = n.Expand(orElse(r.job.Config.Git.CommitTemplate, DefaultCommitTemplate))
	}
	return fmt.Sprintf("%s\n\nDescartes-Loop: %s\nDescartes-Iteration: %d\n", strings.TrimSpace(subject), r.state.ID, t.Iteration)
}

// ended is when the last process of an interrupted attempt came to its end, which is when that was
// recorded; where it was not, the attempt lasted until now.
func (h Home) ended(id string, open journal.Event, now time.Time) time.Time {
	if fi, err := os.Stat(h.ExitFile(id)); err == nil && fi.ModTime().After(open.TS) {
		return fi.ModTime()
	}
	return now
}
