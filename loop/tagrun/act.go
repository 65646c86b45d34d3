package tagrun

import (
	"context"
	"errors"
	"slices"

	"descartes/config"
	"descartes/gitops"
	"descartes/loop"
	"descartes/loop/attempt"
	"descartes/loop/book"
	"descartes/loop/journal"
	"descartes/loop/slot"
	"descartes/loop/trunk"
	"descartes/scheduler"
	"descartes/verify"
)

// What the deciding goroutine does around the actions at the trunk. Each of them has a file of its own.

// acts begins an action at the trunk: do is slow; cut is what it is where it came to nothing.
func (r *Run) acts(ctx context.Context, begins, cut scheduler.Event, do func(context.Context) (result, error)) error {
	if err := r.happened(begins); err != nil {
		return err
	}
	r.start(func() func() error {
		res, err := do(ctx)
		return func() error {
			if res.now != nil { // done, whatever came after it
				r.now = *res.now
			}
			if err != nil {
				return r.broke(err, cut)
			}
			return r.acted(&res)
		}
	})
	return nil
}

// acted takes the result of an action at the trunk.
func (r *Run) acted(res *result) error {
	if res.why != "" {
		r.ends.why = res.why
	}
	if res.out != nil {
		r.ends.base = res.out
		if e, ok := res.event.(scheduler.CheckEnded); ok && e.Result == scheduler.Cut { // whatever the setting
			return errors.Join(r.happened(res.event, res.lines...), r.happened(scheduler.Trouble{Why: "baseline", Code: 2}))
		}
	}
	if e, ok := res.event.(scheduler.CheckEnded); ok && r.made[e.Task] != nil {
		r.made[e.Task].hosts = append(r.made[e.Task].hosts, r.ground.tools.Hosts(r.checkSlots()...)...)
	}
	if e, ok := res.event.(scheduler.CheckEnded); ok && e.Result == scheduler.Failed && r.made[e.Task] != nil {
		for _, line := range res.lines { // what its agent was refused may be why
			line.Detail.Denied = r.denied(r.made[e.Task])
		}
	}
	if e, ok := res.event.(scheduler.CheckEnded); ok && e.Purpose == scheduler.Recheck {
		r.ends.tip = res.why
	}
	if e, ok := res.event.(scheduler.CheckEnded); ok && e.Result == scheduler.Failed && r.made[e.Task] != nil && res.res != nil {
		if note := r.ground.tools.Withheld.Missed(r.told.once, res.res.Agent, res.res.Verify); note != "" {
			if err := r.book.Write(book.Warning(r.made[e.Task].unit, note)); err != nil {
				return err
			}
		}
	}
	lines := res.lines
	if e, ok := res.event.(scheduler.CheckEnded); ok && e.Purpose == scheduler.OfAttempt && e.Result != scheduler.Passed &&
		r.machine.CountsLater(e.Task) {
		r.told.waiting[e.Task], lines = lines, nil
	}
	err := r.happened(res.event, lines...)
	if r.ends.tip = ""; err != nil {
		return err
	}
	switch e := res.event.(type) {
	case scheduler.CheckEnded:
		m := r.made[e.Task]
		if m != nil && res.res != nil {
			m.res = *res.res
		}
		if m != nil && m.accepts != nil && e.Result != scheduler.Cut {
			return r.acceptsUsed(e.Task)
		}
	case scheduler.Committed:
		if e.Result == scheduler.Passed {
			return r.list.write()
		}
	}
	return nil
}

// broke takes an error that left an action without a result: e says that it was cut short. What git refused, and a full
// disk, end the run.
func (r *Run) broke(err error, e scheduler.Event) error {
	cutShort := r.asks.Now.Err() != nil && (errors.Is(err, context.Canceled) || isStopped(err))
	if !cutShort {
		r.ends.err = err
	} else if isStopped(err) {
		r.ends.stopped = err
	}
	if _, cuts := e.(scheduler.Rewound); cuts { // the trunk is as it was
		return err
	}
	if err := r.happened(e); err != nil || cutShort {
		return err
	}
	t := scheduler.Trouble{Why: "error", Code: 1}
	switch e.(type) {
	case scheduler.Committed:
		t.Commits, t.Checks = true, true
	case scheduler.CheckEnded, scheduler.TakeInEnded, scheduler.WaveCheckEnded:
		t.Checks = true
	}
	_, git := errors.AsType[*slot.GitError](err)
	switch {
	case loop.DiskFull(err):
		t.Why = "disk"
	case git:
		t.Why, t.Code = "git", 5
	}
	return r.happened(t)
}

