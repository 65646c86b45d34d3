package trunk

import (
	"context"
	"slices"
	"strings"
	"time"

	"descartes/gitops"
	"descartes/internal/oneline"
)

// Chain is the trunk of a run: a chain of commits with all verified work, in the order in which it was accepted. It
// begins at the branch's commit, and each thing that comes in adds a commit with two parents, the tip before and what
// came in:
//
//	a unit's work        the attempt's commit, whose first parent is the commit of the chain that the attempt started from
//	the branch's news    the branch's commit: one of ours with the work of some units, or somebody else's
//
// A unit whose work is taken out again adds a commit too. So git finds the base of every merge by itself, nothing that
// the chain needs is ever collected, and what is in is read from it alone: trailers of its commits say what each
// brought.
type Chain struct {
	Repo history
	Ref  string // names the tip
	Now  func() time.Time
	Grow func(do func()) // calls do, which adds what the ref names to what is in memory; nil: at once

	Tip   string      // its last commit
	Tree  gitops.Tree // of the tip
	On    string      // the branch's last commit that came in; "" for a branch without one
	Units []string    // units that are in and in no commit of the branch, in the order of their acceptance
	Links []Link      // oldest first, from the commit that it began at
	Saved bool        // the ref exists
}

// Link is a commit of the chain.
type Link struct {
	Hash    string
	Tree    gitops.Tree
	Kind    string   // "" of the first, where that is a commit of the branch
	Unit    string   // that came in with it, or ""
	Branch  string   // the branch's commit that came in with it, or ""
	Other   string   // that of another branch, which the branch is to have, too
	Has     []string // units that the branch has by it
	Brought string   // its second parent
	Out     []string // units that left with it
	Back    string   // the branch's commit, where that went back too
	// what agents see as HEAD: the branch's commit where that has the same tree; "" in an empty project
	Head string
}

// Tips are the trees of the last work that came in, and of what stands on it: commits of the branch, with the list.
func (c *Chain) Tips() (trees []gitops.Tree) {
	for _, l := range slices.Backward(c.Links) {
		if trees = append(trees, l.Tree); l.Kind == kindUnit {
			break
		}
	}
	return trees
}

// history is what the chain needs of a repository.
type history interface {
	CommitTree(commit string) (gitops.Tree, error)
	RefCommit(ref string) (string, error)
	LeadsTo(ctx context.Context, from, to string) bool
	Merge(ctx context.Context, ours, theirs string) (gitops.Tree, []gitops.Conflict, error)
	MergeTrees(ctx context.Context, base, ours, theirs gitops.Tree) (gitops.Tree, []gitops.Conflict, error)
	Link(ctx context.Context, on string, l gitops.Link) (string, error)
	Extend(ctx context.Context, ref, from string, links ...gitops.Link) (string, error)
	MoveRef(ctx context.Context, ref, from, to, why string) error
	Chain(ctx context.Context, tip, until, trailer string) ([]gitops.ChainLink, string, error)
}

// trailers of the chain's commits. They differ from those of commits on a branch, which a merge of the chain may bring
// there.
const (
	chainKind      = "Descartes-Chain" // of all of them: one of the kinds
	chainUnit      = "Descartes-Unit"
	chainBranch    = "Descartes-Branch"    // the branch's commit
	chainCommitted = "Descartes-Committed" // a unit that it has
	chainOther     = "Descartes-Other"     // a commit of another branch

	kindBegin  = "begin"
	kindUnit   = "unit"
	kindBranch = "branch"
	kindCommit = "commit" // the branch's commit is a run's own
	kindRun    = "run"    // another run goes on
	kindOut    = "out"
)

// Read reads the chain, and reports whether there is one.
func (c *Chain) Read(ctx context.Context) (found bool, err error) {
	return c.ReadAt(ctx, c.Ref)
}

// ReadAt reads a chain that another ref names.
func (c *Chain) ReadAt(ctx context.Context, ref string) (found bool, err error) {
	tip, err := c.Repo.RefCommit(ref)
	if err != nil || tip == "" {
		return false, err
	}
	if found, err = c.readTip(ctx, tip); err == nil {
		c.Saved = ref == c.Ref
	}
	return found, err
}

