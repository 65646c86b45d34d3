package loop

import (
	"context"
	"slices"

	"descartes/gitops"
	"descartes/loop/workspace"
)

// leftBefore are those of uncommitted changes that verifications of earlier loops of the project left behind.
func (h Home) leftBefore(ctx context.Context, repo *gitops.Repo, dirty []string) ([]string, error) {
	all, err := h.List()
	if err != nil || len(dirty) == 0 {
		return nil, err
	}
	var candidates []string
	for _, s := range all {
		if s.State == nil {
			continue
		}
		for _, path := range s.State.VerifyLeft {
			if slices.Contains(dirty, path) && !slices.Contains(candidates, path) {
				candidates = append(candidates, path)
			}
		}
	}
	if len(candidates) == 0 {
		return nil, nil
	}
	now, err := repo.Snapshot(ctx)
	if err != nil {
		return nil, err
	}
	return workspace.Untracked(ctx, repo, now, candidates)
}

// without leaves out of a list what another has.
func without(list, out []string) []string {
	return slices.DeleteFunc(slices.Clone(list), func(p string) bool { return slices.Contains(out, p) })
}
