//go:build unix

package oscall

import (
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Under the system's own names.
const (
	O_NOFOLLOW = unix.O_NOFOLLOW
	LOCK_SH    = unix.LOCK_SH
	LOCK_EX    = unix.LOCK_EX
	LOCK_NB    = unix.LOCK_NB
)

type (
	Stat_t   = unix.Stat_t
	Timespec = unix.Timespec
)

// Lstat follows no link.
func Lstat(path string, st *Stat_t) error { return unix.Lstat(path, st) }

// Flock locks an open file.
func Flock(fd, how int) error { return unix.Flock(fd, how) }

// Free is what an unprivileged program may still write below a folder, which need not exist yet, in bytes.
func Free(dir string) (int64, error) {
	var st unix.Statfs_t
	err := unix.Statfs(dir, &st)
	for ; err == unix.ENOENT && dir != filepath.Dir(dir); err = unix.Statfs(dir, &st) {
		dir = filepath.Dir(dir)
	}
	if err != nil {
		return 0, os.NewSyscallError("statfs", err)
	}
	return int64(st.Bavail) * int64(st.Bsize), nil
}

// Writable reports why entries of a folder cannot be made and removed, nil where they can.
func Writable(dir string) error { return unix.Access(dir, unix.W_OK|unix.X_OK) }

// SignalName is the usual name of a signal, such as SIGKILL; "" if there is none.
func SignalName(n int) string { return unix.SignalName(unix.Signal(n)) }