// readTip reads the chain up to a commit.
func (c *Chain) readTip(ctx context.Context, tip string) (found bool, err error) {
	list, rest, err := c.Repo.Chain(ctx, tip, "", chainKind)
	if err != nil {
		return true, err
	}
	c.Tip, c.On, c.Units, c.Links = rest, rest, nil, nil
	if rest != "" {
		if c.Tree, err = c.Repo.CommitTree(rest); err != nil {
			return true, err
		}
		c.Links = []Link{{Hash: rest, Tree: c.Tree, Head: rest}}
	}
	c.follow(list)
	return true, nil
}

// follow goes on along commits of the chain, given nearest first.
func (c *Chain) follow(list []gitops.ChainLink) {
	for _, l := range slices.Backward(list) {
		one := Link{Hash: l.Hash, Tree: l.Tree, Head: l.Hash, Kind: l.Trailers[chainKind][0],
			Has: l.Trailers[chainCommitted]}
		if n := len(l.Parents); n > 0 {
			one.Brought = l.Parents[n-1]
		}
		if on := l.Trailers[chainBranch]; len(on) > 0 && one.Kind != kindOut {
			one.Branch, c.On = on[0], on[0]
		}
		if other := l.Trailers[chainOther]; len(other) > 0 {
			one.Other = other[0]
		}
		switch one.Kind {
		case kindBegin:
			one.Head = ""
		case kindUnit:
			one.Unit = l.Trailers[chainUnit][0]
			c.leave(l.Trailers[chainUnit])
			c.Units = append(c.Units, one.Unit)
		case kindBranch, kindCommit:
			c.leave(one.Has)
			if tree, err := c.Repo.CommitTree(c.On); err == nil && tree == l.Tree {
				one.Head = c.On
			}
		case kindOut:
			one.Out = l.Trailers[chainUnit]
			c.leave(one.Out)
			if on := l.Trailers[chainBranch]; len(on) > 0 {
				one.Back, c.On = on[0], on[0]
			}
		}
		c.Links, c.Tip, c.Tree = append(c.Links, one), l.Hash, l.Tree
	}
}

// leave takes units off those that no commit has.
func (c *Chain) leave(units []string) {
	c.Units = slices.DeleteFunc(c.Units, func(u string) bool { return slices.Contains(units, u) })
}

// Plan sets where the chain is to begin: at a commit of the branch, or at an empty tree. save makes its ref.
func (c *Chain) Plan(ctx context.Context, on string) (err error) {
	c.Tip, c.On = on, on
	if c.Tree, err = c.Repo.CommitTree(on); err == nil && on == "" {
		c.Tip, err = c.Repo.Link(ctx, "", empty(c.Tree))
	}
	c.Links = []Link{{Hash: c.Tip, Tree: c.Tree, Head: on}}
	return err
}

func empty(tree gitops.Tree) gitops.Link {
	return gitops.Link{Tree: tree, Message: message(kindBegin, "an empty project"), When: time.Unix(0, 0).UTC()}
}

// Save makes the ref of a chain that has none yet.
func (c *Chain) Save(ctx context.Context) (err error) {
	if c.Saved {
		return nil
	}
	c.Saved = true
	if c.On == "" && len(c.Links) == 1 { // it is in no repository yet
		_, err = c.Repo.Extend(ctx, c.Ref, "", empty(c.Tree))
		return err
	}
	return c.Repo.MoveRef(ctx, c.Ref, "", c.Tip, "descartes: the trunk begins")
}

// message is that of a commit of the chain; trailers are pairs of a name and a value.
func message(kind, subject string, trailers ...string) string {
	var b strings.Builder
	b.WriteString(oneline.Text(subject) + "\n\nWhat a run has verified so far. No branch names this commit.\n\n" +
		chainKind + ": " + kind + "\n")
	for i := 0; i+1 < len(trailers); i += 2 {
		b.WriteString(trailers[i] + ": " + oneline.Text(trailers[i+1]) + "\n")
	}
	return b.String()
}

// Bring is the commit that takes in a unit's work.
func (c *Chain) Bring(unit, subject, commit string, tree gitops.Tree) gitops.Link {
	return gitops.Link{Tree: tree, Second: commit, When: c.Now(), Message: message(kindUnit, subject, chainUnit, unit)}
}

// Add adds commits: once the ref names them they are in. What asks the run to end does not cut it short.
func (c *Chain) Add(ctx context.Context, links ...gitops.Link) error {
	ctx = context.WithoutCancel(ctx)
	tip, err := c.Repo.Extend(ctx, c.Ref, c.Tip, links...)
	if err != nil {
		return err
	}
	added, _, err := c.Repo.Chain(ctx, tip, c.Tip, chainKind)
	if c.Grow == nil {
		c.follow(added)
		return err
	}
	c.Grow(func() { c.follow(added) })
	return err
}

