package gitops

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/object"
)

// Keep makes a commit of a tree and sets a ref to it, whatever the ref named before. Afterwards both are on the disk.
func (r *Repo) Keep(ctx context.Context, ref string, tree Tree, parents []string, message string) (hash string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	hash, err = r.keep(ctx, ref, tree, parents, message, r.people.keeper(ctx), time.Now())
	if err != nil {
		return "", fmt.Errorf("keep %s: %w", ref, err)
	}
	return hash, nil
}

// Pin keeps a tree from being pruned, by a ref to a commit of it without parents.
func (r *Repo) Pin(ctx context.Context, ref string, tree Tree) error {
	_, err := r.Keep(ctx, ref, tree, nil, "snapshot")
	return err
}

func (r *Repo) keep(ctx context.Context, ref string, tree Tree, parents []string, message string, who person, now time.Time) (string, error) {
	if !validRef(ref) {
		return "", fmt.Errorf("%q is no valid ref name", ref)
	}
	id, err := parseID(string(tree))
	if err != nil {
		return "", err
	}
	if id == emptyTreeID { // the only tree that can be named without having been written
		if _, err := r.store.put(kindTree, nil); err != nil {
			return "", err
		}
	}
	if !r.store.has(id) {
		return "", fmt.Errorf("the snapshot %s is gone: somebody pruned the repository", tree)
	}
	commit, err := r.putCommit(id, parents, message, who, who, now)
	if err != nil {
		return "", err
	}
	if err := r.store.writeOut(); err != nil {
		return "", err
	}
	subject, _, _ := strings.Cut(message, "\n")
	if err := r.forceRef(ctx, ref, commit.String(), subject); err != nil {
		return "", err
	}
	return commit.String(), r.attempts.add(r, ref, commit.String())
}

// putCommit stores a commit object.
func (r *Repo) putCommit(tree objectID, parents []string, message string, author, committer person, when time.Time) (objectID, error) {
	if !strings.HasSuffix(message, "\n") {
		message += "\n"
	}
	c := object.Commit{TreeHash: plumbing.Hash(tree), Message: message,
		Author:    object.Signature{Name: author.name, Email: author.email, When: when},
		Committer: object.Signature{Name: committer.name, Email: committer.email, When: when}}
	for _, p := range parents {
		id, err := parseID(p)
		if err != nil {
			return objectID{}, err
		}
		c.ParentHashes = append(c.ParentHashes, plumbing.Hash(id))
	}
	return r.store.putCommit(&c)
}

// Refs lists the refs whose names start with prefix, which ends in a slash or names a directory of refs,
// sorted by name. Those that name no commit are left out.
func (r *Repo) Refs(ctx context.Context, prefix string) ([]Ref, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !strings.HasPrefix(prefix, "refs/") {
		return nil, fmt.Errorf("list refs: %q is not below refs/", prefix)
	}
	hashes, names, err := r.refs.list(prefix)
	if err != nil {
		return nil, err
	}
	var out []Ref
	for _, n := range names {
		c, err := r.store.commit(hashes[n])
		if err != nil {
			continue
		}
		ref := Ref{Name: n, Hash: hashes[n], Message: c.Message, When: c.Committer.When}
		out = append(out, ref)
	}
	return out, nil
}

// DeleteRef deletes a ref; one that is not there is no error.
func (r *Repo) DeleteRef(ctx context.Context, name string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.removeRef(ctx, name); err != nil {
		return fmt.Errorf("delete ref %s: %w", name, err)
	}
	return nil
}
