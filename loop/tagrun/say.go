package tagrun

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"descartes/config"
	"descartes/internal/oneline"
	"descartes/loop"
	"descartes/loop/attempt"
	"descartes/loop/book"
	"descartes/loop/journal"
	"descartes/loop/store"
	"descartes/scheduler"
)

// stepped writes what an attempt or a check reports while it is at work.
func (r *Run) stepped(unit journal.Unit, s *attempt.Step) error {
	b := r.book
	unit.Step = s.Number
	switch s.Moment {
	case attempt.Placed:
		unit.Host = s.Who
		return b.Write(&journal.Event{Type: journal.AttemptPlaced, Unit: unit, Ref: s.Ref})
	case attempt.Waits:
		e := &journal.Event{Type: journal.AttemptWaiting, Unit: unit, Reason: s.Who}
		if !s.Until.IsZero() {
			e.Detail = &journal.Detail{Exit: journal.Exit{Until: &s.Until}}
		}
		return b.Write(e)
	case attempt.Ended:
		return r.heal(unit, s.Who)
	case attempt.Started:
		e := &journal.Event{Type: journal.VerifyStarted, Unit: unit}
		loop.NameCheck(e, s.Command)
		return b.Write(e)
	case attempt.Checked:
		e := &journal.Event{Type: journal.VerifyFinished, Unit: unit, Detail: loop.VerifyDetail(s.Verify)}
		e.Detail.Check = ""
		if loop.NameCheck(e, s.Command); e.Detail.Check != "" && !s.Verify.Passed {
			e.Detail.Why, e.Detail.Output = s.Verify.Reason(), loop.Tail(s.Verify.Tail, loop.MaxWords)
		}
		e.Detail.Command = s.Command.Run
		return b.Write(e)
	case attempt.Looking:
		return b.Write(&journal.Event{Type: journal.LookStarted, Unit: unit, Detail: &journal.Detail{Look: s.Who}})
	case attempt.Consulted:
		e := loop.AgentEnd(&journal.Event{Unit: unit}, *s.Agent, config.Choice(s.With), loop.MaxFinal)
		e.Type, e.Detail.Look, e.Detail.Tree, e.Detail.Log = journal.LookAnswered, s.Who, string(s.Tree),
			b.Relative(s.Log)
		until, err := r.rests(config.Choice(s.With), s.Agent)
		if err != nil {
			return err
		}
		e.Detail.Until = until
		return b.Write(loop.WithNotes(e)...)
	case attempt.Noted:
		for _, line := range s.Lines {
			if s.Who != "" && r.told.once[line] { // what a look says about every attempt is reported once
				continue
			}
			r.told.once[line] = s.Who != ""
			if err := b.Write(book.Warning(unit, line)); err != nil {
				return err
			}
		}
	}
	return nil
}

// heal restores what is ours and an attempt changed: the journal, the locks. who names the part that did it.
func (r *Run) heal(unit journal.Unit, who string) error {
	healed, err := r.book.Journal.Heal()
	locks, lost := store.Retake(r.locks.All)
	r.locks.All = locks
	if err = errors.Join(err, lost); err != nil || !healed {
		return err
	}
	if err := r.ground.home.Make(r.ground.tools.FS); err != nil {
		return err
	}
	return r.book.Write(book.Warning(unit, "somebody changed "+r.book.Relative(r.book.Journal.Path())+" during the "+
		who+", which was put back"))
}

// tellMoves tells people what became of tasks by an event: was has where they stood before it.
func (r *Run) tellMoves(was map[string]scheduler.Stage) error {
	var lines []*journal.Event
	gone := false
	for _, t := range r.machine.Tasks {
		before, known := was[t.ID]
		if t.Stage == before {
			continue
		}
		switch t.Stage {
		case scheduler.Done:
			if h := r.book.History.Task(t.ID); h.Stand != journal.StandDone && !t.ByHand {
				lines = append(lines, r.doneLine(t))
			}
		case scheduler.Blocked:
			if gone = true; known && r.book.History.Task(t.ID).Stand != journal.StandBlocked && t.Number > 0 {
				lines = append(lines, r.blockedLine(t))
			}
		case scheduler.Aside:
			if gone = true; known && before != scheduler.Pending && r.task(t.ID) != nil {
				lines = append(lines, &journal.Event{Type: journal.ListChanged, Unit: journal.Unit{Wave: t.Wave,
					Of: len(r.job.Graph.Waves())}, Tasks: []string{t.ID},
					Message: t.ID + " is " + string(r.job.Graph.Status(t.ID))})
			} else if before == scheduler.Blocked && r.task(t.ID) == nil {
				lines = append(lines, &journal.Event{Type: journal.Warning, Reason: journal.ReasonGone, Tasks: []string{t.ID},
					Message: "nobody is asked about " + t.ID + " any more: the branch has changed, and what it was for is tried again"})
			}
		}
	}
	if err := r.book.Write(lines...); err != nil || !gone {
		return err
	}
	return r.tellHeld()
}

