package slot

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"descartes/agent/process"
	"descartes/gitops"
	"descartes/internal/oscall"
	"descartes/internal/plainfile"
)

// The check tree is a check slot in layers, where the kernel can mount them:
//
//	tree  what git tracks, as the commit has it, with a .git of the check's own
//	warm  what the check of the trunk's tip left of what git ignores, so that builds stay warm
//	base  the user's dependency folders and pool.keep, as he has them
//
// Checks see them as one folder and write none of them: what a check writes goes into a layer of its own.
//
//	up    of the check at hand, dropped unless its commit becomes the tip: then it is moved into warm
//	work  the kernel's
//
// So nothing that a check ran decides a later one, but for the check of the tip that later ones build on, which built
// nothing from a file that is gone by now: where one is, the check begins without it, and with pool.fresh each does.
const (
	baseLayer = "base"
	warmLayer = "warm"
	upLayer   = "up"
	workLayer = "work"
)

// layer is what is recorded about up and warm.
type layer struct {
	Trees []gitops.Tree `json:"trees"`           // which the check had, and which it made of it
	Setup string        `json:"setup,omitempty"` // what the set-up command ran for, as slotState has it
	Rules string        `json:"rules"`           // what git ignored
	Over  bool          `json:"over,omitempty"`  // its commands have ended
}

func (s *Slot) in(name string) string { return filepath.Join(s.pool.dir(s.Number), name) }

// Layers are what commands in the slot find mounted at its tree; nil for a slot without layers.
func (s *Slot) Layers() []process.Layer {
	if !s.layered {
		return nil
	}
	return []process.Layer{{At: s.Tree(), Lower: []string{s.Tree(), s.in(warmLayer), s.in(baseLayer)},
		Upper: s.in(upLayer), Work: s.in(workLayer)}}
}

// fresh makes an empty folder of the slot.
func (s *Slot) fresh(name string) error {
	if err := plainfile.RemoveAll(s.in(name)); err != nil {
		return err
	}
	return os.MkdirAll(s.in(name), 0o755)
}

