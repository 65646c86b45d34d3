package tagrun

import (
	"context"
	"slices"
	"strconv"
	"strings"

	"descartes/agent"
	"descartes/config"
	"descartes/internal/oneline"
	"descartes/loop/journal"
	"descartes/loop/receipt"
	"descartes/loop/slot"
	"descartes/loop/source"
	"descartes/loop/store"
	"descartes/loop/trunk"
	"descartes/scheduler"
	"descartes/verify"
)

// What a person accepted is an attempt of its own, which no agent makes: what the kept work changed, on the trunk as it
// is. Its checks run for their facts, and cannot refuse it.

// takeAnswers opens blocked tasks again that a person answered about, and takes work that he accepted, also of an
// earlier run.
func (r *Run) takeAnswers() error {
	blocked := slices.ContainsFunc(r.machine.Tasks, func(t *scheduler.Task) bool { return t.Stage == scheduler.Blocked })
	if !blocked && r.told.said.Path != "" && r.told.said.Same() {
		return nil
	}
	r.told.said = slot.LookAt(r.ground.home.AnswerFile(r.ground.tag))
	answers, err := r.ground.home.Answers(r.book.State.Key())
	if err != nil {
		return r.warnOnce(err.Error())
	}
	r.job.Answers = answers
	var ids []string
	var asks []scheduler.Requested
	for _, t := range r.machine.Tasks {
		q := scheduler.Requested{Request: scheduler.Retry, Task: t.ID}
		a := store.Accepted(answers, t.ID)
		if a != nil {
			kept, err := r.isKept(t.ID, a)
			if err != nil {
				return err
			}
			if kept {
				q.Request, q.Kept = scheduler.Accept, true
			}
		}
		was := r.book.History.Task(t.ID).Blocked
		switch {
		case t.Stage == scheduler.Blocked && was != nil && r.job.Answered(t.ID, was.TS):
			ids = append(ids, t.ID)
		case q.Kept && (t.Stage == scheduler.Blocked && was == nil || t.Stage == scheduler.Pending && !t.Accepted):
		default:
			continue
		}
		asks = append(asks, q)
	}
	if len(ids) > 0 {
		if err := r.book.Write(&journal.Event{Type: journal.LoopResumed, Reason: journal.ReasonAnswered,
			Tasks: ids}); err != nil {
			return err
		}
	}
	for _, q := range asks {
		delete(r.made, q.Task)
		if err := r.happened(q); err != nil {
			return err
		}
	}
	return nil
}

// isKept reports whether the work is there that a person accepted, and says once if it is not.
func (r *Run) isKept(id string, a *store.Accept) (bool, error) {
	ref := store.RefPrefix(a.Loop, id) + strconv.Itoa(a.Attempt)
	commit, err := r.ground.repo.RefCommit(ref)
	if err != nil || commit != "" {
		return commit != "", wrapped("look for accepted work", err)
	}
	return false, r.warnOnce("the accepted work on task " + oneline.Text(id) + " cannot be used: " + ref + " is gone")
}

// acceptedOf is a task's work that a person accepted, before it is brought onto the trunk.
func (r *Run) acceptedOf(id string, a *store.Accept) *made {
	m := &made{task: r.taskOf(id), unit: r.unit(id), takes: r.machine.Task(id).Takes, accepts: a,
		accepted: strings.TrimSuffix("accepted by a person: "+oneline.Text(a.Reason), ": "), began: r.ground.tools.Now()}
	m.ref = store.RefPrefix(r.ID(), id) + strconv.Itoa(m.unit.Attempt)
	m.in = r.input(m, config.Choice{})
	m.res.Agent = agent.Result{End: agent.Finished, Complete: true}
	return m
}

