package loop

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"descartes/agent"
	"descartes/config"
	"descartes/gitops"
	"descartes/internal/oneline"
	"descartes/loop/attempt"
	"descartes/loop/journal"
	"descartes/loop/receipt"
	"descartes/loop/source"
	"descartes/loop/store"
	"descartes/loop/trunk"
	"descartes/specbuild"
	"descartes/tasks"
	"descartes/verify"
)

// taskWork makes the attempts at tasks, and decides what follows from them.
type taskWork struct {
	run   *Loop
	tag   *tagWork
	kept  []gitops.Ref // kept attempts of this loop and others, as of the run's start
	folds []*unit      // those that are to be integrated next
}

// unit returns the next attempt at a task; nil if something else came of it.
func (w *taskWork) unit(ln *lane, id string) (*unit, error) {
	t, ok := w.run.job.Graph.Task(id)
	if !ok {
		return nil, fmt.Errorf("task %s vanished from the graph", id)
	}
	w.tag.queue.again = slices.DeleteFunc(w.tag.queue.again, func(other string) bool { return other == id })
	switch r := w.tag.rounds.all[id]; {
	case r != nil:
		return w.tag.rounds.candidate(r, ln, t), nil
	case w.accepted(id) != nil:
		return w.accept(ln, t, *w.accepted(id)), nil
	}
	if w.run.history.Task(id).Open() {
		if done, err := w.finishTask(w.underway(ln, t, w.run.history.Task(id).Attempts, 0)); done || err != nil {
			return nil, err
		}
	}
	if w.run.config.CandidatesOf(t) > 1 {
		return w.tag.rounds.candidate(w.tag.rounds.newRound(ln, t), ln, t), nil
	}
	return w.alone(ln, t), nil
}

// alone returns the next attempt at a task without candidates.
func (w *taskWork) alone(ln *lane, t *tasks.Task) *unit {
	id, h := t.ID, w.run.history
	u := &unit{lane: ln, task: t, number: h.Task(id).Attempts + 1,
		of: w.run.config.LastAttempt(t, h.Task(id).Attempts, h.Task(id).Counted), since: h.Task(id).Started}
	u.log = w.run.home.Log(w.run.state.ID, id, u.number)
	if w.started(u) {
		u.base, u.before = gitops.Tree(h.Task(id).Base), gitops.Tree(h.Task(id).Tree)
	} else {
		u.base = w.run.holds() // before the task's first attempt
	}
	if u.before == "" || h.Task(id).Counted == 0 {
		u.before = u.base
	}
	u.marked = h.Task(id).Clashes
	if f := h.Task(id).Failure; f.Unfit {
		u.from = func(u *unit) error { return w.merge(u, f) }
	}
	return u
}

// spec is a unit's text, built from task, plan and the last failure.
func (w *taskWork) spec(u *unit) (spec specbuild.Spec, err error) {
	if r := u.round; r != nil && r.spec != nil {
		return *r.spec, nil
	} else if r != nil {
		defer func() { r.spec = &spec }()
	}
	r := source.NextAttempt(w.run.history, u.task.ID)
	if r.Attempt, r.Of = u.number, u.of; u.round != nil {
		r.Attempt = u.round.first
	}
	r.AddEarlier(w.kept, w.run.list, w.run.state.ID)
	return w.run.job.Spec(r)
}

// started reports whether a unit's task has begun and is neither done nor blocked.
func (w *taskWork) started(u *unit) bool { return w.run.history.Task(u.task.ID).Open() }

// begin lets a unit begin if its round still wants it, and nobody took its task off the list meanwhile. The first
// attempt at a task starts from what was integrated while its slot was prepared: checks are compared with what is
// known now.
func (w *tagWork) begin(u *unit, moves bool) (spec specbuild.Spec, events []*journal.Event, _ *Outcome, err error) {
	now, begun := w.run.holds(), w.task.started(u)
	switch {
	case u.round.over() || !begun && !w.run.job.Graph.Ready(u.task.ID):
		return spec, nil, nil, nil
	case moves && !begun && u.round == nil && u.from == nil && u.base != now:
		u.base, u.before, u.moved = now, now, true
		return spec, nil, nil, nil
	}
	inputs := w.run.job.Inputs(u.task.ID)
	inputs.Policy = receipt.PolicyDigest(source.PolicyLines(w.run.config))
	if u.made == nil {
		if spec, err = w.task.spec(u); err != nil {
			return spec, nil, nil, err
		}
	}
	if !u.accepts { // no agent was given one
		inputs.Spec = receipt.Digest([]byte(spec.Text))
	}
	if !begun {
		e := w.run.event(journal.TaskStarted, u)
		e.Attempt, e.Base, e.Commit = 0, string(u.base), u.stand.Head.Hash
		events = append(events, e)
	}
	first := w.run.worker.starts(journal.AttemptStarted, u, &spec)
	if first.Tree, first.Detail.Inputs, u.after = string(u.before), &inputs,
		w.task.after; w.run.history.Task(u.task.ID).Failure.Unfit {
		first.Base = string(u.base)
	}
	return spec, append(events, first), nil, nil
}

