package loop

import (
	"errors"
	"maps"
	"slices"
	"time"

	"descartes/config"
	"descartes/gitops"
	"descartes/internal/oneline"
	"descartes/loop/journal"
	"descartes/scheduler"
)

// What runs next.

// durations are how long the tasks of a run took so far, each with all its attempts.
func durations(h *journal.State) map[string]time.Duration {
	out := map[string]time.Duration{}
	for _, a := range h.Attempts {
		if a.Task != "" && a.Ended.After(a.Started) {
			out[a.Task] += a.Ended.Sub(a.Started)
		}
	}
	return out
}

// queue says what a run over a tag does next.
type queue struct {
	run     *Loop
	tag     *tagWork
	sched   *scheduler.Queue
	told    map[string]string   // held tasks already reported, and why
	waiting map[string]bool     // tasks reported as waiting for another's files
	under   []*unit             // at work, asleep, or waiting to be integrated
	passed  int                 // waves with nothing left to do
	entered int                 // the last wave whose start was recorded
	again   []string            // tasks whose next attempt comes next
	putOff  []string            // tasks whose next attempt waits for the first one of others
	quota   map[string]*Outcome // tasks whose accounts are out of quota for longer than the run may wait
}

// order returns the queue of a run. A new run uses the durations of the tag's last loop.
func (w *queue) order(slots int) (*scheduler.Queue, error) {
	took := map[string]time.Duration{}
	last, err := w.run.home.LastOf(w.run.state.Key())
	if err != nil {
		return nil, err
	}
	if last != nil && last.State.ID != w.run.state.ID {
		// the commands that show that loop report what is wrong with it
		if h, err := journal.Load(w.run.home.Events(last.State.ID)); err == nil {
			took = durations(h)
		}
	}
	maps.Copy(took, durations(w.run.history))
	return w.run.job.Queue(slots, took), nil
}

// next has a lane start what is most urgent: the commit of a wave that is over, else an attempt.
func (w *tagWork) next(ln *lane) (*Outcome, error) {
	for {
		if _, err := w.list.relist(); err != nil {
			return nil, err
		}
		if !w.scope.Step {
			if _, err := w.list.takeAnswers(); err != nil {
				return nil, err
			}
		}
		if goes, err := w.queue.pass(ln); goes || err != nil {
			return nil, err
		}
		if w.reviews.unapproved != nil {
			return w.reviews.unapproved, nil
		}
		if id := w.queue.verifiedBefore(); id != "" {
			if _, err := w.task.unit(ln, id); err != nil || ln.busy {
				return nil, err
			}
			continue
		}
		if out := w.run.limits(); out != nil {
			return out, nil
		}
		if n := w.run.config.Scud.MaxTotalIterations; n > 0 && w.run.history.Iteration+w.queue.beginning() >= n {
			return nil, nil // others have the last attempts
		}
		if started, out, err := w.queue.start(ln); ln.busy || out != nil || err != nil {
			return out, err
		} else if started {
			continue // it has to wait for its provider, or something else came of it
		}
		if !w.queue.lone() {
			return nil, nil
		}
		if len(w.queue.quota) > 0 {
			return w.queue.firstBack(), nil
		}
		if w.scope.Step {
			return nil, nil
		}
		// it may have changed while the last wave was committed
		if again, err := w.list.relist(); err != nil || !again {
			return nil, err
		}
	}
}

// verifiedBefore is a task whose verified work of a killed run is still to be integrated, which needs no agent; "" for
// none.
func (w *queue) verifiedBefore() string {
	for _, t := range w.run.history.OpenTasks() {
		if _, ok := w.run.job.Graph.Task(t.ID); ok && t.Verified != nil && w.at(t.ID) == nil &&
			w.tag.rounds.all[t.ID] == nil {
			return t.ID
		}
	}
	return ""
}

// start has a lane start the most urgent attempt, and reports whether there is one.
func (w *queue) start(ln *lane) (one bool, _ *Outcome, err error) {
	id, err := w.pick()
	if id == "" || err != nil {
		return false, nil, err
	}
	u, err := w.tag.task.unit(ln, id)
	if u == nil || err != nil {
		return true, nil, err
	}
	if err := w.enter(w.run.waveOf(id)); err != nil {
		return true, nil, err
	}
	w.under = append(w.under, u)
	out, err := w.run.start(ln, u)
	return true, out, err
}

// leaves takes a unit off those under way.
func (w *queue) leaves(u *unit) {
	w.under = slices.DeleteFunc(w.under, func(x *unit) bool { return x == u })
}

