package gitops

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Verified is what a run's verified work made of each path. The zero value is empty.
type Verified struct {
	paths map[string]*verifiedPath
	fresh map[string]string // files that no commit holds: the work that made them
}

type verifiedPath struct {
	of   []string   // the names of the work that changed it
	olds []treeItem // what each found there
}

// AddVerified adds work, in the order in which it was verified, under a name for people.
func (r *Repo) AddVerified(v *Verified, name string, base, result Tree) error {
	if v.paths == nil {
		v.paths, v.fresh = map[string]*verifiedPath{}, map[string]string{}
	}
	err := r.diffTrees(base, result, func(path string, a, b treeItem) {
		p := v.paths[path]
		if p == nil {
			p, path = &verifiedPath{}, strings.Clone(path)
			v.paths[path] = p
		}
		p.olds = append(p.olds, treeItem{mode: a.mode, id: a.id})
		if n := len(p.of); n == 0 || p.of[n-1] != name {
			p.of = append(p.of, name)
		}
		switch {
		case a.mode == 0:
			v.fresh[path] = name
		case b.mode == 0:
			delete(v.fresh, path)
		}
	})
	if err != nil {
		return fmt.Errorf("compare what %s made: %w", name, err)
	}
	return nil
}

// Drop says that these paths are not work.
func (v *Verified) Drop(paths []string) {
	for _, path := range paths {
		delete(v.paths, path)
		delete(v.fresh, path)
	}
}

// Committed says that the work of these names is committed.
func (v *Verified) Committed(names []string) {
	maps.DeleteFunc(v.fresh, func(_, name string) bool { return slices.Contains(names, name) })
}

// Protected is what an attempt may not undo.
type Protected struct {
	Before Tree      // the tree before the attempt
	Base   Tree      // and before its task's first one: what is lost comes back from here
	Work   *Verified // by earlier tasks
	Users  []string  // paths that the user had changed before the run
	Back   bool      // git was led back: see Repaired
}

// Loss is a path that an attempt undid.
type Loss struct {
	Path    string
	Of      []string // the names of the work that made it, none for what the user had changed
	Deleted bool     // a verified file that the attempt removed by itself, which may be its task: it is not to be restored
}

// undoneLimit is how many of HEAD's ancestors are looked at for an older version of a file.
const undoneLimit = 100

// Undone finds what an attempt that left the tree now has undone: with git stash, reset, checkout or clean, of
// everything or of one file.
//
// A path that verified work changed is undone where it is again as it was before that work: as the work found it,
// or as HEAD or one of its newest ancestors has it. Nobody writes an old version byte for byte by chance; work that
// takes a file on from there differs from it.
//
//   - A file that had content then, and one that the work had deleted, is always restored.
//   - A file that the work had made, and that is gone, may have been deleted on purpose. It is restored where it went
//     with all verified files that no commit holds (git clean), and where git was led back to an older commit or a
//     stash was left, unless git sees it renamed. Otherwise the deletion is
//     reported and belongs to the attempt.
//   - What the user had changed is undone where it is as HEAD or an ancestor has it, a deletion included.
//
// Restoring it loses nothing of the agent's: what it had there is an old version.
func (r *Repo) Undone(ctx context.Context, now Tree, s Protected) ([]Loss, error) {
	u, err := r.newUndoing(now, s)
	if err == nil && len(u.paths) > 0 {
		err = u.findLosses(ctx, now)
	}
	if err != nil {
		return nil, fmt.Errorf("look for undone work: %w", err)
	}
	return u.losses, nil
}

// undoing is one look for what an attempt undid.
type undoing struct {
	r       *Repo
	s       Protected
	paths   map[string]*guardedPath // those that the attempt changed
	undone  map[string]bool
	deleted []string // of those that verified work had made
	losses  []Loss
}

// guardedPath is a path that verified work or the user had changed, and that the attempt changed too.
type guardedPath struct {
	verifiedPath
	user bool
	now  treeItem
}

