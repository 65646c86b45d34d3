package store

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"descartes/internal/atomicfile"
	"descartes/internal/plainfile"
)

// ValidID checks a loop's id: 1 to 64 of the letters a to z, digits and dashes.
func ValidID(id string) error {
	if len(id) < 1 || len(id) > 64 || strings.Trim(id, "abcdefghijklmnopqrstuvwxyz0123456789-") != "" {
		return fmt.Errorf("run name %q: use 1 to 64 of a-z, 0-9 and -", id)
	}
	return nil
}

// NewID draws an id that no loop of this home has.
func (h Home) NewID(command string) (string, error) {
	for range 100 {
		var b [2]byte
		if _, err := rand.Read(b[:]); err != nil {
			return "", fmt.Errorf("draw a run id: %w", err)
		}
		id := command + "-" + hex.EncodeToString(b[:])
		if !h.taken(id) {
			return id, nil
		}
	}
	return "", errors.New("draw a run id: none is free: clear out .descartes/archive and .descartes/runs")
}

func (h Home) taken(id string) bool {
	for _, p := range []string{h.Named(id), h.Archived(id), h.Run(id)} {
		if _, err := os.Lstat(p); err == nil {
			return true
		}
	}
	return false
}

// archive moves a finished loop's state out of the way.
func (h Home) archive(fsys atomicfile.FS, path string) error {
	s, err := LoadState(path)
	if err != nil || path == h.Archived(s.ID) {
		return err
	}
	if s.ID == "" { // written by another program
		id, err := h.NewID("loop")
		if err != nil {
			return err
		}
		s.ID = id
	}
	if err := atomicfile.Clean(fsys, h.Archived(s.ID)); err != nil {
		return fmt.Errorf("archive %s: %w", path, err)
	}
	if err := s.Save(fsys, h.Archived(s.ID)); err != nil {
		return err
	}
	if err := fsys.Remove(path); err != nil {
		return fmt.Errorf("archive %s: %w", path, err)
	}
	return nil
}

// LockIDs locks the choice of id and state file, until both are on disk.
func (h Home) LockIDs(ctx context.Context, who Holder) (*Lock, error) {
	return TakeLock(ctx, LockOf(h.ids()), idsWait, who)
}

// FreeID is a new loop's id: the name asked for, or one drawn that begins with the command. The caller holds the lock
// of the ids.
func (h Home) FreeID(name, command string) (string, error) {
	if err := h.clearUnbegun(); err != nil {
		return "", err
	}
	if name == "" {
		return h.NewID(command)
	}
	if err := ValidID(name); err != nil {
		return "", err
	}
	if h.taken(name) {
		return "", fmt.Errorf("a run named %q exists: descartes status --all shows it; choose another name", name)
	}
	return name, nil
}

// clearUnbegun removes what is left of runs that were killed before they wrote down that they begin: nobody can resume
// them, and they would keep their names. The caller holds the lock of the ids, under which a run is made.
func (h Home) clearUnbegun() error {
	runs, err := os.ReadDir(filepath.Dir(h.Run("x")))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, run := range runs {
		id := run.Name()
		if fi, err := os.Lstat(h.Events(id)); err == nil && fi.Size() > 0 {
			continue
		}
		s, gerr := LoadState(h.givenFile(id))
		if gerr == nil && (s.Host != Hostname() || !gone(Holder{PID: s.PID})) {
			continue // it is about to begin
		}
		if gerr == nil || errors.Is(gerr, fs.ErrNotExist) {
			err = errors.Join(err, h.Unmake(id))
		}
	}
	if err != nil {
		return fmt.Errorf("remove what killed runs left: %w", err)
	}
	return nil
}

// Unmake removes the folder of a run that never began, if nothing was logged there.
func (h Home) Unmake(id string) error {
	logs, err := os.ReadDir(filepath.Join(h.Run(id), "logs"))
	if len(logs) > 0 || err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return plainfile.RemoveAll(h.Run(id))
}

// FreePath is a new loop's state file: the path asked for, the one for its name, or the default one, from which a
// finished loop is archived first. The caller holds the lock of the ids.
func (h Home) FreePath(fsys atomicfile.FS, id, name, asked string) (string, error) {
	path := asked
	if path == "" && name != "" {
		return h.Named(id), nil
	}
	if path == "" {
		path = h.Default()
	}
	_, busy := Live(LockOf(path))
	old, err := h.Load(path)
	switch {
	case errors.Is(err, fs.ErrNotExist) && !busy:
		return path, nil
	case err != nil && !busy:
		return "", err
	}
	if busy || !old.Completed {
		if asked != "" {
			who, what := "a run", "can be resumed"
			if old != nil {
				who = "run " + old.ID
			}
			if busy {
				what = "is running"
			}
			return "", fmt.Errorf("%s belongs to %s, which %s", path, who, what)
		}
		return h.Named(id), nil
	}
	return path, h.archive(fsys, path)
}

// ArchiveEnded archives the state files of named prompt loops that have ended; a tag loop can still be resumed to
// retry its blocked tasks. The caller holds the lock of the ids. but is its own state file, which stays.
func (h Home) ArchiveEnded(fsys atomicfile.FS, but string) error {
	all, err := h.List()
	if err != nil {
		return err
	}
	for _, s := range all {
		if s.State == nil || s.Archived || s.State.Kind == KindTag || !s.State.Completed || s.Path == but ||
			s.Path != h.Named(s.State.ID) {
			continue
		}
		if _, busy := Live(LockOf(s.Path)); busy {
			continue
		}
		if err := h.archive(fsys, s.Path); err != nil {
			return err
		}
	}
	return nil
}

// idsWait is how long a start waits for others that choose their ids: each takes a few file syncs.
const idsWait = 60 * time.Second