// layer gives the check at hand a layer, once the tree has what it checks. What the last check left goes, or becomes
// the warm layer where its commit is the one that this check builds on.
func (s *Slot) layer(ctx context.Context) error {
	rules, err := s.rules(ctx)
	if err != nil {
		return err
	}
	for _, dir := range []string{baseLayer, warmLayer, upLayer, workLayer} {
		if err := os.MkdirAll(s.in(dir), 0o755); err != nil {
			return err
		}
	}
	var up, warm layer
	_, _ = readJSON(s.in("up.json"), &up), readJSON(s.in("warm.json"), &warm) // one that is damaged is dropped
	tips := append(slices.Clone(s.start.Tips), s.start.Base, s.tip)
	kept := up.Over && up.Rules == rules &&
		slices.ContainsFunc(up.Trees, func(t gitops.Tree) bool { return slices.Contains(tips, t) })
	if err := os.Remove(s.in("up.json")); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if warm.Rules != rules || kept {
		// whoever is killed from here on costs the warm layer, and nothing else
		if err := os.Remove(s.in("warm.json")); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	if warm.Rules != rules { // git may not ignore any more what it has
		if err := s.fresh(warmLayer); err != nil {
			return err
		}
		warm = layer{}
	}
	if kept {
		if err := s.collapse(); err != nil {
			return err
		}
		warm = up
		if err := s.pool.record(s, "warm.json", warm); err != nil {
			return err
		}
	}
	s.state.Setup = warm.Setup
	if s.start.Cold || s.pool.opt.Fresh || s.lacks(ctx, warm.Trees) {
		if err := s.cold(); err != nil {
			return err
		}
	}
	return errors.Join(s.fresh(upLayer), s.fresh(workLayer))
}

// lacks reports whether the tree has no longer a file of what the warm layer was built from: what was made of that
// file would still be there, as in no fresh clone. A tree that git no longer has tells nothing: it is taken to.
func (s *Slot) lacks(ctx context.Context, built []gitops.Tree) bool {
	if len(built) == 0 {
		return false
	}
	changed, err := s.git.Changed(ctx, built[len(built)-1], s.start.Before)
	return err != nil || slices.ContainsFunc(changed, func(c gitops.Change) bool { return c.Op == 'D' })
}

// cold drops the warm layer: what lies below it changed.
func (s *Slot) cold() error {
	s.state.Setup = ""
	return errors.Join(plainfile.RemoveAll(s.in("warm.json")), s.fresh(warmLayer))
}

// layerMade records whose the layer of the check at hand is, once its set-up ran.
func (s *Slot) layerMade(ctx context.Context) error {
	rules, err := s.rules(ctx)
	if err != nil {
		return err
	}
	s.up = layer{Trees: []gitops.Tree{s.start.Before}, Setup: s.state.Setup, Rules: rules}
	return s.pool.record(s, "up.json", s.up)
}

// layerOver takes what a check wrote out of its layer that git does not ignore, and so no build is warm by.
func (s *Slot) layerOver(ctx context.Context) error {
	if err := s.sift(ctx); err != nil {
		return fmt.Errorf("look at what a check wrote: %w", err)
	}
	if err := s.keepBase(); err != nil {
		return fmt.Errorf("take back what a check wrote into kept files: %w", err)
	}
	s.up.Over = true
	// the kernel leaves a folder there that a person's rm cannot read
	return errors.Join(s.fresh(workLayer), s.pool.record(s, "up.json", s.up))
}

// keepBase takes out of a check's layer what it made of files that pool.keep names: each check has them as the user has
// them, unless set-up was what changed them.
func (s *Slot) keepBase() error {
	var warm layer
	if _ = readJSON(s.in("warm.json"), &warm); warm.Setup != s.up.Setup {
		return nil
	}
	var base map[string]stamp
	if err := readJSON(filepath.Join(s.pool.dir(s.Number), copiedRecord), &base); err != nil {
		return nil // the next check has everything copied again
	}
	at, err := os.OpenRoot(s.in(upLayer))
	if err != nil {
		return err
	}
	defer at.Close()
	kept := gitops.NewPatterns(s.pool.opt.Keep)
	for _, name := range slices.Sorted(maps.Keys(base)) {
		fi, err := at.Lstat(name)
		if err != nil || !among(name, kept) || fi.IsDir() && !oscall.Opaque(filepath.Join(s.in(upLayer), name)) {
			continue
		}
		if err := plainfile.RemoveIn(at, name); err != nil {
			return err
		}
	}
	return nil
}

// rules identifies what git ignores in the tree.
func (s *Slot) rules(ctx context.Context) (string, error) {
	listed, err := s.git.Listed(ctx)
	if err != nil {
		return "", fmt.Errorf("list the files of slot %d: %w", s.Number, err)
	}
	var list []string
	for name, about := range listed {
		if path.Base(name) == ".gitignore" {
			list = append(list, name+" "+about)
		}
	}
	slices.Sort(list)
	sum := sha256.Sum256([]byte(strings.Join(list, "\n")))
	return hex.EncodeToString(sum[:8]), nil
}

// sifter goes through what a check wrote.
type sifter struct {
	at      *os.Root        // the slot's folder
	dir     string          // its path
	tracked map[string]bool // files
	folders map[string]bool // with tracked files
	modules map[string]bool // submodules: what is written there is no work, and no build is warm by it
	ask     []string        // new files, of which git may ignore some
}

// sift moves what a check wrote into the tree, as far as git would see it: the rest stays in its layer, but for what
// programs cache of what they ran, and for what is no file.
func (s *Slot) sift(ctx context.Context) error {
	listed, err := s.git.Listed(ctx)
	if err != nil {
		return err
	}
	w := sifter{dir: s.pool.dir(s.Number), tracked: map[string]bool{}, folders: map[string]bool{"": true},
		modules: map[string]bool{}}
	for name, about := range listed {
		w.tracked[name] = true
		w.modules[name] = strings.HasPrefix(about, "160000 ")
		for dir := path.Dir(name); dir != "." && !w.folders[dir]; dir = path.Dir(dir) {
			w.folders[dir] = true
		}
	}
	if w.at, err = os.OpenRoot(w.dir); err != nil {
		return err
	}
	defer w.at.Close()
	if err := plainfile.RemoveIn(w.at, upLayer+"/.git"); err != nil {
		return err
	}
	if err := w.folder(""); err != nil {
		return err
	}
	ignored, err := s.git.Ignores(ctx, w.ask)
	if err != nil {
		return err
	}
	for _, name := range w.ask {
		if !ignored[name] {
			if err := w.move(name); err != nil {
				return err
			}
		}
	}
	return nil
}

// folder sifts a folder of the layer; "" is the top.
func (w *sifter) folder(name string) error {
	at := path.Join(upLayer, name)
	if fi, err := w.at.Lstat(at); err == nil && fi.Mode().Perm()&0o700 != 0o700 {
		if err := w.at.Chmod(at, fi.Mode().Perm()|0o700); err != nil {
			return err
		}
	}
	entries, err := os.ReadDir(filepath.Join(w.dir, at))
	if err != nil {
		return err
	}
	written := map[string]bool{}
	for _, e := range entries {
		written[e.Name()] = true
		if err := w.entry(path.Join(name, e.Name()), e); err != nil {
			return err
		}
	}
	host := filepath.Join(w.dir, at)
	if !w.folders[name] || !oscall.Opaque(host) {
		return nil
	}
	old, err := os.ReadDir(filepath.Join(w.dir, "tree", name))
	for _, e := range old { // it was removed, and made anew without these
		if !written[e.Name()] {
			err = errors.Join(err, plainfile.RemoveIn(w.at, path.Join("tree", name, e.Name())))
		}
	}
	return errors.Join(err, oscall.SeeThrough(host))
}

func (w *sifter) entry(name string, e fs.DirEntry) error {
	at := path.Join(upLayer, name)
	if w.modules[name] {
		return plainfile.RemoveIn(w.at, at)
	}
	info, err := e.Info()
	if err != nil {
		return err
	}
	switch mode := info.Mode(); {
	case mode.IsDir() && e.Name() == "__pycache__":
		return plainfile.RemoveIn(w.at, at)
	case mode.IsDir():
		if w.tracked[name] {
			if err := plainfile.RemoveIn(w.at, path.Join("tree", name)); err != nil {
				return err
			}
		}
		return w.folder(name)
	case oscall.Whiteout(info) && (w.tracked[name] || w.folders[name]):
		return errors.Join(plainfile.RemoveIn(w.at, path.Join("tree", name)), w.at.Remove(at))
	case oscall.Whiteout(info):
		return nil
	case !mode.IsRegular() && mode&fs.ModeSymlink == 0:
		return w.at.Remove(at)
	case w.tracked[name] || w.folders[name]:
		return w.move(name)
	}
	w.ask = append(w.ask, name)
	return nil
}

// move gives a file of the layer to the tree.
func (w *sifter) move(name string) error {
	to := path.Join("tree", name)
	if err := w.at.MkdirAll(path.Dir(to), 0o755); err != nil {
		return err
	}
	if fi, err := w.at.Lstat(to); err == nil && fi.IsDir() {
		if err := plainfile.RemoveIn(w.at, to); err != nil {
			return err
		}
	}
	return w.at.Rename(path.Join(upLayer, name), to)
}

// collapse moves the layer of a check into the warm one, so that the stack never grows.
func (s *Slot) collapse() error {
	at, err := os.OpenRoot(s.pool.dir(s.Number))
	if err != nil {
		return err
	}
	defer at.Close()
	if err := collapse(at, s.pool.dir(s.Number), ""); err != nil {
		return fmt.Errorf("keep what the check of the tip built: %w", err)
	}
	return nil
}

// collapse moves a folder of up into that of warm; dir is the path of both. An entry that says that nothing is there
// stays one: it may hide what is further down.
func collapse(at *os.Root, dir, name string) error {
	from, to := path.Join(upLayer, name), path.Join(warmLayer, name)
	restore, err := loosened(at, to)
	if err != nil {
		return err
	}
	if _, err := loosened(at, from); err != nil {
		return err
	}
	entries, err := os.ReadDir(filepath.Join(dir, from))
	if err != nil {
		return err
	}
	for _, e := range entries {
		one, below := path.Join(from, e.Name()), path.Join(to, e.Name())
		if is, err := at.Lstat(below); err == nil {
			if e.IsDir() && is.IsDir() && !oscall.Opaque(filepath.Join(dir, one)) {
				if err := collapse(at, dir, path.Join(name, e.Name())); err != nil {
					return err
				}
				continue
			}
			if err := plainfile.RemoveIn(at, below); err != nil {
				return err
			}
		}
		fi, err := e.Info()
		if err != nil {
			return err
		}
		if e.IsDir() { // to move a folder one must be allowed to write it
			if _, err := loosened(at, one); err != nil {
				return err
			}
		}
		if err := at.Rename(one, below); err != nil {
			return err
		}
		if e.IsDir() {
			if err := at.Chmod(below, fi.Mode().Perm()); err != nil {
				return err
			}
		}
	}
	return restore()
}

// loosened lets its owner read and write a folder, and says how it gets its mode back.
func loosened(at *os.Root, name string) (restore func() error, err error) {
	fi, err := at.Lstat(name)
	if err != nil {
		return nil, err
	}
	if fi.Mode().Perm()&0o700 == 0o700 {
		return func() error { return nil }, nil
	}
	return func() error { return at.Chmod(name, fi.Mode().Perm()) }, at.Chmod(name, fi.Mode().Perm()|0o700)
}
