package gitops

import (
	"context"
	"fmt"
	"strings"
)

// CanBranch reports, as a RefusedError, why NewBranch would not make a branch.
func (r *Repo) CanBranch(name string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, _, err := r.freeBranch(name)
	return err
}

// freeBranch is where HEAD stands when a branch of that name can be made there.
func (r *Repo) freeBranch(name string) (at, hash string, err error) {
	ref := "refs/heads/" + name
	if !validRef(ref) || strings.HasPrefix(name, "-") || name == "HEAD" {
		return "", "", &RefusedError{Reason: fmt.Sprintf("%q is no valid branch name", name)}
	}
	if at, hash, err = r.refs.head(); err != nil {
		return "", "", fmt.Errorf("make branch %s: %w", name, err)
	}
	if at == ref {
		return at, hash, nil
	}
	old, err := r.refs.hash(ref)
	if err != nil {
		return "", "", fmt.Errorf("make branch %s: %w", name, err)
	}
	if old != "" {
		return "", "", &RefusedError{Reason: fmt.Sprintf("branch %q exists", name), Hint: "git switch " + name + " to work on it, or choose another name"}
	}
	return at, hash, nil
}

// NewBranch makes a branch at HEAD and switches to it; neither the index nor a file changes. On that branch
// already, it does nothing; one that exists elsewhere is a RefusedError.
func (r *Repo) NewBranch(ctx context.Context, name string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	ref := "refs/heads/" + name
	at, hash, err := r.freeBranch(name)
	if err != nil || at == ref {
		return err
	}
	was := strings.TrimPrefix(at, "refs/heads/")
	if was == "" {
		was = hash
	}
	if hash != "" {
		if err := r.setRef(ctx, ref, "", hash, "branch: Created from HEAD"); err != nil {
			return fmt.Errorf("make branch %s: %w", name, err)
		}
	}
	if err := r.pointHead(ctx, ref, "checkout: moving from "+was+" to "+name); err != nil {
		return fmt.Errorf("switch to branch %s: %w", name, err)
	}
	return nil
}

// pointHead makes HEAD name a branch; no file changes.
func (r *Repo) pointHead(ctx context.Context, ref, message string) error {
	_, err := r.cli.run(ctx, gitCall{options: r.people.asKeeper(ctx), args: []string{"symbolic-ref", "-m", message, "HEAD", ref}})
	return err
}
