package loop

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"descartes/internal/atomicfile"
	"descartes/internal/plainfile"
	"descartes/loop/store"
)

// loopDir holds the state of the criteria loop for its agent and for other programs. The file's name is fixed, so only
// one criteria loop at a time works in a folder. The file is a copy: the journal is the loop's own record.
const loopDir = ".loop"

const maxLoopFile = 8 << 20

func loopFile(dir string) string { return filepath.Join(dir, loopDir, "state.json") }

// What to do with .loop/state.json at the end: Config.LoopState.
const (
	LoopStateKeep   = "keep"
	LoopStateDelete = "delete"
)

// OfLoopFile reports whether a path is .loop or below it, which belongs to the loop and is nobody's work.
func OfLoopFile(path string) bool { return strings.Contains("/"+path+"/", "/"+loopDir+"/") }

// LoopFileFree returns a *LoopFileError while a criteria loop runs here.
func LoopFileFree(h store.Home) error {
	if who, busy := store.Live(h.LoopFileLock()); busy {
		return &LoopFileError{who.Loop}
	}
	return nil
}

// LoopFileError says that another criteria loop works in the same folder.
type LoopFileError struct{ Loop string }

func (e *LoopFileError) Error() string {
	return fmt.Sprintf("run %s is running and writes %s/state.json, which only one criteria loop at a time can have",
		e.Loop, loopDir)
}

// Next is what to do about it.
func (e *LoopFileError) Next() string {
	return "wait until it has ended, or start in a git worktree of its own"
}

// ReadLoopFile reads the file; nil if it is missing or unreadable.
func ReadLoopFile(dir string) []byte {
	path := loopFile(dir)
	if plainfile.Writable(dir, path) != nil { // writing it reports the problem
		return nil
	}
	b, err := plainfile.Read(dir, path, maxLoopFile)
	if err != nil {
		return nil
	}
	return b
}

// PutLoopFile writes .loop/state.json in a folder.
func PutLoopFile(fsys atomicfile.FS, dir string, text []byte) error {
	path := loopFile(dir)
	if err := plainfile.Writable(dir, path); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("write %s/state.json: %w", loopDir, err)
	}
	ignore := filepath.Join(filepath.Dir(path), ".gitignore")
	if _, err := os.Lstat(ignore); errors.Is(err, fs.ErrNotExist) {
		if err := atomicfile.Write(fsys, ignore, []byte(ignoreAll), 0o644); err != nil {
			return fmt.Errorf("write %s/.gitignore: %w", loopDir, err)
		}
	}
	if err := atomicfile.Write(fsys, path, text, 0o644); err != nil {
		return fmt.Errorf("write %s/state.json: %w", loopDir, err)
	}
	return nil
}

const ignoreAll = "*\n"

// DropsLoopFile reports whether the file goes when a loop ends.
func DropsLoopFile(c Config, completed, cancelled bool) bool {
	return c.Gate == GateCriteria && (cancelled && c.LoopState != LoopStateKeep || completed &&
		c.LoopState == LoopStateDelete)
}

// RemoveLoopFile removes the file, and its folder if nothing else is in it.
func RemoveLoopFile(dir string) error {
	path := loopFile(dir)
	if plainfile.Writable(dir, path) != nil {
		return nil // it was never written
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove %s/state.json: %w", loopDir, err)
	}
	ignore := filepath.Join(filepath.Dir(path), ".gitignore")
	others, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(others) > 1 || len(others) == 1 && others[0].Name() != ".gitignore" {
		return nil
	}
	if b, err := plainfile.Read(dir, ignore, 1<<10); err != nil ||
		strings.TrimSpace(string(b)) != strings.TrimSpace(ignoreAll) {
		return nil
	}
	_ = os.Remove(ignore)             // at worst an empty
	_ = os.Remove(filepath.Dir(path)) // folder stays
	return nil
}
