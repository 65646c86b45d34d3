package loop

import (
	"cmp"
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"descartes/agent"
	"descartes/gitops"
	"descartes/loop/attempt"
	"descartes/loop/journal"
	"descartes/loop/workspace"
	"descartes/verify"
)

// recover resumes what a dead loop had begun in a lane.
func (w *tagWork) recover(ctx context.Context, stop *stopper, ln *lane) (*Outcome, error) {
	if ln.task == "" {
		return nil, nil
	}
	out, err := w.takeUp(ctx, stop, ln)
	if ln.spare {
		ln.task = ""
	}
	return out, err
}

// takeUp finishes what a dead loop had begun of a lane's task. An attempt under way is adopted if its agent had finished; otherwise it does not
// count, and its work stays for the next one. Verified work is integrated; a given-up task is taken back. The lane keeps the task if there is more to
// do.
func (w *tagWork) takeUp(ctx context.Context, stop *stopper, ln *lane) (out *Outcome, err error) {
	id, begun := ln.task, w.history.Tasks[ln.task]
	o, number, of := begun.In(ln.number()), w.history.Begun[id], 0
	if o != nil {
		number, of = o.Started.Attempt, o.Started.Of
	}
	if u, ok := w.revive(ln, id, number, of); ok && o != nil && o.Started.Round > 0 {
		return w.adoptCandidate(ctx, stop, u, o)
	} else if ok && o != nil {
		out, err = w.endOpen(ctx, stop, u, o)
	} else if ok && len(begun.Open) > 0 {
		for _, o := range slices.Clone(begun.Open) {
			err = errors.Join(err, w.lost(u, o.Started))
		}
	} else if ok {
		err = w.finishTask(ctx, u)
	} else if len(begun.Open) > 0 { // the task is gone from the list: its work stays where it is
		err = errors.New("task " + id + " was under way when the loop was interrupted, and is no longer in the task file; put it back, or remove " + w.relative(w.saver.own.path))
	}
	if w.history.Tasks[id] == nil || !w.job.Graph.Ready(id) {
		ln.task = ""
	}
	return out, err
}

// endOpen ends an attempt that was under way. An outcome ends the run, as it would have then.
func (w *tagWork) endOpen(ctx context.Context, stop *stopper, u *unit, o *journal.OpenAttempt) (*Outcome, error) {
	if err := w.adopt(ctx, stop, u, o.Started, o.Agent); err != nil {
		return nil, err
	}
	if changed := u.res.Work.Changed; len(changed) > 0 && u.res.Agent.End == agent.Cancelled {
		if err := w.warn(u, "the interrupted attempt had changed "+workspace.Paths(changed)); err != nil {
			return nil, err
		}
	}
	if u.over != nil {
		return u.over, nil
	}
	out, _, err := w.verdict(ctx, stop, u)
	w.spent(u)
	if err != nil || u.res.Verdict != verify.Cancelled {
		return out, err
	}
	if over := w.overpaid(u.task.ID); over != "" && w.history.Tasks[u.task.ID] != nil {
		return nil, w.blockOverpaid(u, over)
	}
	return nil, nil
}

// lost records the end of an attempt whose slot another run uses.
func (w *tagWork) lost(u *unit, started *journal.Event) error {
	e := w.event(journal.AttemptFinished, u)
	e.Attempt, e.Round = started.Attempt, started.Round
	e.Verdict, e.Reason, e.Detail = journal.Cancelled, "the run was interrupted, and continues in another slot", &journal.Detail{}
	return w.record(e)
}

// finishTask completes the steps between the end of an attempt and the end of its task.
func (w *tagWork) finishTask(ctx context.Context, u *unit) error {
	id, h := u.task.ID, w.history
	for _, v := range h.Verified {
		if v.Task == id {
			u.number, u.base, u.res.Verdict = v.Attempt, gitops.Tree(v.Base), verify.Verified
			u.res.Work.After = gitops.Tree(v.Tree)
			u.res.Grade = verify.Grade(h.GradeOf(id, v.Attempt))
			_, err := w.integrate(ctx, u, v.Ref)
			return err
		}
	}
	f, failed := h.Failures[id]
	if over := w.overpaid(id); over != "" && f.Verdict != journal.Blocked {
		u.res.Reason = cmp.Or(f.Reason, "none has ended")
		return w.blockOverpaid(u, over)
	}
	if failed && (f.Verdict == journal.Blocked || h.Counted[id] >= w.config.Scud.MaxIterationsPerTask) {
		u.res.Verdict, u.res.Reason = verify.Verdict(f.Verdict), f.Reason
		if f.Result != nil {
			u.res.Agent.Question, u.denied = f.Result.Question, f.Result.Denied
		}
		return w.block(u)
	}
	return nil
}

