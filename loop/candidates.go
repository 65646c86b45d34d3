package loop

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"

	"descartes/gitops"
	"descartes/loop/attempt"
	"descartes/loop/journal"
	"descartes/specbuild"
	"descartes/tasks"
	"descartes/verify"
)

// PickSmallest takes the verified candidate with the smallest diff.
const PickSmallest = "smallest"

// round is several simultaneous attempts at one task, its candidates: each runs in its own lane, on the same tree and with the same spec. The lane of
// a verified candidate waits until all have ended, because its slot holds that work.
//
//	begun --not verified--> its end is recorded at once, the lane is free
//	      --verified------> waits for the others --taken--> integrated like any verified attempt
//	                                             --else---> dropped: its end is recorded, a ref keeps its work
type round struct {
	first        int // number of its first attempt
	of           int // number of the task's last attempt
	next, left   int // number of the next attempt, and how many have not begun
	size         int
	base, before gitops.Tree
	marked       []string        // see unit
	spec         *specbuild.Spec // shared by all; nil before the first

	running int // attempts at work
	unsaid  int // attempts whose end is not recorded: at work, or verified
	passed  []*unit
	taken   *unit
	stop    chan struct{} // closed when a candidate is taken
}

// over reports whether a candidate has been taken.
func (r *round) over() bool { return r != nil && r.taken != nil }

