package run

import (
	"context"
	"errors"
	"fmt"

	"descartes/agent"
	"descartes/config"
	"descartes/loop"
	"descartes/loop/attempt"
	"descartes/loop/gate"
	"descartes/loop/store"
	"descartes/scheduler/prompt"
	"descartes/specbuild"
)

// review has another agent judge a try that passed its checks.
func (r *Run) review(account string) error {
	if err := r.happened(prompt.ReviewStarted{Account: account}); err != nil {
		return err
	}
	t, p, with, ctx := r.at, r.place, r.aids(), r.asks.Now
	by := reviewer(&r.job.Config, account)
	r.start(func() func() error {
		j, err := judge(ctx, p, t, by, with)
		return func() error {
			if err := errors.Join(r.notes(), r.broke(err)); err != nil || r.machine.Halt.Broken != "" {
				return err
			}
			return r.judged(t, by, &j)
		}
	})
	return nil
}

// reviewer is what an account reviews with.
func reviewer(c *config.Config, account string) config.Choice {
	for _, one := range c.Reviewers() {
		if one.Backend == account {
			return one
		}
	}
	return config.Choice{Backend: account}
}

// judgement is what a review came to.
type judgement struct {
	prompt.Opinion
	agent *agent.Result // the last that was asked; nil: none
	loop.Failure
	notes []string
}

// judged takes what a review came to.
func (r *Run) judged(t *try, by config.Choice, j *judgement) error {
	if err := r.book.Write(r.warnings(t, j.notes)...); err != nil {
		return err
	}
	if j.agent != nil {
		until, err := r.rests(by, j.agent)
		if err != nil {
			return err
		}
		if until != nil {
			j.Until = *until
		}
	}
	r.voice.facts, r.voice.unfit = t.it.Facts, t.it.Unfit
	r.ends.failure = j.Failure
	t.question, r.ends.asker = asksPerson(t, r.book.History.Prompt.Asked), ""
	if o := t.res.Objection; o != nil {
		r.ends.asker = o.By
	}
	if err := r.happened(prompt.Reviewed{Opinion: j.Opinion}); err != nil {
		return err
	}
	return r.settled()
}

// opinion is what another agent is asked about a try: in plan and build of each that changed something, in a prompt
// loop when the agent says that everything is done, then of all the run's work.
func opinion(job *loop.PromptJob, t *try, by config.Choice) *attempt.Review {
	c := &job.Config
	r := &attempt.Review{Opinion: specbuild.Opinion{Ask: c.Review.Prompt}, Team: c.Review.Team, Known: t.answers,
		Among: []attempt.With{attempt.With(by)}}
	if r.Claims = job.Kind == store.KindPrompt; !r.Claims {
		r.From = t.base
	}
	what := specbuild.Reviewed{Name: fmt.Sprintf("Iteration %d", t.Number), Text: t.in.Prompt}
	_, criteria := loop.Deciding(job.Gate).(*gate.Criteria)
	for _, k := range c.Criteria {
		if k.Command == "" && criteria { // commands decide about the others
			what.Criteria = append(what.Criteria, specbuild.Criterion{Text: k.Text})
		}
	}
	r.Opinion.Tasks = []specbuild.Reviewed{what}
	return r
}

// judge asks the reviewer. An objection is as if the checks had failed: what only success may claim is taken back.
func judge(ctx context.Context, p *place, t *try, by config.Choice, with *aids) (j judgement, err error) {
	gctx, done := attempt.Linger(ctx)
	defer done()
	if p.holds != t.Try {
		if _, err := p.ws.Prepare(gctx, t.start(p)); err != nil {
			return j, err
		}
		p.holds = t.Try
	}
	in := p.input(t.in)
	in.Review = opinion(with.job, t, by)
	asked := *p.runner
	asked.Choose = func(_ context.Context, among []attempt.With) (attempt.With, error) {
		if j.agent != nil && troubled(j.agent) { // another account, or another time, is not ours to choose
			return attempt.With{}, attempt.ErrRunEnds
		}
		return among[0], nil
	}
	res, err := asked.Reviewed(ctx, p.ws, in, t.res, func(s *attempt.Step) error {
		if s.Moment == attempt.Consulted {
			j.heard(t, s)
		}
		return with.tell(s)
	})
	if err != nil {
		return j, err
	}
	switch {
	case j.agent != nil && troubled(j.agent):
		j.Verdict = verdictOf(j.agent)
		return j, nil
	case ctx.Err() != nil && res.Objection == nil:
		j.Verdict = prompt.Cancelled
		return j, nil
	}
	j.Verdict, t.res, t.answers = prompt.Passed, res, nil
	if res.Objection == nil {
		return j, nil
	}
	j.Verdict, j.Asks = prompt.Failed, res.Objection.Ask
	if err := facts(with.job, t, with.usd); err != nil {
		return j, err
	}
	j.Failure = with.job.Rules.Fails(t.it)
	before := t.res.Work.After
	if j.notes, err = takeBack(gctx, p, with.job, t); err == nil && t.res.Work.After != before {
		err = keepWork(gctx, p, t, "reviewed", with)
	}
	return j, err
}

// heard takes an answer of a reviewer: it was paid for, and is not asked for again.
func (j *judgement) heard(t *try, s *attempt.Step) {
	if j.agent = s.Agent; s.Agent.End == agent.Finished {
		t.answers = append(t.answers, attempt.Known{Tree: string(s.Tree), Words: s.Agent.Final})
	}
	if c := s.Agent.Cost; c != nil && c.USD != nil {
		j.USD += *c.USD
	}
}

// troubled reports whether an agent's end says nothing but that its account is of no use now.
func troubled(r *agent.Result) bool {
	switch verdictOf(r) {
	case prompt.Limited, prompt.Faulty, prompt.Refused:
		return true
	}
	return false
}
