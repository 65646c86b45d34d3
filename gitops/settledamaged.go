package gitops

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// packedHeader begins every packed-refs file that git itself wrote.
const packedHeader = "# pack-refs with:"

// settlePacked puts a packed-refs right that git cannot read, or that something other than git took refs from:
// every git command fails on the one, and the other lost branches. What git packed, by gc or otherwise, stays.
func (r *Repo) settlePacked(ctx context.Context, g *Guard, s *Repaired) error {
	stamp, err := stampOf(g.packed.path)
	if err != nil || stamp == g.packed.stamp {
		return err
	}
	now, err := r.saved.save(g.packed.path)
	if err != nil || now.kind == g.packed.kind && (now.stamp == fileStamp{} || now.present() && bytes.Equal(now.data, g.packed.data)) {
		return err
	}
	old := packedRefs(g.packed.data)
	read, sound := r.readPacked(&now, g, old)
	lost := 0
	for n := range old {
		if _, ok := read[n]; !ok {
			lost++
		}
	}
	if sound && (lost == 0 || bytes.HasPrefix(now.data, []byte(packedHeader))) {
		return nil
	}
	back, err := r.packAgain(ctx, g, &now, old, read)
	switch {
	case err != nil:
		return fmt.Errorf("put packed-refs right: %w", err)
	case back < 0:
		s.note("%s was damaged during the attempt and removed", r.inGit(g.packed.path))
	case back == 1:
		s.note("%s was damaged during the attempt and put right: a ref is back", r.inGit(g.packed.path))
	case back == 0:
		s.note("%s was damaged during the attempt and put right", r.inGit(g.packed.path))
	default:
		s.note("%s was damaged during the attempt and put right: %d refs are back", r.inGit(g.packed.path), back)
	}
	return nil
}

// readPacked reads as git does: sound is whether git gets to the end. What there was before is not doubted.
func (r *Repo) readPacked(f *savedFile, g *Guard, old map[string]string) (read map[string]string, sound bool) {
	read, sound = map[string]string{}, f.kind == 0 || f.stamp == fileStamp{}
	if f.kind != 0 {
		return read, sound
	}
	peels := false // the line before names a ref
	for i, line := range bytes.SplitAfter(f.data, []byte("\n")) {
		text, whole := strings.CutSuffix(string(line), "\n")
		hash, name, ok := packedLine(line)
		switch {
		case text == "" && !whole: // the end
		case !whole:
			sound, peels = false, false
		case i == 0 && strings.HasPrefix(text, packedHeader):
		case peels && len(text) == 41 && text[0] == '^' && isHex(text[1:]):
			peels = false
		case ok && (old[name] == hash || g.loose[name] == hash || refName(name) && !r.lacks(hash)):
			read[name], peels = hash, true
		default:
			sound, peels = false, false
		}
	}
	return read, sound
}

// packAgain writes what there was before and what can be read besides. It returns how many refs are back, and
// -1 if there was none of them all, so that the file went.
func (r *Repo) packAgain(ctx context.Context, g *Guard, now *savedFile, old, read map[string]string) (back int, err error) {
	want := map[string]string{}
	for n, h := range read {
		want[n] = h
	}
	for n, h := range old {
		want[n] = h
	}
	for n, h := range g.loose { // the attempt packed it
		if text, err := r.refs.readLoose(n); err == nil && text == "" && !r.lacks(h) {
			want[n] = h
		}
	}
	for n := range want {
		if _, ok := read[n]; !ok {
			back++
		}
	}
	if len(want) == 0 && !g.packed.present() {
		return -1, os.RemoveAll(now.path)
	}
	file := g.packed
	if len(want) > len(old) || !g.packed.present() {
		text := []byte(packedHeader + " sorted \n")
		for _, n := range sortedKeys(want) {
			text = fmt.Appendf(text, "%s %s\n", want[n], n)
		}
		file = savedFile{path: now.path, perm: 0o644, data: text}
		if now.kind == 0 {
			file.perm = now.perm
		}
	}
	return back, file.putBack(ctx)
}

// settleLoose puts back the branches, tags and the stash in whose files something else stands now. One that
// there was not before goes, and its name with it.
func (r *Repo) settleLoose(ctx context.Context, g *Guard, s *Repaired) error {
	now, err := looseRefs(r.l, r.saved)
	if err != nil {
		return err
	}
	packed := packedRefs(g.packed.data)
	for _, n := range sortedKeys(now) {
		before, loose := g.loose[n]
		if now[n] == before && loose || !r.damagedRef(now[n]) {
			continue
		}
		if !loose {
			before = packed[n]
		}
		file := savedFile{path: r.refs.file(n), kind: os.ModeIrregular}
		if before != "" {
			fi, err := os.Lstat(file.path)
			if err != nil {
				return err
			}
			file.kind, file.perm, file.data = 0, fi.Mode().Perm(), []byte(before+"\n")
		}
		if err := file.putBack(ctx); err != nil {
			return err
		}
		if before != "" {
			s.note("%s was damaged during the attempt and put back at %s", shortRef(n), shortHash(before))
			continue
		}
		s.note("%s was damaged during the attempt and removed", shortRef(n))
	}
	return nil
}

// damagedRef reports whether the text of a ref's file leads git nowhere. A symbolic ref may do so.
func (r *Repo) damagedRef(text string) bool {
	if to, symbolic := strings.CutPrefix(text, "ref:"); symbolic {
		return !refName(strings.TrimSpace(to))
	}
	if strings.HasPrefix(text, "refs/") { // a symbolic link, the form of git's first years
		return !refName(text)
	}
	return r.lacks(text)
}

// lacks reports whether a text is not the id of an object of the repository. Those that it borrows are not
// looked for.
func (r *Repo) lacks(hash string) bool {
	id, err := parseID(hash)
	if err != nil {
		return true
	}
	if _, err := os.Lstat(filepath.Join(r.l.commonDir, "objects", "info", "alternates")); err == nil {
		return false
	}
	return !r.store.reader.has(id)
}

// refName is validRef for names of one level too, as refs/stash.
func refName(name string) bool {
	rest, ok := strings.CutPrefix(name, "refs/")
	return ok && validRef("refs/any/"+rest)
}
