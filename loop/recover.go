package loop

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"descartes/agent"
	"descartes/gitops"
	"descartes/loop/attempt"
	"descartes/loop/journal"
	"descartes/loop/workspace"
	"descartes/verify"
)

// recoverAttempt brings to its end what a dead loop had begun: an attempt under way is adopted when
// its agent had finished, else it is no attempt and its work stays for the next one; a task given up is
// taken back.
func (l *Loop) recoverAttempt(ctx context.Context, stop *stopper) (*Outcome, error) {
	if l.history.Open != nil {
		return l.adopt(ctx, stop, *l.history.Open)
	}
	return nil, l.recoverTask(ctx)
}

// recoverTask finishes what stands between the end of an attempt and the end of its task.
func (l *Loop) recoverTask(ctx context.Context) error {
	b := l.history
	if err := l.ws.Forget(); err != nil {
		return err
	}
	if b.Current == "" {
		return nil
	}
	u, ok := l.revive(b.Current, b.Begun[b.Current])
	if !ok {
		return nil
	}
	for _, v := range b.Verified { // verified, and the line that says done was lost
		if v.Task == b.Current {
			done := l.event(journal.TaskDone, u)
			done.Ref = v.Ref
			return l.record(done)
		}
	}
	f, failed := b.Failures[b.Current]
	if over := l.overpaid(b.Current); over != "" && f.Verdict != journal.Blocked {
		u.res.Reason = orElse(f.Reason, "none has ended")
		return l.blockOverpaid(ctx, u, over)
	}
	if !failed {
		return nil
	}
	if f.Verdict == journal.Blocked || b.Counted[b.Current] >= l.job.Config.Scud.MaxIterationsPerTask {
		u.res.Verdict, u.res.Reason = verify.Verdict(f.Verdict), f.Reason
		if f.Detail != nil {
			u.res.Agent.Question = f.Detail.Question
		}
		return l.block(ctx, u)
	}
	return nil
}

// revive is the unit that the journal tells of. It fails for a task that the list no longer has.
func (l *Loop) revive(id string, number int) (*unit, bool) {
	t, ok := l.job.Graph.Task(id)
	if !ok {
		return nil, false
	}
	return &unit{task: t, number: number, base: gitops.Tree(l.history.Bases[id]), before: gitops.Tree(l.history.Tree),
		log: l.home.Log(l.state.ID, id, number), started: l.tools.Now(), with: l.job.Config.Choices(t)[0]}, true
}

// adopt ends an attempt that was under way. An outcome says that the run ends here, as it would have.
func (l *Loop) adopt(ctx context.Context, stop *stopper, open journal.Event) (*Outcome, error) {
	u, ok := l.revive(open.Task, open.Attempt)
	if !ok { // the task is gone from the list: its work stays in the tree, and is kept
		return nil, errors.New("task " + open.Task + " was under way when the loop was interrupted, and is no longer in the task file; put it back, or remove " + l.relative(l.saver.own.path))
	}
	u.started = open.TS
	if d := open.Detail; d != nil {
		if u.tuned = d.Tuned; d.Backend != "" {
			u.with = Choice{Backend: d.Backend, Model: d.Model}
		}
	}
	start, known := l.start(u), adopted(l.history.OpenAgent)
	start.Resumed = l.home.resumed(l.state.ID, open, l.history.OpenAgent, l.tools.Now())
	if _, err := l.ws.Prepare(ctx, start); err != nil {
		return nil, err
	}
	in := l.input(u, "")
	in.Adopted = &known
	var err error
	if u.res, err = l.runner.Run(ctx, l.ws, in, l.observe(u)); err != nil {
		return nil, fmt.Errorf("task %s: %w", u.task.ID, err)
	}
	if changed := u.res.Work.Changed; len(changed) > 0 && u.res.Agent.End == agent.Cancelled {
		if err := l.warn(u, "the interrupted attempt left changes, which the next one goes on from: "+workspace.Paths(changed)); err != nil {
			return nil, err
		}
	}
	out, _, err := l.conclude(ctx, stop, u)
	l.spent(u)
	if err != nil || u.res.Verdict != verify.Cancelled {
		return out, err
	}
	if over := l.overpaid(u.task.ID); over != "" && l.history.Current == u.task.ID {
		return nil, l.blockOverpaid(ctx, u, over)
	}
	return nil, nil
}

// adopted is what the journal tells of an attempt that a killed run had begun.
func adopted(end *journal.Event) (a attempt.Adopted) {
	if end == nil || end.Detail == nil {
		return a
	}
	res := recalled(end)
	return attempt.Adopted{Agent: &res, Changed: end.Detail.Changed}
}

// resumed is what the workspace is told of it.
func (h Home) resumed(id string, open journal.Event, end *journal.Event, now time.Time) *workspace.Resumed {
	r := &workspace.Resumed{Head: gitops.Head{Branch: open.Branch, Hash: open.Commit}, Began: open.TS, Ended: now}
	// Its last process ended when that was recorded; where it was not, the attempt lasted until now.
	if fi, err := os.Stat(h.ExitFile(id)); err == nil && fi.ModTime().After(open.TS) {
		r.Ended = fi.ModTime()
	}
	if end != nil && end.Detail != nil {
		r.Seen = gitops.Tree(end.Detail.Tree)
	}
	return r
}
