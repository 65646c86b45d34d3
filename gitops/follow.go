package gitops

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"descartes/internal/crash"
	"descartes/internal/oscall"
	"descartes/internal/plainfile"
)

// Advance moves a branch, "" being a detached HEAD, from one commit to a later one; from is "" on an unborn branch. If
// it is checked out here, files and index move too: all of that, or nothing. What the user has changed there is never
// touched: if some of it is in the way, nothing moves, and it is returned, sorted by path. Files that have the later
// commit's content already are no obstacle. Protected files stay as they are; the index gets the commit's content of
// them. A branch that another working tree has, or is rebasing, stays too. cut says that a kill cut an earlier call
// short: git may have written half a file.
func (r *Repo) Advance(ctx context.Context, branch, from, to string, cut bool) ([]LeftOut, error) {
	left, err := r.follow(ctx, branch, from, to, cut)
	if err != nil {
		return nil, fmt.Errorf("move %s forward to %s: %w", cmp.Or(branch, "HEAD"), shortHash(to), err)
	}
	return left, nil
}

// Back moves HEAD's branch, files and index to an earlier commit, as Advance does to a later one. again says that an
// earlier call was cut short.
func (r *Repo) Back(ctx context.Context, from, to string, again bool) (left []LeftOut, err error) {
	branch, _, err := r.head(ctx)
	if err == nil {
		left, err = r.follow(ctx, branch, from, to, again)
	}
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
	files, err := r.onDisk(ctx, steps, nil)
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

// mostFollowed is how often a branch may be checked out while it is about to move.
const mostFollowed = 5

// follow moves a branch, and what is checked out with it. Everything is looked at first; then the branch and HEAD are
// locked, and HEAD is looked at once more: from there on nobody commits or switches until all has moved.
func (r *Repo) follow(ctx context.Context, branch, from, to string, cut bool) (left []LeftOut, err error) {
	for range mostFollowed {
		at, tip, err := r.head(ctx)
		if err != nil {
			return nil, err
		}
		var m *move
		if at == branch {
			if tip == to {
				return nil, nil
			}
			if tip != from {
				return nil, movedOn(cmp.Or(branch, "HEAD"), tip, from)
			}
			if m, left, err = r.lookAhead(ctx, branch, from, to, cut); err != nil || len(left) > 0 {
				return left, err
			}
		}
		ref, err := r.hold(ctx, cmp.Or(branch, "HEAD"), from, to)
		if err != nil {
			return nil, err
		}
		now, _, err := r.head(ctx)
		switch {
		case err != nil:
		case now == branch && m == nil:
			ref.release()
			continue
		case now == branch:
			left, err = r.carryOut(ctx, m, ref)
		case branch == "":
			left = []LeftOut{{shortBranch(now), "it was checked out meanwhile"}}
		default: // nothing of his moves
			if why := r.usedBy(ctx, branch); why != "" {
				left = []LeftOut{{shortBranch(branch), why}}
			} else {
				err = ref.commit()
			}
		}
		ref.release()
		return left, err
	}
	return nil, &RefusedError{Reason: shortBranch(branch) + " is checked out again and again"}
}

// movedOn says that a ref is not where it is to move from.
func movedOn(ref, tip, from string) error {
	return &RefusedError{Reason: fmt.Sprintf("%s is at %s, not at %s", shortBranch(ref), shortHash(tip), shortHash(from)),
		Hint: "somebody committed or switched branches meanwhile; look at git log, then try again"}
}

// move is what it takes to bring index and files from one commit to another.
type move struct {
	from, to Tree
	steps    map[string]step
	// what the index is to say before files move, since they are there or stay as they are, and what it said
	set, was map[string]treeItem
	moves    map[string]step // where git has to touch the file
}

// lookAhead finds what moves, and what is in the way of it.
func (r *Repo) lookAhead(ctx context.Context, branch, from, to string, cut bool) (m *move, left []LeftOut, err error) {
	if left, err := r.awaitIndex(ctx); err != nil || len(left) > 0 {
		return nil, left, err
	}
	if what := r.Underway(); what != "" {
		return nil, []LeftOut{{cmp.Or(shortBranch(branch), "HEAD"), what}}, nil
	}
	m = &move{set: map[string]treeItem{}, was: map[string]treeItem{}, moves: map[string]step{}}
	if m.from, err = r.CommitTree(from); err == nil {
		m.to, err = r.CommitTree(to)
	}
	if err == nil {
		m.steps, err = r.stepsOf(ctx, from, to)
	}
	if err == nil && cut { // git wrote the index when it had all files
		_, err = r.carry(ctx, m.steps, "", true)
	}
	if err != nil {
		return nil, nil, err
	}
	staged, err := r.cli.stagedAt(ctx, "", m.steps)
	if err != nil {
		return nil, nil, err
	}
	if staged.unmerged {
		return nil, []LeftOut{{"the index", "a merge is not finished"}}, nil
	}
	files, err := r.onDisk(ctx, m.steps, staged.hidden)
	if err != nil {
		return nil, nil, err
	}
	for _, name := range sortedKeys(m.steps) {
		s, in := m.steps[name], staged.items[name]
		switch why := r.lost(m.steps, name); {
		case r.guard.covers(name) && in != s.is, in != s.is && in == s.was && files[name] == s.is:
			m.set[name], m.was[name] = s.is, in
		case why != "":
			left = append(left, LeftOut{name, why})
		case in == s.is: // git leaves the file as it is
		case in != s.was || s.was.mode != 0 && r.edited(name, s.was, files[name]):
			left = append(left, LeftOut{name, "it was changed here, and the commit changes it too"})
		default:
			m.moves[name] = s
		}
	}
	left = append(left, r.inTheWay(m)...)
	slices.SortFunc(left, func(a, b LeftOut) int { return strings.Compare(a.Path, b.Path) })
	if left = slices.Compact(left); len(left) > 0 {
		return m, left, nil
	}
	if name, why, hint := r.closed(m.moves); why != "" {
		if strings.HasPrefix(why, name+" ") {
			name = "it"
		}
		err = &RefusedError{Reason: why + ", and the commit changes " + name + ": nothing was moved", Hint: hint}
	}
	return m, nil, err
}

// lost says why git would remove for a commit what no commit has: what is behind a link in a folder's place, and what
// is in a submodule.
func (r *Repo) lost(steps map[string]step, name string) string {
	s := steps[name]
	if dir := linkAbove(r.l.root, name); dir != "" && steps[dir].was.mode != modeLink {
		return dir + " is a link here, and the commit changes what is in it"
	}
	if s.was.mode == modeGitlink && s.is.mode != modeGitlink && s.is.mode != 0 {
		if inside, err := fs.ReadDir(r.root.FS(), name); err == nil && len(inside) > 0 {
			return "it holds a submodule, and the commit replaces it"
		}
	}
	return ""
}

// edited reports whether the user changed a file that git tracks: now is what lies there.
func (r *Repo) edited(name string, was, now treeItem) bool {
	fi, err := r.root.Lstat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, fs.ErrPermission): // git brings it back; closed tells of that
		return false
	case err == nil && fi.IsDir() && was.mode == modeGitlink:
		return false
	}
	return now != was
}

