// Package oscall has the system calls on files and processes that Linux, macOS and Windows spell differently or lack.
package oscall

import (
	"fmt"
	"os"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// ProgramName is the name of the program that a process runs, at most its first 15 bytes; "" if unknown.
func ProgramName(pid int) string {
	name, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
	if err != nil {
		return ""
	}
	return strings.TrimSuffix(string(name), "\n")
}

// Clock is a time that no later change of a file can be stamped before: the kernel's own coarse clock.
func Clock() (time.Time, error) {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_REALTIME_COARSE, &ts); err != nil {
		return time.Time{}, os.NewSyscallError("clock_gettime", err)
	}
	return time.Unix(ts.Unix()), nil
}

// Sync waits until a file's bytes and size are on the disk, not its times: about half of an fsync on ext4.
func Sync(f *os.File) error {
	conn, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var syncErr error
	err = conn.Control(func(fd uintptr) {
		for {
			if syncErr = unix.Fdatasync(int(fd)); syncErr != unix.EINTR {
				return
			}
		}
	})
	if err == nil && syncErr != nil {
		err = &os.PathError{Op: "fdatasync", Path: f.Name(), Err: syncErr}
	}
	return err
}

// Mkfifoat makes a FIFO in an open directory.
func Mkfifoat(dir int, name string, mode uint32) error { return unix.Mkfifoat(dir, name, mode) }

// Immutable reports whether a file is marked as one that nobody changes or removes (chattr +i, or +a), not even root.
// Links are not followed.
func Immutable(path string) bool {
	var st unix.Statx_t
	err := unix.Statx(unix.AT_FDCWD, path, unix.AT_SYMLINK_NOFOLLOW, unix.STATX_TYPE, &st)
	return err == nil && st.Attributes&(unix.STATX_ATTR_IMMUTABLE|unix.STATX_ATTR_APPEND) != 0
}

// opaque marks a folder of an overlay's layer that hides what lies below it.
const opaque = "user.overlay.opaque"

// Opaque reports whether a folder of an overlay's layer hides what lies below it.
func Opaque(dir string) bool {
	n, err := unix.Lgetxattr(dir, opaque, make([]byte, 8))
	return err == nil && n > 0
}

// SeeThrough lets a folder of an overlay's layer show what lies below it.
func SeeThrough(dir string) error {
	if err := unix.Lremovexattr(dir, opaque); err != nil && err != unix.ENODATA {
		return os.NewSyscallError("lremovexattr", err)
	}
	return nil
}

// MakeWhiteout makes an entry of an overlay's layer that says that nothing is there.
func MakeWhiteout(path string) error { return unix.Mknod(path, unix.S_IFCHR, 0) }

// Touched is when a file or what is known of it was changed last, which nobody can set.
func Touched(info os.FileInfo) time.Time {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return time.Unix(st.Ctim.Unix())
	}
	return time.Now()
}

// Whiteout reports whether an entry of an overlay's layer says that nothing is there.
func Whiteout(info os.FileInfo) bool {
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && info.Mode()&os.ModeCharDevice != 0 && st.Rdev == 0
}
