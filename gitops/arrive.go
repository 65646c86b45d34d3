package gitops

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
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
// they are, ignored ones too; own are their paths. It leaves out links, what is deleted, and the paths of but.
func (r *Repo) WithOwn(ctx context.Context, tree Tree, at, but []string) (with Tree, own []string, err error) {
	b, err := r.cli.run(ctx, gitCall{options: literally, args: append(
		[]string{"status", "--porcelain=v1", "-z", "--untracked-files=all", "--ignored=matching", "--no-renames",
			"--ignore-submodules=all", "--"}, at...)})
	if err != nil {
		return "", nil, fmt.Errorf("look for files that are not committed: %w", err)
	}
	files := map[string][]byte{}
	for _, entry := range nulSplit(b) {
		if len(entry) < 4 || r.guard.covers(entry[3:]) || slices.Contains(but, entry[3:]) {
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
// why says what is in the way; "" means that it is there. What the working tree is to be is made by a merge, and looked
// at, before a file moves. An error is a disk without room, or one that does not read or write; what could not be taken
// back then is in a ref, and the next FinishArrival brings the rest.
func (r *Repo) Arrive(ctx context.Context, from, to Tree) (why string, err error) {
	m, why, err := r.meet(ctx, from, to)
	switch {
	case err != nil:
		return "", fmt.Errorf("merge changes with the working tree: %w", err)
	case why != "":
		return why, nil
	case len(m.steps) == 0: // a killed run brought them
		return "", r.removeRef(ctx, arriving)
	}
	if why, err := r.shut(ctx, m); err != nil || why != "" {
		return why, err
	}
	before, at, err := r.noteArrival(ctx, m)
	if err != nil {
		return "", fmt.Errorf("note what arrives in the working tree: %w", err)
	}
	crash.Point("git: arrival noted")
	kept, err := r.carry(ctx, m.steps, at, false)
	if err == nil && len(kept) == 0 {
		return "", r.removeRef(ctx, arriving)
	}
	full := r.cli.full()
	if _, back := r.carry(ctx, m.steps, before, true); back != nil {
		return "", fmt.Errorf("bring changes into the working tree: %w", errors.Join(cmp.Or(full, err),
			fmt.Errorf("take them back out of it: %w", back)))
	}
	if rerr := r.removeRef(ctx, arriving); rerr != nil {
		return "", rerr
	}
	said, refused := errors.AsType[*gitError](err)
	switch {
	case full == nil && refused:
		return cmp.Or(fatal(said.said), "git cannot write it"), nil
	case full == nil && errors.Is(err, fs.ErrPermission):
		return strings.ReplaceAll(err.Error(), "\n", ", "), nil
	case err != nil:
		return "", fmt.Errorf("bring changes into the working tree, where nothing was moved: %w", cmp.Or(full, err))
	}
	slices.Sort(kept)
	left := make([]LeftOut, len(kept))
	for i, name := range kept {
		left[i] = LeftOut{name, "it was changed here meanwhile"}
	}
	return Reasons(left), nil
}

// meet merges what differs between two trees with the working tree. No steps mean that it has that.
func (r *Repo) meet(ctx context.Context, from, to Tree) (m *move, why string, err error) {
	changed := map[string]step{}
	err = r.diff(ctx, from, to, func(name string, was, is treeItem) {
		switch {
		case was.mode == modeGitlink && is.mode == modeGitlink && r.cli.holds(name):
			why = LeftOut{name, "it is a submodule, of which it has another commit"}.String()
		case was.mode == modeGitlink && r.cli.holds(name):
			why = LeftOut{name, "it is a submodule, which it has no more"}.String()
		}
		changed[name] = step{was, is}
	})
	if err != nil || why != "" || len(changed) == 0 {
		return &move{}, why, err
	}
	if _, err := r.Snapshot(ctx); err != nil {
		return nil, "", err
	}
	index, err := r.cli.indexCopy(r.cli.last)
	defer os.Remove(index)
	if err != nil {
		return nil, "", err
	}
	if _, err := r.cli.run(ctx, gitCall{args: []string{"update-index", "--add", "--replace", "-z", "--stdin"},
		index: index, stdin: nulJoin(r.filesAt(changed))}); err != nil { // ignored ones too
		return nil, "", err
	}
	here, err := r.cli.word(ctx, index, "write-tree")
	if err != nil {
		return nil, "", err
	}
	m = &move{from: Tree(here), steps: map[string]step{}}
	var conflicts []Conflict
	m.to, conflicts, err = r.MergeTrees(ctx, from, m.from, to)
	if err != nil || len(conflicts) > 0 {
		left := make([]LeftOut, len(conflicts))
		for i, c := range conflicts {
			left[i] = LeftOut{c.Path, cmp.Or(unfits[c.Kind], c.Why, c.Kind)}
		}
		return nil, Reasons(left), err
	}
	err = r.diff(ctx, m.from, m.to, func(name string, was, is treeItem) { m.steps[name] = step{was, is} })
	m.moves = m.steps
	return m, "", err
}

// shut says what no merge tells of: what is in no tree and lies where changes arrive, what is read-only. An error is
// that there is no room for them.
func (r *Repo) shut(ctx context.Context, m *move) (why string, err error) {
	var ids strings.Builder
	left := r.inTheWay(m)
	for _, name := range sortedKeys(m.steps) {
		s := m.steps[name]
		if why := r.lost(m.steps, name); why != "" {
			left = append(left, LeftOut{name, why})
		}
		if s.was.mode != 0 && !exists(filepath.Join(r.l.root, name)) { // a sparse checkout looks so
			left = append(left, LeftOut{name, "it is not here"})
		}
		if s.is.mode != 0 && s.is.mode != modeGitlink {
			ids.WriteString(s.is.id + "\n")
		}
	}
	if len(left) > 0 {
		slices.SortFunc(left, func(a, b LeftOut) int { return strings.Compare(a.Path, b.Path) })
		return Reasons(slices.Compact(left)), nil
	}
	if _, why, _ := r.closed(m.steps); why != "" {
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

// unfits are our words for git's kinds of conflict.
var unfits = map[string]string{
	"content":        "it was changed here in the same place",
	"binary":         "it was changed here, too",
	"add/add":        "it was made here, too",
	"modify/delete":  "it was changed on one side and removed on the other",
	"rename/delete":  "it was renamed on one side and removed on the other",
	"file/directory": "it is a file on one side and a folder on the other",
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
// is one of it as it was.
const arriving = "refs/worktree/descartes/arriving"

// noteArrival sets that ref.
func (r *Repo) noteArrival(ctx context.Context, m *move) (before, at string, err error) {
	before, err = r.keep(ctx, arriving, m.from, nil, "descartes: the working tree before changes arrived")
	if err == nil {
		at, err = r.keep(ctx, arriving, m.to, []string{before}, "descartes: the working tree with them")
	}
	return before, at, err
}

// FinishArrival completes an Arrive that a kill cut short. A file that somebody changed since stays as it is. Where
// begun is set, one of which nothing came is dropped instead. came reports whether files were brought.
func (r *Repo) FinishArrival(ctx context.Context, begun bool) (came bool, err error) {
	at, err := r.RefCommit(arriving)
	if err != nil || at == "" {
		return false, err
	}
	before, err := r.parentOf(at)
	if err == nil && before != "" { // else it had not begun
		var steps map[string]step
		if steps, err = r.stepsOf(ctx, before, at); err == nil {
			came = len(steps) > 0
		}
		if err == nil && begun {
			came, err = r.cameAny(ctx, before, steps)
		}
		if err == nil && came {
			_, err = r.carry(ctx, steps, at, false)
		}
	}
	if err != nil {
		return false, fmt.Errorf("finish bringing changes into the working tree: %w", err)
	}
	return came, r.removeRef(ctx, arriving)
}

// cameAny reports whether one of some paths is no more as a commit has it. One that git ignores counts as moved.
func (r *Repo) cameAny(ctx context.Context, before string, steps map[string]step) (came bool, err error) {
	was, err := r.CommitTree(before)
	if err != nil {
		return false, err
	}
	now, err := r.Snapshot(ctx)
	if err != nil {
		return false, err
	}
	err = r.diff(ctx, was, now, func(name string, _, _ treeItem) {
		if _, ok := steps[name]; ok {
			came = true
		}
	})
	return came, err
}
