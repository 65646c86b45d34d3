package gitops

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"descartes/internal/plainfile"
)

// CommitWave makes a commit that no ref names yet. Where ByGit says that git makes it, this is a slot that stands at
// the parent with the tree's files; its HEAD moves, and its index stays as it is: the next Prepare makes both anew.
func (r *Repo) CommitWave(ctx context.Context, w Wave) (Commit, error) {
	r.AwaitGC(ctx)
	before, err := r.CommitTree(w.On)
	if err != nil {
		return Commit{}, err
	}
	tree, err := r.treeOfWave(ctx, w, before)
	if err != nil || tree == before {
		return Commit{Empty: err == nil}, err
	}
	var hash, late string
	if r.byGit != "" {
		hash, late, err = r.commitByGit(ctx, w, tree)
	} else {
		hash, err = r.commitByUs(ctx, tree, w.Message, w.On)
	}
	if err != nil {
		return Commit{}, err
	}
	return r.committed(ctx, hash, late, before, tree)
}

// treeOfWave is the tree that a wave's commit should have: the wave's own with its files, where git does not ignore
// them.
func (r *Repo) treeOfWave(ctx context.Context, w Wave, head Tree) (Tree, error) {
	at, files := r.view(head), maps.Clone(w.Files)
	for name := range w.Files {
		if !filepath.IsLocal(name) {
			return "", &RefusedError{Reason: fmt.Sprintf("%q is not a path inside the repository", name)}
		}
		is, err := at.file(name)
		if err == nil && is.mode == 0 {
			_, err = r.cli.run(ctx, gitCall{args: []string{"check-ignore", "-q", "--no-index", "--", name}})
			if err == nil {
				delete(files, name)
			} else if exitCode(err) == 1 {
				err = nil
			}
		}
		if err != nil {
			return "", err
		}
	}
	return r.WithContent(ctx, w.Tree, files)
}

// commitByUs makes a commit in the user's name through go-git, on the parents that are not "".
func (r *Repo) commitByUs(ctx context.Context, tree Tree, message string, parents ...string) (string, error) {
	author, err := r.person("author")
	if err != nil {
		return "", err
	}
	committer, err := r.person("committer")
	if err != nil {
		return "", err
	}
	parents = slices.DeleteFunc(parents, func(hash string) bool { return hash == "" })
	return r.putCommit(ctx, author, committer, tree, parents, message, time.Now())
}

// commitByGit makes the commit with `git commit`, so that signing acts, and hooks that are to run outside, from an index
// of its own.
// late says that a hook did not end in time after the commit was made.
func (r *Repo) commitByGit(ctx context.Context, w Wave, tree Tree) (hash, late string, err error) {
	if w.On == "" {
		if err := r.setHead(ctx, ""); err != nil {
			return "", "", err
		}
	}
	index, err := r.cli.commitIndex(ctx, tree)
	defer os.Remove(index)
	if err != nil {
		return "", "", err
	}
	call := gitCall{args: []string{"commit", "-q", "--cleanup=verbatim", "-F", "-"}, index: index,
		stdin: []byte(w.Message), hooks: r.cli.hooksOutside}
	if call.hooks {
		if call.options, err = r.usersHooks(ctx, w.Began); err != nil {
			return "", "", fmt.Errorf("take the hooks of %s: %w", shortHash(w.Began), err)
		}
	}
	_, err = r.cli.run(ctx, call)
	stopped, slow := errors.AsType[*StoppedError](err)
	if names := liveHooks(r.l, r.set); slow && call.hooks && len(names) > 0 {
		stopped.Inside = hooksOf(names)
	}
	if refused, ok := errors.AsType[*gitError](err); ok && call.hooks && len(liveHooks(r.l, r.set)) > 0 {
		return "", "", &RefusedError{Reason: refused.Error(),
			Hint: "do what its hooks ask for; they ran in " + r.l.root +
				", and pool.setup can make what they lack there"}
	}
	if err != nil && !slow {
		return "", "", err
	}
	_, head, herr := r.head(ctx)
	switch {
	case herr != nil:
		return "", "", cmp.Or(err, herr)
	case head == w.On && slow:
		return "", "", err
	case head == w.On:
		return "", "", &RefusedError{Reason: "git made the commit, but a hook removed it again",
			Hint: "git reflog lists it"}
	case slow: // perhaps by a hook that runs when the commit is made
		late = stopped.Error() + ", when the commit was made"
	}
	return head, late, nil
}

