package gitops

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
)

// wavePlan is what a wave makes of each path, on top of HEAD.
type wavePlan struct {
	w     Wave
	edits map[string]treeItem // mode 0 deletes
	left  []string            // paths that stay as HEAD has them, one note each
	late  string              // a note on how the commit was made, "" for none
}

// planWave takes for each path the last result that changed it. Where HEAD has something that none of the wave's
// attempts began with or came to, somebody has committed it meanwhile: that stays, but for what the user had
// changed before the run.
func (r *Repo) planWave(w Wave, head string, tree objectID) (*wavePlan, error) {
	p := &wavePlan{w: w, edits: map[string]treeItem{}}
	known, err := r.collectEdits(p, head)
	if err != nil {
		return nil, err
	}
	now := &treeView{reader: &r.store.reader, root: tree}
	users := map[string]bool{}
	for _, name := range w.UserPaths {
		users[name] = true
	}
	var foreign []string
	for _, name := range slices.Sorted(maps.Keys(known)) {
		if _, ours := w.Files[name]; ours || users[name] {
			continue
		}
		at, err := now.file(name)
		if err != nil {
			return nil, err
		}
		if !slices.ContainsFunc(known[name], func(k treeItem) bool { return k.mode == at.mode && k.id == at.id }) {
			foreign = append(foreign, name)
		}
	}
	p.leave(foreign)
	if foreign, err = p.inTheWay(now); err != nil {
		return nil, err
	}
	p.leave(foreign)
	return p, nil
}

// collectEdits fills in the edits and returns what HEAD may have at each path whose fate depends on that.
func (r *Repo) collectEdits(p *wavePlan, head string) (map[string][]treeItem, error) {
	known, settled := map[string][]treeItem{}, map[string]bool{}
	views := map[string]*treeView{}
	for _, pair := range p.w.Results {
		then := views[pair.Head]
		if pair.Head != "" && pair.Head != head && then == nil {
			tree, err := r.treeOf(pair.Head)
			if err != nil {
				return nil, fmt.Errorf("read where HEAD stood: %w", err)
			}
			then = &treeView{reader: &r.store.reader, root: tree}
			views[pair.Head] = then
		}
		var failed error
		err := r.diffTrees(pair.Base, pair.Result, func(name string, a, b treeItem) {
			if slices.Contains(pair.Without, name) {
				return
			}
			name = strings.Clone(name)
			p.edits[name] = b
			if settled[name] || pair.Head != "" && pair.Head == head { // nobody has committed anything since
				settled[name] = true
				delete(known, name)
				return
			}
			known[name] = append(known[name], a, b)
			if then != nil {
				at, err := then.file(name)
				if err != nil {
					failed = err
				}
				known[name] = append(known[name], at)
			}
		})
		if err == nil {
			err = failed
		}
		if err != nil {
			return nil, err
		}
	}
	return known, nil
}

func (p *wavePlan) leave(names []string) {
	for _, name := range names {
		delete(p.edits, name)
		p.left = append(p.left, name)
	}
	slices.Sort(p.left)
}

// inTheWay finds the files that could only be added at the cost of others in HEAD: a directory that became a
// file there, or one that got more files where we have a file.
func (p *wavePlan) inTheWay(now *treeView) ([]string, error) {
	gone := func(name string) bool {
		item, ok := p.edits[name]
		return ok && item.mode == 0
	}
	var out []string
	for _, name := range slices.Sorted(maps.Keys(p.edits)) {
		if p.edits[name].mode == 0 {
			continue
		}
		blocked := false
		for dir := path.Dir(name); dir != "." && !blocked; dir = path.Dir(dir) {
			at, err := now.file(dir)
			if err != nil {
				return nil, err
			}
			blocked = at.mode != 0 && !gone(dir)
		}
		below, err := now.below(name)
		if err != nil {
			return nil, err
		}
		if blocked || slices.ContainsFunc(below, func(f string) bool { return !gone(f) }) {
			out = append(out, name)
		}
	}
	return out, nil
}

// notes are for people: what was left, and what is odd about what is committed at paths.
func (p *wavePlan) notes(paths []string) []string {
	var out []string
	if p.late != "" {
		out = append(out, p.late)
	}
	for _, name := range p.left {
		out = append(out, name+" was committed by somebody else meanwhile and is left as it is")
	}
	for _, name := range paths {
		if p.edits[name].mode == modeGitlink {
			out = append(out, name+" is a repository of its own: the commit holds only the id of its commit")
		}
		if slices.Contains(p.w.UserPaths, name) {
			out = append(out, name+" had uncommitted changes of yours, which are in this commit too")
		}
	}
	return out
}

// treeView looks up paths in a tree, reading each directory once.
type treeView struct {
	reader *objectReader
	root   objectID
	dirs   map[string][]treeItem
}

// file is the entry at a path, the zero one where there is none or a directory.
func (v *treeView) file(name string) (treeItem, error) {
	dir, base := path.Split(name)
	items, err := v.list(strings.TrimSuffix(dir, "/"))
	return findItem(items, base, false), err
}

// list reads a directory, "" for the top; one that is not there is empty.
func (v *treeView) list(dir string) ([]treeItem, error) {
	if items, ok := v.dirs[dir]; ok {
		return items, nil
	}
	id := v.root
	if dir != "" {
		above, base := path.Split(dir)
		items, err := v.list(strings.TrimSuffix(above, "/"))
		if err != nil {
			return nil, err
		}
		if id = findItem(items, base, true).id; id.isZero() {
			return nil, nil
		}
	}
	b, err := v.reader.tree(id)
	if err != nil {
		return nil, err
	}
	items, err := parseTree(b)
	if err != nil {
		return nil, err
	}
	if v.dirs == nil {
		v.dirs = map[string][]treeItem{}
	}
	v.dirs[dir] = items
	return items, nil
}

// below lists the files below a directory.
func (v *treeView) below(dir string) ([]string, error) {
	items, err := v.list(dir)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, it := range items {
		name := dir + "/" + it.name
		if !it.isDir() {
			out = append(out, name)
			continue
		}
		more, err := v.below(name)
		if err != nil {
			return nil, err
		}
		out = append(out, more...)
	}
	return out, nil
}

func findItem(items []treeItem, name string, dir bool) treeItem {
	i, ok := slices.BinarySearchFunc(items, name, func(it treeItem, name string) int {
		return compareEntries(it.name, it.isDir(), name, dir)
	})
	if !ok || items[i].isDir() != dir {
		return treeItem{}
	}
	return items[i]
}
