package gitops

import (
	"context"
	"fmt"
	"strings"
)

// Ancestor is a commit in the history of HEAD.
type Ancestor struct {
	Hash    string
	Parent  string // the first; "" for a root
	Subject string
}

// History is a commit and its first parents, the newest first, up to last, which is among them. Where it is not found
// within limit commits ok is false.
func (r *Repo) History(ctx context.Context, from, last string, limit int) (list []Ancestor, ok bool, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for at := from; at != "" && len(list) < limit; {
		c, err := r.store.commit(at)
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return nil, false, fmt.Errorf("read the history of %s: %w", shortHash(from), err)
		}
		a := Ancestor{Hash: at}
		a.Subject, _, _ = strings.Cut(c.Message, "\n")
		if len(c.ParentHashes) > 0 {
			a.Parent = c.ParentHashes[0].String()
		}
		if list = append(list, a); at == last {
			return list, true, nil
		}
		at = a.Parent
	}
	return list, false, nil
}

// Pushed lists the remote branches that hold a commit, as far as this repository knows.
func (r *Repo) Pushed(ctx context.Context, commit string) ([]string, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	b, err := r.cli.run(ctx, gitCall{args: []string{"for-each-ref", "--format=%(refname:short)", "--contains", commit, "refs/remotes/"}})
	if err != nil {
		return nil, fmt.Errorf("look whether %s was pushed: %w", shortHash(commit), err)
	}
	return strings.Fields(string(b)), nil
}

// MakeBranch makes a branch at a commit, without switching to it. One that is there already at that commit is left.
func (r *Repo) MakeBranch(ctx context.Context, name, commit string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	ref := "refs/heads/" + name
	old, err := r.refs.hash(ref)
	switch {
	case err != nil || old == commit:
	case old != "":
		err = &RefusedError{Reason: fmt.Sprintf("branch %q exists", name), Hint: "rename or delete it"}
	default:
		err = r.setRef(ctx, ref, "", commit, "branch: Created from "+commit)
	}
	if err != nil {
		return fmt.Errorf("make branch %s: %w", name, err)
	}
	return nil
}
