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

// Lost are the tasks that a run's commits brought to a branch and that it has no more: somebody took them away. Where
// their work is there in another form, reworded, squashed or rebased, they are not lost.
func (c *Chain) Lost(ctx context.Context, repo *gitops.Repo, head, tag, run string,
	commits []journal.WaveCommit) (lost []string, err error) {
	if c.On == "" || repo.LeadsTo(ctx, head, c.On) {
		return nil, nil
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
