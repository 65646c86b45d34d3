package gitops

import (
	"io/fs"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"descartes/internal/oscall"
)

// aliasString is b as a string without a copy; b must not change while the string lives.
func aliasString(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

// rootDir is an open directory below which paths are resolved without following any symbolic link.
type rootDir struct {
	path     string
	fd       int
	noBounds atomic.Bool // the one call for it is missing or forbidden here: walk by components
}

// same reports whether fi is the folder that was opened.
func (r *rootDir) same(fi os.FileInfo) bool { return oscall.SameAs(r.fd, fi) }

func openRoot(path string) (*rootDir, error) {
	fd, err := oscall.Open(path, syscall.O_RDONLY|oscall.O_DIRECTORY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	return &rootDir{path: path, fd: fd}, nil
}

// close may be called again: the number would by then be another file's.
func (r *rootDir) close() {
	if r.fd >= 0 {
		oscall.Close(r.fd)
	}
	r.fd = -1
}

// renew opens the directory again when another one took its place.
func (r *rootDir) renew() error {
	var open, named oscall.Stat_t
	if err := oscall.Stat(r.path, &named); err != nil {
		return &fs.PathError{Op: "stat", Path: r.path, Err: err}
	}
	if oscall.Fstat(r.fd, &open) == nil && open.Ino == named.Ino && open.Dev == named.Dev {
		return nil
	}
	fd, err := oscall.Open(r.path, syscall.O_RDONLY|oscall.O_DIRECTORY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return &fs.PathError{Op: "open", Path: r.path, Err: err}
	}
	oscall.Close(r.fd)
	r.fd = fd
	return nil
}

const openDirFlags = syscall.O_RDONLY | oscall.O_DIRECTORY

// open opens a path below the root; no component may be a symbolic link. path is "" or "a/b", a final slash is fine.
func (r *rootDir) open(path string, flags int, mode uint32) (int, error) {
	path = strings.TrimSuffix(path, "/")
	if path == "" {
		path = "."
	}
	flags |= syscall.O_CLOEXEC | oscall.O_NOFOLLOW
	if !r.noBounds.Load() {
		fd, ok, err := oscall.OpenBeneath(r.fd, path, flags, mode)
		if ok {
			return fd, err
		}
		r.noBounds.Store(true)
	}
	return r.openByComponents(path, flags, mode)
}

func (r *rootDir) openByComponents(path string, flags int, mode uint32) (int, error) {
	at, own := r.fd, false
	for {
		name, rest, more := strings.Cut(path, "/")
		if name == "" || name == ".." {
			if own {
				oscall.Close(at)
			}
			return -1, syscall.EINVAL
		}
		f, m := flags, mode
		if more {
			f, m = openDirFlags|syscall.O_CLOEXEC|oscall.O_NOFOLLOW, 0
		}
		fd, err := oscall.Openat(at, name, f, m)
		if err == syscall.EINTR {
			continue
		}
		if own {
			oscall.Close(at)
		}
		if err != nil || !more {
			return fd, err
		}
		at, own, path = fd, true, rest
	}
}

// isGone says that an error means "no such thing", or that something else has taken its place.
func isGone(err error) bool {
	return err == syscall.ENOENT || err == syscall.ENOTDIR || err == syscall.ELOOP
}

// fileInfo is what one stat call says.
type fileInfo struct {
	st   fileStat
	mode uint32 // as git spells it, 0 for what git does not store
	size int64
}

// statAt does not follow a symbolic link.
func statAt(dirfd int, name string) (fileInfo, error) {
	var st oscall.Stat_t
	for {
		err := oscall.Fstatat(dirfd, name, &st, oscall.AT_SYMLINK_NOFOLLOW)
		if err == syscall.EINTR {
			continue
		}
		if err != nil {
			return fileInfo{}, err
		}
		return infoOf(&st), nil
	}
}

func statFD(fd int) (fileInfo, error) {
	var st oscall.Stat_t
	if err := oscall.Fstat(fd, &st); err != nil {
		return fileInfo{}, err
	}
	return infoOf(&st), nil
}

// statPath follows symbolic links; it is for files of the git directory and the user's configuration.
func statPath(path string) (fileInfo, error) {
	var st oscall.Stat_t
	if err := oscall.Stat(path, &st); err != nil {
		return fileInfo{}, &fs.PathError{Op: "stat", Path: path, Err: err}
	}
	return infoOf(&st), nil
}

func infoOf(st *oscall.Stat_t) fileInfo {
	return fileInfo{
		st: fileStat{
			ctimeS: uint32(st.Ctim.Sec), ctimeN: uint32(st.Ctim.Nsec), mtimeS: uint32(st.Mtim.Sec), mtimeN: uint32(st.Mtim.Nsec),
			dev: uint32(st.Dev), ino: uint32(st.Ino), uid: st.Uid, gid: st.Gid, size: uint32(st.Size),
		},
		mode: gitMode(uint32(st.Mode)),
		size: st.Size,
	}
}

func gitMode(m uint32) uint32 {
	switch m & syscall.S_IFMT {
	case syscall.S_IFREG:
		if m&0o100 != 0 {
			return modeExec
		}
		return modeRegular
	case syscall.S_IFLNK:
		return modeLink
	case syscall.S_IFDIR:
		return modeDir
	}
	return 0
}

// Now is the time, but never later than the stamp of a file that is changed after the call: file stamps come from the
// kernel's coarse clock, which lags on a busy machine. Use it to compare the age of files with the time of an event.
func Now() time.Time {
	now := time.Now()
	if coarse, err := oscall.Clock(); err == nil && coarse.Before(now) {
		return now.Add(coarse.Sub(now)) // keeps the monotonic reading
	}
	return now
}
