package oscall

import (
	"errors"
	"os"
	"syscall"

	"golang.org/x/sys/windows"
)

// No loop runs on Windows: there is no lock on an open file.
const (
	O_NOFOLLOW = windows.FILE_FLAG_OPEN_REPARSE_POINT
	LOCK_SH    = 1
	LOCK_EX    = 2
	LOCK_NB    = 4
)

// Timespec is a time in seconds and nanoseconds.
type Timespec struct{ Sec, Nsec int64 }

// Unix is the same as two numbers.
func (t Timespec) Unix() (sec, nsec int64) { return t.Sec, t.Nsec }

// Stat_t is what is known of a file. Windows has one clock for content and name, and says neither owner nor number
// here.
type Stat_t struct {
	Ino        uint64
	Mode, Uid  uint32
	Size       int64
	Mtim, Ctim Timespec
}

// Lstat follows no link.
func Lstat(path string, st *Stat_t) error {
	fi, err := os.Lstat(path)
	if err != nil {
		return err
	}
	changed := Timespec{fi.ModTime().Unix(), int64(fi.ModTime().Nanosecond())}
	*st = Stat_t{Mode: uint32(fi.Mode().Perm()), Size: fi.Size(), Mtim: changed, Ctim: changed}
	if fi.IsDir() {
		st.Mode |= syscall.S_IFDIR
	}
	return nil
}

// Flock is not possible.
func Flock(int, int) error { return errors.ErrUnsupported }

// Writable does not know.
func Writable(string) error { return nil }

// Immutable does not know.
func Immutable(string) bool { return false }

// Free is what a program may still write below a folder, in bytes.
func Free(dir string) (int64, error) {
	name, err := windows.UTF16PtrFromString(dir)
	if err != nil {
		return 0, err
	}
	var free uint64
	if err := windows.GetDiskFreeSpaceEx(name, &free, nil, nil); err != nil {
		return 0, os.NewSyscallError("GetDiskFreeSpaceEx", err)
	}
	return int64(free), nil
}

// ProgramName is not looked up here.
func ProgramName(int) string { return "" }

// SignalName is the usual name of a signal, such as SIGKILL, by the numbers that Linux and macOS share; "" if it is
// none of them.
func SignalName(n int) string {
	return map[int]string{1: "SIGHUP", 2: "SIGINT", 3: "SIGQUIT", 4: "SIGILL", 5: "SIGTRAP", 6: "SIGABRT", 8: "SIGFPE",
		9:  "SIGKILL",
		11: "SIGSEGV", 13: "SIGPIPE", 14: "SIGALRM", 15: "SIGTERM"}[n]
}
