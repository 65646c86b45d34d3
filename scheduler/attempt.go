package scheduler

import "slices"

func (r *Run) attemptStarted(e AttemptStarted) {
	t := r.byID[e.Task]
	if e.Purpose == Review {
		r.move(t, Reviewing, e.Lane)
	} else {
		r.move(t, Running, e.Lane)
		t.Number++
		t.Accepted, t.Reviewed, t.On = false, false, Basis{}
		t.From, t.By = len(r.Trunk.Entries), e.Account
	}
	if e.Purpose == Work {
		r.Attempts++
	}
	t.Account, t.Worker, t.Purpose = e.Account, r.workerOf(e.Lane), e.Purpose
}

func (r *Run) attemptEnded(e AttemptEnded) {
	t := r.byID[e.Task]
	if t == nil || t.Lane < 0 { // its lane went before it: it was cut short then
		return
	}
	r.USD, t.USD = r.USD+e.USD, t.USD+e.USD
	t.Kept = t.Kept || e.Kept
	purpose, account := t.Purpose, AccountOn(t.Worker, t.Account)
	switch e.Outcome {
	case OutOfQuota, Fault, Refused, Cancelled, Clean:
	default:
		r.Accounts.Served()
	}
	switch e.Outcome { // what it says of the account, and of the agent
	case OutOfQuota:
		r.Accounts.Exhaust(account, e.Until)
	case Fault:
		r.Accounts.Fault(account, e.Until)
	case Refused:
		r.Accounts.Refuse(account)
	case Finished, Shown, GaveUp, Asks, Approved, Rejected:
		r.Worked = true
		r.Breaker.Worked()
		r.Accounts.Worked(account)
	case Unchanged: // it did nothing
		r.Accounts.Worked(account)
	}
	if purpose == Review {
		r.reviewEnded(t, e.Outcome)
		return
	}
	switch e.Outcome {
	case OutOfQuota, Fault, Refused, Clean: // nobody's attempt
		r.uncount(t)
	}
	switch e.Outcome {
	case Finished, Clean:
		t.Interruptions, t.Look, t.Kept = 0, false, true
		r.move(t, Made, -1)
	case Shown:
		if t.Look = false; r.Settings.Careful {
			t.Shown, t.Asks = true, true
			r.block(t)
			break
		}
		t.Unchanged = true
		r.move(t, Done, -1)
	case Unchanged:
		t.Interruptions = 0
		// a CHECK that fails, commits that clash: nothing shows that these are done
		if t.Look = purpose == Work && !t.isOurs(); t.Look {
			r.retryOrBlock(t)
		} else {
			r.failAttempt(t, e.Signature, true)
		}
	case Crashed, TimedOut, Nothing, Unstorable:
		t.Look = false
		r.failAttempt(t, e.Signature, e.Outcome == Crashed || e.Outcome == Nothing)
	case OutOfQuota, Fault, Refused:
		r.retryOrBlock(t)
	case Mute:
		if t.Look = false; r.RepeatsMute(t.ID) {
			r.failAttempt(t, e.Signature, true) // once more before a person is asked
			break
		}
		t.Asks = true
		r.block(t)
	case GaveUp, Asks, TooLong:
		t.Look, t.Asks = false, e.Outcome == Asks
		if e.Signature != "" { // what every agent asks is no task's
			r.Breaker.Failed(t.ID, e.Signature, false, r.Settings.Breaker)
		}
		r.block(t)
	default:
		r.interrupt(t)
	}
}

// RepeatsMute reports whether a task whose agent asks, and used no tool, is tried once more before a person is asked:
// its prompt may never have come to it.
func (r *Run) RepeatsMute(id string) bool {
	t := r.byID[id]
	return t.Purpose == Work && t.Spent == 0 && r.Limits.Attempts > 1 && !r.moneySpent(t)
}

// reviewEnded: what is approved goes back to the trunk's queue, first in it; where the tip is still the one that it
// passed on, it is merged without another check. One place merges, so nothing moves the tip under a check.
func (r *Run) reviewEnded(t *Task, o Outcome) {
	switch o {
	case Approved:
		t.Reviewed, t.Interruptions = true, 0
		r.move(t, Made, -1)
	case Rejected:
		r.failAttempt(t, "", false)
	case Asks:
		t.Asks = true
		r.block(t)
	case OutOfQuota, Fault, Refused:
		r.review(t)
	default:
		r.interrupt(t)
	}
}

// interrupt: an agent's run was interrupted, which counts for nothing; ten in a row are no accident.
func (r *Run) interrupt(t *Task) {
	if t.Stage == Running {
		r.uncount(t)
	}
	t.Interruptions++
	switch {
	case t.Interruptions >= maxInterruptions:
		r.block(t)
	case t.Stage == Reviewing:
		r.review(t)
	default:
		r.retryOrBlock(t)
	}
}

// uncount takes an agent's run back out of the total, which it counts for nothing.
func (r *Run) uncount(t *Task) {
	if t.Purpose == Work {
		r.Attempts--
	}
}

// failAttempt counts an attempt. Without a signature it says nothing about the machine, and ends the breaker's row.
func (r *Run) failAttempt(t *Task, signature string, byAgent bool) {
	r.Breaker.Failed(t.ID, signature, byAgent, r.Settings.Breaker)
	t.Interruptions = 0
	if t.Spent++; byAgent {
		t.Crashed++
	}
	r.retryOrBlock(t)
}

// retryOrBlock gives a task its next turn, if it has one left.
func (r *Run) retryOrBlock(t *Task) {
	if t.Again = true; r.isSpent(t) {
		r.block(t)
		return
	}
	r.move(t, Pending, -1)
}

// isSpent reports whether a task has used up what it may.
func (r *Run) isSpent(t *Task) bool {
	return t.Spent >= r.Limits.Attempts || t.Interruptions >= maxInterruptions || r.moneySpent(t)
}

func (r *Run) moneySpent(t *Task) bool { return r.Limits.TaskUSD > 0 && t.USD >= r.Limits.TaskUSD }

// union is a, and what b has besides.
func union(a, b []string) []string {
	has := set(a)
	a = slices.Clone(a)
	for _, s := range b {
		if !has[s] {
			has[s], a = true, append(a, s)
		}
	}
	return a
}
