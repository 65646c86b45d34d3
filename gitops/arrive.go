package gitops

import (
	"context"
	"fmt"
)

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
