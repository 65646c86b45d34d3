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

// PickSmallest is the setting by which of all candidates that are verified the one with the smallest diff is taken.
const PickSmallest = "smallest"

// round is several attempts at one task at the same time, the candidates: each in a lane of its own, on the same tree and with the same spec. A
// lane whose candidate is verified waits until all are over, as its slot is to hold that work until then.
//
//	begun --not verified--> its end is recorded at once, the lane is free
//	      --verified------> waits for all others --taken--> integrated, as any verified attempt
//	                                             --else---> dropped: its end is recorded, its work is kept as a ref
type round struct {
	first        int // number of its first attempt
	next, left   int // number of the next one, and how many are not begun
	size         int
	base, before gitops.Tree
	spec         *specbuild.Spec // of all of them; nil before the first

	running int // that work
	unsaid  int // whose end is not recorded: those that work, and those that are verified
	passed  []*unit
	taken   *unit
	stop    chan struct{} // closed when one is taken
}

// over reports whether a candidate is taken.
func (r *round) over() bool { return r != nil && r.taken != nil }

// enter gives a context that ends when another candidate is taken. done waits for the watcher.
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

// take decides for a candidate. Those that work are stopped; those that have not started never do.
func (r *round) take(u *unit) {
	r.taken, r.left = u, 0
	close(r.stop)
}

// candidate is the unit's number in its round, from 1; 0 where it is alone.
func (u *unit) candidate() int {
	if u.round == nil {
		return 0
	}
	return u.number - u.round.first + 1
}

// quit gives up a candidate whose run ends before it has begun, or by an error.
func (u *unit) quit() {
	if u.round != nil && !u.ended {
		u.ended = true
		u.round.running--
		u.round.unsaid--
	}
}

// candidate is the next unit of the round that a task has, or of a new one.
func (w *tagWork) candidate(ctx context.Context, ln *lane, t *tasks.Task) (*unit, error) {
	r := w.rounds[t.ID]
	if r == nil {
		alone, err := w.alone(ctx, ln, t)
		if err != nil {
			return nil, err
		}
		n := w.config.CandidatesOf(t)
		r = &round{first: alone.number, next: alone.number, left: n, size: n, base: alone.base, before: alone.before, stop: make(chan struct{})}
		w.rounds[t.ID] = r
	}
	u := &unit{lane: ln, task: t, number: r.next, round: r, base: r.base, before: r.before, since: w.history.Starts[t.ID], log: w.home.Log(w.state.ID, t.ID, r.next)}
	r.next, r.left, r.running, r.unsaid = r.next+1, r.left-1, r.running+1, r.unsaid+1
	return u, nil
}

// wanted is the task that lacks candidates, "" if none does.
func (w *tagWork) wanted() string {
	for _, id := range slices.Sorted(maps.Keys(w.rounds)) {
		if w.rounds[id].left > 0 {
			return id
		}
	}
	return ""
}

// fitting are those of some ready tasks that may begin now: there is a lane for each of their candidates beside those of others, without which
// they would wait for each other. With one task at a time none may where a lane has one.
func (w *tagWork) fitting(ready []string) []string {
	if w.config.MostCandidates <= 1 {
		return ready
	}
	begun, free := map[string]bool{}, 0
	for _, ln := range w.lanes {
		if begun[ln.task] = true; !ln.spare {
			free++
		}
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

// concludeCandidate records the end of a candidate, unless it is verified: then it waits for the others. The last one decides.
func (w *tagWork) concludeCandidate(ctx context.Context, stop *stopper, u *unit) (_ *Outcome, err error) {
	r, ln, id := u.round, u.lane, u.task.ID
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
	if n := w.history.Interruptions[id]; n >= mostCutOff {
		u.res.Verdict, u.res.Reason = verify.Failed, fmt.Sprintf("%d attempts in a row were interrupted", n)
		return nil, w.block(ctx, u)
	}
	if err := w.finishTask(ctx, u); err != nil {
		return nil, err
	}
	if w.history.Tasks[id] == nil {
		return w.recheck(ctx, stop, u)
	}
	ln.task = id // for the next round
	return w.backoff.over(w.config.Choices(u.task), w.teller(u))
}

// recordEnd records the end of a candidate that is not taken. An outcome says that the run ends.
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
	w.spent(u)
	return cmp.Or(over, u.over), w.noteMissing(u)
}

func changedLines(n int) string {
	if n == 1 {
		return "1 line"
	}
	return fmt.Sprintf("%d lines", n)
}

// concludePassed waits until all candidates are over, and takes this one or drops it.
func (w *tagWork) concludePassed(ctx context.Context, stop *stopper, u *unit) (*Outcome, error) {
	r := u.round
	if r.passed = append(r.passed, u); w.config.Pick != PickSmallest && !r.over() {
		r.take(u)
	}
	if err := w.record(); err != nil { // what waits for the next event, which may take long
		return nil, err
	}
	w.Loop.changed.Broadcast()
	for w.err == nil && (r.running > 0 || r.left > 0 && w.out == nil) {
		w.Loop.changed.Wait()
	}
	if w.err != nil { // the next run adopts it
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

// adoptCandidate finishes a candidate that a dead loop had begun. The round continues with those that can be
// finished; the others were interrupted, and no new ones start.
func (w *tagWork) adoptCandidate(ctx context.Context, stop *stopper, u *unit, o *journal.OpenAttempt) (*Outcome, error) {
	id := u.task.ID
	r := w.rounds[id]
	if r == nil {
		r = &round{first: o.Started.Round, base: u.base, stop: make(chan struct{})}
		w.rounds[id] = r
		for _, other := range slices.Clone(w.history.Tasks[id].Open) {
			if slices.ContainsFunc(w.lanes, func(ln *lane) bool { return ln.task == id && ln.number() == other.Started.Slot }) {
				r.running, r.unsaid, r.size = r.running+1, r.unsaid+1, r.size+1
			} else if err := w.lost(u, other.Started); err != nil {
				return nil, err
			}
		}
	}
	u.round, u.before, u.begun = r, gitops.Tree(o.Started.Tree), true
	if err := w.adopt(ctx, stop, u, o.Started, o.Agent); err != nil {
		return nil, err
	}
	return w.concludeCandidate(ctx, stop, u)
}
