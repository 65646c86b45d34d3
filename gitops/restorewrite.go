package gitops

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"descartes/internal/crash"
)

// carryOut does what the plan says but for what is left, deletions first.
func (x *restoration) carryOut(ctx context.Context, p *restorePlan) error {
	r := x.r
	if err := x.deleteFiles(ctx, p.deletes); err != nil {
		return err
	}
	var paths []string
	for _, w := range p.writes {
		if x.left[w.path] != "" {
			continue
		}
		if err := context.Cause(ctx); err != nil {
			return err
		}
		x.done[w.path] = true
		if err := r.clearPlace(w.path); err != nil {
			x.left[w.path] = err.Error()
			continue
		}
		paths = append(paths, w.path)
	}
	return x.checkout(ctx, paths)
}

// checkout has the git program write files. Where it cannot write them all, each is tried alone.
func (x *restoration) checkout(ctx context.Context, paths []string) error {
	err := x.r.cli.checkout(ctx, Tree(x.to.String()), paths)
	crash.Point("git: files restored")
	if exitCode(err) == 0 || context.Cause(ctx) != nil || strings.Contains(err.Error(), "No space left on device") {
		return err
	}
	for _, p := range paths {
		err := x.r.cli.checkout(ctx, Tree(x.to.String()), []string{p})
		if err != nil && (exitCode(err) == 0 || context.Cause(ctx) != nil) {
			return err
		}
		if err != nil {
			x.left[p] = err.Error()
		}
	}
	return nil
}

func (x *restoration) deleteFiles(ctx context.Context, doomed []doomed) error {
	dirs := map[string]bool{}
	for _, f := range doomed {
		name := f.path
		if x.left[name] != "" {
			continue
		}
		if err := context.Cause(ctx); err != nil {
			return err
		}
		x.done[name] = false
		if err := x.r.deleteFile(name); err != nil {
			if ends(err) {
				return fmt.Errorf("delete %s: %w", name, err)
			}
			x.left[name] = err.Error()
			continue
		}
		crash.Point("git: file deleted")
		for dir := path.Dir(name); dir != "." && !dirs[dir]; dir = path.Dir(dir) {
			dirs[dir] = true
		}
	}
	emptied := sortedKeys(dirs)
	slices.Reverse(emptied) // what is deeper comes first
	for _, dir := range emptied {
		x.r.leaveDir(dir)
	}
	return nil
}

// ends says whether an error concerns the whole restore rather than one path.
func ends(err error) bool {
	for _, e := range []error{unix.ENOSPC, unix.EDQUOT, unix.EIO, unix.EROFS, unix.ENOMEM, unix.EMFILE, unix.ENFILE} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// statBelow stats a path of the working tree, following no symbolic link.
func (r *Repo) statBelow(name string) (fileInfo, error) {
	dir, base := path.Split(name)
	fd, err := r.root.open(dir, unix.O_PATH|unix.O_DIRECTORY, 0)
	if err != nil {
		return fileInfo{}, err
	}
	defer unix.Close(fd)
	return statAt(fd, base)
}

// olderThan says whether a file was changed last before a time, whatever its own clock's resolution. Nothing is older
// than the zero time.
func olderThan(info fileInfo, t time.Time) bool {
	return !t.IsZero() && stampBefore(info.st.ctimeS, info.st.ctimeN, t.Add(-clockSlack))
}

// deleteFile removes a file; one that is gone already, or below something that is no directory, is fine.
func (r *Repo) deleteFile(p string) error {
	dir, name := path.Split(p)
	fd, err := r.root.open(dir, unix.O_PATH|unix.O_DIRECTORY, 0)
	if err == nil {
		defer unix.Close(fd)
		if err = unix.Unlinkat(fd, name, 0); err == unix.EACCES && openUp(fd) {
			err = unix.Unlinkat(fd, name, 0)
		}
	}
	if err == nil || isGone(err) {
		return nil
	}
	return err
}

// openUp lets the owner of a directory write in it: some tools make theirs read-only, and git knows no such mode.
func openUp(fd int) bool {
	var st unix.Stat_t
	return unix.Fstat(fd, &st) == nil && st.Mode&0o300 != 0o300 && unix.Chmod(fmt.Sprintf("/proc/self/fd/%d", fd), st.Mode&0o7777|0o700) == nil
}

// leaveDir removes a directory if it is empty.
func (r *Repo) leaveDir(dir string) {
	parent, name := path.Split(dir)
	fd, err := r.root.open(parent, unix.O_PATH|unix.O_DIRECTORY, 0)
	if err != nil {
		return
	}
	_ = unix.Unlinkat(fd, name, unix.AT_REMOVEDIR) // ignored files may keep it
	unix.Close(fd)
}

// clearPlace makes room for a file: it removes an empty directory in its place, and opens up a closed one around it.
func (r *Repo) clearPlace(p string) error {
	dir, name := path.Split(p)
	fd, err := r.root.open(dir, unix.O_PATH|unix.O_DIRECTORY, 0)
	if err != nil {
		return nil // git makes it
	}
	defer unix.Close(fd)
	openUp(fd)
	if info, err := statAt(fd, name); err == nil && info.mode == modeDir && !removeHollow(fd, name) {
		return errors.New("it is a directory now that is not empty")
	}
	return nil
}

// removeHollow removes a directory that holds nothing but directories.
func removeHollow(dirfd int, name string) bool {
	if unix.Unlinkat(dirfd, name, unix.AT_REMOVEDIR) == nil {
		return true
	}
	fd, err := unix.Openat(dirfd, name, openDirFlags|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	_, names, err := list(fd, nil, nil)
	if err != nil {
		return false
	}
	for _, e := range names {
		if e.typ != unix.DT_DIR || !removeHollow(fd, e.name) {
			return false
		}
	}
	return unix.Unlinkat(dirfd, name, unix.AT_REMOVEDIR) == nil
}

// checkout writes paths as the tree has them, filters included. Attribute files come first: git reads them
// from the working tree.
func (c *cli) checkout(ctx context.Context, to Tree, paths []string) error {
	if len(paths) == 0 {
		return nil
	}
	index, err := c.indexCopy(filepath.Join(c.l.gitDir, "descartes-none"))
	if err != nil {
		return err
	}
	defer os.Remove(index)
	if _, err := c.run(ctx, gitCall{args: []string{"read-tree", string(to)}, index: index}); err != nil {
		return err
	}
	var first, rest []string
	for _, p := range paths {
		if path.Base(p) == ".gitattributes" {
			first = append(first, p)
		} else {
			rest = append(rest, p)
		}
	}
	for _, part := range [][]string{first, rest} {
		if len(part) == 0 {
			continue
		}
		if _, err := c.run(ctx, gitCall{args: []string{"checkout-index", "-f", "-z", "--stdin"}, index: index, stdin: nulJoin(part)}); err != nil {
			return err
		}
	}
	return nil
}
