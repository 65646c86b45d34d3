package gitops

import (
	"maps"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// keptPacked is packed-refs as it was before the running attempt. It is a copy, as a second name would show
// what is written into the file, and there for the run that follows on one that was killed.
func (r *Repo) keptPacked() string { return filepath.Join(r.l.gitDir, "descartes-packed-refs") }

// keepPacked copies packed-refs where it changed since the last copy, which bears the time of what it is of.
// Where that cannot be, what a killed attempt took from packed-refs is lost.
func (r *Repo) keepPacked(f *savedFile) {
	kept := r.keptPacked()
	if f.kind == 0 {
		if fi, err := os.Lstat(kept); err == nil && fi.Mode().IsRegular() && fi.Size() == f.stamp.size && fi.ModTime().Equal(f.mtime) {
			return
		}
	}
	_ = os.Remove(kept)
	if f.kind != 0 {
		return
	}
	temp := kept + ".new"
	err := os.WriteFile(temp, f.data, 0o666)
	if err == nil {
		err = os.Chtimes(temp, f.mtime, f.mtime)
	}
	if err == nil {
		err = os.Rename(temp, kept)
	}
	if err != nil {
		_ = os.Remove(temp)
		return
	}
}

// groundRefs corrects the ground of a killed run where its attempt damaged refs: packed-refs is as it was
// copied, and a branch stood where its log ends.
func (r *Repo) groundRefs(g *Guard, during func(time.Time) bool) {
	old := map[string]string{}
	kept, err := saveFile(r.keptPacked())
	known := err == nil && kept.kind == 0
	if known {
		old = packedRefs(kept.data)
	}
	gone := known && g.packed.stamp == fileStamp{} // git never removes it
	_, sound := r.readPacked(&g.packed, g, old)
	if emptied := known && !strings.HasPrefix(string(g.packed.data), packedHeader); gone || during(g.packed.mtime) && (!sound || emptied) {
		if !known {
			kept = savedFile{kind: os.ModeIrregular}
		}
		kept.path, kept.stamp = g.packed.path, fileStamp{ino: 1, size: -1} // no file's: it is looked at
		g.packed = kept
	}
	g.loose = maps.Clone(g.loose)
	for n, text := range g.loose {
		if fi, err := os.Lstat(r.refs.file(n)); err != nil || !during(fi.ModTime()) || !r.damagedRef(text) {
			continue
		}
		delete(g.loose, n)
		if h := r.lastLogged(n); h != "" {
			g.loose[n] = h
		}
	}
}

// lastLogged is where a ref stood by its log, "" where none tells of an object that is there.
func (r *Repo) lastLogged(name string) string {
	f, err := saveFile(r.refs.refDir(name) + "/logs/" + name)
	if err != nil || f.kind != 0 {
		return ""
	}
	entries := stashEntries(f.data)
	if len(entries) == 0 || r.lacks(entries[len(entries)-1]) {
		return ""
	}
	return entries[len(entries)-1]
}