// dropped lets the other tasks continue if the accounts of a unit's task are out of quota for longer than the run may
// wait.
func (w *tagWork) dropped(u *unit, out *Outcome) *Outcome {
	w.queue.leaves(u)
	sitsOut := out != nil && out.Ending == journal.QuotaUsedUp && w.run.config.OnLimit != config.OnLimitStop
	if u.round != nil {
		if sitsOut {
			u.round.left = 0
		}
		w.rounds.quit(u)
	}
	if !sitsOut {
		return out
	}
	if w.queue.quota == nil {
		w.queue.quota = map[string]*Outcome{}
	}
	w.queue.quota[u.task.ID] = out
	return nil
}

// pass skips waves with nothing left to do, and has what they have verified committed. It reports held tasks. A commit
// includes finished work of later waves. goes says that the lane has to wait for a commit, or makes one.
func (w *queue) pass(ln *lane) (goes bool, err error) {
	waves := w.run.job.Graph.Waves()
	for i := w.passed; i < len(waves) && !w.beyond(waves[i]); i++ {
		for _, id := range waves[i].Tasks {
			if open, err := w.open(id); open || err != nil || w.at(id) != nil {
				return false, err
			}
		}
		if w.tag.waves.publishing {
			return w.inOrder(), nil
		}
		if w.tag.waves.uncommitted(waves[i].Number) && w.tag.reviews.unapproved == nil {
			w.tag.waves.commitIn(ln, waves[i])
			return true, nil
		}
		w.passed = i + 1
	}
	return false, nil
}

// perTask reports whether each verified task gets a commit of its own.
func (w *waves) perTask() bool { return w.run.config.Commit == config.CommitTask }

// commitIn has the trunk commit what a wave has, in a lane, before it folds in anything else.
func (w *waves) commitIn(ln *lane, wave scheduler.Wave) {
	commits := len(w.run.history.WaveCommits)
	w.publishing, ln.busy = true, true
	w.run.jobs = slices.Insert(w.run.jobs, 0, job{begin: func() func() error {
		return func() error { return w.commit(w.run.stop.now, ln, wave) }
	}, then: func(err error) (*Outcome, error) {
		w.publishing, ln.busy = false, false
		switch {
		case errors.Is(err, errPutBack):
			w.tag.queue.passed, w.tag.queue.sched = 0, nil
			return nil, nil
		case errors.Is(err, errTakenOut):
			return nil, nil
		case errors.Is(err, errWaits):
			return w.tag.reviews.unapproved, nil
		// it may have got other tasks meanwhile
		case err == nil && wave.Number <= len(w.run.job.Graph.Waves()) &&
			w.tag.queue.closed(w.run.job.Graph.Waves()[wave.Number-1]):
			// that was the step
			if w.tag.scope.Step && w.tag.queue.entered == 0 && len(w.run.history.WaveCommits) > commits {
				w.tag.queue.entered = wave.Number
			}
			if w.tag.queue.passed == wave.Number-1 {
				w.tag.queue.passed = wave.Number
			}
		}
		_, w.cut = errors.AsType[*gitops.StoppedError](err)
		return nil, err
	}})
}

// inOrder reports whether each wave is finished before the next begins.
func (w *queue) inOrder() bool {
	return w.run.config.Slots() == 1 || w.run.config.Barrier || w.tag.scope.Step
}

// beyond reports whether a wave is after the one that a step runs.
func (w *queue) beyond(wave scheduler.Wave) bool {
	return w.tag.scope.Step && w.entered > 0 && wave.Number > w.entered
}

// open reports whether a task can still run, now or once others are done. A held task is reported once.
func (w *queue) open(id string) (bool, error) {
	g := w.run.job.Graph
	switch s := g.State(id); {
	case s.Open():
		return true, nil
	case s == scheduler.StateHeld:
		cause := g.Why(id)
		if w.told[id] == cause { // in an earlier pass
			return false, nil
		}
		if w.told == nil {
			w.told = map[string]string{}
		}
		w.told[id] = cause
		roots, _ := g.Held(id)
		return false, w.run.record(&journal.Event{Type: journal.TaskHeld,
			Unit: journal.Unit{Wave: g.Wave(id), Task: id, Title: w.run.job.Title(id)}, Reason: cause, Tasks: roots})
	}
	return false, nil
}