// inTheWay is what lies where the commit adds something. Git overwrites it, where it ignores that, without a word.
func (r *Repo) inTheWay(m *move) (left []LeftOut) {
	for name, s := range m.moves {
		if s.was.mode != 0 {
			continue
		}
		if why := r.lost(m.steps, name); why != "" {
			left = append(left, LeftOut{name, why})
			continue
		}
		// what is behind a link that goes is not in the way
		for way := cmp.Or(linkAbove(r.l.root, name), name); way != "."; way = path.Dir(way) {
			fi, err := r.root.Lstat(way)
			if err != nil {
				continue
			}
			switch {
			case fi.IsDir() && way == name && s.is.mode == modeGitlink && exists(filepath.Join(r.l.root, way, ".git")):
			case fi.IsDir() && way == name && r.holdsOther(m, way):
				left = append(left, LeftOut{way, "it holds untracked files, and the commit replaces it"})
			case !fi.IsDir() && m.steps[way].was.mode == 0:
				left = append(left, LeftOut{way, "it exists here and is untracked, and the commit adds it"})
			}
			break
		}
	}
	return left
}

// holdsOther reports whether something lies in a folder that the move does not take away.
func (r *Repo) holdsOther(m *move, dir string) (other bool) {
	err := fs.WalkDir(r.root.FS(), dir, func(name string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && (m.steps[name].was.mode == 0 || m.steps[name].is.mode != 0) {
			other = true
			return fs.SkipAll
		}
		return err
	})
	return other || err != nil
}

// closed says why a file that is to move cannot be replaced, because of its folder or because nobody may change it
// (chattr +i), and how to open it: git would find that out half-way. "" is that all can.
func (r *Repo) closed(moves map[string]step) (name, why, hint string) {
	open := map[string]bool{}
	for _, name := range sortedKeys(moves) {
		if moves[name].was.mode != 0 && oscall.Immutable(filepath.Join(r.l.root, name)) {
			return name, name + " is immutable", "chattr -ia " + shellWord(name) + " (on macOS chflags nouchg), then try again"
		}
		dir := path.Dir(name)
		for dir != "." && !isFolder(filepath.Join(r.l.root, dir)) { // it is to come
			dir = path.Dir(dir)
		}
		if !open[dir] {
			if err := oscall.Writable(filepath.Join(r.l.root, dir)); err != nil {
				return name, fmt.Sprintf("%s is read-only (%v)", dir, err),
					"chmod u+rwx " + shellWord(dir) + ", or what lets you write there, then try again"
			}
			open[dir] = true
		}
	}
	return "", "", ""
}

