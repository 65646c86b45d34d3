package loop

import (
	"context"
	"slices"
	"strings"
	"time"

	"descartes/gitops"
	"descartes/internal/oneline"
)

// chain is the trunk of a loop: a chain of commits with all verified work, in the order in which it was accepted. It
// begins at the branch's commit, and each thing that comes in adds a commit with two parents, the tip before and what
// came in:
//
//	a unit's work        the attempt's commit, whose first parent is the commit of the chain that the attempt started from
//	the branch's news    the branch's commit: one of ours with the work of some units, or somebody else's
//
// A unit whose work is taken out again adds a commit too. So git finds the base of every merge by itself, nothing that
// the chain needs is ever collected, and what is in is read from it alone: trailers of its commits say what each
// brought.
type chain struct {
	repo history
	ref  string // names the tip
	now  func() time.Time
	grow func(do func()) // calls do, which adds what the ref names to what is in memory; nil: at once

	tip   string      // its last commit
	tree  gitops.Tree // of the tip
	on    string      // the branch's last commit that came in; "" for a branch without one
	units []string    // units that are in and in no commit of the branch, in the order of their acceptance
	links []link      // oldest first, from the commit that it began at
	saved bool        // the ref exists
}

// link is a commit of the chain.
type link struct {
	hash    string
	tree    gitops.Tree
	unit    string   // that came in with it, or ""
	brought string   // its second parent
	out     []string // units that left with it
	// what agents see as HEAD: the branch's commit where that has the same tree; "" in an empty project
	head string
}

// history is what the chain needs of a repository.
type history interface {
	CommitTree(commit string) (gitops.Tree, error)
	RefCommit(ref string) (string, error)
	LeadsTo(ctx context.Context, from, to string) bool
	Merge(ctx context.Context, ours, theirs string) (gitops.Tree, []gitops.Conflict, error)
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

	kindBegin  = "begin"
	kindUnit   = "unit"
	kindBranch = "branch"
	kindOut    = "out"
)

// read reads the chain, and reports whether there is one.
func (c *chain) read(ctx context.Context) (found bool, err error) {
	return c.readAt(ctx, c.ref)
}

// HoldsWork reports whether a loop's trunk has verified work that no branch has.
func HoldsWork(ctx context.Context, repo *gitops.Repo, trunk string) (bool, error) {
	c := chain{repo: repo, ref: trunk}
	_, err := c.read(ctx)
	return len(c.units) > 0, err
}

// readAt reads a chain that another ref names.
func (c *chain) readAt(ctx context.Context, ref string) (found bool, err error) {
	tip, err := c.repo.RefCommit(ref)
	if err != nil || tip == "" {
		return false, err
	}
	list, rest, err := c.repo.Chain(ctx, tip, "", chainKind)
	if err != nil {
		return true, err
	}
	c.tip, c.on, c.units, c.links = rest, rest, nil, nil
	if rest != "" {
		if c.tree, err = c.repo.CommitTree(rest); err != nil {
			return true, err
		}
		c.links = []link{{hash: rest, tree: c.tree, head: rest}}
	}
	c.follow(list)
	c.saved = ref == c.ref
	return true, nil
}

// follow goes on along commits of the chain, given nearest first.
func (c *chain) follow(list []gitops.ChainLink) {
	for _, l := range slices.Backward(list) {
		one := link{hash: l.Hash, tree: l.Tree, head: l.Hash}
		if n := len(l.Parents); n > 0 {
			one.brought = l.Parents[n-1]
		}
		switch l.Trailers[chainKind][0] {
		case kindBegin:
			one.head = ""
		case kindUnit:
			one.unit = l.Trailers[chainUnit][0]
			c.leave(l.Trailers[chainUnit])
			c.units = append(c.units, one.unit)
		case kindBranch:
			c.on = l.Trailers[chainBranch][0]
			c.leave(l.Trailers[chainCommitted])
			if tree, err := c.repo.CommitTree(c.on); err == nil && tree == l.Tree {
				one.head = c.on
			}
		case kindOut:
			one.out = l.Trailers[chainUnit]
			c.leave(one.out)
			if on := l.Trailers[chainBranch]; len(on) > 0 {
				c.on = on[0]
			}
		}
		c.links, c.tip, c.tree = append(c.links, one), l.Hash, l.Tree
	}
}

// leave takes units off those that no commit has.
func (c *chain) leave(units []string) {
	c.units = slices.DeleteFunc(c.units, func(u string) bool { return slices.Contains(units, u) })
}

// plan sets where the chain is to begin: at a commit of the branch, or at an empty tree. save makes its ref.
func (c *chain) plan(ctx context.Context, on string) (err error) {
	c.tip, c.on = on, on
	if c.tree, err = c.repo.CommitTree(on); err == nil && on == "" {
		c.tip, err = c.repo.Link(ctx, "", empty(c.tree))
	}
	c.links = []link{{hash: c.tip, tree: c.tree, head: on}}
	return err
}

