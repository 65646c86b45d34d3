package loop

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"

	"descartes/agent"
	"descartes/loop/journal"
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
	tr := &trial{task: t, with: with, number: l.history.Begun[t.ID] + 1, started: l.tools.Now()}
	tr.log = filepath.Join(l.home.Run(l.state.ID), "logs", fmt.Sprintf("%s-%d.tune.log", fileName(t.ID), tr.number))
	prompt, err := l.review(ctx, tr, f)
	if err != nil {
		return err
	}
	l.rememberLists()
	if tr.git, err = l.tools.Repo.Guard(ctx); err != nil {
		return gitErr("read the state of the repository", err)
	}
	req := l.request(tr, prompt)
	req.Env = append(req.Env, "DESCARTES_REVIEW=1") // for agents that are scripts
	req.Label, req.PromptFile = l.label(tr, "review"), filepath.Join(l.home.Run(l.state.ID), "review.md")
	actx, done := stop.watch(ctx)
	defer done()
	if tr.result, err = l.tools.Agent.Run(actx, req); err != nil {
		return fmt.Errorf("review the last attempt of task %s: %w", t.ID, err)
	}
	if err := l.gatherErrors(tr); err != nil {
		return err
	}
	if err := l.undoReview(context.WithoutCancel(ctx), tr); err != nil {
		return err
	}
	if tr.result.End == agent.Cancelled || tr.result.End == agent.Limited {
		return nil // not a review: it is made before the next attempt, if there is one
	}
	e := l.event(journal.SpecRefined, tr)
	e.Detail = l.agentEvent(tr).Detail
	e.Detail.Words, e.Detail.Log = "", l.relative(tr.log)
	if tr.result.End == agent.Finished {
		e.Message = strings.TrimSpace(head(tr.result.Final, maxRefinement))
	}
	if e.Message == "" {
		e.Reason = "it advised nothing"
		if tr.result.Reason != "" {
			e.Reason = tr.result.Reason
		}
	}
	return l.record(e)
}

// review is the prompt of a review; it notes in tr the tree that the review begins with.
func (l *Loop) review(ctx context.Context, tr *trial, f journal.Event) (string, error) {
	id := tr.task.ID
	if tr.before = l.at; tr.before == "" {
		var err error
		if tr.before, err = l.tools.Repo.Snapshot(ctx); err != nil {
			return "", gitErr("snapshot the working tree", err)
		}
	}
	r := specbuild.Review{Task: *tr.task, Failure: *failure(f), Earlier: l.history.Refinements[id]}
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
func (l *Loop) undoReview(ctx context.Context, tr *trial) error {
	l.at = ""
	if err := l.repair(ctx, tr, "review"); err != nil {
		return err
	}
	if err := l.look(ctx, tr); err != nil {
		return err
	}
	l.at = tr.after
	if len(tr.changed) == 0 {
		return nil
	}
	put, err := l.tools.Repo.Restore(ctx, tr.before, tr.started)
	if err != nil {
		return gitErr("take back what a review changed", err)
	}
	now, err := l.tools.Repo.Snapshot(ctx)
	if err != nil {
		return gitErr("look at the tree after a review", err)
	}
	l.at = now
	ref := RefPrefix(l.state.ID, tr.task.ID) + fmt.Sprintf("%d-review", tr.number)
	if _, err := l.tools.Repo.Keep(ctx, ref, tr.after, nil, "what the review of task "+oneLine(tr.task.ID)+" changed\n"); err != nil {
		return gitErr("keep what a review changed", err)
	}
	return l.warn(tr, "the review changed files, which is put back and kept as "+ref+": "+names(tr.changed)+notRestored(put))
}