// pick returns the most urgent ready task that nobody has, or "". A task that failed comes first, unless it is
// postponed: then it comes last.
func (w *queue) pick() (string, error) {
	if id := w.tag.rounds.wanted(); id != "" {
		return id, nil
	}
	can := func(id string) bool {
		// it comes in again after what it conflicts with
		puttingBack := w.tag.waves.publishing && w.run.history.Task(id).Failure.Unfit
		return w.run.job.Graph.Ready(id) && w.at(id) == nil && !w.sitsOut(id) && w.tag.rounds.all[id] == nil &&
			!puttingBack
	}
	if id := w.tag.scope.Task; id != "" {
		if !can(id) {
			return "", nil
		}
		return id, nil
	}
	var ready []string
	for _, wave := range w.run.job.Graph.Waves()[w.passed:] {
		if w.beyond(wave) {
			break
		}
		for _, id := range wave.Tasks {
			if _, err := w.open(id); err != nil {
				return "", err
			}
			if can(id) {
				ready = append(ready, id)
			}
		}
		if w.inOrder() {
			break
		}
	}
	ready = w.inTurn(w.apart(w.tag.rounds.fitting(ready)))
	if w.run.asleep > 0 { // one that waits is enough
		ready = slices.DeleteFunc(ready, w.waitsForQuota)
	}
	if i := slices.IndexFunc(w.again, func(id string) bool { return slices.Contains(ready, id) }); i >= 0 {
		return w.again[i], nil
	}
	for _, last := range []func(id string) bool{w.waitsForQuota,
		func(id string) bool { return slices.Contains(w.putOff, id) }} {
		if others := slices.DeleteFunc(slices.Clone(ready), last); len(others) > 0 {
			ready = others
		}
	}
	return w.first(ready)
}

// waitsForQuota reports whether a task would have to wait for a quota.
func (w *queue) waitsForQuota(id string) bool {
	t, _ := w.run.job.Graph.Task(id)
	return !w.run.backoff.free(w.run.config.Choices(t))
}

// sitsOut reports whether the accounts of a task are out of quota for longer than the run may wait from now on.
func (w *queue) sitsOut(id string) bool {
	out := w.quota[id]
	if out != nil && !out.Until.IsZero() && (w.run.tools.Now().After(out.Until) ||
		w.run.backoff.tooLong(move{limited: true, until: out.Until.Add(mostSpread)}) == nil) {
		delete(w.quota, id)
	}
	return w.quota[id] != nil
}

// firstBack is the end of a run whose remaining tasks all sit out: it can be resumed when the first of them has quota
// again.
func (w *queue) firstBack() *Outcome {
	return slices.MinFunc(slices.Collect(maps.Values(w.quota)),
		func(a, b *Outcome) int { return a.Until.Compare(b.Until) })
}

// at returns a unit of the task that is under way: at work, asleep, or waiting to be integrated; nil for none.
func (w *queue) at(id string) *unit {
	if i := slices.IndexFunc(w.under, func(u *unit) bool { return u.task.ID == id }); i >= 0 {
		return w.under[i]
	}
	return nil
}

// beginning counts the attempts that are about to begin.
func (w *queue) beginning() (n int) {
	for _, u := range w.under {
		if !u.begun {
			n++
		}
	}
	return n
}

// first returns the most urgent ready task, or "" if all must wait. A task that waits because its scope meets that of
// a running one is reported once.
func (w *queue) first(ready []string) (string, error) {
	if len(ready) == 0 {
		return "", nil
	}
	if w.sched == nil {
		var err error
		if w.sched, err = w.order(w.run.config.Slots()); err != nil {
			return "", err
		}
	}
	now := scheduler.Now{Free: 1, May: func(id string) bool { return slices.Contains(ready, id) }}
	for _, u := range w.under {
		now.Running = append(now.Running, u.task.ID)
	}
	slices.Sort(now.Running)
	now.Running = slices.Compact(now.Running)
	id := ""
	if next := w.sched.Next(now); len(next) > 0 {
		id = next[0]
	} else if len(now.Running) == 0 { // nothing runs that they could clash with
		id = ready[0]
	}
	if len(now.Running) == 0 {
		return id, nil
	}
	for _, x := range w.sched.Waiting(now) {
		if x.Reason != scheduler.WaitScope || x.Task == id || w.waiting[x.Task] || !slices.Contains(ready, x.Task) {
			continue
		}
		if w.waiting == nil {
			w.waiting = map[string]bool{}
		}
		w.waiting[x.Task] = true
		e := &journal.Event{Type: journal.Warning, Unit: journal.Unit{Wave: w.run.job.Graph.Wave(x.Task), Task: x.Task,
			Title: w.run.job.Title(x.Task)}, Message: oneline.Text(x.String())}
		if err := w.run.record(e); err != nil {
			return "", err
		}
	}
	return id, nil
}
