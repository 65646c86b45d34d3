package gitops

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"descartes/internal/crash"
)

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

// fill writes the whole new content and brings it to the disk.
func (k *lockFile) fill(data []byte) error {
	if _, err := k.f.Write(data); err != nil {
		return fmt.Errorf("write %s.lock: %w", k.path, err)
	}
	if err := unix.Fdatasync(int(k.f.Fd())); err != nil {
		return fmt.Errorf("sync %s.lock: %w", k.path, err)
	}
	crash.Point("git: written " + filepath.Base(k.path))
	return nil
}

// commit puts the new content in place. The lock is gone afterwards, whatever happens.
func (k *lockFile) commit() error {
	err := os.Rename(k.path+".lock", k.path)
	if err != nil {
		k.drop()
		return fmt.Errorf("replace %s: %w", k.path, err)
	}
	crash.Point("git: replaced " + filepath.Base(k.path))
	k.f.Close()
	k.f = nil
	return nil
}

// drop gives the lock up; it is harmless after commit.
func (k *lockFile) drop() {
	if k.f == nil {
		return
	}
	os.Remove(k.path + ".lock")
	k.f.Close()
	k.f = nil
}

// presence is a file in the git directory, locked with flock(2) for as long as a run works there. One that can be
// locked again was left by a killed run, and with it, perhaps, lock files of that run's git commands.
const presence = "descartes-run"

// show makes this run's presence known, until the returned file is closed.
func (c *cli) show() error {
	f, err := os.OpenFile(filepath.Join(c.l.gitDir, presence), os.O_RDWR|os.O_CREATE, 0o666)
	if err != nil {
		return err
	}
	_ = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) // without any flock here a dead run's locks are told of, not removed
	c.presence = f
	return nil
}

// clearAfterKill ends what a killed run left of its git commands, and removes their lock files: those that are newer
// than the run, where no git command of somebody else's works here.
func (r *Repo) clearAfterKill() error {
	path := filepath.Join(r.l.gitDir, presence)
	f, err := os.OpenFile(path, os.O_RDWR|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil
	}
	defer f.Close()
	began, err := f.Stat()
	if err != nil || !began.Mode().IsRegular() || unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) != nil {
		return nil // its run lives
	}
	if err := r.cli.endLeft(); err != nil {
		return err
	}
	if r.othersAtWork() != "" {
		return nil
	}
	locks := []string{filepath.Join(r.l.gitDir, "index.lock"), filepath.Join(r.l.gitDir, "HEAD.lock"), filepath.Join(r.l.commonDir, "config.lock"), filepath.Join(r.l.commonDir, "packed-refs.lock")}
	err = filepath.WalkDir(filepath.Join(r.l.commonDir, "refs"), func(p string, e fs.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(p, ".lock") {
			locks = append(locks, p)
		}
		return nil
	})
	for _, p := range locks {
		if fi, lerr := os.Lstat(p); lerr == nil && fi.Mode().IsRegular() && !fi.ModTime().Before(began.ModTime()) {
			err = errors.Join(err, os.Remove(p))
		}
	}
	if err != nil {
		return fmt.Errorf("clear away what a killed run left: %w", err)
	}
	return os.Remove(path)
}

// within finds what matches the pattern in a folder, whatever the folder's own name has of a pattern.
func within(dir, pattern string) ([]string, error) {
	return filepath.Glob(filepath.Join(quotePattern(dir), pattern))
}

func quotePattern(dir string) string {
	return strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`).Replace(dir)
}

// Locked names a lock that would stop the next commit: of the index, of HEAD or of the branch that is checked out.
func (r *Repo) Locked() (path string, ok bool) {
	files := []string{filepath.Join(r.l.gitDir, "index"), filepath.Join(r.l.gitDir, "HEAD")}
	if branch, _, err := r.refs.head(); err == nil && branch != "" {
		files = append(files, filepath.Join(r.l.commonDir, filepath.FromSlash(branch)))
	}
	for _, f := range files {
		if _, err := os.Lstat(f + ".lock"); err == nil {
			return f + ".lock", true
		}
	}
	return "", false
}
