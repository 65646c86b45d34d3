package workspace

import (
	"context"
	"path"
	"slices"
	"time"

	"descartes/gitops"
	"descartes/internal/lockfile"
)

// leavings returns the files that only a verification made and that git does not ignore: a binary, a report, a cache. They are nobody's work. What else
// it changed is work: lock files of package managers too, which a build updates for the project. before is the tree before the attempt, agent the one
// at its agent's end, after the one after the verification.
func leavings(ctx context.Context, repo *gitops.Repo, before, agent, after gitops.Tree) (left []string, work []gitops.Change, err error) {
	changed, err := repo.Changed(ctx, agent, after)
	if err != nil {
		return nil, nil, err
	}
	byAgent, err := repo.Changed(ctx, before, agent)
	if err != nil {
		return nil, nil, err
	}
	whole, err := repo.Changed(ctx, before, after)
	if err != nil {
		return nil, nil, err
	}
	new := pathSet(whole, func(c gitops.Change) bool { return c.Op == 'A' })
	touched := pathSet(byAgent, nil)
	for _, c := range changed {
		if !touched[c.Path] && !lockFile(c.Path) && c.Op == 'A' && new[c.Path] {
			left = append(left, c.Path)
		} else {
			work = append(work, c)
		}
	}
	return left, work, nil
}

// uncovered returns files from before the attempt that git ignored and that now look like additions, except in folders that the attempt moved.
func uncovered(repo *gitops.Repo, changed []gitops.Change, began time.Time) []string {
	var added []string
	gone := map[string]bool{}
	for _, c := range changed {
		switch c.Op {
		case 'A':
			added = append(added, c.Path)
		case 'D':
			gone[path.Base(c.Path)] = true
		}
	}
	return slices.DeleteFunc(repo.OlderThan(added, began), func(p string) bool { return gone[path.Base(p)] })
}

// pathSet returns the paths of the wanted changes; nil wants all.
func pathSet(changes []gitops.Change, want func(gitops.Change) bool) map[string]bool {
	out := map[string]bool{}
	for _, c := range changes {
		if want == nil || want(c) {
			out[c.Path] = true
		}
	}
	return out
}

// lockFile reports whether a package manager records chosen versions in the file: a build that updates it does so for the project.
func lockFile(path string) bool {
	f, ok := lockfile.Of(path)
	return ok && !f.ByHand
}