// isStopped reports whether git was ended before it was done.
func isStopped(err error) bool {
	_, stopped := errors.AsType[*gitops.StoppedError](err)
	return stopped
}

// tip is a check tree that nobody uses, one more where all are in use.
func (r *Run) freeTree() *tree {
	for _, t := range r.trees.tips {
		if !t.busy {
			return t
		}
	}
	t := &tree{}
	r.trees.tips = append(r.trees.tips, t)
	return t
}

// checkSlots are the slots of the trees in which attempts are checked.
func (r *Run) checkSlots() (numbers []int) {
	for _, t := range r.trees.tips {
		if t.seats != nil {
			numbers = append(numbers, t.slot.Number)
		}
	}
	return numbers
}

// in has do run in a check tree, which is in use until its result is taken.
func (t *tree) in(do func() (result, error)) (result, error) {
	defer func() { t.busy = false }()
	return do()
}

// check has a commit checked, merged onto the trunk's tip; or the tip itself.
func (r *Run) check(a scheduler.Check) error {
	g, now, at := &r.ground, r.now, r.freeTree()
	at.busy = true
	begins := scheduler.CheckStarted{Purpose: a.Purpose, Task: a.Task, On: a.On, Review: a.Review}
	cut := scheduler.CheckEnded{Purpose: a.Purpose, Task: a.Task, Result: scheduler.Cut}
	if a.Purpose != scheduler.OfAttempt {
		checks := commands(g, r.book.History, nil, false, r.whens()...)
		key, own := r.book.State.Key(), journal.Checks(nil) // which change while it is at work
		for _, c := range r.book.History.Checks {
			one := *c
			own = append(own, &one)
		}
		v := r.voice(journal.Unit{})
		return r.acts(r.asks.Ending, begins, cut, func(ctx context.Context) (result, error) {
			return at.in(func() (result, error) {
				if a.Purpose == scheduler.Recheck {
					return recheck(ctx, g, now, a, checks, at, v)
				}
				return baseline(ctx, g, now, a, key, own, checks, at, v)
			})
		})
	}
	m, err := r.madeOf(a.Task)
	if err != nil {
		return err
	}
	m.in.Checks = commands(g, r.book.History, m.task, r.fewer(a.Task), verify.AtAttempt)
	if t := r.machine.Task(a.Task); t.Check != "" {
		m.in.Checks = append(m.in.Checks, r.named(t)...)
	}
	if m.accepts != nil {
		if err := r.acceptBegins(m); err != nil {
			return err
		}
	}
	var ahead []*made
	for _, id := range a.On {
		one, err := r.madeOf(id)
		if err != nil {
			return err
		}
		ahead = append(ahead, one)
	}
	v := r.voice(m.unit)
	return r.acts(r.asks.Now, begins, cut, func(ctx context.Context) (result, error) {
		return at.in(func() (result, error) { return checkAttempt(ctx, g, now, a, m, ahead, at, v) })
	})
}

// whens are the points whose checks decide about the tip before any attempt. Those of a wave and of the end have their own
// turn where the trunk has work that waits for them.
func (r *Run) whens() []verify.When {
	if len(r.now.chain.Units) > 0 {
		return []verify.When{verify.AtAttempt}
	}
	if r.ground.config.Baseline == config.BaselineKnown {
		return []verify.When{verify.AtAttempt, verify.AtWave, verify.AtEnd}
	}
	return []verify.When{verify.AtAttempt, verify.AtWave}
}

