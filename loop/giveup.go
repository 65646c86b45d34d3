package loop

import (
	"cmp"
	"fmt"
	"strings"

	"descartes/loop/journal"
	"descartes/loop/store"
	"descartes/verify"
)

// When a task gets no further attempt.

// mostCutOff is how many attempts of a task in a row may be interrupted: they do not count as attempts, but a task
// that takes the machine down each time has to end somewhere.
const mostCutOff = 10

// givesUp blocks a task that has had its attempts or its money, whose agent says that it cannot be done, or whose
// attempts were interrupted again and again. It reports whether it did; else the task comes again.
func (w *taskWork) givesUp(u *unit) (bool, error) {
	h := w.run.history.Task(u.task.ID)
	f, over := h.Failure, w.overpaid(h.ID)
	switch n := h.Interruptions; {
	case n >= mostCutOff:
		why := fmt.Sprintf("%d attempts in a row were interrupted: %s", n, u.res.Reason)
		u.res.Verdict, u.res.Reason = verify.Failed, strings.TrimSuffix(why, ": ")
	case over != "" && f.Verdict != journal.Blocked:
		why := cmp.Or(u.res.Reason, f.Reason, "none has ended")
		u.res.Verdict, u.res.Reason = verify.Failed, over+"; the last one: "+why
	case f.Verdict == journal.Blocked, f.Verdict != "" && h.Counted >= w.run.config.Scud.MaxIterationsPerTask:
		u.res.Verdict, u.res.Reason = verify.Verdict(f.Verdict), f.Reason
		if f.Result != nil {
			u.res.Agent.Question, u.denied = f.Result.Question, f.Result.Denied
		}
	default:
		return false, nil
	}
	return true, w.block(u)
}

// block gives a task up. Refs keep its work.
func (w *taskWork) block(u *unit) error {
	id := u.task.ID
	if gone, err := w.tag.list.wished(id); gone || err != nil {
		return err
	}
	e := w.run.event(journal.TaskBlocked, u)
	e.Attempt = w.run.history.Task(id).Counted
	e.Verdict, e.Reason, e.Tree = journal.Verdict(u.res.Verdict), u.res.Reason, string(u.base)
	if e.Verdict == journal.Crashed && w.run.history.Task(id).OtherEnds {
		e.Verdict = journal.Failed
	}
	if w.run.history.Task(id).Ref != "" {
		e.Ref = store.RefPrefix(w.run.state.ID, id)
	}
	asked := u.res.Verdict == verify.Blocked && question(&u.res) != ""
	if asked || len(u.denied) > 0 {
		e.Detail = &journal.Detail{Speech: journal.Speech{Denied: u.denied}}
	}
	if asked {
		e.Detail.Question = Tail(question(&u.res), MaxWords)
	}
	return w.run.record(e)
}

// overpaid says that a task has reached its cost limit, or returns "".
func (w *taskWork) overpaid(task string) string {
	most, spent := w.run.config.MaxCostPerTask, w.run.history.Task(task).USD
	if most <= 0 || spent < most {
		return ""
	}
	return fmt.Sprintf("its attempts cost %s, and a task may cost %s", journal.Dollars(spent), journal.Dollars(most))
}
