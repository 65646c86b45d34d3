package tasks

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"time"

	"github.com/gofrs/flock"
)

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

// lockList takes an advisory lock on a list: in that of a tasks.scg neither we nor scud, which takes it too, sees what
// the other has half written. A file that had text and is now empty was truncated by scud, which does that before it
// asks for the lock: scud goes first.
func lockList(path string, hadText bool, waits []time.Duration) (release func(), err error) {
	if info, err := os.Stat(path); err != nil || !info.Mode().IsRegular() {
		return func() {}, nil // the problem shows when it is read; a deleted file is made again
	}
	for try := 0; ; try++ {
		lock := flock.New(path, flock.SetFlag(os.O_RDONLY))
		ok, err := lock.TryLock()
		switch {
		case errors.Is(err, fs.ErrNotExist), errors.Is(err, errors.ErrUnsupported), errors.Is(err, syscall.ENOLCK):
			return func() {}, nil // gone, or a file system without locks: scud has none there either
		case err != nil:
			return nil, fmt.Errorf("lock %s: %w", path, err)
		case ok && runtime.GOOS == "windows":
			_ = lock.Unlock() // an open file cannot be replaced there: it is enough that nobody else has the lock
			return func() {}, nil
		case ok && (try == len(waits) || current(lock, path, hadText)): // if it stays empty, reading it reports that
			return func() { _ = lock.Unlock() }, nil
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

// readShared is read, of a tasks.scg under a shared lock. A program that holds the lock for longer than scud ever does
// is not waited for.
func readShared(path string) (string, error) {
	if info, err := os.Stat(path); filepath.Base(path) == graphText && err == nil && info.Mode().IsRegular() {
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
