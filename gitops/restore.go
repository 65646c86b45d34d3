package gitops

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"descartes/internal/crash"
	"descartes/internal/oscall"
)

// Restored is what a restore did.
type Restored struct {
	Back    []string  // written as the snapshot has them, sorted
	Removed []string  // deleted, because the snapshot does not have them, sorted
	Left    []LeftOut // not as the snapshot has them, sorted by path
}

// Restore makes the working tree match a snapshot. Files that do not differ are not touched. A file that the snapshot lacks is deleted, unless the
// snapshot's own rules ignore it or it is older than since (zero: no file is): then it existed when the snapshot was made, and is not part of it.
// What is in the way and must not be deleted stays, and everything else is restored.
func (r *Repo) Restore(ctx context.Context, to Tree, since time.Time) (Restored, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	id, err := parseID(string(to))
	if err == nil {
		err = r.untrack(id)
	}
	if err != nil {
		return Restored{}, fmt.Errorf("restore: %w", err)
	}
	x := &restoration{r: r, to: id, since: since, view: &treeView{store: r.store, root: id}, done: map[string]bool{}, left: map[string]string{}, stuck: map[string]bool{}}
	if err := x.run(ctx); err != nil {
		return Restored{}, fmt.Errorf("restore: %w", err)
	}
	return x.result(), nil
}

// RestorePaths makes these files match a snapshot and touches nothing else. A file that the snapshot lacks is deleted.
func (r *Repo) RestorePaths(ctx context.Context, to Tree, paths []string) (Restored, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	fail := func(err error) (Restored, error) {
		return Restored{}, fmt.Errorf("restore %d files: %w", len(paths), err)
	}
	id, err := parseID(string(to))
	if err != nil {
		return fail(err)
	}
	x := &restoration{r: r, to: id, view: &treeView{store: r.store, root: id}, done: map[string]bool{}, left: map[string]string{}}
	var p restorePlan
	for _, name := range paths {
		item, err := x.view.file(name)
		if err != nil {
			return fail(err)
		}
		if r.guard.covers(name) || item.mode == modeGitlink {
			continue
		}
		if item.mode != 0 {
			p.writes = append(p.writes, wanted{name, item})
		} else if info, err := r.statBelow(name); err == nil && info.mode != modeDir && info.mode != modeGitlink {
			p.deletes = append(p.deletes, doomed{path: name})
		}
	}
	if err := x.check(&p); err != nil {
		return fail(err)
	}
	for name, why := range x.obstacles(&p) {
		x.left[name] = why
	}
	if err := x.carryOut(ctx, &p); err != nil {
		return fail(err)
	}
	return x.result(), nil
}

// untrack ends the tracking of ignored files that agents added, except for what the snapshot has.
func (r *Repo) untrack(to objectID) error {
	view := &treeView{store: r.store, root: to}
	for p := range r.forced {
		item, err := view.file(p)
		if err != nil {
			return err
		}
		if item.mode == 0 {
			delete(r.forced, p)
		}
	}
	return nil
}

// restoration is a restore in progress.
type restoration struct {
	r     *Repo
	to    objectID
	view  *treeView // of to
	since time.Time

	rules map[string]*scope // of to, by directory
	index map[string]bool   // what the repository tracks, once git was asked
	done  map[string]bool   // paths that were dealt with: true where written, false where deleted
	left  map[string]string // paths that could not be, and why
	stuck map[string]bool   // ignore files that were tried
	old   []string          // what the last plan spares for its age alone
}

// restorePlan is what has to be done to a working tree.
type restorePlan struct {
	deletes []doomed
	writes  []wanted
}

type doomed struct {
	path string
	id   objectID // of its content, zero where that is not known
}

type wanted struct {
	path string
	item treeItem
}

