package loop

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"descartes/internal/atomicfile"
	"descartes/internal/plainfile"
	"descartes/loop/workspace"
)

// Home is the folder .descartes of a project: every file of every loop, ignored by git.
type Home string

// NewHome names the folder of the project at root. It makes nothing.
func NewHome(root string) Home { return Home(filepath.Join(root, ".descartes")) }

// Default is the state file of the loop started without a name.
func (h Home) Default() string { return filepath.Join(string(h), "loop-state.json") }

// Named is the state file of a loop of that id that is not the default one.
func (h Home) Named(id string) string { return filepath.Join(string(h), "loops", id+".json") }

// Archived is where the state of a finished loop is kept.
func (h Home) Archived(id string) string { return filepath.Join(string(h), "archive", id+".json") }

// Run is the folder of a loop's journal and logs.
func (h Home) Run(id string) string { return filepath.Join(string(h), "runs", id) }

// Events is the journal of a loop.
func (h Home) Events(id string) string { return filepath.Join(h.Run(id), "events.ndjson") }

// Log is the output of one attempt's agent and verification.
func (h Home) Log(id, task string, attempt int) string {
	return filepath.Join(h.Run(id), "logs", fmt.Sprintf("%s-%d.log", fileName(task), attempt))
}

// TurnLog is the output of one iteration's agent and verification; a repeated iteration has several.
func (h Home) TurnLog(id string, iteration, try int) string {
	name := fmt.Sprintf("iteration-%d.log", iteration)
	if try > 1 {
		name = fmt.Sprintf("iteration-%d.%d.log", iteration, try)
	}
	return filepath.Join(h.Run(id), "logs", name)
}

// LogOf is the output of one attempt at a task, or of one time that an iteration was run.
func (h Home) LogOf(s *State, what string, attempt int) string {
	if n, err := strconv.Atoi(what); err == nil && s.Kind != KindTag {
		return h.TurnLog(s.ID, n, attempt)
	}
	return h.Log(s.ID, what, attempt)
}

func (h Home) control(id string) string { return filepath.Join(h.Run(id), "control") }
func (h Home) tree() string             { return filepath.Join(string(h), "tree") }
func (h Home) ids() string              { return filepath.Join(string(h), "loops") }
func lockOf(path string) string         { return path + ".lock" }

// Settings keeps what the last run found in the project's settings files.
func (h Home) Settings() string { return filepath.Join(string(h), "settings.json") }

// ExitFile holds how the last process of a loop ended.
func (h Home) ExitFile(id string) string { return filepath.Join(h.Run(id), "exit.json") }

// settings holds git's configuration and hooks as they stood before the attempt under way.
func (h Home) settings(id string) string { return filepath.Join(h.Run(id), "git-settings.json") }

// keptSettings reads that file; nil where there is none to trust.
func (h Home) keptSettings(id string) []byte {
	b, err := plainfile.Read(string(h), h.settings(id), 16<<20)
	if err != nil {
		return nil
	}
	return b
}

// sound refuses a home in which something lies that we never put there: a link would lead what we write elsewhere.
func (h Home) sound() error {
	odd := func(path string, m fs.FileMode) error {
		if m.IsDir() || m.IsRegular() {
			return nil
		}
		return &StateError{path, "it is neither a file nor a folder: remove it"}
	}
	if fi, err := os.Lstat(string(h)); err == nil {
		if err := odd(string(h), fi.Mode()); err != nil {
			return err
		}
	}
	entries, _ := os.ReadDir(string(h))
	for _, e := range entries {
		dir := filepath.Join(string(h), e.Name())
		if dir == workspace.Objects(filepath.Dir(string(h))) { // slots read through it, and OpenSlot sees to where it leads
			continue
		}
		if err := odd(dir, e.Type()); err != nil {
			return err
		}
		if !e.IsDir() {
			continue
		}
		inner, _ := os.ReadDir(dir)
		for _, i := range inner {
			if err := odd(filepath.Join(dir, i.Name()), i.Type()); err != nil {
				return err
			}
		}
	}
	return nil
}

// Make creates the folder and has it ignored by git from within. While a loop may start, the caller holds the lock.
func (h Home) Make(fsys atomicfile.FS) error {
	if err := h.sound(); err != nil {
		return err
	}
	if err := os.MkdirAll(string(h), 0o755); err != nil {
		return fmt.Errorf("make %s: %w", h, err)
	}
	ignore := filepath.Join(string(h), ".gitignore")
	if _, err := atomicfile.Clean(fsys, ignore); err != nil {
		return fmt.Errorf("make %s: %w", h, err)
	}
	if b, err := plainfile.Read("", ignore, 1<<10); err == nil && strings.TrimSpace(string(b)) == "*" {
		return nil
	}
	if err := atomicfile.Write(fsys, ignore, []byte("*\n"), 0o644); err != nil {
		return fmt.Errorf("make %s: %w", h, err)
	}
	return nil
}

