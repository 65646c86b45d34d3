package tasks

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/gofrs/flock"
)

// sameStyle writes a time in the file's style: SCUD in Rust writes fractions of a second and +00:00, SCUD in Go neither.
func sameStyle(old string, now time.Time) (string, bool) {
	if _, err := time.Parse(time.RFC3339Nano, old); err != nil {
		return "", false
	}
	layout := "2006-01-02T15:04:05"
	if dot := strings.IndexByte(old, '.'); dot > 0 {
		digits := 0
		for digits < 9 && old[dot+1+digits] >= '0' && old[dot+1+digits] <= '9' {
			digits++
		}
		layout += "." + strings.Repeat("0", digits)
	}
	zone := "+00:00"
	if strings.HasSuffix(old, "Z") {
		zone = "Z"
	}
	return now.UTC().Format(layout) + zone, true
}

// ErrLocked says that another program had the lock on a list for as long as Save waited.
var ErrLocked = errors.New("another program (scud?) holds its lock")

// lockWaits is how long to wait after each try but the last, as scud does.
func lockWaits() []time.Duration {
	var waits []time.Duration
	for wait := 10 * time.Millisecond; len(waits) < 9; wait = min(2*wait, time.Second) {
		waits = append(waits, wait)
	}
	return waits
}

// lockList takes an advisory lock on a list: in that of a tasks.scg neither we nor scud, which takes it too, sees what the other has half written. A
// file that had text and is now empty was truncated by scud, which does that before it asks for the lock: scud goes first.
func lockList(path string, hadText bool, waits []time.Duration) (release func(), err error) {
	if info, err := os.Stat(path); err != nil || !info.Mode().IsRegular() {
		return func() {}, nil // the problem shows when it is read; a deleted file is made again
	}
	for try := 0; ; try++ {
		lock := flock.New(path, flock.SetFlag(os.O_RDONLY))
		ok, err := lock.TryLock()
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return func() {}, nil
		case errors.Is(err, errors.ErrUnsupported), errors.Is(err, syscall.ENOLCK):
			return func() {}, nil // a file system without locks: scud has none there either
		case err != nil:
			return nil, fmt.Errorf("lock %s: %w", path, err)
		case ok && runtime.GOOS == "windows":
			_ = lock.Unlock() // an open file cannot be replaced there: it is enough that nobody else has the lock
			return func() {}, nil
		case ok && current(lock, path, hadText):
			return func() { _ = lock.Unlock() }, nil
		case ok && try == len(waits):
			return func() { _ = lock.Unlock() }, nil // it stays empty: reading it reports that
		}
		_ = lock.Unlock()
		if try == len(waits) {
			return nil, fmt.Errorf("save %s: %w", path, ErrLocked)
		}
		time.Sleep(waits[try])
	}
}

// current reports whether the locked file is still the one at path, and not just truncated.
func current(lock *flock.Flock, path string, hadText bool) bool {
	mine, err := lock.Stat()
	if err != nil {
		return false
	}
	there, err := os.Stat(path)
	return err == nil && os.SameFile(mine, there) && (there.Size() > 0 || !hadText)
}

// readGraph reads a tasks.scg under a shared lock. A program that holds the lock for longer than scud ever does is not waited for.
func readGraph(path string) (src string, err error) {
	if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() {
		lock := flock.New(path, flock.SetFlag(os.O_RDONLY))
		for _, wait := range lockWaits() {
			if ok, err := lock.TryRLock(); ok || err != nil {
				break
			}
			time.Sleep(wait)
		}
		defer func() { _ = lock.Unlock() }()
	}
	return read(path)
}

// change is a status before and after.
type change struct{ from, to Status }

// Mirror returns SCUD's tasks.json beside a tasks.scg, if it has the tag with the same tasks and statuses. Save keeps it so. Its bytes are those on
// disk when Save or Mirror last looked.
func (f *File) Mirror() (*File, bool) {
	m := f.beside()
	return m, m != nil && f.inStep(m, nil)
}

// mirrorPath is where the mirror of a tasks.scg is, if there is one.
func (f *File) mirrorPath() (string, bool) {
	return filepath.Join(filepath.Dir(f.path), manyTags), f.letters && filepath.Base(f.path) == graphText
}

// beside returns the tag in tasks.json beside a tasks.scg as it is now, nil if there is none.
func (f *File) beside() *File {
	path, ok := f.mirrorPath()
	if !ok {
		return nil
	}
	if f.mirror != nil {
		if now, deleted, err := f.mirror.current(); err == nil && !deleted {
			f.mirror = now
			return now
		}
		f.mirror = nil
	}
	if m, err := OpenPath(path, f.tag); err == nil {
		f.mirror = m
	}
	return f.mirror
}

// inStep reports whether m has the tasks of f, each with the status that it had in f before the changes.
func (f *File) inStep(m *File, changes map[string]change) bool {
	if len(m.index) != len(f.index) {
		return false
	}
	for id, i := range f.index {
		status := f.tasks[i].Status
		if c, ok := changes[id]; ok {
			status = c.from
		}
		if k, ok := m.index[id]; !ok || m.tasks[k].Status != status {
			return false
		}
	}
	return true
}
