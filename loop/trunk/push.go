package trunk

import (
	"context"
	"fmt"

	"descartes/gitops"
	"descartes/loop/receipt"
	"descartes/loop/store"
)

// Pushing is what --push sends besides receipts.
type Pushing struct {
	Branch string   // "refs/heads/x", which may not be there: the run ended before it was made
	Others []string // branches to which earlier runs of the tag committed
	Tag    string   // "" for a loop without one
	Loops  []string
}

// Specs are for git push: the branches, the tag's trunk, where that has what no branch has, and the kept attempts.
func (p Pushing) Specs(repo *gitops.Repo) (specs []string) {
	refs := append([]string{p.Branch}, p.Others...)
	if p.Tag != "" {
		refs = append(refs, store.TagTrunkRef(p.Tag))
	}
	for _, ref := range refs {
		if at, err := repo.RefCommit(ref); err == nil && at != "" {
			specs = append(specs, ref)
		}
	}
	for _, id := range p.Loops { // what is left out moves from run to run
		own := "refs/descartes/" + id + "/"
		specs = append(specs, own+"*:"+own+"*", "^"+own+"trunk", "^"+own+"start/*", "^"+own+"commit", "^"+own+"baseline")
	}
	return specs
}

// Push sends it, and the receipts. A remote that does not take those leaves notes.
func (p Pushing) Push(ctx context.Context, repo *gitops.Repo, remote string) (notes, err error) {
	if err = repo.Push(ctx, remote, p.Specs(repo)); err == nil {
		notes = PushNotes(ctx, repo, remote)
	}
	if notes != nil {
		notes = fmt.Errorf("receipts are not pushed: %w; to push them: git push %s %s", notes, remote, receipt.NotesRef)
	}
	return notes, err
}

// HasNotes reports whether there are receipts.
func HasNotes(repo *gitops.Repo) bool {
	at, err := repo.RefCommit(receipt.NotesRef)
	return err == nil && at != ""
}

// PushNotes merges the receipts that others pushed into ours and pushes the result. It never forces.
func PushNotes(ctx context.Context, repo *gitops.Repo, remote string) error {
	if !HasNotes(repo) {
		return nil
	}
	if err := repo.MergeNotes(ctx, remote, receipt.NotesRef); err != nil {
		return err
	}
	return repo.Push(ctx, remote, []string{receipt.NotesRef})
}
