package workspace

import (
	"path"
	"slices"
	"time"

	"descartes/gitops"
	"descartes/internal/lockfile"
)

// leavings parts what changed after the agent's end into files that only a verification made and that git does not ignore (a binary, a report, a
// cache), which are nobody's work, and the rest, which is: lock files of package managers too, which a build updates for the project. all are the
// changes of the whole attempt: a file that the agent deleted is no new one.
func leavings(changed, all []gitops.Change) (left []string, work []gitops.Change) {
	made := map[string]bool{}
	for _, c := range all {
		made[c.Path] = c.Op == 'A'
	}
	for _, c := range changed {
		lock, ok := lockfile.Of(c.Path)
		if c.Op == 'A' && made[c.Path] && (!ok || lock.ByHand) {
			left = append(left, c.Path)
		} else {
			work = append(work, c)
		}
	}
	return left, work
}

// uncovered returns files that git ignored before the attempt and that now look like additions, changed or not, except in folders that the attempt
// moved. mine gives which files of the user's git ignored when the run began.
func uncovered(repo *gitops.Repo, changed []gitops.Change, began time.Time, mine func() func(path string) bool) []string {
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
	list := repo.OlderThan(added, began)
	if len(added) > 0 {
		ignored := mine()
		list = append(list, slices.DeleteFunc(slices.Clone(added), func(p string) bool { return !ignored(p) })...)
		slices.Sort(list)
		list = slices.Compact(list)
	}
	return slices.DeleteFunc(list, func(p string) bool { return gone[path.Base(p)] })
}