// fewer reports whether a person lets a task reduce the number of tests.
func (r *Run) fewer(id string) bool {
	t := r.task(id)
	return t != nil && (slices.Contains(t.Allow, "tests") || len(r.job.Allowed(id)) > 0)
}

// named are the checks of a wave or of the end that a task of the run's own is to mend.
func (r *Run) named(t *scheduler.Task) (list []attempt.Command) {
	names := []string{t.Check}
	if t.Wave == scheduler.EndWave {
		names = append(names, r.machine.Settings.WaveChecks...)
	}
	return r.checksNamed(names)
}

func (r *Run) checksNamed(names []string) (list []attempt.Command) {
	for _, c := range commands(&r.ground, r.book.History, nil, false, verify.AtWave, verify.AtEnd) {
		if slices.Contains(names, c.Check.Title()) {
			list = append(list, c)
		}
	}
	return list
}

// takeIn brings in what the branch got that is not ours.
func (r *Run) takeIn(a scheduler.TakeIn) error {
	g, now, at, v := &r.ground, r.now, r.freeTree(), r.voice(journal.Unit{})
	at.busy = true
	checks, files := commands(g, r.book.History, nil, false, verify.AtAttempt), r.list.files(g.repo, nil, nil)
	return r.acts(r.asks.Now, scheduler.TakeInStarted{Commit: a.Commit},
		scheduler.TakeInEnded{Commit: a.Commit, Result: scheduler.Cut}, func(ctx context.Context) (result, error) {
			return at.in(func() (result, error) { return takeIn(ctx, g, now, a, files, checks, at, v) })
		})
}

// checkWave has the checks of a wave, or of the end, run.
func (r *Run) checkWave(a scheduler.WaveCheck) error {
	g, now, at, v := &r.ground, r.now, r.trees.wave, r.voice(journal.Unit{Wave: r.waveOf(a.Wave)})
	checks := r.checksNamed(a.Checks)
	return r.acts(r.asks.Ending, scheduler.WaveCheckStarted{Wave: a.Wave, Tip: a.Tip, Checks: a.Checks},
		scheduler.WaveCheckEnded{Wave: a.Wave, Tip: a.Tip, Result: scheduler.Cut},
		func(ctx context.Context) (result, error) { return checkWave(ctx, g, now, a, checks, at, v) })
}

// waveOf is the number of a wave as people count them: the end is the last.
func (r *Run) waveOf(n int) int {
	if n == scheduler.EndWave {
		return len(r.job.Graph.Waves())
	}
	return n
}

// commit has the branch get what is merged, up to an entry.
func (r *Run) commit(a scheduler.Commit) error {
	g, now, v := &r.ground, r.now, r.voice(journal.Unit{Wave: r.waveOf(a.Wave)})
	if err := r.list.write(); err != nil { // the commit's list is the one on disk
		return err
	}
	brings := bringsOf(&now, a.Tip)
	w, files := r.saysOf(a, brings), r.list.files(g.repo, brings, r.idle())
	checks, at := commands(g, r.book.History, nil, false, verify.AtAttempt), r.freeTree()
	at.busy = true
	hooks, over := r.asks.Committing(g.config.Deadline)
	by := r.verifiedBy(w.Does())
	return r.acts(hooks, scheduler.CommitStarted{Wave: a.Wave, Tip: a.Tip},
		scheduler.Committed{Wave: a.Wave, Tip: a.Tip, Result: scheduler.Cut},
		func(ctx context.Context) (result, error) {
			defer over()
			return at.in(func() (result, error) { return commitWave(ctx, g, now, a, w, files, by, checks, at, v) })
		})
}