// run restores the ignore files first: the snapshot's rules decide which of the other files matter, not those that an agent wrote.
func (x *restoration) run(ctx context.Context) error {
	for range maxTreeDepth {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		p, err := x.plan(ctx)
		if err != nil {
			return err
		}
		if err := x.check(p); err != nil {
			return err
		}
		blocked := x.obstacles(p)
		rules := p.rules()
		rules.writes = slices.DeleteFunc(rules.writes, func(w wanted) bool { return blocked[w.path] != "" || x.stuck[w.path] })
		rules.deletes = slices.DeleteFunc(rules.deletes, func(f doomed) bool { return x.left[f.path] != "" })
		if len(rules.writes) == 0 && len(rules.deletes) == 0 {
			for name, why := range blocked {
				x.left[name] = why
			}
			for _, name := range x.old {
				x.left[name] = "it is older than the attempt, and was in no snapshot"
			}
			return x.carryOut(ctx, p)
		}
		for _, w := range rules.writes {
			x.stuck[w.path] = true // not tried again, whatever comes of it
		}
		if err := x.carryOut(ctx, rules); err != nil {
			return err
		}
	}
	return errors.New("the ignore files keep changing")
}

// plan compares the working tree with the snapshot.
func (x *restoration) plan(ctx context.Context) (*restorePlan, error) {
	r, p := x.r, &restorePlan{}
	if !r.viaGit {
		err := r.scan(ctx, readKnown)
		if err == nil {
			err = p.compare(r, r.last, &x.to, "", 0)
		}
		if err != nil && !r.fallBack(&err) {
			return nil, err
		}
	}
	if r.viaGit {
		now, err := r.cli.snapshot(ctx, r.opt.Protect)
		if err != nil {
			return nil, err
		}
		id, err := parseID(string(now))
		if err != nil {
			return nil, err
		}
		*p = restorePlan{}
		if err := r.diff(id, x.to, p.add); err != nil {
			return nil, err
		}
	}
	if err := x.overlook(ctx, p); err != nil {
		return nil, err
	}
	return p, x.spare(ctx, p)
}

// spare takes out of the plan what is ignored by the rules of the snapshot, and what was there already when it was made.
// A folder that was moved takes files with it that are old and yet the attempt's: they go, since each is put back
// where it was.
func (x *restoration) spare(ctx context.Context, p *restorePlan) (err error) {
	moved := map[objectID]int{}
	for _, w := range p.writes {
		moved[w.item.id]++
	}
	delete(moved, emptyBlobID)
	x.old = nil
	p.deletes = slices.DeleteFunc(p.deletes, func(f doomed) bool {
		if err != nil {
			return false
		}
		var keep bool
		if keep, err = x.ignores(ctx, f.path); keep || err != nil {
			return keep
		}
		info, serr := x.r.statBelow(f.path)
		if serr != nil || !olderThan(info, x.since) {
			return false
		}
		if moved[f.id] > 0 {
			moved[f.id]--
			return false
		}
		x.old = append(x.old, f.path)
		return true
	})
	return err
}

// add plans for a file that differs. A repository of its own is left alone: its files are in no snapshot.
func (p *restorePlan) add(name string, now, then treeItem) {
	switch {
	case now.mode == modeGitlink || then.mode == modeGitlink:
	case then.mode == 0:
		p.deletes = append(p.deletes, doomed{strings.Clone(name), now.id})
	default:
		then.name = ""
		p.writes = append(p.writes, wanted{strings.Clone(name), then})
	}
}

// paths lists what the plan is about, in no order.
func (p *restorePlan) paths() []string {
	var out []string
	for _, f := range p.deletes {
		out = append(out, f.path)
	}
	for _, w := range p.writes {
		out = append(out, w.path)
	}
	return out
}

