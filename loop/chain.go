package loop

import (
	"fmt"
	"slices"

	"descartes/agent"
	"descartes/internal/oneline"
	"descartes/loop/attempt"
	"descartes/loop/journal"
)

// chained is the task in whose agent's session a task is to go on: its only dependency; ok is false where it is not to.
func (j *Job) chained(id string) (dep string, ok bool) {
	t, known := j.Graph.Task(id)
	if !known || t.Chain == nil && !j.Config.Scud.Chain || t.Chain != nil && !*t.Chain {
		return "", false
	}
	deps := j.Graph.Deps(id)
	if len(deps) != 1 || j.Config.CandidatesOf(t) > 1 { // several cannot go on in one session
		return "", false
	}
	return deps[0], true
}

// chains reports whether any task may go on in another's session.
func (j *Job) chains() bool {
	return j.Config.Scud.Chain || slices.ContainsFunc(j.Graph.Leaves(), func(id string) bool {
		t, _ := j.Graph.Task(id)
		return t.Chain != nil && *t.Chain
	})
}

// goOn has the first attempt at a task go on in the session of its only dependency, where that is asked for and can be. Where it cannot,
// the warning says why a fresh agent works on it; it is nil where nobody expects anything else. A later attempt is a fresh agent's: what
// failed is no ground to build on.
func (w *tagWork) goOn(u *unit, first *journal.Event) (warning *journal.Event) {
	dep, ok := w.job.chained(u.task.ID)
	if !ok || w.history.Begun[u.task.ID] > 0 {
		return nil
	}
	s, known := w.history.Sessions[dep]
	why, name := "", oneline.Text(dep)
	switch {
	case w.tools.Continues == nil || !w.tools.Continues(u.with.Backend):
		if w.without[u.with.Backend] {
			return nil
		}
		w.without[u.with.Backend] = true
		why = u.with.Backend + " cannot go on in a session, so that no task of its does"
	case !known:
		why = "no session of task " + name + " is known: an earlier loop or a person did it, or its client tells none"
	case s.By != "":
		why = fmt.Sprintf("task %s went on in the session of task %s already", oneline.Text(s.By), name)
	case s.Backend != u.with.Backend:
		why = fmt.Sprintf("task %s was done with %s, and this one is with %s", name, s.Backend, u.with.Backend)
	case s.Dir != u.lane.ws.Dir():
		why = fmt.Sprintf("the session of task %s was in another folder, where its client keeps it", name)
	default:
		u.session, first.Tasks, first.Detail.Session = s, []string{dep}, s.ID
		return nil
	}
	e := w.event(journal.Warning, u)
	e.Message = "a fresh agent works on it: " + why
	return e
}

// sameSlot is the ready task that is to go on in a session of a lane's own slot, where no sandbox shows all slots in one place; else the tasks that
// are not for the lane of another slot to go on with at once.
func (w *tagWork) sameSlot(ln *lane, ready []string) (id string, others []string) {
	if !w.chains || w.tools.Shown {
		return "", ready
	}
	for _, id := range ready {
		dep, ok := w.job.chained(id)
		s := w.history.Sessions[dep]
		if !ok || s.By != "" || w.history.Begun[id] > 0 {
			others = append(others, id)
			continue
		}
		at := slices.IndexFunc(w.lanes, func(x *lane) bool { return x.ws.Dir() == s.Dir })
		switch {
		case at >= 0 && w.lanes[at] == ln:
			return id, nil
		case at < 0 || w.lanes[at].task != "" || w.lanes[at].waits || w.lanes[at].spare:
			others = append(others, id)
		}
	}
	return "", others
}

// goOn has an attempt go on in a session, where there is one.
func goOn(in *attempt.Input, s journal.Session) {
	if in.Session = s.ID; s.ID != "" {
		spent := agent.Tokens(s.Spent)
		in.Spent = &spent
	}
}
