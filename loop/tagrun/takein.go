package tagrun

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"descartes/gitops"
	"descartes/loop/attempt"
	"descartes/loop/trunk"
	"descartes/scheduler"
	"descartes/verify"
)

// takeIn merges the branch's commits, up to one, into the trunk. Where the trunk has what the branch lacks, what both
// make is checked as an attempt is.
func takeIn(ctx context.Context, g *ground, now standing, a scheduler.TakeIn, files map[string][]byte,
	checks []attempt.Command, at *tree, v voice) (r result, err error) {
	gctx, done := attempt.Linger(ctx)
	defer done()
	e := scheduler.TakeInEnded{Commit: a.Commit, Result: scheduler.Passed}
	next := now
	next.chain = now.chain.Clone()
	g.repo.AwaitGC(gctx)
	m, other, err := next.taking(gctx, g, a.Commit, files)
	if err != nil {
		return r, gitErr("take in what was committed meanwhile", err)
	}
	if len(m.Met) > 0 {
		clash := trunk.Clash{Conflicts: m.Met}
		e.Result = scheduler.Clashed
		return result{event: e, why: conflicts(&clash)}, nil
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
	if other {
		err = next.chain.TookOther(gctx, a.Commit, m.Tree)
	} else {
		err = next.chain.Took(gctx, a.Commit, m.Tree, m.Has)
	}
	return result{event: e, now: &next}, wrapped("take in what was committed meanwhile", err)
}

// taking says what taking in a commit makes. It is the branch's, or other: of the branch that was checked out when a
// run began that goes to another one. files are the run's own, whatever the two have of them.
func (s *standing) taking(ctx context.Context, g *ground, commit string, files map[string][]byte) (m trunk.Meanwhile,
	other bool, err error) {
	if other, err = s.isOther(ctx, g, commit); err != nil || !other {
		if err == nil {
			m, err = s.chain.TakeIn(ctx, g.repo, commit, g.tag, g.id)
		}
		return m, other, err
	}
	if m.Base, err = g.repo.CommitTree(commit); err != nil {
		return m, other, err
	}
	if m.Tree, m.Met, err = g.repo.Merge(ctx, s.chain.Tip, commit); err != nil {
		return m, other, err
	}
	m.Met = slices.DeleteFunc(m.Met, func(c gitops.Conflict) bool { return files[c.Path] != nil })
	m.Tree, err = g.repo.WithContent(ctx, m.Tree, files)
	return m, other, err
}

// isOther reports whether the branch does not have a commit that is to be taken in.
func (s *standing) isOther(ctx context.Context, g *ground, commit string) (bool, error) {
	head, err := s.head(ctx, g)
	return err == nil && (head == "" || !g.repo.LeadsTo(ctx, head, commit)), err
}

// conflicts says where the branch's commits and the verified work do not merge.
func conflicts(f *trunk.Clash) string {
	return "somebody committed meanwhile, and the verified work conflicts with that: " +
		strings.TrimSpace(f.Reason())
}
