package gitops

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// mostSaved bounds the files of the git directory that are read whole; mostLoose a ref with a file of its own,
// mostRules a file of ignore rules or attributes.
const (
	mostSaved = 1 << 30
	mostLoose = 1 << 16
	mostRules = 100 << 20 // git's own bound
)

// errNotPlain is what readPlain says of anything but a regular file of bounded size: reading a FIFO never ends, and a
// sparse file fills the memory.
var errNotPlain = errors.New("not a regular file of ordinary size")

// openPlain opens a file for reading if it is a regular one of at most limit bytes.
func openPlain(path string, limit int64) (*os.File, os.FileInfo, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if errors.Is(err, syscall.ENXIO) { // a socket
		return nil, nil, &os.PathError{Op: "open", Path: path, Err: errNotPlain}
	}
	if err != nil {
		return nil, nil, err
	}
	fi, err := f.Stat()
	if err == nil && (!fi.Mode().IsRegular() && !fi.IsDir() || fi.Size() > limit) {
		err = &os.PathError{Op: "open", Path: path, Err: errNotPlain}
	}
	if err != nil {
		f.Close()
		return nil, nil, err
	}
	return f, fi, nil
}

func readPlain(path string, limit int64) ([]byte, error) {
	f, _, err := openPlain(path, limit)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, limit))
}

// savedFile is a small file of the git directory as it stood: enough to see that it changed and to put it back.
type savedFile struct {
	path  string
	kind  os.FileMode // 0 for a regular file; ModeSymlink: data is its target; ModeIrregular: not there; ModeDevice: not plain
	perm  os.FileMode
	data  []byte
	mtime time.Time
	stamp fileStamp
}

// fileStamp is what a stat call says of a file; a change of content always shows in it, because nothing
// but the clock sets the change time.
type fileStamp struct {
	ino          uint64
	size         int64
	mtime, ctime syscall.Timespec
	mode         uint32
}

// stampOf does not follow a symbolic link. A missing file has the zero stamp.
func stampOf(path string) (fileStamp, error) {
	var st syscall.Stat_t
	if err := syscall.Lstat(path, &st); err != nil {
		if missing(err) {
			return fileStamp{}, nil
		}
		return fileStamp{}, &os.PathError{Op: "lstat", Path: path, Err: err}
	}
	return fileStamp{ino: st.Ino, size: st.Size, mtime: st.Mtim, ctime: st.Ctim, mode: st.Mode}, nil
}

func missing(err error) bool {
	return errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ENOTDIR)
}

func (s *savedFile) present() bool { return s.kind != os.ModeIrregular }

// saveFile reads a file that may be missing. A directory in its place counts as missing.
func saveFile(path string) (savedFile, error) {
	stamp, err := stampOf(path)
	if err != nil {
		return savedFile{}, err
	}
	s := savedFile{path: path, stamp: stamp, kind: os.ModeIrregular, mtime: time.Unix(stamp.mtime.Unix())}
	switch stamp.mode & syscall.S_IFMT {
	case syscall.S_IFLNK:
		to, err := os.Readlink(path)
		if err != nil {
			return s, err
		}
		s.kind, s.data = os.ModeSymlink, []byte(to)
	case syscall.S_IFREG:
		limit := int64(mostSaved)
		if strings.Contains(path, "/refs/") || filepath.Base(path) == "HEAD" {
			limit = mostLoose
		}
		s.data, err = readPlain(path, limit)
		if errors.Is(err, errNotPlain) {
			s.kind = os.ModeDevice
			break
		}
		if err != nil {
			return s, err
		}
		s.kind, s.perm = 0, os.FileMode(stamp.mode&0o7777)
	case 0, syscall.S_IFDIR:
	default:
		s.kind = os.ModeDevice
	}
	return s, nil
}

// changed reports whether the file differs from what was saved: kind, content or permissions.
func (s *savedFile) changed() (bool, error) {
	stamp, err := stampOf(s.path)
	if err != nil || stamp == s.stamp {
		return false, err
	}
	now, err := saveFile(s.path)
	if err != nil {
		return false, err
	}
	return now.kind != s.kind || now.perm != s.perm || !bytes.Equal(now.data, s.data), nil
}

// putBack makes the file what it was, through git's own lock file, so that no git command reads half of it.
func (s *savedFile) putBack(ctx context.Context) error {
	if s.kind == os.ModeDevice {
		return &RefusedError{Reason: fmt.Sprintf("%s was %s before the attempt", s.path, errNotPlain)}
	}
	if !s.present() {
		err := os.RemoveAll(s.path)
		if err != nil {
			return fmt.Errorf("remove %s: %w", s.path, err)
		}
		return nil
	}
	if err := s.write(ctx); err != nil {
		return fmt.Errorf("put back %s: %w", s.path, err)
	}
	return nil
}

func (s *savedFile) write(ctx context.Context) error {
	if fi, err := os.Lstat(s.path); err == nil && fi.IsDir() {
		if err := os.RemoveAll(s.path); err != nil {
			return err
		}
	}
	lock, err := takeLock(ctx, s.path)
	if err != nil {
		return err
	}
	defer lock.drop()
	if s.kind == os.ModeSymlink {
		link := s.path + ".link"
		if err := os.RemoveAll(link); err != nil {
			return err
		}
		if err := os.Symlink(string(s.data), link); err != nil {
			return err
		}
		return os.Rename(link, s.path)
	}
	if err := lock.fill(s.data); err != nil {
		return err
	}
	if err := lock.f.Chmod(s.perm); err != nil {
		return err
	}
	// For the index: entries that are not older than the file are those that git looks at again.
	if err := os.Chtimes(s.path+".lock", s.mtime, s.mtime); err != nil {
		return err
	}
	return lock.commit()
}

// savedFiles remembers files between one look and the next, so that an unchanged file costs one stat call.
type savedFiles map[string]savedFile

func (m savedFiles) save(path string) (savedFile, error) {
	if old, ok := m[path]; ok {
		stamp, err := stampOf(path)
		if err != nil {
			return savedFile{}, err
		}
		if stamp == old.stamp {
			return old, nil
		}
	}
	s, err := saveFile(path)
	if err == nil {
		m[path] = s
	}
	return s, err
}
