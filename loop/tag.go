package loop

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"descartes/config"
	"descartes/loop/attempt"
	"descartes/loop/journal"
	"descartes/loop/source"
	"descartes/loop/store"
	"descartes/scheduler"
	"descartes/tasks"
	"descartes/verify"
)

// tagWork runs a tag: its tasks, wave by wave, each with several attempts.
type tagWork struct {
	run      *Loop
	scope    store.Scope
	queue    *queue
	task     *taskWork
	rounds   *rounds
	waves    *waves
	reviews  *reviews
	receipts *receipts
	list     *list
	breaker  *breaker
}

// Tag is a list as what a run works on.
type Tag struct{ *source.Job }

// begin returns the job as the work of a run.
func (j Tag) begin(l *Loop, opt StartOptions) *tagWork {
	w := &tagWork{run: l, scope: opt.Scope}
	w.queue, w.task, w.list, w.breaker = &queue{run: l, tag: w}, &taskWork{run: l, tag: w},
		&list{run: l, tag: w, wishes: map[string]tasks.Status{}}, &breaker{run: l, tag: w}
	w.rounds, w.waves = &rounds{l, w, map[string]*round{}}, &waves{run: l, tag: w}
	w.reviews, w.receipts = &reviews{run: l, tag: w, yes: opt.Yes}, &receipts{l, w, map[string]bool{}}
	w.scope.Step = w.scope.Step || w.scope.Task != ""
	l.job, l.root, l.dir, l.config = j.Job, j.Root, j.Root, &j.Config
	top := j.Root
	if l.tools.Repo != nil {
		top = l.tools.Repo.Root()
	}
	l.list = store.ListOf(j.File, top)
	l.fixed, _ = source.Protected(l.config, l.root, j.File)
	l.fixed = append(l.fixed, j.File.Path())
	l.who.Tag, l.who.List, l.who.Files = j.File.Tag(), j.Key(), store.FilesOf(j.File)
	return w
}

// choose makes the list if the plan is one, and resumes the given loop, or the tag's unfinished one, or starts a new
// one. The list is as it was read once nobody else runs the tag.
func (j Tag) choose(ctx context.Context, l *Loop, opt StartOptions) (path string, err error) {
	if j.Import != nil {
		if _, err := j.Import.Write(l.root, j.File.Tag()); err != nil {
			return "", err
		}
	}
	if opt.Resume == "" && l.config.Baseline != config.BaselineOff {
		l.checks.last = Earlier(l.home, j.Key(), "")
	}
	var old *store.Saved
	if opt.Resume == "" {
		old, err = l.home.Unfinished(j.Key())
	} else {
		old = &store.Saved{Path: opt.Resume}
		old.State, err = l.home.Load(opt.Resume)
	}
	if err != nil {
		return "", err
	}
	if old != nil {
		l.resumed, path = true, old.Path
		now := l.config
		if opt.Saved != nil { // without secrets, as the old ones
			now = opt.Saved
		}
		l.checks.untried = old.State.ExitReason.Type == string(journal.BaselineFails)
		l.checks.others = !slices.EqualFunc(now.ChecksOf(true), old.State.Config.ChecksOf(true), sameCheck)
		*l.state = *old.State
	} else if path, err = fresh(l, opt); err != nil {
		return "", err
	}
	s := l.state
	s.List = store.ListOf(j.File, l.root).List
	s.Kind, s.Tag, s.TaskFile, s.Scope = store.KindTag, j.File.Tag(), l.relative(j.File.Path()), opt.Scope
	l.who.Loop = s.ID
	if err := l.locks.take(ctx, store.ListLock(l.tools.Repo.Dir(), l.list.Key())); err != nil {
		return "", err
	}
	if err := source.Unchanged(j.File); err != nil {
		return "", err
	}
	if err := l.sayings().Share(ctx, ""); err != nil {
		return "", gitErr("take over the answers", err)
	}
	if j.Answers, err = l.home.Answers(s.Key()); err != nil {
		return "", err
	}
	if err := j.File.Clean(); err != nil { // half written by a killed loop
		return "", fmt.Errorf("remove temporary files: %w", err)
	}
	return path, l.locks.take(ctx, store.LockOf(path))
}

