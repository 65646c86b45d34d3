// Package oscall has the system calls on files and processes that Linux, macOS and Windows spell differently or lack, for code
// that works below an open directory and must know when its bytes are on the disk.
package oscall

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	PathOnly = unix.O_PATH // opens a directory that is only a place for other calls
	PathMax  = unix.PathMax
)

// OpenBeneath opens a path below a directory in one call that follows no symbolic link; ok is false where the system has
// no such call.
func OpenBeneath(dirfd int, path string, flags int, mode uint32) (fd int, ok bool, err error) {
	how := unix.OpenHow{Flags: uint64(flags), Mode: uint64(mode), Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS}
	for {
		fd, err := unix.Openat2(dirfd, path, &how)
		switch err {
		case unix.EINTR, unix.EAGAIN:
			continue
		case unix.ENOSYS, unix.EPERM, unix.E2BIG, unix.EINVAL:
			return -1, false, nil
		}
		return fd, true, err
	}
}

// ProgramName is the name of the program that a process runs, at most its first 15 bytes; "" if unknown.
func ProgramName(pid int) string {
	name, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
	if err != nil {
		return ""
	}
	return strings.TrimSuffix(string(name), "\n")
}

// Chmod changes the permissions of what was opened with PathOnly.
func Chmod(fd int, mode uint32) error {
	return unix.Chmod(fmt.Sprintf("/proc/self/fd/%d", fd), mode)
}

// Clock is a time that no later change of a file can be stamped before: the kernel's own coarse clock.
func Clock() (time.Time, error) {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_REALTIME_COARSE, &ts); err != nil {
		return time.Time{}, os.NewSyscallError("clock_gettime", err)
	}
	return time.Unix(ts.Unix()), nil
}

// StartWrite has the system begin to write a file's bytes to the disk; FinishWrite waits for them.
func StartWrite(f *os.File) error { return syncRange(f, unix.SYNC_FILE_RANGE_WRITE) }

// FinishWrite waits until a file's bytes are on their disk.
func FinishWrite(f *os.File) error {
	return syncRange(f, unix.SYNC_FILE_RANGE_WAIT_BEFORE|unix.SYNC_FILE_RANGE_WRITE|unix.SYNC_FILE_RANGE_WAIT_AFTER)
}

func syncRange(f *os.File, flags int) error {
	err := unix.SyncFileRange(int(f.Fd()), 0, 0, flags)
	if err == unix.ENOSYS || err == unix.EINVAL || err == unix.ESPIPE {
		return Sync(f)
	}
	return os.NewSyscallError("write out", err)
}

// Share has a new, empty file share its bytes with another, where the file system can do that.
func Share(dst, src *os.File) error { return unix.IoctlFileClone(int(dst.Fd()), int(src.Fd())) }

// Entry is one name of a directory; Name aliases the buffer it was read into, Type is one of unix.DT_*.
type Entry struct {
	Name string
	Type byte
}

const (
	entryReclen = unsafe.Offsetof(unix.Dirent{}.Reclen)
	entryType   = unsafe.Offsetof(unix.Dirent{}.Type)
	entryName   = unsafe.Offsetof(unix.Dirent{}.Name)
)

// List reads a whole directory into buf and appends its names to out, "." and ".." left out. The returned buffer has to
// outlive the names.
func List(fd int, buf []byte, out []Entry) ([]byte, []Entry, error) {
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
	for b := buf; len(b) >= int(entryName); {
		n := int(binary.NativeEndian.Uint16(b[entryReclen:]))
		if n < int(entryName) || n > len(b) {
			return buf, out, errors.New("malformed directory entry")
		}
		raw := b[entryName:n]
		name, _, _ := strings.Cut(unsafe.String(unsafe.SliceData(raw), len(raw)), "\x00")
		typ := b[entryType]
		b = b[n:]
		if name != "." && name != ".." {
			out = append(out, Entry{name, typ})
		}
	}
	return buf, out, nil
}
