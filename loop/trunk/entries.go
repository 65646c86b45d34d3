package trunk

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"descartes/gitops"
)

// Entry is what a run counts in its chain: a unit's work, or commits of the branch that are not the run's own, up to
// one.
type Entry struct {
	Unit, Commit string // one of them
	Link         int    // its place in Links
	In           bool   // the branch has it
}

// Entries are those of the last run that went on along the chain, in order.
func (c *Chain) Entries() (list []Entry) {
	for i, l := range c.Links {
		for k := range list {
			list[k].In = list[k].In || slices.Contains(l.Has, list[k].Unit)
		}
		switch l.Kind {
		case kindUnit:
			list = append(list, Entry{Unit: l.Unit, Link: i})
		case kindBranch:
			list = append(list, Entry{Commit: cmp.Or(l.Branch, l.Other), Link: i, In: true})
		case kindOut:
			list = slices.DeleteFunc(list, func(e Entry) bool { return slices.Contains(l.Out, e.Unit) })
		case kindRun: // what the branch has was an earlier run's
			list = list[inOf(list):]
		}
	}
	return list
}

// inOf is how many of the first entries the branch has.
func inOf(list []Entry) int {
	if n := slices.IndexFunc(list, func(e Entry) bool { return !e.In }); n >= 0 {
		return n
	}
	return len(list)
}

// In is how many of the first entries the branch has.
func (c *Chain) In() int { return inOf(c.Entries()) }

// UpTo is the last commit of the chain before the entry that follows the first n.
func (c *Chain) UpTo(n int) Link {
	if list := c.Entries(); n < len(list) {
		return c.Links[list[n].Link-1]
	}
	return c.Links[len(c.Links)-1]
}

// Loose are the units among the first n entries that the branch lacks, in order.
func (c *Chain) Loose(n int) (units []string) {
	list := c.Entries()
	for _, e := range list[:min(n, len(list))] {
		if !e.In && e.Unit != "" && !slices.Contains(units, e.Unit) {
			units = append(units, e.Unit)
		}
	}
	return units
}

// GoOn begins another run where the chain ends, under the ref of that run.
func (c *Chain) GoOn(ctx context.Context, run string) error {
	if err := c.Save(ctx); err != nil {
		return err
	}
	return c.Add(ctx, gitops.Link{Tree: c.Tree, When: c.Now(), Message: message(kindRun, "run "+run+" goes on")})
}

// BringTaken is Bring for the work of a unit that takes in a commit of the branch.
func (c *Chain) BringTaken(unit, subject, commit string, tree gitops.Tree, taken string) gitops.Link {
	return gitops.Link{Tree: tree, Second: commit, When: c.Now(),
		Message: message(kindUnit, subject, chainUnit, unit, chainBranch, taken)}
}

// BringOther is Bring for the work of a unit that takes in a commit of another branch.
func (c *Chain) BringOther(unit, subject, commit string, tree gitops.Tree, other string) gitops.Link {
	return gitops.Link{Tree: tree, Second: commit, When: c.Now(),
		Message: message(kindUnit, subject, chainUnit, unit, chainOther, other)}
}

// TookOther adds a commit of another branch, with the tree that both make.
func (c *Chain) TookOther(ctx context.Context, other string, tree gitops.Tree) error {
	return c.Add(ctx, gitops.Link{Tree: tree, Second: other, When: c.Now(),
		Message: message(kindBranch, "what another branch has", chainOther, other)})
}

// Others are the commits of other branches that came in with the first n entries.
func (c *Chain) Others(n int) (list []string) {
	for _, e := range c.Entries()[:min(n, len(c.Entries()))] {
		if one := c.Links[e.Link]; one.Other != "" {
			list = append(list, one.Other)
		}
	}
	return list
}

// Onto is what the branch gets with the chain up to its first n entries, besides what it has. The chain has what is on
// the branch by now. Where the two do not go together there are conflicts and no tree.
func (c *Chain) Onto(ctx context.Context, n int) (tree gitops.Tree, met []gitops.Conflict, err error) {
	at := c.UpTo(n)
	tree = at.Tree
	for i := slices.IndexFunc(c.Links, func(l Link) bool { return l.Hash == at.Hash }) + 1; i < len(c.Links); i++ {
		if c.Links[i].Branch == "" {
			continue
		}
		if tree, met, err = c.Repo.MergeTrees(ctx, c.Links[i-1].Tree, tree, c.Links[i].Tree); err != nil || len(met) > 0 {
			return "", met, err
		}
	}
	return tree, nil, nil
}

// Under is the tree of the chain once the branch has a commit, which was made of a tree that Onto returned.
func (c *Chain) Under(ctx context.Context, made, commit gitops.Tree) (gitops.Tree, []gitops.Conflict, error) {
	return c.Repo.MergeTrees(ctx, made, c.Tree, commit)
}

// Committed adds a commit of the run's own that the branch got, with the tree that Under returned.
func (c *Chain) Committed(ctx context.Context, commit string, tree gitops.Tree, units []string) error {
	pairs := []string{chainBranch, commit}
	for _, u := range units {
		pairs = append(pairs, chainCommitted, u)
	}
	return c.Add(ctx, gitops.Link{Tree: tree, Second: commit, When: c.Now(),
		Message: message(kindCommit, "the branch has "+strings.Join(units, ", "), pairs...)})
}

// Cut ends the chain after its first n entries: a person took what follows out of the branch. What is cut is in the
// ref's log.
func (c *Chain) Cut(ctx context.Context, n int) error {
	list := c.Entries()
	if n >= len(list) {
		return nil
	}
	at := c.UpTo(n)
	if err := c.Repo.MoveRef(ctx, c.Ref, c.Tip, at.Hash, "descartes: "+fmt.Sprint(len(list)-n)+" entries are cut"); err != nil {
		return err
	}
	found, err := c.Read(ctx)
	if err == nil && !found {
		err = fmt.Errorf("%s is gone", c.Ref)
	}
	return err
}

// Clone is a copy that shares nothing that either changes.
func (c *Chain) Clone() Chain {
	n := *c
	n.Units, n.Links = slices.Clone(c.Units), slices.Clone(c.Links)
	return n
}

// News are the commits that a branch got, up to head, and that the chain lacks, oldest first: those that a run made, by
// their trailers, and the others.
func (c *Chain) News(ctx context.Context, repo *gitops.Repo, head, run string) (own, others []gitops.ChainLink,
	err error) {
	if head == "" {
		return nil, nil, nil
	}
	list, err := repo.News(ctx, c.Tip, head, "", "")
	for _, one := range list {
		if slices.Contains(one.Trailers["Descartes-Loop"], run) {
			own = append(own, one)
		} else {
			others = append(others, one)
		}
	}
	return own, others, err
}
