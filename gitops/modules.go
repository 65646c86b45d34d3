package gitops

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"
)

// A submodule in a slot is a slot in the slot: the user's own repository of it in the place of the project's, its
// folder in the tree, its HEAD and index below ours. Nothing is fetched over a network.

// findModules finds the repositories of the user's submodules, nested ones too, and makes links to their objects.
func (s *Slot) findModules() (err error) {
	s.known = map[string]string{}
	for _, d := range []string{s.user.l.gitDir, s.user.l.commonDir} {
		_ = filepath.WalkDir(filepath.Join(d, "modules"), func(path string, e fs.DirEntry, _ error) error {
			dir := filepath.Dir(path)
			if e == nil || !e.IsDir() || e.Name() != "objects" || !exists(filepath.Join(dir, "HEAD")) {
				return nil
			}
			if s.known[s.linkTo(dir)] == "" {
				s.known[s.linkTo(dir)] = dir
				err = errors.Join(err, lend(s.linkTo(dir), dir))
			}
			return fs.SkipDir
		})
	}
	if err != nil {
		return fmt.Errorf("make the slot %s: %w", s.dir, err)
	}
	return nil
}

// lent tells the links apart that slots make at the same time.
var lent atomic.Int64

// lend makes a link to the objects of a repository, and one to its LFS objects, where git-lfs looks for them in
// repositories that borrow.
func lend(link, gitDir string) (err error) {
	from := filepath.Join(gitDir, "objects")
	for link, dir := range map[string]string{link: from, lfsOf(link): lfsOf(from)} {
		if to, lerr := os.Readlink(link); !exists(dir) || lerr == nil && to == dir {
			continue
		}
		next := fmt.Sprintf("%s.%d.%d", link, os.Getpid(), lent.Add(1))
		_ = os.Remove(next)
		err = errors.Join(err, os.MkdirAll(filepath.Dir(link), 0o777), os.Symlink(dir, next), os.Rename(next, link))
	}
	return err
}

// lfsOf is the folder of LFS objects beside one of objects.
func lfsOf(objects string) string { return filepath.Join(filepath.Dir(objects), "lfs", "objects") }

// linkTo is the path by which agents' repositories reach the objects of a submodule.
func (s *Slot) linkTo(dir string) string {
	return filepath.Join(filepath.Dir(s.opts.Objects), "modules", shortSum(dir), "objects")
}

func shortSum(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:6])
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
		for i, d := range objectDirs(gitDir) {
			at, lfs := link, lfsOf(link)
			if i > 0 {
				at, lfs = "", ""
			}
			add(at, d)
			add(lfs, lfsOf(d))
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
	why = "it is not in .git/modules either: git submodule update --init, or git submodule absorbgitdirs"
	for _, d := range []string{s.user.l.gitDir, s.user.l.commonDir} {
		dir := filepath.Join(d, "modules", filepath.FromSlash(name))
		if name == "" || !filepath.IsLocal(name) || s.known[s.linkTo(dir)] == "" {
			continue
		}
		if m, err = s.openModule(ctx, path, dir); err != nil || commit == "" || m.has(ctx, commit) {
			return m, "", err
		}
		why = fmt.Sprintf("its commit %s is not in %s: git submodule update", shortHash(commit), dir)
	}
	return nil, why, nil
}

// openModule opens the slot of a submodule, with the user's repository at dir.
func (s *Slot) openModule(ctx context.Context, path, dir string) (*Slot, error) {
	if m := s.modules[path]; m != nil && m.user.l.gitDir == dir && m.There() {
		return m, nil
	}
	if err := s.closeModule(path); err != nil {
		return nil, err
	}
	m := &Slot{dir: s.dir, git: s.gitOf(path), objects: s.linkTo(dir), known: s.known,
		opts: SlotOptions{Objects: s.opts.Objects}}
	m.tree = filepath.Join(s.tree, filepath.FromSlash(path))
	opt := s.opt
	opt.Dir, opt.Shim, opt.Protect, opt.Hooks = m.tree, nil, nil, "skip"
	program := func(l layout) *cli {
		git := newCLI(l, s.cli.program, s.cli.version, opt)
		git.by = s.cli
		return git
	}
	m.user = &Repo{opt: opt, l: layout{gitDir: dir, commonDir: dir}}
	m.user.cli = program(m.user.l)
	m.user.cli.env = append(m.user.cli.env, "GIT_DIR="+dir)
	if s.modules == nil {
		s.modules = map[string]*Slot{}
	}
	s.modules[path] = m
	if err := m.open(ctx, program(layout{root: m.tree, gitDir: m.git, commonDir: dir}), opt); err != nil {
		return nil, errors.Join(err, s.closeModule(path))
	}
	m.user.set, m.user.own = m.set, m.own
	return m, nil
}

// closeModule closes the slot of a submodule, if it is open.
func (s *Slot) closeModule(path string) error {
	m := s.modules[path]
	if m == nil {
		return nil
	}
	delete(s.modules, path)
	return m.Close()
}

