package gitops

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"descartes/internal/shell"
)

// Push sends refs to a remote, and what git-lfs sends from its hook. Nothing is forced, and a refused ref does not keep
// the others back. It is a RefusedError where a file of the tree would choose the server that git-lfs asks.
func (r *Repo) Push(ctx context.Context, remote string, refspecs []string) error {
	if err := r.ownLFS(ctx, remote); err != nil {
		return err
	}
	call := gitCall{args: append([]string{"push", "-q", "--", remote}, refspecs...), env: r.reaching(),
		hooks: r.cli.hooks, lfs: r.cli.hooks}
	if r.SkipsPushHook() != "" {
		place, err := os.MkdirTemp(r.l.gitDir, "descartes-hooks-")
		if err == nil {
			defer os.RemoveAll(place)
			err = os.WriteFile(filepath.Join(place, pushHook), []byte(lfsHook), 0o755)
		}
		if err != nil {
			return fmt.Errorf("push without the project's hook: %w", err)
		}
		call.options = []string{"-c", "core.hooksPath=" + place}
	}
	_, err := r.cli.run(ctx, call)
	return err
}

const pushHook = "pre-push"

// lfsHook stands in for a push hook: what git-lfs sends is needed beside the commits.
const lfsHook = `#!/bin/sh
git config --get filter.lfs.clean >/dev/null && command -v git-lfs >/dev/null || exit 0
exec git lfs pre-push "$@"
`

// pushHooks are those that a push runs.
var pushHooks = []string{pushHook, "reference-transaction"}

// SkipsPushHook names a hook for whose sake Push runs none, "" for none: one that lies among the project's files, itself
// or by a link, or that runs some of them, may run what is an agent's, outside its sandbox.
func (r *Repo) SkipsPushHook() string {
	root, err := filepath.EvalSymlinks(r.l.root)
	own, oerr := filepath.EvalSymlinks(r.l.commonDir)
	if !r.cli.hooks || r.cli.hooksOutside || err != nil || oerr != nil {
		return ""
	}
	for _, name := range pushHooks {
		hook, err := filepath.EvalSymlinks(filepath.Join(hooksDir(r.l, r.set), name))
		if err != nil { // there is none
			continue
		}
		if holds(own, hook) || !holds(root, hook) { // it is the user's
			if b, err := os.ReadFile(hook); err == nil && !shell.RunsBelow(root, root, string(b)) {
				continue
			}
			return name
		}
		if rel, err := filepath.Rel(root, hook); err == nil {
			return filepath.ToSlash(rel)
		}
	}
	return ""
}

// holds reports whether a path is below a folder.
func holds(dir, path string) bool {
	rel, err := filepath.Rel(dir, path)
	return err == nil && filepath.IsLocal(rel)
}
