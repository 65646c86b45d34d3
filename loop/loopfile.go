package loop

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"descartes/internal/atomicfile"
	"descartes/internal/plainfile"
	"descartes/loop/journal"
)

// loopDir holds the state of the criteria loop for its agent and for other programs. One criteria loop at a
// time works in a folder: the file has one name. It is a copy; the loop's own account is its journal.
const loopDir = ".loop"

const maxLoopFile = 8 << 20

func loopFile(dir string) string { return filepath.Join(dir, loopDir, "state.json") }

// What becomes of .loop/state.json at the end, as Config.LoopState says it.
const (
	LoopStateKeep   = "keep"
	LoopStateDelete = "delete"
)

// holdLoopFile takes the file for a loop with a criteria gate; another that lives is a *BusyError. What
// another program had written there is put aside into the loop's own folder.
func (w *promptWork) holdLoopFile(ctx context.Context) (err error) {
	if w.criteria() == nil {
		return nil
	}
	if w.fileLock, err = takeLock(ctx, w.home.loopFileLock(), lockWait, w.who); err != nil {
		var busy *BusyError
		if errors.As(err, &busy) {
			return &LoopFileError{busy.Holder.Loop}
		}
		return err
	}
	if b := w.readLoopFile(); len(b) > 0 && !w.resumed {
		aside := filepath.Join(w.home.Run(w.state.ID), "loop-state-before.json")
		if err := atomicfile.Write(w.tools.FS, aside, b, 0o644); err != nil {
			return fmt.Errorf("keep the old %s/state.json: %w", loopDir, err)
		}
		w.notes = append(w.notes, loopDir+"/state.json was there already; what it held is kept in "+w.relative(aside))
	}
	return nil
}

func (h Home) loopFileLock() string { return filepath.Join(string(h), "loop-file.lock") }

// LoopFileFree is a *LoopFileError while a criteria loop runs here.
func (h Home) LoopFileFree() error {
	if who, busy := live(h.loopFileLock()); busy {
		return &LoopFileError{who.Loop}
	}
	return nil
}

// LoopFileError says that another criteria loop works in the same folder.
type LoopFileError struct{ Loop string }

func (e *LoopFileError) Error() string {
	return fmt.Sprintf("loop %s is running and writes %s/state.json, which only one criteria loop at a time can have", e.Loop, loopDir)
}

// readLoopFile is the file as it lies there, nil where there is none that can be read.
func (w *promptWork) readLoopFile() []byte {
	path := loopFile(w.job.Dir)
	if plainfile.Writable(w.job.Dir, path) != nil { // writing it says so
		return nil
	}
	b, err := plainfile.Read(w.job.Dir, path, maxLoopFile)
	if err != nil {
		return nil
	}
	return b
}

// writeLoopFile writes the state of a criteria loop. That the folder cannot be written stops nothing.
func (w *promptWork) writeLoopFile() error {
	c := w.criteria()
	if c == nil {
		return nil
	}
	if err := w.putLoopFile(w.tools.Mask.Bytes(c.StateFile())); err != nil {
		return w.note(err.Error())
	}
	return nil
}

func (w *promptWork) putLoopFile(text []byte) error {
	path := loopFile(w.job.Dir)
	if err := plainfile.Writable(w.job.Dir, path); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("write %s/state.json: %w", loopDir, err)
	}
	ignore := filepath.Join(filepath.Dir(path), ".gitignore")
	if _, err := os.Lstat(ignore); errors.Is(err, fs.ErrNotExist) {
		if err := atomicfile.Write(w.tools.FS, ignore, []byte(ignoreAll), 0o644); err != nil {
			return fmt.Errorf("write %s/.gitignore: %w", loopDir, err)
		}
	}
	if err := atomicfile.Write(w.tools.FS, path, text, 0o644); err != nil {
		return fmt.Errorf("write %s/state.json: %w", loopDir, err)
	}
	return nil
}

const ignoreAll = "*\n"

// endLoopFile removes the file where that was asked for, or where the loop was cancelled.
func (w *promptWork) endLoopFile(out *Outcome) error {
	if w.criteria() == nil {
		return nil
	}
	if err := w.writeLoopFile(); err != nil {
		return err
	}
	cancelled := false
	if asked, _ := w.home.Asked(w.state.ID); asked == RequestCancel {
		cancelled = out.Ending == journal.UserCancelled
	}
	if dropsLoopFile(*w.config, out.Ending.Final(), cancelled) {
		return removeLoopFile(w.job.Dir)
	}
	return nil
}

func dropsLoopFile(c Config, completed, cancelled bool) bool {
	return c.Gate == GateCriteria && (cancelled && c.LoopState != LoopStateKeep || completed && c.LoopState == LoopStateDelete)
}

// removeLoopFile removes the file, and the folder where nothing else is in it.
func removeLoopFile(dir string) error {
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
	if b, err := plainfile.Read(dir, ignore, 1<<10); err != nil || strings.TrimSpace(string(b)) != strings.TrimSpace(ignoreAll) {
		return nil
	}
	_ = os.Remove(ignore)             // an empty folder is left
	_ = os.Remove(filepath.Dir(path)) // behind at worst
	return nil
}
