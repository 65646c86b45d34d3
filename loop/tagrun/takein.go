package tagrun

import (
	"context"
	"fmt"
	"strings"

	"descartes/loop/attempt"
	"descartes/loop/trunk"
	"descartes/scheduler"
	"descartes/verify"
)

// takeIn merges the branch's commits, up to one, into the trunk. Where the trunk has what the branch lacks, what both
// make is checked as an attempt is.
func takeIn(ctx context.Context, g *ground, now standing, a scheduler.TakeIn, checks []attempt.Command, at *tree,
	v voice) (r result, err error) {
	gctx, done := attempt.Linger(ctx)
	defer done()
	e := scheduler.TakeInEnded{Commit: a.Commit, Result: scheduler.Passed}
	next := now
	next.chain = now.chain.Clone()
	g.repo.AwaitGC(gctx)
	m, err := next.chain.TakeIn(gctx, g.repo, a.Commit, g.tag, g.id)
	if err != nil {
		return r, gitErr("take in what was committed meanwhile", err)
	}
	if len(m.Met) > 0 {
		fate := trunk.Fate{Conflicts: m.Met}
		e.Result = scheduler.Clashed
		return result{event: e, why: conflicts(&fate)}, nil
	}
	if m.Tree != m.Base {
		x := exam{at: at, base: m.Base, tree: m.Tree, head: headOf(&now), when: verify.AtMerge,
			label: "integration of what was committed meanwhile", log: g.home.NamedLog(g.id, "integration"), quiet: true}
		ran, err := x.run(ctx, g, checks, false, v)
		if err != nil {
			return r, err
		}
		_, first, cut := failed(ran)
		switch {
		case cut:
			e.Result = scheduler.Cut
			return result{event: e}, nil
		case first != nil:
			e.Result = scheduler.Failed
			return result{event: e, why: fmt.Sprintf("somebody committed meanwhile (%.12s), and the checks fail on "+
				"that together with the verified work: %s", a.Commit, first.Reason())}, nil
		}
	}
	if err := next.chain.Took(gctx, a.Commit, m.Tree, m.Has); err != nil {
		return r, gitErr("take in what was committed meanwhile", err)
	}
	return result{event: e, now: &next}, nil
}

// conflicts says where the branch's commits and the verified work do not merge.
func conflicts(f *trunk.Fate) string {
	return "somebody committed meanwhile, and the verified work conflicts with that: " +
		strings.TrimSpace(f.Reason())
}
