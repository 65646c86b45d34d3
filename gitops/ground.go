package gitops

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Guard knows the git directory as it stood before an attempt, so that Repair can put it back. It is valid until the
// next commit of its Repo.
type Guard struct {
	r       *Repo
	head    savedFile
	at      Head
	index   savedFile
	files   []savedFile       // configuration and the like
	hooks   []savedFile       // what lies in the folders of hooks
	folders []string          // these and those in them
	loose   map[string]string // loose branches, tags and the stash: name to hash
	packed  savedFile
	shallow savedFile       // the commits whose parents are not here
	stash   savedFile       // the stash's log: its entries, one a line
	extra   map[string]bool // lock files and in-progress state that were there already
	told    map[string]bool // notes of what Repair found and left, to be told once
	undone  []string        // notes of what GuardSince put back
}

// Guard reads the state of the git directory before an attempt. It costs a few dozen stat calls where nothing changed
// since the last call.
func (r *Repo) Guard(ctx context.Context) (*Guard, error) {
	if r.marked.holds() {
		g := r.marked.ground
		g.told = map[string]bool{}
		return &g, nil
	}
	r.keepIndex()
	g, err := r.ground(ctx)
	if err != nil {
		return nil, err
	}
	r.keepPacked(&g.packed)
	if err := r.remember(g); err != nil {
		return nil, fmt.Errorf("look at the repository: %w", err)
	}
	return g, nil
}

// ground reads how things stand.
func (r *Repo) ground(ctx context.Context) (*Guard, error) {
	g, err := r.files()
	if err == nil {
		g.at, err = r.Head(ctx)
	}
	if err == nil {
		err = r.kept.learn(r)
	}
	if err != nil {
		return nil, fmt.Errorf("look at the repository: %w", err)
	}
	return g, nil
}

// files is the ground but for what HEAD leads to.
func (r *Repo) files() (*Guard, error) {
	if r.saved == nil {
		r.saved = savedFiles{}
	}
	g, err := r.takeGround()
	g.told = map[string]bool{}
	return g, err
}

func (r *Repo) takeGround() (*Guard, error) {
	l, saved := r.l, r.saved
	g := &Guard{r: r}
	var err error
	if g.head, err = saved.save(filepath.Join(l.gitDir, "HEAD")); err != nil {
		return g, err
	}
	if g.index, err = saved.save(filepath.Join(l.gitDir, "index")); err != nil {
		return g, err
	}
	if g.packed, err = saved.save(filepath.Join(l.commonDir, "packed-refs")); err != nil {
		return g, err
	}
	if g.shallow, err = saved.save(filepath.Join(l.commonDir, "shallow")); err != nil {
		return g, err
	}
	if g.stash, err = saved.save(filepath.Join(l.commonDir, "logs", "refs", "stash")); err != nil {
		return g, err
	}
	for _, p := range r.watched.files {
		f, err := saved.save(p)
		if err != nil {
			return g, err
		}
		g.files = append(g.files, f)
	}
	var names []string
	if names, g.folders, err = r.watched.hookFiles(); err != nil {
		return g, err
	}
	for _, n := range names {
		f, err := saved.save(n)
		if err != nil {
			return g, err
		}
		g.hooks = append(g.hooks, f)
	}
	if g.loose, err = looseRefs(l, saved); err != nil {
		return g, err
	}
	g.extra, err = passing(l)
	return g, err
}

// refTops are the refs that are watched, the private ones left out: a run keeps as many as it has attempts.
var refTops = []string{"refs/heads", "refs/tags", "refs/stash", "refs/remotes", "refs/notes", "refs/replace"}

func watchedRef(name string) bool {
	return slices.ContainsFunc(refTops, func(top string) bool { return name == top || strings.HasPrefix(name, top+"/") })
}

// looseRefs reads the watched refs that have a file of their own.
func looseRefs(l layout, saved savedFiles) (map[string]string, error) {
	out := map[string]string{}
	for _, top := range refTops {
		err := filepath.WalkDir(filepath.Join(l.commonDir, filepath.FromSlash(top)), func(path string, e fs.DirEntry, err error) error {
			switch {
			case err != nil && missing(err):
				return nil
			case err != nil:
				return err
			case e.IsDir() || strings.HasSuffix(path, ".lock"):
				return nil
			}
			f, err := saved.save(path)
			if err != nil {
				return err
			}
			name, err := filepath.Rel(l.commonDir, path)
			if err == nil && f.present() {
				out[filepath.ToSlash(name)] = string(bytes.TrimSpace(f.data))
			}
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}

// packedRefs parses a packed-refs file.
func packedRefs(b []byte) map[string]string {
	out := map[string]string{}
	for line := range strings.Lines(string(b)) {
		hash, name, ok := strings.Cut(strings.TrimSpace(line), " ")
		if ok && isHex(hash) {
			out[name] = hash
		}
	}
	return out
}

// transient are the files and directories of git's unfinished operations.
var transient = []string{"MERGE_HEAD", "MERGE_MSG", "MERGE_MODE", "MERGE_RR", "AUTO_MERGE", "SQUASH_MSG", "CHERRY_PICK_HEAD",
	"REVERT_HEAD", "REBASE_HEAD", "rebase-merge", "rebase-apply", "sequencer"}

// deepLocks are those of the housekeeping that a commit starts. Left behind, they stop all later housekeeping.
var deepLocks = []string{"objects/maintenance.lock", "objects/info/commit-graph.lock", "objects/info/commit-graphs/commit-graph-chain.lock",
	"objects/pack/multi-pack-index.lock"}

// passing lists the unfinished operations, the lock files and the FIFOs there are. In a linked working tree it leaves
// out those that the others share: they may be at work.
func passing(l layout) (map[string]bool, error) {
	out := map[string]bool{}
	for _, t := range transient {
		p := filepath.Join(l.gitDir, t)
		if _, err := os.Lstat(p); err == nil {
			out[p] = true
		}
	}
	dirs := []string{l.gitDir, filepath.Join(l.gitDir, "logs")}
	if l.gitDir == l.commonDir {
		dirs = append(dirs, filepath.Join(l.gitDir, "info"), filepath.Join(l.gitDir, "logs", "refs", "heads"))
		for _, d := range deepLocks {
			p := filepath.Join(l.commonDir, filepath.FromSlash(d))
			if _, err := os.Lstat(p); err == nil {
				out[p] = true
			}
		}
	}
	for i, dir := range dirs {
		entries, err := os.ReadDir(dir)
		if err != nil && !missing(err) {
			return nil, err
		}
		for _, e := range entries {
			state := i == 0 && (strings.HasSuffix(e.Name(), ".lock") || strings.HasPrefix(e.Name(), "BISECT_"))
			if state || e.Type()&(fs.ModeNamedPipe|fs.ModeDevice) != 0 {
				out[filepath.Join(dir, e.Name())] = true
			}
		}
	}
	if l.gitDir != l.commonDir {
		return out, nil
	}
	err := filepath.WalkDir(filepath.Join(l.commonDir, "refs"), func(path string, e fs.DirEntry, err error) error {
		if err == nil && e.IsDir() && path == filepath.Join(l.commonDir, "refs", "descartes") {
			return fs.SkipDir // ours alone, and as large as the run
		}
		if err == nil && !e.IsDir() && strings.HasSuffix(path, ".lock") {
			out[path] = true
		}
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	})
	return out, err
}