func (w *tagWork) input(u *unit, in *attempt.Input) {
	in.Name, in.Checks = fmt.Sprintf("%s %d", u.task.ID, u.number),
		w.run.checks.commands(w.run.checks.at(verify.AtAttempt), u.task.ID, w.task.fewer([]string{u.task.ID}))
	in.Checks = append(in.Checks, ownCheck(u.task)...)
	in.Guard.Allow, in.Guard.Title, in.Guard.Yes = u.task.Allow, u.task.Title, w.run.job.Allowed(u.task.ID)
	in.Better = w.run.config.Require == "verified"
	in.Again = u.number == 1 && u.of > 1 && u.round == nil
	in.Needs = w.run.job.Needs(u.task.ID)
	if list := w.run.history.Attempts; len(list) > 0 {
		in.First = gitops.Tree(list[0].Before)
	}
	w.reviews.ask(u, in)
	in.Env = append(in.Env, "DESCARTES_TAG="+w.run.state.Tag, "DESCARTES_TASK_ID="+u.task.ID,
		"SCUD_TASK_ID="+u.task.ID,
		"DESCARTES_WAVE="+strconv.Itoa(w.run.waveOf(u.task.ID)),
		"DESCARTES_ITERATION="+strconv.Itoa(w.run.history.Iteration))
}

// fewer reports whether a person lets one of these units reduce the number of tests.
func (w *taskWork) fewer(units []string) bool {
	return slices.ContainsFunc(units, func(id string) bool {
		t, ok := w.run.job.Graph.Task(id)
		return ok && (slices.Contains(t.Allow, "tests") || len(w.run.job.Allowed(id)) > 0)
	})
}

// closes reports whether a wave has nothing left to do once these units are done.
func (w *taskWork) closes(units []string) bool {
	waves := w.run.job.Graph.Waves()
	return slices.ContainsFunc(units, func(id string) bool {
		if _, ok := w.run.job.Graph.Task(id); !ok {
			return false
		}
		return w.tag.queue.closed(waves[w.run.waveOf(id)-1], units...)
	})
}

// conclude reaches a verdict, records it and acts on it. A failed task gets another attempt if it has one left, at
// once or after the first ones of other tasks.
func (w *tagWork) conclude(u *unit) (*Outcome, error) {
	switch {
	case u.idle():
		u.leave()
		return w.dropped(u, u.over), u.err
	case u.merges:
		return nil, w.task.integrate(u)
	case u.round != nil:
		return w.rounds.conclude(u)
	}
	out, again, err := w.task.verdict(u)
	if u.res.Verdict == verify.Verified && err == nil && out == nil {
		return nil, nil // its lane is taken until it is integrated
	}
	if again && err == nil {
		err = w.queue.comesAgain(u)
	}
	u.lane.busy = false
	if out = w.dropped(u, out); out != nil || err != nil || again {
		return out, err
	}
	return nil, w.breaker.recheck(u)
}

// comesAgain says when a task has its next attempt: next, but those that met at the same files come one after the
// other.
func (w *queue) comesAgain(u *unit) error {
	if gone, err := w.tag.list.wished(u.task.ID); gone || err != nil {
		return err
	}
	switch id := u.task.ID; {
	case len(w.run.history.Task(id).Failure.Clash) > 0:
	case w.tag.breaker.idles():
		w.putOff = append(w.putOff, id)
	default:
		w.again = append(w.again, id)
	}
	return nil
}