// gitOf is where HEAD and index of a submodule are kept for us.
func (s *Slot) gitOf(path string) string { return filepath.Join(s.git, "modules", shortSum(path)) }

// moduleNames are the names of submodules, by their paths.
func (c *cli) moduleNames(ctx context.Context, where ...string) map[string]string {
	b, _ := c.run(ctx, gitCall{args: slices.Concat([]string{"config"}, where,
		[]string{"-z", "--get-regexp", `^submodule\..*\.path$`})})
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
	if s.flat != "" {
		s.cli.whole = true
		err := s.diff(ctx, s.flat, tree, func(_ string, _, is treeItem) {
			s.cli.whole = s.cli.whole && is.mode != modeGitlink
		})
		if s.cli.whole && err == nil {
			return nil
		}
	}
	listed, err := s.Listed(ctx)
	var links []nestedRepo
	for _, path := range sortedKeys(listed) {
		if was, is := strings.CutPrefix(listed[path], "160000 "); is {
			links = append(links, nestedRepo{path: path, was: was[:strings.IndexByte(was, ' ')]})
		}
	}
	s.cli.whole, s.flat = err == nil && len(links) == 0, ""
	if s.cli.whole {
		s.flat = tree
	}
	if err != nil || s.cli.whole {
		return err
	}
	names := s.cli.moduleNames(ctx, "--blob", string(tree)+":.gitmodules")
	s.empty = nil
	for _, n := range links {
		if dir := linkAbove(s.tree, n.path+"/."); dir != "" { // it would be written to where that leads
			return fmt.Errorf("%s is a link, and no folder for a submodule", dir)
		}
		if err := s.root.MkdirAll(n.path, 0o777); err != nil {
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
			s.empty = append(s.empty, under(n.path, m.empty)...)
			continue
		}
		s.empty = append(s.empty, LeftOut{n.path, why})
		if err := errors.Join(s.remove(n.path), s.root.Mkdir(n.path, 0o777)); err != nil {
			return err
		}
	}
	return nil
}

// under are paths in a folder as seen from above it.
func under(folder string, list []LeftOut) (out []LeftOut) {
	for _, l := range list {
		out = append(out, LeftOut{strings.TrimSuffix(folder+"/"+l.Path, "/"), l.Why})
	}
	return out
}

// EmptyModules lists the submodules that are not checked out in the slot, and why.
func (s *Slot) EmptyModules() []LeftOut { return s.empty }

// Modules fetches what the agent committed in submodules into the user's repositories of them, under refs with a
// prefix, for a snapshot that names these commits. edited are those with changes that are not committed there, each
// with the commit that keeps these under such a ref too; lost are those whose commits cannot be read, or are not to be
// kept for what secret finds in their text.
func (s *Slot) Modules(ctx context.Context, snapshot Tree, refs string, secret func(text string) bool) (edited,
	lost []LeftOut, err error) {
	if s.cli.whole {
		return nil, nil, nil
	}
	links, err := s.cli.links(ctx, s.cli.last)
	if err != nil {
		return nil, nil, err
	}
	before, err := s.cli.links(ctx, "")
	if err != nil {
		return nil, nil, err
	}
	names := s.cli.moduleNames(ctx, "--blob", string(snapshot)+":.gitmodules")
	for _, n := range links {
		was := ""
		if i := slices.IndexFunc(before, func(b nestedRepo) bool { return b.path == n.path }); i >= 0 {
			was = before[i].was
		} else if s.modules[n.path] == nil { // it was moved, or is new: what lies there is of another run
			if err := os.RemoveAll(s.gitOf(n.path)); err != nil {
				return nil, nil, err
			}
		}
		m, _, err := s.module(ctx, n.path, names[n.path], was)
		if err != nil {
			lost = append(lost, LeftOut{n.path, err.Error()})
		}
		if m == nil {
			continue
		}
		in, out, err := m.collectModule(ctx, n.was, refs, secret)
		if err != nil {
			return nil, nil, err
		}
		edited, lost = append(edited, under(n.path, in)...), append(lost, under(n.path, out)...)
	}
	return edited, lost, nil
}

