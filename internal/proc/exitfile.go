package proc

import (
	"bytes"
	"encoding/json"
	"os"
	"syscall"
)

// exitFile holds how the last command ended, so that whoever takes over from
// a dead process learns it. It is overwritten in place: one write of one
// line, of which a reader takes the first only.
type exitFile struct {
	path string
	file *os.File
	size int
}

func (x *exitFile) write(line []byte) error {
	if x.path == "" {
		return nil
	}
	if x.file != nil && gone(x.file) {
		x.file.Close()
		x.file = nil
	}
	if x.file == nil {
		fd, err := openMaking(x.path, syscall.O_RDWR|syscall.O_CREAT)
		if err != nil {
			return err
		}
		x.file, x.size = os.NewFile(uintptr(fd), x.path), 0
		if info, err := x.file.Stat(); err == nil {
			x.size = int(info.Size())
		}
	}
	if _, err := x.file.WriteAt(line, 0); err != nil {
		_ = x.file.Truncate(0) // rather nothing than half of two
		x.size = 0
		return err
	}
	if len(line) < x.size {
		if err := x.file.Truncate(int64(len(line))); err != nil {
			return err
		}
	}
	x.size = len(line)
	return nil
}

func (x *exitFile) close() {
	if x.file != nil {
		x.file.Close()
	}
}

// gone reports whether an open file has been unlinked, as happens when an
// agent removes the directory of the run.
func gone(f *os.File) bool {
	var st syscall.Stat_t
	return syscall.Fstat(int(f.Fd()), &st) != nil || st.Nlink == 0
}

// ReadExit reads what a shim wrote to its ExitFile last. It is false for a
// file that is missing, empty or torn.
func ReadExit(path string) (Exit, bool) {
	data, err := os.ReadFile(path)
	if err != nil {
		return Exit{}, false
	}
	line, _, whole := bytes.Cut(data, []byte{'\n'})
	var e Exit
	if !whole || json.Unmarshal(line, &e) != nil || e.Why == "" {
		return Exit{}, false
	}
	return e, true
}