// acceptBegins writes that the attempt begins, once.
func (r *Run) acceptBegins(m *made) error {
	h, id := r.book.History, m.task.ID
	if h.RunningOf(journal.Key{Task: id, Number: m.unit.Attempt}) != nil {
		return nil
	}
	tip := r.now.chain.Links[len(r.now.chain.Links)-1]
	var lines []*journal.Event
	if !h.Task(id).Open() {
		e := &journal.Event{Type: journal.TaskStarted, Unit: m.unit, Base: string(tip.Tree), Commit: tip.Head}
		e.Attempt = 0
		lines = append(lines, e)
	}
	inputs := r.job.Inputs(id)
	inputs.Policy = receipt.PolicyDigest(source.PolicyLines(r.ground.config))
	return r.book.Write(append(lines, &journal.Event{Type: journal.AttemptStarted, Unit: m.unit, Tree: string(tip.Tree),
		Base: string(tip.Tree), Commit: tip.Head, Detail: &journal.Detail{Inputs: &inputs}})...)
}

// take brings what the accepted attempt changed onto the tip. unfit is why that cannot be, with the paths.
func (m *made) take(ctx context.Context, g *ground, now *standing) (unfit string, paths []string, err error) {
	what := "take the accepted work on task " + m.task.ID
	base, work, err := g.home.KeptWork(g.repo, m.accepts.Loop, m.task.ID, m.accepts.Attempt)
	if err != nil {
		return err.Error(), nil, nil
	}
	m.from, m.base = now.chain.Tip, now.chain.Tree
	tree, met, err := g.repo.MergeTrees(ctx, base, m.base, work)
	if err != nil {
		return "", nil, gitErr(what, err)
	}
	if len(met) > 0 {
		clash := trunk.Clash{Conflicts: met}
		return clash.Reason(), clash.Paths(), nil
	}
	w := &m.res.Work
	w.Before, w.Seen, w.After = m.base, tree, tree
	if w.Changed, err = g.repo.Changed(ctx, m.base, tree); err != nil {
		return "", nil, gitErr(what, err)
	}
	m.res.Changed = len(w.Changed)
	k := source.Kept{Loop: g.id, Task: m.task.ID, Attempt: m.unit.Attempt, Verdict: source.Made, Reason: m.accepted}
	m.commit, err = g.repo.Keep(ctx, m.ref, tree, []string{m.from}, g.tools.Redact.Text(k.Message(g.list)))
	return "", nil, wrapped(what, err)
}

// unfit is what a check comes to whose accepted work cannot be used.
func (m *made) unfit(g *ground, why string, paths []string) result {
	res := m.res
	res.Verdict, res.Reason = verify.Blocked, "the accepted work cannot be used: "+why
	end := finished(g, m, &res)
	end.Ref = ""
	return result{event: scheduler.CheckEnded{Purpose: scheduler.OfAttempt, Task: m.task.ID, Result: scheduler.Clashed,
		Paths: paths}, lines: []*journal.Event{end}, why: res.Reason}
}

// acceptsUsed notes that a run has acted on what a person accepted of these tasks: a decision counts once.
func (r *Run) acceptsUsed(ids ...string) error {
	ids = slices.DeleteFunc(ids, func(id string) bool { return store.Accepted(r.job.Answers, id) == nil })
	if len(ids) == 0 {
		return nil
	}
	use := func(list []store.Answer) {
		for i := range list {
			if one := &list[i]; one.Accept != nil && slices.Contains(ids, one.Task) {
				used := *one.Accept
				used.Used, one.Accept = true, &used
			}
		}
	}
	use(r.job.Answers)
	return r.ground.home.EditSaid(context.WithoutCancel(r.asks.Now), r.ground.tools.FS, r.ground.tag,
		func(s *store.Said) bool { use(s.Answers); return true })
}

// inTrunk are the tasks whose work the trunk has.
func (r *Run) inTrunk() (ids []string) {
	for _, t := range r.machine.Tasks {
		if t.Stage == scheduler.Merged || t.Stage == scheduler.Done {
			ids = append(ids, t.ID)
		}
	}
	return ids
}
