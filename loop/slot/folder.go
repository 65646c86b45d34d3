package slot

import (
	"context"

	"descartes/gitops"
	"descartes/internal/atomicfile"
)

// Folder is a folder without git: only the project's settings are protected.
type Folder struct {
	dir   string
	fs    atomicfile.FS
	paths []string
	fixed *Files
	aside string
}

// NewFolder is a workspace for attempts in dir, in the project at root; they must not change the fixed files.
func NewFolder(fs atomicfile.FS, root, dir string, fixed []string) *Folder {
	return &Folder{dir: dir, fs: fs, paths: fixed, fixed: NewFiles(root)}
}

// Dir is where commands run.
func (f *Folder) Dir() string { return f.dir }

// Files is Dir.
func (f *Folder) Files() string { return f.dir }

// Prepare remembers the fixed files.
func (f *Folder) Prepare(_ context.Context, s Start) (Stand, error) {
	f.aside = s.Aside
	f.fixed.remember(f.paths)
	return Stand{}, nil
}

// Repair restores them.
func (f *Folder) Repair(_ context.Context, who string) ([]string, error) {
	return f.fixed.PutBack(f.fs, who, f.aside+".changed")
}

// Look sees nothing.
func (f *Folder) Look(context.Context) (Result, error) { return Result{}, nil }

// Result is empty: nobody knows what was changed.
func (f *Folder) Result(context.Context, bool) (Result, error) { return Result{}, nil }

// Restore does nothing: nobody knows what was changed.
func (f *Folder) Restore(context.Context, gitops.Tree) error { return nil }
