package gitops

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"descartes/internal/crash"
)

// Conflict is a path that two sides changed in incompatible ways.
type Conflict struct {
	Path string
	Kind string // "content", "binary", "add/add", "delete/edit", "rename/delete", "rename/rename", "file/directory" ...
	Why  string // git's own words, "ours" and "theirs" being the two sides
}

func (c Conflict) String() string { return c.Path + " (" + c.Kind + ")" }

// MergeTrees merges what changed between base and ours with what changed between base and theirs, with renames and
// merge drivers, as `git merge` does. It touches no file, no index and no ref. If there are conflicts, it returns
// them sorted by path, and no tree. It needs git OldestMerging; an older one is a VersionError.
func (r *Repo) MergeTrees(ctx context.Context, base, ours, theirs Tree) (Tree, []Conflict, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case ours == base || ours == theirs:
		return theirs, nil, nil
	case theirs == base:
		return ours, nil, nil
	}
	tree, conflicts, err := r.merge(ctx, base, ours, theirs)
	if err != nil {
		return "", nil, fmt.Errorf("merge trees: %w", err)
	}
	return tree, conflicts, nil
}

func (r *Repo) merge(ctx context.Context, base, ours, theirs Tree) (Tree, []Conflict, error) {
	if r.cli.version.Before(OldestMerging) {
		return "", nil, &VersionError{Program: r.cli.program, Found: r.cli.version, Needed: OldestMerging, For: "merging"}
	}
	b, err := r.side(base, nil)
	if err != nil {
		return "", nil, err
	}
	o, err := r.side(ours, []string{b})
	if err != nil {
		return "", nil, err
	}
	t, err := r.side(theirs, []string{b})
	if err != nil {
		return "", nil, err
	}
	out, err := r.cli.run(ctx, gitCall{options: []string{"-c", "core.fsync=objects"}, args: []string{"merge-tree", "--write-tree", "-z", "--messages", o, t}})
	if err != nil && exitCode(err) != 1 {
		return "", nil, err
	}
	tree, rest, _ := strings.Cut(string(out), "\x00")
	if _, perr := parseID(tree); perr != nil {
		return "", nil, errors.Join(err, perr)
	}
	if err == nil {
		return Tree(tree), nil, nil
	}
	conflicts := parseConflicts(rest, strings.NewReplacer("~"+o, "", "~"+t, "", o, "ours", t, "theirs"))
	if len(conflicts) == 0 {
		return "", nil, err
	}
	return "", conflicts, nil
}

// side wraps a tree in a commit, the same one for the same tree: git takes the base from the history, and only since
// 2.45 from a tree.
func (r *Repo) side(tree Tree, parents []string) (string, error) {
	id, err := parseID(string(tree))
	if err != nil {
		return "", err
	}
	if id == emptyTreeID {
		_, err = r.store.put(kindTree, nil)
	} else if !r.store.has(id) {
		err = fmt.Errorf("the tree %s is not in the repository", tree)
	}
	if err != nil {
		return "", err
	}
	commit, err := r.putCommit(id, parents, "side of a merge", fallbackPerson, fallbackPerson, time.Unix(0, 0).UTC())
	return commit.String(), err
}

// conflictKind puts git's name of a conflict (merge-ort.c) in shorter words; "" for what is none.
func conflictKind(said string) string {
	kind, ok := strings.CutPrefix(strings.ReplaceAll(said, "CONFLICT(", "CONFLICT ("), "CONFLICT (")
	kind = strings.TrimSuffix(kind, ")")
	switch {
	case !ok:
		return ""
	case kind == "contents":
		return "content"
	case kind == "modify/delete":
		return "delete/edit"
	case kind == "distinct modes":
		return "type"
	case kind == "rename involved in collision":
		return "rename/add"
	case strings.Contains(kind, "directory rename"):
		return "directory rename"
	case strings.HasPrefix(kind, "submodule"):
		return "submodule"
	}
	return kind
}

