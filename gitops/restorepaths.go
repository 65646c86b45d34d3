package gitops

import (
	"context"
	"fmt"
	"slices"
)

// RestorePaths writes these files as a snapshot has them and touches nothing else. A path that the snapshot does
// not have is passed over.
func (r *Repo) RestorePaths(ctx context.Context, to Tree, paths []string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	id, err := parseID(string(to))
	if err != nil {
		return fmt.Errorf("restore %d files: %w", len(paths), err)
	}
	if !r.viaGit {
		err := r.restorePathsNative(ctx, id, paths)
		if err == nil {
			return nil
		}
		r.tree = nil
		if !r.fallBack(&err) {
			return fmt.Errorf("restore %d files: %w", len(paths), err)
		}
	}
	return r.cli.checkout(ctx, to, paths)
}

func (r *Repo) restorePathsNative(ctx context.Context, to objectID, paths []string) error {
	if err := r.scan(ctx, false); err != nil {
		return err
	}
	p := restorePlan{reader: &r.store.reader, guard: r.guard}
	if err := p.compare(r.tree.root, &to, "", 0); err != nil {
		return err
	}
	only := &restorePlan{reader: p.reader, guard: p.guard}
	for _, w := range p.writes {
		if slices.Contains(paths, w.path) {
			only.writes = append(only.writes, w)
		}
	}
	return r.carryOut(only)
}