// ValidID says whether id may name a loop: letters a to z, digits and dashes, 1 to 64 of them.
func ValidID(id string) error {
	if len(id) < 1 || len(id) > 64 || strings.Trim(id, "abcdefghijklmnopqrstuvwxyz0123456789-") != "" {
		return fmt.Errorf("loop name %q: use 1 to 64 of a-z, 0-9 and -", id)
	}
	return nil
}

// newID draws an id that no loop of this home has.
func (h Home) newID(command string) (string, error) {
	for range 100 {
		var b [2]byte
		if _, err := rand.Read(b[:]); err != nil {
			return "", fmt.Errorf("draw a loop id: %w", err)
		}
		id := command + "-" + hex.EncodeToString(b[:])
		if !h.taken(id) {
			return id, nil
		}
	}
	return "", errors.New("draw a loop id: none is free, clear out .descartes/archive and .descartes/runs")
}

func (h Home) taken(id string) bool {
	for _, p := range []string{h.Named(id), h.Archived(id), h.Run(id)} {
		if _, err := os.Lstat(p); err == nil {
			return true
		}
	}
	return false
}

// fileName is a task id as one component of a path or of a ref, whatever it holds. Different ids
// have different names.
func fileName(id string) string {
	var b strings.Builder
	for i := range len(id) {
		c := id[i]
		word := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '_'
		inner := c == '.' && i > 0 && i+1 < len(id) && id[i-1] != '.' && !strings.HasPrefix(id[i:], ".lock")
		if word || inner {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "%%%02x", c)
		}
	}
	return b.String()
}

// StartRef keeps what the user had not committed when a loop started.
func StartRef(id string) string { return "refs/descartes/" + id + "/start" }

// RefPrefix is where the kept attempts of a task lie.
func RefPrefix(id, task string) string { return "refs/descartes/" + id + "/" + fileName(task) + "/" }

// Saved is one loop found on disk.
type Saved struct {
	Path     string // of the state file
	Archived bool
	State    *State
	Err      error // the file cannot be read; State is nil
}

// List finds every loop of a home: the default one, the named ones, the archived ones, then those whose
// state file lies elsewhere, each group by name.
func (h Home) List() ([]Saved, error) {
	out := []Saved{}
	add := func(path string, archived bool) {
		s, err := LoadState(path)
		if errors.Is(err, fs.ErrNotExist) {
			return
		}
		out = append(out, Saved{Path: path, Archived: archived, State: s, Err: err})
	}
	add(h.Default(), false)
	for _, dir := range []string{"loops", "archive"} {
		files, err := os.ReadDir(filepath.Join(string(h), dir))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("list loops: %w", err)
		}
		for _, f := range files {
			if filepath.Ext(f.Name()) == ".json" {
				add(filepath.Join(string(h), dir, f.Name()), dir == "archive")
			}
		}
	}
	return h.addElsewhere(out), nil
}

// elsewhere names the file that says where a loop's state file lies, if not in the home.
func (h Home) elsewhere(id string) string { return filepath.Join(h.Run(id), "state-file") }

// note writes down where a loop's state file lies, for List to find it. The run's folder is there.
func (h Home) note(fsys atomicfile.FS, id, path string) error {
	if path == h.Default() || path == h.Named(id) || path == h.Archived(id) {
		return nil
	}
	path, err := filepath.Abs(path)
	if err == nil {
		err = atomicfile.Write(fsys, h.elsewhere(id), []byte(path+"\n"), 0o644)
	}
	if err != nil {
		return fmt.Errorf("note where the state file lies: %w", err)
	}
	return nil
}

// addElsewhere adds the loops whose state file does not lie in the home. A file that is another loop's by now
// is left out, and one that is gone.
func (h Home) addElsewhere(out []Saved) []Saved {
	runs, _ := os.ReadDir(filepath.Dir(h.Run("x")))
	for _, run := range runs {
		b, err := plainfile.Read("", h.elsewhere(run.Name()), 1<<16)
		path := strings.TrimSuffix(string(b), "\n")
		if err != nil || !filepath.IsAbs(path) || slices.ContainsFunc(out, func(s Saved) bool { return s.Path == path }) {
			continue
		}
		s, err := LoadState(path)
		if errors.Is(err, fs.ErrNotExist) || err == nil && s.ID != run.Name() {
			continue
		}
		out = append(out, Saved{Path: path, State: s, Err: err})
	}
	return out
}

// archive moves the state of a loop that is over out of the way.
func (h Home) archive(fsys atomicfile.FS, s *State, path string) error {
	if path == h.Archived(s.ID) {
		return nil
	}
	if s.ID == "" { // of another program
		id, err := h.newID("loop")
		if err != nil {
			return err
		}
		named := *s
		named.ID, s = id, &named
	}
	if _, err := atomicfile.Clean(fsys, h.Archived(s.ID)); err != nil {
		return fmt.Errorf("archive %s: %w", path, err)
	}
	if err := s.save(fsys, h.Archived(s.ID)); err != nil {
		return err
	}
	if err := fsys.Remove(path); err != nil {
		return fmt.Errorf("archive %s: %w", path, err)
	}
	return nil
}
