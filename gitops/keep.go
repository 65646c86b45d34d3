package gitops

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

// Keep makes a commit of a tree and sets a ref to it, whatever the ref named before. Afterwards both are on
// the disk; below refs/descartes/, which is ours alone, they are so with the caller's next fsync on that file
// system, which a run needs anyway for its own record of the attempt.
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
	if !r.store.reader.has(id) {
		return "", fmt.Errorf("the snapshot %s is gone: somebody pruned the repository", tree)
	}
	commit, err := r.putCommit(id, parents, message, who, who, now)
	if err != nil {
		return "", err
	}
	if err := r.store.writeOut(); err != nil {
		return "", err
	}
	if done, err := r.refs.setPrivate(ref, commit.String()); done || err != nil {
		return commit.String(), err
	}
	old, err := r.refs.hash(ref)
	if err != nil {
		return "", err
	}
	u, err := r.refs.prepare(ctx, ref, old, commit.String(), false)
	if err != nil {
		return "", err
	}
	subject, _, _ := strings.Cut(message, "\n")
	return commit.String(), u.finish(who, now, subject, false)
}

// putCommit stores a commit object.
func (r *Repo) putCommit(tree objectID, parents []string, message string, author, committer person, when time.Time) (objectID, error) {
	if strings.ContainsRune(message, 0) {
		return objectID{}, errors.New("the commit message holds a NUL byte")
	}
	var b strings.Builder
	fmt.Fprintf(&b, "tree %s\n", tree)
	for _, p := range parents {
		if _, err := parseID(p); err != nil {
			return objectID{}, err
		}
		fmt.Fprintf(&b, "parent %s\n", p)
	}
	fmt.Fprintf(&b, "author %s\ncommitter %s\n\n%s", signature(author, when), signature(committer, when), message)
	if !strings.HasSuffix(message, "\n") {
		b.WriteByte('\n')
	}
	return r.store.put(kindCommit, []byte(b.String()))
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
		id, err := parseID(hashes[n])
		if err != nil {
			continue
		}
		b, err := r.store.reader.read(id, kindCommit)
		if err != nil {
			continue
		}
		ref := Ref{Name: n, Hash: hashes[n]}
		ref.When, ref.Message = readCommit(string(b))
		out = append(out, ref)
	}
	return out, nil
}

// readCommit finds the committer's time and the message.
func readCommit(text string) (time.Time, string) {
	head, message, _ := strings.Cut(text, "\n\n")
	var when time.Time
	for line := range strings.Lines(head) {
		rest, ok := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "committer ")
		if !ok {
			continue
		}
		var sec int64
		var zone string
		if _, err := fmt.Sscanf(rest[strings.LastIndexByte(rest, '>')+1:], "%d %s", &sec, &zone); err == nil {
			when = time.Unix(sec, 0)
			if at, err := time.Parse("-0700", zone); err == nil {
				when = when.In(at.Location())
			}
		}
	}
	return when, message
}

// DeleteRef deletes a ref; one that is not there is no error.
func (r *Repo) DeleteRef(ctx context.Context, name string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.refs.remove(ctx, name); err != nil {
		return fmt.Errorf("delete ref %s: %w", name, err)
	}
	return nil
}
