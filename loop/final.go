package loop

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"descartes/gitops"
	"descartes/internal/oneline"
	"descartes/loop/attempt"
	"descartes/loop/journal"
	"descartes/loop/trunk"
	"descartes/loop/workspace"
	"descartes/verify"
)

// Checks of what is already verified, as a fresh clone has it, and what follows where it fails there.

// When what verify passed is checked again in a check slot, besides states that are merged: without a word before each
// wave's commit.
const (
	FinalAttempt = "attempt"
	FinalOff     = "off"
)

// checkLane returns where a state is checked as a fresh clone has it: the given lane, if its slot has nothing that a
// check slot lacks, else a check slot, which is taken when it is first needed. Where that leads back into the user's
// tree, agents' slots have to do.
func (l *checks) checkLane(ctx context.Context, ln *lane) (*lane, error) {
	if l.run.lanes.checker != nil || l.run.config.FinalCheck == FinalOff || l.run.lanes.uncheckable {
		if l.run.lanes.checker != nil {
			ln = l.run.lanes.checker
		}
		return ln, nil
	}
	beside, err := ln.slot.Beside(ctx)
	if err != nil || len(beside) == 0 {
		return ln, err
	}
	slot, err := l.run.trunk.pool.TakeCheck(ctx)
	if err != nil {
		return nil, err
	}
	checker, err := l.run.lanes.newLane(slot)
	if err != nil {
		return nil, err
	}
	l.run.say(func() { l.run.lanes.checker = checker })
	if !slot.MayLeadBack() {
		return checker, nil
	}
	_, err = l.run.lanes.prepare(ctx, checker, l.run.worker.startOf(
		&unit{lane: checker, before: l.run.trunk.Tree, base: l.run.trunk.Tree}))
	if why := workspace.LeadsBack(err); why != "" {
		err = checker.end()
		if l.run.say(func() { l.run.lanes.checker, l.run.lanes.uncheckable = nil, true }); err == nil {
			err = l.run.Warn("no check slot, so commits are checked where agents worked: " + why)
		}
		return ln, err
	}
	return checker, err
}

// alone runs a check that passed before any task again as a fresh clone has the project, and says what it lacks there.
func (l *checks) alone(ctx context.Context, ln *lane, before gitops.Tree, b *Baseline) (*Baseline, error) {
	at, err := l.checkLane(ctx, ln)
	if err != nil || at == ln {
		return b, err
	}
	one, err := l.untouched(at, before, "", &attempt.Command{Check: b.Check})
	if err != nil {
		return one, err
	}
	beside, err := ln.slot.Beside(ctx)
	if err != nil {
		return nil, err
	}
	return b.InClone(one, beside, l.run.config.Pool.Keep)
}

// BesideOf says what work passes only beside.
func BesideOf(files []string) string {
	what := "files"
	if len(files) > 0 {
		what = oneline.List(files)
	}
	return "it passes only beside " + what + attempt.InNoCommit
}

// files are those to name if verified work fails in a check slot: what the attempt wrote, else what there was.
func files(hidden, beside []string) []string {
	if len(hidden) > 0 {
		return hidden
	}
	return beside
}

// verified is the verified work of a unit that no commit has; nil if there is none.
func (l *proofs) verified(unit string) *journal.VerifiedTask {
	return l.trunk.run.history.Task(unit).Verified
}

// proofs are of work that passed in a check slot.
type proofs struct {
	trunk  *mainline
	proved map[journal.Key]bool // attempts whose work has
}

// doubted is the work of a unit if it was verified beside files that a check slot lacks, and has not passed in one
// since; else nil.
func (t *proofs) doubted(unit string) *journal.VerifiedTask {
	v := t.verified(unit)
	if v == nil || v.Alone || t.trunk.run.config.FinalCheck == FinalOff || t.trunk.run.lanes.uncheckable ||
		t.proved[journal.Key{Task: v.Task, Number: v.Attempt}] ||
		t.trunk.run.history.Attempt(journal.Key{Task: v.Task, Number: v.Attempt}).Grade() == journal.Grade(
			verify.Accepted) {
		return nil
	}
	return v
}

// suspect reports whether a unit's work is checked in a check slot before the trunk takes it, even if nothing is
// merged. Between several slots that is so for all: what others add to it would fail there with it.
func (t *proofs) suspect(unit string) bool {
	v := t.doubted(unit)
	return v != nil && (t.trunk.run.config.FinalCheck == FinalAttempt || t.trunk.run.config.Slots() > 1 ||
		len(v.Hidden) > 0)
}

// blame says whether a candidate fails in a check slot by itself.
func (t *proofs) blame(ctx context.Context, ln *lane, f *trunk.Fate, c trunk.Candidate) error {
	v := t.doubts(c.Unit)
	if v == nil || c.Tree == "" {
		return nil
	}
	if len(f.After) > 0 { // else that is what failed
		res, err := t.trunk.verify(ctx, ln, c.Tree, []string{c.Unit}, false)
		if err != nil || res.Passed || res.Cancelled {
			return err
		}
		f.Failure = &res
	}
	f.Beside = BesideOf(files(v.Hidden, v.Beside))
	return nil
}

// doubts is doubted for the trunk's slow steps.
func (t *proofs) doubts(unit string) (v *journal.VerifiedTask) {
	t.trunk.run.say(func() {
		if v = t.doubted(unit); v != nil {
			was := *v
			v = &was
		}
	})
	return v
}

// prove says that the work of units has passed in a check slot. It is a slow step's.
func (t *proofs) prove(units []string) {
	t.trunk.run.say(func() {
		for _, unit := range units {
			if v := t.verified(unit); v != nil {
				t.proved[journal.Key{Task: v.Task, Number: v.Attempt}] = true
			}
		}
	})
}

