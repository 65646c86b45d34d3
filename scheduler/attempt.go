package scheduler

import "slices"

func (r *Run) attemptStarted(e AttemptStarted) {
	t := r.byID[e.Task]
	if e.Purpose == Review {
		r.move(t, Reviewing, e.Lane)
	} else {
		r.move(t, Running, e.Lane)
		t.Number++
		t.Accepted, t.Reviewed, t.PassedOn = false, false, -1
	}
	if e.Purpose == Work {
		r.Attempts++
	}
	t.Account, t.Purpose = e.Account, e.Purpose
}

func (r *Run) attemptEnded(e AttemptEnded) {
	t := r.byID[e.Task]
	if t == nil || t.Lane < 0 { // its lane went before it: it was cut short then
		return
	}
	r.USD, t.USD = r.USD+e.USD, t.USD+e.USD
	t.Kept = t.Kept || e.Kept
	purpose := t.Purpose
	switch e.Outcome { // what it says of the account, and of the agent
	case OutOfQuota:
		r.Accounts.Exhaust(t.Account, e.Until)
	case Fault:
		r.Accounts.Fault(t.Account, e.Until)
	case Refused:
		r.Accounts.Refuse(t.Account)
	case Finished, Unchanged, Shown, GaveUp, Asks, Approved, Rejected:
		r.Worked = true
		r.Breaker.Worked()
		r.Accounts.Worked(t.Account)
	}
	if purpose == Review {
		r.reviewEnded(t, e.Outcome)
		return
	}
	switch e.Outcome {
	case OutOfQuota, Fault, Refused, Clean: // nobody's attempt
		if purpose == Work {
			r.Attempts--
		}
	}
	switch e.Outcome {
	case Finished, Clean:
		t.Cuts, t.Look, t.Kept = 0, false, true
		r.move(t, Made, -1)
	case Shown:
		t.Look, t.Unchanged = false, true
		r.move(t, Done, -1)
	case Unchanged:
		t.Cuts = 0
		if t.Look = purpose == Work && !t.isOurs(); t.Look { // a CHECK that fails, commits that clash: nothing shows that these are done
			r.retry(t)
		} else {
			r.failAttempt(t, e.Signature, true)
		}
	case Crashed, TimedOut, Nothing, Unstorable:
		t.Look = false
		r.failAttempt(t, e.Signature, e.Outcome == Crashed || e.Outcome == Nothing)
	case OutOfQuota, Fault, Refused:
		r.retry(t)
	case GaveUp, Asks, TooLong:
		t.Look, t.Asks = false, e.Outcome == Asks
		r.move(t, Blocked, -1)
	default:
		r.interrupt(t)
	}
}

// reviewEnded: what is approved goes back to the trunk's queue, first in it; where the tip is still the one that it
// passed on, it is merged without another check. One place merges, so nothing moves the tip under a check.
func (r *Run) reviewEnded(t *Task, o Outcome) {
	switch o {
	case Approved:
		t.Reviewed, t.Cuts = true, 0
		r.move(t, Made, -1)
	case Rejected:
		r.failAttempt(t, "", false)
	case OutOfQuota, Fault, Refused:
		r.move(t, Reviewing, -1)
	default:
		r.interrupt(t)
	}
}

// interrupt: an agent's run was interrupted, which counts for nothing; ten in a row are no accident.
func (r *Run) interrupt(t *Task) {
	t.Cuts++
	switch {
	case t.Cuts >= maxCuts:
		r.move(t, Blocked, -1)
	case t.Stage == Reviewing:
		r.move(t, Reviewing, -1)
	default:
		r.retry(t)
	}
}

// failAttempt counts an attempt. Without a signature it says nothing about the machine, and ends the breaker's row.
func (r *Run) failAttempt(t *Task, signature string, byAgent bool) {
	r.Breaker.Failed(t.ID, signature, byAgent, r.Settings.Breaker)
	t.Cuts = 0
	if t.Spent++; byAgent {
		t.Crashed++
	}
	r.retry(t)
}

// retry gives a task its next turn, if it has one left.
func (r *Run) retry(t *Task) {
	if t.Again = true; r.isSpent(t) {
		r.move(t, Blocked, -1)
		return
	}
	r.move(t, Pending, -1)
}

// isSpent reports whether a task has used up what it may.
func (r *Run) isSpent(t *Task) bool {
	return t.Spent >= r.Limits.Attempts || t.Cuts >= maxCuts || r.moneySpent(t)
}

func (r *Run) moneySpent(t *Task) bool { return r.Limits.TaskUSD > 0 && t.USD >= r.Limits.TaskUSD }

func (r *Run) checkEnded(e CheckEnded) {
	r.Trunk.Busy = ""
	switch {
	case e.Purpose == Baseline && e.Result == Cut:
	case e.Purpose == Baseline:
		if r.Baseline = e.Result; r.Settings.Baseline == "known" {
			r.Known = union(r.Known, e.Known)
		}
	case e.Purpose == Recheck && e.Result == Cut:
	case e.Purpose == Recheck:
		if e.Result == Passed {
			e.Signature = ""
		}
		r.Breaker.rechecked(e.Signature)
	default:
		r.attemptChecked(r.byID[e.Task], e)
	}
}

func (r *Run) attemptChecked(t *Task, e CheckEnded) {
	switch {
	case e.Result == Cut:
		r.move(t, Made, -1)
	case t.Accepted && e.Result != Clashed: // a person's word: what is red is known from now on
		r.Known = union(r.Known, e.Known)
		r.merge(t)
	case e.Result == Passed:
		r.Breaker.Passed()
		if len(t.Review) == 0 || t.Reviewed && !e.Changed {
			r.merge(t)
			return
		}
		t.Reviewed, t.PassedOn = false, len(r.Trunk.Chain)
		if r.moneySpent(t) {
			r.move(t, Blocked, -1)
			return
		}
		r.move(t, Reviewing, -1)
	case e.Result == Failed:
		r.failAttempt(t, e.Signature, false)
		if t.Stage == Blocked {
			r.Breaker.blocked(t.ID, r.Settings.Breaker)
		}
	case e.Result == Clashed:
		t.Clashes = union(t.Clashes, e.Paths)
		if t.Accepted {
			t.Accepted = false
			r.move(t, Blocked, -1)
			return
		}
		r.retry(t)
	}
}

func union(a, b []string) []string {
	a = slices.Clone(a)
	for _, s := range b {
		if !slices.Contains(a, s) {
			a = append(a, s)
		}
	}
	return a
}
