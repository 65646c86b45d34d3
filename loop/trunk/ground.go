// Package trunk owns the chain of commits of everything that a run merged, and the branch that gets them: what comes in,
// what becomes of it, where a run begins, and how one goes back. It knows no run.
package trunk

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"descartes/gitops"
	"descartes/internal/oneline"
	"descartes/internal/safename"
	"descartes/loop/journal"
	"descartes/loop/store"
)

// HoldsWork reports whether a loop's trunk has verified work that no branch has.
func HoldsWork(ctx context.Context, repo *gitops.Repo, trunk string) (bool, error) {
	c := Chain{Repo: repo, Ref: trunk}
	_, err := c.Read(ctx)
	return len(c.Units) > 0, err
}

// CanBegin reports, as a RefusedError, why a new run, over the tag name or a prompt loop of that name, cannot begin at
// a branch, "" being a detached HEAD, because of what an earlier one left. done says which tasks are done; nil for a
// prompt loop.
func CanBegin(ctx context.Context, repo *gitops.Repo, branch, name string, done func(task string) bool) error {
	if done != nil {
		if last, err := LeftBy(ctx, repo, branch, name, done); err != nil || last != nil {
			return err
		}
	}
	_, _, err := GroundOf(ctx, repo, branch, AsideOf(name))
	return err
}

// Elsewhere is the ref with the work of runs over a tag that a branch, "" being a detached HEAD, lacks, "" for none:
// the branch aside, or the trunk with work that was not committed, whose tasks are named.
func Elsewhere(ctx context.Context, repo *gitops.Repo, branch, tag string) (ref string, loose []string, err error) {
	last, err := LeftBy(ctx, repo, branch, tag, func(string) bool { return true })
	if err != nil {
		return "", nil, err
	}
	if last != nil {
		return store.TagTrunkRef(tag), last.Units, nil
	}
	on, err := TipOf(ctx, repo, branch)
	if err != nil {
		return "", nil, err
	}
	if _, ours, err := aheadOf(ctx, repo, on, AsideOf(tag)); err != nil || !ours {
		return "", nil, err
	}
	return ShortRef(AsideOf(tag)), nil, nil
}

// Other is the branch that has the work of a tag's runs that another branch, "" being a detached HEAD, lacks, and the
// tasks whose commits these are; "" for none. commits are those that runs here made, oldest first. What was reworded,
// squashed or rebased since is not lacking, nor is what the branch aside has, from which the next run goes on; what no
// branch has any more is nobody's.
func Other(ctx context.Context, repo *gitops.Repo, branch, tag string, commits []journal.WaveCommit) (ref string,
	done []string, err error) {
	head, err := TipOf(ctx, repo, branch)
	if err != nil || head == "" {
		return "", nil, err
	}
	for _, c := range slices.Backward(commits) {
		if len(c.Tasks) == 0 || repo.LeadsTo(ctx, head, c.Commit) {
			continue
		}
		at, err := repo.RefsWith(ctx, c.Commit, "refs/heads/")
		if err != nil || len(at) == 0 || slices.Contains(at, AsideOf(tag)) { // an error: git may have deleted it by now
			continue
		}
		if tip, err := repo.RefCommit(at[0]); err != nil || Holds(ctx, repo, head, tip) {
			continue
		}
		ref, done = cmp.Or(ref, at[0]), append(done, c.Tasks...)
	}
	return ref, done, nil
}

// KeptAs says where work on tasks is that is in no commit of the user's.
func KeptAs(tasks []string, ref string) string {
	word := "tasks"
	if len(tasks) == 1 {
		word = "task"
	}
	return fmt.Sprintf("the work done on %s %s is kept as %s", word, oneline.List(tasks), ref)
}

// OnBranch says where commits are that the user's files did not follow.
func OnBranch(name, merging string) string {
	return fmt.Sprintf("on the branch %s; to bring them here: %s", name, merging)
}

// aheadOf is the commit of the branch aside if another lacks it, else "". ours says that a run made it.
func aheadOf(ctx context.Context, repo *gitops.Repo, on, aside string) (at string, ours bool, err error) {
	if at, err = repo.RefCommit(aside); err != nil || at == "" || on == "" {
		return "", false, err
	}
	if err := repo.Meet(ctx, on, at); err != nil {
		return "", false, err
	}
	if repo.LeadsTo(ctx, on, at) || Holds(ctx, repo, on, at) {
		return "", false, err
	}
	list, err := repo.News(ctx, on, at, "Descartes-Loop", "")
	return at, len(list) > 0, err
}

