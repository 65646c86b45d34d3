package atomicfile

import (
	"errors"
	"io"
	"os"
	"runtime"
	"syscall"

	"descartes/internal/oscall"
)

// FS is what durable writers ask of a file system. OS is the real one; tests inject faults or record operations.
type FS interface {
	OpenFile(name string, flag int, perm os.FileMode) (File, error)
	Rename(from, to string) error
	Remove(name string) error
	// SyncDir makes the names in dir durable: files created in it, renamed into it, removed from it.
	SyncDir(dir string) error
}

// File is an open file of an FS. Sync makes its bytes durable (fdatasync where the system has it).
// A File that also has Chmod(os.FileMode) error is given the mode of the file it replaces.
type File interface {
	io.Writer
	Sync() error
	Close() error
}

// OS returns the file system of the machine. It is safe for concurrent use.
func OS() FS { return osFS{} }

type osFS struct{}

// osFile is an *os.File whose Sync leaves out what nobody needs after a crash (times).
type osFile struct{ *os.File }

func (osFS) OpenFile(name string, flag int, perm os.FileMode) (File, error) {
	f, err := os.OpenFile(name, flag, perm)
	if err != nil {
		return nil, err
	}
	return osFile{f}, nil
}

func (osFS) Rename(from, to string) error { return os.Rename(from, to) }

func (osFS) Remove(name string) error { return os.Remove(name) }

func (osFS) SyncDir(dir string) error {
	if runtime.GOOS == "windows" {
		return nil // a directory cannot be opened for that there; NTFS keeps names in its own journal
	}
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	err = d.Sync()
	if errors.Is(err, syscall.EINVAL) || errors.Is(err, errors.ErrUnsupported) {
		err = nil // some network and FUSE file systems have no such call
	}
	return errors.Join(err, d.Close())
}

func (f osFile) Sync() error { return oscall.Sync(f.File) }
