// Package loop owns a run: the order of its steps, its attempts and limits, its journal and state.
package loop

import (
	"context"
	"fmt"
	"slices"
	"time"

	"descartes/loop/journal"
	"descartes/tasks"
)

// Outcome is what a run came to.
type Outcome struct {
	Ending   journal.Ending
	Message  string    // one line: what stopped it
	Crashed  bool      // every blocked task is so because its agent crashed each time
	Blocked  int       // tasks that the loop gave up
	Next     string    // what the next step would do, for a step
	Question string    // that the agent waits for an answer to
	Until    time.Time // of QuotaUsedUp: when there is more

	Baseline *Baseline // of BaselineFails
}

// OutcomeOf is what the run came to that a loop_finished or loop_paused event ends.
func OutcomeOf(e *journal.Event) Outcome {
	out := Outcome{Ending: journal.Ending(e.Reason), Message: e.Message}
	if d := e.Detail; d != nil {
		out.Ending = journal.Ending(d.End)
		if d.Until != nil {
			out.Until = *d.Until
		}
	}
	return out
}

// end is the event that ends a run.
func (out *Outcome) end(word string, code func(Outcome) int) *journal.Event {
	e := &journal.Event{Type: journal.LoopFinished, Reason: word, Message: out.Message, Detail: &journal.Detail{End: string(out.Ending)}}
	if out.Ending == journal.Paused {
		e.Type = journal.LoopPaused
	}
	if !out.Until.IsZero() {
		e.Detail.Until = &out.Until
	}
	if code != nil {
		e.Detail.Code = code(*out)
	}
	return e
}

// Run works through the waves until nothing is left to do, a limit is reached, or it is told to
// stop: soft, when it closes, lets the running attempt finish; the end of ctx interrupts the agent.
// The state is saved in either case. An error is one of our own or of the machine.
func (l *Loop) Run(ctx context.Context, soft <-chan struct{}) (Outcome, error) {
	stop := &stopper{soft: soft, ask: func() (Request, bool) { return l.home.Asked(l.state.ID) }, marked: l.saver.own.marked}
	out, err := l.work(ctx, stop)
	if err == nil && out.Ending == journal.BreakerOpen {
		err = l.openBreaker(context.WithoutCancel(ctx), &out)
	}
	l.shelve()
	if err == nil {
		err = l.settleWaves(ctx, stop)
	}
	if err != nil {
		out, err = stop.failed(ctx, err)
	}
	out.Crashed, out.Blocked = l.allCrashed(), len(l.history.Blocked)
	ferr := l.finish(&out)
	if l.full = out.Ending == journal.DiskFull && full(ferr); err == nil && !l.full { // else resuming finds a killed loop
		err = ferr
	}
	if out.Ending == journal.BaselineFails {
		l.dropImport()
	}
	return out, err
}

// work makes sure of the ground, and goes through the waves.
func (l *Loop) work(ctx context.Context, stop *stopper) (Outcome, error) {
	if out, err := l.baseline(ctx, stop); out != nil || err != nil {
		return deref(out), err
	}
	if l.branch != "" {
		if err := l.tools.Repo.NewBranch(ctx, l.branch); err != nil {
			return Outcome{}, err
		}
	}
	return l.waves(ctx, stop)
}

func (l *Loop) waves(ctx context.Context, stop *stopper) (Outcome, error) {
	if out, err := l.recoverAttempt(ctx, stop); out != nil || err != nil {
		return deref(out), err
	}
	if out, err := l.halfDone(ctx, stop); out != nil || err != nil {
		return deref(out), err
	}
	for {
		if out, err := l.pass(ctx, stop); out != nil || err != nil {
			return deref(out), err
		}
		if l.scope.Step {
			break
		}
		if again, err := l.takeAnswers(); err != nil || !again {
			return l.ending(), err
		}
	}
	return l.ending(), nil
}

// pass goes through the waves once.
func (l *Loop) pass(ctx context.Context, stop *stopper) (*Outcome, error) {
	worked := 0
	for _, w := range l.job.Graph.Waves() {
		if l.scope.Task != "" && l.job.Graph.Wave(l.scope.Task) != w.Number {
			continue
		}
		begun, stopped, err := l.wave(ctx, stop, w.Number, w.Tasks)
		if err != nil || stopped != nil {
			return stopped, err
		}
		if begun {
			worked++
		}
		if l.scope.Step && worked > 0 {
			break
		}
	}
	return nil, nil
}