// usersHooks makes a folder of the hooks that lie in the working tree, and returns the option that has git run those:
// as the commit has them with which a run began, for an attempt may have rewritten them, and as the user has them
// where git does not (what husky generates).
func (r *Repo) usersHooks(ctx context.Context, began string) (options []string, err error) {
	rel, err := filepath.Rel(r.l.root, hooksDir(r.l, r.set))
	if _, set := r.set["core.hookspath"]; !set || err != nil || !filepath.IsLocal(rel) || r.lender.root == "" {
		return nil, nil
	}
	top, _, _ := strings.Cut(filepath.ToSlash(rel), "/")
	if top == ".git" { // the user's, and no agent's
		return []string{"-c", "core.hooksPath=" + filepath.Join(r.lender.root, rel)}, nil
	}
	place := filepath.Join(r.l.gitDir, "hooks")
	if err := os.RemoveAll(place); err != nil {
		return nil, err
	}
	if began != "" { // all of it: a hook may read what lies beside its folder
		index, err := r.cli.indexOf(ctx, began)
		defer os.Remove(index)
		if err == nil {
			_, err = r.cli.run(ctx, gitCall{args: []string{"checkout-index", "-a", "-q", "--prefix=" + place + "/"},
				index: index, env: []string{"GIT_LFS_SKIP_SMUDGE=1"}})
		}
		if err != nil {
			return nil, err
		}
	}
	own, err := r.cli.run(ctx, gitCall{options: append([]string{"--git-dir=" + r.lender.gitDir,
		"--work-tree=" + r.lender.root}, literally...), args: []string{"ls-files", "-z", "-o", "--", top}})
	for _, name := range nulSplit(own) {
		from, to := filepath.Join(r.lender.root, name), filepath.Join(place, name)
		b, rerr := plainfile.Read(r.lender.root, from, maxNamed)
		if fi, serr := os.Stat(from); rerr == nil && serr == nil {
			err = errors.Join(err, os.MkdirAll(filepath.Dir(to), 0o777), os.WriteFile(to, b, fi.Mode().Perm()|0o600))
		}
	}
	return []string{"-c", "core.hooksPath=" + filepath.Join(place, rel)}, err
}

// committed describes a commit that was to have a tree: hooks may have changed it.
func (r *Repo) committed(ctx context.Context, hash, late string, before, planned Tree) (Commit, error) {
	done := Commit{Hash: hash}
	if late != "" {
		done.Notes = append(done.Notes, late)
	}
	after, err := r.treeOf(hash)
	if err != nil {
		return done, err
	}
	err = r.diff(ctx, before, after, func(name string, was, is treeItem) {
		if done.Paths = append(done.Paths, name); is.mode == modeGitlink && was.mode != modeGitlink {
			done.Notes = append(done.Notes,
				name+" is a repository of its own: the commit holds only the id of its commit")
		}
	})
	slices.Sort(done.Paths)
	if after != planned {
		done.Notes = append(done.Notes, "hooks changed what was committed")
	}
	return done, err
}

// trailers reads the last paragraphs of a commit message, as far back as every line has the form "Key: value":
// a hook may have added one of its own.
func trailers(message string) map[string][]string {
	out := map[string][]string{}
	paragraphs := strings.Split(strings.TrimRight(message, "\n \t"), "\n\n")
	for i := len(paragraphs) - 1; i > 0; i-- {
		for line := range strings.Lines(paragraphs[i]) {
			k, v, found := strings.Cut(strings.TrimSpace(line), ": ")
			if !found || strings.Contains(k, " ") {
				return out
			}
			out[k] = append(out[k], v)
		}
	}
	return out
}

// parentOf is the first parent of a commit, "" for one without.
func (r *Repo) parentOf(commit string) (string, error) {
	c, err := r.objects.commit(commit)
	return c.Parent(), err
}
