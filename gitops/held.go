package gitops

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"strings"
	"syscall"
	"time"

	"descartes/internal/oscall"
)

// heldFiles are the files that git is set to skip (skip-worktree, assume-unchanged), with their content in the
// working tree, by path. No snapshot and no commit contains that.
type heldFiles map[string]heldFile

type heldFile struct {
	item treeItem
	st   fileStat
}

// heldRef keeps their content for the run that follows on a killed one, and from being pruned.
const heldRef = "refs/worktree/descartes/held"

// hold stores the content of those files, as they lie there byte for byte, under heldRef.
func (r *Repo) hold(ctx context.Context, f *fileCopy) (heldFiles, error) {
	names, err := r.overlooked(ctx, f)
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.root.renew(); err != nil {
		return nil, err
	}
	held, same := heldFiles{}, true
	for _, name := range names {
		info, err := r.statBelow(name)
		if err != nil || info.mode == 0 || info.mode == modeDir {
			continue // it is not checked out
		}
		h := r.held[name]
		if h.item.mode != info.mode || !h.st.same(&info.st) || !stampBefore(info.st.ctimeS, info.st.ctimeN, Now().Add(-ClockSlack)) || !r.store.has(h.item.id) {
			f, err := r.readRaw(ctx, name)
			if passesOver(err) != "" || err != nil && isGone(err) {
				continue
			}
			if err != nil {
				return nil, fmt.Errorf("read %s: %w", name, err)
			}
			h = heldFile{treeItem{mode: f.mode, id: f.id}, f.st}
		}
		same = same && sameItem(h.item, r.held[name].item)
		held[name] = h
	}
	if same = same && len(held) == len(r.held); same && len(held) > 0 {
		at, err := r.refs.hash(heldRef)
		same = err == nil && at != ""
	}
	first := r.held == nil
	r.held = held
	switch {
	case same && len(held) == 0 && !first:
		return nil, nil
	case len(held) == 0:
		return nil, r.removeRef(ctx, heldRef)
	case same:
		return held, nil
	}
	items := map[string]treeItem{}
	for name, h := range held {
		items[name] = h.item
	}
	tree, err := (&treeEditor{objects: r.store}).edit("", &emptyTreeID, items)
	if err == nil {
		_, err = r.keep(ctx, heldRef, Tree(tree.String()), nil, "files that git is set to skip", r.people.keeper(ctx), time.Now())
	}
	return held, err
}

// heldSince reads what the guard of a killed run held, but for what somebody changed after that run's attempt.
func (r *Repo) heldSince(during func(time.Time) bool) (heldFiles, error) {
	at, err := r.refs.hash(heldRef)
	if err != nil || at == "" {
		return nil, err
	}
	tree, err := r.treeOf(at)
	if err != nil {
		return nil, err
	}
	held := heldFiles{}
	d := differ{store: r.store, each: func(name string, _, is treeItem) {
		held[strings.Clone(name)] = heldFile{item: treeItem{mode: is.mode, id: is.id}}
	}}
	err = d.dirs("", &emptyTreeID, &tree, 0)
	maps.DeleteFunc(held, func(name string, _ heldFile) bool {
		info, err := r.statBelow(name)
		return err == nil && !during(time.Unix(int64(info.st.ctimeS), int64(info.st.ctimeN)))
	})
	return held, err
}

// overlooked lists the files that git is set to skip. In a sparse checkout, git 2.36 and later still looks at those
// outside the cone that exist.
func (r *Repo) overlooked(ctx context.Context, f *fileCopy) (names []string, err error) {
	sparse := r.cfg.boolean("core.sparsecheckout", false) && !r.cli.version.Before(Version{2, 36})
	ix, err := indexOf(f)
	if err == nil {
		for i := range ix.entries {
			e := &ix.entries[i]
			if (e.flags&flagAssume != 0 || e.ext&extSkip != 0 && !sparse) && e.mode != modeGitlink && safePath(e.name) && !r.guard.covers(e.name) {
				names = append(names, strings.Clone(e.name))
			}
		}
		return names, nil
	}
	if _, ok := errors.AsType[*unsupportedError](err); !ok {
		return nil, nil // snapshots tell of it
	}
	b, err := r.cli.run(ctx, gitCall{args: []string{"ls-files", "-v", "-z"}})
	for _, line := range nulSplit(b) {
		tag, name, _ := strings.Cut(line, " ")
		if (tag == "S" && !sparse || tag != "" && strings.ToLower(tag) == tag) && safePath(name) && !r.guard.covers(name) {
			names = append(names, name)
		}
	}
	return names, err
}

