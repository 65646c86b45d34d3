package gitops

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// A submodule in a slot is a slot in the slot: the user's own repository of it in the place of the project's, its
// folder in the tree, its HEAD and index below ours. Nothing is fetched over a network.

// findModules finds the repositories of the user's submodules, nested ones too, and makes links to their objects.
func (s *Slot) findModules(ctx context.Context) error {
	s.known = map[string]string{}
	err := errors.Join(s.addStored(filepath.Join(s.user.l.gitDir, "modules"), 0),
		s.addStored(filepath.Join(s.user.l.commonDir, "modules"), 0),
		s.addCheckedOut(ctx, s.user.l.gitDir, s.user.l.root))
	if err != nil {
		return fmt.Errorf("make the slot %s: %w", s.dir, err)
	}
	return ctx.Err()
}

// addStored adds the repositories in a folder, as deep as their names have slashes, with those that they hold.
func (s *Slot) addStored(dir string, depth int) (err error) {
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		at := filepath.Join(dir, e.Name())
		switch {
		case !e.IsDir() || depth > 16:
		case isHead(filepath.Join(at, "HEAD")):
			err = errors.Join(err, s.add(at), s.addStored(filepath.Join(at, "modules"), depth+1))
		default:
			err = errors.Join(err, s.addStored(at, depth+1))
		}
	}
	return err
}

// addCheckedOut adds the repositories of submodules that are checked out in the user's working tree, wherever they lie.
func (s *Slot) addCheckedOut(ctx context.Context, dir, tree string) (err error) {
	links, _ := s.user.cli.links(ctx, "", "--git-dir="+dir, "--work-tree="+tree)
	for _, n := range links {
		at := filepath.Join(tree, filepath.FromSlash(n.path))
		if inner := gitDirOf(at); isHead(filepath.Join(inner, "HEAD")) {
			err = errors.Join(err, s.add(inner), s.addStored(filepath.Join(inner, "modules"), 0),
				s.addCheckedOut(ctx, inner, at))
		}
	}
	return err
}

// add makes a repository's objects known.
func (s *Slot) add(dir string) error {
	dir, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return err
	}
	if fi, err := os.Stat(filepath.Join(dir, "objects")); err != nil || !fi.IsDir() || s.known[s.linkTo(dir)] != "" {
		return nil
	}
	s.known[s.linkTo(dir)] = dir
	return lend(s.linkTo(dir), dir)
}

// lend makes a link to the objects of a repository, and one to its LFS objects, where git-lfs looks for them in
// repositories that borrow.
func lend(link, gitDir string) error {
	err := borrow(link, filepath.Join(gitDir, "objects"))
	if _, lerr := os.Stat(lfsOf(filepath.Join(gitDir, "objects"))); lerr == nil {
		err = errors.Join(err, borrow(lfsOf(link), lfsOf(filepath.Join(gitDir, "objects"))))
	}
	return err
}

// lfsOf is the folder of LFS objects beside one of objects.
func lfsOf(objects string) string { return filepath.Join(filepath.Dir(objects), "lfs", "objects") }

// borrow makes a link to a folder.
func borrow(link, dir string) error {
	if to, err := os.Readlink(link); err == nil && to == dir {
		return nil
	}
	next := fmt.Sprintf("%s.%d", link, os.Getpid())
	_ = os.Remove(next)
	if err := errors.Join(os.MkdirAll(filepath.Dir(link), 0o777), os.Symlink(dir, next)); err != nil {
		return err
	}
	return os.Rename(next, link)
}

// linkTo is the path by which agents' repositories reach the objects of a submodule.
func (s *Slot) linkTo(dir string) string {
	return filepath.Join(s.place, "modules", shortSum(dir), "objects")
}

func shortSum(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:6])
}

// gitDirOf is the git directory of the working tree at a path, without links; "" where there is none.
func gitDirOf(tree string) string {
	dot := filepath.Join(tree, ".git")
	if fi, err := os.Lstat(dot); err == nil && fi.Mode().IsRegular() {
		b, _ := readPlain(dot, mostLoose)
		to, _ := strings.CutPrefix(strings.TrimRight(string(b), "\r\n"), "gitdir: ")
		if dot = to; !filepath.IsAbs(dot) {
			dot = filepath.Join(tree, dot)
		}
	}
	dot, err := filepath.EvalSymlinks(dot)
	if err != nil {
		return ""
	}
	return dot
}

// Objects are the folders of objects that repositories in the slot borrow, by the paths at which they look for them.
func (s *Slot) Objects() map[string]string {
	all := map[string]string{}
	add := func(link, dir string) {
		if real, err := filepath.EvalSymlinks(dir); err == nil {
			all[cmp.Or(link, real)] = real
		}
	}
	borrows := func(link, gitDir string) {
		add(link, filepath.Join(gitDir, "objects"))
		add(lfsOf(link), lfsOf(filepath.Join(gitDir, "objects")))
		for _, d := range objectDirs(gitDir)[1:] {
			add("", d)
			add("", lfsOf(d))
		}
	}
	borrows(s.objects, s.user.l.commonDir)
	for link, dir := range s.known {
		borrows(link, dir)
	}
	return all
}

