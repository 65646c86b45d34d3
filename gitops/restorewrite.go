package gitops

import (
	"fmt"
	"io"
	"os"
	"path"
	"strings"

	"golang.org/x/sys/unix"

	"descartes/internal/crash"
)

// carryOut does what the plan says, deletions first, and tells the in-memory index.
func (r *Repo) carryOut(p *restorePlan) error {
	touched := map[*folder]bool{}
	for _, x := range p.deletes {
		if err := r.deleteFile(x.d.path, x.name); err != nil {
			return fmt.Errorf("delete %s%s: %w", x.d.path, x.name, err)
		}
		crash.Point("git: file deleted")
		if i, ok := x.d.findFile(x.name); ok {
			forget(x.d, &x.d.files[i], touched)
		}
	}
	for d := range touched {
		d.tidy()
	}
	for _, dir := range p.leave {
		r.leaveDir(dir)
	}
	for _, x := range p.writes {
		info, err := r.writeFile(x.path, x.item)
		if err != nil {
			return fmt.Errorf("write %s: %w", x.path, err)
		}
		crash.Point("git: file restored")
		r.tree.enter(x.path, x.item, info, r.guard)
	}
	return nil
}

// enter records a file that was just written. It is stale: it may yet change within the same clock tick.
func (w *worktree) enter(path string, item treeItem, info fileInfo, guard protection) {
	d := w.folderFor(path, guard)
	name := path[len(d.path):]
	i, ok := d.findFile(name)
	if !ok {
		d.files = append(d.files, file{name: name})
		d.files[len(d.files)-1].mode = item.mode
		d.tidy()
		i, _ = d.findFile(name)
	}
	f := &d.files[i]
	f.id, f.mode, f.st = item.id, item.mode, info.st
	f.flags = f.flags&^(fileAbsent|fileUnsaved) | fileStale | fileStored
	d.spoil()
}

// deleteFile removes a file; one that is gone already, or below something that is no directory, is fine.
func (r *Repo) deleteFile(dir, name string) error {
	fd, err := r.root.open(dir, unix.O_PATH|unix.O_DIRECTORY, 0)
	if err == nil {
		err = unix.Unlinkat(fd, name, 0)
		unix.Close(fd)
	}
	if err == nil || isGone(err) {
		return nil
	}
	return err
}

// leaveDir removes a directory if it is empty.
func (r *Repo) leaveDir(dir string) {
	parent, name := path.Split(strings.TrimSuffix(dir, "/"))
	fd, err := r.root.open(parent, unix.O_PATH|unix.O_DIRECTORY, 0)
	if err != nil {
		return
	}
	_ = unix.Unlinkat(fd, name, unix.AT_REMOVEDIR) // ignored files may keep it
	unix.Close(fd)
}

// writeFile puts a blob of the store at a path.
func (r *Repo) writeFile(p string, item treeItem) (fileInfo, error) {
	if !safePath(p) {
		return fileInfo{}, &RefusedError{Reason: fmt.Sprintf("%q is no safe path", p)}
	}
	dir, name := path.Split(p)
	fd, err := r.makeDirs(dir)
	if err != nil {
		return fileInfo{}, err
	}
	defer unix.Close(fd)
	switch err := unix.Unlinkat(fd, name, 0); err {
	case nil, unix.ENOENT:
	case unix.EISDIR, unix.EPERM:
		if !removeHollow(fd, name) {
			return fileInfo{}, &RefusedError{Reason: fmt.Sprintf("%s is a directory with ignored files where the snapshot has a file", p), Hint: "move it away"}
		}
	default:
		return fileInfo{}, err
	}
	_, size, rc, err := r.store.reader.open(item.id)
	if err != nil {
		return fileInfo{}, err
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
			return -1, &RefusedError{Reason: done + " is an ignored file where the snapshot has a directory", Hint: "move it away"}
		}
		if err != nil {
			return -1, err
		}
		at = next
		done += "/"
	}
	return at, nil
}

func makeFile(dirfd int, name string, mode uint32, size int64, content io.Reader) (fileInfo, error) {
	perm := uint32(0o666)
	if mode == modeExec {
		perm = 0o777
	}
	fd, err := unix.Openat(dirfd, name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, perm)
	if err != nil {
		return fileInfo{}, err
	}
	defer unix.Close(fd)
	n, err := io.CopyBuffer(struct{ io.Writer }{fdWriter(fd)}, content, make([]byte, min(size+1, 256<<10)))
	if err == nil && n != size {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		_ = unix.Unlinkat(dirfd, name, 0)
		return fileInfo{}, err
	}
	return statFD(fd)
}

func makeLink(dirfd int, name string, size int64, content io.Reader) (fileInfo, error) {
	if size > unix.PathMax {
		return fileInfo{}, fmt.Errorf("a symbolic link of %d bytes", size)
	}
	b, err := io.ReadAll(content)
	if err != nil {
		return fileInfo{}, err
	}
	if err := unix.Symlinkat(string(b), dirfd, name); err != nil {
		return fileInfo{}, os.NewSyscallError("symlink", err)
	}
	return statAt(dirfd, name)
}
