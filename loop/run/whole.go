package run

import (
	"context"
	"errors"
	"time"

	"descartes/config"
	"descartes/loop"
	"descartes/loop/attempt"
	"descartes/loop/book"
	"descartes/loop/journal"
	"descartes/loop/slot"
	"descartes/scheduler/prompt"
	"descartes/verify"
)

// Checks that look at no try: of the untouched tree before the first iteration, and of the end once all is done.

// baseline checks the untouched tree. Whatever asks the run to stop ends it: it is simply done again.
func (r *Run) baseline() error {
	if err := r.happened(prompt.BaselineStarted{}); err != nil {
		return err
	}
	b := &untouched{place: r.place, aids: r.aids(), withheld: r.tools.Withheld.Verify}
	ctx := r.asks.Ending
	r.start(func() func() error {
		v, out, err := b.check(ctx)
		return func() error {
			if err := errors.Join(r.notes(), r.broke(err)); err != nil || r.machine.Halt.Broken != "" {
				return err
			}
			r.ends.whole = out
			return errors.Join(r.happened(prompt.BaselineEnded{Verdict: v}), r.book.Save())
		}
	})
	return nil
}

// untouched is the tree before the first iteration.
type untouched struct {
	*place
	*aids
	ground
	withheld []string // variables that checks do not get
}

// check runs all checks. An outcome ends the run.
func (u *untouched) check(ctx context.Context) (v prompt.Verdict, out *loop.Outcome, err error) {
	c := &u.job.Config
	if u.ground, err = u.place.prepare(ctx, prompt.Try{}, time.Time{}, u.log()); err != nil {
		return "", nil, err
	}
	known := c.Baseline == config.BaselineKnown
	var standing []*loop.Baseline
	decides, unproven := false, false
	for _, one := range c.ChecksOf(false) {
		if one.At(verify.AtEnd) && !known {
			continue
		}
		b, err := u.first(ctx, one)
		if err != nil {
			return "", nil, err
		}
		if b.Result.Cancelled {
			return prompt.Cancelled, nil, nil
		}
		out, note := b.Outcome(c.Baseline, u.redact)
		if out != nil {
			return prompt.Failed, out, nil
		}
		var notes []string
		if note != "" {
			notes = append(notes, note)
		}
		if c.ProveOf(nil) && !b.Result.Passed && b.Result.Tests == nil && !unproven {
			unproven = true
			notes = append(notes, loop.Unproven(&one))
		}
		if err := u.note(notes...); err != nil {
			return "", nil, err
		}
		if b.Standing(c.Baseline) {
			standing = append(standing, b)
		} else if one.At(verify.AtAttempt) {
			decides = true
		}
	}
	if known && !decides && len(standing) > 0 {
		return prompt.Failed, loop.Blinds(standing, u.redact), nil
	}
	return prompt.Passed, nil, nil
}

// first runs a check in the check tree, and where it fails there also where tries are made: what it passes beside there
// is named.
func (u *untouched) first(ctx context.Context, c verify.Check) (*loop.Baseline, error) {
	at, err := u.judged(ctx, func(line string) error { return u.note(line) })
	if err != nil {
		return nil, err
	}
	b, err := u.try(ctx, at, c)
	if err != nil || b.Result.Cancelled || b.Result.Passed || u.slot == nil {
		return b, err
	}
	if at != &u.seats && !c.At(verify.AtEnd) {
		if b, err = u.beside(ctx, b); err != nil {
			return nil, err
		}
	}
	if !b.Result.Passed && len(b.Beside) == 0 {
		b.Slot = u.number()
		b.Dangling, err = u.slot.Dangling(ctx)
	}
	return b, err
}

// beside runs a check that fails in the check tree where tries are made, if files are there that the check tree lacks.
func (u *untouched) beside(ctx context.Context, b *loop.Baseline) (*loop.Baseline, error) {
	if _, err := u.ws.Prepare(ctx, u.start(&u.ground)); err != nil {
		return nil, err
	}
	beside, err := u.slot.Beside(ctx)
	if err != nil || len(beside) == 0 {
		return b, err
	}
	there, err := u.try(ctx, &u.seats, b.Check)
	if err != nil || !there.Decides(u.job.Config.Baseline) {
		return b, err
	}
	return there.InClone(b, beside, u.job.Config.Pool.Keep)
}

func (u *untouched) log() string { return u.home.NamedLog(u.id, "baseline") }

// try runs a check in a slot.
func (u *untouched) try(ctx context.Context, at *seats, c verify.Check) (*loop.Baseline, error) {
	if _, err := at.ws.Prepare(ctx, u.start(&u.ground)); err != nil {
		return nil, err
	}
	alone := at != &u.seats // the check tree
	if err := u.write(&journal.Event{Type: journal.VerifyStarted,
		Detail: &journal.Detail{Checked: journal.Checked{Baseline: true, Check: c.Name}, Files: journal.Files{Alone: alone},
			Client: journal.Client{Log: book.Relative(u.root, u.log())}}}); err != nil {
		return nil, err
	}
	b, err := loop.TryBaseline(ctx, at.runner.Verify, u.request(u.aids, at, "baseline", u.log()),
		&attempt.Command{Check: c}, u.withheld)
	if err == nil {
		err = u.tidy(ctx, u.aids, at)
	}
	if err != nil {
		return nil, err
	}
	return b, u.write(b.EndLine(u.base, u.job.Config.Baseline, alone))
}