// enter returns a context that ends when another candidate is taken. done waits for the watcher.
func (r *round) enter(ctx context.Context) (_ context.Context, done func()) {
	if r == nil {
		return ctx, func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	wg.Go(func() {
		select {
		case <-r.stop:
			cancel()
		case <-ctx.Done():
		}
	})
	return ctx, func() { cancel(); wg.Wait() }
}

// take picks u. Candidates at work are stopped; those not started never start.
func (r *round) take(u *unit) {
	r.taken, r.left = u, 0
	close(r.stop)
}

// candidate is the unit's number in its round, from 1; 0 without a round.
func (u *unit) candidate() int {
	if u.round == nil {
		return 0
	}
	return u.number - u.round.first + 1
}

// quit gives up a candidate whose run ended before it began, or by an error.
func (u *unit) quit() {
	if u.round != nil && !u.ended {
		u.ended = true
		u.round.running--
		u.round.unsaid--
	}
}

// candidate returns the next unit of the task's round, and starts a round if there is none.
func (w *tagWork) candidate(ctx context.Context, ln *lane, t *tasks.Task) (*unit, error) {
	r := w.rounds[t.ID]
	if r == nil {
		alone, err := w.alone(ctx, ln, t)
		if err != nil {
			return nil, err
		}
		n := w.config.CandidatesOf(t)
		r = &round{first: alone.number, of: alone.of, next: alone.number, left: n, size: n, base: alone.base, before: alone.before, marked: alone.marked, stop: make(chan struct{})}
		w.rounds[t.ID] = r
	}
	u := &unit{lane: ln, task: t, number: r.next, of: r.of, round: r, base: r.base, before: r.before, marked: r.marked, since: w.history.Task(t.ID).Started, log: w.home.Log(w.state.ID, t.ID, r.next)}
	r.next, r.left, r.running, r.unsaid = r.next+1, r.left-1, r.running+1, r.unsaid+1
	return u, nil
}

// wanted returns a task whose round still lacks candidates, or "".
func (w *tagWork) wanted() string {
	for _, id := range slices.Sorted(maps.Keys(w.rounds)) {
		if w.rounds[id].left > 0 {
			return id
		}
	}
	return ""
}

// fitting returns the ready tasks that may begin now: those with a free lane for each of their candidates, so that rounds cannot wait for each other
// forever. With one task at a time it returns none while any lane has a task.
func (w *tagWork) fitting(ready []string) []string {
	if w.config.MostCandidates <= 1 {
		return ready
	}
	begun, free := map[string]bool{}, len(w.lanes)
	for _, ln := range w.lanes {
		begun[ln.task] = true
	}
	for id := range w.rounds {
		begun[id] = true
	}
	delete(begun, "")
	for id := range begun {
		if t, ok := w.job.Graph.Task(id); ok {
			if n := w.config.CandidatesOf(t); n > 1 {
				free -= n
			}
		}
	}
	return slices.DeleteFunc(ready, func(id string) bool {
		t, _ := w.job.Graph.Task(id)
		n := w.config.CandidatesOf(t)
		return w.rounds[id] != nil || len(begun) > 0 && w.config.TasksAtOnce() == 1 || n > 1 && n > free
	})
}

// concludeCandidate records the end of a candidate. A verified one waits for the others; the last one decides.
func (w *tagWork) concludeCandidate(ctx context.Context, stop *stopper, u *unit) (_ *Outcome, err error) {
	r, ln, id := u.round, u.lane, u.task.ID
	if err := w.judgeMarks(u); err != nil {
		return nil, err
	}
	if u.res.Verdict == verify.Verified && w.config.Pick == PickSmallest {
		w.unlocked(func() { u.size, err = w.tools.Repo.DiffSize(context.WithoutCancel(ctx), u.base, u.res.Work.After) })
		if err != nil {
			return nil, gitErr("measure the work on task "+id, err)
		}
	}
	r.running--
	u.ended = true
	defer w.Loop.changed.Broadcast()
	switch {
	case !u.begun:
		r.unsaid--
	case u.res.Verdict == verify.Verified:
		return w.concludePassed(ctx, stop, u)
	default:
		if out, err := w.recordEnd(ctx, u); out != nil || err != nil {
			return out, err
		}
	}
	if ln.task = ""; r.running > 0 || r.left > 0 || len(r.passed) > 0 {
		return nil, nil
	}
	delete(w.rounds, id)
	u.round = nil
	if err := w.finishTask(ctx, u); err != nil {
		return nil, err
	}
	if !w.history.Task(id).Open() {
		return w.recheck(ctx, stop, u)
	}
	ln.task = id // for the next round
	return w.backoff.over(w.config.Choices(u.task), w.teller(u))
}

// recordEnd records the end of a candidate that was not taken. An outcome ends the run.
func (w *tagWork) recordEnd(ctx context.Context, u *unit) (*Outcome, error) {
	gctx, done := attempt.Linger(ctx)
	defer done()
	r, res := u.round, &u.res
	if r.over() && (res.Verdict == verify.Cancelled || res.Verdict == verify.Verified) {
		res.Reason = fmt.Sprintf("attempt %d was verified first", r.taken.number)
		if w.config.Pick == PickSmallest {
			res.Reason = fmt.Sprintf("it is verified too, but attempt %d changes %s, and this one %d", r.taken.number, changedLines(r.taken.size), u.size)
		}
		res.Verdict = verify.Verdict(journal.Dropped)
	}
	end, _, over, err := w.endOf(gctx, u)
	if err == nil {
		err = w.record(end)
	}
	if err != nil {
		return nil, err
	}
	r.unsaid--
	return cmp.Or(over, u.over), w.noteMissing(u)
}

func changedLines(n int) string {
	if n == 1 {
		return "1 line"
	}
	return fmt.Sprintf("%d lines", n)
}

// concludePassed waits until all candidates have ended, then takes this one or drops it.
func (w *tagWork) concludePassed(ctx context.Context, stop *stopper, u *unit) (*Outcome, error) {
	r := u.round
	if r.passed = append(r.passed, u); w.config.Pick != PickSmallest && !r.over() {
		r.take(u)
	}
	gctx, done := attempt.Linger(ctx)
	_, err := w.keep(gctx, u, nil) // a killed run's resume takes it
	done()
	if err == nil {
		err = w.record() // record what waits for the next event, which may take long
	}
	if err != nil {
		return nil, err
	}
	w.Loop.changed.Broadcast()
	for w.err == nil && (r.running > 0 || r.left > 0 && w.out == nil) {
		w.Loop.changed.Wait()
	}
	if w.err != nil {
		return nil, nil
	}
	if !r.over() {
		r.take(slices.MinFunc(r.passed, func(a, b *unit) int {
			if a.size != b.size {
				return a.size - b.size
			}
			return a.number - b.number
		}))
	}
	w.Loop.changed.Broadcast()
	if r.taken != u {
		u.lane.task = ""
		return w.recordEnd(ctx, u)
	}
	for w.err == nil && r.unsaid > 1 {
		w.Loop.changed.Wait()
	}
	if w.err != nil {
		return nil, nil
	}
	delete(w.rounds, u.task.ID)
	return w.conclude(ctx, stop, u)
}
