package oscall

import (
	"errors"
	"io/fs"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/windows"
)

// Windows opens nothing below an open directory, so that no loop runs there: the calls for it are errors.
const (
	PathOnly            = 0
	PathMax             = 32 << 10
	O_NOFOLLOW          = windows.FILE_FLAG_OPEN_REPARSE_POINT
	O_DIRECTORY         = windows.FILE_FLAG_BACKUP_SEMANTICS
	AT_REMOVEDIR        = 1
	AT_SYMLINK_NOFOLLOW = 2
	LOCK_SH             = 1
	LOCK_EX             = 2
	LOCK_NB             = 4
)

// Kinds of a directory's entries.
const (
	DT_UNKNOWN = iota
	DT_FIFO
	DT_CHR
	DT_DIR
	DT_BLK
	DT_REG
	DT_LNK
	DT_SOCK
)

// Timespec is a time in seconds and nanoseconds.
type Timespec struct{ Sec, Nsec int64 }

// Unix is the same as two numbers.
func (t Timespec) Unix() (sec, nsec int64) { return t.Sec, t.Nsec }

// Stat_t is what is known of a file. Windows has one clock for content and name, and says neither owner nor number here.
type Stat_t struct {
	Dev, Ino   uint64
	Nlink      uint64
	Mode       uint32
	Uid, Gid   uint32
	Size       int64
	Mtim, Ctim Timespec
}

// Entry is one name of a directory; Type is one of DT_*.
type Entry struct {
	Name string
	Type byte
}

// Open opens a directory as a place.
func Open(path string, flags int, _ uint32) (int, error) {
	if flags&O_DIRECTORY == 0 {
		return -1, errors.ErrUnsupported
	}
	name, err := windows.UTF16PtrFromString(path)
	if err != nil {
		return -1, err
	}
	h, err := windows.CreateFile(name, windows.FILE_READ_ATTRIBUTES, windows.FILE_SHARE_READ|windows.FILE_SHARE_WRITE|windows.FILE_SHARE_DELETE,
		nil, windows.OPEN_EXISTING, windows.FILE_FLAG_BACKUP_SEMANTICS, 0)
	return int(h), err
}

// Close closes what Open opened.
func Close(fd int) error { return windows.CloseHandle(windows.Handle(fd)) }

// Stat follows symbolic links.
func Stat(path string, st *Stat_t) error { return fill(st, path, os.Stat) }

// Lstat does not.
func Lstat(path string, st *Stat_t) error { return fill(st, path, os.Lstat) }

func fill(st *Stat_t, path string, stat func(string) (fs.FileInfo, error)) error {
	fi, err := stat(path)
	if err != nil {
		return err
	}
	changed := Timespec{fi.ModTime().Unix(), int64(fi.ModTime().Nanosecond())}
	*st = Stat_t{Nlink: 1, Mode: uint32(fi.Mode().Perm()), Size: fi.Size(), Mtim: changed, Ctim: changed}
	switch fi.Mode().Type() {
	case 0:
		st.Mode |= syscall.S_IFREG
	case fs.ModeDir:
		st.Mode |= syscall.S_IFDIR
	case fs.ModeSymlink:
		st.Mode |= syscall.S_IFLNK
	}
	return nil
}

func Fstat(int, *Stat_t) error                     { return errors.ErrUnsupported }
func Fchmod(int, uint32) error                     { return errors.ErrUnsupported }
func Flock(int, int) error                         { return errors.ErrUnsupported }
func Pread(int, []byte, int64) (int, error)        { return 0, errors.ErrUnsupported }
func Mkdirat(int, string, uint32) error            { return errors.ErrUnsupported }
func Unlinkat(int, string, int) error              { return errors.ErrUnsupported }
func Symlinkat(string, int, string) error          { return errors.ErrUnsupported }
func Fstatat(int, string, *Stat_t, int) error      { return errors.ErrUnsupported }
func Readlinkat(int, string, []byte) (int, error)  { return 0, errors.ErrUnsupported }
func Renameat(int, string, int, string) error      { return errors.ErrUnsupported }
func Chmod(int, uint32) error                      { return errors.ErrUnsupported }
func Openat(int, string, int, uint32) (int, error) { return -1, errors.ErrUnsupported }

// OpenBeneath says that there is no such call.
func OpenBeneath(int, string, int, uint32) (fd int, ok bool, err error) { return -1, false, nil }

// List lists nothing.
func List(_ int, buf []byte, out []Entry) ([]byte, []Entry, error) {
	return buf, out, errors.ErrUnsupported
}

// SameAs is false: what Open opened is not compared here.
func SameAs(int, fs.FileInfo) bool { return false }

// Links is how many names a file has; unknown here.
func Links(fs.FileInfo) uint64 { return 0 }

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

// Alive reports whether there is a process of that number, whoever owns it.
func Alive(pid int) bool {
	p, err := os.FindProcess(pid) // opens it, here
	if err != nil {
		return errors.Is(err, fs.ErrPermission)
	}
	_ = p.Release()
	return true
}

// ProgramName is not looked up here.
func ProgramName(int) string { return "" }

// Clock is a time that no later change of a file can be stamped before.
func Clock() (time.Time, error) { return time.Now(), nil }

// StartWrite has nothing to begin: FinishWrite does it all.
func StartWrite(*os.File) error { return nil }

// FinishWrite waits until a file's bytes are on their disk.
func FinishWrite(f *os.File) error { return Sync(f) }

// Share is not possible.
func Share(dst, src *os.File) error { return errors.ErrUnsupported }

// SignalName is the usual name of a signal, such as SIGKILL, by the numbers that Linux and macOS share; "" if it is none of them.
func SignalName(n int) string {
	return map[int]string{1: "SIGHUP", 2: "SIGINT", 3: "SIGQUIT", 4: "SIGILL", 5: "SIGTRAP", 6: "SIGABRT", 8: "SIGFPE", 9: "SIGKILL",
		11: "SIGSEGV", 13: "SIGPIPE", 14: "SIGALRM", 15: "SIGTERM"}[n]
}
