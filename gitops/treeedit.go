package gitops

import (
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// treeEditor makes a tree from another one and a few edits, reading and writing only the directories on the
// way.
type treeEditor struct{ objects *objectStore }

// edit returns the tree of a directory after the edits, whose paths are relative to it; mode 0 deletes. A
// directory without entries is emptyTreeID.
func (e *treeEditor) edit(dir string, base *objectID, edits map[string]treeItem) (objectID, error) {
	items := map[string][]treeItem{}
	if base != nil {
		b, err := e.objects.reader.tree(*base)
		if err != nil {
			return objectID{}, err
		}
		list, err := parseTree(b)
		if err != nil {
			return objectID{}, fmt.Errorf("tree of %q: %w", dir, err)
		}
		for _, it := range list {
			items[it.name] = append(items[it.name], it)
		}
	}
	below := map[string]map[string]treeItem{}
	for path, item := range edits {
		name, rest, deeper := strings.Cut(path, "/")
		if deeper {
			if below[name] == nil {
				below[name] = map[string]treeItem{}
			}
			below[name][rest] = item
			continue
		}
		items[name] = slices.DeleteFunc(items[name], func(it treeItem) bool { return !it.isDir() || item.mode != 0 && !deletedBelow(edits, name) })
		if item.mode != 0 {
			items[name] = append(items[name], treeItem{name: name, mode: item.mode, id: item.id})
		}
	}
	for _, name := range sortedKeys(below) {
		var sub *objectID
		for _, it := range items[name] {
			if it.isDir() {
				sub = ptr(it.id)
			}
		}
		id, err := e.edit(strings.TrimPrefix(dir+"/"+name, "/"), sub, below[name])
		if err != nil {
			return objectID{}, err
		}
		items[name] = slices.DeleteFunc(items[name], func(it treeItem) bool { return it.isDir() || id != emptyTreeID && !it.isDir() })
		if id != emptyTreeID {
			items[name] = append(items[name], treeItem{name: name, mode: modeDir, id: id})
		}
	}
	return e.write(dir, base, items)
}

// deletedBelow says whether edits speak of something below a directory that a file is to replace.
func deletedBelow(edits map[string]treeItem, name string) bool {
	for p := range edits {
		if strings.HasPrefix(p, name+"/") {
			return true
		}
	}
	return false
}

func (e *treeEditor) write(dir string, base *objectID, items map[string][]treeItem) (objectID, error) {
	var list []treeItem
	for name, its := range items {
		if len(its) > 1 {
			return objectID{}, fmt.Errorf("%s would be a file and a directory", strings.TrimPrefix(dir+"/"+name, "/"))
		}
		list = append(list, its...)
	}
	slices.SortFunc(list, func(a, b treeItem) int { return compareEntries(a.name, a.isDir(), b.name, b.isDir()) })
	var b []byte
	for _, it := range list {
		b = appendEntry(b, it.mode, it.name, it.id)
	}
	id := hashObject(kindTree, b)
	if base != nil && id == *base || len(b) == 0 && dir != "" {
		return id, nil
	}
	return id, e.objects.write(id, kindTree, b)
}

// pathIgnored evaluates the ignore rules as they stand on the disk for one path that need not exist.
func (r *Repo) pathIgnored(path string) bool {
	d := &scope{}
	for _, g := range r.scanner.global {
		g.refresh()
	}
	for {
		if fd, err := r.root.open(d.path, openDirFlags, 0); err == nil {
			d.rules = readIgnoreAt(fd, d.path)
			unix.Close(fd)
		}
		name, _, below := strings.Cut(path[len(d.path):], "/")
		if !below {
			return d.ignores(r.scanner, name)
		}
		if r.scanner.verdict(d, d.path+name, name, true) == ignored {
			return true
		}
		d = &scope{path: d.path + name + "/", up: d}
	}
}

// TreeWithout is a tree in which some paths are as base has them: what an attempt left there is no work of its.
func (r *Repo) TreeWithout(base, tree Tree, paths []string) (Tree, error) {
	if len(paths) == 0 || base == tree {
		return tree, nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	from, err := parseID(string(base))
	if err != nil {
		return "", err
	}
	id, err := parseID(string(tree))
	if err != nil {
		return "", err
	}
	before := &treeView{reader: &r.store.reader, root: from}
	edits := map[string]treeItem{}
	for _, path := range paths {
		if edits[path], err = before.file(path); err != nil {
			return "", err
		}
	}
	e := treeEditor{objects: r.store}
	if id, err = e.edit("", &id, edits); err != nil {
		return "", fmt.Errorf("leave files out of a tree: %w", err)
	}
	return Tree(id.String()), r.store.writeOut()
}