// repairHeld puts back the held files that the attempt changed: what it made of them would be verified and never committed.
func (g *Guard) repairHeld(ctx context.Context, s *Repaired) error {
	r := g.r
	if len(g.held) == 0 {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.root.renew(); err != nil {
		return err
	}
	for _, name := range sortedKeys(g.held) {
		was := g.held[name]
		if info, err := r.statBelow(name); err == nil && info.mode == was.item.mode && info.st.same(&was.st) && was.st != (fileStat{}) {
			continue
		}
		now, err := r.readRaw(ctx, name)
		if context.Cause(ctx) != nil {
			return context.Cause(ctx)
		}
		if err == nil && now.mode == was.item.mode && now.id == was.item.id {
			continue
		}
		kept := ""
		if err == nil && now.mode != modeLink {
			if b, err := r.store.read(now.id, kindBlob); err == nil {
				if file := r.keepAside(path.Base(name), b); file != "" {
					kept = "; its content is in " + r.inGit(file)
				}
			}
		}
		if err := r.writeRaw(name, was.item); err != nil {
			if ends(err) {
				return fmt.Errorf("restore %s: %w", name, err)
			}
			s.note("%s, which git is set to skip, was changed during the attempt and cannot be restored (%v): git cat-file blob %s prints it", name, err, was.item.id)
			delete(g.held, name) // report nothing twice
			continue
		}
		s.note("%s was changed during the attempt and restored: git is set to skip it (skip-worktree or assume-unchanged), so no commit would contain the change%s", name, kept)
	}
	return nil
}

// readRaw reads a file of the working tree, whatever git would make of it, and stores its content.
func (r *Repo) readRaw(ctx context.Context, name string) (file, error) {
	dir, base := path.Split(name)
	f := file{name: base}
	fd, err := r.root.open(dir, openDirFlags, 0)
	if err != nil {
		return f, err
	}
	defer oscall.Close(fd)
	plain := &scanner{store: r.store, attrs: func([]byte) string { return "" }}
	x := fileReader{pass: &pass{scanner: plain, ctx: ctx, how: readAndStore}, at: &place{scope: &scope{path: dir}, fd: fd}, f: &f, holds: r.store.has}
	return f, x.untilStill()
}

// writeRaw makes a file hold exactly what a blob holds. The permissions of one that is there stay, but for the executable bit.
func (r *Repo) writeRaw(name string, item treeItem) error {
	_, _, src, err := r.store.open(item.id)
	if err != nil {
		return err
	}
	defer src.Close()
	if err := r.clearPlace(name); err != nil {
		return err
	}
	dir, base := path.Split(name)
	if err := r.makeDirs(dir); err != nil {
		return err
	}
	fd, err := r.root.open(dir, openDirFlags, 0)
	if err != nil {
		return err
	}
	defer oscall.Close(fd)
	tmp := fmt.Sprintf(".descartes-%d", os.Getpid())
	_ = oscall.Unlinkat(fd, tmp, 0)
	if item.mode == modeLink {
		to, err := io.ReadAll(io.LimitReader(src, oscall.PathMax))
		if err == nil {
			err = oscall.Symlinkat(string(to), fd, tmp)
		}
		if err == nil {
			err = oscall.Renameat(fd, tmp, fd, base)
		}
		return err
	}
	perm := uint32(0o666)
	if item.mode == modeExec {
		perm = 0o777
	}
	out, err := oscall.Openat(fd, tmp, syscall.O_WRONLY|syscall.O_CREAT|syscall.O_EXCL|oscall.O_NOFOLLOW|syscall.O_CLOEXEC, perm)
	if err != nil {
		return err
	}
	w := os.NewFile(uintptr(out), tmp)
	_, err = io.Copy(w, src)
	var st oscall.Stat_t
	if oscall.Fstatat(fd, base, &st, oscall.AT_SYMLINK_NOFOLLOW) == nil && st.Mode&syscall.S_IFMT == syscall.S_IFREG && err == nil {
		perm = uint32(st.Mode) & 0o777 &^ 0o111
		if item.mode == modeExec {
			perm |= perm & 0o444 >> 2
		}
		err = oscall.Fchmod(out, perm)
	}
	if err = errors.Join(err, w.Close()); err == nil {
		err = oscall.Renameat(fd, tmp, fd, base)
	}
	if err != nil {
		_ = oscall.Unlinkat(fd, tmp, 0)
	}
	return err
}

// makeDirs makes the directories that a file needs.
func (r *Repo) makeDirs(dir string) error {
	for i, c := range dir {
		if c != '/' {
			continue
		}
		above, base := path.Split(dir[:i])
		fd, err := r.root.open(above, oscall.PathOnly|oscall.O_DIRECTORY, 0)
		if err != nil {
			return err
		}
		if err = oscall.Mkdirat(fd, base, 0o777); err == syscall.EEXIST {
			err = nil
		}
		oscall.Close(fd)
		if err != nil {
			return err
		}
	}
	return nil
}

// rawKey is a file as a snapshot has it.
type rawKey struct {
	path string
	id   objectID
}

// noteRaw remembers what the uncommitted files of a snapshot that git made hold byte for byte: a checkout gives them the
// line ends and the filters' output that git would choose. It lasts as long as the Repo.
func (r *Repo) noteRaw(ctx context.Context, tree Tree) error {
	to, err := parseID(string(tree))
	if err != nil {
		return err
	}
	head, err := r.headTree()
	if err != nil {
		return err
	}
	converted := map[string]file{}
	var failed error
	err = r.diff(head, to, func(name string, _, is treeItem) {
		key := rawKey{strings.Clone(name), is.id}
		if _, known := r.raw[key]; known || failed != nil || is.mode != modeRegular && is.mode != modeExec {
			return
		}
		info, err := r.statBelow(name)
		if err != nil || info.mode != modeRegular && info.mode != modeExec || info.size > largeFile || strings.Contains(name, "\n") {
			return
		}
		f, err := r.readRaw(ctx, key.path)
		switch {
		case context.Cause(ctx) != nil:
			failed = context.Cause(ctx)
		case err != nil: // it is restored as git does
		case f.id == is.id:
			r.raw[key] = f.id
		default:
			f.name = is.id.String()
			converted[key.path] = f
		}
	})
	if err = errors.Join(err, failed); err != nil || len(converted) == 0 {
		return err
	}
	return r.noteConverted(ctx, converted)
}

// noteConverted takes those of which git says, while they stay as they were read, that they are what the snapshot has:
// each goes by the id that it has there.
func (r *Repo) noteConverted(ctx context.Context, files map[string]file) error {
	names := sortedKeys(files)
	b, err := r.cli.run(ctx, gitCall{args: []string{"hash-object", "--stdin-paths"}, options: []string{"-c", "core.safecrlf=false"}, stdin: []byte(strings.Join(names, "\n") + "\n")})
	if exitCode(err) != 0 {
		return nil // one went away: they are restored as git does
	}
	if err != nil {
		return err
	}
	for i, id := range strings.Fields(string(b)) {
		f := files[names[i]]
		info, err := r.statBelow(names[i])
		was, perr := parseID(f.name)
		if err == nil && perr == nil && id == f.name && info.mode == f.mode && info.st == f.st {
			r.raw[rawKey{names[i], was}] = f.id
		}
	}
	return nil
}