// compare plans for one folder, nil where there is none, and the tree that it is to become, nil for none.
func (p *restorePlan) compare(r *Repo, d *folder, to *objectID, prefix string, depth int) error {
	if d != nil && to != nil && d.id == *to || prefix != "" && r.guard.covers(prefix) {
		return nil
	}
	if depth > maxTreeDepth {
		return errTreeFormat
	}
	files, dirs := map[string]treeItem{}, map[string]treeItem{}
	if to != nil {
		items, err := (&differ{store: r.store}).items(to)
		if err != nil {
			return fmt.Errorf("%s: %w", strings.TrimSuffix(prefix, "/"), err)
		}
		for _, e := range items {
			if e.isDir() {
				dirs[e.name] = e
			} else {
				files[e.name] = e
			}
		}
	}
	if d != nil {
		for i := range d.files {
			f := &d.files[i]
			item, ok := files[f.name]
			switch {
			case f.fixed:
				delete(files, f.name)
			case !ok:
				p.deletes = append(p.deletes, doomed{prefix + f.name, f.id})
			case item.id == f.id && item.mode == f.mode:
				delete(files, f.name)
			}
		}
		for _, c := range d.dirs {
			var sub *objectID
			if e, ok := dirs[c.name()]; ok {
				sub = &e.id
			}
			delete(dirs, c.name())
			if err := p.compare(r, c, sub, c.path, depth+1); err != nil {
				return err
			}
		}
	}
	for _, name := range sortedKeys(files) {
		if item := files[name]; !r.guard.covers(prefix + name) {
			p.add(prefix+name, treeItem{}, item)
		}
	}
	for _, name := range sortedKeys(dirs) {
		if err := p.compare(r, nil, ptr(dirs[name].id), prefix+name+"/", depth+1); err != nil {
			return err
		}
	}
	return nil
}

func ptr[T any](v T) *T { return &v }

// ignores says whether git would have ignored a file by the rules of the snapshot.
func (x *restoration) ignores(ctx context.Context, name string) (bool, error) {
	yes, err := x.ruledOut(name)
	if !yes || err != nil {
		return false, err
	}
	tracked, err := x.tracked(ctx, name) // git ignores nothing that it tracks
	return !tracked, err
}

// tracked says whether the index of the repository has a file.
func (x *restoration) tracked(ctx context.Context, name string) (bool, error) {
	if !x.r.viaGit {
		_, yes := x.r.ix.find(name)
		return yes && !x.r.forced[name], nil
	}
	if x.index == nil {
		b, err := x.r.cli.run(ctx, gitCall{args: []string{"ls-files", "-z"}})
		if err != nil {
			return false, err
		}
		x.index = map[string]bool{}
		for _, p := range nulSplit(b) {
			x.index[p] = true
		}
	}
	return x.index[name] && !x.r.forced[name], nil
}

// ruledOut evaluates the rules of the snapshot, and those outside the working tree.
func (x *restoration) ruledOut(name string) (bool, error) {
	if x.rules == nil {
		x.rules = map[string]*scope{}
		for _, g := range x.r.scanner.global {
			g.refresh()
		}
	}
	var up *scope
	for dir := ""; ; {
		d := x.rules[dir]
		if d == nil {
			d = &scope{path: dir, up: up}
			item, err := x.view.file(dir + ".gitignore")
			if err != nil {
				return false, err
			}
			if item.mode == modeRegular || item.mode == modeExec {
				b, err := x.r.store.read(item.id, kindBlob)
				if err != nil {
					return false, err
				}
				d.rules = parseIgnore(b, dir)
			}
			x.rules[dir] = d
		}
		part, _, below := strings.Cut(name[len(dir):], "/")
		if !below {
			return d.ignores(x.r.scanner, part), nil
		}
		if x.r.scanner.verdict(d, dir+part, part, true) == ignored {
			return true, nil
		}
		dir, up = dir+part+"/", d
	}
}

// check leaves out, before anything is touched, what the store does not have any more.
func (x *restoration) check(p *restorePlan) error {
	for _, w := range p.writes {
		if !safePath(w.path) {
			return &RefusedError{Reason: fmt.Sprintf("%q is not a safe path", w.path)}
		}
		if !x.r.store.has(w.item.id) {
			x.left[w.path] = "the repository lost the content that it had, " + w.item.id.String()[:12] + ": somebody pruned it"
		}
	}
	p.writes = slices.DeleteFunc(p.writes, func(w wanted) bool { return x.left[w.path] != "" })
	return nil
}

