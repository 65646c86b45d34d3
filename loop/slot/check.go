package slot

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"descartes/gitops"
	"descartes/internal/oscall"
	"descartes/internal/plainfile"
)

// firstCheck is the number of the first check slot. Of what git ignores it has only what a fresh clone with its set-up
// would have: the folders of package managers and what pool.keep names, as the user has them, and what pool.setup
// makes. No attempt works there, and no check finds what another one left, but what the tip's built, where it has
// layers: so what passes there passes anywhere.
const firstCheck = 3001

// TakeCheck gives the caller a check slot.
func (p *Pool) TakeCheck(ctx context.Context) (*Slot, error) { return p.take(ctx, firstCheck, false) }

func (s *Slot) forChecks() bool { return s.Number >= firstCheck }

// installed are what package managers make of a lock file.
var installed = gitops.NewPatterns([]string{"node_modules", "bower_components", "jspm_packages", "elm-stuff", ".yarn",
	".pnp.*", ".venv", "venv", "*.egg-info", ".tox", ".nox", "vendor", ".bundle",
	"Pods", "Carthage", "deps", ".dart_tool", ".stack-work", ".gradle"})

// idle are what programs leave that no command passes because of.
var idle = gitops.NewPatterns([]string{"__pycache__", ".pytest_cache", ".mypy_cache", ".ruff_cache", ".idea",
	".vscode", ".DS_Store", "*.swp", "*~"})

// products are where builds put what they make, besides folders whose names begin with a dot.
var products = gitops.NewPatterns([]string{".*", "build", "dist", "out", "target", "obj", "coverage", "tmp"})

// source are the extensions of files that people, and agents, write.
var source = strings.Fields(
	".go .py .js .jsx .mjs .cjs .ts .tsx .vue .svelte .rs .java .kt .scala .c .h .cc .cpp .hpp .cs .rb .php .pl .lua .swift .ex .exs .erl .hs .sh .sql .html .css .scss .proto")

func among(name string, list gitops.Patterns) bool {
	meant, _ := list.Match(strings.TrimSuffix(name, "/"))
	return meant
}

// kept reports whether a check slot has an ignored file as the user has it.
func (p *Pool) kept(name string) bool {
	return among(name, installed) || among(name, gitops.NewPatterns(p.opt.Keep))
}

// Beside lists what git ignores in the slot, a check slot lacks, and a command may pass because of.
func (s *Slot) Beside(ctx context.Context) ([]string, error) {
	list, err := s.git.Ignored(ctx)
	return s.beside(list), err
}

func (s *Slot) beside(ignored []string) []string {
	return slices.DeleteFunc(ignored, func(name string) bool {
		return s.pool.kept(name) || among(name, idle) || slices.Contains(s.state.Made, name)
	})
}

// mostBeside bounds what is remembered of that.
const mostBeside = 20

// mostHidden bounds the ignored files that are looked at for hidden ones.
const mostHidden = 20000

// hidden lists the source files among what git ignores there that were written since the attempt began: no commit will
// have them.
func (s *Slot) hidden(ctx context.Context, ignored []string) (files []string, err error) {
	if len(ignored) == 0 {
		return nil, nil
	}
	mine, err := s.ignored(ctx)
	if err != nil {
		return nil, err
	}
	seen := 0
	for _, name := range ignored {
		_ = filepath.WalkDir(filepath.Join(s.Tree(), name), func(at string, e fs.DirEntry, err error) error {
			name, _ := filepath.Rel(s.Tree(), at)
			name = filepath.ToSlash(name)
			seen++
			switch {
			case err != nil || seen > mostHidden:
				return fs.SkipAll
			case e.IsDir() && (s.pool.kept(name) || among(name, idle) || among(name, products)):
				return fs.SkipDir
			case e.Type().IsRegular() && slices.Contains(source, path.Ext(name)) && !s.pool.kept(name):
				// a copy has the time of the user's
				if fi, err := e.Info(); err == nil && (!mine(name) || fi.ModTime().After(s.start.Since)) {
					files = append(files, name)
				}
			}
			return nil
		})
	}
	old := s.git.OlderThan(files, s.start.Since)
	return slices.DeleteFunc(files, func(name string) bool { return slices.Contains(old, name) }), nil
}

