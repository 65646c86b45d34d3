package loop

import (
	"context"
	"errors"
	"os"
	"time"

	"descartes/agent"
	"descartes/gitops"
	"descartes/loop/attempt"
	"descartes/loop/journal"
	"descartes/loop/workspace"
	"descartes/verify"
)

// recoverTask finishes what stands between the end of an attempt and the end of its task.
func (w *tagWork) recoverTask(ctx context.Context) error {
	b := w.history
	if err := w.ws.Forget(); err != nil {
		return err
	}
	if b.Current == "" {
		return nil
	}
	u, ok := w.revive(b.Current, b.Begun[b.Current])
	if !ok {
		return nil
	}
	for _, v := range b.Verified { // verified, and the line that says done was lost
		if v.Task == b.Current {
			done := w.event(journal.TaskDone, u)
			done.Ref = v.Ref
			return w.record(done)
		}
	}
	f, failed := b.Failures[b.Current]
	if over := w.overpaid(b.Current); over != "" && f.Verdict != journal.Blocked {
		u.res.Reason = orElse(f.Reason, "none has ended")
		return w.blockOverpaid(ctx, u, over)
	}
	if !failed {
		return nil
	}
	if f.Verdict == journal.Blocked || b.Counted[b.Current] >= w.config.Scud.MaxIterationsPerTask {
		u.res.Verdict, u.res.Reason = verify.Verdict(f.Verdict), f.Reason
		if f.Result != nil {
			u.res.Agent.Question = f.Result.Question
		}
		return w.block(ctx, u)
	}
	return nil
}

// revive is the unit that the journal tells of. It fails for a task that the list no longer has.
func (w *tagWork) revive(id string, number int) (*unit, bool) {
	t, ok := w.job.Graph.Task(id)
	if !ok {
		return nil, false
	}
	return &unit{task: t, number: number, base: gitops.Tree(w.history.Bases[id]), before: gitops.Tree(w.history.Tree),
		since: w.history.Starts[id],
		log:   w.home.Log(w.state.ID, id, number), started: w.tools.Now(), with: w.config.Choices(t)[0]}, true
}

// recoverAttempt ends an attempt that was under way. An outcome says that the run ends here, as it would have.
func (w *tagWork) recoverAttempt(ctx context.Context, stop *stopper, open *journal.Event) (*Outcome, error) {
	u, ok := w.revive(open.Task, open.Attempt)
	if !ok { // the task is gone from the list: its work stays in the tree, and is kept
		return nil, errors.New("task " + open.Task + " was under way when the loop was interrupted, and is no longer in the task file; put it back, or remove " + w.relative(w.saver.own.path))
	}
	if err := w.adopt(ctx, stop, u, open, w.history.OpenAgent); err != nil {
		return nil, err
	}
	if changed := u.res.Work.Changed; len(changed) > 0 && u.res.Agent.End == agent.Cancelled {
		if err := w.warn(u, "the interrupted attempt left changes, which the next one goes on from: "+workspace.Paths(changed)); err != nil {
			return nil, err
		}
	}
	out, _, err := w.verdict(ctx, stop, u)
	w.spent(u)
	if err != nil || u.res.Verdict != verify.Cancelled {
		return out, err
	}
	if over := w.overpaid(u.task.ID); over != "" && w.history.Current == u.task.ID {
		return nil, w.blockOverpaid(ctx, u, over)
	}
	return nil, nil
}

// adopted is what the journal tells of an attempt that a killed run had begun.
func adopted(end *journal.Event) *attempt.Adopted {
	if end == nil || end.Detail == nil {
		return &attempt.Adopted{}
	}
	res := recalled(end)
	return &attempt.Adopted{Agent: &res, Changed: end.Detail.Changed}
}

// resumed is what the workspace is told of it.
func (h Home) resumed(id string, open, end *journal.Event, now time.Time) *workspace.Resumed {
	r := &workspace.Resumed{Head: gitops.Head{Branch: open.Branch, Hash: open.Head}, Began: open.TS, Ended: now}
	// Its last process ended when that was recorded; where it was not, the attempt lasted until now.
	if fi, err := os.Stat(h.ExitFile(id)); err == nil && fi.ModTime().After(open.TS) {
		r.Ended = fi.ModTime()
	}
	if end != nil && end.Detail != nil {
		r.Seen = gitops.Tree(end.Detail.Tree)
	}
	return r
}