func empty(tree gitops.Tree) gitops.Link {
	return gitops.Link{Tree: tree, Message: message(kindBegin, "an empty project"), When: time.Unix(0, 0).UTC()}
}

// save makes the ref of a chain that has none yet.
func (c *chain) save(ctx context.Context) (err error) {
	if c.saved {
		return nil
	}
	c.saved = true
	if c.on == "" && len(c.links) == 1 { // it is in no repository yet
		_, err = c.repo.Extend(ctx, c.ref, "", empty(c.tree))
		return err
	}
	return c.repo.MoveRef(ctx, c.ref, "", c.tip, "descartes: the trunk begins")
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

// bring is the commit that takes in a unit's work.
func (c *chain) bring(unit, subject, commit string, tree gitops.Tree) gitops.Link {
	return gitops.Link{Tree: tree, Second: commit, When: c.now(), Message: message(kindUnit, subject, chainUnit, unit)}
}

// add adds commits: once the ref names them they are in. What asks the run to end does not cut it short.
func (c *chain) add(ctx context.Context, links ...gitops.Link) error {
	ctx = context.WithoutCancel(ctx)
	tip, err := c.repo.Extend(ctx, c.ref, c.tip, links...)
	if err != nil {
		return err
	}
	added, _, err := c.repo.Chain(ctx, tip, c.tip, chainKind)
	if c.grow == nil {
		c.follow(added)
		return err
	}
	c.grow(func() { c.follow(added) })
	return err
}

// at is the last commit of the chain that has a tree, else the tip.
func (c *chain) at(tree gitops.Tree) link {
	for _, l := range slices.Backward(c.links) {
		if l.tree == tree {
			return l
		}
	}
	return c.links[len(c.links)-1]
}

// since are the units that came in after a commit of the chain.
func (c *chain) since(commit string) (units []string) {
	for _, l := range slices.Backward(c.links) {
		if l.hash == commit {
			break
		}
		if l.unit != "" {
			units = append(units, l.unit)
		}
	}
	slices.Reverse(units)
	return units
}

// has reports whether a unit's commit is in, and in no commit of the branch yet.
func (c *chain) has(unit, commit string) bool {
	return slices.Contains(c.units, unit) && slices.ContainsFunc(c.links,
		func(l link) bool { return l.unit == unit && l.brought == commit })
}

// takeOut takes units' work out again; tree is what there is without it. on is the branch's commit, if that has gone
// back too; else "".
func (c *chain) takeOut(ctx context.Context, tree gitops.Tree, on string, units ...string) error {
	var pairs []string
	if on != "" {
		pairs = append(pairs, chainBranch, on)
	}
	for _, u := range units {
		pairs = append(pairs, chainUnit, u)
	}
	return c.add(ctx, gitops.Link{Tree: tree, Second: on, When: c.now(),
		Message: message(kindOut, "out: "+strings.Join(units, ", "), pairs...)})
}

// take is the tree with a commit of the branch taken in. has are the units that the branch's commits since the last
// one have. Where that one is no ancestor any more, what somebody took away since stays away.
func (c *chain) take(ctx context.Context, head string, has []string) (tree gitops.Tree, met []gitops.Conflict,
	err error) {
	if tree, err = c.repo.CommitTree(head); err != nil {
		return "", nil, err
	}
	was, err := c.repo.CommitTree(c.on)
	if err != nil {
		return "", nil, err
	}
	if !slices.ContainsFunc(c.units, func(u string) bool { return !slices.Contains(has, u) }) || c.tree == was {
		return tree, nil, nil // nothing is in that the branch lacks
	}
	theirs := head
	if base := c.links[0].hash; c.on == "" || !c.repo.LeadsTo(ctx, head, c.on) {
		if c.on != "" {
			base = c.on
		}
		// For this merge alone: no ref names the commit, and a git gc may delete it before the chain has the result.
		if theirs, err = c.repo.Link(ctx, base, gitops.Link{Tree: tree, Second: head, When: c.now(),
			Message: message(kindBranch, "the branch as it is now", chainBranch, head)}); err != nil {
			return "", nil, err
		}
	}
	return c.repo.Merge(ctx, c.tip, theirs)
}

// took adds the branch's commit, with the tree that take returned.
func (c *chain) took(ctx context.Context, head string, tree gitops.Tree, has []string) error {
	pairs := []string{chainBranch, head}
	for _, u := range has {
		pairs = append(pairs, chainCommitted, u)
	}
	return c.add(ctx, gitops.Link{Tree: tree, Second: head, When: c.now(),
		Message: message(kindBranch, "what the branch got", pairs...)})
}
