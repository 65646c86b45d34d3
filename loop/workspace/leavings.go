package workspace

import (
	"context"
	"path"
	"path/filepath"
	"slices"
	"time"

	"descartes/gitops"
)

// Leavings are files that only the verify command made and that git does not ignore: a binary, a report, a cache. They stay where they are,
// uncommitted, and are nobody's work. Lock files of package managers are work: a build that updates one does so for the project.

// leavings returns those of one verification: before is the tree before the attempt, agent the one at its agent's end, after the one after the
// verification. known are the earlier ones; taken are those of them that the agent made its own.
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
	if left, err = Untracked(ctx, repo, after, candidates); err != nil {
		return nil, nil, nil, err
	}
	for _, c := range changed {
		if !slices.Contains(left, c.Path) {
			work = append(work, c)
		}
	}
	return left, taken, work, nil
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

// Untracked returns the paths that the tree has and HEAD lacks.
func Untracked(ctx context.Context, repo *gitops.Repo, tree gitops.Tree, candidates []string) (out []string, err error) {
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

// without returns list minus the elements of out.
func without(list, out []string) []string {
	return slices.DeleteFunc(slices.Clone(list), func(p string) bool { return slices.Contains(out, p) })
}

// lockFile reports whether a package manager records chosen versions in the file: a build that updates it does so for the project.
func lockFile(path string) bool {
	switch filepath.Base(path) {
	case "go.sum", "go.work.sum", "Cargo.lock", "package-lock.json", "npm-shrinkwrap.json", "yarn.lock", "pnpm-lock.yaml", "bun.lock", "bun.lockb", "deno.lock",
		"uv.lock", "poetry.lock", "pdm.lock", "Pipfile.lock", "pixi.lock", "conda-lock.yml", "Gemfile.lock", "composer.lock", "mix.lock", "rebar.lock", "pubspec.lock",
		"Podfile.lock", "Package.resolved", "packages.lock.json", "paket.lock", "gradle.lockfile", "flake.lock", "Manifest.toml", "cabal.project.freeze", "stack.yaml.lock", "renv.lock":
		return true
	}
	return false
}
