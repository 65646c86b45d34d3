package store

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"descartes/internal/atomicfile"
	"descartes/internal/plainfile"
	"descartes/loop/journal"
)

// given are the members of a state that no event has: what a loop was given, and what a state of another program that
// it goes on from knows of earlier times.
var given = []string{"version", "id", "kind", "config", "started_at", "tag", "list", "list_on", "scope", "total_waves", "tasks_completed",
	"tasks_total", "task_file", "plan_entries", "session_id", "pid", "host", "iteration_summaries"}

// givenFile has them. It is written whenever a run of the loop begins, under the loop's lock.
func (h Home) givenFile(id string) string { return filepath.Join(h.Run(id), "run.json") }

// listed is the file with the number of the event up to which the task file is complete. Later statuses are written by
// whoever goes on with the loop; earlier ones may have been changed by a person since.
func (h Home) listed(id string) string { return filepath.Join(h.Run(id), "listed") }

// Give saves what a run of a loop is given. The run's folder must exist.
func (h Home) Give(fsys atomicfile.FS, s *State) error {
	b, err := s.encode(given)
	if err == nil {
		err = atomicfile.Write(fsys, h.givenFile(s.ID), b, 0o600)
	}
	if err != nil {
		return fmt.Errorf("save what the run is given: %w", err)
	}
	return nil
}

// Tidy removes what a killed run of a loop left half written: its state file, which is at path, and those in its folder.
// The caller holds the loop's lock.
func (h Home) Tidy(fsys atomicfile.FS, id, path string) error {
	for _, file := range []string{path, h.givenFile(id), h.listed(id), h.elsewhere(id)} {
		if err := atomicfile.Clean(fsys, file); err != nil {
			return fmt.Errorf("remove what is half written of %s: %w", file, err)
		}
	}
	return nil
}

// Listed notes that the task file of a loop includes all events up to one.
func (h Home) Listed(fsys atomicfile.FS, id string, seq int64) error {
	err := os.MkdirAll(h.Run(id), 0o755)
	if err == nil {
		err = atomicfile.Write(fsys, h.listed(id), strconv.AppendInt(nil, seq, 10), 0o600)
	}
	if err != nil {
		return fmt.Errorf("note what the task file includes: %w", err)
	}
	return nil
}

// Load returns the loop with a state file: what it was given, and how it ended, as its journal says; View knows the
// rest. If the file is missing, errors.Is(err, fs.ErrNotExist).
func (h Home) Load(path string) (*State, error) {
	s, err := LoadState(path)
	if err != nil || s.ID == "" {
		return s, err
	}
	last, err := journal.Last(h.Events(s.ID))
	ours, gerr := LoadState(h.givenFile(s.ID))
	// another program wrote it, or an earlier version; or it is all that is left
	if errors.Is(gerr, fs.ErrNotExist) || errors.Is(err, fs.ErrNotExist) {
		return s, nil
	}
	if err = errors.Join(gerr, err); err != nil {
		return nil, err
	}
	if b, err := plainfile.Read("", h.listed(s.ID), 1<<10); err == nil {
		ours.Seq, _ = strconv.ParseInt(strings.TrimSpace(string(b)), 10, 64)
	}
	if ours.ends(nil, 0); last != nil {
		ours.Iteration = last.Counted()
		ours.ends(last.End(), ours.Iteration)
	}
	return ours, nil
}

// Given is the file with the settings of a loop.
func (h Home) Given(s *Saved) string {
	if _, err := os.Lstat(h.givenFile(s.State.ID)); err == nil {
		return h.givenFile(s.State.ID)
	}
	return s.Path
}

// ends sets how the last run ended; nil: it has not. counted are the attempts or iterations by then.
func (s *State) ends(end *journal.End, counted int) {
	s.Completed, s.ExitReason = false, ExitReason{Type: "running"}
	if end != nil {
		s.ExitReason = ExitReason{Type: string(end.Ending), Message: end.Message}
		// nothing is left to resume
		s.Completed = end.Ending.Final() || end.Ending == journal.BaselineFails && counted == 0
	}
}