// saysOf is what the commit of a wave says that brings the work on some tasks.
func (r *Run) saysOf(a scheduler.Commit, brings []string) trunk.Wave {
	c, h, g := r.ground.config, r.book.History, r.job.Graph
	w := trunk.Wave{Loop: r.ID(), Tag: r.ground.tag, List: r.ground.list.List, Number: r.waveOf(a.Wave), Continued: a.Continued,
		PerTask: r.machine.Settings.PerTask}
	for _, id := range brings {
		one := h.VerifiedBy(id, r.ground.tools.Now())
		w.Brings = append(w.Brings, trunk.Item{ID: id, Title: r.title(id),
			Accepted: one != nil && one.Outcome() == string(journal.Accepted), Proof: one.Proof()})
	}
	for _, t := range r.machine.Tasks {
		if t.Stage == scheduler.Done && t.IsUnlisted() {
			w.Unchanged = append(w.Unchanged, trunk.Item{ID: t.ID, Title: r.title(t.ID)})
		}
		// what a commit of its wave said already it says again: it is part of how the wave stands
		if t.Stage == scheduler.Blocked && (t.IsUnlisted() || t.Wave == a.Wave) && r.task(t.ID) != nil && t.Wave <= a.Wave &&
			!(w.PerTask && len(brings) == 1) {
			w.Blocked = append(w.Blocked, trunk.Item{ID: t.ID, Title: r.title(t.ID)})
		}
	}
	if waves := g.Waves(); w.Number > 0 && w.Number <= len(waves) {
		for _, id := range waves[w.Number-1].Tasks {
			t := r.machine.Task(id)
			switch {
			case t == nil || t.Stage == scheduler.Aside:
				continue
			case t.Stage == scheduler.Done || slices.Contains(brings, id):
				w.Done++
			}
			w.Of++
		}
	}
	if text := c.Git.CommitTemplate; text != "" {
		w.Subject = config.Names{Iteration: h.Iteration, Wave: w.Number, Tag: r.ground.tag,
			At: r.ground.tools.Now()}.Expand(text)
	}
	if c.Git.CostTrailer {
		var sum journal.Cost
		for _, id := range brings {
			sum = sum.Plus(h.Task(id).Cost)
		}
		w.Cost = sum.Text()
	}
	return w
}

// cut ends the trunk at an entry: what stood behind it is gone from the branch.
func (r *Run) cut(a scheduler.CutTrunk) error {
	g, now, v := &r.ground, r.now, r.voice(journal.Unit{})
	return r.acts(r.asks.Now, scheduler.CutStarted{Tip: a.Tip}, scheduler.Rewound{},
		func(ctx context.Context) (result, error) { return cutTrunk(ctx, g, now, a, v) })
}

// watch looks whether the branch is another one than the trunk knows, and takes that in, before an attempt or a commit: where
// it cannot be read the run ends, and no commit is tried.
func (r *Run) watch(before scheduler.Action) (moved bool, err error) {
	k := &r.machine.Trunk
	if k.Busy != "" && k.Busy != "check" { // what that does to the branch is no news
		return false, nil
	}
	e, moved, err := watchBranch(r.asks.Now, &r.ground, r.now, k.Branch)
	if err != nil {
		_, commits := before.(scheduler.Commit)
		r.ends.err = err
		return true, r.happened(scheduler.Trouble{Why: "git", Code: 5, Commits: commits})
	}
	if !moved {
		return false, nil
	}
	return true, r.happened(e)
}

// watchLast looks, before a run says that all is done, whether somebody has taken what it committed from the branch.
func (r *Run) watchLast(end scheduler.End) (lost bool, err error) {
	if end.Why != "done" || !r.told.saved {
		return false, nil
	}
	e, moved, err := watchBranch(r.asks.Now, &r.ground, r.now, r.machine.Trunk.Branch)
	if err != nil || !moved || len(e.Lost) == 0 {
		return false, nil // what is wrong with git ends no run that is over
	}
	return true, r.happened(e)
}

// saveTrunk makes the trunk's ref, and the branch, before the first action that counts on them: a run whose baseline
// fails leaves none behind.
func (r *Run) saveTrunk() (saved bool, err error) {
	now, err := saveTrunk(r.asks.Now, &r.ground, r.now)
	if r.now = now; err != nil {
		return false, r.trouble(err)
	}
	return true, nil
}

// trouble lets the run end by an error of git's, or of ours.
func (r *Run) trouble(err error) error {
	r.ends.err = err
	return r.happened(scheduler.Trouble{Why: "git", Code: 5})
}
