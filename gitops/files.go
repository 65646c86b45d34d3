package gitops

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"descartes/internal/oscall"
)

// mostCopied bounds the files of the git directory that are read whole; mostLoose a ref with a file of its own.
const (
	mostCopied = 1 << 30
	mostLoose  = 1 << 16
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

// exists reports whether something stands at a path.
func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
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

// within finds what matches the pattern in a folder, whatever the folder's own name has of a pattern.
func within(dir, pattern string) ([]string, error) {
	return filepath.Glob(filepath.Join(quotePattern(dir), pattern))
}

func quotePattern(dir string) string {
	return strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`).Replace(dir)
}

// olderThan reports whether a file last changed before a time; it follows no link.
func (r *Repo) olderThan(name string, t time.Time) bool {
	stamp, err := stampOf(filepath.Join(r.l.root, name))
	return err == nil && stamp.ino != 0 && !t.IsZero() && time.Unix(stamp.ctime.Unix()).Before(t.Add(-ClockSlack))
}

// ClockSlack is how long after a change another one may get the same time stamp: a few ticks of the file system's coarse clock.
const ClockSlack = 20 * time.Millisecond

// Now is the time, but never later than the stamp of a file that is changed after the call: file stamps come from the
// kernel's coarse clock, which lags on a busy machine. Use it to compare the age of files with the time of an event.
func Now() time.Time {
	now := time.Now()
	if coarse, err := oscall.Clock(); err == nil && coarse.Before(now) {
		return now.Add(coarse.Sub(now)) // keeps the monotonic reading
	}
	return now
}