// collectModule is Modules for a submodule itself, whose path is "": the commit named is the one that a snapshot
// around it has.
func (s *Slot) collectModule(ctx context.Context, named, refs string, secret func(text string) bool) (edited,
	lost []LeftOut, err error) {
	base, err := s.base(ctx)
	if err != nil {
		return nil, nil, err
	}
	tip := s.Tip(ctx)
	err = s.collect(ctx, base, tip)
	if errors.Is(err, ErrNoRepository) && named == base {
		tip, err = base, nil // its files tell
	}
	if err != nil || tip != named {
		return nil, []LeftOut{{"", fmt.Sprintf("its commit %s cannot be read", shortHash(named))}}, ctx.Err()
	}
	if tip != base {
		said, err := s.Texts(ctx, tip)
		if err != nil {
			return nil, nil, err
		}
		if secret(said) {
			return nil, []LeftOut{{"", fmt.Sprintf("its commit %s has a secret in its text", shortHash(tip))}}, nil
		}
		if err := s.SetRef(ctx, refs+tip, tip, "descartes: commit of an attempt"); err != nil {
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
	if edited, lost, err = s.Modules(ctx, files, refs, secret); err != nil || files == want {
		return edited, lost, err
	}
	kept, err := s.Keep(ctx, refs+string(files), files, []string{tip}, "descartes: not committed by an attempt")
	return append(edited, LeftOut{"", kept}), lost, err
}

// nestedRepo is a repository of its own in the working tree, such as a submodule, that an index knows.
type nestedRepo struct {
	path string
	was  string // the commit that the index has
	now  string // the one checked out; "" where unknown
}

// nested finds the repositories that git add would ask for their status, and those in whose place something else is,
// which may lead to another one. git does so by a git that obeys what their configuration says, filters among it, and
// an agent may have written that. So they are kept from it: only their HEAD is read, by us.
func (c *cli) nested(ctx context.Context, index string) (found []nestedRepo, gone []string, err error) {
	if c.whole {
		return nil, nil, nil
	}
	links, err := c.links(ctx, index)
	for _, n := range links {
		at := filepath.Join(c.l.root, n.path)
		if fi, err := os.Lstat(at); err == nil && !fi.IsDir() && linkAbove(c.l.root, n.path) == "" {
			gone = append(gone, n.path)
		} else if c.holds(n.path) {
			n.now = c.checkedOut(ctx, at)
			found = append(found, n)
		}
	}
	return found, gone, err
}

// links lists the repositories that an index knows, checked out or not.
func (c *cli) links(ctx context.Context, index string) (links []nestedRepo, err error) {
	b, err := c.run(ctx, gitCall{args: []string{"ls-files", "-s", "-z"}, index: index})
	for _, entry := range nulSplit(b) {
		info, path, _ := strings.Cut(entry, "\t")
		if rest, is := strings.CutPrefix(info, "160000 "); is {
			was, _, _ := strings.Cut(rest, " ")
			links = append(links, nestedRepo{path: path, was: was})
		}
	}
	return links, err
}

// holds reports whether there is a repository of its own at a path of the working tree, and not behind a link.
func (c *cli) holds(path string) bool {
	path += "/.git"
	return exists(filepath.Join(c.l.root, path)) && linkAbove(c.l.root, path) == ""
}

// checkedOut is the commit that is checked out in another repository, "" where unknown. In a slot, where an agent wrote
// that repository, git is not asked. In the user's own tree git runs nothing that the repository's configuration names,
// and does not hang where a pipe replaces one of its files.
func (c *cli) checkedOut(ctx context.Context, dir string) string {
	if c.slot {
		root, err := os.OpenRoot(c.l.root)
		rel, rerr := filepath.Rel(c.l.root, dir)
		if err != nil || rerr != nil {
			return ""
		}
		defer root.Close()
		return headIn(root, filepath.ToSlash(rel))
	}
	ctx, cancel := context.WithTimeout(ctx, 5*c.patience)
	defer cancel()
	hash, _ := c.run(ctx, gitCall{options: []string{"--git-dir=" + filepath.Join(dir, ".git")},
		args: []string{"rev-parse", "--verify", "--quiet", "HEAD"}})
	return strings.TrimSpace(string(hash))
}

// setNested gives the nested repositories of an index the commits that are checked out.
func (c *cli) setNested(ctx context.Context, index string, found []nestedRepo) error {
	var moved bytes.Buffer
	for _, n := range found {
		if n.now != "" && n.now != n.was {
			fmt.Fprintf(&moved, "160000 %s\t%s\x00", n.now, n.path)
		}
	}
	if moved.Len() == 0 {
		return nil
	}
	_, err := c.run(ctx, gitCall{args: []string{"update-index", "-z", "--index-info"}, index: index,
		stdin: moved.Bytes()})
	return err
}

// NestedEdits lists, sorted, files inside submodules and other nested repositories that were written since a time: no
// snapshot contains them. Submodules that Modules looks into are left out, and those in which something was committed.
// git is not asked, which would obey a configuration that an agent may have written.
func (s *Slot) NestedEdits(ctx context.Context, since time.Time) (out []string, err error) {
	if s.cli.whole {
		return nil, nil
	}
	links, err := s.cli.links(ctx, "")
	for _, n := range links {
		at := filepath.Join(s.tree, n.path)
		if linkAbove(s.tree, n.path+"/.git") != "" || s.cli.holds(n.path) && s.cli.checkedOut(ctx, at) != n.was ||
			s.modules[n.path] != nil {
			continue
		}
		_ = filepath.WalkDir(at, func(path string, e fs.DirEntry, err error) error {
			rel, rerr := filepath.Rel(s.tree, path)
			switch {
			case err != nil || rerr != nil || len(out) == mostEdits, e.Name() == ".git" && e.IsDir():
				return filepath.SkipDir
			case !e.IsDir() && e.Name() != ".git" && !s.olderThan(rel, since):
				out = append(out, filepath.ToSlash(rel))
			}
			return nil
		})
	}
	slices.Sort(out)
	return out, err
}

// mostEdits bounds what NestedEdits lists.
const mostEdits = 1000
