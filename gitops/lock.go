package gitops

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// presence is a file in the git directory, never removed, that is locked with flock(2) by every run that works there,
// for as long as it does. It says "running" until the last of them ends. Who finds it so, and unlocked, follows on a
// killed run: with it, perhaps, came lock files of that run's git commands.
const presence = "descartes-run"

// alone locks the presence file for itself; nil where a run lives, or where flock does not work.
func (c *cli) alone(flags int) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(c.l.gitDir, presence), os.O_RDWR|unix.O_NOFOLLOW|unix.O_NONBLOCK|flags, 0o666)
	if err != nil {
		return nil, err
	}
	if fi, err := f.Stat(); err != nil || !fi.Mode().IsRegular() || unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) != nil {
		return nil, f.Close()
	}
	return f, nil
}

// show makes this run's presence known, once it has ended what a killed one left at work.
func (c *cli) show() error {
	f, err := c.alone(os.O_CREATE)
	if err != nil {
		return err
	}
	if f != nil {
		if err := c.endLeft(); err != nil {
			return errors.Join(err, f.Close())
		}
		if err := f.Truncate(0); err == nil {
			_, err = f.WriteString("running\n")
		}
	} else if f, err = os.OpenFile(filepath.Join(c.l.gitDir, presence), os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0); err == nil { // another run lives
		err = unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB)
	}
	if err == nil {
		err = unix.Flock(int(f.Fd()), unix.LOCK_SH)
	}
	if err != nil {
		return fmt.Errorf("mark the git directory as in use: %w", err)
	}
	c.presence = f
	return nil
}

// leave takes back what show did.
func (c *cli) leave() {
	if c.presence == nil {
		return
	}
	if unix.Flock(int(c.presence.Fd()), unix.LOCK_EX|unix.LOCK_NB) == nil {
		_ = os.Truncate(c.presence.Name(), 0)
	}
	c.presence.Close()
	c.presence = nil
}

// clearAfterKill ends what a killed run left of its git commands, and removes their lock files: those that are newer
// than the run, where no git command of somebody else's works here.
func (r *Repo) clearAfterKill() error {
	f, err := r.cli.alone(0)
	if err != nil || f == nil {
		return nil
	}
	defer f.Close()
	began, err := f.Stat()
	if err != nil || began.Size() == 0 {
		return nil
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
	return f.Truncate(0)
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
