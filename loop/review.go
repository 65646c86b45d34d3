package loop

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"

	"descartes/agent"
	"descartes/gitops"
	"descartes/loop/journal"
	"descartes/loop/workspace"
	"descartes/specbuild"
)

// Bounds, in bytes, of what a review is shown and of what it may advise.
const (
	maxReviewDiff = 64 << 10
	maxRefinement = 8 << 10
)

// consult has a second agent look at the failed unit u, and keeps what it advises for all later attempts. It is run once for each failure. A
// review that comes to nothing costs nothing.
func (l *Loop) consult(ctx context.Context, stop *stopper, u *unit) error {
	u.started = l.tools.Now()
	stand, err := l.prepare(ctx, u.lane, l.start(u))
	if err != nil {
		return err
	}
	r, ref, err := l.work.review(ctx, u, stand.Tree)
	if err != nil {
		return err
	}
	in := l.input(u, specbuild.ReviewPrompt(r))
	in.Session, in.Spent, in.Keep, in.Env = "", nil, false, append(in.Env, "DESCARTES_REVIEW=1") // for agents that are scripts
	actx, done := stop.watch(ctx)
	defer done()
	var res agent.Result
	l.unlocked(func() { res, err = u.lane.runner.Consult(actx, u.lane.ws, in, "review", l.observe(u)) })
	if err == nil {
		err = l.undoReview(context.WithoutCancel(ctx), u, ref)
	}
	if err != nil {
		return fmt.Errorf("review the last attempt: %w", err)
	}
	if res.End == agent.Cancelled || res.End == agent.Limited {
		return nil // not a review: it is made before the next attempt, if there is one
	}
	e := l.work.event(journal.SpecRefined, u)
	e.Detail = agentDetail(res, u.with, 0)
	e.Detail.Log = l.relative(u.log)
	if res.End == agent.Finished {
		e.Message = strings.TrimSpace(head(res.Final, maxRefinement))
	}
	if e.Message == "" {
		e.Reason = orElse(res.Reason, "it advised nothing")
	}
	return l.record(e)
}

// undoReview restores what a review changed, which is asked for its words alone, and keeps it below the ref: a person may have saved a file
// meanwhile.
func (l *Loop) undoReview(ctx context.Context, u *unit, ref string) error {
	left, err := u.lane.ws.Look(ctx)
	if err != nil || len(left.Changed) == 0 {
		return err
	}
	if _, err := l.tools.Repo.Keep(ctx, ref, left.After, nil, "what a review changed\n"); err != nil {
		return gitErr("keep what a review changed", err)
	}
	put, err := u.lane.ws.Restore(ctx, left.Before, u.started)
	if err != nil {
		return err
	}
	return l.warn(u, "the review changed files, which is put back and kept as "+ref+": "+workspace.Paths(left.Changed)+workspace.NotRestored(put.Restored))
}

// reviewed is the unit again, where its task's last attempt failed and was not reviewed.
func (w *tagWork) reviewed(u *unit) *unit {
	id := u.task.ID
	f, failed := w.history.Failures[id]
	if !w.config.Scud.AutoTune || !failed || w.history.Reviewed[id] == f.Attempt || w.tuned[fileName(id)+".md"] {
		return nil
	}
	return &unit{lane: u.lane, task: u.task, with: u.with, number: u.number, since: u.since,
		log: filepath.Join(w.home.Run(w.state.ID), "logs", fmt.Sprintf("%s-%d.tune.log", fileName(id), u.number))}
}

// review is what a review of a task's last attempt is shown, and where what it changes is kept.
func (w *tagWork) review(ctx context.Context, u *unit, _ gitops.Tree) (r specbuild.Review, ref string, err error) {
	id := u.task.ID
	f := w.history.Failures[id]
	ref = RefPrefix(w.state.ID, id) + fmt.Sprintf("%d-review", u.number)
	r = specbuild.Review{Task: *u.task, Failure: *failure(f), Earlier: w.history.Refinements[id]}
	attempts, err := w.home.Attempts(w.state.ID, id)
	if err != nil {
		return r, ref, err
	}
	for _, a := range attempts {
		if a.Attempt != f.Attempt {
			continue
		}
		if err := w.home.ReadSpec(w.job, &a); err != nil {
			return r, ref, err
		}
		r.Spec = a.Spec
		if a.Before != "" && a.After != "" {
			if r.Diff, err = w.tools.Repo.Patch(ctx, a.Before, a.After, maxReviewDiff); err != nil {
				return r, ref, gitErr("compare the work on task "+id, err)
			}
		}
	}
	return r, ref, nil
}
