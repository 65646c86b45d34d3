package gitops

import (
	"context"
	"os"
	"path"
	"slices"
	"strings"
)

// ReceivedError means that no working tree could have a tree that another machine sent.
type ReceivedError struct{ Err error }

func (e *ReceivedError) Error() string { return "its tree: " + e.Err.Error() }
func (e *ReceivedError) Unwrap() error { return e.Err }

// Received is what an attempt on another machine may leave here of a tree that it made of base: protected paths are as
// in base; undone are those that differed. Names that git refuses to check out, on whatever system, and trees that
// cannot be read are a *ReceivedError.
func (r *Repo) Received(ctx context.Context, base, tree Tree) (kept Tree, undone []string, err error) {
	edits := map[string]treeItem{}
	err = r.diff(ctx, base, tree, func(name string, _, is treeItem) {
		// git checks no such link out
		if r.guard.covers(name) || is.mode == modeLink && (r.guard.leads(name) ||
			strings.EqualFold(path.Base(name), ".gitmodules")) {
			undone = append(undone, name)
		} else {
			edits[name] = is
		}
	})
	if err == nil {
		index := r.cli.scratchIndex()
		defer os.Remove(index)
		err = r.cli.setEntries(ctx, index, edits) // which looks at the names
	}
	if err == nil {
		kept, err = r.edit(ctx, base, edits)
	}
	if err != nil && ctx.Err() != nil {
		return "", nil, err
	} else if err != nil {
		return "", nil, &ReceivedError{err}
	}
	slices.Sort(undone)
	return kept, undone, nil
}
