package loop

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"descartes/config"
	"descartes/gitops"
	"descartes/loop/journal"
	"descartes/specbuild"
	"descartes/tasks"
	"descartes/verify"
)

// round is several simultaneous attempts at one task, its candidates: each runs in its own lane, on the same tree and
// with the same spec. The lane of a verified candidate is taken until all have ended, because its slot holds that
// work.
//
//	begun --not verified--> its end is recorded at once, the lane is free
//	      --verified------> waits for the others --taken--> integrated like any verified attempt
//	                                             --else---> dropped: its end is recorded, a ref keeps its work
type round struct {
	first        int // number of its first attempt
	of           int // number of the task's last attempt
	next, left   int // number of the next attempt, and how many have not begun
	base, before gitops.Tree
	from         func(*unit) error // see unit
	marked       []string
	spec         *specbuild.Spec // shared by all; nil before the first

	running []*unit // at work
	passed  []*unit
	taken   *unit
}

// over reports whether a candidate has been taken.
func (r *round) over() bool { return r != nil && r.taken != nil }

// take picks u. Candidates at work are stopped; those not started never start.
func (r *round) take(u *unit) {
	r.taken, r.left = u, 0
	for _, other := range r.running {
		if other.cancel != nil {
			other.cancel()
		}
	}
}

// candidate is the unit's number in its round, from 1; 0 without a round.
func (u *unit) candidate() int {
	if u.round == nil {
		return 0
	}
	return u.number - u.round.first + 1
}

// rounds are those of candidates under way, by task.
type rounds struct {
	run *Loop
	tag *tagWork
	all map[string]*round
}

// newRound begins the round of a task.
func (w *rounds) newRound(ln *lane, t *tasks.Task) *round {
	alone := w.tag.task.alone(ln, t)
	r := &round{first: alone.number, of: alone.of, next: alone.number, left: w.run.config.CandidatesOf(t),
		base: alone.base, before: alone.before, from: alone.from, marked: alone.marked}
	w.all[t.ID] = r
	return r
}

// candidate returns the next unit of a round.
func (w *rounds) candidate(r *round, ln *lane, t *tasks.Task) *unit {
	u := &unit{lane: ln, task: t, number: r.next, of: r.of, round: r, base: r.base, before: r.before, from: r.from,
		marked: r.marked, since: w.run.history.Task(t.ID).Started, log: w.run.home.Log(w.run.state.ID, t.ID, r.next)}
	r.next, r.left, r.running = r.next+1, r.left-1, append(r.running, u)
	return u
}

// wanted returns a task whose round still lacks candidates, or "".
func (w *rounds) wanted() string {
	for _, id := range slices.Sorted(maps.Keys(w.all)) {
		if w.all[id].left > 0 {
			return id
		}
	}
	return ""
}

// fitting returns the ready tasks that may begin now: those with a free lane for each of their candidates, so that
// rounds cannot wait for each other forever. With one task at a time it returns none while any is under way.
func (w *rounds) fitting(ready []string) []string {
	if w.run.config.MostCandidates <= 1 {
		return ready
	}
	begun, free := map[string]bool{}, len(w.run.lanes.all)
	for _, u := range w.tag.queue.under {
		begun[u.task.ID] = true
	}
	for id := range w.all {
		begun[id] = true
	}
	for id := range begun {
		if t, ok := w.run.job.Graph.Task(id); ok {
			if n := w.run.config.CandidatesOf(t); n > 1 {
				free -= n
			}
		}
	}
	return slices.DeleteFunc(ready, func(id string) bool {
		t, _ := w.run.job.Graph.Task(id)
		n := w.run.config.CandidatesOf(t)
		return w.all[id] != nil || len(begun) > 0 && w.run.config.TasksAtOnce() == 1 || n > 1 && n > free
	})
}