// verdict records a unit's verdict and acts on it: verified work is to be integrated. again says that the task gets
// another attempt.
func (w *taskWork) verdict(u *unit) (out *Outcome, again bool, err error) {
	res, id := &u.res, u.task.ID
	end, over, err := w.endOf(u)
	if err != nil {
		return nil, false, err
	}
	if u.accepts {
		defer func() { err = errors.Join(err, w.acceptUsed(id)) }()
	}
	if res.Verdict == verify.Verified {
		return nil, false, w.integrate(u, end)
	}
	if err := w.run.record(end); err != nil {
		return nil, false, err
	}
	if over == nil {
		over = u.over
	}
	if res.Verdict == verify.Cancelled {
		given, err := w.givesUp(u)
		// the machine or the slot that it ran in, not the run
		switch gone := w.run.tools.Away != nil || res.Work.Removed; {
		case over != nil || err != nil:
			return over, false, err
		case gone && w.run.stop.asked() == nil:
			return nil, !given, nil
		}
		return w.run.stop.outcome(), false, nil
	}
	if err := w.noteMissing(u); err != nil {
		return nil, false, err
	}
	if res.Agent.End != agent.Refused { // that is nobody's fault, and the run's end
		if given, err := w.givesUp(u); given || err != nil {
			return nil, false, err
		}
	}
	out, err = w.run.backoff.over(w.run.config.Choices(u.task), w.run.worker.teller(u))
	return out, true, err
}

// after keeps what an attempt left, and measures it.
func (w *taskWork) after(u *unit) (err error) {
	ctx, done := attempt.Linger(w.run.ctx)
	defer done()
	if err := w.judgeMarks(u); err != nil {
		return err
	}
	if u.ref, err = w.keep(ctx, u, nil); err != nil {
		return err
	}
	res := &u.res
	switch {
	case res.Verdict != verify.Verified && len(res.Work.Changed) > 0:
		if u.stat, err = w.run.tools.Repo.DiffStat(ctx, u.before, res.Work.After); err != nil {
			return gitErr("compare the work on task "+u.task.ID, err)
		}
	case res.Verdict == verify.Verified && u.round != nil && w.run.config.Pick == config.PickSmallest:
		if u.size, err = w.run.tools.Repo.DiffSize(ctx, u.base, res.Work.After); err != nil {
			return gitErr("measure the work on task "+u.task.ID, err)
		}
	}
	return nil
}

// noteMissing warns if a failure looks as if a variable was withheld.
func (w *taskWork) noteMissing(u *unit) error {
	if note := w.run.tools.Withheld.Missed(w.run.worker.missing, u.res.Agent, u.res.Verify); note != "" {
		return w.run.warn(u, note)
	}
	return nil
}

// endOf returns the event of a unit's end. An outcome ends the run.
func (w *taskWork) endOf(u *unit) (end *journal.Event, over *Outcome, err error) {
	res := &u.res
	end = w.run.worker.ends(u)
	d := end.Detail
	d.Alone, d.Beside, d.Hidden, d.Claimed = res.Work.Alone, res.Work.Beside, res.Work.Hidden, res.Agent.Complete
	d.Model = w.run.history.RunningOf(journal.Key{Task: u.task.ID, Number: u.number}).Ran()
	if !res.Paced {
		if end.Detail.Until, err = w.run.backoff.after(u.with, res.Agent, res.Reason,
			w.run.worker.teller(u)); err != nil {
			return nil, nil, err
		}
	}
	switch res.Verdict {
	case verify.Failed, verify.Crashed, verify.TimedOut: // not the agent's fault if the disk is full
		if why := w.run.lanes.noRoom(); why != "" {
			over = &Outcome{Ending: journal.DiskFull, Message: why}
			res.Verdict, res.Reason = verify.Cancelled, "the disk is full ("+res.Reason+")"
		}
	}
	end.Verdict, end.Reason = journal.Verdict(res.Verdict), res.Reason
	if res.Verdict == verify.Verified {
		end.Detail.Grade, end.Detail.Proof = journal.Grade(res.Grade), res.Proof
		end.Message, end.Detail.Words = Delivered(res.Work.Changed), store.Preview(res.Agent.Final)
		return end, over, nil
	}
	w.describe(u, end)
	return end, over, nil
}

