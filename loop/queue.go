package loop

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"descartes/internal/oneline"
	"descartes/loop/journal"
	"descartes/scheduler"
)

// Queue picks among the job's ready tasks for that many slots. durations come from Durations, or are nil.
func (j *Job) Queue(slots int, durations map[string]time.Duration) *scheduler.Queue {
	return j.Graph.Queue(scheduler.QueueOptions{Slots: slots, Barrier: j.Config.Barrier, Durations: durations, RespectScope: j.Config.RespectScope})
}

// Needs are the labels of the workers of a fleet that may do a task: its own, and those of the containers around it. Sorted. What belongs to
// no task, such as the review of a wave, has none.
func (j *Job) Needs(id string) (labels []string) {
	t, ok := j.Graph.Task(id)
	if !ok {
		return nil
	}
	labels = append(labels, t.Needs...)
	for _, around := range j.Graph.Parents(id) {
		labels = append(labels, around.Needs...)
	}
	slices.Sort(labels)
	return slices.Compact(labels)
}

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

// order returns the queue of a run. A new run uses the durations of the tag's last loop.
func (w *tagWork) order(slots int) (*scheduler.Queue, error) {
	took := map[string]time.Duration{}
	last, err := w.home.LastOf(w.state.Tag)
	if err != nil {
		return nil, err
	}
	if last != nil && last.State.ID != w.state.ID {
		if h, err := journal.Load(w.home.Events(last.State.ID)); err == nil { // the commands that show that loop report what is wrong with it
			took = durations(h)
		}
	}
	maps.Copy(took, durations(w.history))
	return w.job.Queue(slots, took), nil
}

// next returns the unit a lane runs next: the next attempt at its task, or the first attempt at the most urgent ready task.
func (w *tagWork) next(ctx context.Context, stop *stopper, ln *lane) (*unit, *Outcome, error) {
	for {
		if _, err := w.relist(); err != nil {
			return nil, nil, err
		}
		if ln.task == "" {
			if err := w.pass(ctx, stop, ln); errors.Is(err, errWaits) {
				return nil, w.unapproved, nil
			} else if err != nil {
				return nil, nil, err
			}
		}
		if out := w.limits(ctx, stop); out != nil {
			return nil, out, nil
		}
		if n := w.config.Scud.MaxTotalIterations; n > 0 && w.history.Iteration+w.beginning() >= n {
			return nil, nil, nil // other lanes have the last tasks
		}
		if ln.task != "" {
			if err := w.enter(w.job.Graph.Wave(ln.task)); err != nil {
				return nil, nil, err
			}
			if a := w.accepted(ln.task); a != nil && w.rounds[ln.task] == nil {
				if out, err := w.accept(ctx, stop, ln, a); out != nil || err != nil {
					return nil, out, err
				}
				continue
			}
			if done, err := w.takeClash(ctx, ln); err != nil {
				return nil, nil, err
			} else if done {
				continue
			}
			u, err := w.unit(ctx, ln)
			return u, nil, err
		}
		id, err := w.pick(ln)
		if err != nil {
			return nil, nil, err
		}
		if ln.task = id; id == "" && len(w.quota) > 0 && w.lone() {
			return nil, w.firstBack(), nil
		} else if id == "" {
			if w.scope.Step || !w.lone() {
				return nil, nil, nil
			}
			again, err := w.takeAnswers()
			if err == nil && !again { // the list may have changed while the last wave was committed
				again, err = w.relist()
			}
			if err != nil || !again {
				return nil, nil, err
			}
			w.passed = 0
		} else if w.history.Task(id).Open() && w.rounds[id] == nil { // a dead loop, or another lane, had begun it
			if err := w.takeUp(ctx, ln); err != nil {
				return nil, nil, err
			}
		}
	}
}

// pass skips waves with nothing left to do, and commits what they have verified. It reports held tasks. A commit includes finished work of later
// waves.
func (w *tagWork) pass(ctx context.Context, stop *stopper, ln *lane) error {
	waves := w.job.Graph.Waves()
	for i := w.passed; i < len(waves) && !w.beyond(waves[i]); i++ {
		for _, id := range waves[i].Tasks {
			if open, err := w.open(id); open || err != nil {
				return err
			}
		}
		commits := len(w.history.WaveCommits)
		if err := w.commitAlone(ctx, stop, ln, waves[i]); errors.Is(err, errPutBack) || errors.Is(err, errTakenOut) {
			return nil
		} else if err != nil {
			return err
		}
		if slices.ContainsFunc(waves[i].Tasks, w.job.Graph.Ready) { // another lane has put them back
			return nil
		}
		if w.scope.Step && w.entered == 0 && len(w.history.WaveCommits) > commits { // that was the step
			w.entered = waves[i].Number
		}
		w.passed = max(w.passed, i+1) // another lane may have come here meanwhile
	}
	return nil
}

// beyond reports whether a wave is after the one that a step runs.
func (w *tagWork) beyond(wave scheduler.Wave) bool {
	return w.scope.Step && w.entered > 0 && wave.Number > w.entered
}

