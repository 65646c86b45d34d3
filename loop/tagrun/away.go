package tagrun

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"

	"descartes/config"
	"descartes/gitops"
	"descartes/loop"
	"descartes/loop/attempt"
	"descartes/loop/journal"
	"descartes/loop/slot"
	"descartes/loop/store"
	"descartes/scheduler"
	"descartes/verify"
)

// A lane of a fleet is an order that is out: the agent works on another machine, what it left comes back as git objects,
// and is kept, merged and checked here.

// order has another machine run the agent of an attempt, and keeps what it left before anybody hears of its end.
func order(ctx context.Context, g *ground, b *begun, on *lane, v voice,
	announce func(slot.Stand) error) (out ended, err error) {
	if err := on.open(ctx, g); err != nil {
		return out, err
	}
	b.unit.Slot = on.number
	o := loop.Order{Loop: g.id, Tag: g.tag, Task: b.Task, Title: b.task.Title, Wave: b.unit.Wave, Rank: b.task.Priority,
		Try: b.unit.Attempt, Slot: on.number, Again: b.again, Ref: b.reports, Steps: b.steps}
	g.repo.AwaitGC(ctx)
	if b.again {
		o.At = gitops.Head{Hash: b.head}
	} else {
		clean, err := b.ground(ctx, g)
		if err != nil || clean {
			return ended{outcome: scheduler.Clean, kept: true}, err
		}
	}
	o.Start = slot.Start{Before: b.before, Base: b.base, At: b.head, Whole: b.before != b.base,
		Aside: strings.TrimSuffix(b.in.Log, ".log")}
	if !b.again {
		stand, err := on.slot.Aim(ctx, o.Start)
		if err != nil {
			return out, err
		}
		if err := announce(stand); errors.Is(err, errHalted) {
			return ended{outcome: scheduler.Cancelled, verdict: verify.Cancelled, reason: "cancelled"}, nil
		} else if err != nil {
			return out, err
		}
		o.At = stand.Head
	}
	o.Input = b.in
	o.Input.Checks, o.Input.Guard, o.Input.Holdout = nil, nil, nil // they are the check tree's
	if b.res, err = g.tools.Away.Run(ctx, o, v.tellMade); err != nil {
		return out, err
	}
	gctx, done := attempt.Linger(ctx)
	defer done()
	if b.res.Changed = len(b.res.Work.Changed); b.res.Untaken != "" {
		out = ended{outcome: scheduler.Unstorable, verdict: verify.Failed, reason: b.res.Untaken}
	} else if out, err = b.judge(gctx, g); err != nil {
		return out, err
	}
	return out, b.keep(gctx, g, &out)
}

// goOn waits again for an order that a run before this one gave. What it starts from stands in the journal.
func (r *Run) goOn(open *journal.Event) {
	t := r.machine.Task(open.Task)
	b := r.beginning(scheduler.Attempt{Task: open.Task, Lane: t.Lane, Account: t.Account, Purpose: t.Purpose})
	b.unit, b.again, b.began = open.Unit, true, open.TS
	b.base, b.before, b.head = gitops.Tree(cmp.Or(open.Base, open.Tree)), gitops.Tree(open.Tree), open.Commit
	for _, l := range r.now.chain.Links {
		if l.Tree == b.base {
			b.from = l.Hash
		}
	}
	b.made.base, b.ref = b.base, store.RefPrefix(r.ID(), open.Task)+strconv.Itoa(open.Attempt)
	if a := r.book.History.RunningOf(journal.Key{Task: open.Task, Number: open.Attempt}); a != nil {
		b.with, b.reports, b.steps = config.Choice{Backend: a.Backend, Model: a.Model}, a.Reports, a.Steps
	}
	b.in = r.input(&b.made, b.with)
	g, ctx, on, v := &r.ground, r.asks.Now, r.lane(t.Lane), r.voice(b.unit)
	r.start(func() func() error {
		out, err := order(ctx, g, b, on, v, nil)
		return func() error { return r.attemptEnded(b, out, err) }
	})
}

// awayLanes are the lanes in which orders are out, where these are more than there may be by now.
func (r *Run) awayLanes(alive []*journal.Event) {
	for _, open := range alive {
		n := r.machine.Task(open.Task).Lane
		if !slices.ContainsFunc(r.lanes, func(l *lane) bool { return l.number == n }) {
			r.lanes = append(r.lanes, &lane{number: n})
		}
	}
}