// errTakenOut says that work was taken out of the trunk before a commit.
var errTakenOut = errors.New("work that does not pass by itself was taken out, and is to be done again")

// check looks at the state that a wave's commit is to have in a check slot, if some of it was verified beside other
// files only. The work with which that fails leaves the trunk, and its attempt has failed.
func (w *waves) check(ctx context.Context, ln *lane, number int) error {
	t := w.run.trunk
	doubted := slices.DeleteFunc(slices.Clone(t.Units), func(unit string) bool { return t.proofs.doubts(unit) == nil })
	if len(doubted) == 0 {
		return nil
	}
	at, err := w.run.checks.checkLane(ctx, ln)
	if err != nil {
		return err
	}
	check := func(tree gitops.Tree, units []string) (res verify.Result, err error) {
		if res, err = t.examine(ctx, at, tree, units, verify.AtAttempt); err == nil && res.Cancelled {
			err = uncheckedError(fmt.Sprintf("wave %d is not committed: its check was stopped", number))
		}
		return res, err
	}
	res, err := check(t.Tree, t.Units)
	if err != nil {
		return err
	}
	if res.Passed {
		t.proofs.prove(t.Units)
		return nil
	}
	// The first state with which it fails, and the one before.
	unit, was := "", gitops.Tree("")
	for i, l := range t.Links {
		if !slices.Contains(doubted, l.Unit) || !t.Newest(i) {
			continue
		}
		unit, was = l.Unit, t.Links[i-1].Tree
		if l.Tree == t.Tree || unit == doubted[len(doubted)-1] {
			break
		}
		one, err := check(l.Tree, []string{unit})
		if err != nil {
			return err
		}
		if !one.Passed {
			res = one
			break
		}
		t.proofs.prove([]string{unit})
	}
	v := t.proofs.doubts(unit)
	if len(v.Hidden) == 0 { // is it its fault?
		before, err := check(was, nil)
		if err != nil {
			return err
		}
		if !before.Passed {
			return &ChecksError{When: verify.AtWave, Wave: number, Result: res, Beside: BesideOf(v.Beside)}
		}
	}
	if err := w.takeOut(ctx, unit, was, &trunk.Fate{Unit: unit, Failure: &res,
		Beside: BesideOf(files(v.Hidden, v.Beside))}); err != nil {
		return err
	}
	w.run.say(func() { w.tag.queue.passed, w.tag.queue.sched = 0, nil })
	return errTakenOut
}

// takeOut takes a unit's work out of the trunk, and where others' work cannot do without it, that too. was is the
// state before it came in.
func (w *waves) takeOut(ctx context.Context, unit string, was gitops.Tree, why *trunk.Fate) error {
	t, units := w.run.trunk, []string{unit}
	at := slices.IndexFunc(t.Links, func(l trunk.Link) bool { return l.Unit == unit && slices.Contains(t.Units, unit) })
	for i := at + 1; i < len(t.Links); i++ {
		if t.Links[i].Unit == unit {
			at = i
		}
	}
	next, met, err := w.run.tools.Repo.MergeTrees(ctx, t.Links[at].Tree, t.Tree, was)
	if err != nil {
		return gitErr("take out the work on task "+unit, err)
	}
	if len(met) > 0 {
		next, units = was, t.Units[slices.Index(t.Units, unit):]
	}
	units = slices.Clone(units)
	if err := t.Chain.TakeOut(ctx, next, "", units...); err != nil {
		return gitErr("take out the work on task "+unit, err)
	}
	for _, id := range units {
		fate := why
		if id != unit {
			fate = &trunk.Fate{Unit: id, Failure: why.Failure, Beside: "it builds on the work on task " + unit +
				", which was taken out"}
		}
		if err := w.putBack(ctx, id, fate); err != nil {
			return err
		}
	}
	return nil
}

// putBack records that a task's work was taken out of the trunk: the task is ready again, or blocked. It is slow.
func (w *waves) putBack(ctx context.Context, id string, why *trunk.Fate) (err error) {
	var u *unit
	w.run.say(func() {
		if v := w.run.trunk.proofs.verified(id); v != nil {
			if task, ok := w.run.job.Graph.Task(v.Task); ok {
				u = &unit{task: task, number: v.Attempt, base: gitops.Tree(v.Base),
					log: w.run.home.Log(w.run.state.ID, v.Task, v.Attempt), started: w.run.tools.Now()}
				u.res.Verdict, u.res.Work.After = verify.Verified, gitops.Tree(v.Tree)
			}
		}
	})
	if u == nil {
		return nil
	}
	if _, err := w.tag.task.keep(ctx, u, why); err != nil {
		return err
	}
	w.run.say(func() {
		if err = w.tag.task.unfit(u, why); err == nil {
			_, err = w.tag.task.givesUp(u)
		}
	})
	return err
}

// takenOut puts the tasks back whose work a killed run took out of the trunk and could not record. It is slow.
func (w *waves) takenOut(ctx context.Context) error {
	var lost []*journal.VerifiedTask
	w.run.say(func() {
		for _, v := range w.run.history.Verified() {
			out := false
			for _, l := range w.run.trunk.Links {
				out = slices.Contains(l.Out, v.Task) || out && l.Unit != v.Task
			}
			if out && !w.run.history.Task(v.Task).Open() {
				lost = append(lost, v)
			}
		}
	})
	for _, v := range lost {
		if err := w.putBack(ctx, v.Task, &trunk.Fate{Unit: v.Task, Failure: &verify.Result{},
			Beside: BesideOf(files(v.Hidden, v.Beside))}); err != nil {
			return err
		}
	}
	return nil
}
