package gitops

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"
)

const lockPatience = 2 * time.Second

// byGit records the wave with `git commit`, so that hooks, filters and signing act. Like `git commit --only`
// it commits from an index of its own, made from HEAD and the wave's entries; the user's index gets the same
// entries and keeps everything else that is staged in it.
//
// The user's index is written before the commit: a crash between the two leaves the wave staged, and the next
// try commits it. The other way round it would leave a commit that looks reverted.
func (c *waveCommit) byGit(ctx context.Context) (hash string, err error) {
	cli := c.r.cli
	if err := c.r.store.writeOut(); err != nil {
		return "", err
	}
	index, err := cli.commitIndex(ctx, c.parent, c.entries)
	defer os.Remove(index)
	if err != nil {
		return "", err
	}
	undo, err := cli.stage(ctx, c.entries)
	if err != nil {
		return "", err
	}
	_, err = cli.run(ctx, gitCall{args: []string{"commit", "-q", "--cleanup=verbatim", "-F", "-"}, index: index, stdin: []byte(c.plan.w.Message), hooks: cli.hooks})
	_, hash, herr := c.r.refs.head()
	if stopped, ok := errors.AsType[*StoppedError](err); ok && herr == nil && hash != c.parent { // perhaps by a hook that runs when the commit is made
		c.plan.late, err = stopped.Error()+", when the commit was made", nil
	}
	if err != nil {
		undo()
		return "", err
	}
	return hash, herr
}

// commitIndex is HEAD with the wave's entries; it keeps what the user's index knows of unchanged files.
func (c *cli) commitIndex(ctx context.Context, parent string, entries map[string]treeItem) (string, error) {
	index, err := c.indexCopy(filepath.Join(c.l.gitDir, "index"))
	if err != nil {
		return "", err
	}
	args := []string{"read-tree", "--empty"}
	if parent != "" {
		args = []string{"read-tree", "-m", "-i", parent} // whatever the working tree holds
	}
	if _, err := c.run(ctx, gitCall{args: args, index: index}); err != nil {
		return index, err
	}
	if err := c.setEntries(ctx, index, entries); err != nil {
		return index, err
	}
	// For hooks that ask git's plumbing. Exit status 1: some files differ, which is none of our business.
	if _, err := c.run(ctx, gitCall{args: []string{"update-index", "-q", "--refresh"}, index: index}); err != nil && exitCode(err) != 1 {
		return index, err
	}
	return index, nil
}

// setEntries puts entries into an index, removals first, so that a file may take a directory's place.
func (c *cli) setEntries(ctx context.Context, index string, entries map[string]treeItem) error {
	var removed, set bytes.Buffer
	for _, p := range slices.Sorted(maps.Keys(entries)) {
		if e := entries[p]; e.mode == 0 {
			fmt.Fprintf(&removed, "0 %040d\t%s\x00", 0, p)
		} else {
			fmt.Fprintf(&set, "%06o %s\t%s\x00", e.mode, e.id, p)
		}
	}
	removed.Write(set.Bytes())
	if _, err := c.run(ctx, gitCall{args: []string{"update-index", "-z", "--index-info"}, index: index, stdin: removed.Bytes()}); err != nil {
		return err
	}
	return nil
}

// stage puts entries into the user's index; undo puts back what was there.
func (c *cli) stage(ctx context.Context, entries map[string]treeItem) (undo func(), err error) {
	own := filepath.Join(c.l.gitDir, "index")
	before, err := copyFile(own)
	if err != nil {
		return nil, err
	}
	undo = func() {
		if changed, err := before.changed(); err != nil || changed {
			_ = before.restore(context.WithoutCancel(ctx))
		}
	}
	deadline := time.Now().Add(lockPatience)
	for {
		if err = c.setEntries(ctx, "", entries); err == nil {
			break
		}
		if _, held := os.Lstat(own + ".lock"); held != nil || time.Now().After(deadline) {
			undo()
			return nil, lockedBy(own, err)
		}
		if err := pause(ctx, 50*time.Millisecond); err != nil {
			return nil, err
		}
	}
	return undo, nil
}

// lockedBy explains a lock file that did not go away.
func lockedBy(path string, err error) error {
	if fi, lerr := os.Lstat(path + ".lock"); lerr == nil {
		return &RefusedError{
			Reason: fmt.Sprintf("%s.lock is held, since %s: another git command is running here, or one was killed", path, fi.ModTime().Format(time.RFC3339)),
			Hint:   "wait for it, or delete the file if no git command is running",
		}
	}
	return err
}

func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-t.C:
		return nil
	}
}
