// Package oscall has the system calls on files and processes that Linux, macOS and Windows spell differently or lack.
package oscall

import (
	"fmt"
	"os"
	"strings"
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
