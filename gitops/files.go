package gitops

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"descartes/internal/oscall"
)

// exists reports whether something stands at a path.
func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// missing reports whether an error says that there is no such file.
func missing(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR)
}

// changedAt is when the content or the place of a file last changed: nothing but the clock sets it. It follows no
// link, and is zero for a missing file.
func changedAt(path string) (at time.Time) {
	var st oscall.Stat_t
	if oscall.Lstat(path, &st) == nil {
		at = time.Unix(st.Ctim.Unix())
	}
	return at
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
	at := changedAt(filepath.Join(r.l.root, name))
	return !at.IsZero() && !t.IsZero() && at.Before(t.Add(-ClockSlack))
}

// ClockSlack is how long after a change another one may get the same time stamp: a few ticks of the file system's
// coarse clock.
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
