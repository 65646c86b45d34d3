package tagrun

import (
	"context"
	"slices"

	"descartes/gitops"
	"descartes/internal/oneline"
	"descartes/loop"
	"descartes/loop/journal"
	"descartes/loop/trunk"
	"descartes/scheduler"
)

// Where a task is merged: its commit is merged onto the tip before its check (mergeOntoTip), and is the next tip once
// it passed there (mergeVerified).

// onTip is an attempt's commit merged onto the tip, and onto what the checks at work would make of that.
type onTip struct {
	on   string      // commit that it is merged onto
	base gitops.Tree // of that
	tree gitops.Tree // what both make
	work gitops.Tree // that is checked: with what hooks changed
	met  []gitops.Conflict
	void bool // what it is to stand on does not merge itself
}

func mergeOntoTip(ctx context.Context, g *ground, now *standing, m *made, ahead []*made) (o onTip, err error) {
	tip := now.chain.Tip
	o.base = now.chain.Tree
	for _, one := range ahead {
		tree, met, err := g.repo.Merge(ctx, tip, one.commit)
		if err != nil || len(met) > 0 {
			o.void = true
			return o, err
		}
		if tip, err = g.repo.Link(ctx, tip, now.chain.Bring(one.task.ID, one.task.ID, one.commit, tree)); err != nil {
			return o, err
		}
		o.base = tree
	}
	o.on = tip
	o.tree, o.met, err = g.repo.Merge(ctx, tip, m.commit)
	o.work = o.tree
	return o, err
}

// mergeVerified makes an attempt's commit the next tip, with the tree that passed: the trunk's ref names it.
func mergeVerified(ctx context.Context, g *ground, now standing, m *made, tree gitops.Tree) (*standing, error) {
	next := now
	next.chain = now.chain.Clone()
	id := oneline.Text(m.task.ID)
	link := next.chain.Bring(id, "task "+id+": "+oneline.Text(m.task.Title), m.commit, tree)
	if m.takes != "" {
		other, err := now.isOther(ctx, g, m.takes)
		if err != nil {
			return nil, gitErr("merge the work on task "+m.task.ID, err)
		}
		bring := next.chain.BringTaken
		if other {
			bring = next.chain.BringOther
		}
		link = bring(id, "take in "+m.takes, m.commit, tree, m.takes)
	}
	if err := next.chain.Add(ctx, link); err != nil {
		return nil, gitErr("merge the work on task "+m.task.ID, err)
	}
	return &next, nil
}

// integrated is the line of a merge.
func integrated(u journal.Unit, tree, commit string) *journal.Event {
	return &journal.Event{Type: journal.Integrated, Unit: u, Tree: tree, Commit: commit}
}

// changedInMerge reports whether a merge changed files that an attempt had changed.
func changedInMerge(ctx context.Context, g *ground, m *made, tree gitops.Tree) (bool, error) {
	was, err := g.repo.CommitTree(m.commit)
	if err != nil {
		return false, gitErr("compare the work on task "+m.task.ID, err)
	}
	changes, err := g.repo.Changed(ctx, was, tree)
	if err != nil {
		return false, gitErr("compare the work on task "+m.task.ID, err)
	}
	return slices.ContainsFunc(changes, func(c gitops.Change) bool {
		return slices.ContainsFunc(m.res.Work.Changed, func(own gitops.Change) bool { return own.Path == c.Path })
	}), nil
}

// clashed is the end of a check whose commit does not merge: nobody's failure.
func clashed(ctx context.Context, g *ground, now *standing, e scheduler.CheckEnded, m *made,
	met []gitops.Conflict) (result, error) {
	clash := trunk.Clash{Conflicts: met, After: now.chain.Since(m.from)}
	if err := rekeep(ctx, g, m, &m.res, &clash, nil); err != nil {
		return result{}, err
	}
	e.Result, e.Paths = scheduler.Clashed, clash.Paths()
	end := finished(g, m, &m.res)
	end.Verdict, end.Reason, end.Message = journal.Clashed, clash.Reason(), ""
	end.Base, end.Paths, end.Detail.Output = string(now.chain.Tree), e.Paths, loop.Tail(clash.Detail(), loop.MaxWords)
	return result{event: e, lines: []*journal.Event{end}, why: end.Reason}, nil
}