func isFolder(at string) bool {
	fi, err := os.Lstat(at)
	return err == nil && fi.IsDir()
}

// carryOut moves index, files and the branch that is held. Where git gives up in the midst of the files they go back.
func (r *Repo) carryOut(ctx context.Context, m *move, ref *heldRef) ([]LeftOut, error) {
	if left := r.inTheWay(m); len(left) > 0 {
		return left, nil
	}
	err := r.onIndex(ctx, func() error { return r.cli.refresh(ctx, m.set) })
	if err != nil {
		return nil, err
	}
	crash.Point("git: index ahead of the files")
	was := m.was
	if len(m.moves) > 0 { // else git trips over a file in a folder's place
		gone := r.goes(m.moves)
		call := gitCall{args: []string{"read-tree", "-m", "-u", "--no-recurse-submodules", string(m.from), string(m.to)}}
		err = r.onIndex(ctx, func() error { _, err := r.cli.run(ctx, call); return err })
		if err == nil {
			if name, why := r.stays(gone); why != "" {
				was = m.before() // the index has moved
				err = &RefusedError{Reason: why + ", and the commit removes it: nothing was moved",
					Hint: "see that you can remove " + shellWord(name) + ", then try again"}
			}
		}
	}
	if err == nil {
		crash.Point("git: files moved forward")
		return nil, ref.commit() // where that fails, the next call does it
	}
	ctx = context.WithoutCancel(ctx)
	back := r.onIndex(ctx, func() error { return r.cli.refresh(ctx, was) })
	if back == nil {
		_, back = r.carry(ctx, m.moves, "", true)
	}
	if _, ok := errors.AsType[*RefusedError](err); ok && back == nil {
		return nil, err
	}
	if refused, ok := errors.AsType[*gitError](err); ok && back == nil {
		return nil, &RefusedError{Reason: "git cannot update the working tree: " + refused.said,
			Hint: "nothing was moved; commit or stash what was changed there, and try again"}
	}
	return nil, errors.Join(err, back)
}

// goes are the files that a move removes.
func (r *Repo) goes(moves map[string]step) map[string]fs.FileInfo {
	gone := map[string]fs.FileInfo{}
	for name, s := range moves {
		if fi, err := r.root.Lstat(name); err == nil && s.is.mode == 0 && !fi.IsDir() {
			gone[name] = fi
		}
	}
	return gone
}

// stays says which of these files is still there, and why it cannot be removed. Git only warns of it: of another's file
// in a folder with the sticky bit, of one on which something is mounted.
func (r *Repo) stays(files map[string]fs.FileInfo) (name, why string) {
	for _, name := range sortedKeys(files) {
		was := files[name]
		now, err := r.root.Lstat(name)
		if err != nil || now.Mode() != was.Mode() || !now.ModTime().Equal(was.ModTime()) || !os.SameFile(now, was) {
			continue // what came since is the commit's, or the user's; it may have the number of what went
		}
		if err := r.root.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return name, fmt.Sprintf("%s cannot be removed (%v)", name, reason(err))
		}
	}
	return "", ""
}

// reason is why a call on a file failed, without the file's name.
func reason(err error) error {
	if at, ok := errors.AsType[*fs.PathError](err); ok {
		return at.Err
	}
	return err
}

// before is what the index said at the paths of the move.
func (m *move) before() map[string]treeItem {
	was := maps.Clone(m.was)
	for name, s := range m.moves {
		was[name] = s.was
	}
	return was
}

// refresh makes the index say something at paths, and look again at files of which only the times have changed.
func (c *cli) refresh(ctx context.Context, set map[string]treeItem) error {
	_, err := c.run(ctx, gitCall{args: []string{"update-index", "--refresh", "-z", "--index-info"},
		stdin: c.indexInfo(set)})
	if exitCode(err) == 1 { // some are changed
		err = nil
	}
	return err
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

// linkAbove is the folder of a path that is a link, "" for none.
func linkAbove(root, name string) string {
	for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
		if fi, err := os.Lstat(filepath.Join(root, dir)); err == nil && fi.Mode()&fs.ModeSymlink != 0 {
			return dir
		}
	}
	return ""
}

