package gitops

import (
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// mostKeptText bounds the files that Settings holds, all together. One that does not fit is taken as it stands.
const mostKeptText = 8 << 20

// keptSettings is the configuration and the hooks of a Guard in a form that outlives the run.
type keptSettings struct {
	Files   []keptFile
	Hooks   []keptFile
	Folders []string // of hooks, and those in them
	Tops    []string // of these, those where git or the configuration looks
}

type keptFile struct {
	Path    string
	Kind    fs.FileMode
	Perm    fs.FileMode
	Time    time.Time
	Text    []byte
	Omitted bool
}

// Settings is what GuardSince needs to put the configuration and the hooks back after a run that was killed. It is for
// a file that no attempt can write: who writes it decides what git runs.
func (g *Guard) Settings() []byte {
	k := keptSettings{Folders: g.folders, Tops: g.r.watched.hooks}
	room := mostKeptText
	keep := func(from []savedFile) (to []keptFile) {
		for _, f := range from {
			f := keptFile{Path: f.path, Kind: f.kind, Perm: f.perm, Time: f.mtime, Text: f.data}
			if f.Omitted = len(f.Text) > room || f.Kind == os.ModeDevice; f.Omitted {
				f.Text = nil
			}
			room -= len(f.Text)
			to = append(to, f)
		}
		return to
	}
	k.Files, k.Hooks = keep(g.files), keep(g.hooks)
	b, err := json.Marshal(k)
	if err != nil {
		return nil // a path that is no text: nothing is kept
	}
	return b
}

// settingsBack undoes what the attempt of a killed run did to configuration and hooks, and reads them again: until then
// they were the attempt's. What changed after its end stays, as it may be somebody else's; what it was is kept aside.
func (r *Repo) settingsBack(ctx context.Context, settings []byte, during func(time.Time) bool) (notes []string, err error) {
	var k keptSettings
	if json.Unmarshal(settings, &k) != nil || len(k.Files) == 0 {
		return nil, nil
	}
	ours := func(s fileStamp) bool { return s == fileStamp{} || during(time.Unix(s.ctime.Unix())) }
	saved := func(from []keptFile) (to []savedFile, err error) {
		for _, f := range from {
			now, err := saveFile(f.Path)
			if err != nil {
				return nil, err
			}
			was := savedFile{path: f.Path, kind: f.Kind, perm: f.Perm, mtime: f.Time, data: f.Text, stamp: fileStamp{ino: 1, size: -1}} // no file's: it is looked at
			changed, err := was.changed()
			switch {
			case err != nil:
				return nil, err
			case f.Omitted || !changed:
			case ours(now.stamp):
				now = was
			default:
				notes = append(notes, fmt.Sprintf("%s was changed since the attempt began, the last time after its end, and stays%s", r.inGit(f.Path), r.keepAside("its text of before", f.Path, f.Text)))
			}
			to = append(to, now)
		}
		return to, nil
	}
	g := &Guard{r: r, folders: k.Folders}
	if g.files, err = saved(k.Files); err != nil {
		return nil, err
	}
	if g.hooks, err = saved(k.Hooks); err != nil {
		return nil, err
	}
	r.watched = watched{hooks: k.Tops}
	names, _, err := r.watched.hookFiles()
	if err != nil {
		return nil, err
	}
	for _, n := range names {
		now, err := saveFile(n)
		if err != nil {
			return nil, err
		}
		if !ours(now.stamp) && !slices.ContainsFunc(g.hooks, func(f savedFile) bool { return f.path == n }) {
			g.hooks = append(g.hooks, now)
		}
	}
	var s Repaired
	if err := s.take(ctx, g, r.settleFiles, r.settleHooks); err != nil {
		return nil, err
	}
	return append(s.Notes, notes...), r.reread(ctx)
}

// reread reads the configuration again, and decides anew who makes snapshots and commits.
func (r *Repo) reread(ctx context.Context) error {
	cfg, err := readConfig(ctx, r.cli)
	if err != nil {
		return err
	}
	ix, err := readIndex(filepath.Join(r.l.gitDir, "index"))
	if err != nil {
		ix = nil // Open and GuardSince see to it
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cfg, r.watched, r.people.cfg = cfg, watch(r.l, cfg, r.opt.Env), cfg
	if err := r.decide(inspect(r.l, cfg, ix, r.opt)); err != nil {
		return fmt.Errorf("read the configuration again: %w", err)
	}
	if r.viaGit {
		r.last = nil
	}
	r.scanner = r.newScanner()
	return nil
}