// caches are what programs leave in the folders of package managers while they run.
var caches = gitops.NewPatterns([]string{".cache", ".vite", ".vite-temp", ".vitest", ".package-lock.json",
	".yarn-state.yml", ".modules.yaml", "pyvenv.cfg"})

// installs lists the folders of package managers into which something was put since the attempt began: a check has them
// as the user has them, with what lock files pin and pool.setup makes.
func (s *Slot) installs(ignored []string) (folders []string) {
	seen, since := 0, s.start.Since
	if s.state.Furnished.After(since) {
		since = s.state.Furnished
	}
	since = since.Add(10 * time.Millisecond) // the kernel may stamp a change up to a tick after its coarse clock
	for _, name := range ignored {
		if !among(name, installed) {
			continue
		}
		top := filepath.Join(s.Tree(), name)
		err := filepath.WalkDir(top, func(at string, e fs.DirEntry, err error) error {
			rel, _ := filepath.Rel(s.Tree(), at)
			rel = filepath.ToSlash(rel)
			seen++
			var st oscall.Stat_t
			switch {
			case err != nil || seen > mostHidden:
				return fs.SkipAll
			case among(rel, idle) || among(rel, caches):
				if e.IsDir() {
					return fs.SkipDir
				}
			case e.Type().IsRegular() && oscall.Lstat(at, &st) == nil &&
				time.Unix(st.Ctim.Unix()).After(since):
				return fs.ErrExist
			}
			return nil
		})
		if err != nil {
			folders = append(folders, strings.TrimSuffix(name, "/"))
		}
	}
	return folders
}

// only are those of the copies that a check slot gets.
func (c *copies) only(kept func(name string) bool) *copies {
	some := &copies{root: c.root}
	for _, e := range c.entries[:c.given] {
		if kept(e.path) {
			some.entries = append(some.entries, e)
		}
	}
	some.given = len(some.entries)
	return some
}

// strip removes what a check left in a check slot without layers. Where one wrote into what the slot was given, all of
// that is given again, and set up again.
func (s *Slot) strip(ctx context.Context) error {
	list, err := s.git.Ignored(ctx)
	for _, name := range list {
		if !slices.Contains(s.state.Made, name) {
			s.stripFile(strings.TrimSuffix(name, "/"))
		}
	}
	if err != nil || !s.spoiled(list) {
		return err
	}
	for _, name := range list {
		if err := plainfile.RemoveAll(filepath.Join(s.Tree(), name)); err != nil {
			return err
		}
	}
	s.current, s.state.Setup, s.state.Made = false, "", nil
	return plainfile.RemoveAll(filepath.Join(s.pool.dir(s.Number), copiedRecord))
}

// spoiled reports whether anything among what the slot was given changed since: nobody but the kernel sets the time of
// that.
func (s *Slot) spoiled(list []string) bool {
	for _, name := range list {
		err := filepath.WalkDir(filepath.Join(s.Tree(), name), func(at string, _ fs.DirEntry, err error) error {
			var st oscall.Stat_t
			if errors.Is(err, fs.ErrNotExist) {
				return nil
			}
			if err == nil {
				err = oscall.Lstat(at, &st)
			}
			if err == nil && !time.Unix(st.Ctim.Unix()).Before(s.state.Furnished) {
				err = fs.ErrInvalid
			}
			return err
		})
		if err != nil {
			return true
		}
	}
	return false
}

// stripFile removes a file, or of a folder what is not kept. What cannot be removed stays.
func (s *Slot) stripFile(name string) {
	if s.pool.kept(name) {
		return
	}
	at := filepath.Join(s.Tree(), name)
	if fi, err := os.Lstat(at); err == nil && fi.IsDir() {
		_ = os.Chmod(at, fi.Mode().Perm()|0o700)
		entries, _ := os.ReadDir(at)
		for _, e := range entries {
			s.stripFile(path.Join(name, e.Name()))
		}
	}
	_ = os.Remove(at)
}
