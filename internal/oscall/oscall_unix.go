//go:build unix

package oscall

import (
	"io/fs"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// What code that works below an open directory takes from the system, under the system's own names. Windows has none of it.
const (
	O_NOFOLLOW          = unix.O_NOFOLLOW
	O_DIRECTORY         = unix.O_DIRECTORY
	AT_REMOVEDIR        = unix.AT_REMOVEDIR
	AT_SYMLINK_NOFOLLOW = unix.AT_SYMLINK_NOFOLLOW
	LOCK_SH             = unix.LOCK_SH
	LOCK_EX             = unix.LOCK_EX
	LOCK_NB             = unix.LOCK_NB
	DT_UNKNOWN          = unix.DT_UNKNOWN
	DT_FIFO             = unix.DT_FIFO
	DT_CHR              = unix.DT_CHR
	DT_DIR              = unix.DT_DIR
	DT_BLK              = unix.DT_BLK
	DT_REG              = unix.DT_REG
	DT_LNK              = unix.DT_LNK
	DT_SOCK             = unix.DT_SOCK
)

type (
	Stat_t   = unix.Stat_t
	Timespec = unix.Timespec
)

func Open(path string, flags int, mode uint32) (int, error) { return unix.Open(path, flags, mode) }
func Close(fd int) error                                    { return unix.Close(fd) }
func Stat(path string, st *Stat_t) error                    { return unix.Stat(path, st) }
func Lstat(path string, st *Stat_t) error                   { return unix.Lstat(path, st) }
func Fstat(fd int, st *Stat_t) error                        { return unix.Fstat(fd, st) }
func Fchmod(fd int, mode uint32) error                      { return unix.Fchmod(fd, mode) }
func Flock(fd, how int) error                               { return unix.Flock(fd, how) }
func Pread(fd int, p []byte, at int64) (int, error)         { return unix.Pread(fd, p, at) }
func Mkdirat(dir int, name string, mode uint32) error       { return unix.Mkdirat(dir, name, mode) }
func Unlinkat(dir int, name string, flags int) error        { return unix.Unlinkat(dir, name, flags) }
func Symlinkat(to string, dir int, name string) error       { return unix.Symlinkat(to, dir, name) }

func Openat(dir int, name string, flags int, mode uint32) (int, error) {
	return unix.Openat(dir, name, flags, mode)
}

func Fstatat(dir int, name string, st *Stat_t, flags int) error {
	return unix.Fstatat(dir, name, st, flags)
}

func Readlinkat(dir int, name string, p []byte) (int, error) {
	return unix.Readlinkat(dir, name, p)
}

func Renameat(dir int, name string, toDir int, to string) error {
	return unix.Renameat(dir, name, toDir, to)
}

// SameAs reports whether an open descriptor is the file that fi is of.
func SameAs(fd int, fi fs.FileInfo) bool {
	var st unix.Stat_t
	of, ok := fi.Sys().(*syscall.Stat_t)
	return ok && unix.Fstat(fd, &st) == nil && st.Ino == of.Ino && uint64(st.Dev) == uint64(of.Dev)
}

// Links is how many names a file has, for a folder two and one for each folder in it where the file system counts so; 0 if
// unknown.
func Links(fi fs.FileInfo) uint64 {
	if st, ok := fi.Sys().(*syscall.Stat_t); ok {
		return uint64(st.Nlink)
	}
	return 0
}

// Free is what an unprivileged program may still write below a folder, in bytes.
func Free(dir string) (int64, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return 0, os.NewSyscallError("statfs", err)
	}
	return int64(st.Bavail) * int64(st.Bsize), nil
}

// Alive reports whether there is a process of that number, whoever owns it.
func Alive(pid int) bool { return unix.Kill(pid, 0) != unix.ESRCH }

// SignalName is the usual name of a signal, such as SIGKILL; "" if there is none.
func SignalName(n int) string { return unix.SignalName(unix.Signal(n)) }