// module opens a submodule at a path, with a commit; "" is any. why says that the user does not have it.
func (s *Slot) module(ctx context.Context, path, name, commit string) (m *Slot, why string, err error) {
	var dirs []string
	if s.beside != "" {
		dirs = append(dirs, gitDirOf(filepath.Join(s.beside, filepath.FromSlash(path))))
	}
	if filepath.IsLocal(name) {
		for _, d := range []string{s.user.l.gitDir, s.user.l.commonDir} {
			if real, err := filepath.EvalSymlinks(filepath.Join(d, "modules", filepath.FromSlash(name))); err == nil {
				dirs = append(dirs, real)
			}
		}
	}
	dir := ""
	for _, d := range dirs {
		if s.known[s.linkTo(d)] == "" {
			continue
		}
		if m, err = s.openModule(ctx, path, d); err != nil || commit == "" || m.has(ctx, commit) {
			return m, "", err
		}
		dir = d
	}
	if dir == "" {
		return nil, "it is not checked out in your tree either: git submodule update --init", nil
	}
	return nil, fmt.Sprintf("its commit %s is not in %s: git submodule update", shortHash(commit), dir), nil
}

// openModule opens the slot of a submodule, with the user's repository at dir.
func (s *Slot) openModule(ctx context.Context, path, dir string) (*Slot, error) {
	m := s.modules[path]
	if m != nil && m.user.l.gitDir == dir && m.There() {
		return m, nil
	}
	if err := s.closeModule(path); err != nil {
		return nil, err
	}
	m = &Slot{dir: s.dir, git: s.gitOf(path), objects: s.linkTo(dir), known: s.known, place: s.place}
	m.tree = filepath.Join(s.tree, filepath.FromSlash(path))
	opt := s.opt
	opt.Dir, opt.Shim, opt.Protect, opt.Hooks = m.tree, nil, nil, "skip"
	program := func(l layout) *cli {
		git := newCLI(l, s.cli.program, s.cli.version, opt)
		git.by = s.cli
		return git
	}
	l := layout{gitDir: dir, commonDir: dir}
	m.user = &Repo{opt: opt, l: l}
	if at := filepath.Join(s.beside, filepath.FromSlash(path)); s.beside != "" && gitDirOf(at) == dir {
		m.beside, m.user.l.root = at, at
		root, err := os.OpenRoot(at)
		if err != nil {
			return nil, err
		}
		m.user.root = root
	}
	m.user.cli = program(m.user.l)
	m.user.cli.env = append(m.user.cli.env, "GIT_DIR="+dir)
	if m.beside != "" {
		m.user.cli.env = append(m.user.cli.env, "GIT_WORK_TREE="+m.beside)
	}
	if s.modules == nil {
		s.modules = map[string]*Slot{}
	}
	s.modules[path] = m
	if err := m.open(ctx, program(layout{root: m.tree, gitDir: m.git, commonDir: dir}), opt); err != nil {
		return nil, errors.Join(err, s.closeModule(path))
	}
	m.user.set = m.set
	return m, nil
}

// closeModule closes the slot of a submodule, if it is open.
func (s *Slot) closeModule(path string) error {
	m := s.modules[path]
	if m == nil {
		return nil
	}
	delete(s.modules, path)
	err := m.Close()
	if m.user.root != nil {
		err = errors.Join(err, m.user.root.Close())
	}
	return err
}

// gitOf is where HEAD and index of a submodule are kept for us.
func (s *Slot) gitOf(path string) string { return filepath.Join(s.git, "modules", shortSum(path)) }

// moduleNames are the names of submodules, by their paths.
func (s *Slot) moduleNames(ctx context.Context, tree Tree) map[string]string {
	b, _ := s.cli.run(ctx, gitCall{args: []string{"config", "--blob", string(tree) + ":.gitmodules", "-z", "--get-regexp",
		`^submodule\..*\.path$`}})
	names := map[string]string{}
	for _, entry := range nulSplit(b) {
		key, path, _ := strings.Cut(entry, "\n")
		names[strings.TrimSuffix(path, "/")] = strings.TrimSuffix(strings.TrimPrefix(key, "submodule."), ".path")
	}
	return names
}

// checkOutModules checks the submodules out that the user has, at the tree's commits. The folders of the others are
// emptied: nothing else takes away what an attempt put there.
func (s *Slot) checkOutModules(ctx context.Context, tree Tree, fresh bool) error {
	links, err := s.cli.links(ctx, "")
	if s.cli.whole = err == nil && len(links) == 0; err != nil || s.cli.whole {
		return err
	}
	names := s.moduleNames(ctx, tree)
	s.empty = nil
	for _, n := range links {
		if err := s.makeFolder(n.path); err != nil {
			return err
		}
		m, why, err := s.module(ctx, n.path, names[n.path], n.was)
		if err == nil && m != nil {
			var files Tree
			if files, err = m.treeOf(n.was); err == nil {
				err = m.prepare(ctx, Head{Hash: n.was}, files, fresh)
			}
		}
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			why = err.Error()
		case m != nil:
			for _, l := range m.empty {
				s.empty = append(s.empty, LeftOut{n.path + "/" + l.Path, l.Why})
			}
			continue
		}
		s.empty = append(s.empty, LeftOut{n.path, why})
		dir := filepath.Join(s.tree, filepath.FromSlash(n.path))
		if inside, _ := os.ReadDir(dir); len(inside) == 0 {
			continue
		}
		loosen(dir)
		if err := errors.Join(os.RemoveAll(dir), os.MkdirAll(dir, 0o777)); err != nil {
			return err
		}
	}
	return nil
}

