package loop

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"descartes/gitops"
	"descartes/internal/atomicfile"
	"descartes/internal/plainfile"
	"descartes/loop/journal"
	"descartes/loop/workspace"
	"descartes/tasks"
)

// Home is a project's folder .descartes: all files of all loops, ignored by git.
type Home string

// NewHome returns the folder of the project at root. It creates nothing.
func NewHome(root string) Home { return Home(filepath.Join(root, ".descartes")) }

// Default is the state file of the loop started without a name.
func (h Home) Default() string { return filepath.Join(string(h), "loop-state.json") }

// Named is the state file of any other loop.
func (h Home) Named(id string) string { return filepath.Join(string(h), "loops", id+".json") }

// Archived is the state file of a finished loop.
func (h Home) Archived(id string) string { return filepath.Join(string(h), "archive", id+".json") }

// Run is the folder of a loop's journal and logs.
func (h Home) Run(id string) string { return filepath.Join(string(h), "runs", id) }

// Events is the journal of a loop.
func (h Home) Events(id string) string { return filepath.Join(h.Run(id), "events.ndjson") }

// Log is the log of one attempt: agent and verification.
func (h Home) Log(id, task string, attempt int) string {
	return filepath.Join(h.Run(id), "logs", fmt.Sprintf("%s-%d.log", FileName(task), attempt))
}

// IterationLog is the log of one iteration: agent and verification. A repeated iteration has several.
func (h Home) IterationLog(id string, iteration, try int) string {
	name := fmt.Sprintf("iteration-%d.log", iteration)
	if try > 1 {
		name = fmt.Sprintf("iteration-%d.%d.log", iteration, try)
	}
	return filepath.Join(h.Run(id), "logs", name)
}

// slotFiles holds the prompt of the attempt under way in a slot of that pool; 0 is a folder without git.
func (h Home) slotFiles(pool, id string, slot int) string {
	if slot == 0 {
		return h.Run(id)
	}
	return workspace.SlotFiles(pool, slot, id)
}

// private holds what only a person may see of a loop, never an agent. Other users cannot open its folders.
func (h Home) private(id string) string { return filepath.Join(string(h), "private", id) }

// HeldOutLog is the log of the held-out checks for the attempt with that log.
func (h Home) HeldOutLog(id, log string) string {
	return filepath.Join(h.private(id), filepath.Base(log))
}

func (h Home) control(id string) string { return filepath.Join(h.Run(id), "control") }
func (h Home) tree() string             { return filepath.Join(string(h), "tree") }
func (h Home) ids() string              { return filepath.Join(string(h), "loops") }
func lockOf(path string) string         { return path + ".lock" }

// Settings records what the last run found in the project's settings files.
func (h Home) Settings() string { return filepath.Join(string(h), "settings.json") }

// Receipts holds copies of the receipts in git's notes, one file per commit.
func (h Home) Receipts() string { return filepath.Join(string(h), "receipts") }

// Recheck holds the files and the log of descartes recheck.
func (h Home) Recheck() string { return filepath.Join(string(h), "recheck") }

// Breakdown holds the prompt, the log and the answer of descartes tasks plan.
func (h Home) Breakdown() string { return filepath.Join(string(h), "breakdown") }

// settings is a copy of git's configuration and hooks from before the attempt under way.
func (h Home) settings(id string) string { return filepath.Join(h.Run(id), "git-settings.json") }

// sound rejects a home that contains something we never put there: a link would redirect what we write.
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

// Make creates the folder and makes git ignore it. If a loop may be starting, the caller holds the lock.
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

// ValidID checks a loop's id: 1 to 64 of the letters a to z, digits and dashes.
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
	return "", errors.New("draw a loop id: none is free: clear out .descartes/archive and .descartes/runs")
}

func (h Home) taken(id string) bool {
	for _, p := range []string{h.Named(id), h.Archived(id), h.Run(id)} {
		if _, err := os.Lstat(p); err == nil {
			return true
		}
	}
	return false
}