// replay writes into the task file what the journal knows and a dead loop could not write any more.
func (w *tagWork) replay(ctx context.Context, events []journal.Event, first *journal.Event) (_ []*journal.Event,
	err error) {
	if n := int64(len(events)); n < w.run.state.Seq {
		return nil, &journal.DamageError{Path: w.run.journal.Path(), Line: len(events) + 1,
			Err: fmt.Errorf("it ends after event %d, the task list has %d", n, w.run.state.Seq)}
	}
	for i := range events {
		w.run.history.Apply(&events[i])
	}
	w.run.saver.file = w.run.job.File
	w.run.job.Graph.Number(w.run.history.Waves())
	w.run.state.TotalWaves = len(w.run.job.Graph.Waves())
	changes := w.run.history.TakeChanges(w.run.state.Seq)
	w.run.saver.news = len(changes) > 0
	for id, st := range changes {
		if _, ok := w.run.job.Graph.Task(id); ok {
			w.run.saver.pending[id] = tasks.Status(st)
			w.run.job.Graph.SetStatus(id, tasks.Status(st))
		}
	}
	for id, st := range w.run.job.Ahead {
		w.run.saver.pending[id] = st
		w.run.job.Graph.SetStatus(id, st)
	}
	w.run.saver.look()
	if w.task.kept, err = w.run.tools.Repo.Refs(ctx, "refs/descartes/"); err != nil {
		return nil, gitErr("look for the attempts of earlier runs", err)
	}
	fresh := len(events) == 0
	if !fresh {
		first.Reason = journal.ReasonTakeover
	}
	if w.run.config.Scud.RetryBlocked {
		if first.Tasks = w.run.job.Blocked(); !fresh || len(first.Tasks) > 0 {
			first.Reason = journal.ReasonRetry
		}
	}
	if open := w.run.history.OpenTasks(); w.run.checks.others && len(open) > 0 {
		e := &journal.Event{Type: journal.Warning, Reason: journal.ReasonChecks,
			Message: "other checks decide than before: what is not done has all its attempts again"}
		for _, t := range open {
			e.Tasks = append(e.Tasks, t.ID)
		}
		return []*journal.Event{e}, nil
	}
	return nil, nil
}

// sameCheck reports whether two checks decide the same.
func sameCheck(a, b verify.Check) bool { return a.Name == b.Name && a.Run == b.Run && a.When == b.When }

// enter records that a wave begins, unless it already has.
func (w *queue) enter(number int) error {
	if w.entered == number {
		return nil
	}
	w.entered = number
	return w.run.record(&journal.Event{Type: journal.WaveStarted,
		Unit: journal.Unit{Wave: number, Of: len(w.run.job.Graph.Waves()[number-1].Tasks)}})
}

// limit returns an outcome after too many attempts in all, or with an open breaker. It is nil if no task is left to
// run.
func (w *tagWork) limit() *Outcome {
	if len(w.run.history.OpenTasks()) == 0 && !slices.ContainsFunc(w.run.job.Graph.Leaves(), w.run.job.Graph.Ready) {
		return nil
	}
	if why := w.breaker.tripped(); why != "" {
		return &Outcome{Ending: journal.BreakerOpen, Message: why}
	}
	if n := w.run.config.Scud.MaxTotalIterations; n > 0 && w.run.history.Iteration >= n {
		return &Outcome{Ending: journal.LimitReached, Message: fmt.Sprintf("the limit of %s in all is reached",
			attempts(n))}
	}
	return nil
}

func attempts(n int) string {
	if n == 1 {
		return "1 attempt"
	}
	return fmt.Sprintf("%d attempts", n)
}