// open reports whether a task can still run, now or once others are done. A held task is reported once.
func (w *tagWork) open(id string) (bool, error) {
	g := w.job.Graph
	switch s, cause := g.State(id); s {
	case scheduler.StateReady, scheduler.StateRunning, scheduler.StateWaiting:
		return true, nil
	case scheduler.StateHeld:
		if w.told[id] == cause { // in an earlier pass
			return false, nil
		}
		if w.told == nil {
			w.told = map[string]string{}
		}
		w.told[id] = cause
		roots, _ := g.Held(id)
		return false, w.record(&journal.Event{Type: journal.TaskHeld, Unit: journal.Unit{Wave: g.Wave(id), Task: id, Title: w.title(id)}, Reason: cause, Tasks: roots})
	}
	return false, nil
}

// pick returns the most urgent ready task that no lane has, or "". With one slot, a barrier and in a step, each wave is finished before the next
// begins. A postponed task comes last.
func (w *tagWork) pick(ln *lane) (string, error) {
	if id := w.wanted(); id != "" {
		return id, nil
	}
	if id := w.scope.Task; id != "" {
		if !w.job.Graph.Ready(id) || w.taken(id) || w.quota[id] != nil || w.rounds[id] != nil {
			return "", nil
		}
		return id, nil
	}
	inOrder := w.config.Slots() == 1 || w.config.Barrier || w.scope.Step
	var ready []string
	for _, wave := range w.job.Graph.Waves()[w.passed:] {
		if w.beyond(wave) {
			break
		}
		for _, id := range wave.Tasks {
			if _, err := w.open(id); err != nil {
				return "", err
			}
			if w.job.Graph.Ready(id) && !w.taken(id) && w.quota[id] == nil {
				ready = append(ready, id)
			}
		}
		if inOrder {
			break
		}
	}
	ready = w.inTurn(w.apart(w.fitting(ready)))
	for _, last := range []func(id string) bool{w.waitsForQuota, func(id string) bool { return slices.Contains(w.putOff, id) }} {
		if others := slices.DeleteFunc(slices.Clone(ready), last); len(others) > 0 {
			ready = others
		}
	}
	id, ready := w.sameSlot(ln, ready)
	if id != "" {
		return id, nil
	}
	return w.first(ready)
}

// waitsForQuota reports whether a task would wait for a quota while other lanes exist.
func (w *tagWork) waitsForQuota(id string) bool {
	t, _ := w.job.Graph.Task(id)
	return !w.backoff.free(w.config.Choices(t))
}

// sitsOut lets the other tasks continue if the accounts of a unit's task are out of quota for longer than the run may wait.
func (w *tagWork) sitsOut(u *unit, out *Outcome) bool {
	if out.Ending != journal.QuotaUsedUp || w.config.OnLimit == OnLimitStop || u.round != nil {
		return false
	}
	if w.quota == nil {
		w.quota = map[string]*Outcome{}
	}
	w.quota[u.task.ID], u.lane.task = out, ""
	return true
}

// firstBack is the end of a run whose remaining tasks all sit out: it can be resumed when the first of them has quota again.
func (w *tagWork) firstBack() *Outcome {
	return slices.MinFunc(slices.Collect(maps.Values(w.quota)), func(a, b *Outcome) int { return a.Until.Compare(b.Until) })
}

// taken reports whether a lane has the task.
func (w *tagWork) taken(id string) bool {
	return slices.ContainsFunc(w.lanes, func(ln *lane) bool { return ln.task == id })
}

// beginning counts the lanes that are about to begin an attempt.
func (w *tagWork) beginning() (n int) {
	for _, ln := range w.lanes {
		if ln.unit != nil && !ln.unit.begun {
			n++
		}
	}
	return n
}

// first returns the most urgent ready task, or "" if all must wait. A task that waits because its scope meets that of a running one
// is reported once.
func (w *tagWork) first(ready []string) (string, error) {
	if len(ready) == 0 {
		return "", nil
	}
	if w.queue == nil {
		var err error
		if w.queue, err = w.order(w.config.Slots()); err != nil {
			return "", err
		}
	}
	now := scheduler.Now{Free: len(w.job.Graph.Leaves())}
	for _, ln := range w.lanes {
		if ln.task != "" {
			now.Running = append(now.Running, ln.task)
		}
	}
	slices.Sort(now.Running)
	id := ""
	for _, next := range w.queue.Next(now) {
		if slices.Contains(ready, next) {
			id = next
			break
		}
	}
	if id == "" && len(now.Running) == 0 { // nothing runs that they could clash with
		id = ready[0]
	}
	for _, x := range w.queue.Waiting(now) {
		if x.Reason != scheduler.WaitScope || x.Task == id || w.waiting[x.Task] || !slices.Contains(ready, x.Task) {
			continue
		}
		if w.waiting == nil {
			w.waiting = map[string]bool{}
		}
		w.waiting[x.Task] = true
		e := &journal.Event{Type: journal.Warning, Unit: journal.Unit{Wave: w.job.Graph.Wave(x.Task), Task: x.Task, Title: w.title(x.Task)}, Message: oneline.Text(x.String())}
		if err := w.record(e); err != nil {
			return "", err
		}
	}
	return id, nil
}
