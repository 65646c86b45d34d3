// Package store owns the files of a project's folder .descartes: their paths, locks and references, the loops that
// are listed, archived and cleaned up there, the answers of people, and what another terminal asks of a loop.
package store

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"descartes/internal/atomicfile"
	"descartes/internal/plainfile"
	"descartes/internal/redact"
	"descartes/internal/safename"
	"descartes/loop/slot"
)

// MaxFile limits, in bytes, what is read of our own files.
const MaxFile = 64 << 20

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

// NamedLog is one of a loop's logs: baseline, checks, integration, setup-1, ...
func (h Home) NamedLog(id, name string) string { return filepath.Join(h.Run(id), "logs", name+".log") }

// Log is the log of one attempt: agent and verification.
func (h Home) Log(id, task string, attempt int) string {
	return h.NamedLog(id, fmt.Sprintf("%s-%d", safename.Of(task), attempt))
}

// IterationLog is the log of one iteration: agent and verification. A repeated iteration has several.
func (h Home) IterationLog(id string, iteration, try int) string {
	name := fmt.Sprintf("iteration-%d", iteration)
	if try > 1 {
		name += fmt.Sprintf(".%d", try)
	}
	return h.NamedLog(id, name)
}

// KeptPrompt is the file with the prompt of an iteration.
func (h Home) KeptPrompt(id string, iteration, try int) string {
	return filepath.Join(h.Run(id), "specs", fmt.Sprintf("iteration-%d-%d.md", iteration, try))
}

// SlotFiles holds the prompt of the attempt under way in a slot of that pool; 0 is a folder without git.
func (h Home) SlotFiles(pool, id string, number int) string {
	if number == 0 {
		return h.Run(id)
	}
	return slot.SlotFiles(pool, number, id)
}

// Private holds what only a person may see of a loop, never an agent. Other users cannot open its folders.
func (h Home) Private(id string) string { return filepath.Join(string(h), "private", id) }

// HeldOutLog is the log of the held-out checks for the attempt with that log.
func (h Home) HeldOutLog(id, log string) string {
	return filepath.Join(h.Private(id), filepath.Base(log))
}

func (h Home) control(id string) string { return filepath.Join(h.Run(id), "control") }
func (h Home) ids() string              { return filepath.Join(string(h), "loops") }

// LoopFileLock is held by the loop that writes .loop/state.json.
func (h Home) LoopFileLock() string { return filepath.Join(string(h), "loop-file.lock") }

// Receipts holds copies of the receipts in git's notes, one file per commit.
func (h Home) Receipts() string { return filepath.Join(string(h), "receipts") }

// Recheck holds the files and the log of descartes recheck.
func (h Home) Recheck() string { return filepath.Join(string(h), "recheck") }

// Breakdown holds the prompt, the log and the answer of descartes tasks plan.
func (h Home) Breakdown() string { return filepath.Join(string(h), "breakdown") }

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
	if err := atomicfile.Clean(fsys, ignore); err != nil {
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

// Relative is a path the way a person in the project's folder would type it.
func Relative(root, path string) string {
	if rel, err := filepath.Rel(root, path); err == nil && rel != ".." &&
		!strings.HasPrefix(rel, ".."+string(filepath.Separator)) {
		return rel
	}
	return path
}

// Mask overwrites secrets in all logs of a run: the process that was to do so may have been killed.
func (h Home) Mask(id string, secrets *redact.Redactor) (err error) {
	for _, dir := range []string{filepath.Join(h.Run(id), "logs"), h.Private(id)} {
		walked := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err == nil && d.Type().IsRegular() && filepath.Ext(path) == ".log" {
				_, err = secrets.Log(path, 0, 0)
			}
			return err
		})
		if !errors.Is(walked, fs.ErrNotExist) {
			err = errors.Join(err, walked)
		}
	}
	return err
}
