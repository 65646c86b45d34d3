package loop

import (
	"context"
	"path"
	"path/filepath"
	"slices"
	"time"

	"descartes/gitops"
)

// Leavings are files that only the verify command made and that git does not ignore: a binary, a report, a cache. They
// stay where they are, are in no commit, and are nobody's work. The lock files of package managers are work: a build
// that brings one up to date does so for the project.

// leavings are those of one verification: before is the tree before the attempt, agent that at the end of its agent,
// after that at the end of the verification. known are those of earlier ones; taken are those of them that the agent
// made its own.
func leavings(ctx context.Context, repo *gitops.Repo, before, agent, after gitops.Tree, known []string) (left, taken []string, work []gitops.Change, err error) {
	changed, err := repo.Changed(ctx, agent, after)
	if err != nil {
		return nil, nil, nil, err
	}
	byAgent, err := repo.Changed(ctx, before, agent)
	if err != nil {
		return nil, nil, nil, err
	}
	whole, err := repo.Changed(ctx, before, after)
	if err != nil {
		return nil, nil, nil, err
	}
	new := pathSet(whole, func(c gitops.Change) bool { return c.Op == 'A' })
	touched := pathSet(byAgent, nil)
	for path := range touched {
		if slices.Contains(known, path) {
			taken = append(taken, path)
		}
	}
	slices.Sort(taken)
	var candidates []string
	for _, c := range changed {
		if !touched[c.Path] && !lockFile(c.Path) && (c.Op == 'A' && new[c.Path] || slices.Contains(known, c.Path)) {
			candidates = append(candidates, c.Path)
		}
	}
	if left, err = untracked(ctx, repo, after, candidates); err != nil {
		return nil, nil, nil, err
	}
	for _, c := range changed {
		if !slices.Contains(left, c.Path) {
			work = append(work, c)
		}
	}
	return left, taken, work, nil
}

const uncoveredStay = "files of yours that git ignored before the attempt stay where they are, and no commit will hold them, though it changed what is ignored or staged them by force: "

// uncovered are the files that were there before the attempt, ignored by git, and show as added by it. Files of folders
// that it moved are old too, and none of these.
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

// pathSet are those of changes that are wanted; nil wants all.
func pathSet(changes []gitops.Change, want func(gitops.Change) bool) map[string]bool {
	out := map[string]bool{}
	for _, c := range changes {
		if want == nil || want(c) {
			out[c.Path] = true
		}
	}
	return out
}

// untracked are those of the paths that HEAD does not have and the tree has.
func untracked(ctx context.Context, repo *gitops.Repo, tree gitops.Tree, candidates []string) (out []string, err error) {
	if len(candidates) == 0 {
		return nil, nil
	}
	head, err := repo.HeadTree(ctx)
	if err != nil {
		return nil, err
	}
	changed, err := repo.Changed(ctx, head, tree)
	if err != nil {
		return nil, err
	}
	added := pathSet(changed, func(c gitops.Change) bool { return c.Op == 'A' })
	for _, path := range candidates {
		if added[path] {
			out = append(out, path)
		}
	}
	return out, nil
}

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
	return untracked(ctx, repo, now, candidates)
}

// without leaves out of a list what another has.
func without(list, out []string) []string {
	return slices.DeleteFunc(slices.Clone(list), func(p string) bool { return slices.Contains(out, p) })
}

// lockFile reports whether a file is one in which a package manager writes down the versions that it chose: a build
// that brings it up to date does so for the project.
func lockFile(path string) bool {
	switch filepath.Base(path) {
	case "go.sum", "go.work.sum", "Cargo.lock", "package-lock.json", "npm-shrinkwrap.json", "yarn.lock", "pnpm-lock.yaml", "bun.lock", "bun.lockb", "deno.lock",
		"uv.lock", "poetry.lock", "pdm.lock", "Pipfile.lock", "pixi.lock", "conda-lock.yml", "Gemfile.lock", "composer.lock", "mix.lock", "rebar.lock", "pubspec.lock",
		"Podfile.lock", "Package.resolved", "packages.lock.json", "paket.lock", "gradle.lockfile", "flake.lock", "Manifest.toml", "cabal.project.freeze", "stack.yaml.lock", "renv.lock":
		return true
	}
	return false
}
