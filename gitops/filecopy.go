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

	"golang.org/x/sys/unix"

	"descartes/internal/crash"
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

// fileCopy is a file of the git directory as it stood: enough to see that it changed, and to put it back. Its exported
// fields are what a file of them holds for the run that follows on one that was killed.
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
		limit := int64(mostCopied)
		if filepath.Base(path) == "HEAD" {
			limit = mostLoose
		}
		c.Text, err = readPlain(path, limit)
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

// restore makes the file what it was, under git's own lock, so that no git command writes it meanwhile.
func (c *fileCopy) restore(ctx context.Context) error {
	switch {
	case c.Kind == fs.ModeDevice:
		return &RefusedError{Reason: fmt.Sprintf("%s was %s before the attempt", c.Path, errNotPlain)}
	case c.Kind == fs.ModeIrregular:
		if err := os.RemoveAll(c.Path); err != nil {
			return fmt.Errorf("remove %s: %w", c.Path, err)
		}
		return nil
	}
	if err := c.write(ctx); err != nil {
		return fmt.Errorf("put back %s: %w", c.Path, err)
	}
	return nil
}

func (c *fileCopy) write(ctx context.Context) error {
	if fi, err := os.Lstat(c.Path); err == nil && fi.IsDir() {
		if err := os.RemoveAll(c.Path); err != nil {
			return err
		}
	}
	lock, err := takeLock(ctx, c.Path)
	if err != nil {
		return err
	}
	defer lock.drop()
	if c.Kind == fs.ModeSymlink {
		link := c.Path + ".link"
		if err := os.RemoveAll(link); err != nil {
			return err
		}
		if err := os.Symlink(string(c.Text), link); err != nil {
			return err
		}
		return os.Rename(link, c.Path)
	}
	return lock.replace(c.Text, c.Perm, c.Time)
}

// lockFile is git's way to change a file: NAME.lock, made exclusively, becomes NAME by renaming. It is for files of the
// git directory that are put back whole; refs and the index are changed by git itself.
type lockFile struct {
	path string
	f    *os.File
}

// takeLock makes the lock of a file, and waits a little for another holder.
func takeLock(ctx context.Context, file string) (*lockFile, error) {
	deadline := time.Now().Add(lockPatience)
	for {
		f, err := os.OpenFile(file+".lock", os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
		switch {
		case err == nil:
			crash.Point("git: locked " + filepath.Base(file))
			return &lockFile{path: file, f: f}, nil
		case errors.Is(err, fs.ErrNotExist):
			if err := os.MkdirAll(filepath.Dir(file), 0o777); err != nil {
				return nil, fmt.Errorf("lock %s: %w", file, err)
			}
		case !errors.Is(err, fs.ErrExist):
			return nil, fmt.Errorf("lock %s: %w", file, err)
		}
		if time.Now().After(deadline) {
			return nil, lockedBy(file, err)
		}
		if errors.Is(err, fs.ErrExist) {
			if err := pause(ctx, 20*time.Millisecond); err != nil {
				return nil, fmt.Errorf("lock %s: %w", file, err)
			}
		}
	}
}

// replace gives the file its new content, on the disk before it has the name, and the time of its last change: entries
// of an index that are not older than its file are those that git looks at again.
func (k *lockFile) replace(text []byte, perm fs.FileMode, changed time.Time) error {
	_, err := k.f.Write(text)
	if err == nil {
		err = k.f.Chmod(perm)
	}
	if err == nil {
		err = os.Chtimes(k.path+".lock", changed, changed)
	}
	if err == nil {
		err = unix.Fdatasync(int(k.f.Fd()))
	}
	if err != nil {
		return err
	}
	crash.Point("git: written " + filepath.Base(k.path))
	if err := os.Rename(k.path+".lock", k.path); err != nil {
		return err
	}
	crash.Point("git: replaced " + filepath.Base(k.path))
	k.f.Close()
	k.f = nil
	return nil
}

// drop gives the lock up; it is harmless after replace.
func (k *lockFile) drop() {
	if k.f == nil {
		return
	}
	os.Remove(k.path + ".lock")
	k.f.Close()
	k.f = nil
}

// within finds what matches the pattern in a folder, whatever the folder's own name has of a pattern.
func within(dir, pattern string) ([]string, error) {
	return filepath.Glob(filepath.Join(quotePattern(dir), pattern))
}

func quotePattern(dir string) string {
	return strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`).Replace(dir)
}
