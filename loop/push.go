package loop

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"descartes/gitops"
	"descartes/loop/journal"
	"descartes/loop/receipt"
	"descartes/loop/store"
)

// closing ends a run.
type closing struct{ run *Loop }

// push pushes the branch with the commits, and the refs of kept attempts, to the branch's remote. If it cannot, it
// warns with the command to type.
func (l *closing) push(out *Outcome) error {
	if !l.run.config.Git.Push || out.Ending == journal.BaselineFails || out.Ending == journal.DiskFull {
		return nil
	}
	branch := "refs/heads/" + l.run.branch
	if l.run.trunk != nil {
		branch = l.run.trunk.branch
	} else if l.run.branch == "" {
		head, err := l.run.tools.Repo.Head(context.WithoutCancel(l.run.ctx))
		if err != nil {
			return gitErr("read HEAD", err)
		}
		branch = head.Branch
	}
	p := Pushing{Branch: branch, Tag: l.run.state.Tag, Loops: []string{l.run.state.ID}}
	specs := p.specs(l.run.tools.Repo)
	remote, err := l.run.tools.Repo.Remote(branch)
	all := specs
	if hasNotes(l.run.tools.Repo) {
		all = append(slices.Clip(specs), receipt.NotesRef)
	}
	command := fmt.Sprintf("git push %s '%s'", cmp.Or(remote, "REMOTE"), strings.Join(all, "' '"))
	if err == nil {
		pctx, done := l.run.stop.committing(nil) // not ended by what ended the run
		defer done()
		if err = l.run.tools.Repo.Push(pctx, remote, specs); err == nil {
			if l.run.trunk != nil && l.run.trunk.merged != "" { // else the next clone would bring it back one day
				ref := store.TagTrunkRef(l.run.state.Tag)
				if werr := l.run.tools.Repo.Withdraw(pctx, remote, ref, l.run.trunk.merged); werr != nil {
					if err := l.run.Warn(fmt.Sprintf(
						"%s keeps %s, whose work is committed by now: %v; to remove it: git push %s :%s", remote, ref,
						werr, remote, ref)); err != nil {
						return err
					}
				}
			}
			if notes := pushNotes(pctx, l.run.tools.Repo, remote); notes != nil {
				return l.run.Warn(fmt.Sprintf(
					"the work of this run is pushed, its receipts are not: %v; to push them: git push %s %s", notes,
					remote, receipt.NotesRef))
			}
		}
	}
	if err == nil {
		return nil
	}
	if moved, merr := l.run.tools.Repo.Moved(context.WithoutCancel(l.run.ctx), remote, branch); merr == nil && moved {
		name := strings.TrimPrefix(branch, "refs/heads/")
		if command = fmt.Sprintf("git pull --no-rebase %s %s && %s", remote, name, command); l.run.branch != "" &&
			l.run.state.Tag != "" {
			command = fmt.Sprintf("descartes run %s --branch %s --push", l.run.state.Tag, name)
		}
	}
	out.Unpushed = command
	return l.run.Warn(fmt.Sprintf("the work of this run is not pushed: %v; to push it: %s", err, command))
}

// Pushing is what --push sends besides receipts.
type Pushing struct {
	Branch string // "refs/heads/x", which may not be there: the run ended before it was made
	Tag    string // "" for a loop without one
	Loops  []string
}

// specs are for git push: the branch, the tag's trunk, where that has what no branch has, and the kept attempts.
func (p Pushing) specs(repo *gitops.Repo) (specs []string) {
	refs := []string{p.Branch}
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
	if err = repo.Push(ctx, remote, p.specs(repo)); err == nil {
		notes = pushNotes(ctx, repo, remote)
	}
	if notes != nil {
		notes = fmt.Errorf("receipts are not pushed: %w; to push them: git push %s %s", notes, remote, receipt.NotesRef)
	}
	return notes, err
}

// hasNotes reports whether there are receipts.
func hasNotes(repo *gitops.Repo) bool {
	at, err := repo.RefCommit(receipt.NotesRef)
	return err == nil && at != ""
}

// pushNotes merges the receipts that others pushed into ours and pushes the result. It never forces.
func pushNotes(ctx context.Context, repo *gitops.Repo, remote string) error {
	if !hasNotes(repo) {
		return nil
	}
	if err := repo.MergeNotes(ctx, remote, receipt.NotesRef); err != nil {
		return err
	}
	return repo.Push(ctx, remote, []string{receipt.NotesRef})
}
