package gitops

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"descartes/internal/crash"
)

// carryOut does what the plan says but for what is left, deletions first, and updates the in-memory index.
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
		if r.viaGit {
			if err := r.clearPlace(w.path); err != nil {
				x.left[w.path] = err.Error()
				continue
			}
			paths = append(paths, w.path)
			continue
		}
		if err := r.writeFile(w.path, w.item); err != nil {
			if ends(err) {
				return fmt.Errorf("write %s: %w", w.path, err)
			}
			x.left[w.path] = err.Error()
			continue
		}
		crash.Point("git: file restored")
	}
	return x.checkout(ctx, paths)
}

// checkout has the git program write files. Where it cannot write them all, each is tried alone.
func (x *restoration) checkout(ctx context.Context, paths []string) error {
	err := x.r.cli.checkout(ctx, Tree(x.to.String()), paths)
	if exitCode(err) == 0 || context.Cause(ctx) != nil {
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
	return !t.IsZero() && stampBefore(info.st.ctimeS, info.st.ctimeN, t.Add(-markSlack))
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

// clearPlace removes the empty directory that a file is to replace.
func (r *Repo) clearPlace(p string) error {
	dir, name := path.Split(p)
	fd, err := r.root.open(dir, unix.O_PATH|unix.O_DIRECTORY, 0)
	if err != nil {
		return nil // git makes it
	}
	defer unix.Close(fd)
	if info, err := statAt(fd, name); err == nil && info.mode == modeDir && !removeHollow(fd, name) {
		return errors.New("it is a directory now that is not empty")
	}
	return nil
}

// writeFile puts a blob of the store at a path.
func (r *Repo) writeFile(p string, item treeItem) error {
	dir, name := path.Split(p)
	fd, err := r.makeDirs(dir)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	err = unix.Unlinkat(fd, name, 0)
	if err == unix.EACCES && openUp(fd) {
		err = unix.Unlinkat(fd, name, 0)
	}
	switch err {
	case nil, unix.ENOENT:
	case unix.EISDIR, unix.EPERM:
		if !removeHollow(fd, name) {
			return errors.New("it is a directory now that is not empty")
		}
	default:
		return err
	}
	_, size, rc, err := r.store.reader.open(item.id)
	if err != nil {
		return err
	}
	defer rc.Close()
	if item.mode == modeLink {
		return makeLink(fd, name, size, rc)
	}
	return makeFile(fd, name, item.mode, size, rc)
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

// makeDirs opens a directory and makes what is missing of it, never through a symbolic link.
func (r *Repo) makeDirs(dir string) (int, error) {
	fd, err := r.root.open(dir, openDirFlags, 0)
	if err == nil || dir == "" {
		return fd, err
	}
	at, err := r.root.open("", openDirFlags, 0)
	if err != nil {
		return -1, err
	}
	done := ""
	for name := range strings.SplitSeq(strings.TrimSuffix(dir, "/"), "/") {
		done += name
		err := unix.Mkdirat(at, name, 0o777)
		next := -1
		if err == nil || err == unix.EEXIST {
			next, err = unix.Openat(at, name, openDirFlags|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		}
		unix.Close(at)
		if err == unix.ENOTDIR || err == unix.ELOOP {
			return -1, fmt.Errorf("%s is no directory now", done)
		}
		if err != nil {
			return -1, err
		}
		at = next
		done += "/"
	}
	return at, nil
}

func makeFile(dirfd int, name string, mode uint32, size int64, content io.Reader) error {
	perm := uint32(0o666)
	if mode == modeExec {
		perm = 0o777
	}
	fd, err := unix.Openat(dirfd, name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, perm)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	n, err := io.CopyBuffer(struct{ io.Writer }{fdWriter(fd)}, content, make([]byte, min(size+1, 256<<10)))
	if err == nil && n != size {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		_ = unix.Unlinkat(dirfd, name, 0)
		return err
	}
	return nil
}

func makeLink(dirfd int, name string, size int64, content io.Reader) error {
	if size > unix.PathMax {
		return fmt.Errorf("a symbolic link of %d bytes", size)
	}
	b, err := io.ReadAll(content)
	if err != nil {
		return err
	}
	if err := unix.Symlinkat(string(b), dirfd, name); err != nil {
		return os.NewSyscallError("symlink", err)
	}
	return nil
}
