package gitops

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// privateIndex is a copy to work in: of the last snapshot's, which knows the files since hashed, unless the
// repository's index changed since then. from is what was copied, now the state of the repository's index.
func (c *cli) privateIndex() (path, from string, now fileInfo, err error) {
	own := filepath.Join(c.l.gitDir, "index")
	now, err = statPath(own)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return "", "", now, err
	}
	from = own
	if c.based != (fileInfo{}) && now == c.based {
		if _, err := os.Stat(c.cache); err == nil {
			from = c.cache
		}
	}
	path, err = c.indexCopy(from)
	return path, from, now, err
}

// indexCopy gives from another name; git replaces index files by renaming, so the original stays. A missing
// one is copied as a missing one.
func (c *cli) indexCopy(from string) (string, error) {
	to := fmt.Sprintf("%s.%d.%d", c.cache, os.Getpid(), time.Now().UnixNano())
	err := os.Link(from, to)
	if err == nil || errors.Is(err, os.ErrNotExist) {
		return to, nil
	}
	b, err := readPlain(from, mostCopied)
	if err != nil {
		return "", err
	}
	fi, err := os.Stat(from)
	if err != nil {
		return "", err
	}
	if err := os.WriteFile(to, b, 0o600); err != nil {
		return "", err
	}
	// The time tells git which entries may have changed unnoticed; a newer one would hide changes.
	return to, os.Chtimes(to, fi.ModTime(), fi.ModTime())
}

// sweep removes what a dead process left of its copies, and of the streams of its git commands. None of those is
// at work any more: the caller has seen to that.
func (c *cli) sweep() {
	names, _ := within(filepath.Dir(c.cache), filepath.Base(c.cache)+".*")
	for _, n := range names {
		pid, _, _ := strings.Cut(strings.TrimPrefix(n, c.cache+"."), ".")
		p, err := strconv.Atoi(pid)
		if err == nil && p != os.Getpid() && errors.Is(syscall.Kill(p, 0), syscall.ESRCH) {
			_ = os.Remove(n)
		}
	}
}

// close ends the shim and removes the last snapshot's index, if it is ours.
func (c *cli) close() {
	if c.shim != nil {
		_ = c.shim.Close() // whatever it was at has ended
	}
	if c.based != (fileInfo{}) {
		_ = os.Remove(c.cache)
	}
	c.leave()
}