// FileName turns any task id into one component of a path or a ref. Different ids give different names.
func FileName(id string) string {
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

// RefPrefix is the prefix of the refs that keep a task's attempts.
func RefPrefix(id, task string) string {
	return "refs/descartes/" + id + "/tasks/" + FileName(task) + "/"
}

// Saved is one loop found on disk.
type Saved struct {
	Path     string // of the state file
	Archived bool
	State    *State
	Err      error // the file is unreadable; State is nil
}

// List finds every loop of a home, by name within each group: the default one, the named ones, the archived ones, then those with a state file
// elsewhere.
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

// elsewhere is the file that records the path of a loop's state file outside the home.
func (h Home) elsewhere(id string) string { return filepath.Join(h.Run(id), "state-file") }

// note records where a loop's state file is, for List. The run's folder must exist.
func (h Home) note(fsys atomicfile.FS, id, path string) error {
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

// addElsewhere adds the loops with a state file outside the home. It skips files that are missing or belong to another loop by now.
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

// archive moves a finished loop's state out of the way.
func (h Home) archive(fsys atomicfile.FS, s *State, path string) error {
	if path == h.Archived(s.ID) {
		return nil
	}
	if s.ID == "" { // written by another program
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

// View is a loop as its journal describes it, however old its state file is.
type View struct {
	Path    string         // of the state file
	State   State          // what the state file would contain now
	History *journal.State // from the journal
	Live    bool
	Asked   Request // what another terminal asked of it, if it is live
	Now     bool    // and whether at once

	Changes map[string]tasks.Status // status changes that the task file may not show yet
}

// View combines a loop's state with its journal. file, which may be nil, is the loop's task list: it decides whether ids are numbers. View changes
// nothing.
func (h Home) View(s Saved, file *tasks.File) (View, error) {
	v := View{Path: s.Path, State: *s.State, History: journal.NewState()}
	if _, v.Live = live(lockOf(s.Path)); v.Live {
		v.Asked, v.Now = h.Asked(s.State.ID)
	}
	b, err := journal.Load(h.Events(s.State.ID))
	if err != nil || b.Seq == 0 {
		return v, err
	}
	v.History = b
	v.Changes = map[string]tasks.Status{}
	for id, st := range b.TakeChanges(s.State.Seq) {
		v.Changes[id] = tasks.Status(st)
	}
	fill(&v.State, b, func(id string) TaskID {
		if file == nil {
			return TaskID{ID: id}
		}
		t, ok := file.Task(id)
		return TaskID{ID: id, Numeric: ok && t.Numeric}
	})
	v.State.Seq = b.Seq
	return v, nil
}

// Live returns the loop that runs in the working tree of this home.
func (h Home) Live() (Holder, bool) { return live(lockOf(h.tree())) }

// Owner returns the live loop that a change of a task list would disturb: one over its tag, or one that uses the same task file or mirror.
func (h Home) Owner(file *tasks.File) (Holder, bool) {
	who, busy := h.Live()
	if !busy {
		return who, false
	}
	mine := func(path string) bool { return slices.Contains(who.Files, path) }
	return who, who.Tag == file.Tag() || len(who.Files) == 0 || slices.ContainsFunc(filesOf(file), mine)
}

// filesOf returns the files that a change of a task list writes to, the list and its mirror, with symbolic links resolved.
func filesOf(file *tasks.File) []string {
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

// CatchUp writes into the task file what the tag's dead loops recorded in their journals but not there.
func (h Home) CatchUp(ctx context.Context, fsys atomicfile.FS, file *tasks.File, now func() time.Time) error {
	all, err := h.List()
	if err != nil {
		return err
	}
	for _, s := range all {
		if s.State == nil || s.Archived || s.State.Tag != file.Tag() {
			continue
		}
		if err := h.catchUp(ctx, fsys, s, file, now); err != nil {
			return err
		}
	}
	return nil
}

func (h Home) catchUp(ctx context.Context, fsys atomicfile.FS, s Saved, file *tasks.File, now func() time.Time) (err error) {
	lk, err := takeLock(ctx, lockOf(s.Path), lockWait, Holder{PID: os.Getpid(), Host: hostname(), Loop: s.State.ID, Tag: s.State.Tag, At: now()})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lk.release()) }()
	v, err := h.View(s, file)
	if err != nil {
		return err
	}
	for id := range v.Changes {
		if _, ok := file.Task(id); !ok { // deleted since
			delete(v.Changes, id)
		}
	}
	if len(v.Changes) == 0 {
		return nil
	}
	file.SetReplace(atomicfile.Replacer(fsys))
	if err := file.Save(v.Changes); err != nil {
		return fmt.Errorf("save task file: %w", err)
	}
	return v.State.save(fsys, s.Path)
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

// Last returns the live loop, else the most recent one, or nil. The error is that of an unreadable state file that hides it.
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
		if _, busy := live(lockOf(s.Path)); busy {
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

// fill copies what the journal says into a state.
func fill(s *State, h *journal.State, id func(string) TaskID) {
	s.Iteration, s.IterationCount = h.Iteration, h.Iteration
	s.CurrentWave, s.CurrentTask = h.Wave, h.Current
	s.Tree = h.Tree
	s.Noticed = slices.Clone(h.Noticed)
	s.Grades, s.Checks, s.Flaky = nil, slices.Clone(h.Checks), slices.Clone(h.Flaky[:min(len(h.Flaky), maxLeft)])
	if len(h.Grades) > 0 {
		s.Grades = maps.Clone(h.Grades)
	}
	if !h.Started.IsZero() { // otherwise the journal begins with the resume of a state file that had none
		s.StartedAt = h.Started
	}
	s.WaveCommits, s.BlockedTasks = []WaveCommit{}, []Blocked{}
	for _, e := range h.WaveCommits {
		w := WaveCommit{Wave: e.Wave, Hash: e.Commit, Timestamp: e.At}
		for _, t := range e.Tasks {
			w.Tasks = append(w.Tasks, id(t))
		}
		s.WaveCommits = append(s.WaveCommits, w)
	}
	for _, e := range h.Blocked {
		s.BlockedTasks = append(s.BlockedTasks, Blocked{Task: id(e.Task), Title: e.Title, Reason: e.Reason, Question: e.Question, Denied: e.Denied, Attempts: e.Attempts, At: e.At})
	}
	if h.Cost.Runs > 0 {
		cost := h.Cost
		s.Cost = &cost
	}
	s.Agents = slices.Clone(h.Agents)
	s.Gate = h.Prompt.Gate
	s.Completed, s.ExitReason = false, ExitReason{Type: "running"}
	if f := h.Finished; f != nil {
		s.ExitReason = ExitReason{Type: string(f.Ending), Message: f.Message}
		s.Completed = f.Ending.Final() || f.Ending == journal.BaselineFails && h.Iteration == 0 // nothing is left to resume
		s.CurrentTask = ""
	}
}

// NextSpec returns what the journal says for the spec of a task's next attempt, or of the attempt with that number: the failure before it, and what
// earlier tasks had delivered by then. The next attempt at a blocked task is the one --retry-blocked makes; any other attempt after a loop's end
// belongs to a new loop, which knows the refs of earlier ones. With an empty id it is the first attempt of the tag's first loop here.
func (h Home) NextSpec(id, tag, task string, attempt int, refs []gitops.Ref) (r SpecRequest, err error) {
	defer func() { r.tellEarlier(refs, tag, id) }()
	if id == "" {
		return SpecRequest{Task: task, Attempt: attempt}, nil
	}
	events, err := journal.ReadEvents(h.Events(id))
	if err != nil {
		return SpecRequest{Task: task, Attempt: attempt}, err
	}
	b := journal.NewState()
	for i := range events {
		e := &events[i]
		if e.Type == journal.AttemptStarted && e.Task == task && e.Attempt == attempt {
			r := request(b, task)
			r.Attempt, r.Of, r.Before = cmp.Or(e.Round, e.Attempt), e.Of, e.TS
			return r, nil
		}
		b.Apply(e)
	}
	r = request(b, task)
	switch {
	case slices.ContainsFunc(b.Blocked, func(t journal.BlockedTask) bool { return t.Task == task }):
		r.Counted = 0
	case b.Finished != nil && b.Finished.Ending.Final():
		r, id = SpecRequest{Task: task, Attempt: 1}, ""
	}
	if more := attempt - r.Attempt; more > 0 {
		r.Attempt, r.Counted, r.Failure = attempt, r.Counted+more, nil
	}
	return r, nil
}

// request returns what a task's next attempt learns from earlier ones.
func request(h *journal.State, task string) SpecRequest {
	r := SpecRequest{Task: task, Attempt: h.Begun[task] + 1, Counted: h.Counted[task], Delivered: func(id string) string { return h.Delivered[id] }}
	if f, ok := h.Failures[task]; ok {
		r.Failure = failure(f)
	}
	if f, ok := h.CutShort[task]; ok {
		r.Cut = failure(f)
	}
	for _, name := range slices.Sorted(maps.Keys(h.Known)) {
		if k := h.Known[name]; k.Failed {
			r.Known = append(r.Known, k.Fails()...)
		}
	}
	return r
}

// IsLive reports whether a process runs the loop now.
func (h Home) IsLive(s Saved) bool {
	_, busy := live(lockOf(s.Path))
	return busy
}
