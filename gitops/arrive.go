package gitops

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"

	"descartes/internal/crash"
	"descartes/internal/oscall"
	"descartes/internal/plainfile"
)

// maxNamed bounds a file that WithOwn takes, in bytes.
const maxNamed = 64 << 20

// WithOwn is a tree with those of the working tree's files at some paths, or below them, that HEAD does not have as
// they are, ignored ones too; own are their paths. It leaves out links and what is deleted.
func (r *Repo) WithOwn(ctx context.Context, tree Tree, at []string) (with Tree, own []string, err error) {
	b, err := r.cli.run(ctx, gitCall{options: literally, args: append(
		[]string{"status", "--porcelain=v1", "-z", "--untracked-files=all", "--ignored=matching", "--no-renames",
			"--ignore-submodules=all", "--"}, at...)})
	if err != nil {
		return "", nil, fmt.Errorf("look for files that are not committed: %w", err)
	}
	files := map[string][]byte{}
	for _, entry := range nulSplit(b) {
		if len(entry) < 4 || r.guard.covers(entry[3:]) {
			continue
		}
		name := entry[3:]
		data, rerr := plainfile.Read(r.l.root, name, maxNamed)
		if fi, lerr := r.root.Lstat(name); rerr != nil || lerr != nil || !fi.Mode().IsRegular() {
			continue
		}
		files[name] = data
	}
	with, err = r.WithContent(ctx, tree, files)
	return with, sortedKeys(files), err
}

// Arrive brings what differs between two trees into the working tree, as uncommitted changes: all of it or nothing.
// why says what is in the way; "" means that it is there. An error is a disk without room, or one that does not read or
// write; what could not be taken back then is in a ref, and the next FinishArrival brings the rest.
func (r *Repo) Arrive(ctx context.Context, from, to Tree) (why string, err error) {
	steps := map[string]step{}
	err = r.diff(ctx, from, to, func(path string, was, is treeItem) {
		if steps[path] = (step{was, is}); was.mode == modeGitlink && is.mode == modeGitlink && r.cli.holds(path) {
			why = LeftOut{path, "it is a submodule, of which it has another commit"}.String()
		}
	})
	if err != nil || why != "" {
		return why, err
	}
	patch, err := r.cli.run(ctx, gitCall{args: []string{"diff-tree", "-r", "-p", "--binary", "--full-index",
		"--no-renames", "--no-ext-diff", "--no-textconv", "--no-color",
		"--src-prefix=a/", "--dst-prefix=b/", string(from), string(to)}})
	if err != nil || len(patch) == 0 {
		return "", err
	}
	apply := func(args ...string) error {
		_, err := r.cli.run(ctx, gitCall{args: append([]string{"apply", "--whitespace=nowarn"}, args...),
			stdin: patch})
		return err
	}
	err = apply("--check")
	said, refused := err.(*gitError)
	switch {
	case refused && apply("--check", "--reverse") == nil: // a killed run did
		return "", r.removeRef(ctx, arriving)
	case refused:
		return unfit(said.said), nil
	case err == nil:
		why, err = r.shut(ctx, steps)
	}
	if err != nil || why != "" {
		return why, err
	}
	if err := r.noteArrival(ctx, patch, sortedKeys(steps)); err != nil {
		return "", fmt.Errorf("note what arrives in the working tree: %w", err)
	}
	crash.Point("git: arrival noted")
	gone := r.goes(steps)
	if err = apply(); err == nil {
		if _, why = r.stays(gone); why == "" {
			return "", r.removeRef(ctx, arriving)
		}
	}
	full := r.cli.full()
	if back := r.undoArrival(ctx); back != nil {
		return "", fmt.Errorf("bring changes into the working tree: %w", errors.Join(cmp.Or(full, err), back))
	}
	if said, refused = err.(*gitError); refused && full == nil {
		why, err = unfit(said.said), nil
	}
	if err != nil {
		return "", fmt.Errorf("bring changes into the working tree, where nothing was moved: %w", cmp.Or(full, err))
	}
	return why, nil
}

// shut says what would stop git in the midst of changes, of which it does not tell before: a folder of the user's where
// a file comes, what is read-only. An error is that there is no room for them.
func (r *Repo) shut(ctx context.Context, steps map[string]step) (why string, err error) {
	var ids strings.Builder
	for _, name := range sortedKeys(steps) {
		s := steps[name]
		if fi, err := r.root.Lstat(name); err == nil && fi.IsDir() && s.is.mode != 0 && s.is.mode != modeGitlink &&
			r.holdsOther(&move{steps: steps}, name) {
			return LeftOut{name, "it is a folder here"}.String(), nil
		}
		if s.is.mode != 0 && s.is.mode != modeGitlink {
			ids.WriteString(s.is.id + "\n")
		}
	}
	if _, why, _ := r.closed(steps); why != "" {
		return why, nil
	}
	sizes, err := r.cli.feed(ctx, []byte(ids.String()), "cat-file", "--batch-check=%(objectsize)")
	if err != nil {
		return "", err
	}
	var room int64 = spare
	for _, size := range strings.Fields(sizes) {
		n, _ := strconv.ParseInt(size, 10, 64)
		room += n
	}
	if free, err := oscall.Free(r.l.root); err == nil && free < room {
		return "", &os.PathError{Op: "write", Path: r.l.root, Err: syscall.ENOSPC}
	}
	return "", nil
}

