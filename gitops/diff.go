package gitops

import (
	"context"
	"fmt"
	"strings"
)

// statLines is how long a diff stat may be, its summary included.
const statLines = 40

// DiffStat tells people how two trees differ, as `git diff --stat` does: one line for each file, at most 40 in all, and
// a summary. It is "" where nothing differs.
func (r *Repo) DiffStat(ctx context.Context, from, to Tree) (string, error) {
	return r.diffText(ctx, from, to, "--no-renames", fmt.Sprintf("--stat=100,80,%d", statLines-2))
}

// Patch is the difference of two trees as a unified diff, for people and agents to read; at most limit bytes of it, cut
// at a line's end with a word that it is.
func (r *Repo) Patch(ctx context.Context, from, to Tree, limit int) (string, error) {
	text, err := r.diffText(ctx, from, to, "-p", "-M")
	if err != nil && ctx.Err() == nil { // it is enormous
		return r.DiffStat(ctx, from, to)
	}
	whole := len(text)
	if err != nil || whole <= limit {
		return text, err
	}
	text = strings.ToValidUTF8(text[:limit], "")
	text = text[:strings.LastIndexByte(text, '\n')+1]
	return text + fmt.Sprintf("[%d bytes of the diff left out]\n", whole-len(text)), nil
}

func (r *Repo) diffText(ctx context.Context, from, to Tree, form ...string) (string, error) {
	if from == to {
		return "", nil
	}
	args := append([]string{"diff-tree", "-r", "--no-color", "--no-ext-diff", "--no-textconv"}, form...)
	b, err := r.cli.run(ctx, gitCall{args: append(args, string(from), string(to))})
	if err != nil {
		return "", fmt.Errorf("compare snapshots: %w", err)
	}
	return strings.ToValidUTF8(string(b), "\uFFFD"), nil
}

// LastChange is the newest commit of HEAD's history that changed a path below the root, and its author; both are "" where there is
// none, or where the file in the working tree differs from HEAD's. No program that the settings name is run for it.
func (r *Repo) LastChange(ctx context.Context, path string) (commit, author string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	b, err := r.cli.run(ctx, gitCall{options: literally, args: []string{"status", "--porcelain", "--ignored", "--ignore-submodules=all", "--", path}})
	if err != nil || len(b) > 0 {
		return "", "", err
	}
	b, err = r.cli.run(ctx, gitCall{options: literally, args: []string{"log", "-1", "--no-show-signature", "--no-mailmap", "--format=%h%x00%an", "--", path}})
	commit, author, _ = strings.Cut(strings.TrimSuffix(string(b), "\n"), "\x00")
	return commit, author, err
}

// Ancestor is a commit in the history of HEAD.
type Ancestor struct {
	Hash    string
	Parent  string // the first; "" for a root
	Subject string
}

// History is a commit and its first parents, the newest first, up to last, which is among them. Where it is not found
// within limit commits ok is false.
func (r *Repo) History(ctx context.Context, from, last string, limit int) (list []Ancestor, ok bool, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for at := from; at != "" && len(list) < limit; {
		c, err := r.store.commit(at)
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return nil, false, fmt.Errorf("read the history of %s: %w", shortHash(from), err)
		}
		a := Ancestor{Hash: at}
		a.Subject, _, _ = strings.Cut(c.Message, "\n")
		if len(c.ParentHashes) > 0 {
			a.Parent = c.ParentHashes[0].String()
		}
		if list = append(list, a); at == last {
			return list, true, nil
		}
		at = a.Parent
	}
	return list, false, nil
}

// Pushed lists the remote branches that hold a commit, as far as this repository knows.
func (r *Repo) Pushed(ctx context.Context, commit string) ([]string, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	b, err := r.cli.run(ctx, gitCall{args: []string{"for-each-ref", "--format=%(refname:short)", "--contains", commit, "refs/remotes/"}})
	if err != nil {
		return nil, fmt.Errorf("look whether %s was pushed: %w", shortHash(commit), err)
	}
	return strings.Fields(string(b)), nil
}

// MakeBranch makes a branch at a commit, without switching to it. One that is there already at that commit is left.
func (r *Repo) MakeBranch(ctx context.Context, name, commit string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	ref := "refs/heads/" + name
	old, err := r.refs.hash(ref)
	switch {
	case err != nil || old == commit:
	case old != "":
		err = &RefusedError{Reason: fmt.Sprintf("branch %q exists", name), Hint: "rename or delete it"}
	default:
		err = r.setRef(ctx, ref, "", commit, "branch: Created from "+commit)
	}
	if err != nil {
		return fmt.Errorf("make branch %s: %w", name, err)
	}
	return nil
}
