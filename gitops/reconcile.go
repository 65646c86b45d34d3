package gitops

import (
	"context"
	"fmt"
	"os"
	"strings"
)

// packNames is what shows that objects were packed anew, and perhaps pruned: an agent may run `git gc`. go-git makes each
// object's temporary file beside the packs, so that the folder's time says nothing.
func (o *objectStore) packNames() string {
	entries, _ := os.ReadDir(o.dir + "/pack")
	var names strings.Builder
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), ".pack") {
			names.WriteString(e.Name() + "\n")
		}
	}
	return names.String()
}

// doubt makes the next snapshot store again what was pruned. What no ref leads to may be gone when an agent or the
// verification ran `git gc` or `git prune`: then only what the index has is taken for stored.
func (r *Repo) doubt() {
	old := r.packs
	r.packs = r.store.packNames()
	if r.last != nil && (r.store.lost() || old != r.packs) {
		r.store.settled() // what is missing is stored again, and noted again
		r.last = nil
	}
}

// whole makes sure that everything that a wave commits is in the store, and stores again what still lies in the
// working tree.
func (r *Repo) whole(ctx context.Context, edits map[string]treeItem) error {
	if r.absent(edits) == nil {
		return nil
	}
	if err := r.storeAgain(ctx); err != nil {
		return err
	}
	missing := r.absent(edits)
	if missing == nil {
		return nil
	}
	return &RefusedError{
		Reason: fmt.Sprintf("the repository lost the content of %d files that the wave commits, %s among them: somebody pruned it (git gc --prune=now, git prune)", len(missing), missing[0]),
		Hint:   "what is left of them lies in the working tree: look at it, and commit it yourself",
	}
}

// storeAgain makes a snapshot that takes nothing for stored.
func (r *Repo) storeAgain(ctx context.Context) error {
	r.last = nil
	r.cli.based = fileInfo{}
	_, err := r.snapshot(ctx)
	return err
}

// wholeTrees stores the wave's last tree again where it was pruned and is what the working tree holds.
func (r *Repo) wholeTrees(ctx context.Context, w Wave) error {
	for _, p := range w.Results {
		if id, err := parseID(string(p.Result)); err == nil && !r.store.has(id) {
			return r.storeAgain(ctx)
		}
	}
	return nil
}

// absent lists the paths whose content is not in the store, sorted.
func (r *Repo) absent(edits map[string]treeItem) []string {
	var out []string
	for _, name := range sortedKeys(edits) {
		if e := edits[name]; e.mode != 0 && e.mode != modeGitlink && !r.store.has(e.id) {
			out = append(out, name)
		}
	}
	return out
}
