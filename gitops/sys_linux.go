package gitops

import (
	"encoding/binary"
	"errors"
	"io/fs"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// aliasString is b as a string without a copy; b must not change while the string lives.
func aliasString(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

// rootDir is an open directory below which paths are resolved without following any symbolic link.
type rootDir struct {
	path     string
	fd       int
	noBounds atomic.Bool // openat2 is missing or forbidden here: walk by components
}

// same reports whether fi is the folder that was opened.
func (r *rootDir) same(fi os.FileInfo) bool {
	var st unix.Stat_t
	now, ok := fi.Sys().(*syscall.Stat_t)
	return ok && unix.Fstat(r.fd, &st) == nil && st.Ino == now.Ino && uint64(st.Dev) == uint64(now.Dev)
}

func openRoot(path string) (*rootDir, error) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	return &rootDir{path: path, fd: fd}, nil
}

// close may be called again: the number would by then be another file's.
func (r *rootDir) close() {
	if r.fd >= 0 {
		unix.Close(r.fd)
	}
	r.fd = -1
}

// renew opens the directory again when another one took its place.
func (r *rootDir) renew() error {
	var open, named unix.Stat_t
	if err := unix.Stat(r.path, &named); err != nil {
		return &fs.PathError{Op: "stat", Path: r.path, Err: err}
	}
	if unix.Fstat(r.fd, &open) == nil && open.Ino == named.Ino && open.Dev == named.Dev {
		return nil
	}
	fd, err := unix.Open(r.path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return &fs.PathError{Op: "open", Path: r.path, Err: err}
	}
	unix.Close(r.fd)
	r.fd = fd
	return nil
}

const openDirFlags = unix.O_RDONLY | unix.O_DIRECTORY

// open opens a path below the root; no component may be a symbolic link. path is "" or "a/b", a final slash is fine.
func (r *rootDir) open(path string, flags int, mode uint32) (int, error) {
	path = strings.TrimSuffix(path, "/")
	if path == "" {
		path = "."
	}
	flags |= unix.O_CLOEXEC | unix.O_NOFOLLOW
	if !r.noBounds.Load() {
		how := unix.OpenHow{Flags: uint64(flags), Mode: uint64(mode), Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS}
		for {
			fd, err := unix.Openat2(r.fd, path, &how)
			switch err {
			case unix.EINTR, unix.EAGAIN:
				continue
			case unix.ENOSYS, unix.EPERM, unix.E2BIG, unix.EINVAL:
				r.noBounds.Store(true)
			default:
				return fd, err
			}
			break
		}
	}
	return r.openByComponents(path, flags, mode)
}

func (r *rootDir) openByComponents(path string, flags int, mode uint32) (int, error) {
	at, own := r.fd, false
	for {
		name, rest, more := strings.Cut(path, "/")
		if name == "" || name == ".." {
			if own {
				unix.Close(at)
			}
			return -1, unix.EINVAL
		}
		f, m := flags, mode
		if more {
			f, m = openDirFlags|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0
		}
		fd, err := unix.Openat(at, name, f, m)
		if err == unix.EINTR {
			continue
		}
		if own {
			unix.Close(at)
		}
		if err != nil || !more {
			return fd, err
		}
		at, own, path = fd, true, rest
	}
}

// isGone says that an error means "no such thing", or that something else stands in its place.
func isGone(err error) bool {
	return err == unix.ENOENT || err == unix.ENOTDIR || err == unix.ELOOP
}

// fileInfo is what one stat call says.
type fileInfo struct {
	st   fileStat
	mode uint32 // as git spells it, 0 for what git does not store
	size int64
}

// statAt does not follow a symbolic link.
func statAt(dirfd int, name string) (fileInfo, error) {
	var st unix.Stat_t
	for {
		err := unix.Fstatat(dirfd, name, &st, unix.AT_SYMLINK_NOFOLLOW)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return fileInfo{}, err
		}
		return infoOf(&st), nil
	}
}

func statFD(fd int) (fileInfo, error) {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return fileInfo{}, err
	}
	return infoOf(&st), nil
}

// statPath follows symbolic links; it is for files of the git directory and the user's configuration.
func statPath(path string) (fileInfo, error) {
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		return fileInfo{}, &fs.PathError{Op: "stat", Path: path, Err: err}
	}
	return infoOf(&st), nil
}

func infoOf(st *unix.Stat_t) fileInfo {
	return fileInfo{
		st: fileStat{
			ctimeS: uint32(st.Ctim.Sec), ctimeN: uint32(st.Ctim.Nsec), mtimeS: uint32(st.Mtim.Sec), mtimeN: uint32(st.Mtim.Nsec),
			dev: uint32(st.Dev), ino: uint32(st.Ino), uid: st.Uid, gid: st.Gid, size: uint32(st.Size),
		},
		mode: gitMode(st.Mode),
		size: st.Size,
	}
}

func gitMode(m uint32) uint32 {
	switch m & unix.S_IFMT {
	case unix.S_IFREG:
		if m&0o100 != 0 {
			return modeExec
		}
		return modeRegular
	case unix.S_IFLNK:
		return modeLink
	case unix.S_IFDIR:
		return modeDir
	}
	return 0
}

// scanClock is a time that no later change of a file can be stamped before: the kernel's own coarse clock.
func scanClock() (time.Time, error) {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_REALTIME_COARSE, &ts); err != nil {
		return time.Time{}, os.NewSyscallError("clock_gettime", err)
	}
	return time.Unix(ts.Unix()), nil
}

// Now is the time, but never later than what a file that is changed after the call is stamped with: those stamps are of
// the kernel's coarse clock, which stands still for as long as a busy machine withholds the tick. What compares the age
// of files with the time of an event takes that time from here.
func Now() time.Time {
	now := time.Now()
	if coarse, err := scanClock(); err == nil && coarse.Before(now) {
		return now.Add(coarse.Sub(now)) // keeps the monotonic reading
	}
	return now
}

// dirent is one name of a directory; the name aliases the buffer it was read into.
type dirent struct {
	name string
	typ  byte
}

const (
	direntReclen = unsafe.Offsetof(unix.Dirent{}.Reclen)
	direntType   = unsafe.Offsetof(unix.Dirent{}.Type)
	direntName   = unsafe.Offsetof(unix.Dirent{}.Name)
)

// list reads a whole directory into buf and appends its names to out, "." and ".." left out.
func list(fd int, buf []byte, out []dirent) ([]byte, []dirent, error) {
	buf = buf[:0]
	for {
		if cap(buf)-len(buf) < 16<<10 {
			buf = append(make([]byte, 0, 2*cap(buf)+32<<10), buf...)
		}
		n, err := unix.Getdents(fd, buf[len(buf):cap(buf)])
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return buf, out, err
		}
		if n == 0 {
			break
		}
		buf = buf[:len(buf)+n]
	}
	for b := buf; len(b) >= int(direntName); {
		n := int(binary.NativeEndian.Uint16(b[direntReclen:]))
		if n < int(direntName) || n > len(b) {
			return buf, out, errors.New("malformed directory entry")
		}
		name, _, _ := strings.Cut(aliasString(b[direntName:n]), "\x00")
		typ := b[direntType]
		b = b[n:]
		if name != "." && name != ".." {
			out = append(out, dirent{name, typ})
		}
	}
	return buf, out, nil
}