// conclude records the end of a candidate. A verified one waits for the others; the last one decides.
func (w *rounds) conclude(u *unit) (*Outcome, error) {
	r := u.round
	r.running = slices.DeleteFunc(r.running, func(x *unit) bool { return x == u })
	if u.res.Verdict == verify.Verified {
		if r.passed = append(r.passed, u); w.run.config.Pick != config.PickSmallest && !r.over() {
			r.take(u)
		}
		if err := w.run.record(); err != nil { // what waits for the next event, which may take long
			return nil, err
		}
		return w.over(u)
	}
	out, err := w.recordEnd(u)
	if err != nil {
		return nil, err
	}
	w.run.endWith(out, nil)
	return w.over(u)
}

// quit gives up a candidate whose run ended before it began.
func (w *rounds) quit(u *unit) {
	u.round.running = slices.DeleteFunc(u.round.running, func(x *unit) bool { return x == u })
	w.run.endWith(w.over(u))
}

// windUp lets rounds end with the candidates that they have: the run ends.
func (w *tagWork) windUp() {
	for _, id := range slices.Sorted(maps.Keys(w.rounds.all)) {
		if r := w.rounds.all[id]; r.left > 0 {
			if r.left = 0; len(r.passed) > 0 {
				w.run.endWith(w.rounds.over(r.passed[0]))
			}
		}
	}
}

// over decides about a round all of whose candidates have ended; u is one of them.
func (w *rounds) over(u *unit) (*Outcome, error) {
	r, id := u.round, u.task.ID
	if len(r.running) > 0 || r.left > 0 || w.all[id] != r {
		return nil, nil
	}
	delete(w.all, id)
	if len(r.passed) == 0 {
		if !u.begun {
			return nil, nil
		}
		u.round = nil
		if done, err := w.tag.task.finishTask(u); done || err != nil {
			if err == nil && !w.run.history.Task(id).Open() {
				err = w.tag.breaker.recheck(u)
			}
			return nil, err
		}
		if err := w.tag.queue.comesAgain(u); err != nil {
			return nil, err
		}
		out, err := w.run.backoff.over(w.run.config.Choices(u.task), w.run.worker.teller(u))
		return w.tag.dropped(u, out), err
	}
	if !r.over() {
		r.take(slices.MinFunc(r.passed, func(a, b *unit) int { return cmp.Or(a.size-b.size, a.number-b.number) }))
	}
	left := len(r.passed) - 1
	last := func() (*Outcome, error) {
		out, _, err := w.tag.task.verdict(r.taken)
		return out, err
	}
	if left == 0 {
		return last()
	}
	for _, other := range r.passed {
		if other == r.taken {
			continue
		}
		w.drop(other)
		w.run.aside(func() { other.ref, other.err = w.tag.task.keep(context.WithoutCancel(w.run.ctx), other, nil) },
			func() {
				out, err := w.recordEnd(other)
				w.run.endWith(out, errors.Join(other.err, err))
				if left--; left == 0 {
					w.run.endWith(last())
				}
			})
	}
	return nil, nil
}

// drop makes a candidate one that was not taken.
func (w *rounds) drop(u *unit) {
	r, res := u.round, &u.res
	res.Reason = fmt.Sprintf("attempt %d was verified first", r.taken.number)
	if w.run.config.Pick == config.PickSmallest {
		res.Reason = fmt.Sprintf("it is verified too, but attempt %d changes %s, and this one %d", r.taken.number,
			changedLines(r.taken.size), u.size)
	}
	res.Verdict = verify.Verdict(journal.Dropped)
}

// recordEnd records the end of a candidate that was not taken. An outcome ends the run.
func (w *rounds) recordEnd(u *unit) (*Outcome, error) {
	if u.round.over() && u.res.Verdict == verify.Cancelled {
		w.drop(u)
	}
	end, over, err := w.tag.task.endOf(u)
	if err == nil {
		err = w.run.record(end)
	}
	w.tag.queue.leaves(u)
	if u.lane.busy = false; err != nil {
		return nil, err
	}
	return cmp.Or(over, u.over), w.tag.task.noteMissing(u)
}

func changedLines(n int) string {
	if n == 1 {
		return "1 line"
	}
	return fmt.Sprintf("%d lines", n)
}