// LeftBy is the trunk of the last run over a tag, if a new one is to begin there; nil if not.
func LeftBy(ctx context.Context, repo *gitops.Repo, branch, tag string, done func(task string) bool) (*Chain, error) {
	ref, last := store.TagTrunkRef(tag), &Chain{Repo: repo}
	found, err := last.ReadAt(ctx, ref)
	if err != nil || !found || len(last.Units) == 0 {
		return nil, err
	}
	head, err := TipOf(ctx, repo, branch)
	// somebody merged it
	if err != nil || repo.LeadsTo(ctx, head, last.Tip) || head != "" && Holds(ctx, repo, head, last.Tip) {
		return nil, err
	}
	again := slices.DeleteFunc(slices.Clone(last.Units), done)
	switch {
	case len(again) == len(last.Units): // all of it is to be done again
		return nil, nil
	case len(again) > 0:
		return nil, &gitops.RefusedError{Reason: fmt.Sprintf(
			"%s holds verified work on %s that is not committed, and %s is to be done again", ref,
			oneline.List(last.Units), oneline.List(again)),
			Hint: repo.Merging(ctx, ref) + ", or set the others to pending too, then start again"}
	}
	if did, err := committedSince(ctx, repo, last, head, tag); err != nil || did {
		return nil, err
	}
	return last, nil
}

// committedSince reports whether all units of a tag's trunk were committed since. Trailers of earlier versions name a
// task without its tag: they count where runs made them that go on from the trunk.
func committedSince(ctx context.Context, repo *gitops.Repo, last *Chain, head, tag string) (bool, error) {
	news, err := repo.News(ctx, last.On, head, "Descartes-Task", "")
	if err != nil || len(news) == 0 {
		return false, err
	}
	runs, err := repo.RefsWith(ctx, last.Tip, store.TrunkRef("*"))
	if err != nil {
		return false, err
	}
	done := map[string]bool{}
	for _, c := range news {
		ours := slices.ContainsFunc(c.Trailers["Descartes-Loop"],
			func(id string) bool { return slices.Contains(runs, store.TrunkRef(id)) })
		for _, n := range c.Tasks() {
			if n.Tag == oneline.Text(tag) || n.Tag == "" && ours {
				done[n.Task] = true
			}
		}
	}
	return !slices.ContainsFunc(last.Units, func(id string) bool { return !done[oneline.Text(id)] }), nil
}

// GroundOf is the commit of a branch that a new run is to begin at, and the one where the branch aside is ahead of it,
// "" for none.
func GroundOf(ctx context.Context, repo *gitops.Repo, branch, aside string) (on, ahead string, err error) {
	if on, err = TipOf(ctx, repo, branch); err != nil {
		return "", "", err
	}
	at, ours, err := aheadOf(ctx, repo, on, aside)
	if err != nil || at == "" {
		return on, "", err
	}
	name, here := ShortRef(aside), cmp.Or(ShortRef(branch), "HEAD")
	if !ours {
		return "", "", &gitops.RefusedError{Reason: "the branch " + name +
			", where runs put commits that your files cannot follow, was not made by a run",
			Hint: "git branch -m " + name + " ANOTHER-NAME"}
	}
	if !repo.LeadsTo(ctx, at, on) {
		return "", "", &gitops.RefusedError{Reason: fmt.Sprintf(
			"an earlier run's commits are on the branch %s, and %s has moved on since", name, here),
			Hint: repo.Merging(ctx, name) + ", then start again"}
	}
	return on, at, nil
}

// TipOf is the commit of a branch, and of HEAD where it is to be made.
func TipOf(ctx context.Context, repo *gitops.Repo, branch string) (string, error) {
	if branch != "" {
		if at, err := repo.RefCommit(branch); err != nil || at != "" {
			return at, err
		}
	}
	head, err := repo.Head(ctx)
	return head.Hash, err
}

func AsideOf(name string) string { return "refs/heads/descartes/" + safename.Of(name) }

func ShortRef(ref string) string { return strings.TrimPrefix(ref, "refs/heads/") }

// Holds reports whether a commit has all that another brings, task lists aside.
func Holds(ctx context.Context, repo *gitops.Repo, head, commit string) bool {
	merged, met, err := repo.Merge(ctx, head, commit)
	if err != nil || len(met) > 0 {
		return false
	}
	is, err := repo.CommitTree(head)
	if err != nil {
		return false
	}
	changes, err := repo.Changed(ctx, is, merged)
	return err == nil && len(changes) == 0
}
