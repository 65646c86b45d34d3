package gitops

import (
	"context"
	"strings"
)

// LastChange is the newest commit of HEAD's history that changed a path below the root, and its author; both are "" where there is
// none, or where the file in the working tree differs from HEAD's. No program that the settings name is run for it.
func (r *Repo) LastChange(ctx context.Context, path string) (commit, author string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	b, err := r.cli.run(ctx, gitCall{options: literally, args: []string{"status", "--porcelain", "--ignored", "--ignore-submodules=all", "--", path}})
	if err != nil || len(b) > 0 {
		return "", "", err
	}
	b, err = r.cli.run(ctx, gitCall{options: literally, args: []string{"log", "-1", "--no-show-signature", "--no-mailmap", "--format=%h%x00%an", "--", path}})
	commit, author, _ = strings.Cut(strings.TrimSuffix(string(b), "\n"), "\x00")
	return commit, author, err
}
