package trunk

import (
	"context"
	"slices"

	"descartes/gitops"
	"descartes/internal/oneline"
	"descartes/loop/journal"
)

// Meanwhile is what a branch got since the chain took it in last, and what the two make together.
type Meanwhile struct {
	Commits []gitops.ChainLink // of the run's own
	Has     []string           // units that these have
	Base    gitops.Tree        // of the branch's commit
	Tree    gitops.Tree        // with it taken in
	Met     []gitops.Conflict  // where the two conflict; then there is no tree
}

// TakeIn says what taking in a branch's commit makes; Took does it. Trailers say which commits are the run's own.
func (c *Chain) TakeIn(ctx context.Context, repo *gitops.Repo, head, tag, run string) (m Meanwhile, err error) {
	if m.Commits, err = repo.News(ctx, c.On, head, "Descartes-Loop", run); err != nil {
		return m, err
	}
	for _, one := range m.Commits {
		m.Has = append(m.Has, one.TasksOf(tag)...)
	}
	if m.Base, err = repo.CommitTree(head); err != nil {
		return m, err
	}
	m.Tree, m.Met, err = c.Take(ctx, head, m.Has)
	return m, err
}

// Lost are the tasks that a run's commits brought to a branch and that it has no more: somebody dropped them, or
// reverted them. Where their work is there in another form, reworded, squashed or rebased, they are not lost.
func (c *Chain) Lost(ctx context.Context, repo *gitops.Repo, head, tag, run string,
	commits []journal.WaveCommit) (lost []string, err error) {
	if c.On == "" {
		return nil, nil
	}
	if repo.LeadsTo(ctx, head, c.On) {
		return c.reverted(ctx, repo, head, run, commits)
	}
	was, err := repo.CommitTree(c.On)
	if err != nil {
		return nil, err
	}
	if is, err := repo.CommitTree(head); err != nil || is == was { // only words have changed
		return nil, err
	}
	there, err := repo.News(ctx, "", head, "Descartes-Loop", run)
	if err != nil {
		return nil, err
	}
	for _, w := range commits {
		if Holds(ctx, repo, head, w.Commit) {
			continue
		}
		for _, id := range w.Tasks {
			if !slices.ContainsFunc(c.Links, func(l Link) bool { return l.Unit == oneline.Text(id) }) {
				continue // it brought nothing of that: nothing had to be done
			}
			if !slices.ContainsFunc(there, func(one gitops.ChainLink) bool {
				return slices.Contains(one.TasksOf(tag), oneline.Text(id))
			}) {
				lost = append(lost, id)
			}
		}
	}
	return lost, nil
}

// reverted are the tasks of a run's commits that others, since the last one taken in, undid: a commit of somebody else
// that changes nothing but what the run's commits changed, and makes of all that one of them changed what there would be
// without it. Who moves a file, or changes what is in it, has undone nothing.
func (c *Chain) reverted(ctx context.Context, repo *gitops.Repo, head, run string, commits []journal.WaveCommit) (
	tasks []string, err error) {
	_, others, err := c.News(ctx, repo, head, run)
	if err != nil || len(others) == 0 || len(commits) == 0 {
		return nil, err
	}
	is, err := repo.CommitTree(head)
	if err != nil {
		return nil, err
	}
	on, err := repo.CommitTree(c.On)
	if err != nil {
		return nil, err
	}
	now, err := pathsBetween(ctx, repo, on, is)
	if err != nil {
		return nil, err
	}
	ours, all := make([]map[string]bool, len(commits)), map[string]bool{}
	for i, w := range commits {
		changes, err := repo.CommitChanges(ctx, w.Commit)
		if err != nil {
			return nil, err
		}
		ours[i] = map[string]bool{}
		for _, x := range changes {
			ours[i][x.Path], all[x.Path] = true, true
		}
	}
	for _, other := range others[:min(len(others), maxTaken)] {
		theirs, err := repo.CommitChanges(ctx, other.Hash)
		if err != nil {
			return nil, err
		}
		if len(other.Parents) != 1 || len(theirs) == 0 ||
			slices.ContainsFunc(theirs, func(x gitops.Change) bool { return !all[x.Path] }) {
			continue
		}
		for i, w := range commits {
			undone, err := undoes(ctx, repo, other, theirs, w.Commit, ours[i])
			if err != nil {
				return nil, err
			}
			if undone && meets(now, ours[i]) { // else he took that back
				tasks = append(tasks, w.Tasks...)
			}
		}
	}
	slices.Sort(tasks)
	return slices.Compact(tasks), nil
}

// undoes reports whether a commit, which changes these paths, takes back all that an earlier one changed.
func undoes(ctx context.Context, repo *gitops.Repo, later gitops.ChainLink, changes []gitops.Change, commit string,
	paths map[string]bool) (bool, error) {
	n := 0
	for _, x := range changes {
		if paths[x.Path] {
			n++
		}
	}
	if n < len(paths) || n == 0 {
		return false, nil
	}
	made, err := repo.ReadCommit(commit)
	if err != nil {
		return false, err
	}
	before, err := repo.CommitTree(made.Parent())
	if err != nil {
		return false, err
	}
	stood, err := repo.CommitTree(later.Parent())
	if err != nil {
		return false, err
	}
	without, met, err := repo.MergeTrees(ctx, made.Tree, stood, before)
	if err != nil {
		return false, err
	}
	candidates := []gitops.Tree{before}
	if len(met) == 0 {
		candidates = append(candidates, without)
	}
	for _, tree := range candidates {
		differs, err := pathsBetween(ctx, repo, tree, later.Tree)
		if err != nil {
			return false, err
		}
		if !meets(differs, paths) {
			return true, nil
		}
	}
	return false, nil
}

func pathsBetween(ctx context.Context, repo *gitops.Repo, from, to gitops.Tree) (map[string]bool, error) {
	changes, err := repo.Changed(ctx, from, to)
	paths := make(map[string]bool, len(changes))
	for _, x := range changes {
		paths[x.Path] = true
	}
	return paths, err
}

func meets(a, b map[string]bool) bool {
	for path := range b {
		if a[path] {
			return true
		}
	}
	return false
}
