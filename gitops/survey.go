package gitops

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"descartes/internal/plainfile"
)

// UnstorableError means that git cannot store what lies in a working tree, for a reason that lies there.
type UnstorableError struct{ Why string }

func (e *UnstorableError) Error() string { return "git cannot store its files: " + e.Why }

// maxRules and maxStored bound, in bytes, a file of rules that git reads as a whole, and any other that it stores:
// one without end keeps it busy for hours.
const (
	maxRules  = 16 << 20
	maxStored = 32 << 30
)

// surveyed is what git must not meet in a working tree, found by Lstat: git opens what it finds, and waits there.
type surveyed struct {
	repos []string  // folders with a .git of their own, which git does not ignore
	waits []string  // those, ignored or not, in which git would wait
	odd   []LeftOut // files of rules that git cannot read
	large []LeftOut // which git does not ignore
}

// unreadable is an *UnstorableError where git cannot read the tree. It is kept from the repositories that are known.
func (s surveyed) unreadable(known []nestedRepo) error {
	for _, dir := range s.waits {
		if !inOne(known, dir) {
			return &UnstorableError{LeftOut{dir, "a git repository whose HEAD or commondir is not a file"}.String()}
		}
	}
	if len(s.odd) > 0 {
		return &UnstorableError{s.odd[0].String()}
	}
	return nil
}

// inOne reports whether a path is one of the repositories, or lies in one.
func inOne(repos []nestedRepo, path string) bool {
	return slices.ContainsFunc(repos, func(n nestedRepo) bool {
		return n.path == path || strings.HasPrefix(path, n.path+"/")
	})
}

// survey walks the working tree. It opens no file but a .git that is a file, and follows no link.
func (c *cli) survey(ctx context.Context) (s surveyed, err error) {
	root, err := os.OpenRoot(c.l.root)
	if err != nil {
		return s, err
	}
	defer root.Close()
	sizes := map[string]int64{}
	err = filepath.WalkDir(c.l.root, func(full string, d fs.DirEntry, err error) error {
		if full == c.l.root {
			return err
		}
		if err != nil || ctx.Err() != nil {
			return context.Cause(ctx) // a folder that is closed, which git names
		}
		rel, name := filepath.ToSlash(full[len(c.l.root)+1:]), d.Name()
		switch {
		case strings.EqualFold(name, ".git") && exists(filepath.Join(filepath.Dir(full), ".git")):
			if dir := path.Dir(rel); dir != "." {
				s.repos = append(s.repos, dir)
				if c.waits(root, dir) {
					s.waits = append(s.waits, dir)
				}
			}
			if d.IsDir() {
				return fs.SkipDir
			}
		case name == ".gitignore" || name == ".gitattributes" || name == ".gitmodules":
			if why := c.oddRules(root, rel); why != "" {
				s.odd = append(s.odd, LeftOut{rel, why})
			}
		case d.Type().IsRegular():
			if fi, err := d.Info(); err == nil && fi.Size() > maxStored {
				sizes[rel] = fi.Size()
			}
		}
		return nil
	})
	if err != nil || len(s.odd) > 0 || len(s.repos)+len(sizes) == 0 {
		return s, err
	}
	ignored, err := c.ignored(ctx, append(sortedKeys(sizes), s.repos...))
	s.repos = slices.DeleteFunc(s.repos, func(p string) bool { return ignored[p] })
	for _, p := range sortedKeys(sizes) {
		if !ignored[p] {
			s.large = append(s.large, LeftOut{p, fmt.Sprintf("it has %d GB, and at most %d GB are stored",
				sizes[p]>>30, maxStored>>30)})
		}
	}
	return s, err
}

// ignored reports which paths git ignores.
func (c *cli) ignored(ctx context.Context, paths []string) (map[string]bool, error) {
	plain := make([]string, len(paths)) // no name is magic then
	for i, p := range paths {
		plain[i] = "./" + p
	}
	b, err := c.run(ctx, gitCall{args: []string{"check-ignore", "-z", "--stdin", "--no-index"}, stdin: nulJoin(plain)})
	if exitCode(err) == 1 {
		err = nil
	}
	ignored := map[string]bool{}
	for _, p := range nulSplit(b) {
		ignored[strings.TrimPrefix(p, "./")] = true
	}
	return ignored, err
}

// waits reports whether git would wait when it looks whether there is a repository in a folder: it opens HEAD and
// commondir, wherever they are.
func (c *cli) waits(root *os.Root, dir string) bool {
	at := filepath.Join(c.l.root, dir, ".git")
	fi, err := os.Stat(at)
	if err == nil && fi.Mode().IsRegular() {
		b, rerr := plainfile.ReadIn(root, path.Join(dir, ".git"), maxGitFile)
		to, ok := strings.CutPrefix(strings.TrimRight(string(b), "\r\n"), "gitdir: ")
		if rerr != nil || !ok {
			return false
		}
		if at = to; !filepath.IsAbs(to) {
			at = filepath.Join(c.l.root, dir, to)
		}
	}
	for _, name := range []string{"HEAD", "commondir"} { // of the second it reads all
		fi, err = os.Stat(filepath.Join(at, name))
		if err == nil && (fi.Mode()&(fs.ModeNamedPipe|fs.ModeDevice|fs.ModeSocket) != 0 || fi.Size() > maxRules) {
			return true
		}
	}
	return false
}