// endRun runs the checks for the end of a run that has nothing left to do, after its last commits.
func (w *tagWork) endRun(out *Outcome, err error) error {
	if err == nil && out.Ending == "" {
		w.run.say(func() { *out = w.ending() })
	}
	if err = ends(out, w.commitLast(out, err)); err != nil || !w.final(out) {
		return err
	}
	return w.run.checks.atEnd(out)
}

// commitLast commits what is verified or given up when a run ends, whatever ended it: uncommitted work is lost on a
// machine that is deleted after its job, or when somebody stashes it in the morning.
func (w *tagWork) commitLast(out *Outcome, err error) error {
	var waves []scheduler.Wave
	w.run.say(func() {
		if err == nil && out.Ending == journal.BreakerOpen {
			err = w.breaker.open(out)
		}
		w.shelve()
		waves = w.run.job.Graph.Waves()
	})
	// what is integrated is whole
	if len(w.run.lanes.all) == 0 || w.run.trunk.halted || w.waves.cut || err != nil &&
		!errors.Is(err, context.Canceled) {
		return err
	}
	pause := func(why Outcome) {
		if out.Ending.Final() { // for a resume
			*out = why
		}
	}
	over := false
	for _, wave := range waves {
		stopped := out.Ending == journal.Paused || out.Ending == journal.UserCancelled
		if err == nil && stopped && !w.queue.ready(wave) { // the wave's own commit will say what was given up
			continue
		}
		cerr := w.waves.commit(w.run.ctx, w.run.lanes.all[0], wave)
		for errors.Is(cerr, errTakenOut) {
			w.run.say(w.shelve)
			pause(Outcome{Ending: journal.Paused, Message: cerr.Error()})
			cerr = w.waves.commit(w.run.ctx, w.run.lanes.all[0], wave)
		}
		switch not, unchecked := errors.AsType[uncheckedError](cerr); {
		case errors.Is(cerr, errWaits):
			pause(*w.reviews.unapproved)
			over, cerr = true, nil
		case errors.Is(cerr, errPutBack):
			pause(Outcome{Ending: journal.Paused, Message: cerr.Error()})
			over, cerr = true, nil
		case unchecked:
			cerr = w.run.tell(&journal.Event{Type: journal.Warning, Unit: journal.Unit{Wave: wave.Number},
				Message: string(not) + resumes})
		}
		if cerr != nil {
			return cmp.Or(err, cerr)
		}
		if over {
			break
		}
	}
	if err == nil && w.allDone(out) {
		*out = Outcome{Ending: journal.AllDone} // it was the last attempt: nothing is left to resume
	}
	var why error
	if w.run.say(func() { why = w.list.unwritten() }); err == nil && why != nil {
		pause(Outcome{Ending: journal.Paused, Message: fmt.Sprintf(
			"the task list cannot be read, and lacks what is done: %v", why)})
	}
	gctx, done := attempt.Linger(w.run.ctx)
	defer done()
	return errors.Join(err, w.receipts.write(gctx), w.share(gctx))
}

// allDone reports whether a pause or a limit came when everything was done. A pause leaves the checks at the end to
// the next run.
func (w *tagWork) allDone(out *Outcome) (yes bool) {
	w.run.say(func() {
		c := w.run.job.Graph.Counts()
		yes = c.Done == c.Total && (len(w.run.history.Verified()) == 0 || !w.run.config.Scud.AutoCommitWaves)
		switch out.Ending {
		case journal.Paused:
			yes = yes && len(w.run.checks.at(verify.AtEnd)) == 0
		case journal.LimitReached, journal.CostReached, journal.DeadlinePast:
		default:
			yes = false
		}
	})
	return yes
}

// ready reports whether a wave has verified work, or nothing left to do.
func (w *queue) ready(wave scheduler.Wave) (yes bool) {
	w.run.say(func() {
		yes = len(w.run.trunk.Units) > 0 || w.closed(wave)
	})
	return yes
}

// closed reports whether a wave has nothing left to do, once some units are done.
func (w *queue) closed(wave scheduler.Wave, units ...string) bool {
	return !slices.ContainsFunc(wave.Tasks, func(id string) bool {
		return w.run.job.Graph.State(id).Open() && !slices.Contains(units, id)
	})
}