// carry brings files to how a commit has them, or the index where that is "": forward to what each step makes of its
// file, or with undo back to what it was. It moves those that are as git found them, that it wrote or had begun to write,
// or that are not there. What somebody changed since stays, and is returned; so does what the index has of the move.
func (r *Repo) carry(ctx context.Context, steps map[string]step, commit string, undo bool) (kept []string, err error) {
	staged, err := r.cli.stagedAt(ctx, "", steps)
	if err != nil {
		return nil, err
	}
	files, err := r.onDisk(ctx, steps, staged.hidden)
	if err != nil {
		return nil, err
	}
	var put, folders []string
	for name, s := range steps {
		now, want, other := files[name], s.is, s.was
		if undo {
			want, other = other, want
		}
		fi, gone := r.root.Lstat(name)
		switch {
		case undo && commit == "" && staged.items[name] != s.was, r.guard.covers(name), s.was.mode == modeGitlink,
			s.is.mode == modeGitlink, linkAbove(r.l.root, name) != "", now == want && gone == nil:
		case gone == nil && fi.IsDir() && want.mode != 0:
			folders = append(folders, name)
		case gone == nil && (now != other || other.mode == 0) && !r.written(ctx, name, now, s.is) &&
			!(undo && r.written(ctx, name, now, s.was)):
			kept = append(kept, name)
		case want.mode != 0:
			put = append(put, name)
		case gone == nil:
			err = errors.Join(err, r.removeFile(name))
		}
	}
	for _, name := range folders {
		if !exists(filepath.Join(r.l.root, name)) || r.removeEmpty(name) { // its last file may have taken it along
			put = append(put, name)
		} else {
			kept = append(kept, name)
		}
	}
	return kept, errors.Join(err, r.putBack(ctx, commit, put))
}

// removeFile removes a file, and the folders above it that are empty then, as git does.
func (r *Repo) removeFile(name string) error {
	if err := r.root.Remove(name); err != nil {
		return fmt.Errorf("%s cannot be removed (%w)", name, reason(err))
	}
	for dir := path.Dir(name); dir != "." && r.root.Remove(dir) == nil; {
		dir = path.Dir(dir)
	}
	return nil
}

// removeEmpty removes a folder in which no file is left.
func (r *Repo) removeEmpty(dir string) bool {
	var dirs []string
	err := fs.WalkDir(r.root.FS(), dir, func(name string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			err = fs.ErrExist
		}
		dirs = append(dirs, name)
		return err
	})
	for _, name := range slices.Backward(dirs) {
		if err == nil {
			err = r.root.Remove(name)
		}
	}
	return err == nil
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

// onDisk is what git would store of files, those too from whose changes it looks away.
func (r *Repo) onDisk(ctx context.Context, steps map[string]step, hidden []string) (map[string]treeItem, error) {
	there := r.filesAt(steps)
	if len(there) == 0 {
		return nil, nil
	}
	// it knows the modes where the file system does not
	index, err := r.cli.indexCopy(filepath.Join(r.l.gitDir, "index"))
	defer os.Remove(index)
	if err == nil {
		err = r.cli.unhide(ctx, index, hidden)
	}
	if err == nil {
		_, err = r.cli.run(ctx, gitCall{args: []string{"update-index", "--add", "--replace", "--info-only", "-z",
			"--stdin"}, index: index, stdin: nulJoin(there)})
	}
	if err != nil {
		return nil, err
	}
	files := map[string]step{}
	for _, name := range there {
		files[name] = step{}
	}
	at, err := r.cli.stagedAt(ctx, index, files)
	return at.items, err
}

// filesAt are those of some paths at which a file or a link lies, sorted.
func (r *Repo) filesAt(steps map[string]step) (there []string) {
	for _, name := range sortedKeys(steps) {
		if fi, err := r.root.Lstat(name); err == nil && (fi.Mode().IsRegular() || fi.Mode()&fs.ModeSymlink != 0) &&
			linkAbove(r.l.root, name) == "" {
			there = append(there, name)
		}
	}
	return there
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

// staged is what an index has at some paths.
type staged struct {
	items    map[string]treeItem
	hidden   []string // of them: git takes it that their files are as the index has them
	unmerged bool     // a merge is not finished, at these paths or at others
}

// stagedAt reads an index, "" being the repository's own.
func (c *cli) stagedAt(ctx context.Context, index string, steps map[string]step) (st staged, err error) {
	b, err := c.run(ctx, gitCall{args: []string{"ls-files", "-z", "-s", "-v"}, index: index})
	st.items = map[string]treeItem{}
	for _, line := range nulSplit(b) {
		head, name, _ := strings.Cut(line, "\t")
		var flag string
		var item treeItem
		var stage int
		if _, err := fmt.Sscanf(head, "%s %o %s %d", &flag, &item.mode, &item.id, &stage); err != nil {
			return st, fmt.Errorf("git ls-files says %q: %w", line, err)
		}
		st.unmerged = st.unmerged || stage > 0
		if _, ok := steps[name]; !ok {
			continue
		}
		if st.items[name] = item; flag == "S" || flag == strings.ToLower(flag) {
			st.hidden = append(st.hidden, name)
		}
	}
	return st, err
}