// rules is the part of the plan about ignore files, with the files in their way.
func (p *restorePlan) rules() *restorePlan {
	out := &restorePlan{}
	way := map[string]bool{} // directories that the writes need
	for _, w := range p.writes {
		if path.Base(w.path) == ".gitignore" {
			out.writes = append(out.writes, w)
			for dir := path.Dir(w.path); dir != "."; dir = path.Dir(dir) {
				way[dir] = true
			}
		}
	}
	for _, f := range p.deletes {
		if path.Base(f.path) == ".gitignore" || strings.Contains("/"+f.path, "/.gitignore/") || way[f.path] {
			out.deletes = append(out.deletes, f)
		}
	}
	return out
}

// obstacles finds the writes with something in the way that the plan does not delete and that we may not delete.
func (x *restoration) obstacles(p *restorePlan) map[string]string {
	deleted := map[string]bool{}
	for _, f := range p.deletes {
		deleted[f.path] = true
	}
	out, dirs := map[string]string{}, map[string]string{"": ""}
	for _, w := range p.writes {
		if why := x.dirBlocked(path.Dir(w.path), deleted, dirs); why != "" {
			out[w.path] = why
			continue
		}
		if info, err := x.r.statBelow(w.path); err == nil && info.mode == modeDir {
			if in := x.r.keptIn(w.path+"/", deleted, 0); in != "" {
				out[w.path] = "it is a directory now, and holds " + in + ", which is in no snapshot"
			}
		}
	}
	return out
}

// dirBlocked says what stands where a directory is needed; known has what was found so far.
func (x *restoration) dirBlocked(dir string, deleted map[string]bool, known map[string]string) string {
	if dir == "." {
		return ""
	}
	if why, ok := known[dir]; ok {
		return why
	}
	why := x.dirBlocked(path.Dir(dir), deleted, known)
	if why == "" && !deleted[dir] {
		if info, err := x.r.statBelow(dir); err == nil && info.mode != modeDir {
			why = dir + " is " + kindName(info.mode) + " now, which is in no snapshot"
		}
	}
	known[dir] = why
	return why
}

func kindName(mode uint32) string {
	switch mode {
	case modeLink:
		return "a symbolic link"
	case 0:
		return "a pipe, a socket or a device"
	}
	return "a file"
}

// keptIn finds a file below a directory that is not among those to be deleted, "" if there is none.
func (r *Repo) keptIn(dir string, deleted map[string]bool, depth int) string {
	fd, err := r.root.open(dir, openDirFlags, 0)
	if err != nil {
		return dir
	}
	_, names, err := oscall.List(fd, nil, nil)
	oscall.Close(fd)
	if err != nil || depth > maxTreeDepth {
		return dir
	}
	for _, e := range names {
		name := dir + e.Name
		info, err := r.statBelow(name)
		switch {
		case err == nil && info.mode == modeDir:
			if in := r.keptIn(name+"/", deleted, depth+1); in != "" {
				return in
			}
		case !deleted[name]:
			return name
		}
	}
	return ""
}

func (x *restoration) result() Restored {
	var out Restored
	for _, name := range sortedKeys(x.done) {
		switch {
		case x.left[name] != "":
		case x.done[name]:
			out.Back = append(out.Back, name)
		default:
			out.Removed = append(out.Removed, name)
		}
	}
	for _, name := range sortedKeys(x.left) {
		out.Left = append(out.Left, LeftOut{name, x.left[name]})
	}
	return out
}

// filesBelow lists what is in a directory that no scan enters.
func (r *Repo) filesBelow(dir string, depth int) []doomed {
	fd, err := r.root.open(dir, openDirFlags, 0)
	if err != nil {
		return nil
	}
	_, names, err := oscall.List(fd, nil, nil)
	oscall.Close(fd)
	if err != nil || depth > maxTreeDepth {
		return nil
	}
	var out []doomed
	for _, e := range names {
		if info, err := r.statBelow(dir + e.Name); err == nil && info.mode == modeDir {
			out = append(out, r.filesBelow(dir+e.Name+"/", depth+1)...)
		} else if err == nil {
			out = append(out, doomed{path: dir + strings.Clone(e.Name)})
		}
	}
	return out
}

