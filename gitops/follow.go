package gitops

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"descartes/internal/crash"
	"descartes/internal/plainfile"
)

// Advance moves a branch, "" being a detached HEAD, from one commit to a later one; from is "" on an unborn branch. If
// it is checked out here, files and index move too, as git merge --ff-only does it. What the user has changed there is
// never touched: if some of it is in the way, nothing moves, and it is returned, sorted by path. Files that have the
// later commit's content already are no obstacle. Protected files stay as they are; the index gets the commit's
// content of them. A branch that another working tree has, or is rebasing, stays too. cut says that a kill cut an
// earlier call short: git may have written half a file.
func (r *Repo) Advance(ctx context.Context, branch, from, to string, cut bool) (left []LeftOut, err error) {
	at, _, err := r.head(ctx)
	how := fastForward
	if from == "" { // where git merge overwrites ignored files
		how = switchTo
	}
	switch why := ""; {
	case err != nil:
	case at == branch:
		left, err = r.moveHead(ctx, from, to, cut, how)
	default:
		if why = r.usedBy(ctx, branch); why != "" {
			return []LeftOut{{shortBranch(branch), why}}, nil
		}
		err = r.MoveRef(ctx, branch, from, to, "descartes: forward")
	}
	if err != nil {
		return nil, fmt.Errorf("move %s forward to %s: %w", cmp.Or(branch, "HEAD"), shortHash(to), err)
	}
	return left, nil
}

// Back moves HEAD's branch, files and index to an earlier commit, as Advance does to a later one. again says that an
// earlier call was cut short.
func (r *Repo) Back(ctx context.Context, from, to string, again bool) ([]LeftOut, error) {
	left, err := r.moveHead(ctx, from, to, again, switchTo)
	if err != nil {
		return nil, fmt.Errorf("move back to %s: %w", shortHash(to), err)
	}
	return left, nil
}

// MovedFiles are those paths that differ between two commits and are on disk as the second has them.
func (r *Repo) MovedFiles(ctx context.Context, from, to string) (moved []string, err error) {
	steps, err := r.stepsOf(ctx, from, to)
	if err != nil {
		return nil, err
	}
	files, err := r.onDisk(ctx, steps)
	for name, s := range steps {
		if files[name] == s.is {
			moved = append(moved, name)
		}
	}
	return moved, err
}

// Merging is what to type to merge a ref here: uncommitted changes, and files that the merge adds although they exist,
// are put aside and come back.
func (r *Repo) Merging(ctx context.Context, ref string) string {
	return r.around(ctx, ref, "git merge --no-overwrite-ignore "+ref)
}

// around surrounds commands that bring a ref's files here with others that put aside what is in their way, and bring
// it back.
func (r *Repo) around(ctx context.Context, ref, commands string) string {
	_, head, err := r.head(ctx)
	if err != nil {
		return commands
	}
	at, err := r.cli.word(ctx, "", "rev-parse", ref+"^{commit}")
	if err != nil {
		return commands
	}
	var add, hidden []string
	steps, err := r.stepsOf(ctx, head, at)
	for _, name := range sortedKeys(steps) {
		if steps[name].was.mode != 0 || steps[name].is.mode == modeGitlink {
			continue
		}
		for way := name; way != "."; way = path.Dir(way) { // it, or what is where its folder comes
			if fi, err := r.root.Lstat(way); err == nil && (way == name || !fi.IsDir()) {
				add = append(add, shellWord(":/"+way))
			}
		}
	}
	add = slices.Compact(add)
	flags, ferr := r.cli.run(ctx, gitCall{args: []string{"ls-files", "-v", "-z", "--full-name", ":/"}})
	for _, entry := range nulSplit(flags) { // "h" and "S": git looks away from what was changed there
		if tag, name, _ := strings.Cut(entry, " "); (tag == "S" || tag == strings.ToLower(tag)) &&
			steps[name].was.mode != 0 && exists(filepath.Join(r.l.root, name)) {
			hidden = append(hidden, shellWord(name))
		}
	}
	err = cmp.Or(err, ferr)
	changed, serr := r.cli.run(ctx, gitCall{args: []string{"status", "--porcelain=v1", "--untracked-files=no",
		"--ignore-submodules=all"}})
	if err != nil || serr != nil || len(add)+len(hidden)+len(changed) == 0 {
		return commands
	}
	if _, err := r.cli.run(ctx, gitCall{args: []string{"merge-base", "HEAD", at}}); err != nil && head != "" {
		commands = strings.Replace(commands, "git merge ", "git merge --allow-unrelated-histories ", 1)
	}
	if head == "" { // git stash wants a commit
		commands = "git commit -m mine && " + strings.Replace(commands, "git merge ",
			"git merge --allow-unrelated-histories ", 1)
	} else {
		commands = "git stash && " + commands + " && git stash pop"
	}
	if len(add) > 0 {
		commands = "git add -f " + strings.Join(add, " ") + " && " + commands
	}
	if len(hidden) > 0 {
		names := " " + strings.Join(hidden, " ") + " && "
		commands = "git update-index --no-assume-unchanged" + names + "git update-index --no-skip-worktree" + names +
			commands
	}
	return commands
}

