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
	"strings"
	"time"
)

const lockPatience = 2 * time.Second

// commit records a wave with `git commit`, so that hooks, filters and signing act. Like `git commit --only`
// it commits from an index of its own, made from HEAD and the wave's entries; the user's index gets the same
// entries and keeps everything else that is staged in it.
//
// The user's index is written before the commit: a crash between the two leaves the wave staged, and the next
// try commits it. The other way round it would leave a commit that looks reverted.
func (c *cli) commit(ctx context.Context, plan *wavePlan) (Commit, error) {
	done, err := c.commitWave(ctx, plan)
	if err != nil {
		return Commit{}, fmt.Errorf("commit wave: %w", err)
	}
	return done, nil
}

func (c *cli) commitWave(ctx context.Context, plan *wavePlan) (Commit, error) {
	entries, err := c.waveEntries(ctx, plan)
	if err != nil {
		return Commit{}, err
	}
	parent, err := c.headCommit(ctx)
	if err != nil {
		return Commit{}, err
	}
	index, err := c.commitIndex(ctx, parent, entries)
	defer os.Remove(index)
	if err != nil {
		return Commit{}, err
	}
	planned, err := c.word(ctx, index, "write-tree")
	if err != nil {
		return Commit{}, err
	}
	before := emptyTreeHex
	if parent != "" {
		if before, err = c.word(ctx, "", "rev-parse", "--verify", parent+"^{tree}"); err != nil {
			return Commit{}, err
		}
	}
	if planned == before {
		return Commit{Empty: true, Notes: plan.notes(nil)}, nil
	}
	undo, err := c.stage(ctx, entries)
	if err != nil {
		return Commit{}, err
	}
	_, err = c.run(ctx, gitCall{args: []string{"commit", "-q", "--cleanup=verbatim", "-F", "-"}, index: index, stdin: []byte(plan.w.Message), hooks: c.hooks})
	stopped, _ := errors.AsType[*StoppedError](err)
	ctx = context.WithoutCancel(ctx)
	if stopped != nil { // perhaps by a hook that runs when the commit is made
		if now, herr := c.headCommit(ctx); herr == nil && now != parent {
			plan.late, err = stopped.Error()+", when the commit was made", nil
		}
	}
	if err != nil {
		undo()
		return Commit{}, err
	}
	return c.committed(ctx, plan, before, planned)
}

// committed reads what became of it: hooks may have had their say.
func (c *cli) committed(ctx context.Context, plan *wavePlan, before, planned string) (Commit, error) {
	hash, err := c.headCommit(ctx)
	if err != nil {
		return Commit{}, err
	}
	all := &cli{}
	*all = *c
	all.guard = nil
	changes, err := all.changes(ctx, before, hash+"^{tree}")
	if err != nil {
		return Commit{}, err
	}
	done := Commit{Hash: hash}
	final := map[string]treeEntry{}
	for _, ch := range changes {
		final[ch.path] = ch.new
		done.Paths = append(done.Paths, ch.path)
	}
	slices.Sort(done.Paths)
	done.Notes = plan.notes(done.Paths)
	tree, err := c.word(ctx, "", "rev-parse", "--verify", hash+"^{tree}")
	if err != nil {
		return Commit{}, err
	}
	if tree != planned {
		done.Notes = append(done.Notes, "hooks changed what was committed")
		if _, err := c.stage(ctx, final); err != nil {
			return Commit{}, err
		}
	}
	return done, nil
}

// headCommit is "" on an unborn branch.
func (c *cli) headCommit(ctx context.Context) (string, error) {
	h, err := c.word(ctx, "", "rev-parse", "--verify", "-q", "HEAD^{commit}")
	if exitCode(err) == 1 {
		return "", nil
	}
	return h, err
}

// waveEntries is what each path of the wave becomes, by the plan and then by the wave's files.
func (c *cli) waveEntries(ctx context.Context, plan *wavePlan) (map[string]treeEntry, error) {
	out := map[string]treeEntry{}
	for name, item := range plan.edits {
		out[name] = treeEntry{mode: item.mode, id: item.id.String()}
	}
	for _, name := range slices.Sorted(maps.Keys(plan.w.Files)) {
		mode, ok, err := c.fileMode(ctx, name)
		if err != nil {
			return nil, err
		}
		if !ok {
			continue
		}
		b, err := c.run(ctx, gitCall{args: []string{"hash-object", "-w", "--stdin", "--path=" + name}, stdin: plan.w.Files[name]})
		if err != nil {
			return nil, err
		}
		out[name] = treeEntry{mode: mode, id: strings.TrimSpace(string(b))}
	}
	return out, nil
}

// fileMode is the mode that a file of ours has or gets; false for an untracked one that is ignored.
func (c *cli) fileMode(ctx context.Context, name string) (uint32, bool, error) {
	b, err := c.run(ctx, gitCall{options: literally, args: []string{"ls-files", "-s", "-z", "--", name}})
	if err != nil {
		return 0, false, err
	}
	if len(b) > 0 {
		var mode uint32
		_, err := fmt.Sscanf(string(b), "%o", &mode)
		return mode, true, err
	}
	_, err = c.run(ctx, gitCall{args: []string{"check-ignore", "-q", "--", name}})
	if exitCode(err) == 1 {
		return modeRegular, true, nil
	}
	return 0, false, err
}

// commitIndex is HEAD with the wave's entries; it keeps what the user's index knows of unchanged files.
func (c *cli) commitIndex(ctx context.Context, parent string, entries map[string]treeEntry) (string, error) {
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
func (c *cli) setEntries(ctx context.Context, index string, entries map[string]treeEntry) error {
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
func (c *cli) stage(ctx context.Context, entries map[string]treeEntry) (undo func(), err error) {
	own := filepath.Join(c.l.gitDir, "index")
	saved, err := saveFile(own)
	if err != nil {
		return nil, err
	}
	undo = func() {
		if changed, err := saved.changed(); err != nil || changed {
			_ = saved.putBack(context.WithoutCancel(ctx))
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