// overlook adds to a restore's plan what the scan left out: it is put back, or deleted where it is the attempt's.
func (x *restoration) overlook(_ context.Context, p *restorePlan) error {
	planned := map[string]bool{}
	for _, name := range p.paths() {
		planned[name] = true
	}
	for _, l := range x.r.leftOut() {
		item, err := x.view.file(l.Path)
		switch {
		case err != nil:
			return err
		case planned[l.Path] || x.r.guard.covers(l.Path) || item.mode == modeGitlink:
		case item.mode != 0:
			p.writes = append(p.writes, wanted{l.Path, item})
		case x.since.IsZero() || l.Why == whyLong:
		case strings.HasSuffix(l.Path, "/"):
			p.deletes = append(p.deletes, x.r.filesBelow(l.Path, 0)...)
		default:
			p.deletes = append(p.deletes, doomed{path: l.Path})
		}
	}
	return nil
}

// carryOut does what the plan says but for what is left, deletions first.
func (x *restoration) carryOut(ctx context.Context, p *restorePlan) error {
	r := x.r
	if err := x.deleteFiles(ctx, p.deletes); err != nil {
		return err
	}
	var paths []string
	for _, w := range p.writes {
		if x.left[w.path] != "" {
			continue
		}
		if err := context.Cause(ctx); err != nil {
			return err
		}
		x.done[w.path] = true
		if err := r.clearPlace(w.path); err != nil {
			x.left[w.path] = err.Error()
			continue
		}
		if raw, known := r.raw[rawKey{w.path, w.item.id}]; known && r.writeRaw(w.path, treeItem{mode: w.item.mode, id: raw}) == nil {
			continue
		}
		paths = append(paths, w.path)
	}
	return x.checkout(ctx, paths)
}

// checkout has the git program write files. Where it cannot write them all, each is tried alone.
func (x *restoration) checkout(ctx context.Context, paths []string) error {
	err := x.r.cli.checkout(ctx, Tree(x.to.String()), paths)
	crash.Point("git: files restored")
	if exitCode(err) == 0 || context.Cause(ctx) != nil || strings.Contains(err.Error(), "No space left on device") {
		return err
	}
	for _, p := range paths {
		err := x.r.cli.checkout(ctx, Tree(x.to.String()), []string{p})
		if err != nil && (exitCode(err) == 0 || context.Cause(ctx) != nil) {
			return err
		}
		if err != nil {
			x.left[p] = err.Error()
		}
	}
	return nil
}

func (x *restoration) deleteFiles(ctx context.Context, doomed []doomed) error {
	dirs := map[string]bool{}
	for _, f := range doomed {
		name := f.path
		if x.left[name] != "" {
			continue
		}
		if err := context.Cause(ctx); err != nil {
			return err
		}
		x.done[name] = false
		if err := x.r.deleteFile(name); err != nil {
			if ends(err) {
				return fmt.Errorf("delete %s: %w", name, err)
			}
			x.left[name] = err.Error()
			continue
		}
		crash.Point("git: file deleted")
		for dir := path.Dir(name); dir != "." && !dirs[dir]; dir = path.Dir(dir) {
			dirs[dir] = true
		}
	}
	emptied := sortedKeys(dirs)
	slices.Reverse(emptied) // what is deeper comes first
	for _, dir := range emptied {
		x.r.leaveDir(dir)
	}
	return nil
}