func (r *Repo) newUndoing(now Tree, s Protected) (*undoing, error) {
	u := &undoing{r: r, s: s, paths: map[string]*guardedPath{}, undone: map[string]bool{}}
	if s.Work == nil {
		u.s.Work = &Verified{}
	}
	if len(s.Users) == 0 && len(u.s.Work.paths) == 0 || now == s.Before {
		return u, nil
	}
	changed := map[string]bool{}
	err := r.diffTrees(s.Before, now, func(path string, _, _ treeItem) { changed[strings.Clone(path)] = true })
	if err != nil || len(changed) == 0 {
		return u, err
	}
	return u, r.diffTrees(s.Base, now, func(path string, a, b treeItem) {
		work, user := u.s.Work.paths[path], slices.Contains(s.Users, path)
		if !changed[path] || work == nil && !user {
			return
		}
		g := &guardedPath{user: user, now: b}
		if work != nil {
			g.verifiedPath = *work
		}
		u.paths[strings.Clone(path)] = g
	})
}

func sameItem(a, b treeItem) bool { return a.mode == b.mode && a.id == b.id }

// findLosses fills in the losses.
func (u *undoing) findLosses(ctx context.Context, now Tree) error {
	if err := u.lookBack(ctx); err != nil {
		return err
	}
	var moved map[string]bool
	if len(u.deleted) > 0 {
		var err error
		if moved, err = u.moved(ctx, now); err != nil {
			return err
		}
	}
	for _, path := range u.deleted {
		switch {
		case moved[path]:
		case u.s.Back || u.s.Work.fresh[path] != "" && u.cleaned(moved):
			u.undone[path] = true
		default:
			u.losses = append(u.losses, Loss{Path: path, Of: u.paths[path].of, Deleted: true})
		}
	}
	for path := range u.undone {
		u.losses = append(u.losses, Loss{Path: path, Of: u.paths[path].of})
	}
	slices.SortFunc(u.losses, func(a, b Loss) int { return strings.Compare(a.Path, b.Path) })
	return nil
}

// cleaned reports whether no verified file that no commit holds is left, nor was moved.
func (u *undoing) cleaned(moved map[string]bool) bool {
	for path := range u.s.Work.fresh {
		if g := u.paths[path]; g == nil || g.now.mode != 0 || moved[path] {
			return false
		}
	}
	return true
}

// lookBack finds the paths that are as they were before.
func (u *undoing) lookBack(ctx context.Context) error {
	tree, err := u.r.headTree()
	if err != nil {
		return err
	}
	head := &treeView{store: u.r.store, root: tree}
	var open []string // whose present content is to be looked for in history
	for _, path := range slices.Sorted(maps.Keys(u.paths)) {
		g := u.paths[path]
		at, err := head.file(path)
		if err != nil {
			return err
		}
		asBefore := sameItem(g.now, at) || slices.ContainsFunc(g.olds, func(o treeItem) bool { return sameItem(o, g.now) })
		switch {
		case g.now.mode == 0 && g.user:
			if asBefore || u.s.Back {
				u.undone[path] = true
			}
		case g.now.mode == 0:
			if asBefore || u.s.Back {
				u.deleted = append(u.deleted, path)
			}
		case asBefore:
			u.undone[path] = true
		default:
			open = append(open, path)
		}
	}
	_, hash, err := u.r.refs.head()
	if err != nil || hash == "" || len(open) == 0 {
		return err
	}
	var failed error
	err = u.r.walk(ctx, hash, undoneLimit, func(h, _ string) bool {
		tree, err := u.r.treeOf(h)
		if err != nil {
			return true // missing history ends the walk
		}
		then := &treeView{store: u.r.store, root: tree}
		open = slices.DeleteFunc(open, func(path string) bool {
			at, err := then.file(path)
			failed = err
			if err == nil && sameItem(at, u.paths[path].now) {
				u.undone[path] = true
			}
			return u.undone[path]
		})
		return failed == nil && len(open) > 0
	})
	if err == nil {
		err = failed
	}
	return err
}

// moved lists the files that live on, whole or for the most part, under a new name, as git sees renames.
func (u *undoing) moved(ctx context.Context, now Tree) (map[string]bool, error) {
	b, err := u.r.cli.run(ctx, gitCall{args: []string{"diff-tree", "-r", "-z", "--name-status", "--diff-filter=R", "-M", "-l0", string(u.s.Before), string(now)}})
	out := map[string]bool{}
	for fields := nulSplit(b); len(fields) > 2; fields = fields[3:] { // how alike, the old name, the new one
		out[fields[1]] = true
	}
	return out, err
}