// halfDone finishes the task that a run was stopped in the middle of before any other begins: its
// work lies in the tree, and the task's base is what a later block would go back to.
func (l *Loop) halfDone(ctx context.Context, stop *stopper) (*Outcome, error) {
	id := l.history.Current
	if id == "" || !l.job.Graph.Ready(id) {
		return nil, nil
	}
	if l.scope.Task != "" && l.scope.Task != id {
		return nil, fmt.Errorf("task %s is half done: finish it first with descartes loop resume, or descartes loop step --task %s", id, id)
	}
	number := l.job.Graph.Wave(id)
	out := l.limits(ctx, stop)
	if out == nil {
		if err := l.enter(number, len(l.job.Graph.Waves()[number-1].Tasks)); err != nil {
			return nil, err
		}
		var err error
		if out, _, err = l.task(ctx, stop, id, nil); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func deref(o *Outcome) Outcome {
	if o == nil {
		return Outcome{}
	}
	return *o
}

// wave runs the ready tasks of one wave in id order and commits what they came to. begun reports
// whether there was anything to do in it.
func (l *Loop) wave(ctx context.Context, stop *stopper, number int, ids []string) (begun bool, _ *Outcome, _ error) {
	queue := slices.Clone(ids)
	for at := 0; at < len(queue); at++ {
		id := queue[at]
		if l.scope.Task != "" && id != l.scope.Task {
			continue
		}
		run, err := l.due(id)
		if err != nil {
			return begun, nil, err
		}
		if !run {
			continue
		}
		if out := l.limits(ctx, stop); out != nil {
			return begun, out, nil
		}
		if !begun {
			begun = true
			if err := l.enter(number, len(ids)); err != nil {
				return begun, nil, err
			}
		}
		out, later, err := l.task(ctx, stop, id, queue[at+1:])
		if err != nil || out != nil {
			return begun, out, err
		}
		if later {
			queue = append(queue, id)
		} else if out, err := l.recheck(ctx, stop, id); err != nil || out != nil {
			return begun, out, err
		}
	}
	return begun || l.uncommitted(number), nil, l.commitWave(ctx, stop, number, ids)
}

// enter records that a wave of so many tasks begins, unless the half done task that went first had begun it.
func (l *Loop) enter(number, of int) error {
	if l.entered == number {
		return nil
	}
	l.entered = number
	return l.record(&journal.Event{Type: journal.WaveStarted, Wave: number, Of: of})
}

// due reports whether a task is to run now. A held one is told of once.
func (l *Loop) due(id string) (bool, error) {
	g := l.job.Graph
	if g.Ready(id) {
		return true, nil
	}
	roots, held := g.Held(id)
	if !held || g.Status(id) == tasks.Done || g.Status(id) == tasks.Blocked {
		return false, nil
	}
	_, cause := g.State(id)
	if l.told[id] == cause { // in an earlier pass
		return false, nil
	}
	if l.told == nil {
		l.told = map[string]string{}
	}
	l.told[id] = cause
	return false, l.record(&journal.Event{Type: journal.TaskHeld, Wave: g.Wave(id), Task: id, Title: l.title(id), Reason: cause, Tasks: roots})
}

// settleWaves commits what is verified or given up when a run ends, whatever ended it: on a machine that is
// thrown away after a job, what is not committed is lost, and so is what somebody stashes in the morning.
func (l *Loop) settleWaves(ctx context.Context, stop *stopper) error {
	for _, w := range l.job.Graph.Waves() {
		if err := l.commitWave(ctx, stop, w.Number, w.Tasks); err != nil {
			return err
		}
	}
	return nil
}

// shelve gives the task that a run stops in the middle of back to the list: nobody works on it now. The journal
// still knows where it stood.
func (l *Loop) shelve() {
	if l.history.Current == "" {
		return
	}
	l.saver.mu.Lock()
	defer l.saver.mu.Unlock()
	l.saver.pending[l.history.Current] = tasks.Pending
	l.job.Graph.SetStatus(l.history.Current, tasks.Pending)
}

// limits names the limit or the request that forbids another attempt, or nil.
func (l *Loop) limits(ctx context.Context, stop *stopper) *Outcome {
	c := l.job.Config
	if out := stop.asked(ctx); out != nil {
		return out
	}
	if why := roomFor(&c, l.tools.Free, l.job.Root); why != "" {
		return &Outcome{Ending: journal.DiskFull, Message: why}
	}
	if why := l.tripped(); why != "" {
		return &Outcome{Ending: journal.BreakerOpen, Message: why}
	}
	if n := c.Scud.MaxTotalIterations; n > 0 && l.history.Iteration >= n {
		return &Outcome{Ending: journal.LimitReached, Message: fmt.Sprintf("the limit of %s in all is reached", attempts(n))}
	}
	return usedUp(&c, l.tools.Now(), l.history.Cost)
}

func attempts(n int) string {
	if n == 1 {
		return "1 attempt"
	}
	return fmt.Sprintf("%d attempts", n)
}

// ending judges a run that nothing stopped.
func (l *Loop) ending() Outcome {
	g := l.job.Graph
	if l.scope.Task != "" {
		if g.Status(l.scope.Task) == tasks.Blocked {
			return Outcome{Ending: journal.TasksBlocked}
		}
		return Outcome{Ending: journal.StepDone}
	}
	blocked, left := 0, 0
	for _, id := range g.Leaves() {
		switch s, _ := g.State(id); s {
		case "done":
		case "ready", "waiting", "running":
			left++
		default:
			if !setAside(g.Status(id)) {
				blocked++
			}
		}
	}
	switch {
	case l.scope.Step && l.waveBlocked():
		return Outcome{Ending: journal.TasksBlocked}
	case l.scope.Step && left > 0:
		return Outcome{Ending: journal.StepDone}
	case blocked > 0:
		return Outcome{Ending: journal.TasksBlocked}
	}
	return Outcome{Ending: journal.AllDone}
}

// setAside reports whether a person took the task off the list: nobody asks for it to be done.
func setAside(s tasks.Status) bool { return s == tasks.Cancelled || s == tasks.Deferred }

// waveBlocked reports whether the wave of a step has a task that was given up.
func (l *Loop) waveBlocked() bool {
	for _, id := range l.job.Graph.Leaves() {
		if l.job.Graph.Wave(id) == l.history.Wave && l.job.Graph.Status(id) == tasks.Blocked {
			return true
		}
	}
	return false
}

// allCrashed reports whether this loop gave up tasks, and each because its agent crashed every time.
func (l *Loop) allCrashed() bool {
	for _, b := range l.history.Blocked {
		if b.Verdict != journal.Crashed {
			return false
		}
	}
	return len(l.history.Blocked) > 0
}
