package gitops

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"descartes/internal/crash"
)

// lockFile is git's way to change a file: NAME.lock, made exclusively, becomes NAME by renaming.
//
// It is made as a second name of a file of our own in the git directory, which is locked with flock(2) for as
// long as we live. So a lock that a killed process of ours left can be told from every other: clearLocks.
type lockFile struct {
	path string
	f    *os.File
	own  string // the first name; "" where the file system has no hard links
}

// ownLock begins the names of the files behind our locks.
const ownLock = "descartes-lock-"

// takeLock makes the lock of a file, and waits a little for another holder. home is the git directory that
// everything of the repository has in common.
func takeLock(ctx context.Context, home, file string) (*lockFile, error) {
	k := &lockFile{path: file}
	deadline := time.Now().Add(lockPatience)
	for {
		err := k.take(home)
		if err == nil {
			crash.Point("git: locked " + path.Base(file))
			return k, nil
		}
		switch {
		case errors.Is(err, fs.ErrNotExist):
			if err := os.MkdirAll(filepath.Dir(file), 0o777); err != nil {
				k.drop()
				return nil, fmt.Errorf("lock %s: %w", file, err)
			}
		case !errors.Is(err, fs.ErrExist):
			k.drop()
			return nil, fmt.Errorf("lock %s: %w", file, err)
		}
		if time.Now().After(deadline) {
			k.drop()
			return nil, lockedBy(file, err)
		}
		if errors.Is(err, fs.ErrExist) {
			if err := pause(ctx, 20*time.Millisecond); err != nil {
				k.drop()
				return nil, fmt.Errorf("lock %s: %w", file, err)
			}
		}
	}
}

// take tries once.
func (k *lockFile) take(home string) error {
	if k.f == nil {
		if err := k.prepare(home); err != nil {
			return err
		}
	}
	err := os.Link(k.own, k.path+".lock")
	if err == nil || errors.Is(err, fs.ErrExist) {
		return err
	}
	k.drop() // swept up by another process before it was locked, or no hard links here
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) {
		return err
	}
	f, err := os.OpenFile(k.path+".lock", os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err == nil {
		k.f = f
	}
	return err
}

// prepare makes the file that is to be the lock.
func (k *lockFile) prepare(home string) error {
	name := fmt.Sprintf("%s/%s%d-%s", home, ownLock, os.Getpid(), rand.Text()[:8])
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return err
	}
	k.f, k.own = f, name
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err == unix.EWOULDBLOCK {
		k.drop() // another process is sweeping it up
		return fs.ErrNotExist
	} // without any flock here, the lock is an ordinary one
	crash.Point("git: lock prepared")
	return nil
}

// fill writes the whole new content and brings it to the disk.
func (k *lockFile) fill(data []byte) error {
	if _, err := k.f.Write(data); err != nil {
		return fmt.Errorf("write %s.lock: %w", k.path, err)
	}
	if err := unix.Fdatasync(int(k.f.Fd())); err != nil {
		return fmt.Errorf("sync %s.lock: %w", k.path, err)
	}
	crash.Point("git: written " + path.Base(k.path))
	return nil
}

// commit puts the new content in place. The lock is gone afterwards, whatever happens.
func (k *lockFile) commit() error {
	if k.f == nil {
		return errors.New("lock committed twice")
	}
	err := os.Rename(k.path+".lock", k.path)
	if err != nil && removeEmptyDirs(k.path) {
		err = os.Rename(k.path+".lock", k.path)
	}
	if err != nil {
		k.drop()
		return fmt.Errorf("replace %s: %w", k.path, err)
	}
	crash.Point("git: replaced " + path.Base(k.path))
	k.forget()
	return nil
}

// drop gives the lock up; it is harmless after commit.
func (k *lockFile) drop() {
	if k.f == nil {
		return
	}
	if mine, err := os.Stat(k.path + ".lock"); err == nil {
		if fi, err := k.f.Stat(); err == nil && os.SameFile(mine, fi) {
			os.Remove(k.path + ".lock")
		}
	}
	k.forget()
}

// forget lets go of our own name of the file, and then of the file.
func (k *lockFile) forget() {
	if k.own != "" {
		os.Remove(k.own)
	}
	k.f.Close()
	k.f, k.own = nil, ""
}

// clearLocks removes the locks that killed processes of ours left. Those of others, and those of the living,
// stay. It costs one look into the git directory where nothing is left.
func clearLocks(l layout) error {
	names, err := within(l.commonDir, ownLock+"*")
	if err != nil {
		return err
	}
	for _, name := range names {
		if err := clearLock(l, name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("clear away %s: %w", name, err)
		}
	}
	return nil
}

// within finds what matches the pattern in a folder, whatever the folder's own name has of a pattern.
func within(dir, pattern string) ([]string, error) {
	return filepath.Glob(filepath.Join(quotePattern(dir), pattern))
}

func quotePattern(dir string) string {
	return strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`).Replace(dir)
}

// Locked names a lock that would stop the next commit: of the index, of HEAD or of the branch that is checked out.
// What a killed process of ours left does not count, and is removed.
func (r *Repo) Locked() (path string, ok bool) {
	_ = clearLocks(r.l) // what cannot be removed is found below
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

func clearLock(l layout, name string) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return nil // its process lives
	}
	fi, err := f.Stat()
	if err != nil {
		return err
	}
	err = filepath.WalkDir(l.commonDir, func(p string, e fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil
		case err != nil:
			return err
		case e.IsDir() && (p == l.commonDir+"/objects" || p == l.commonDir+"/logs"):
			return fs.SkipDir
		case e.IsDir() || !strings.HasSuffix(p, ".lock"):
			return nil
		}
		if other, err := os.Lstat(p); err == nil && os.SameFile(fi, other) {
			return os.Remove(p)
		}
		return nil
	})
	if err != nil {
		return err
	}
	return os.Remove(name)
}

// removeEmptyDirs clears directories that deleted refs left where a ref is to be.
func removeEmptyDirs(dir string) bool {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return false
	}
	for _, e := range entries {
		if !e.IsDir() || !removeEmptyDirs(path.Join(dir, e.Name())) {
			return false
		}
	}
	return os.Remove(dir) == nil
}
