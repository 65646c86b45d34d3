package run

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"descartes/agent"
	"descartes/config"
	"descartes/internal/oneline"
	"descartes/loop"
	"descartes/loop/attempt"
	"descartes/loop/gate"
	"descartes/loop/journal"
	"descartes/loop/slot"
	"descartes/scheduler/prompt"
)

// try is the try of an iteration at hand: what it started from, and what became of it so far. A run that was killed
// makes it again from the journal and from the refs.
type try struct {
	prompt.Try
	from  prompt.Try
	plans bool
	ground
	it    *loop.Iteration
	in    attempt.Input
	began time.Time
	since time.Time // when the first try began whose work is in no commit
	hooks string    // the commit whose hooks run, where they lie in the working tree
	res   attempt.Result
	kept  kept
	notes []string // for people, not told yet

	answers []attempt.Known // of reviewers, to what is not judged yet
	// that a person has to answer before another agent is asked, or ""
	question string
}

// kept is where the work of a try is.
type kept struct {
	ref    string // "" for none
	commit string // that it names
	landed string // commit of the branch that has it
	own    bool   // the agent's own commits are the branch's
}

// newTry is a try before anything of it is known.
func (r *Run) newTry(number, from prompt.Try, plans bool) *try {
	t := &try{Try: number, from: from, plans: plans, it: &loop.Iteration{Number: number.Number, Try: number.Try,
		Max: r.job.Config.MaxIterations}}
	t.in = input(&r.job.Config, r.place, r.home, number, config.Choice{})
	if list := r.book.History.Attempts; len(list) > 0 && list[0].Begin != nil {
		t.hooks = list[0].Begin.Commit
	}
	return t
}

// since is when the first try began whose work is in no commit; zero if there is none.
func (r *Run) since(from prompt.Try) (first time.Time) {
	if from == (prompt.Try{}) {
		return first
	}
	for _, a := range slices.Backward(r.book.History.Attempts) {
		if a.Commit != "" {
			break
		}
		first = a.Started
	}
	return first
}

// unit is what lines of the journal say that they are about.
func (t *try) unit() journal.Unit {
	return journal.Unit{Iteration: t.Number, Attempt: t.Try.Try, Of: t.it.Max}
}

// changed reports whether its agent changed something that a commit can have, or that can arrive in the user's tree.
func (t *try) changed() bool { return t.res.Work.After != "" && t.res.Work.After != t.before }

// checkable reports whether the agent left something to check.
func (t *try) checkable() bool { return t.res.Agent.End == agent.Finished && t.res.Work.TookBack == "" }

// keepWork keeps the work of a try as it is now.
func keepWork(ctx context.Context, p *place, t *try, why string, with *aids) error {
	job := with.job
	if p.kind == prompt.Folder {
		return nil
	}
	if err := withoutOurs(ctx, p, job, t); err != nil {
		return err
	}
	if t.res.Work.After == "" || t.res.Work.After == t.base && t.res.Work.Commits == "" && !checkpoints(job) {
		return nil
	}
	b, err := json.Marshal(leftOf(job, t))
	if err != nil {
		return fmt.Errorf("encode what an agent left: %w", err)
	}
	t.kept.ref, t.kept.commit, err = p.keep(ctx, t.Try, &t.ground, &t.res.Work, why, leftTrailer+": "+
		loop.Trailer(with.redact, b))
	return err
}

// checkpoints reports whether the work is of a class that asks for a checkpoint at each step.
func checkpoints(job *loop.PromptJob) bool {
	g, ok := loop.Deciding(job.Gate).(*gate.Criteria)
	return ok && g.Class.Checkpoint()
}

// leftTrailer names, in the message of the commit that keeps a try, what its agent left: a run that is killed before it
// can write that down finds it there.
const leftTrailer = "Descartes-Left"

// left is what an agent left, as the commit that keeps its work has it.
type left struct {
	Machine  prompt.Left
	Detail   *journal.Detail
	TookBack string `json:",omitempty"`
}

