package trunk

import (
	"context"
	"fmt"

	"descartes/gitops"
	"descartes/internal/oneline"
	"descartes/loop/slot"
)

// Branch is what gets the commits of a run.
type Branch struct {
	Ref   string // its files follow if it is checked out; "" for a detached HEAD
	Aside string // of the branch for commits that the user's files cannot follow
	Else  string // takes its place where others' commits are there; "" for none
}

// Followed is what came of moving a branch to a commit.
type Followed struct {
	Ref    string           // what has the commit: the branch, or the one aside
	Left   []gitops.LeftOut // why the user's files could not follow; nil where they did, or were not to
	Behind bool             // the branch is not checked out: the user's files stay as they are
}

// Follow moves a branch from tip to a commit, together with the user's files if it is checked out. Where these cannot
// follow, the branch aside gets the commit. again says that an earlier call was cut short. The caller has the working
// tree.
func (b Branch) Follow(ctx context.Context, repo *gitops.Repo, tip, commit string, again bool) (f Followed, err error) {
	f.Ref = b.Ref
	head, err := repo.Head(ctx)
	if b.Ref == "" && err == nil && head.Branch != "" {
		f.Left = []gitops.LeftOut{{Path: ShortRef(head.Branch),
			Why: "it was checked out meanwhile, and the run began on a detached HEAD"}}
	} else {
		f.Left, err = repo.Advance(ctx, b.Ref, tip, commit, again)
	}
	if err != nil {
		return f, err
	}
	if len(f.Left) > 0 {
		f.Ref, err = b.aside(ctx, repo, commit, f.Left)
		return f, err
	}
	head, err = repo.Head(ctx)
	f.Behind = head.Branch != b.Ref
	return f, err
}

// aside makes the branch aside, or moves it forward, and returns it.
func (b Branch) aside(ctx context.Context, repo *gitops.Repo, commit string, left []gitops.LeftOut) (string, error) {
	if b.Ref == b.Aside {
		return b.Ref, &gitops.RefusedError{Reason: "the branch " + ShortRef(b.Ref) + " cannot get the commit: " +
			gitops.Reasons(left),
			Hint: "check out another branch, or commit or stash your changes, then resume the run"}
	}
	name := ShortRef(b.Aside)
	at, err := repo.RefCommit(b.Aside)
	if err != nil {
		return b.Aside, err
	}
	taken, why := "", ""
	if at == "" {
		taken, err = repo.NoRoom(ctx, b.Aside)
		taken = ShortRef(taken)
		why = "cannot be made beside the branch " + taken
	} else if at != commit && !repo.LeadsTo(ctx, commit, at) {
		if b.Else != "" && b.Else != b.Aside {
			return Branch{Ref: b.Ref, Aside: b.Else}.aside(ctx, repo, commit, left)
		}
		taken, why = name, "has commits that they lack"
	}
	if err != nil || at == commit {
		return b.Aside, err
	}
	if taken != "" {
		return b.Aside, &gitops.RefusedError{Reason: fmt.Sprintf(
			"your working tree cannot follow (%s), and the branch %s, where the commits would go, %s",
			gitops.Reasons(left), name, why),
			Hint: "git branch -m " + taken + " ANOTHER-NAME, then resume the run"}
	}
	return b.Aside, repo.MoveRef(ctx, b.Aside, at, commit, "descartes: commits that the files cannot follow")
}

// Head is the commit of the branch. on is the last one of it that is known.
func (b Branch) Head(ctx context.Context, repo *gitops.Repo, on string) (string, error) {
	head, err := repo.Head(ctx)
	// begun on a detached HEAD: the branch is the user's own affair
	if err == nil && b.Ref == "" && head.Branch != "" && on != "" {
		return on, nil
	}
	if err != nil || b.Ref == "" || b.Ref == head.Branch {
		return head.Hash, err
	}
	at, err := repo.RefCommit(b.Ref)
	if err == nil && at == "" && on != "" {
		err = &gitops.RefusedError{Reason: "the branch " + ShortRef(b.Ref) + ", which gets the commits, is gone",
			Hint: fmt.Sprintf("git branch %s %.12s, then resume the run", ShortRef(b.Ref), on)}
	}
	return at, err
}

// BringNamed brings what an attempt changed in the user's files that its text names into his tree, as uncommitted
// changes. Where they are in the way a ref of the run keeps it, which note says. inTree calls do while nobody else writes
// there.
func BringNamed(ctx context.Context, repo *gitops.Repo, run string, n *slot.Named,
	inTree func(ctx context.Context, do func() error) error) (note string, err error) {
	if !n.Changed() {
		return "", nil
	}
	ctx = context.WithoutCancel(ctx)
	why := ""
	if err := inTree(ctx, func() (err error) {
		why, err = repo.Arrive(ctx, n.Was, n.Has)
		return err
	}); err != nil {
		return "", &slot.GitError{What: "bring changes of " + oneline.List(n.Paths) + " into your tree", Err: err}
	}
	if why == "" {
		return "", nil
	}
	ref := "refs/descartes/" + run + "/named"
	if _, err := repo.Keep(ctx, ref, n.Has, nil,
		"descartes: files that git does not have, as an attempt left them"); err != nil {
		return "", &slot.GitError{What: "keep changes of " + oneline.List(n.Paths), Err: err}
	}
	return fmt.Sprintf("your tree cannot take what it changed in %s, which is not committed: %s; it is kept as %s",
		oneline.List(n.Paths), why, ref), nil
}
