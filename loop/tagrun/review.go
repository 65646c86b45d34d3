package tagrun

import (
	"context"

	"descartes/agent"
	"descartes/config"
	"descartes/loop/attempt"
	"descartes/loop/journal"
	"descartes/loop/slot"
	"descartes/scheduler"
	"descartes/specbuild"
)

// review has an agent judge work that passed its checks, in a lane, while the trunk goes on.
func (r *Run) review(a scheduler.Attempt) error {
	m, err := r.madeOf(a.Task)
	if err != nil {
		return err
	}
	by := config.Choice{Backend: a.Account}
	for _, c := range r.ground.config.Reviewers() {
		if c.Backend == a.Account {
			by = c
		}
	}
	c := r.ground.config
	in := m.in
	in.Review = &attempt.Review{Opinion: specbuild.Opinion{Ask: c.Review.Prompt, Tag: r.ground.tag,
		Tasks: []specbuild.Reviewed{r.job.Reviewed(a.Task)}}, Team: c.Review.Team, Among: []attempt.With{attempt.With(by)}}
	if h := r.book.History.Attempt(journal.Key{Task: a.Task, Number: m.unit.Attempt}); h != nil {
		for _, d := range h.Asked {
			if d.Look == journal.LookReview && d.End == journal.EndFinished {
				in.Review.Known = append(in.Review.Known, attempt.Known{Tree: d.Tree, Words: d.Words})
			}
		}
	}
	g, ctx, on, v := &r.ground, r.asks.Now, r.lane(a.Lane), r.voice(m.unit)
	r.start(func() func() error {
		j, err := judge(ctx, g, m, in, on, v)
		return func() error {
			if on.seats != nil {
				m.hosts = append(m.hosts, r.ground.tools.Hosts(on.slot.Number)...)
			}
			return r.reviewed(m, &j, by, err)
		}
	})
	return nil
}

// judgement is what a review came to.
type judgement struct {
	outcome scheduler.Outcome
	usd     float64
	agent   *agent.Result  // the last that was asked; nil: none
	res     attempt.Result // with the objection, if there is one
}

// judge asks the reviewer.
func judge(ctx context.Context, g *ground, m *made, in attempt.Input, on *lane, v voice) (j judgement, err error) {
	if err := on.open(ctx, g); err != nil {
		return j, err
	}
	gctx := context.WithoutCancel(ctx)
	if _, err := on.slot.Prepare(gctx, slot.Start{Base: m.base, Before: m.res.Work.After, Whole: true,
		Named: g.tools.Named}); err != nil {
		return j, err
	}
	asks := *on.runner
	asks.Choose = func(_ context.Context, among []attempt.With) (attempt.With, error) {
		if j.agent != nil && troubled(j.agent) != "" { // another account, or another time, is not ours to choose
			return attempt.With{}, attempt.ErrRunEnds
		}
		return among[0], nil
	}
	j.res, err = asks.Reviewed(ctx, on.slot, in, m.res, func(s *attempt.Step) error {
		if s.Moment == attempt.Consulted {
			j.agent = s.Agent
			j.usd += usd(s.Agent)
		}
		return v.tell(s)
	})
	switch {
	case j.agent != nil && troubled(j.agent) != "":
		j.outcome, err = troubled(j.agent), nil
	case err != nil:
	case j.res.Objection != nil:
		if j.outcome = scheduler.Rejected; j.res.Objection.Ask {
			j.outcome = scheduler.Asks
		}
		err = rekeep(gctx, g, m, &j.res, nil, nil)
	case ctx.Err() != nil:
		j.outcome = scheduler.Cancelled
	default:
		j.outcome = scheduler.Approved
	}
	return j, err
}

// troubled is what an agent's end says that its account is of no use now; "" for any other.
func troubled(r *agent.Result) scheduler.Outcome {
	switch {
	case r.End == agent.Limited:
		return scheduler.OutOfQuota
	case r.End == agent.Refused:
		return scheduler.Refused
	case r.End == agent.Crashed && r.Cause == agent.Transient && r.Signal == 0:
		return scheduler.Fault
	}
	return ""
}

// reviewed takes what a review came to.
func (r *Run) reviewed(m *made, j *judgement, by config.Choice, err error) error {
	id := m.unit.Task
	if err != nil {
		return r.broke(err, scheduler.AttemptEnded{Task: id, Outcome: scheduler.Cancelled})
	}
	e := scheduler.AttemptEnded{Task: id, Outcome: j.outcome, USD: j.usd}
	if j.agent != nil {
		until, err := r.rests(by, j.agent)
		if err != nil {
			return err
		}
		if until != nil {
			e.Until = *until
		}
	}
	if j.outcome == scheduler.Rejected || j.outcome == scheduler.Asks {
		m.res = j.res
		line := finished(&r.ground, m, &j.res)
		line.Detail.Denied = r.denied(m)
		return r.happened(e, line)
	}
	if j.outcome == scheduler.Approved {
		m.res.Looks = j.res.Looks
	}
	return r.happened(e)
}
