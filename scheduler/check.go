package scheduler

import (
	"cmp"
	"slices"
)

// The check is the merge: what passes on the tip is the next tip. Several can be at work, each on what the ones before
// it would be: then a result counts when these are merged, and a check on what will never be is repeated.

// checkTrees is how many checks can be at work.
func (r *Run) checkTrees() int {
	workers := map[string]bool{}
	for _, l := range r.Lanes {
		if l.Checks && l.Worker != "" {
			workers[l.Worker] = true
		}
	}
	return max(1, r.Settings.ChecksAtOnce, len(workers))
}

// checkDue is the check that starts next. First made, first checked, but for what a review let through.
func (r *Run) checkDue(s *survey) Action {
	k := &r.Trunk
	if k.Checks >= s.trees || k.Checks > 0 && r.checksAlone() {
		return nil
	}
	if r.needsBaseline() && s.open <= EndWave && !r.Stops.noChecks(s.now, &r.Limits) {
		return r.alone(Check{Purpose: Baseline, Known: r.Known})
	}
	if task := r.Breaker.doubted(); task != "" && !r.Stops.noChecks(s.now, &r.Limits) {
		return r.alone(Check{Purpose: Recheck, Task: task, Known: r.Known})
	}
	if len(k.Line) > 0 {
		if t := r.byID[k.Line[0]]; t.Stage == Made { // those before it are merged, and it has passed on that
			return Check{Purpose: OfAttempt, Task: t.ID, Checked: true, Known: r.Known}
		}
	}
	line := set(k.Line)
	var next *Task
	for _, t := range r.Tasks {
		if t.Stage != Made || line[t.ID] {
			continue
		}
		if next == nil || t.Reviewed && !next.Reviewed || t.Reviewed == next.Reviewed && t.Turn < next.Turn {
			next = t
		}
	}
	if next == nil {
		return nil
	}
	c := Check{Purpose: OfAttempt, Task: next.ID, On: slices.Clone(k.Line), Review: next.reviewIf(), Known: r.Known}
	switch passed := next.On.Passed && k.stands(&next.On, k.Line); {
	case next.Accepted: // a person's word, and nobody else's commit stands on it before it is merged
		return r.alone(c)
	case passed && len(k.Line) > 0: // before a kill; it waits for those
		return nil
	case passed:
		c.Checked, c.Review = true, NoReview
	}
	return c
}

// alone is a check beside which no other is at work.
func (r *Run) alone(c Check) Action {
	if r.Trunk.Checks > 0 {
		return nil
	}
	return c
}

// checksAlone reports whether what is at work is such a check.
func (r *Run) checksAlone() bool {
	return r.Trunk.Alone || slices.ContainsFunc(r.Tasks, func(t *Task) bool { return t.Stage == Checking && t.Accepted })
}

func (r *Run) checkStarted(e CheckStarted) {
	k := &r.Trunk
	k.Busy, k.Checks = "check", k.Checks+1
	if e.Purpose != OfAttempt {
		k.Alone = true
		return
	}
	t := r.byID[e.Task]
	if !t.On.Passed || len(e.On) > 0 || !k.stands(&t.On, nil) {
		t.On = Basis{Tip: len(k.Entries), With: slices.Clone(e.On)}
	}
	t.On.Review = e.Review
	r.move(t, Checking, -1)
	if e.Review != Always && !slices.Contains(k.Line, t.ID) {
		k.Line = append(slices.Clone(k.Line), t.ID)
	}
}

// reviewIf says whether a review comes before the merge of a task's commit.
func (t *Task) reviewIf() ReviewIf {
	switch {
	case len(t.Review) == 0 || t.Accepted:
		return NoReview
	case t.Reviewed:
		return IfChanged
	}
	return Always
}

func (r *Run) checkEnded(e CheckEnded) {
	k := &r.Trunk
	if k.Checks--; k.Checks == 0 {
		k.Busy = ""
	}
	switch {
	case e.Purpose == OfAttempt:
		r.attemptChecked(r.byID[e.Task], e)
		return
	case e.Result == Cut:
	case e.Purpose == Baseline:
		if r.Baseline = e.Result; r.Settings.Baseline == "known" {
			r.Known = union(r.Known, e.Known)
		}
	case e.Result == Passed:
		r.Breaker.rechecked("")
	default:
		r.Breaker.rechecked(e.Signature)
	}
	k.Alone = false
}