// integrate has a verified result folded into the state that later attempts start from, after its end is recorded. Its
// lane is taken until then.
func (w *taskWork) integrate(u *unit, end ...*journal.Event) error {
	if len(end) > 0 {
		if err := w.run.record(end...); err != nil {
			return err
		}
	}
	if w.tag.queue.at(u.task.ID) == nil {
		w.tag.queue.under = append(w.tag.queue.under, u)
	}
	// a ref keeps its work, and one lane is enough to check all that wait
	if w.folds = append(w.folds, u); len(w.folds) > 1 && !w.tag.waves.perTask() {
		u.leave()
	} else {
		u.lane.busy = true
	}
	var batch []*unit
	var fates []trunk.Fate
	w.run.jobs = append(w.run.jobs, job{begin: func() func() error { // all that wait for it, together
		n := len(w.folds)
		if w.tag.waves.perTask() {
			n = min(1, n)
		}
		if batch, w.folds = w.folds[:n:n], w.folds[n:]; len(batch) == 0 {
			return nil
		}
		w.run.trunk.closes, w.run.trunk.fewer, w.run.trunk.task = w.closes, w.fewer, w.run.job.Graph.Task
		list := make([]trunk.Candidate, len(batch))
		for i, u := range batch {
			id := oneline.Text(u.task.ID)
			from := w.run.trunk.At(u.base).Hash
			list[i] = trunk.Candidate{Unit: id, Subject: "task " + id + ": " + oneline.Text(u.task.Title), From: from,
				Commit: from, Tree: u.res.Work.After, Suspect: w.run.trunk.proofs.suspect(id)}
		}
		return func() (err error) {
			fates, err = w.foldIn(batch, list)
			return err
		}
	}, then: func(err error) (out *Outcome, _ error) {
		for i, u := range batch {
			if u.lane != nil {
				u.lane.busy = false
			}
			if w.tag.queue.leaves(u); i < len(fates) {
				err = errors.Join(err, w.folded(u, &fates[i]))
			}
			if err == nil && w.tag.waves.perTask() && len(w.run.trunk.Units) > 0 {
				w.tag.waves.commitIn(batch[0].lane, w.run.job.Graph.Waves()[w.run.waveOf(u.task.ID)-1])
			}
		}
		return nil, err
	}})
	return nil
}

// foldIn folds verified results in, and keeps what could not be. It is slow.
func (w *taskWork) foldIn(batch []*unit, list []trunk.Candidate) (fates []trunk.Fate, err error) {
	for i, u := range batch {
		if u.ref == "" {
			continue
		}
		if list[i].Commit, err = w.run.tools.Repo.RefCommit(u.ref); err == nil && list[i].Commit == "" {
			err = &gitops.RefusedError{Reason: u.ref + ", which keeps the verified work, is gone",
				Hint: "git fetch it from where it is, or start a new run"}
		}
		if err != nil {
			return nil, gitErr("take in the work on task "+u.task.ID, err)
		}
	}
	fates, err = w.run.trunk.fold(w.run.ctx, batch[0].lane, list)
	for i := range fates {
		if u := batch[i]; fates[i].Accepted() {
			err = errors.Join(err, w.run.worker.bringNamed(w.run.ctx, u))
		} else if _, kerr := w.keep(w.run.ctx, u, &fates[i]); kerr != nil {
			return fates[:i], errors.Join(err, kerr)
		}
	}
	return fates, err
}

// folded records what became of a verified result.
func (w *taskWork) folded(u *unit, fate *trunk.Fate) error {
	if !fate.Accepted() {
		if err := w.unfit(u, fate); err != nil {
			return err
		}
		if given, err := w.givesUp(u); given || err != nil {
			return err
		}
		return w.tag.queue.comesAgain(u)
	}
	done := w.run.event(journal.TaskDone, u)
	done.Ref, done.Reason = u.ref, u.res.Remarks()
	if u.res.Grade == verify.Accepted {
		done.Reason = u.res.Reason
	}
	if u.res.Grade != "" {
		done.Detail = &journal.Detail{Grade: journal.Grade(u.res.Grade)}
	}
	e := w.run.event(journal.Integrated, u)
	e.Tree, e.Commit = string(w.run.trunk.Tree), w.run.trunk.Tip
	return w.run.record(e, done)
}

// unfit records that a unit's verified work could not be integrated, or was taken out again.
func (w *taskWork) unfit(u *unit, fate *trunk.Fate) error {
	u.res.Verdict, u.res.Reason = verify.Failed, fate.Reason()
	e := w.run.event(journal.Integrated, u)
	e.Tree, e.Commit = string(w.run.trunk.Tree), w.run.trunk.Tip
	e.Verdict, e.Reason, e.Paths, e.Detail = journal.Failed, u.res.Reason, fate.Paths(),
		&journal.Detail{Checked: journal.Checked{Output: Tail(fate.Detail(), MaxWords)}}
	return w.run.record(e)
}