// parseConflicts reads what follows the tree: the entries of unmerged paths, and after an empty one messages, each of
// them a count of paths, the paths, a kind and a text. plain takes out the names of our own commits.
func parseConflicts(said string, plain *strings.Replacer) []Conflict {
	found := map[string]*Conflict{}
	based := map[string]bool{} // paths that the base has
	entries, messages, _ := strings.Cut("\x00"+said, "\x00\x00")
	for entry := range strings.SplitSeq(entries, "\x00") {
		head, name, ok := strings.Cut(entry, "\t")
		if !ok {
			continue
		}
		name = plain.Replace(name)
		found[name] = &Conflict{Path: name}
		based[name] = based[name] || strings.HasSuffix(head, " 1")
	}
	unnamed := len(found) == 0
	for fields := strings.Split(messages, "\x00"); len(fields) > 3; {
		n := 0
		if _, err := fmt.Sscan(fields[0], &n); err != nil || n < 1 || len(fields) < n+3 {
			break
		}
		paths, kind, text := fields[1:n+1], conflictKind(fields[n+1]), strings.TrimSpace(plain.Replace(fields[n+2]))
		if fields = fields[n+3:]; kind == "" {
			continue
		}
		if unnamed { // git could not say which files a renamed folder's new ones go with
			name := plain.Replace(paths[0])
			found[name], based[name] = &Conflict{name, kind, text}, true
		}
		for _, name := range paths {
			c := found[plain.Replace(name)]
			if c != nil && (c.Kind == "" || c.Kind == "content") { // of a binary file git says both
				c.Kind, c.Why = kind, text
			}
		}
	}
	var out []Conflict
	for _, name := range sortedKeys(found) {
		c := *found[name]
		if c.Kind == "" || c.Kind == "content" && !based[name] {
			c.Kind = map[bool]string{true: "content", false: "add/add"}[based[name]]
		}
		out = append(out, c)
	}
	return out
}

// Forward moves the user's working tree, index and branch from one commit to another, like a fast-forward; from is ""
// on an unborn branch. HEAD is at from, or already at to with only the files still to move. Only files that differ
// between the two are touched, and none that the user has changed: if there is one, nothing is touched, and the files
// in the way are returned, sorted by path. Protected files stay as they are; the index gets the commit's content of
// them. To finish a Forward that a crash cut short, call it again with cut set: git may have been killed after it
// removed a file or wrote half of it.
func (r *Repo) Forward(ctx context.Context, from, to string, cut bool) ([]LeftOut, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	left, err := r.forward(ctx, from, to, cut)
	if err != nil {
		return nil, fmt.Errorf("move forward to %s: %w", shortHash(to), err)
	}
	return left, nil
}

// Advance moves a branch from one commit to another. If it is checked out here, files and index move too, by Forward.
// If another working tree has it checked out or is rebasing it, it stays, and the reason is returned.
func (r *Repo) Advance(ctx context.Context, branch, from, to string, cut bool) ([]LeftOut, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	at, _, err := r.refs.head()
	var left []LeftOut
	if err == nil && at == branch {
		left, err = r.forward(ctx, from, to, cut)
	} else if why := r.usedBy(branch); err == nil && why != "" {
		left = []LeftOut{{Path: strings.TrimPrefix(branch, "refs/heads/"), Why: why}}
	} else if err == nil {
		err = r.setRef(ctx, branch, from, to, "descartes: forward")
	}
	if err != nil {
		return nil, fmt.Errorf("move %s forward to %s: %w", branch, shortHash(to), err)
	}
	return left, nil
}

// usedBy says which working tree has a branch, or rebases it; "" for none.
func (r *Repo) usedBy(branch string) string {
	links, _ := within(r.l.commonDir, "worktrees/*")
	for _, dir := range append([]string{r.l.commonDir}, links...) {
		for file, why := range map[string]string{"HEAD": "is checked out in another working tree", "rebase-merge/head-name": "is being rebased", "rebase-apply/head-name": "is being rebased"} {
			b, err := readPlain(filepath.Join(dir, file), mostLoose)
			if err == nil && strings.TrimPrefix(strings.TrimSpace(string(b)), "ref: ") == branch {
				return why
			}
		}
	}
	return ""
}

