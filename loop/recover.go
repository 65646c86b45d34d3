package loop

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"unicode/utf8"

	"descartes/agent"
	"descartes/gitops"
	"descartes/loop/journal"
	"descartes/loop/source"
	"descartes/loop/store"
	"descartes/loop/workspace"
	"descartes/tasks"
	"descartes/verify"
)

// What a killed run left behind, and what becomes of it.

// killed ends an attempt that a killed run left open. It counts for nothing: a ref keeps what its slot holds, and the
// task starts again from what this attempt had started from.
func (w *tagWork) killed(ctx context.Context, ln *lane, open *journal.Event) error {
	u, ok := w.task.attemptOf(ln, open)
	if !ok { // the list no longer has it
		return errors.New("task " + open.Task +
			" was under way when the run was killed, and is no longer in the task file; put it back, or remove " +
			w.run.relative(w.run.saver.own.Path))
	}
	if done, err := w.task.wasVerified(u, open); done || err != nil {
		return err
	}
	u.res.Verdict, u.res.Reason = verify.Cancelled, journal.Killed
	var err error
	if u.res.Work, err = w.run.worker.holding(ctx, u, open); err != nil {
		return err
	}
	end := w.run.event(journal.AttemptFinished, u)
	end.Verdict, end.Reason, end.Round, end.Detail = journal.Cancelled, u.res.Reason, open.Round,
		&journal.Detail{Exit: journal.Exit{End: string(agent.Cancelled)},
			Client: journal.Client{Log: w.run.relative(u.log)}}
	if end.Ref, err = w.task.keep(ctx, u, nil); err != nil {
		return err
	}
	return w.run.tell(end)
}

// wasVerified records the end of an attempt that its ref calls verified: the run was killed before it could. Its work
// is integrated, and no agent runs again.
func (w *taskWork) wasVerified(u *unit, open *journal.Event) (bool, error) {
	at := slices.IndexFunc(w.kept, func(r gitops.Ref) bool {
		return r.Name == store.RefPrefix(w.run.state.ID, open.Task)+strconv.Itoa(open.Attempt)
	})
	if at < 0 {
		return false, nil
	}
	ref := w.kept[at]
	k, ok := source.ReadKept(ref, w.run.list, open.Task)
	if !ok || k.Verified() == 0 {
		return false, nil
	}
	tree, err := w.run.tools.Repo.CommitTree(ref.Hash)
	if err != nil {
		return false, gitErr("read the verified work on task "+open.Task, err)
	}
	end := w.run.event(journal.AttemptFinished, u)
	end.Verdict, end.Reason, end.Round, end.Tree, end.Ref = journal.Verified, k.Reason, open.Round, string(tree),
		ref.Name
	end.Detail = &journal.Detail{Exit: journal.Exit{End: string(agent.Finished)},
		Client: journal.Client{Log: w.run.relative(u.log)}}
	return true, w.run.tell(end)
}

// holding is what the slot of a killed run's attempt holds; nothing if another run used it since, or if it holds what
// the attempt began with.
func (l *worker) holding(ctx context.Context, u *unit, open *journal.Event) (work workspace.Result, err error) {
	if u.lane == nil {
		return work, nil
	}
	if err := u.lane.runner.Killed(u.log); err != nil {
		return work, err
	}
	work, err = u.lane.slot.Holds(ctx, open.TS)
	if err != nil && ctx.Err() == nil && !DiskFull(err) {
		return workspace.Result{}, l.run.tellWarn(u, fmt.Sprintf("what it left in slot %d cannot be kept: %v",
			open.Slot, err))
	}
	if work.After == u.before && work.Commits == "" {
		work.After = ""
	}
	return work, err
}

// recover puts back what a killed run took out of the trunk, and takes up the attempts that it ordered from a fleet:
// their results are used.
func (w *tagWork) recover() (_ *Outcome, err error) {
	if err := w.waves.takenOut(w.run.ctx); err != nil {
		return nil, err
	}
	for _, ln := range w.run.lanes.all {
		if ln.order == nil {
			continue
		}
		w.run.say(func() {
			var u *unit
			if u, err = w.task.ordered(ln, ln.order); err == nil {
				_, err = w.run.start(ln, u)
			}
		})
		if ln.order = nil; err != nil {
			return nil, err
		}
	}
	return nil, nil
}

// ordered is the unit of an attempt that a killed run ordered from a fleet.
func (w *taskWork) ordered(ln *lane, open *journal.Event) (*unit, error) {
	u, ok := w.attemptOf(ln, open)
	if !ok {
		return nil, errors.New("task " + open.Task +
			" was ordered from the fleet, and is no longer in the task file; put it back, or remove " +
			w.run.relative(w.run.saver.own.Path))
	}
	u.started, u.again, u.begun, u.after = open.TS, true, false, w.after // its input is made anew
	if open.Round > 0 {
		r := w.tag.rounds.all[open.Task]
		if r == nil { // it continues with the candidates that were ordered
			r = &round{first: open.Round, base: u.base}
			w.tag.rounds.all[open.Task] = r
		}
		u.round, r.running = r, append(r.running, u)
	}
	if d := open.Detail; d != nil && d.Backend != "" {
		u.with = Choice{Backend: d.Backend, Model: d.Model}
	}
	w.tag.queue.under = append(w.tag.queue.under, u)
	return u, nil
}