// gitFile is the git directory that a .git that is a file names, which has to lie in the same tree.
func gitFile(root *os.Root, at string) (string, error) {
	b, err := plainfile.ReadIn(root, at, maxGitFile)
	if err != nil {
		return "", err
	}
	to, ok := strings.CutPrefix(strings.TrimRight(string(b), "\r\n"), "gitdir: ")
	if !ok {
		return "", errors.New("it does not name a git directory")
	}
	if !filepath.IsAbs(to) {
		to = path.Join(path.Dir(at), to)
	}
	if !filepath.IsLocal(to) {
		return "", errors.New("it leads out of the project")
	}
	return to, nil
}

const maxGitFile = 4 << 10

// oddRules says why git cannot read a file of rules, "" if it can.
func (c *cli) oddRules(root *os.Root, name string) string {
	fi, err := root.Lstat(name)
	if err == nil && fi.Mode()&fs.ModeSymlink != 0 {
		if !c.version.Before(Version{2, 32}) { // which follows none
			return ""
		}
		fi, err = root.Stat(name)
	}
	switch {
	case err != nil:
		return err.Error()
	case fi.Mode().IsRegular() && fi.Size() > maxRules:
		return fmt.Sprintf("it has more than %d MB", maxRules>>20)
	case !fi.Mode().IsRegular() && !fi.IsDir():
		return "it is not a file"
	}
	return ""
}

// newRepos parts repositories that no index knows: those that .gitmodules names, with their commits, and what no
// commit can contain.
func (c *cli) newRepos(ctx context.Context, index string, repos []string, known []nestedRepo) (found []nestedRepo,
	out []LeftOut, err error) {
	if len(repos) == 0 {
		return nil, nil, nil
	}
	links, err := c.links(ctx, index) // those too whose own .git is gone
	if err != nil {
		return nil, nil, err
	}
	repos = slices.DeleteFunc(slices.Clone(repos), func(p string) bool { return inOne(known, p) || inOne(links, p) })
	names := map[string]string{}
	if c.slot {
		names = c.moduleNames(ctx, "--file", ".gitmodules")
	}
	for _, p := range repos {
		if inOne(found, p) {
			continue // of a submodule, whose files are not ours
		}
		now := c.checkedOut(ctx, filepath.Join(c.l.root, p))
		switch {
		case now == "":
			out = append(out, LeftOut{p, "a git repository without a commit"})
		case c.slot && names[p] == "":
			out = append(out, LeftOut{p, "a git repository of its own"})
		default:
			found = append(found, nestedRepo{path: p, now: now})
		}
	}
	return found, out, nil
}

// sweep removes from a slot's tree what would keep git from its work: files of rules that are no files, and
// repositories in which git would wait. An attempt made them.
func (s *Slot) sweep(ctx context.Context) error {
	odd, err := s.cli.survey(ctx)
	if err != nil {
		return err
	}
	var remove []string
	for _, x := range odd.odd {
		remove = append(remove, x.Path)
	}
	for _, dir := range odd.waits {
		remove = append(remove, path.Join(dir, ".git"))
	}
	again := len(odd.odd) > 0 // git was not asked what it ignores
	for _, dir := range odd.repos {
		if !again { // those of submodules are made anew
			remove = append(remove, path.Join(dir, ".git"))
		}
	}
	for _, at := range remove {
		if err := s.remove(at); err != nil {
			return err
		}
	}
	if again {
		return s.sweep(ctx)
	}
	return nil
}

// headIn is the commit that is checked out in a repository below a folder that an agent wrote, "" where that cannot be
// told. We read it as plain files, and git does not: HEAD, the branch that it names, packed-refs.
func headIn(root *os.Root, dir string) string {
	at := path.Join(dir, ".git")
	fi, err := root.Lstat(at)
	if err == nil && fi.Mode().IsRegular() {
		at, err = gitFile(root, at)
	}
	if err != nil {
		return ""
	}
	if _, err := root.Lstat(path.Join(at, "commondir")); err == nil {
		return ""
	}
	name := "HEAD"
	for range 5 { // as many as git follows
		b, err := plainfile.ReadIn(root, path.Join(at, name), maxGitFile)
		text := strings.TrimSpace(string(b))
		if err != nil {
			return packed(root, path.Join(at, "packed-refs"), name)
		}
		next, is := strings.CutPrefix(text, "ref:")
		if !is {
			if isID(text) {
				return text
			}
			return ""
		}
		if name = strings.TrimSpace(next); !strings.HasPrefix(name, "refs/") || !filepath.IsLocal(name) {
			return ""
		}
	}
	return ""
}

// packed is what packed-refs says of a ref.
func packed(root *os.Root, file, ref string) string {
	b, err := plainfile.ReadIn(root, file, maxRules)
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(b)) {
		if hash, name, _ := strings.Cut(strings.TrimSpace(line), " "); name == ref && isID(hash) {
			return hash
		}
	}
	return ""
}