// At is the last commit of the chain that has a tree, else the tip.
func (c *Chain) At(tree gitops.Tree) Link {
	for _, l := range slices.Backward(c.Links) {
		if l.Tree == tree {
			return l
		}
	}
	return c.Links[len(c.Links)-1]
}

// Gone are the commits that the branch had, and that went back with it when a person rewound.
func (c *Chain) Gone() map[string]bool {
	gone := map[string]bool{}
	for i, l := range c.Links {
		if l.Back == "" {
			continue
		}
		for _, was := range slices.Backward(c.Links[:i]) {
			if was.Branch == l.Back || was.Hash == l.Back {
				break
			}
			gone[was.Branch] = true
		}
	}
	delete(gone, "")
	return gone
}

// Since are the units that came in after a commit of the chain.
func (c *Chain) Since(commit string) (units []string) {
	for _, l := range slices.Backward(c.Links) {
		if l.Hash == commit {
			break
		}
		if l.Unit != "" {
			units = append(units, l.Unit)
		}
	}
	slices.Reverse(units)
	return units
}

// Has reports whether a unit's commit is in, and in no commit of the branch yet.
func (c *Chain) Has(unit, commit string) bool {
	return slices.Contains(c.Units, unit) && slices.ContainsFunc(c.Links,
		func(l Link) bool { return l.Unit == unit && l.Brought == commit })
}

// TakeOut takes units' work out again; tree is what there is without it. on is the branch's commit, if that has gone
// back too; else "".
func (c *Chain) TakeOut(ctx context.Context, tree gitops.Tree, on string, units ...string) error {
	var pairs []string
	if on != "" {
		pairs = append(pairs, chainBranch, on)
	}
	for _, u := range units {
		pairs = append(pairs, chainUnit, u)
	}
	return c.Add(ctx, gitops.Link{Tree: tree, Second: on, When: c.Now(),
		Message: message(kindOut, "out: "+strings.Join(units, ", "), pairs...)})
}

// Take is the tree with a commit of the branch taken in. has are the units that the branch's commits since the last
// one have. Where that one is no ancestor any more, what somebody took away since stays away.
func (c *Chain) Take(ctx context.Context, head string, has []string) (tree gitops.Tree, met []gitops.Conflict,
	err error) {
	if tree, err = c.Repo.CommitTree(head); err != nil {
		return "", nil, err
	}
	was, err := c.Repo.CommitTree(c.On)
	if err != nil {
		return "", nil, err
	}
	if !slices.ContainsFunc(c.Units, func(u string) bool { return !slices.Contains(has, u) }) || c.Tree == was {
		return tree, nil, nil // nothing is in that the branch lacks
	}
	theirs := head
	if base := c.Links[0].Hash; c.On == "" || !c.Repo.LeadsTo(ctx, head, c.On) {
		if c.On != "" {
			base = c.On
		}
		// For this merge alone: no ref names the commit, and a git gc may delete it before the chain has the result.
		if theirs, err = c.Repo.Link(ctx, base, gitops.Link{Tree: tree, Second: head, When: c.Now(),
			Message: message(kindBranch, "the branch as it is now", chainBranch, head)}); err != nil {
			return "", nil, err
		}
	}
	return c.Repo.Merge(ctx, c.Tip, theirs)
}

// Took adds the branch's commit, with the tree that take returned.
func (c *Chain) Took(ctx context.Context, head string, tree gitops.Tree, has []string) error {
	return c.Add(ctx, c.took(head, tree, has))
}

func (c *Chain) took(head string, tree gitops.Tree, has []string) gitops.Link {
	pairs := []string{chainBranch, head}
	for _, u := range has {
		pairs = append(pairs, chainCommitted, u)
	}
	return gitops.Link{Tree: tree, Second: head, When: c.Now(), Message: message(kindBranch, "what the branch got", pairs...)}
}

// Newest reports whether the i-th commit of the chain is the last one that brought its unit.
func (c *Chain) Newest(i int) bool {
	return !slices.ContainsFunc(c.Links[i+1:], func(l Link) bool { return l.Unit == c.Links[i].Unit })
}
