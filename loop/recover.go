package loop

import (
	"context"
	"errors"
	"os"
	"time"

	"descartes/agent"
	"descartes/gitops"
	"descartes/loop/journal"
	"descartes/verify"
)

// recoverAttempt brings to its end what a dead loop had begun: an attempt under way is adopted when
// its agent had finished, else it is no attempt and its work stays for the next one; a task given up is
// taken back.
func (l *Loop) recoverAttempt(ctx context.Context, stop *stopper) (*Outcome, error) {
	if l.history.Open != nil {
		return l.recoverOpen(ctx, stop, *l.history.Open)
	}
	return nil, l.recoverTask(ctx)
}

// recoverTask finishes what stands between the end of an attempt and the end of its task.
func (l *Loop) recoverTask(ctx context.Context) error {
	b := l.history
	if err := l.guard.drop(l.home, l.state.ID); err != nil {
		return err
	}
	if b.Current == "" {
		return nil
	}
	tr, ok := l.revive(b.Current, b.Begun[b.Current])
	if !ok {
		return nil
	}
	for _, v := range b.Verified { // verified, and the line that says done was lost
		if v.Task == b.Current {
			done := l.event(journal.TaskDone, tr)
			done.Ref = v.Ref
			return l.record(done)
		}
	}
	f, failed := b.Failures[b.Current]
	if over := l.overpaid(b.Current); over != "" && f.Verdict != journal.Blocked {
		tr.reason = orElse(f.Reason, "none has ended")
		return l.blockOverpaid(ctx, tr, over)
	}
	if !failed {
		return nil
	}
	if f.Verdict == journal.Blocked || b.Counted[b.Current] >= l.job.Config.Scud.MaxIterationsPerTask {
		tr.verdict, tr.reason = verify.Verdict(f.Verdict), f.Reason
		if f.Detail != nil {
			tr.result.Question = f.Detail.Question
		}
		return l.block(ctx, tr)
	}
	return nil
}

// revive is the trial that the journal tells of. It fails for a task that the list no longer has.
func (l *Loop) revive(id string, number int) (*trial, bool) {
	t, ok := l.job.Graph.Task(id)
	if !ok {
		return nil, false
	}
	return &trial{task: t, number: number, footing: footing{base: gitops.Tree(l.history.Bases[id]), before: gitops.Tree(l.history.Tree)},
		log: l.home.Log(l.state.ID, id, number), started: l.tools.Now(), with: l.job.Config.Choices(t)[0]}, true
}

// recoverOpen ends an attempt that was under way. An outcome says that the run ends here, as it would have.
func (l *Loop) recoverOpen(ctx context.Context, stop *stopper, open journal.Event) (*Outcome, error) {
	tr, ok := l.revive(open.Task, open.Attempt)
	if !ok { // the task is gone from the list: its work stays in the tree, and is kept
		return nil, errors.New("task " + open.Task + " was under way when the loop was interrupted, and is no longer in the task file; put it back, or remove " + l.relative(l.saver.own.path))
	}
	tr.started = open.TS
	if err := maskFiles(l.tools.Mask, tr.log, l.errLog(), l.promptFile()); err != nil {
		return nil, err
	}
	if d := open.Detail; d != nil && d.Backend != "" {
		tr.with = Choice{Backend: d.Backend, Model: d.Model}
	}
	var err error
	if tr.git, err = l.tools.Repo.GuardSince(ctx, gitops.Head{Branch: open.Branch, Hash: open.Commit}, l.home.keptSettings(l.state.ID), open.TS, l.home.ended(l.state.ID, open, l.tools.Now())); err != nil {
		return nil, gitErr("read the state of the repository", err)
	}
	tr.result = l.recall(tr)
	if err := l.judge(ctx, tr); err != nil {
		return nil, err
	}
	if len(tr.changed) > 0 && tr.result.End == agent.Cancelled {
		if err := l.warn(tr, "the interrupted attempt left changes, which the next one goes on from: "+names(tr.changed)); err != nil {
			return nil, err
		}
	}
	tr.tuned = open.Detail != nil && open.Detail.Tuned
	out, _, err := l.after(ctx, stop, tr)
	l.spent(tr)
	if err != nil || tr.verdict != verify.Cancelled {
		return out, err
	}
	if over := l.overpaid(tr.task.ID); over != "" && l.history.Current == tr.task.ID {
		return nil, l.blockOverpaid(ctx, tr, over)
	}
	return nil, nil
}

// ended is when the last process of an interrupted attempt came to its end, which is when that was
// recorded; where it was not, the attempt lasted until now.
func (h Home) ended(id string, open journal.Event, now time.Time) time.Time {
	if fi, err := os.Stat(h.ExitFile(id)); err == nil && fi.ModTime().After(open.TS) {
		return fi.ModTime()
	}
	return now
}

// recall tells how the agent of an interrupted attempt ended. The exit file knows it until the
// verification begins, whose own end then overwrites it; from there on the journal knows it.
func (l *Loop) recall(tr *trial) agent.Result {
	if res, ok := l.tools.Agent.Recall(l.request(tr, ""), l.home.ExitFile(l.state.ID)); ok {
		return res
	}
	if e := l.history.OpenAgent; e != nil && e.Detail != nil {
		return recalled(e)
	}
	return agent.Result{End: agent.Cancelled, Code: -1, Reason: "descartes was stopped during this attempt"}
}
