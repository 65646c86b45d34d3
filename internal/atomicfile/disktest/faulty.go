package disktest

import (
	"errors"
	"io"
	"os"
	"slices"
	"sync"

	"descartes/internal/atomicfile"
)

// Faulty is the real file system until its K-th operation, which fails. Safe for concurrent use.
type Faulty struct {
	atomicfile.FS
	K      int
	Err    error
	Sticky bool // it keeps failing

	mu     sync.Mutex
	n      int
	writes []int
}

// Asked is how many operations there were.
func (f *Faulty) Asked() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.n
}

// Writes are those among the operations that write.
func (f *Faulty) Writes() []int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.writes)
}

func (f *Faulty) fails(op string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.n++
	if op == "write" {
		f.writes = append(f.writes, f.n)
	}
	if f.n == f.K || f.Sticky && f.K > 0 && f.n > f.K {
		return f.Err
	}
	return nil
}

type faultyFile struct {
	atomicfile.File
	f *Faulty
}

func (f *Faulty) OpenFile(name string, flag int, perm os.FileMode) (atomicfile.File, error) {
	if err := f.fails(""); err != nil {
		return nil, &os.PathError{Op: "open", Path: name, Err: err}
	}
	g, err := f.FS.OpenFile(name, flag, perm)
	if err != nil {
		return nil, err
	}
	return &faultyFile{g, f}, nil
}

func (f *Faulty) Rename(from, to string) error {
	if err := f.fails(""); err != nil {
		return &os.LinkError{Op: "rename", Old: from, New: to, Err: err}
	}
	return f.FS.Rename(from, to)
}

func (f *Faulty) SyncDir(dir string) error {
	if err := f.fails(""); err != nil {
		return &os.PathError{Op: "sync", Path: dir, Err: err}
	}
	return f.FS.SyncDir(dir)
}

func (f *faultyFile) Write(b []byte) (int, error) {
	err := f.f.fails("write")
	if err == nil {
		return f.File.Write(b)
	}
	if errors.Is(err, io.ErrShortWrite) {
		n, werr := f.File.Write(b[:len(b)/2])
		if werr != nil {
			return n, werr
		}
		return n, err
	}
	return 0, err
}

func (f *faultyFile) Sync() error {
	if err := f.f.fails(""); err != nil {
		return err
	}
	return f.File.Sync()
}
