package gitops

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"syscall"
)

// maxNamed bounds a file that WithOwn takes, in bytes.
const maxNamed = 64 << 20

// WithOwn is a tree with those of the working tree's files at some paths, or below them, that HEAD does not have as they are, ignored ones too; own are
// their paths. It leaves out links and what is deleted.
func (r *Repo) WithOwn(ctx context.Context, tree Tree, at []string) (with Tree, own []string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	b, err := r.cli.run(ctx, gitCall{options: literally, args: append([]string{"status", "--porcelain=v1", "-z", "--untracked-files=all", "--ignored=matching", "--no-renames", "--ignore-submodules=all", "--"}, at...)})
	if err != nil {
		return "", nil, fmt.Errorf("look for files that are not committed: %w", err)
	}
	edits := map[string]treeItem{}
	for _, entry := range nulSplit(b) {
		if len(entry) < 4 || r.guard.covers(entry[3:]) {
			continue
		}
		name := entry[3:]
		data, ok := r.plainFile(name)
		if !ok {
			continue
		}
		item := treeItem{mode: modeRegular}
		if item.id, err = r.putFile(ctx, name, data); err != nil {
			return "", nil, fmt.Errorf("store %s: %w", name, err)
		}
		edits[name], own = item, append(own, name)
	}
	id, err := parseID(string(tree))
	if err != nil || len(own) == 0 {
		return tree, nil, err
	}
	e := treeEditor{objects: r.store}
	if id, err = e.edit("", &id, edits); err != nil {
		return "", nil, fmt.Errorf("put files into a tree: %w", err)
	}
	slices.Sort(own)
	return Tree(id.String()), own, r.store.writeOut()
}

// plainFile reads a regular file of the working tree.
func (r *Repo) plainFile(name string) ([]byte, bool) {
	f, err := r.root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, false
	}
	defer f.Close()
	if fi, err := r.root.Lstat(name); err != nil || !fi.Mode().IsRegular() || fi.Size() > maxNamed {
		return nil, false
	}
	b, err := io.ReadAll(io.LimitReader(f, maxNamed))
	return b, err == nil
}

// Arrive brings what differs between two trees into the working tree, as uncommitted changes: all of it or nothing. why says what is in the way;
// "" means that it is there.
func (r *Repo) Arrive(ctx context.Context, from, to Tree) (why string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	patch, err := r.cli.run(ctx, gitCall{args: []string{"diff-tree", "-r", "-p", "--binary", "--full-index", "--no-renames", "--no-ext-diff", "--no-textconv", "--no-color",
		"--src-prefix=a/", "--dst-prefix=b/", string(from), string(to)}})
	if err != nil || len(patch) == 0 {
		return "", err
	}
	apply := func(args ...string) error {
		_, err := r.cli.run(ctx, gitCall{args: append([]string{"apply", "--whitespace=nowarn"}, args...), stdin: patch})
		return err
	}
	err = apply()
	said, refused := err.(*gitError)
	switch {
	case err == nil:
		return "", nil
	case !refused:
		return "", fmt.Errorf("bring changes into the working tree: %w", err)
	case apply("--check", "--reverse") == nil: // a killed run did
		return "", nil
	}
	return fatal(said.said), nil
}