func leftOf(job *loop.PromptJob, t *try) left {
	with := config.Choice{Backend: t.in.Backend, Model: t.in.Model}
	return left{Machine: machineLeft(job, t), Detail: agentLine(t, with).Detail, TookBack: t.res.Work.TookBack}
}

// agentLine is the line of an agent's end.
func agentLine(t *try, with config.Choice) *journal.Event {
	e := loop.AgentEnd(&journal.Event{Unit: t.unit()}, t.res.Agent, with, loop.MaxFinal)
	e.Detail.Changed = t.res.Changed
	return e
}

// machineLeft is what a try's agent left in the machine's words, but until when its account has to rest.
func machineLeft(job *loop.PromptJob, t *try) prompt.Left {
	r := &t.res.Agent
	l := prompt.Left{Verdict: verdictOf(r), Changed: t.changed() || t.res.Work.Named.Changed(), Bytes: int(r.Bytes),
		Until: r.Until, Idle: r.Idle, Undid: t.res.Work.TookBack != ""}
	l.Said = prompt.Said{Promise: r.Complete || gate.Promised(r.Final, job.Config.CompletionPromise),
		Signal: attempt.Claims(r), Blocked: r.Blocked != "", Question: r.Question != ""}
	for _, n := range t.it.Facts.Edits {
		l.Edits = max(l.Edits, n)
	}
	switch {
	case l.Verdict != prompt.Passed:
		l.Error = gate.Digest(cmp.Or(r.Reason, string(r.End)))
	case l.Undid:
		l.Error = gate.Digest(t.res.Work.TookBack)
	}
	if r.Cost != nil && r.Cost.USD != nil {
		l.USD = *r.Cost.USD
	}
	return l
}

// verdictOf is how an agent ended, in the machine's words.
func verdictOf(r *agent.Result) prompt.Verdict {
	switch r.End {
	case agent.Finished:
		return prompt.Passed
	case agent.Limited:
		return prompt.Limited
	case agent.Refused:
		return prompt.Refused
	case agent.Cancelled:
		return prompt.Cancelled
	case agent.Crashed:
		if r.Cause == agent.Transient && r.Signal == 0 {
			return prompt.Faulty
		}
		return prompt.Crashed
	}
	return prompt.Failed // out of time
}

// withoutOurs takes out of the work what a criteria loop and its agent write below .loop, and what the try's rules do
// not take, which a ref of its own keeps.
func withoutOurs(ctx context.Context, p *place, job *loop.PromptJob, t *try) error {
	work := &t.res.Work
	_, criteria := loop.Deciding(job.Gate).(*gate.Criteria)
	if work.After == "" {
		return nil
	}
	var out, beside []string
	rest := work.Changed[:0:0]
	for _, c := range work.Changed {
		switch {
		case criteria && loop.OfLoopFile(c.Path):
			out = append(out, c.Path)
		case !job.Rules.Takes(c.Path):
			beside = append(beside, c.Path)
		default:
			rest = append(rest, c)
		}
	}
	if len(out)+len(beside) == 0 {
		return nil
	}
	known := t.it.Beside // it was said when the agent had ended
	if t.it.Beside = known || len(beside) > 0; len(beside) > 0 && !known {
		code := *work
		if _, err := p.repo.Keep(ctx, p.tryRef(t.Try)+"-code", code.After, parentsOf(&t.ground, &code),
			fmt.Sprintf("run %s: iteration %d: what planning wrote", p.id, t.Number)); err != nil {
			return gitErr("keep what planning wrote", err)
		}
		t.notes = append(t.notes, fmt.Sprintf("iteration %d planned, and wrote what is no document (%s): "+
			"that is in no commit, but kept as %s-code", t.Number, oneline.List(beside), p.tryRef(t.Try)))
	}
	var err error
	work.Changed, work.Left = rest, append(work.Left, beside...)
	if work.After, err = p.repo.TreeWith(ctx, work.After, work.Before, append(out, beside...)); err != nil {
		return gitErr("take the work of an iteration", err)
	}
	return nil
}

func parentsOf(g *ground, work *slot.Result) (list []string) {
	for _, hash := range []string{g.tip, work.Commits} {
		if hash != "" {
			list = append(list, hash)
		}
	}
	return list
}