// ends says whether an error concerns the whole restore rather than one path.
func ends(err error) bool {
	for _, e := range []error{syscall.ENOSPC, syscall.EDQUOT, syscall.EIO, syscall.EROFS, syscall.ENOMEM, syscall.EMFILE, syscall.ENFILE} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// statBelow stats a path of the working tree, following no symbolic link.
func (r *Repo) statBelow(name string) (fileInfo, error) {
	dir, base := path.Split(name)
	fd, err := r.root.open(dir, oscall.PathOnly|oscall.O_DIRECTORY, 0)
	if err != nil {
		return fileInfo{}, err
	}
	defer oscall.Close(fd)
	return statAt(fd, base)
}

// olderThan says whether a file was changed last before a time, whatever its own clock's resolution. Nothing is older
// than the zero time.
func olderThan(info fileInfo, t time.Time) bool {
	return !t.IsZero() && stampBefore(info.st.ctimeS, info.st.ctimeN, t.Add(-ClockSlack))
}

// deleteFile removes a file; one that is gone already, or below something that is no directory, is fine.
func (r *Repo) deleteFile(p string) error {
	dir, name := path.Split(p)
	fd, err := r.root.open(dir, oscall.PathOnly|oscall.O_DIRECTORY, 0)
	if err == nil {
		defer oscall.Close(fd)
		if err = oscall.Unlinkat(fd, name, 0); err == syscall.EACCES && openUp(fd) {
			err = oscall.Unlinkat(fd, name, 0)
		}
	}
	if err == nil || isGone(err) {
		return nil
	}
	return err
}

// openUp lets the owner of a directory write in it: some tools make theirs read-only, and git knows no such mode.
func openUp(fd int) bool {
	var st oscall.Stat_t
	return oscall.Fstat(fd, &st) == nil && st.Mode&0o300 != 0o300 && oscall.Chmod(fd, uint32(st.Mode&0o7777|0o700)) == nil
}

// leaveDir removes a directory if it is empty.
func (r *Repo) leaveDir(dir string) {
	parent, name := path.Split(dir)
	fd, err := r.root.open(parent, oscall.PathOnly|oscall.O_DIRECTORY, 0)
	if err != nil {
		return
	}
	_ = oscall.Unlinkat(fd, name, oscall.AT_REMOVEDIR) // ignored files may keep it
	oscall.Close(fd)
}

// clearPlace makes room for a file: it removes an empty directory in its place, and opens up a closed one around it.
func (r *Repo) clearPlace(p string) error {
	dir, name := path.Split(p)
	fd, err := r.root.open(dir, oscall.PathOnly|oscall.O_DIRECTORY, 0)
	if err != nil {
		return nil // git makes it
	}
	defer oscall.Close(fd)
	openUp(fd)
	if info, err := statAt(fd, name); err == nil && info.mode == modeDir && !removeHollow(fd, name) {
		return errors.New("it is a directory now that is not empty")
	}
	return nil
}

// removeHollow removes a directory that holds nothing but directories.
func removeHollow(dirfd int, name string) bool {
	if oscall.Unlinkat(dirfd, name, oscall.AT_REMOVEDIR) == nil {
		return true
	}
	fd, err := oscall.Openat(dirfd, name, openDirFlags|oscall.O_NOFOLLOW|syscall.O_CLOEXEC, 0)
	if err != nil {
		return false
	}
	defer oscall.Close(fd)
	_, names, err := oscall.List(fd, nil, nil)
	if err != nil {
		return false
	}
	for _, e := range names {
		if e.Type != oscall.DT_DIR || !removeHollow(fd, e.Name) {
			return false
		}
	}
	return oscall.Unlinkat(dirfd, name, oscall.AT_REMOVEDIR) == nil
}

// checkout writes paths as the tree has them, filters included. Attribute files come first: git reads them
// from the working tree.
func (c *cli) checkout(ctx context.Context, to Tree, paths []string) error {
	if len(paths) == 0 {
		return nil
	}
	index, err := c.indexCopy(filepath.Join(c.l.gitDir, "descartes-none"))
	if err != nil {
		return err
	}
	defer os.Remove(index)
	if _, err := c.run(ctx, gitCall{args: []string{"read-tree", string(to)}, index: index}); err != nil {
		return err
	}
	var first, rest []string
	for _, p := range paths {
		if path.Base(p) == ".gitattributes" {
			first = append(first, p)
		} else {
			rest = append(rest, p)
		}
	}
	for _, part := range [][]string{first, rest} {
		if len(part) == 0 {
			continue
		}
		if _, err := c.run(ctx, gitCall{args: []string{"checkout-index", "-f", "-z", "--stdin"}, index: index, stdin: nulJoin(part)}); err != nil {
			return err
		}
	}
	return nil
}
