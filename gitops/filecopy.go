package gitops

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"descartes/internal/crash"
	"descartes/internal/oscall"
)

// mostCopied bounds the files of the git directory that are read whole; mostLoose a ref with a file of its own,
// mostRules a file of ignore rules or attributes.
const (
	mostCopied = 1 << 30
	mostLoose  = 1 << 16
	mostRules  = 100 << 20 // git's own bound
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

// missing reports whether an error says that there is no such file.
func missing(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR)
}

// fileStamp is what a stat call says of a file; a change of content always shows in it, because nothing
// but the clock sets the change time.
type fileStamp struct {
	ino          uint64
	size         int64
	mtime, ctime oscall.Timespec
	mode         uint32
}

// stampOf does not follow a symbolic link. A missing file has the zero stamp.
func stampOf(path string) (fileStamp, error) {
	var st oscall.Stat_t
	if err := oscall.Lstat(path, &st); err != nil {
		if missing(err) {
			return fileStamp{}, nil
		}
		return fileStamp{}, &os.PathError{Op: "lstat", Path: path, Err: err}
	}
	return fileStamp{ino: st.Ino, size: st.Size, mtime: st.Mtim, ctime: st.Ctim, mode: uint32(st.Mode)}, nil
}

// fileCopy is a copy of a file of the git directory: enough to notice a change and undo it. Its exported fields are
// saved, for the run that follows a killed one.
type fileCopy struct {
	Path    string
	Kind    fs.FileMode // 0 for a regular file; ModeSymlink: Text is its target; ModeIrregular: not there; ModeDevice: not plain
	Perm    fs.FileMode
	Time    time.Time // of its last change
	Text    []byte
	Omitted bool // there was no room for Text
	stamp   fileStamp
}

// copyFile reads a file that may be missing. A directory in its place counts as missing.
func copyFile(path string) (fileCopy, error) {
	stamp, err := stampOf(path)
	if err != nil {
		return fileCopy{}, err
	}
	c := fileCopy{Path: path, stamp: stamp, Kind: fs.ModeIrregular, Time: time.Unix(stamp.mtime.Unix())}
	switch stamp.mode & syscall.S_IFMT {
	case syscall.S_IFLNK:
		to, err := os.Readlink(path)
		if err != nil {
			return c, err
		}
		c.Kind, c.Text = fs.ModeSymlink, []byte(to)
	case syscall.S_IFREG:
		c.Text, err = readPlain(path, mostCopied)
		if errors.Is(err, errNotPlain) {
			c.Kind = fs.ModeDevice
			break
		}
		if err != nil {
			return c, err
		}
		c.Kind, c.Perm = 0, fs.FileMode(stamp.mode&0o7777)
	case 0, syscall.S_IFDIR:
	default:
		c.Kind = fs.ModeDevice
	}
	return c, nil
}

// changed reports whether the file differs from the copy: kind, content or permissions.
func (c *fileCopy) changed() (bool, error) {
	stamp, err := stampOf(c.Path)
	if err != nil || stamp == c.stamp {
		return false, err
	}
	now, err := copyFile(c.Path)
	if err != nil {
		return false, err
	}
	return now.Kind != c.Kind || now.Perm != c.Perm || !bytes.Equal(now.Text, c.Text), nil
}

// restore makes the file what it was.
func (c *fileCopy) restore(ctx context.Context) error {
	switch fi, err := os.Lstat(c.Path); {
	case c.Kind == fs.ModeDevice:
		return &RefusedError{Reason: fmt.Sprintf("%s was %s before the attempt", c.Path, errNotPlain)}
	case c.Kind == fs.ModeIrregular, err == nil && fi.IsDir():
		if err := os.RemoveAll(c.Path); err != nil || c.Kind == fs.ModeIrregular {
			return err
		}
	}
	if err := c.write(ctx); err != nil {
		return fmt.Errorf("put back %s: %w", c.Path, err)
	}
	return nil
}

// write gives the file its content as git does, so that no git command writes it meanwhile: NAME.lock, made exclusively,
// becomes NAME by renaming. It has the time of its last change too: entries of an index that are not older than its file
// are those that git looks at again.
func (c *fileCopy) write(ctx context.Context) error {
	lock := c.Path + ".lock"
	f, err := takeLock(ctx, lock)
	if err != nil {
		return lockedBy(c.Path, err)
	}
	defer f.Close()
	crash.Point("git: locked " + filepath.Base(c.Path))
	if c.Kind == fs.ModeSymlink { // a link cannot be made where the lock is
		link := c.Path + ".link"
		_ = os.Remove(link)
		if err = os.Symlink(string(c.Text), link); err == nil {
			err = os.Rename(link, c.Path)
		}
		return errors.Join(err, os.Remove(lock))
	}
	if _, err = f.Write(c.Text); err == nil {
		err = f.Chmod(c.Perm)
	}
	if err == nil {
		err = os.Chtimes(lock, c.Time, c.Time)
	}
	if err == nil {
		err = oscall.Sync(f) // on the disk before it has the name
	}
	crash.Point("git: written " + filepath.Base(c.Path))
	if err == nil {
		err = os.Rename(lock, c.Path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(lock))
	}
	crash.Point("git: replaced " + filepath.Base(c.Path))
	return nil
}

// takeLock makes a lock file, and waits a little for another holder.
func takeLock(ctx context.Context, lock string) (*os.File, error) {
	if err := os.MkdirAll(filepath.Dir(lock), 0o777); err != nil {
		return nil, err
	}
	for deadline := time.Now().Add(lockPatience); ; {
		f, err := os.OpenFile(lock, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
		if !errors.Is(err, fs.ErrExist) || time.Now().After(deadline) {
			return f, err
		}
		if err := pause(ctx, 20*time.Millisecond); err != nil {
			return nil, err
		}
	}
}

// within finds what matches the pattern in a folder, whatever the folder's own name has of a pattern.
func within(dir, pattern string) ([]string, error) {
	return filepath.Glob(filepath.Join(quotePattern(dir), pattern))
}

func quotePattern(dir string) string {
	return strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`).Replace(dir)
}
