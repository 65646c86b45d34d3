package gitops

import (
	"context"
	"fmt"
	"strings"
)

// settleHead puts HEAD and the branch back and tells which commits the agent made.
func (r *Repo) settleHead(ctx context.Context, g *Guard, s *Repaired) error {
	branch, hash, err := r.refs.head()
	_, bad := parseID(hash)
	damaged := err != nil || hash == "" && branch == "" || hash != "" && bad != nil
	if damaged { // what it was is known
		branch, hash = "", ""
	}
	headChanged, err := g.head.changed()
	if err != nil {
		return err
	}
	if headChanged || branch != g.at.Branch || hash != g.at.Hash {
		if err := r.stillHas(g.at.Hash); err != nil {
			return err
		}
	}
	if headChanged {
		if g.at.Branch != "" { // HEAD moves to a branch that can be there
			if err := r.makeRoom(ctx, g.at.Branch, s); err != nil {
				return err
			}
		}
		if err := r.resetHead(ctx, g, damaged); err != nil {
			return err
		}
		switch {
		case branch == "" && hash == "":
			s.note("HEAD was damaged and put back to %s", g.where())
		case branch == "":
			s.note("HEAD stood at commit %s and was put back to %s", shortHash(hash), g.where())
		default:
			s.note("%s was checked out; switched back to %s (the files stay as they are)", shortRef(branch), g.where())
		}
	}
	tip := hash
	if g.at.Branch != "" {
		moved, err := r.refs.hash(g.at.Branch)
		if err != nil {
			return err
		}
		if moved != g.at.Hash {
			if err := r.makeRoom(ctx, g.at.Branch, s); err != nil {
				return err
			}
			if err := r.resetBranch(ctx, g, moved); err != nil {
				return err
			}
			s.note("%s went from %s to %s and was put back", shortRef(g.at.Branch), shortHash(g.at.Hash), shortHash(moved))
			if moved != "" {
				tip = moved
			}
		}
	}
	s.Back = r.isBack(ctx, g, hash) || r.isBack(ctx, g, tip)
	own, err := r.isOwn(ctx, g, tip)
	if err != nil {
		return err
	}
	if own {
		s.Commits = tip
		s.note("the attempt's own commits up to %s are kept (yours too, if you committed here meanwhile): git log %[1]s", shortHash(tip))
	}
	return nil
}

// stillHas refuses to point anything at a commit that went: somebody put another repository here.
func (r *Repo) stillHas(hash string) error {
	id, err := parseID(hash)
	if hash == "" || err == nil && r.store.reader.has(id) {
		return nil
	}
	return &RefusedError{Reason: fmt.Sprintf("commit %s, where the attempt began, is not in the repository any more: it was replaced", shortHash(hash)),
		Hint: "bring the repository back, from a clone or a backup"}
}

// where is where HEAD stood, for people.
func (g *Guard) where() string {
	if g.at.Branch == "" {
		return "commit " + shortHash(g.at.Hash)
	}
	return shortRef(g.at.Branch)
}

func shortRef(name string) string {
	if b, ok := strings.CutPrefix(name, "refs/heads/"); ok {
		return "branch " + b
	}
	if t, ok := strings.CutPrefix(name, "refs/tags/"); ok {
		return "tag " + t
	}
	return name
}

// resetHead makes HEAD what it was; a damaged one is written back as it stood, as git cannot even read the repository.
func (r *Repo) resetHead(ctx context.Context, g *Guard, damaged bool) error {
	if damaged || g.head.kind != 0 {
		return g.head.putBack(ctx)
	}
	message := "descartes: back to " + g.where()
	if g.at.Branch != "" {
		return r.pointHead(ctx, g.at.Branch, message)
	}
	_, err := r.cli.run(ctx, gitCall{options: r.people.asKeeper(ctx), args: []string{"update-ref", "--no-deref", "-m", message, "HEAD", g.at.Hash}})
	return err
}

func (r *Repo) resetBranch(ctx context.Context, g *Guard, from string) error {
	if g.at.Hash == "" { // there was no commit yet
		return r.removeRef(ctx, g.at.Branch)
	}
	return r.setRef(ctx, g.at.Branch, from, g.at.Hash, "descartes: back to where the attempt began")
}

// isBack reports whether a commit lacks the one where the attempt began.
func (r *Repo) isBack(ctx context.Context, g *Guard, hash string) bool {
	if hash == "" || g.at.Hash == "" || hash == g.at.Hash {
		return false
	}
	back := true
	err := r.walk(ctx, hash, historyLimit, func(h string, _ []byte) bool {
		back = h != g.at.Hash
		return back
	})
	return back || err != nil
}

// isOwn reports whether a commit came to be during the attempt: no ref had it before, and it is no ancestor
// of where the attempt began.
func (r *Repo) isOwn(ctx context.Context, g *Guard, hash string) (bool, error) {
	if hash == "" || hash == g.at.Hash {
		return false, nil
	}
	for _, h := range g.loose {
		if h == hash {
			return false, nil
		}
	}
	for _, h := range packedRefs(g.packed.data) {
		if h == hash {
			return false, nil
		}
	}
	if g.at.Hash == "" {
		return true, nil
	}
	older := false
	err := r.walk(ctx, g.at.Hash, historyLimit, func(h string, _ []byte) bool {
		older = h == hash
		return !older
	})
	return !older, err
}