// keep stores the attempt as a commit of its own, so that nothing an agent wrote or asked is lost, in other clones
// neither. ref is "" if the attempt changed and committed nothing. fate is what happened to a verified attempt that
// could not be integrated; else nil.
func (w *taskWork) keep(ctx context.Context, u *unit, fate *trunk.Fate) (ref string, err error) {
	work := &u.res.Work
	same := work.After == u.base && work.Commits == ""
	if work.After == "" || same && slices.Contains([]verify.Verdict{verify.Verified, verify.Cancelled, verify.Limited},
		u.res.Verdict) {
		return "", nil
	}
	var parents []string
	from := ""
	w.run.say(func() { from = w.run.trunk.At(u.base).Hash })
	for _, p := range []string{from, work.Commits} {
		if p != "" && !slices.Contains(parents, p) {
			parents = append(parents, p)
		}
	}
	k := source.Kept{Loop: w.run.state.ID, Task: u.task.ID, Attempt: u.number, Verdict: string(u.res.Verdict),
		Reason: u.res.Reason, Same: same}
	switch {
	case u.res.Verdict != verify.Verified:
		k.Output = Output(&u.res)
	case u.res.Grade == verify.Accepted:
		k.Verdict = string(verify.Accepted)
	}
	if fate != nil {
		k.Unfit, k.Reason, k.Output = true, journal.NotIntegrated+fate.Reason(), fate.Detail()
	}
	ref = store.RefPrefix(w.run.state.ID, u.task.ID) + strconv.Itoa(u.number)
	if _, err := w.run.tools.Repo.Keep(ctx, ref, work.After, parents,
		w.run.tools.Redact.Text(k.Message(w.run.list))); err != nil {
		return "", gitErr("keep the work on task "+u.task.ID, err)
	}
	if same {
		ref = ""
	}
	return ref, nil
}

// Delivered says in one line what a task changed, for the specs of those that depend on it.
func Delivered(changed []gitops.Change) string {
	if len(changed) == 0 {
		return ""
	}
	names := make([]string, 0, 8)
	for _, c := range changed[:min(8, len(changed))] {
		names = append(names, string(rune(c.Op))+" "+c.Path)
	}
	s := strings.Join(names, ", ")
	if n := len(changed) - len(names); n > 0 {
		s += fmt.Sprintf(" and %d more", n)
	}
	return s
}

// describe adds to a failed attempt's event what the next attempt learns.
func (w *taskWork) describe(u *unit, end *journal.Event) {
	res := &u.res
	end.Detail.Words, end.Detail.Question = Tail(res.Agent.Final, MaxWords), Tail(question(res), MaxWords)
	u.denied = w.run.tools.Denied(w.run.config, w.run.root, w.run.job.File, u.log)
	end.Detail.Denied, end.Message = u.denied, u.stat
	if end.Detail.Output = Output(res); res.Verify != nil {
		end.Detail.Code, end.Detail.TimedOut = res.Verify.Code, res.Verify.TimedOut
	}
}

// Output is what an attempt failed with: the end of the failed verify command's output, or the look's objection. What
// a check printed that passed is no failure.
func Output(res *attempt.Result) string {
	switch {
	case res.Objection != nil && res.Objection.Ask:
		return ""
	case res.Objection != nil:
		return Tail(res.Objection.Detail, MaxWords)
	case res.Verify != nil && !res.Verify.Passed:
		return res.Verify.Tail
	}
	return ""
}

// question is what an attempt needs answered, asked by its agent or a look.
func question(res *attempt.Result) string {
	if o := res.Objection; o != nil && o.Ask {
		return o.Question()
	}
	return res.Agent.Question
}

// Looked are the looks at an attempt, for the journal.
func Looked(res *attempt.Result) (list []journal.Look) {
	for _, l := range res.Looks {
		kept := journal.Look{Name: l.Name, Objects: l.Objects, Said: l.Said[:min(len(l.Said), maxNotes)],
			Shown: l.Shown[:min(len(l.Shown), maxNotes)], Seconds: l.Took.Seconds()}
		if l.Agent != nil {
			kept.Agent = agentDetail(*l.Agent, Choice(l.With), 0)
		}
		list = append(list, kept)
	}
	return list
}

// costOf sums the costs of all attempts at some tasks.
func (w *waves) costOf(tasks []string) (sum journal.Cost) {
	for _, id := range tasks {
		sum = sum.Plus(w.run.history.Task(id).Cost)
	}
	return sum
}