// makeFolder makes a folder in the working tree, in the place of whatever leads elsewhere.
func (s *Slot) makeFolder(path string) error {
	at := s.tree
	for part := range strings.SplitSeq(path, "/") {
		at = filepath.Join(at, part)
		if fi, err := os.Lstat(at); err == nil && fi.IsDir() {
			continue
		}
		if err := errors.Join(os.RemoveAll(at), os.Mkdir(at, 0o777)); err != nil {
			return err
		}
	}
	return nil
}

// EmptyModules lists the submodules that are not checked out in the slot, and why.
func (s *Slot) EmptyModules() []LeftOut { return s.empty }

// Modules fetches what the agent committed in submodules into the user's repositories of them, under refs with a
// prefix, for a snapshot that names these commits. edited are those with changes that are not committed there, each
// with the commit that keeps these under such a ref too; lost are those whose commits cannot be read.
func (s *Slot) Modules(ctx context.Context, snapshot Tree, refs string) (edited, lost []LeftOut, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.collectModules(ctx, snapshot, refs)
}

func (s *Slot) collectModules(ctx context.Context, snapshot Tree, refs string) (edited, lost []LeftOut, err error) {
	if s.here || s.cli.whole {
		return nil, nil, nil
	}
	links, err := s.cli.links(ctx, "")
	if err != nil {
		return nil, nil, err
	}
	base, err := s.base(ctx)
	if err != nil {
		return nil, nil, err
	}
	head, err := s.CommitTree(base)
	if err != nil {
		return nil, nil, err
	}
	var moved []nestedRepo
	if err := s.diff(ctx, head, snapshot, func(path string, _, is treeItem) {
		known := slices.ContainsFunc(links, func(n nestedRepo) bool { return n.path == path })
		if is.mode == modeGitlink && !known { // it was moved, or is new
			moved = append(moved, nestedRepo{path: path})
		}
	}); err != nil {
		return nil, nil, err
	}
	for _, n := range moved { // what lies there is of another run
		if s.modules[n.path] == nil {
			if err := os.RemoveAll(s.gitOf(n.path)); err != nil {
				return nil, nil, err
			}
		}
	}
	now := s.view(snapshot)
	var names map[string]string
	for _, n := range append(links, moved...) {
		is, err := now.file(n.path)
		if err != nil || is.mode != modeGitlink {
			continue
		}
		if names == nil {
			names = s.moduleNames(ctx, snapshot)
		}
		m, _, err := s.module(ctx, n.path, names[n.path], n.was)
		if err != nil {
			lost = append(lost, LeftOut{n.path, err.Error()})
		}
		if m == nil {
			continue
		}
		in, out, err := m.collectModule(ctx, is.id, refs)
		if err != nil {
			return nil, nil, err
		}
		for _, x := range in {
			edited = append(edited, LeftOut{strings.TrimSuffix(n.path+"/"+x.Path, "/"), x.Why})
		}
		for _, x := range out {
			lost = append(lost, LeftOut{strings.TrimSuffix(n.path+"/"+x.Path, "/"), x.Why})
		}
	}
	return edited, lost, nil
}

// collectModule is collectModules for a submodule itself, whose path is "": the commit named is the one that a snapshot
// around it has.
func (s *Slot) collectModule(ctx context.Context, named, refs string) (edited, lost []LeftOut, err error) {
	base, err := s.base(ctx)
	if err != nil {
		return nil, nil, err
	}
	tip, err := s.collect(ctx, base)
	if errors.Is(err, ErrNoRepository) && named == base {
		tip, err = base, nil // its files tell
	}
	if err != nil || tip != named {
		return nil, []LeftOut{{"", fmt.Sprintf("its commit %s cannot be read", shortHash(named))}}, ctx.Err()
	}
	if tip != base {
		if err := s.forceRef(ctx, refs+tip, tip, "descartes: commit of an attempt"); err != nil {
			return nil, nil, err
		}
	}
	want, err := s.treeOf(tip)
	if err == nil && s.New() {
		_, err = s.cli.run(ctx, gitCall{args: []string{"read-tree", tip}})
	}
	if err != nil {
		return nil, nil, err
	}
	files, err := s.Snapshot(ctx)
	if err != nil {
		return nil, nil, err
	}
	if edited, lost, err = s.collectModules(ctx, files, refs); err != nil || files == want {
		return edited, lost, err
	}
	kept, err := s.Keep(ctx, refs+string(files), files, []string{tip}, "descartes: not committed by an attempt")
	return append(edited, LeftOut{"", kept}), lost, err
}
