package gitops

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"
)

// savedFile is a small file of the git directory as it stood: enough to see that it changed and to put it back.
type savedFile struct {
	path  string
	kind  os.FileMode // 0 for a regular file; ModeSymlink: data is its target; ModeIrregular: not there
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
		if s.data, err = os.ReadFile(path); err != nil {
			return s, err
		}
		s.kind, s.perm = 0, os.FileMode(stamp.mode&0o7777)
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
func (s *savedFile) putBack(ctx context.Context, home string) error {
	if !s.present() {
		err := os.RemoveAll(s.path)
		if err != nil {
			return fmt.Errorf("remove %s: %w", s.path, err)
		}
		return nil
	}
	if err := s.write(ctx, home); err != nil {
		return fmt.Errorf("put back %s: %w", s.path, err)
	}
	return nil
}

func (s *savedFile) write(ctx context.Context, home string) error {
	if fi, err := os.Lstat(s.path); err == nil && fi.IsDir() {
		if err := os.RemoveAll(s.path); err != nil {
			return err
		}
	}
	lock, err := takeLock(ctx, home, s.path)
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
