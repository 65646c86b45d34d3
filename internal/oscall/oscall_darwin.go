package oscall

import (
	"io/fs"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

const (
	PathOnly = unix.O_RDONLY // macOS has no such kind of descriptor
	PathMax  = 1024          // of <sys/syslimits.h>
)

// OpenBeneath says that there is no such call.
func OpenBeneath(int, string, int, uint32) (fd int, ok bool, err error) { return -1, false, nil }

// ProgramName is the name of the program that a process runs, at most its first 16 bytes; "" if unknown.
func ProgramName(pid int) string {
	p, err := unix.SysctlKinfoProc("kern.proc.pid", pid)
	if err != nil {
		return ""
	}
	return unix.ByteSliceToString(p.Proc.P_comm[:])
}

// Chmod changes the permissions of what was opened with PathOnly.
func Chmod(fd int, mode uint32) error { return unix.Fchmod(fd, mode) }

// Clock is a time that no later change of a file can be stamped before: files are stamped by the clock that programs read.
func Clock() (time.Time, error) { return time.Now(), nil }

// StartWrite has nothing to begin: FinishWrite does it all.
func StartWrite(*os.File) error { return nil }

// FinishWrite waits until a file's bytes are on their disk.
func FinishWrite(f *os.File) error { return Sync(f) }

// Share is not possible: macOS clones only to a file that does not exist yet.
func Share(dst, src *os.File) error { return unix.ENOTSUP }

// Entry is one name of a directory; Type is one of unix.DT_*.
type Entry struct {
	Name string
	Type byte
}

// List appends a directory's names to out, "." and ".." left out. It needs no buffer.
func List(fd int, buf []byte, out []Entry) ([]byte, []Entry, error) {
	own, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return buf, out, err
	}
	d := os.NewFile(uintptr(own), "directory")
	defer d.Close()
	if _, err := d.Seek(0, 0); err != nil {
		return buf, out, err
	}
	all, err := d.ReadDir(-1)
	for _, e := range all {
		out = append(out, Entry{e.Name(), typeOf(e.Type())})
	}
	return buf, out, err
}

func typeOf(m fs.FileMode) byte {
	switch m {
	case 0:
		return unix.DT_REG
	case fs.ModeDir:
		return unix.DT_DIR
	case fs.ModeSymlink:
		return unix.DT_LNK
	case fs.ModeNamedPipe:
		return unix.DT_FIFO
	case fs.ModeSocket:
		return unix.DT_SOCK
	case fs.ModeDevice:
		return unix.DT_BLK
	case fs.ModeDevice | fs.ModeCharDevice:
		return unix.DT_CHR
	}
	return unix.DT_UNKNOWN
}