// shellWord is a word as a shell reads it.
func shellWord(word string) string {
	if strings.Trim(strings.ToLower(word), "abcdefghijklmnopqrstuvwxyz0123456789:/._+@%-") == "" {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// usedBy says which working tree has a branch, or rebases it; "" for none.
func (r *Repo) usedBy(ctx context.Context, branch string) string {
	if at, err := r.cli.word(ctx, "", "for-each-ref", "--format=%(worktreepath)", branch); err == nil && at != "" {
		return "is checked out in another working tree"
	}
	links, _ := within(r.l.commonDir, "worktrees/*")
	for _, dir := range append([]string{r.l.commonDir}, links...) {
		for _, file := range []string{"rebase-merge/head-name", "rebase-apply/head-name"} {
			b, err := os.ReadFile(filepath.Join(dir, file))
			if err == nil && strings.TrimSpace(string(b)) == branch {
				return "is being rebased"
			}
		}
	}
	return ""
}

// fastForward and switchTo are git's commands for a move to a later commit and to any, whatever the user's settings
// make of them.
var (
	fastForward = []string{"merge", "--ff-only", "--no-overwrite-ignore", "--no-autostash", "--no-squash",
		"--no-verify-signatures", "-q"}
	switchTo = []string{"switch", "--no-overwrite-ignore", "--no-recurse-submodules", "--no-track", "-q"}
)

func (r *Repo) moveHead(ctx context.Context, from, to string, cut bool, how []string) ([]LeftOut, error) {
	if left, err := r.awaitIndex(ctx); err != nil || len(left) > 0 {
		return left, err
	}
	branch, at, err := r.head(ctx)
	if err != nil || at == to {
		return nil, err
	}
	if at != from {
		return nil, &RefusedError{Reason: fmt.Sprintf("HEAD is at %s, not at %s", shortHash(at), shortHash(from)),
			Hint: "somebody committed or switched branches meanwhile; merge " + shortHash(to) +
				" by hand: git merge " + shortHash(to)}
	}
	if what := r.Underway(); what != "" {
		return []LeftOut{{cmp.Or(shortBranch(branch), "HEAD"), what}}, nil
	}
	steps, err := r.stepsOf(ctx, from, to)
	if err != nil {
		return nil, err
	}
	if left := r.lost(steps); len(left) > 0 {
		return left, nil
	}
	if cut { // git wrote the index when it had all files
		if err := r.carry(ctx, steps, ""); err != nil {
			return nil, err
		}
	}
	set, was, all, err := r.arrived(ctx, steps)
	if err == nil {
		err = r.onIndex(ctx, func() error { return r.cli.setEntries(ctx, "", set) })
	}
	if err != nil {
		return nil, err
	}
	crash.Point("git: index ahead of the files")
	if all { // git trips over a file in a folder's place
		return nil, r.MoveRef(ctx, cmp.Or(branch, "HEAD"), from, to, "descartes: forward")
	}
	said := ""
	call := gitCall{options: slices.Concat(lockWait, r.asKeeper()), args: slices.Clone(how),
		env: []string{"GIT_REFLOG_ACTION=descartes"}, warned: &said}
	if how[0] == "switch" && branch != "" {
		call.args = append(call.args, "-C", shortBranch(branch))
	} else if how[0] == "switch" {
		call.args = append(call.args, "--detach")
	}
	call.args = append(call.args, to)
	if err = r.onIndex(ctx, func() error { _, err := r.cli.run(ctx, call); return err }); err == nil {
		crash.Point("git: files moved forward")
		return nil, nil
	}
	if strings.Contains(said, "cannot lock ref") { // the files have moved: the next call sets the ref
		return nil, err
	}
	ctx = context.WithoutCancel(ctx)
	if back := r.onIndex(ctx, func() error { return r.cli.setEntries(ctx, "", was) }); back != nil {
		return nil, errors.Join(err, back)
	}
	if left := inTheWay(said); len(left) > 0 {
		return left, nil
	}
	if refused, ok := errors.AsType[*gitError](err); ok {
		return nil, &RefusedError{Reason: "git cannot update the working tree: " + refused.said,
			Hint: "commit or stash what was changed there, and try again"}
	}
	return nil, err
}

// awaitIndex waits for a git command of somebody else's that has locked the index, such as git commit -a. It returns
// the lock if that stays.
func (r *Repo) awaitIndex(ctx context.Context) ([]LeftOut, error) {
	lock := filepath.Join(r.l.gitDir, "index.lock")
	for until := time.Now().Add(10 * r.cli.patience); ; {
		if !exists(lock) {
			return nil, nil
		}
		if time.Now().After(until) {
			break
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-time.After(20 * time.Millisecond):
		}
	}
	if rel, err := filepath.Rel(r.l.root, lock); err == nil && filepath.IsLocal(rel) {
		lock = rel
	}
	return []LeftOut{{lock, "another git command is at work, or one was killed"}}, nil
}

// onIndex runs a git command that writes the index, again where somebody else's git was faster.
func (r *Repo) onIndex(ctx context.Context, do func() error) (err error) {
	for range 10 {
		if err = do(); err == nil || !strings.Contains(err.Error(), "index.lock': File exists") {
			return err
		}
		if left, werr := r.awaitIndex(ctx); werr != nil || len(left) > 0 {
			return err
		}
	}
	return err
}

// step is a path that differs between two trees.
type step struct{ was, is treeItem }

// stepsOf are the paths that differ between two commits, protected ones too; before is "" for none.
func (r *Repo) stepsOf(ctx context.Context, before, at string) (map[string]step, error) {
	from, err := r.CommitTree(before)
	if err != nil {
		return nil, err
	}
	to, err := r.CommitTree(at)
	if err != nil {
		return nil, err
	}
	steps := map[string]step{}
	err = r.diff(ctx, from, to, func(name string, was, is treeItem) { steps[name] = step{was, is} })
	return steps, err
}

// lost is what git would remove for a commit although no commit has it: a link in a folder's place, and what is in a
// submodule.
func (r *Repo) lost(steps map[string]step) (left []LeftOut) {
	for _, name := range sortedKeys(steps) {
		s := steps[name]
		if dir := linkAbove(r.l.root, name); dir != "" && steps[dir].was.mode != modeLink {
			left = append(left, LeftOut{name, dir + " is a link here, and the commit changes what is in it"})
		}
		if s.was.mode == modeGitlink && s.is.mode != modeGitlink && s.is.mode != 0 {
			if inside, err := fs.ReadDir(r.root.FS(), name); err == nil && len(inside) > 0 {
				left = append(left, LeftOut{name, "it holds a submodule, and the commit replaces it"})
			}
		}
	}
	return left
}

// linkAbove is the folder of a path that is a link, "" for none.
func linkAbove(root, name string) string {
	for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
		if fi, err := os.Lstat(filepath.Join(root, dir)); err == nil && fi.Mode()&fs.ModeSymlink != 0 {
			return dir
		}
	}
	return ""
}

// arrived gives what the index is to say before git moves files: the later content where the working tree has it, and
// at protected paths whatever they have. was is what the index said there. all: git has no file to move.
func (r *Repo) arrived(ctx context.Context, steps map[string]step) (set, was map[string]treeItem, all bool,
	err error) {
	staged, err := r.cli.stagedAt(ctx, "", steps)
	if err != nil {
		return nil, nil, false, err
	}
	files, err := r.onDisk(ctx, steps)
	set, was, all = map[string]treeItem{}, map[string]treeItem{}, true
	for name, s := range steps {
		switch in := staged[name]; {
		case in == s.is:
		case in == s.was && files[name] == s.is, in.mode != unmerged && r.guard.covers(name):
			set[name], was[name] = s.is, in
		default:
			all = false
		}
	}
	return set, was, all, err
}

// carry completes a move of files to a commit that a kill cut short, or undoes it where that is "": those that are as
// git found them, that it wrote or had begun to write, or that are not there, become as the commit or the index has
// them. What somebody changed since stays, and so does what the index has of the move.
func (r *Repo) carry(ctx context.Context, steps map[string]step, commit string) error {
	staged, err := r.cli.stagedAt(ctx, "", steps)
	if err != nil {
		return err
	}
	files, err := r.onDisk(ctx, steps)
	if err != nil {
		return err
	}
	var put []string
	undo := commit == ""
	for name, s := range steps {
		now, want, other := files[name], s.is, s.was
		if undo {
			want, other = other, want
		}
		_, gone := r.root.Lstat(name)
		switch {
		case undo && staged[name] != s.was, r.guard.covers(name), s.was.mode == modeGitlink, s.is.mode == modeGitlink,
			linkAbove(r.l.root, name) != "", now == want && gone == nil:
		// somebody changed it since
		case gone == nil && (now != other || other.mode == 0) && !r.written(ctx, name, now, s.is):
		case want.mode != 0:
			put = append(put, name)
		case gone == nil:
			err = errors.Join(err, r.root.Remove(name))
		}
	}
	return errors.Join(err, r.putBack(ctx, commit, put))
}

// putBack writes files as a commit has them, or as the index has them if that is "".
func (r *Repo) putBack(ctx context.Context, commit string, names []string) (err error) {
	call := gitCall{args: []string{"checkout-index", "-f", "-u", "-q", "-z", "--stdin"}, stdin: nulJoin(names)}
	switch {
	case len(names) == 0:
		return nil
	case commit != "":
		if call.index, err = r.cli.indexOf(ctx, commit); err != nil {
			return err
		}
		defer os.Remove(call.index)
	}
	return r.onIndex(ctx, func() error { _, err := r.cli.run(ctx, call); return err })
}

// onDisk is what git would store of files.
func (r *Repo) onDisk(ctx context.Context, steps map[string]step) (map[string]treeItem, error) {
	files := map[string]step{}
	for name := range steps {
		if fi, err := r.root.Lstat(name); err == nil && (fi.Mode().IsRegular() || fi.Mode()&fs.ModeSymlink != 0) &&
			linkAbove(r.l.root, name) == "" {
			files[name] = step{}
		}
	}
	// it knows the modes where the file system does not
	index, err := r.cli.indexCopy(filepath.Join(r.l.gitDir, "index"))
	defer os.Remove(index)
	if err == nil {
		_, err = r.cli.run(ctx, gitCall{args: []string{"update-index", "--add", "--replace", "--info-only", "-z",
			"--stdin"}, index: index, stdin: nulJoin(sortedKeys(files))})
	}
	if err != nil {
		return nil, err
	}
	return r.cli.stagedAt(ctx, index, files)
}

// written reports whether git wrote a file, or was killed while it did.
func (r *Repo) written(ctx context.Context, name string, now, is treeItem) bool {
	if now == is || now.mode == 0 || now.mode == modeLink {
		return now == is && now.mode != 0
	}
	begun, err := plainfile.Read(r.l.root, name, maxNamed)
	if err != nil {
		return false
	}
	whole, err := r.cli.run(ctx, gitCall{args: []string{"cat-file", "--filters", "--path=" + name, is.id}})
	return err == nil && bytes.HasPrefix(whole, begun)
}

// inTheWay reads from git's words which files of the user's it does not overwrite.
func inTheWay(said string) (left []LeftOut) {
	why := ""
	for line := range strings.Lines(said) {
		if name, ok := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "\t"); ok && why != "" {
			left = append(left, LeftOut{name, why})
			continue
		}
		switch {
		case strings.HasPrefix(line, "error: Your local changes to the following files"):
			why = "it was changed here, and the commit changes it too"
		case strings.HasPrefix(line, "error: The following untracked working tree files"):
			why = "it exists here and is untracked, and the commit adds it"
		case strings.HasPrefix(line, "error: Updating the following directories"):
			why = "it holds untracked files, and the commit replaces it"
		case strings.Contains(line, "unmerged files"):
			left, why = append(left, LeftOut{"the index", "a merge is not finished"}), ""
		default:
			why = ""
		}
	}
	slices.SortFunc(left, func(a, b LeftOut) int { return strings.Compare(a.Path, b.Path) })
	return left
}

// unmerged is the mode of an entry whose merge is not finished.
const unmerged = 1

// stagedAt is what an index, "" being the repository's own, has at paths.
func (c *cli) stagedAt(ctx context.Context, index string, steps map[string]step) (map[string]treeItem, error) {
	b, err := c.run(ctx, gitCall{args: []string{"ls-files", "-z", "-s"}, index: index})
	if err != nil {
		return nil, err
	}
	out := map[string]treeItem{}
	for _, line := range nulSplit(b) {
		head, name, _ := strings.Cut(line, "\t")
		if _, ok := steps[name]; !ok {
			continue
		}
		var item treeItem
		var stage int
		if _, err := fmt.Sscanf(head, "%o %s %d", &item.mode, &item.id, &stage); err != nil {
			return nil, fmt.Errorf("git ls-files says %q: %w", line, err)
		}
		if stage > 0 {
			item.mode = unmerged
		}
		out[name] = item
	}
	return out, nil
}