// revive returns the unit that the journal describes. ok is false if the list no longer has the task.
func (w *tagWork) revive(ln *lane, id string, number, of int) (*unit, bool) {
	t, ok := w.job.Graph.Task(id)
	if !ok {
		return nil, false
	}
	return &unit{lane: ln, task: t, number: number, of: of, base: gitops.Tree(w.history.Bases[id]), before: gitops.Tree(w.history.Tasks[id].Tree), since: w.history.Starts[id],
		log: w.home.Log(w.state.ID, id, number), started: w.tools.Now(), with: w.config.Choices(t)[0]}, true
}

// adopted is the journal's record of an attempt that a killed run had begun.
func adopted(end *journal.Event) *attempt.Adopted {
	if end == nil || end.Detail == nil {
		return &attempt.Adopted{}
	}
	res := recalled(end)
	return &attempt.Adopted{Agent: &res, Changed: end.Detail.Changed}
}

// resumed is what the workspace needs to know about it.
func resumed(exit string, open, end *journal.Event, now time.Time) *workspace.Resumed {
	r := &workspace.Resumed{Head: gitops.Head{Branch: open.Branch, Hash: open.Head}, Began: open.TS, Ended: now}
	// Its last process ended when that was recorded; without a record, the attempt lasted until now.
	if fi, err := os.Stat(exit); err == nil && fi.ModTime().After(open.TS) {
		r.Ended = fi.ModTime()
	}
	if end != nil && end.Detail != nil {
		r.Seen = gitops.Tree(end.Detail.Tree)
	}
	return r
}

// agentEnd fills an event with how an agent's run ended, and up to words bytes of its last message. A resumed loop knows nothing else about the run:
// see recalled.
func agentEnd(e *journal.Event, r agent.Result, with Choice, words int) *journal.Event {
	e.Type, e.Reason, e.Detail = journal.AgentFinished, r.Reason, agentDetail(r, with, words)
	return e
}

// agentDetail is a result for the journal, with up to words bytes of the last message.
func agentDetail(r agent.Result, with Choice, words int) *journal.Detail {
	d := &journal.Detail{End: string(r.End), Cause: string(r.Cause), Code: r.Code, Signal: r.Signal, Claimed: r.Complete, Blocked: r.Blocked,
		Question: tail(r.Question, maxWords), Notes: slices.Clone(r.Notes[:min(len(r.Notes), maxNotes)]),
		Words: tail(r.Final, words), Seconds: r.Duration.Seconds(), Session: r.Session, Anew: r.Gone, Model: cmp.Or(r.Model, with.Model), Backend: with.Backend}
	if !r.Until.IsZero() {
		d.Until = &r.Until
	}
	if c := r.Cost; c != nil {
		d.USD, d.Estimated = c.USD, c.Estimated
		if t := c.Tokens; t != nil {
			d.InputTokens, d.OutputTokens, d.CacheRead, d.CacheWrite = t.Input, t.Output, t.CacheRead, t.CacheWrite
		}
	}
	return d
}

// withNotes returns the event of an agent's end and a warning for each of its notes. They are written together: a journal that has the first has all
// of them.
func withNotes(e *journal.Event) []*journal.Event {
	events := []*journal.Event{e}
	for _, note := range e.Detail.Notes {
		w := &journal.Event{Type: journal.Warning, Wave: e.Wave, Task: e.Task, Title: e.Title, Iteration: e.Iteration, Attempt: e.Attempt, Of: e.Of, Message: note}
		events = append(events, w)
	}
	return events
}

// maxNotes limits the notes per run in the journal.
const maxNotes = 20

// recalled rebuilds an agent's result from its event.
func recalled(e *journal.Event) agent.Result {
	d := e.Detail
	r := agent.Result{End: agent.End(d.End), Cause: agent.Cause(d.Cause), Code: d.Code, Signal: d.Signal, Reason: e.Reason, Complete: d.Claimed,
		Blocked: d.Blocked, Question: d.Question, Notes: d.Notes, Final: d.Words, Session: d.Session, Gone: d.Anew, Model: d.Model,
		Duration: time.Duration(d.Seconds * float64(time.Second))}
	if d.Until != nil {
		r.Until = *d.Until
	}
	if d.USD != nil || d.InputTokens+d.OutputTokens > 0 {
		r.Cost = &agent.Cost{USD: d.USD, Estimated: d.Estimated}
		if d.InputTokens+d.OutputTokens > 0 {
			r.Cost.Tokens = &agent.Tokens{Input: d.InputTokens, CacheRead: d.CacheRead, CacheWrite: d.CacheWrite, Output: d.OutputTokens}
		}
	}
	return r
}

// maxWords limits, in bytes, an agent's last words in the journal; its log has all of them.
const maxWords = 4 << 10

// maxFinal limits, in bytes, the final message in the journal. A resumed loop looks for the promise in it, so it is as long as what is read of a
// final message.
const maxFinal = 16 << 10

// head is the beginning of s, at most n bytes of whole characters.
func head(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n], "")
}

// tail is the end of s, at most n bytes of whole characters.
func tail(s string, n int) string {
	if len(s) <= n {
		return s
	}
	s = s[len(s)-n:]
	for len(s) > 0 && !utf8.RuneStart(s[0]) {
		s = s[1:]
	}
	return s
}