// spare is what a file system takes for files besides their bytes, at most, for what an attempt commonly changes.
const spare = 1 << 20

// unfits are git's words for what keeps a change from a file, with ours.
var unfits = map[string]string{"patch does not apply": "it was changed here in the same place",
	"No such file or directory":           "it is not here any more",
	"already exists in working directory": "it was made here, too"}

// unfit says in which files changes do not fit what is here, by git's words for it.
func unfit(said string) string {
	var list []string
	for line := range strings.Lines(said) {
		line = strings.TrimPrefix(strings.TrimSpace(line), "error: ")
		if at := strings.LastIndex(line, ": "); at > 0 && unfits[line[at+2:]] != "" {
			list = append(list, LeftOut{line[:at], unfits[line[at+2:]]}.String())
		}
	}
	if len(list) == 0 {
		return cmp.Or(fatal(said), "git cannot apply it")
	}
	if n := len(list) - 5; n > 0 {
		list = append(list[:5], fmt.Sprintf("and %d more", n))
	}
	return strings.Join(list, ", ")
}

// Taking is what to type to have here what a commit changed, with git's markers where the same lines were changed
// here.
func (r *Repo) Taking(ctx context.Context, ref string) string {
	line := "git show --format= --binary " + ref + " | git apply --3way"
	args := []string{"ls-files", "-z", "-m", "-o", "--"}
	at, err := r.RefCommit(ref)
	if err == nil {
		var steps map[string]step
		before, perr := r.parentOf(at)
		steps, err = r.stepsOf(ctx, before, at)
		args, err = append(args, sortedKeys(steps)...), cmp.Or(perr, err)
	}
	var edited []byte // files that are not here as the index has them
	if err == nil {
		edited, err = r.cli.run(ctx, gitCall{options: literally, args: args})
	}
	add := nulSplit(edited)
	if err != nil || len(add) == 0 {
		return line
	}
	for i, name := range add {
		add[i] = shellWord(":/" + name)
	}
	return "git add -f " + strings.Join(add, " ") + " && " + line
}

// arriving names in this working tree, while changes arrive, a commit of the working tree as it is to be, whose parent
// is one of it as it was: git removes all files that it changes before it writes them.
const arriving = "refs/worktree/descartes/arriving"

// noteArrival sets that ref for a patch, which changes these files; those of them that git ignores are in it too.
func (r *Repo) noteArrival(ctx context.Context, patch []byte, names []string) error {
	if _, err := r.Snapshot(ctx); err != nil {
		return err
	}
	index, err := r.cli.indexCopy(r.cli.last)
	defer os.Remove(index)
	if err != nil {
		return err
	}
	var here []string
	for _, name := range names {
		if fi, err := r.root.Lstat(name); err == nil && !fi.IsDir() && linkAbove(r.l.root, name) == "" {
			here = append(here, name)
		}
	}
	stage := func(stdin []byte, args ...string) (tree string, err error) {
		if _, err = r.cli.run(ctx, gitCall{args: args, index: index, stdin: stdin}); err == nil {
			tree, err = r.cli.word(ctx, index, "write-tree")
		}
		return tree, err
	}
	was, err := stage(nulJoin(here), "update-index", "--add", "--replace", "-z", "--stdin")
	if err != nil {
		return err
	}
	to, err := stage(patch, "apply", "--cached", "--whitespace=nowarn")
	if err != nil {
		return err
	}
	before, err := r.keep(ctx, arriving, Tree(was), nil, "descartes: the working tree before changes arrived")
	if err == nil {
		_, err = r.keep(ctx, arriving, Tree(to), []string{before}, "descartes: the working tree with them")
	}
	return err
}

// undoArrival takes back what git moved of changes before it gave up.
func (r *Repo) undoArrival(ctx context.Context) error {
	at, err := r.RefCommit(arriving)
	if err != nil || at == "" {
		return err
	}
	before, err := r.parentOf(at)
	if err == nil {
		var steps map[string]step
		if steps, err = r.stepsOf(ctx, before, at); err == nil {
			err = r.carry(ctx, steps, before, true)
		}
	}
	if err != nil {
		return fmt.Errorf("take changes back out of the working tree: %w", err)
	}
	return r.removeRef(ctx, arriving)
}

// FinishArrival completes an Arrive that a kill cut short. A file that somebody changed since stays as it is.
func (r *Repo) FinishArrival(ctx context.Context) error {
	at, err := r.RefCommit(arriving)
	if err != nil || at == "" {
		return err
	}
	before, err := r.parentOf(at)
	if err == nil && before != "" { // else it had not begun
		var steps map[string]step
		if steps, err = r.stepsOf(ctx, before, at); err == nil {
			err = r.carry(ctx, steps, at, false)
		}
	}
	if err != nil {
		return fmt.Errorf("finish bringing changes into the working tree: %w", err)
	}
	return r.removeRef(ctx, arriving)
}