// start is how a check of a tree begins.
func (p *place) start(g *ground) slot.Start {
	return slot.Start{Base: g.base, Before: g.before, At: g.tip, Named: p.named, But: p.ahead}
}

// request is that of a check which looks at no try.
func (p *place) request(with *aids, at *seats, label, log string) verify.Request {
	env := []string{"DESCARTES_LOOP_ID=" + p.id, "DESCARTES_TAG=", "DESCARTES_TASK_ID=", "SCUD_TASK_ID="}
	if at.slot != nil {
		env = append(at.slot.Env(), env...)
	}
	return loop.Timed(&with.job.Config, verify.Request{Label: label, Dir: at.ws.Dir(), Files: at.ws.Files(), Env: env,
		Log: log, Redact: with.redact})
}

// tidy puts back what a check must not change; its other changes go with what the slot is prepared for next.
func (p *place) tidy(ctx context.Context, with *aids, at *seats) error {
	if err := with.tell(&attempt.Step{Moment: attempt.Ended, Who: "verification"}); err != nil {
		return err
	}
	notes, err := at.ws.Repair(context.WithoutCancel(ctx), "verification")
	return errors.Join(err, with.note(notes...))
}

// examine runs a check on a tree in a slot, for a point of the run. A named one is recorded.
func (p *place) examine(ctx context.Context, with *aids, at *seats, g *ground, when verify.When, c *attempt.Command,
	label string) (res verify.Result, err error) {
	log := with.home.NamedLog(p.id, "checks")
	if _, err := at.ws.Prepare(context.WithoutCancel(ctx), p.start(g)); err != nil {
		return res, err
	}
	if c.Name != "" {
		if err := with.write(&journal.Event{Type: journal.VerifyStarted,
			Detail: &journal.Detail{Checked: journal.Checked{At: string(when), Check: c.Name},
				Client: journal.Client{Log: book.Relative(p.root, log)}}}); err != nil {
			return res, err
		}
	}
	res, err = attempt.Check(ctx, at.runner.Verify, p.request(with, at, label, log), c)
	if err == nil {
		err = p.tidy(ctx, with, at)
	}
	if err != nil || c.Name == "" {
		return res, err
	}
	e := &journal.Event{Type: journal.VerifyFinished, Tree: string(g.before), Detail: loop.VerifyDetail(res)}
	e.Detail.At, e.Detail.Command = string(when), c.Run
	if !res.Passed {
		e.Reason, e.Detail.Output = res.Reason(), res.Tail
	}
	return res, with.write(e)
}

// last runs the checks of the end on what is done.
func (r *Run) last() error {
	if err := r.happened(prompt.LastStarted{}); err != nil {
		return err
	}
	c := &r.job.Config
	var list []attempt.Command
	for _, one := range c.ChecksOf(false) {
		if one.At(verify.AtEnd) {
			list = append(list, attempt.Command{Check: one, Bar: loop.Bar(c, r.book.History, "", &one, r.tools.Redact.Text)})
		}
	}
	ctx, p, with := r.asks.Now, r.place, r.aids()
	r.start(func() func() error {
		v, out, err := last(ctx, p, with, list)
		return func() error {
			if err := errors.Join(r.notes(), r.broke(err)); err != nil || r.machine.Halt.Broken != "" {
				return err
			}
			r.ends.whole = out
			return errors.Join(r.happened(prompt.LastEnded{Verdict: v}), r.book.Save())
		}
	})
	return nil
}

func last(ctx context.Context, p *place, with *aids, list []attempt.Command) (v prompt.Verdict, out *loop.Outcome,
	err error) {
	gctx := context.WithoutCancel(ctx)
	g, err := p.prepare(gctx, prompt.Try{}, time.Time{}, with.home.NamedLog(p.id, "checks"))
	if err != nil {
		return "", nil, err
	}
	at, err := p.judged(gctx, func(line string) error { return with.note(line) })
	if err != nil {
		return "", nil, err
	}
	for _, c := range list {
		res, err := p.examine(ctx, with, at, &g, verify.AtEnd, &c, "check "+c.Name)
		switch {
		case err != nil:
			return "", nil, err
		case res.Cancelled:
			return prompt.Cancelled, nil, nil
		case !res.Passed:
			fails := &loop.EndError{Result: res}
			return prompt.Failed, &loop.Outcome{Ending: journal.ChecksFail, Message: fails.Error(), Checks: fails}, nil
		}
	}
	return prompt.Passed, nil, nil
}
