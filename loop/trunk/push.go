package trunk

import (
	"context"
	"errors"
	"fmt"

	"descartes/gitops"
	"descartes/loop/receipt"
)

// Pushing is what --push sends besides receipts.
type Pushing struct {
	Branch string   // "refs/heads/x", which may not be there: the run ended before it was made
	Others []string // branches to which earlier runs of the tag committed
	Trunk  string   // the tag's, store.TagTrunkRef; "" for a loop without one
	Loops  []string
}

// work are the refs with the work: the branches, and the tag's trunk, where that has what the branch lacks.
func (p Pushing) work(repo *gitops.Repo) (refs []string) {
	all := append([]string{p.Branch}, p.Others...)
	if p.Trunk != "" {
		all = append(all, p.Trunk)
	}
	for _, ref := range all {
		if at, err := repo.RefCommit(ref); err == nil && at != "" {
			refs = append(refs, ref)
		}
	}
	return refs
}

// Specs are for git push: the refs with the work, and the kept attempts.
func (p Pushing) Specs(repo *gitops.Repo) []string {
	specs := p.work(repo)
	for _, id := range p.Loops { // what is left out moves from run to run
		own := "refs/descartes/" + id + "/"
		specs = append(specs, own+"*:"+own+"*", "^"+own+"trunk", "^"+own+"start/*", "^"+own+"commit", "^"+own+"baseline")
	}
	return specs
}

// Push sends it, and the receipts. What a remote that has the work does not take besides leaves notes.
func (p Pushing) Push(ctx context.Context, repo *gitops.Repo, remote string) (notes, err error) {
	if notes, err = p.Send(ctx, repo, remote); err != nil {
		return nil, err
	}
	if err := PushNotes(ctx, repo, remote); err != nil {
		notes = errors.Join(notes, fmt.Errorf("receipts are not pushed: %w; to push them: git push %s %s", err, remote,
			receipt.NotesRef))
	}
	return notes, nil
}

// Send is Push without the receipts.
func (p Pushing) Send(ctx context.Context, repo *gitops.Repo, remote string) (notes, err error) {
	err = repo.Push(ctx, remote, p.Specs(repo))
	work := p.work(repo)
	if err == nil || len(work) == 0 {
		return nil, err
	}
	for _, ref := range work { // many a server takes branches alone
		if there, rerr := repo.Reached(ctx, remote, ref); rerr != nil || !there {
			return nil, err
		}
	}
	return fmt.Errorf("kept attempts are not pushed: %w", err), nil
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
