package tagrun

import (
	"context"
	"slices"

	"descartes/loop/attempt"
	"descartes/scheduler"
	"descartes/verify"
)

// checkWave runs checks of a wave, or of the end, on the trunk up to an entry, in a check tree of their own.
func checkWave(ctx context.Context, g *ground, now standing, a scheduler.WaveCheck, checks []attempt.Command, at *tree,
	v voice) (r result, err error) {
	e := scheduler.WaveCheckEnded{Wave: a.Wave, Tip: a.Tip, Result: scheduler.Passed}
	link := now.chain.UpTo(a.Tip)
	x := exam{at: at, base: link.Tree, tree: link.Tree, head: link.Head, when: verify.AtWave,
		log: g.home.NamedLog(g.id, "checks")}
	if a.Wave >= scheduler.EndWave {
		x.when = verify.AtEnd
	}
	checks = slices.DeleteFunc(slices.Clone(checks),
		func(c attempt.Command) bool { return !slices.Contains(a.Checks, c.Name) })
	for _, c := range checks {
		x.label = "check " + c.Name
		ran, err := x.run(ctx, g, []attempt.Command{c}, true, v)
		if err != nil {
			return r, err
		}
		names, first, cut := failed(ran)
		if cut {
			e.Result, e.Failed = scheduler.Cut, nil
			return result{event: e}, nil
		}
		if first != nil {
			e.Result, e.Failed = scheduler.Failed, append(e.Failed, names...)
			r.why = first.Reason()
			r.res = &attempt.Result{Verify: first, Reason: first.Reason()}
		}
	}
	r.event = e
	return r, nil
}
