package gitops

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"descartes/internal/plainfile"
)

// Below is where an attempt's own git went back behind the commit that the attempt began at.
type Below struct {
	Forks []string // what a reset, a checkout or a rebase left of its history; "" is nothing
	Away  bool     // HEAD has not come back
}

// maxReflog and mostVisited bound what is read of a reflog.
const (
	maxReflog   = 1 << 20
	mostVisited = 100
)

// Tip is the commit at which the attempt's HEAD is, "" where that cannot be read.
func (s *Slot) Tip(ctx context.Context) string {
	dot := filepath.Join(s.tree, ".git")
	if fi, err := os.Lstat(dot); err != nil || !fi.IsDir() || exists(filepath.Join(dot, "commondir")) {
		return ""
	}
	if s.unmoved(dot) { // as after most attempts: git need not be asked
		return s.at.Hash
	}
	return s.cli.checkedOut(ctx, s.tree)
}

// unmoved reports whether HEAD of the agent's repository and its branch are as Prepare wrote them.
func (s *Slot) unmoved(dot string) bool {
	for name, want := range s.wrote {
		if is, err := plainfile.Read(s.tree, filepath.Join(dot, name), int64(len(want))); err != nil ||
			!bytes.Equal(is, want) {
			return false
		}
	}
	_, err := os.Lstat(filepath.Join(dot, s.at.Branch)) // of a detached HEAD the folder itself
	return s.wrote != nil && exists(filepath.Join(dot, "objects")) && exists(filepath.Join(dot, "refs", "heads")) &&
		(s.at.Branch == "" || errors.Is(err, fs.ErrNotExist))
}

// Below reads what HEAD, which is at tip, and its reflog tell about the attempt. A commit in place of another, which
// git commit --amend makes, is none of this: no file changes then.
func (s *Slot) Below(ctx context.Context, tip string) (b Below, err error) {
	at := s.at.Hash
	if at == "" {
		return b, nil
	}
	log, err := s.reflog()
	if err != nil {
		return b, err
	}
	var visited []string
	for line := range strings.Lines(string(log)) {
		about, message, _ := strings.Cut(line, "\t")
		if f := strings.Fields(about); len(f) > 1 && !strings.HasPrefix(message, "commit") &&
			!strings.HasPrefix(message, "descartes: ") && !slices.Contains(visited, f[1]) &&
			len(visited) < mostVisited {
			visited = append(visited, f[1])
		}
	}
	b.Away = tip != "" && tip != at && !s.LeadsTo(ctx, tip, at)
	if b.Away && len(log) == 0 {
		visited = append(visited, tip)
	}
	for _, hash := range visited {
		if hash == at || !isID(hash) || !s.has(ctx, hash) || s.LeadsTo(ctx, hash, at) {
			continue
		}
		fork, err := s.ForkOf(ctx, hash, at)
		if err != nil {
			return b, err
		}
		if !slices.Contains(b.Forks, fork) {
			b.Forks = append(b.Forks, fork)
		}
	}
	return b, nil
}

// reflog is what the attempt added to the reflog of HEAD. It follows no link out of the attempt's repository.
func (s *Slot) reflog() ([]byte, error) {
	f, err := s.root.OpenFile(filepath.Join(".git", "logs", "HEAD"), os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, nil
	}
	defer f.Close()
	if fi, err := f.Stat(); err != nil || !fi.Mode().IsRegular() {
		return nil, err
	}
	return io.ReadAll(io.LimitReader(f, maxReflog))
}

// TakenBack lists the paths that differ between two states and are in a third as they were in the first. With lost set
// it lists those too that lack a line which the second brought.
func (r *Repo) TakenBack(ctx context.Context, was, is, now Tree, lost bool) (paths []string, err error) {
	view := r.view(now)
	var differ [][2]treeItem
	err = r.diff(ctx, was, is, func(name string, a, b treeItem) {
		if !r.guard.covers(name) {
			paths, differ = append(paths, name), append(differ, [2]treeItem{a, b})
		}
	})
	if err != nil {
		return nil, err
	}
	kept := paths[:0]
	for i, name := range paths {
		a, b := differ[i][0], differ[i][1]
		at, err := view.file(name)
		if err != nil {
			return nil, err
		}
		back := at == a
		if !back && lost && at != b {
			if back, err = r.lacks(a, b, at); err != nil {
				return nil, err
			}
		}
		if back {
			kept = append(kept, name)
		}
	}
	slices.Sort(kept)
	return kept, nil
}

// maxLines bounds, in bytes, a file whose lines are compared.
const maxLines = 16 << 20

// lacks reports whether a file lacks a line that is has and was has not.
func (r *Repo) lacks(was, is, now treeItem) (bool, error) {
	count := map[string]int{}
	for _, part := range []struct {
		item treeItem
		n    int
	}{{is, 1}, {was, -1}, {now, -1}} {
		if part.item.mode == 0 || part.item.mode == modeGitlink {
			continue
		}
		f, err := r.objects.read(part.item.id, maxLines)
		if err != nil || f.data == nil {
			return false, err
		}
		for line := range bytes.Lines(f.data) {
			count[string(bytes.TrimRight(line, "\r\n"))] += part.n
		}
	}
	for _, n := range count {
		if n > 0 {
			return true, nil
		}
	}
	return false, nil
}
