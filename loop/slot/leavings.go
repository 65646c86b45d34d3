package slot

import (
	"context"
	"path"
	"slices"
	"time"

	"descartes/gitops"
	"descartes/internal/lockfile"
)

// leavings parts what changed after the agent's end into files that only a verification made and that git does not
// ignore (a binary, a report, a cache), which are nobody's work, and the rest, which is: lock files of package
// managers too, which a build updates for the project. all are the changes of the whole attempt: a file that the agent
// deleted is no new one.
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

// uncovered returns files that git ignored before the attempt and that now look like additions, changed or not, except
// in folders that the attempt moved: those of the user's, and what is older than began. What the attempt started with
// (an earlier one's work, commits of others that it takes in) is none of them, however old.
func (s *Slot) uncovered(ctx context.Context, r *Result, began time.Time) ([]string, error) {
	var added []string
	gone := map[string]bool{}
	for _, c := range r.Changed {
		switch c.Op {
		case 'A':
			added = append(added, c.Path)
		case 'D':
			gone[path.Base(c.Path)] = true
		}
	}
	if len(added) == 0 {
		return nil, nil
	}
	if r.Before != s.start.Before {
		laid, err := s.git.Changed(ctx, r.Before, s.start.Before)
		if err != nil {
			return nil, gitErr("compare what the attempt started with", err)
		}
		had := map[string]bool{}
		for _, c := range laid {
			had[c.Path] = c.Op != 'D'
		}
		added = slices.DeleteFunc(added, func(p string) bool { return had[p] })
	}
	ignored, err := s.ignored(ctx)
	if err != nil {
		return nil, err
	}
	var old []string
	if !s.forChecks() { // which has of the work what a commit has, of whatever age
		old = s.git.OlderThan(added, began)
	}
	return slices.DeleteFunc(added, func(p string) bool {
		return gone[path.Base(p)] || !ignored(p) && !slices.Contains(old, p)
	}), nil
}