// doneLine says that the branch has a task's work, or that nothing had to be done.
func (r *Run) doneLine(t *scheduler.Task) *journal.Event {
	e := &journal.Event{Type: journal.TaskDone, Unit: r.unit(t.ID)}
	a := r.book.History.VerifiedBy(t.ID, r.ground.tools.Now())
	if a == nil {
		return e
	}
	e.Attempt, e.Of, e.Ref = a.Number, a.Of, a.Ref
	if m := r.made[t.ID]; m != nil {
		e.Reason = m.res.Remarks()
	}
	if g := a.Grade(); g != "" {
		e.Detail = &journal.Detail{Grade: g}
		if g == journal.Accepted || g == journal.NotNeeded {
			e.Reason = a.Reason
		}
	}
	return e
}

// blockedLine says that a task was given up, and why.
func (r *Run) blockedLine(t *scheduler.Task) *journal.Event {
	h := r.book.History.Task(t.ID)
	e := &journal.Event{Type: journal.TaskBlocked, Unit: r.unit(t.ID)}
	f := h.Failure
	e.Verdict, e.Reason, e.Tree, e.Attempt = f.Verdict, f.Reason, h.Base, h.Counted
	last := r.lastOf(t.ID)
	c := r.ground.config
	switch {
	case last != nil && h.Interruptions > 0 && t.Interruptions > 0:
		why := fmt.Sprintf("%d attempts in a row were interrupted: %s", t.Interruptions, last.Reason)
		e.Verdict, e.Reason = journal.Failed, strings.TrimSuffix(why, ": ")
	case c.MaxCostPerTask > 0 && h.USD >= c.MaxCostPerTask && f.Verdict != journal.Blocked:
		why := "none has ended"
		if last != nil {
			why = cmp.Or(last.Reason, f.Reason, why)
		}
		e.Verdict = journal.Failed
		e.Reason = fmt.Sprintf("its attempts cost %s, and a task may cost %s; the last one: %s", journal.Dollars(h.USD),
			journal.Dollars(c.MaxCostPerTask), why)
	case f.Verdict == "" && last != nil:
		e.Verdict, e.Reason = last.Verdict, last.Reason
	}
	if e.Verdict == journal.Crashed && h.OtherEnds {
		e.Verdict = journal.Failed
	}
	if h.Ref != "" {
		e.Ref = store.RefPrefix(r.ID(), t.ID)
	}
	if d := f.Result; d != nil {
		asks := e.Verdict == journal.Blocked && d.Question != ""
		if asks || len(d.Denied) > 0 {
			e.Detail = &journal.Detail{Speech: journal.Speech{Denied: d.Denied}}
		}
		if asks {
			e.Detail.Question = d.Question
		}
	}
	return e
}

// lastOf is the last attempt at a task that has ended, nil for none.
func (r *Run) lastOf(id string) *journal.Attempt {
	for _, a := range slices.Backward(r.book.History.Ended) {
		if a.Task == id {
			return a
		}
	}
	return nil
}

// tellHeld names the tasks that no longer can come, and what holds them.
func (r *Run) tellHeld() error {
	var lines []*journal.Event
	g := r.job.Graph
	for _, id := range g.Leaves() {
		root, held := g.Held(id)
		if why := g.Why(id, r.isAsked); held && r.told.held[id] != why {
			r.told.held[id] = why
			e := &journal.Event{Type: journal.TaskHeld, Unit: r.unit(id), Reason: why, Tasks: root}
			e.Attempt, e.Of = 0, 0
			lines = append(lines, e)
		}
	}
	return r.book.Write(lines...)
}

// isAsked reports whether a blocked task waits for a person's answer.
func (r *Run) isAsked(id string) bool {
	if b := r.book.History.Task(id).Blocked; b != nil {
		return b.Spoken().Question != ""
	}
	return slices.ContainsFunc(r.told.asked, func(a store.Asked) bool { return a.Task == id && a.Question != "" })
}

// tellBreaker says that the breaker is open.
func (r *Run) tellBreaker() error {
	if r.ends.breaker = r.ends.tip; r.ends.breaker == "" {
		r.ends.breaker = r.breakerText()
	}
	return r.book.Write(&journal.Event{Type: journal.BreakerOpened, Reason: r.ends.breaker,
		Tasks: r.machine.Breaker.Names()})
}

// breakerText says what opened the breaker.
func (r *Run) breakerText() string {
	names := r.machine.Breaker.Names()
	shown, idle := "", r.machine.Breaker.ByAgents()
	for _, a := range slices.Backward(r.book.History.Ended) {
		if slices.Contains(names, a.Task) {
			shown = a.Reason
			if a.Result != nil && !idle && strings.TrimSpace(a.Result.Output) != "" {
				shown = lastLine(a.Result.Output)
			}
			break
		}
	}
	what := "the same failure"
	if idle {
		what = "agents crashed or did nothing"
	}
	where := fmt.Sprintf(" in %d tasks in a row", len(names))
	if len(names) == 1 {
		where = " in a task"
	}
	if r.ends.half {
		where = " again after the breaker had opened"
	}
	return what + where + " (" + strings.Join(names, ", ") + "): " + oneline.Text(shown)
}