func (r *Run) attemptChecked(t *Task, e CheckEnded) {
	k := &r.Trunk
	switch {
	case e.Result == Cut || t.On.Void:
		r.repeatCheck(t)
	case len(k.Entries) < t.On.Tip+len(t.On.With): // it counts when those before it are merged
		t.On.Said = &e
		if !t.On.merges(&e) {
			r.leaveLine(t)
		}
	default:
		r.judge(t, e)
		r.judgeWaiting()
	}
}

// CountsLater reports whether what the check of a task has said, or says now, counts only when those before it are merged, if
// then.
func (r *Run) CountsLater(task string) bool {
	t := r.byID[task]
	return t != nil && t.Stage == Checking && (t.On.Void || len(r.Trunk.Entries) < t.On.Tip+len(t.On.With))
}

// judgeWaiting: those before them are merged, so what was said of these counts.
func (r *Run) judgeWaiting() {
	var ready []*Task
	for _, t := range r.Tasks {
		if t.On.Said != nil && len(r.Trunk.Entries) >= t.On.Tip+len(t.On.With) {
			ready = append(ready, t)
		}
	}
	slices.SortFunc(ready, func(a, b *Task) int { return cmp.Compare(a.Turn, b.Turn) })
	for _, t := range ready {
		if e := t.On.Said; e != nil {
			t.On.Said = nil
			r.judge(t, *e)
		}
	}
}

// repeatCheck: the check is repeated, not the agent.
func (r *Run) repeatCheck(t *Task) {
	t.On.Void, t.On.Said = false, nil
	r.move(t, Made, -1)
	r.leaveLine(t)
}

// keepCheck: a kill does not have a check repeated that is over, although it waits for those before it.
func (r *Run) keepCheck(t *Task) {
	h := t.On.Said
	t.On.Passed = t.On.Passed || h != nil && t.On.merges(h)
	t.On.Said, t.On.Void = nil, false
}

// forgetChecks: what other checks said counts no more. The tip is checked anew, what passed is checked again, and what
// is not done has all its attempts.
func (r *Run) forgetChecks() {
	r.Baseline = ""
	for name, n := range r.Trunk.Passed {
		r.Trunk.Passed[name] = min(n, r.Trunk.In)
	}
	for _, t := range r.Tasks {
		if t.On = (Basis{}); !t.isOver() {
			t.Spent, t.Crashed = 0, 0
		}
	}
}

// leaveLine: it is not merged now, so what was checked on that has to be checked again.
func (r *Run) leaveLine(t *Task) {
	k := &r.Trunk
	i := slices.Index(k.Line, t.ID)
	if i < 0 {
		return
	}
	k.Line = slices.Clone(k.Line[:i])
	for _, o := range r.Tasks {
		if o.Stage != Checking || !slices.Contains(o.On.With, t.ID) {
			continue
		}
		if o.On.Said != nil {
			o.On.Said = nil
			r.move(o, Made, -1)
		} else {
			o.On.Void = true
		}
	}
}

// dropLine: the branch's own commits are the tip, so what was checked ahead is checked again. Nothing is at work.
func (r *Run) dropLine() {
	r.Trunk.Line = nil
	for _, t := range r.Tasks {
		if t.Stage == Checking {
			r.repeatCheck(t)
		}
	}
}

// Void are tasks whose checks are at work in vain: the executor may cut them short.
func (r *Run) Void() (ids []string) {
	for _, t := range r.Tasks {
		if t.Stage == Checking && t.On.Void {
			ids = append(ids, t.ID)
		}
	}
	return ids
}

// review has a task wait for its reviewer. Where the list asks for none any more it is as if he had approved.
func (r *Run) review(t *Task) {
	if r.move(t, Reviewing, -1); len(t.Review) == 0 {
		t.Reviewed = true
		r.move(t, Made, -1)
	}
}