func (r *Repo) forward(ctx context.Context, from, to string, cut bool) ([]LeftOut, error) {
	if left, err := r.awaitIndex(ctx); err != nil || len(left) > 0 {
		return left, err
	}
	branch, at, err := r.refs.head()
	if err != nil {
		return nil, err
	}
	if at != from && at != to {
		return nil, &RefusedError{Reason: fmt.Sprintf("HEAD is at %s, not at %s", shortHash(at), shortHash(from)),
			Hint: "somebody committed or switched branches meanwhile; merge " + shortHash(to) + " by hand: git merge " + shortHash(to)}
	}
	old := emptyTreeID
	if from != "" {
		if old, err = r.treeOf(from); err != nil {
			return nil, err
		}
	}
	next, err := r.treeOf(to)
	if err != nil {
		return nil, err
	}
	left, err := r.moveFiles(ctx, old, next, cut)
	if err != nil || len(left) > 0 || at == to {
		return left, err
	}
	crash.Point("git: files moved forward")
	if branch == "" {
		branch = "HEAD"
	}
	if err := r.setRef(ctx, branch, from, to, "descartes: forward"); err != nil {
		_, back := r.moveFiles(context.WithoutCancel(ctx), next, old, false)
		return nil, errors.Join(err, back)
	}
	return nil, nil
}

