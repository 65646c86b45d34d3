package loop

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"

	"descartes/agent"
	"descartes/internal/oneline"
	"descartes/loop/journal"
	"descartes/loop/workspace"
	"descartes/specbuild"
	"descartes/tasks"
)

// Bounds, in bytes, of what a review is shown and of what it may advise.
const (
	maxReviewDiff = 64 << 10
	maxRefinement = 8 << 10
)

// refine has a second agent look at a failed attempt, and keeps what it advises for all later ones. It
// is run once for each failure. A review that comes to nothing costs the task nothing.
func (l *Loop) refine(ctx context.Context, stop *stopper, t *tasks.Task, with Choice) error {
	f, failed := l.history.Failures[t.ID]
	if !failed || l.history.Reviewed[t.ID] == f.Attempt || l.tuned[fileName(t.ID)+".md"] || stop.asked(ctx) != nil {
		return nil
	}
	u := &unit{task: t, with: with, number: l.history.Begun[t.ID] + 1, started: l.tools.Now()}
	u.log = filepath.Join(l.home.Run(l.state.ID), "logs", fmt.Sprintf("%s-%d.tune.log", fileName(t.ID), u.number))
	var err error
	if u.before, err = l.ws.Holds(ctx); err != nil {
		return err
	}
	prompt, err := l.review(ctx, u, f)
	if err != nil {
		return err
	}
	if _, err := l.ws.Prepare(ctx, l.start(u)); err != nil {
		return err
	}
	in := l.input(u, prompt)
	in.Env = append(in.Env, "DESCARTES_REVIEW=1") // for agents that are scripts
	actx, done := stop.watch(ctx)
	defer done()
	res, err := l.runner.Consult(actx, l.ws, in, "review", l.observe(u))
	if err == nil {
		err = l.undoReview(context.WithoutCancel(ctx), u)
	}
	if err != nil {
		return fmt.Errorf("review the last attempt of task %s: %w", t.ID, err)
	}
	if res.End == agent.Cancelled || res.End == agent.Limited {
		return nil // not a review: it is made before the next attempt, if there is one
	}
	e := l.event(journal.SpecRefined, u)
	e.Reason, e.Detail = res.Reason, agentDetail(res, with, 0)
	e.Detail.Log = l.relative(u.log)
	if res.End == agent.Finished {
		e.Message = strings.TrimSpace(head(res.Final, maxRefinement))
	}
	if e.Message == "" {
		e.Reason = orElse(res.Reason, "it advised nothing")
	}
	return l.record(e)
}

// review is the prompt of a review.
func (l *Loop) review(ctx context.Context, u *unit, f journal.Event) (string, error) {
	id := u.task.ID
	r := specbuild.Review{Task: *u.task, Failure: *failure(f), Earlier: l.history.Refinements[id]}
	variants, err := l.home.Variants(l.state.ID, id)
	if err != nil {
		return "", err
	}
	for _, v := range variants {
		if v.Attempt != f.Attempt {
			continue
		}
		if r.Spec, _, err = l.home.VariantSpec(l.job, v); err != nil {
			return "", err
		}
		if v.Before != "" && v.After != "" {
			if r.Diff, err = l.tools.Repo.Patch(ctx, v.Before, v.After, maxReviewDiff); err != nil {
				return "", gitErr("compare the work on task "+id, err)
			}
		}
	}
	return specbuild.ReviewPrompt(r), nil
}

// undoReview puts back what a review changed, which is asked for its words alone.
func (l *Loop) undoReview(ctx context.Context, u *unit) error {
	left, err := l.ws.Look(ctx)
	if err != nil || len(left.Changed) == 0 {
		return err
	}
	put, err := l.ws.Restore(ctx, u.before, u.started)
	if err != nil {
		return err
	}
	ref := RefPrefix(l.state.ID, u.task.ID) + fmt.Sprintf("%d-review", u.number)
	if _, err := l.tools.Repo.Keep(ctx, ref, left.After, nil, "what the review of task "+oneline.Text(u.task.ID)+" changed\n"); err != nil {
		return gitErr("keep what a review changed", err)
	}
	return l.warn(u, "the review changed files, which is put back and kept as "+ref+": "+workspace.Paths(left.Changed)+workspace.NotRestored(put.Restored))
}
