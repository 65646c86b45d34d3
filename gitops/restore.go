package gitops

import (
	"context"
	"fmt"
	"path"
	"slices"
	"strings"
)

// Restore makes the working tree hold what a snapshot holds, and returns the paths that it touched, sorted.
// Files that do not differ are not touched, nor are those that the snapshot's own rules ignore.
func (r *Repo) Restore(ctx context.Context, to Tree) ([]string, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	id, err := parseID(string(to))
	if err != nil {
		return nil, fmt.Errorf("restore: %w", err)
	}
	if !r.viaGit {
		touched, err := r.restoreNative(ctx, id)
		if err == nil {
			return touched, nil
		}
		r.tree = nil // what was done and what was not is not known
		if !r.fallBack(&err) {
			return nil, fmt.Errorf("restore: %w", err)
		}
	}
	now, err := r.cli.snapshot(ctx, r.opt.Protect)
	if err != nil {
		return nil, err
	}
	return r.cli.restore(ctx, now, to)
}

// restoreNative puts the ignore files back first: which of the other paths are to be touched at all is for
// the rules of the snapshot to say, not for those that an agent wrote.
func (r *Repo) restoreNative(ctx context.Context, to objectID) ([]string, error) {
	var touched []string
	for range maxTreeDepth {
		if err := context.Cause(ctx); err != nil {
			return nil, err
		}
		if err := r.scan(ctx, false); err != nil {
			return nil, err
		}
		p := restorePlan{reader: &r.store.reader, guard: r.guard}
		if err := p.compare(r.tree.root, &to, "", 0); err != nil {
			return nil, err
		}
		if err := p.check(); err != nil {
			return nil, err
		}
		rules := p.rules()
		if !rules.empty() {
			if err := r.carryOut(rules); err != nil {
				return nil, err
			}
			touched = append(touched, rules.paths()...)
			continue
		}
		if err := r.carryOut(&p); err != nil {
			return nil, err
		}
		touched = append(touched, p.paths()...)
		slices.Sort(touched)
		return slices.Compact(touched), nil
	}
	return nil, fmt.Errorf("the ignore files keep changing")
}

// restorePlan is what has to be done to a working tree.
type restorePlan struct {
	reader *objectReader
	guard  protection

	deletes []doomed
	writes  []wanted
	leave   []string // folders that are to go if they are empty then, deepest first
}

type doomed struct {
	d    *folder
	name string
}

type wanted struct {
	path string
	item treeItem
}

func (p *restorePlan) empty() bool { return len(p.deletes) == 0 && len(p.writes) == 0 }

func (p *restorePlan) paths() []string {
	var out []string
	for _, x := range p.deletes {
		out = append(out, x.d.path+x.name)
	}
	for _, x := range p.writes {
		out = append(out, x.path)
	}
	return out
}

// check makes sure that everything to be written is there before anything is touched.
func (p *restorePlan) check() error {
	for _, x := range p.writes {
		if !p.reader.has(x.item.id) {
			return fmt.Errorf("the snapshot is incomplete: the content %s of %s is missing", x.item.id, x.path)
		}
	}
	return nil
}

// rules is the part of the plan that concerns ignore files, with what stands in their way.
func (p *restorePlan) rules() *restorePlan {
	out := &restorePlan{reader: p.reader, guard: p.guard}
	way := map[string]bool{} // directories that the writes need
	for _, x := range p.writes {
		if path.Base(x.path) == ".gitignore" {
			out.writes = append(out.writes, x)
			for dir := path.Dir(x.path); dir != "."; dir = path.Dir(dir) {
				way[dir] = true
			}
		}
	}
	for _, x := range p.deletes {
		if x.name == ".gitignore" || isBelowRules(x.d.path) || way[x.d.path+x.name] {
			out.deletes = append(out.deletes, x)
		}
	}
	for _, dir := range p.leave {
		if isBelowRules(dir) {
			out.leave = append(out.leave, dir)
		}
	}
	return out
}

// isBelowRules: a directory that stands where an ignore file belongs.
func isBelowRules(dir string) bool { return strings.Contains("/"+dir, "/.gitignore/") }

// compare plans for one folder, nil where there is none, and the tree that it is to become, nil for none.
func (p *restorePlan) compare(d *folder, to *objectID, prefix string, depth int) error {
	if d != nil && (d.frozen || to != nil && d.valid && d.id == *to) || prefix != "" && p.guard.covers(prefix) {
		return nil
	}
	if depth > maxTreeDepth {
		return errTreeFormat
	}
	files, dirs, err := p.target(to, prefix)
	if err != nil {
		return err
	}
	if d != nil {
		for i := range d.files {
			p.compareFile(d, &d.files[i], files)
		}
		for _, c := range d.dirs {
			sub, ok := dirs[c.name()]
			delete(dirs, c.name())
			if ok {
				err = p.compare(c, &sub.id, c.path, depth+1)
			} else {
				before := len(p.deletes)
				err = p.compare(c, nil, c.path, depth+1)
				if len(p.deletes) > before {
					p.leave = append(p.leave, c.path)
				}
			}
			if err != nil {
				return err
			}
		}
	}
	for _, name := range sortedKeys(files) {
		if item := files[name]; !p.guard.covers(prefix+name) && item.mode != modeGitlink {
			p.writes = append(p.writes, wanted{prefix + name, item})
		}
	}
	for _, name := range sortedKeys(dirs) {
		if err := p.compare(nil, ptr(dirs[name].id), prefix+name+"/", depth+1); err != nil {
			return err
		}
	}
	return nil
}

func ptr[T any](v T) *T { return &v }

// compareFile takes what needs no writing out of files.
func (p *restorePlan) compareFile(d *folder, f *file, files map[string]treeItem) {
	item, ok := files[f.name]
	switch {
	case f.flags&fileFixed != 0:
		delete(files, f.name)
	case !f.present():
	case !ok:
		p.deletes = append(p.deletes, doomed{d, f.name})
	case item.id == f.id && item.mode == f.mode:
		delete(files, f.name)
	}
}

// target splits a tree into files and directories.
func (p *restorePlan) target(to *objectID, prefix string) (files, dirs map[string]treeItem, err error) {
	files, dirs = map[string]treeItem{}, map[string]treeItem{}
	if to == nil {
		return files, dirs, nil
	}
	b, err := p.reader.tree(*to)
	if err != nil {
		return nil, nil, err
	}
	items, err := parseTree(b)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", strings.TrimSuffix(prefix, "/"), err)
	}
	for _, e := range items {
		if e.isDir() {
			dirs[e.name] = e
		} else {
			files[e.name] = e
		}
	}
	return files, dirs, nil
}