// shelve returns half-done tasks to the list: nobody works on them now. The journal still knows how far they were.
func (w *tagWork) shelve() {
	for _, open := range w.run.history.OpenTasks() {
		if _, ok := w.run.job.File.Task(open.ID); ok {
			w.run.saver.pending[open.ID] = cmp.Or(w.list.wishes[open.ID], tasks.Pending)
		}
		w.run.job.Graph.SetStatus(open.ID, cmp.Or(w.list.wishes[open.ID], tasks.Pending))
	}
}

// ending is the outcome of a run that nothing stopped.
func (w *tagWork) ending() Outcome {
	g := w.run.job.Graph
	if w.scope.Task != "" {
		if g.Status(w.scope.Task) == tasks.Blocked {
			return Outcome{Ending: journal.TasksBlocked}
		}
		return Outcome{Ending: journal.StepDone}
	}
	blocked, left := 0, 0
	for _, id := range g.Leaves() {
		switch s := g.State(id); {
		case s == scheduler.StateDone:
		case s.Open():
			left++
		case !g.Status(id).SetAside():
			blocked++
		}
	}
	switch {
	case w.scope.Step && w.waveBlocked():
		return Outcome{Ending: journal.TasksBlocked}
	case w.scope.Step && left > 0:
		return Outcome{Ending: journal.StepDone}
	case blocked > 0:
		return Outcome{Ending: journal.TasksBlocked}
	}
	return Outcome{Ending: journal.AllDone}
}

// final reports whether nothing is left that can run, and something is done.
func (w *tagWork) final(out *Outcome) bool {
	return (out.Ending == journal.AllDone || out.Ending == journal.TasksBlocked && !w.scope.Step) &&
		w.run.history.Worked()
}

// waveBlocked reports whether a step's wave has a task that was given up.
func (w *tagWork) waveBlocked() bool {
	return slices.ContainsFunc(w.run.job.Graph.Leaves(), func(id string) bool {
		return w.run.job.Graph.Wave(id) == w.run.history.Wave && w.run.job.Graph.Status(id) == tasks.Blocked
	})
}

// finished records which tasks were given up, and which one goes back to the list.
func (w *tagWork) finished(out *Outcome) (e *journal.Event, path, handoff string, err error) {
	blocked := w.run.history.Blocked()
	out.Blocked = len(blocked)
	out.Crashed = out.Blocked > 0 && !slices.ContainsFunc(blocked,
		func(b *journal.Event) bool { return b.Verdict != journal.Crashed })
	counts := journal.TaskCounts(w.run.job.Graph.Counts())
	if path = w.run.config.Scud.HandoffPath; path != "" && out.Ending != journal.AllDone {
		handoff = w.handoffText(out)
	}
	if out.Ending == journal.BaselineFails && w.run.job.Import != nil && w.run.history.Iteration == 0 {
		w.run.unmade = w.unmake
	}
	e = w.run.closing.end(out, string(out.Ending), journal.Totals{Tasks: &counts, Attempts: w.run.history.Iteration,
		Commits: len(w.run.history.WaveCommits)})
	return e, path, handoff, nil
}

// fill sets the fields of the state file that only runs over a tag have.
func fill(s *store.State, j *source.Job) {
	c := j.Graph.Counts()
	s.TasksCompleted, s.TasksTotal = c.Done, c.Total
	if s.Entries = nil; j.File.IsPlan() {
		for _, t := range j.Tasks() {
			s.Entries = append(s.Entries, store.Entry{ID: t.ID, Title: t.Title})
		}
	}
}

// unmake removes the task list that this start made from the plan: a run that was rejected leaves nothing behind.
func (w *tagWork) unmake() {
	path := w.run.job.File.Path()
	if os.Remove(path) == nil {
		_ = os.Remove(filepath.Dir(path)) // succeeds only if it is empty
		_ = os.Remove(filepath.Dir(filepath.Dir(path)))
	}
}