// finishTask completes what another run, or another attempt, began of a task: the steps between the end of an attempt
// and the end of its task. It reports whether there was one.
func (w *taskWork) finishTask(u *unit) (bool, error) {
	id, h := u.task.ID, w.run.history.Task(u.task.ID)
	if v := h.Verified; v != nil {
		u.number, u.base, u.res.Verdict, u.ref = v.Attempt, gitops.Tree(v.Base), verify.Verified, v.Ref
		u.res.Work.After = gitops.Tree(v.Tree)
		u.res.Grade = verify.Grade(w.run.history.Attempt(journal.Key{Task: id, Number: v.Attempt}).Grade())
		return true, w.integrate(u)
	}
	return w.givesUp(u)
}

// attemptOf is the unit of an attempt that the journal says has begun. ok is false if the list no longer has the task.
func (w *taskWork) attemptOf(ln *lane, open *journal.Event) (u *unit, ok bool) {
	t, ok := w.run.job.Graph.Task(open.Task)
	if !ok {
		return nil, false
	}
	u = w.underway(ln, t, open.Attempt, open.Of)
	u.before, u.begun = gitops.Tree(open.Tree), true
	return u, true
}

// underway is an attempt of a task that the journal says has begun.
func (w *taskWork) underway(ln *lane, t *tasks.Task, number, of int) *unit {
	return &unit{lane: ln, task: t, number: number, of: of, base: gitops.Tree(w.run.history.Task(t.ID).Base),
		before: gitops.Tree(w.run.history.Task(t.ID).Tree), since: w.run.history.Task(t.ID).Started,
		log: w.run.home.Log(w.run.state.ID, t.ID, number), started: w.run.tools.Now(),
		with: w.run.config.Choices(t)[0]}
}

// AgentEnd fills an event with how an agent's run ended, and up to words bytes of its last message.
func AgentEnd(e *journal.Event, r agent.Result, with Choice, words int) *journal.Event {
	e.Type, e.Reason, e.Detail = journal.AgentFinished, r.Reason, agentDetail(r, with, words)
	return e
}

// agentDetail is a result for the journal, with up to words bytes of the last message.
func agentDetail(r agent.Result, with Choice, words int) *journal.Detail {
	d := &journal.Detail{Exit: journal.Exit{End: string(r.End), Cause: string(r.Cause), Code: r.Code, Signal: r.Signal,
		Seconds: r.Duration.Seconds()}, Speech: journal.Speech{Claimed: r.Complete, Blocked: r.Blocked,
		Question: Tail(r.Question, MaxWords), Notes: slices.Clone(r.Notes[:min(len(r.Notes), maxNotes)]),
		Words: Tail(r.Final, words)}, Client: journal.Client{Session: r.Session, Anew: r.Gone,
		Model: cmp.Or(r.Model, with.Model), Backend: with.Backend}}
	if !r.Until.IsZero() {
		d.Until = &r.Until
	}
	if c := r.Cost; c != nil {
		d.USD, d.Estimated, d.Partial = c.USD, c.Estimated, c.Partial
		if t := c.Tokens; t != nil {
			d.InputTokens, d.OutputTokens, d.CacheRead, d.CacheWrite = t.Input, t.Output, t.CacheRead, t.CacheWrite
		}
	}
	return d
}

// WithNotes returns the event of an agent's end and a warning for each of its notes. They are written together: a
// journal that has the first has all of them.
func WithNotes(e *journal.Event) []*journal.Event {
	events := []*journal.Event{e}
	for _, note := range e.Detail.Notes {
		w := &journal.Event{Type: journal.Warning, Unit: journal.Unit{Wave: e.Wave, Task: e.Task, Title: e.Title,
			Iteration: e.Iteration, Attempt: e.Attempt, Of: e.Of}, Message: note}
		events = append(events, w)
	}
	return events
}

// maxNotes limits the notes per run in the journal.
const maxNotes = 20

// MaxWords limits, in bytes, an agent's last words in the journal; its log has all of them.
const MaxWords = 4 << 10

// MaxFinal limits, in bytes, the final message in the journal of an iteration or a review: as long as what is read of
// one.
const MaxFinal = 16 << 10

// Tail is the end of s, at most n bytes of whole characters.
func Tail(s string, n int) string {
	if len(s) <= n {
		return s
	}
	s = s[len(s)-n:]
	for len(s) > 0 && !utf8.RuneStart(s[0]) {
		s = s[1:]
	}
	return s
}
