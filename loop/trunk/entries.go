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
		case kindCommit: // of work whose merge was cut off, the branch has it still
			for _, unit := range l.Has {
				if !slices.ContainsFunc(list, func(e Entry) bool { return e.Unit == unit }) {
					list = append(list, Entry{Unit: unit, Link: i, In: true})
				}
			}
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
	return c.Add(ctx, c.commit(commit, tree, units))
}

func (c *Chain) commit(commit string, tree gitops.Tree, units []string) gitops.Link {
	pairs := []string{chainBranch, commit}
	for _, u := range units {
		pairs = append(pairs, chainCommitted, u)
	}
	return gitops.Link{Tree: tree, Second: commit, When: c.Now(),
		Message: message(kindCommit, "the branch has "+strings.Join(units, ", "), pairs...)}
}

// Cut ends the chain after its first n entries: a person took the work on lost units out of the branch, which is at head
// now. What a run's commits brought besides, and the branch has still, stays. What is cut is in the ref's log.
func (c *Chain) Cut(ctx context.Context, repo *gitops.Repo, n int, head, tag, run string, lost []string) error {
	list := c.Entries()
	if n >= len(list) {
		return nil
	}
	tip := c.UpTo(n).Hash
	left, err := c.left(ctx, repo, tip, head, tag, run, func(unit string) bool {
		return !slices.Contains(lost, unit) && slices.ContainsFunc(list[n:], func(e Entry) bool { return e.Unit == unit && e.In })
	})
	if err != nil {
		return err
	}
	for _, l := range left {
		if tip, err = c.Repo.Link(ctx, tip, l); err != nil {
			return err
		}
	}
	if err := c.Repo.MoveRef(ctx, c.Ref, c.Tip, tip, "descartes: "+fmt.Sprint(len(list)-n)+" entries are cut"); err != nil {
		return err
	}
	found, err := c.Read(ctx)
	if err == nil && !found {
		err = fmt.Errorf("%s is gone", c.Ref)
	}
	return err
}

// left is what a branch at head has besides a commit of the chain: the run's commits with these units, and all else.
func (c *Chain) left(ctx context.Context, repo *gitops.Repo, than, head, tag, run string, has func(unit string) bool) (
	links []gitops.Link, err error) {
	if head == "" || repo.LeadsTo(ctx, than, head) {
		return nil, nil
	}
	own, err := repo.News(ctx, than, head, "Descartes-Loop", run)
	if err != nil {
		return nil, err
	}
	for _, one := range own {
		units := slices.DeleteFunc(one.TasksOf(tag), func(unit string) bool { return !has(unit) })
		if len(units) > 0 {
			links = append(links, c.commit(one.Hash, one.Tree, units))
		}
	}
	tree, err := repo.CommitTree(head)
	return append(links, c.took(head, tree, nil)), err
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