// awaitIndex waits for a git command of somebody else's that has locked the index, such as git commit -a. It returns the lock if that stays.
func (r *Repo) awaitIndex(ctx context.Context) ([]LeftOut, error) {
	lock := filepath.Join(r.l.gitDir, "index.lock")
	for until := time.Now().Add(10 * r.cli.patience); ; {
		if at, err := stampOf(lock); err != nil || at.ino == 0 {
			return nil, err
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

// step is a path that differs between two trees.
type step struct{ was, is treeItem }

// moveFiles gives the working tree and its index the content of to at every path where from differs, or touches
// nothing and says why. A file that already matches to is only added to the index. Where an earlier call was cut
// short, a half-written file counts as from.
func (r *Repo) moveFiles(ctx context.Context, from, to objectID, cut bool) ([]LeftOut, error) {
	steps := map[string]step{}
	d := differ{store: r.store, each: func(name string, was, is treeItem) {
		was.name, is.name = "", ""
		steps[strings.Clone(name)] = step{was, is}
	}}
	if err := d.dirs("", &from, &to, 0); err != nil || len(steps) == 0 {
		return nil, err
	}
	staged, err := r.cli.stagedAt(ctx, steps)
	if err != nil {
		return nil, err
	}
	disk, err := r.onDisk(ctx, sortedKeys(steps))
	if err != nil {
		return nil, err
	}
	var left []LeftOut
	entries := map[string]treeItem{} // what the index is to say before git moves the rest
	already := map[string]treeItem{} // what it then says as to does
	was := map[string]treeItem{}
	var begun []string
	modes := r.cfg.boolean("core.filemode", true)
	for _, name := range sortedKeys(steps) {
		s, in, now := steps[name], staged[name], disk[name]
		if !modes && in.mode&modeType == now.mode&modeType {
			now.mode = in.mode
		}
		why := ""
		if cut && now != s.was && now != s.is && r.begunToWrite(name, now, s.is) {
			now = s.was
			begun = append(begun, name)
		}
		switch {
		case in.unmerged:
			why = "its merge is not finished"
		case in.treeItem != s.was && in.treeItem != s.is:
			why = "different content of it is staged"
		case s.is.mode == modeGitlink || s.was.mode == modeGitlink || in.skipped && now.mode == 0:
		case r.guard.covers(name) || now == s.is:
			entries[name] = s.is
		case now != s.was && now.mode == 0:
			why = "it was deleted here, and the commit changes it"
		case now != s.was:
			why = "it was changed here, and the commit changes it too"
		default:
			entries[name] = s.was
			why = r.lostBelow(name, s.is, steps)
		}
		if why != "" {
			left = append(left, LeftOut{name, why})
		}
		if entered, ok := entries[name]; ok && entered == s.is || !ok && in.treeItem == s.is {
			already[name] = s.is
		}
		if was[name] = in.treeItem; entries[name] == in.treeItem {
			delete(entries, name)
		}
	}
	if len(left) > 0 {
		slices.SortFunc(left, func(a, b LeftOut) int { return strings.Compare(a.Path, b.Path) })
		return left, nil
	}
	for _, name := range begun {
		if err := r.root.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
	}
	// git would trip over a file that took a folder's place already.
	ed := treeEditor{objects: r.store}
	if from, err = ed.edit("", &from, already); err != nil {
		return nil, err
	}
	return r.cli.moveTree(ctx, entries, was, from, to)
}

// lostBelow says which file would go if a folder gave way to one of the commit's, "" for none: git spares untracked files there, not ignored ones.
func (r *Repo) lostBelow(name string, is treeItem, steps map[string]step) (why string) {
	if fi, err := r.root.Lstat(name); err != nil || !fi.IsDir() || is.mode == 0 {
		return ""
	}
	_ = filepath.WalkDir(filepath.Join(r.l.root, name), func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		rel, err := filepath.Rel(r.l.root, path)
		if s, gone := steps[filepath.ToSlash(rel)]; err == nil && (!gone || s.is.mode != 0) {
			why = "it is a folder here, and holds " + filepath.ToSlash(rel) + ", which no commit has"
			return filepath.SkipAll
		}
		return err
	})
	return why
}

// begunToWrite reports whether git can have been killed while it wrote a file: it is gone, or the beginning of what it is to be.
func (r *Repo) begunToWrite(name string, now, is treeItem) bool {
	if now.mode == 0 || is.mode == 0 {
		return is.mode != 0
	}
	if now.mode&modeType != modeRegular&modeType {
		return false
	}
	half, err := readPlain(filepath.Join(r.l.root, name), largeFile)
	if err != nil {
		return false
	}
	whole, err := r.store.read(is.id, kindBlob)
	return err == nil && bytes.HasPrefix(whole, half)
}

// moveTree enters files in the index and has git move it and the working tree from one tree to another. Files that are in git's way are returned, and
// the index has what it had at the entries.
func (c *cli) moveTree(ctx context.Context, entries, was map[string]treeItem, from, to objectID) ([]LeftOut, error) {
	if len(entries) > 0 {
		if err := c.setEntries(ctx, "", entries); err != nil {
			return nil, err
		}
		crash.Point("git: index ahead of the files")
	}
	if from == to {
		return nil, nil
	}
	// Exit status 1: some files differ from the index, which is the user's affair.
	_, err := c.run(ctx, gitCall{args: []string{"update-index", "-q", "--refresh"}})
	if err == nil || exitCode(err) == 1 {
		if _, err = c.run(ctx, gitCall{args: []string{"read-tree", "-m", "-u", from.String(), to.String()}}); err == nil {
			return nil, nil
		}
	}
	back := map[string]treeItem{}
	for name := range entries {
		back[name] = was[name]
	}
	if berr := c.setEntries(context.WithoutCancel(ctx), "", back); berr != nil {
		return nil, errors.Join(err, berr)
	}
	if said, ok := errors.AsType[*gitError](err); ok {
		if path, why, found := inTheWay(said.said); found {
			return []LeftOut{{path, why}}, nil
		}
		return nil, &RefusedError{Reason: "git cannot update the working tree: " + said.said, Hint: "commit or stash what was changed there, and try again"}
	}
	return nil, err
}

// inTheWay reads from git's words which file of the user's it does not overwrite.
func inTheWay(said string) (path, why string, ok bool) {
	for line := range strings.Lines(said) {
		for _, m := range []struct{ before, after, why string }{
			{"Untracked working tree file '", "' would be overwritten", "it exists here and is untracked, and the commit adds it"},
			{"Updating '", "' would lose untracked files in it", "it holds untracked files, and the commit replaces it"},
			{"Entry '", "' not uptodate", "it was changed here, and the commit changes it too"},
			{"Entry '", "' would be overwritten", "it was changed here, and the commit changes it too"},
		} {
			if _, rest, found := strings.Cut(line, m.before); found {
				if path, _, found := strings.Cut(rest, m.after); found {
					return path, m.why, true
				}
			}
		}
	}
	return "", "", false
}

// stagedItem is what the index has at a path.
type stagedItem struct {
	treeItem
	unmerged bool
	skipped  bool // not checked out by a sparse checkout
}

func (c *cli) stagedAt(ctx context.Context, steps map[string]step) (map[string]stagedItem, error) {
	b, err := c.run(ctx, gitCall{args: []string{"ls-files", "-z", "-s", "-t"}})
	if err != nil {
		return nil, err
	}
	out := map[string]stagedItem{}
	for _, line := range nulSplit(b) {
		head, name, _ := strings.Cut(line, "\t")
		if _, ok := steps[name]; !ok {
			continue
		}
		var tag, id string
		var mode uint32
		var stage int
		if _, err := fmt.Sscanf(head, "%s %o %s %d", &tag, &mode, &id, &stage); err != nil {
			return nil, fmt.Errorf("git ls-files says %q: %w", line, err)
		}
		item := stagedItem{unmerged: stage > 0, skipped: tag == "S"}
		item.mode = mode
		if item.id, err = parseID(id); err != nil {
			return nil, err
		}
		out[name] = item
	}
	return out, nil
}

// onDisk is what git would store of files, through its filters; mode 0 stands for a missing file, or for a directory.
func (r *Repo) onDisk(ctx context.Context, paths []string) (map[string]treeItem, error) {
	out := map[string]treeItem{}
	var files []string
	var ask bytes.Buffer
	for _, name := range paths {
		fi, err := r.root.Lstat(name)
		if err != nil { // it is missing, or a link leads there
			continue
		}
		switch mode := fi.Mode(); {
		case mode.IsDir():
		case mode&fs.ModeSymlink != 0:
			text, err := r.root.Readlink(name)
			if err != nil {
				return nil, fmt.Errorf("read %s: %w", name, err)
			}
			out[name] = treeItem{mode: modeLink, id: hashObject(kindBlob, []byte(text))}
		case !mode.IsRegular():
			out[name] = treeItem{mode: modeDir} // a pipe or a device: nothing that a tree has
		default:
			out[name] = treeItem{mode: modeRegular}
			if mode&0o100 != 0 {
				out[name] = treeItem{mode: modeExec}
			}
			files = append(files, name)
			ask.WriteString(quotePath(name) + "\n")
		}
	}
	if len(files) == 0 {
		return out, nil
	}
	b, err := r.cli.run(ctx, gitCall{args: []string{"hash-object", "--stdin-paths"}, stdin: ask.Bytes()})
	if err != nil {
		return nil, err
	}
	ids := strings.Fields(string(b))
	if len(ids) != len(files) {
		return nil, fmt.Errorf("git hash-object named %d of %d files", len(ids), len(files))
	}
	for i, name := range files {
		item := out[name]
		if item.id, err = parseID(ids[i]); err != nil {
			return nil, err
		}
		out[name] = item
	}
	return out, nil
}

// quotePath writes a path as git reads one from a line.
func quotePath(name string) string {
	if !strings.ContainsAny(name, "\n\r") && name[0] != '"' {
		return name
	}
	var b strings.Builder
	for _, c := range []byte(name) {
		fmt.Fprintf(&b, `\%03o`, c)
	}
	return `"` + b.String() + `"`
}
