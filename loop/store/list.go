package store

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"descartes/internal/atomicfile"
	"descartes/internal/plainfile"
	"descartes/tasks"
)

// Saved is one loop found on disk.
type Saved struct {
	Path     string // of the state file
	Archived bool
	State    *State
	Err      error // the file is unreadable; State is nil
}

// List finds every loop of a home, by name within each group: the default one, the named ones, the archived ones,
// then those with a state file elsewhere.
func (h Home) List() ([]Saved, error) {
	out := []Saved{}
	add := func(path string, archived bool) {
		read := h.Load
		if archived { // for good: it says all
			read = LoadState
		}
		s, err := read(path)
		if errors.Is(err, fs.ErrNotExist) {
			return
		}
		out = append(out, Saved{Path: path, Archived: archived, State: s, Err: err})
	}
	add(h.Default(), false)
	for _, dir := range []string{"loops", "archive"} {
		files, err := os.ReadDir(filepath.Join(string(h), dir))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("list runs: %w", err)
		}
		for _, f := range files {
			if filepath.Ext(f.Name()) == ".json" {
				add(filepath.Join(string(h), dir, f.Name()), dir == "archive")
			}
		}
	}
	return h.addElsewhere(out), nil
}

// elsewhere is the file that records the path of a loop's state file outside the home.
func (h Home) elsewhere(id string) string { return filepath.Join(h.Run(id), "state-file") }

// NoteState records where a loop's state file is, for List. The run's folder must exist.
func (h Home) NoteState(fsys atomicfile.FS, id, path string) error {
	if path == h.Default() || path == h.Named(id) || path == h.Archived(id) {
		return nil
	}
	path, err := filepath.Abs(path)
	if err == nil {
		err = atomicfile.Write(fsys, h.elsewhere(id), []byte(path+"\n"), 0o644)
	}
	if err != nil {
		return fmt.Errorf("note where the state file is: %w", err)
	}
	return nil
}

// addElsewhere adds the loops with a state file outside the home. It skips files that are missing or belong to
// another loop by now.
func (h Home) addElsewhere(out []Saved) []Saved {
	runs, _ := os.ReadDir(filepath.Dir(h.Run("x")))
	for _, run := range runs {
		b, err := plainfile.Read("", h.elsewhere(run.Name()), 1<<16)
		path := strings.TrimSuffix(string(b), "\n")
		if err != nil || !filepath.IsAbs(path) || slices.ContainsFunc(out,
			func(s Saved) bool { return s.Path == path }) {
			continue
		}
		s, err := h.Load(path)
		if errors.Is(err, fs.ErrNotExist) || err == nil && s.ID != run.Name() {
			continue
		}
		out = append(out, Saved{Path: path, State: s, Err: err})
	}
	return out
}

// Live returns who runs in this home, as the locks of the state files say.
func (h Home) Live() (live []Holder) {
	locks := []string{LockOf(h.Default())}
	named, _ := os.ReadDir(filepath.Join(string(h), "loops"))
	for _, f := range named {
		if filepath.Ext(f.Name()) == ".lock" {
			locks = append(locks, filepath.Join(string(h), "loops", f.Name()))
		}
	}
	runs, _ := os.ReadDir(filepath.Dir(h.Run("x")))
	for _, run := range runs {
		if b, err := plainfile.Read("", h.elsewhere(run.Name()), 1<<16); err == nil {
			locks = append(locks, LockOf(strings.TrimSuffix(string(b), "\n")))
		}
	}
	for _, path := range locks {
		if who, busy := Live(path); busy {
			live = append(live, who)
		}
	}
	return live
}

// Owner returns the live loop that a change of a task list would disturb: one over it, else one that uses the same task
// file or mirror.
func (h Home) Owner(file *tasks.File) (owner Holder, owned bool) {
	files, key := FilesOf(file), h.KeyOf(file)
	for _, who := range h.Live() {
		if who.List == key {
			return who, true
		}
		if slices.ContainsFunc(files, func(path string) bool { return slices.Contains(who.Files, path) }) {
			owner, owned = who, true
		}
	}
	return owner, owned
}

// FilesOf returns the files that a change of a task list writes to, the list and its mirror, with symbolic links
// resolved.
func FilesOf(file *tasks.File) []string {
	list := []string{file.Path()}
	if mirror, ok := file.Mirror(); ok {
		list = append(list, mirror.Path())
	}
	for i, path := range list {
		if real, err := filepath.EvalSymlinks(path); err == nil {
			list[i] = real
		}
	}
	return list
}

// Find returns the loop with that id, or nil. The error is that of its state file.
func (h Home) Find(id string) (*Saved, error) {
	all, err := h.List()
	if err != nil {
		return nil, err
	}
	for i := range all {
		s := &all[i]
		if s.State != nil && s.State.ID == id {
			return s, nil
		}
		if s.State == nil && (s.Path == h.Named(id) || s.Path == h.Archived(id)) {
			return nil, s.Err
		}
	}
	return nil, nil
}

// Last returns the live loop, else the most recent one, or nil. The error is that of an unreadable state file that
// hides it.
func (h Home) Last() (*Saved, error) {
	all, err := h.List()
	if err != nil {
		return nil, err
	}
	var found *Saved
	for i := range all {
		s := &all[i]
		if s.State == nil {
			if s.Path == h.Default() {
				return nil, s.Err
			}
			continue
		}
		if _, busy := Live(LockOf(s.Path)); busy {
			return s, nil
		}
		if found == nil || h.Active(s).After(h.Active(found)) {
			found = s
		}
	}
	return found, nil
}

// Active is when a loop last wrote to its journal.
func (h Home) Active(s *Saved) time.Time {
	if fi, err := os.Stat(filepath.Clean(h.Events(s.State.ID))); err == nil {
		return fi.ModTime()
	}
	return s.State.StartedAt
}

// IsLive reports whether a process runs the loop now.
func (h Home) IsLive(s Saved) bool {
	_, busy := Live(LockOf(s.Path))
	return busy
}

// Of finds the loops over a list, named by KeyOf, in the order in which they began.
func (h Home) Of(list string) ([]Saved, error) {
	return h.those(func(s *State) bool { return s.Key() == list })
}

func (h Home) those(are func(*State) bool) ([]Saved, error) {
	all, err := h.List()
	all = slices.DeleteFunc(all, func(s Saved) bool { return s.State == nil || s.State.Tag == "" || !are(s.State) })
	slices.SortStableFunc(all, func(a, b Saved) int { return a.State.StartedAt.Compare(b.State.StartedAt) })
	return all, err
}

// Unfinished finds the list's last loop that runs or can be resumed: killed, interrupted, paused or stopped by a limit.
func (h Home) Unfinished(list string) (*Saved, error) {
	all, err := h.Of(list)
	return unfinished(all), err
}

func unfinished(all []Saved) *Saved {
	for _, s := range slices.Backward(all) {
		if !s.Archived && !s.State.Completed {
			return &s
		}
	}
	return nil
}

// LastOf finds the list's last loop, however it ended.
func (h Home) LastOf(list string) (*Saved, error) {
	all, err := h.Of(list)
	if len(all) == 0 {
		return nil, err
	}
	return &all[len(all)-1], err
}

// OfTag finds the loop by which a tag says which list it means, where no file has it in its usual place: the last one
// over any list of that tag that runs or can be resumed, else the last one.
func (h Home) OfTag(tag string) (*Saved, error) {
	all, err := h.those(func(s *State) bool { return s.Tag == tag })
	if s := unfinished(all); s != nil || len(all) == 0 {
		return s, err
	}
	return &all[len(all)-1], err
}
