// Package book is what a run writes down: the journal, what people read of it, and the state file, a snapshot of both.
// Lines of the journal may carry an event of the machine that decides what a run does next.
package book

import (
	"errors"
	"path/filepath"

	"descartes/internal/redact"
	"descartes/loop"
	"descartes/loop/journal"
	"descartes/loop/store"
)

// Book is that of one run. Only the goroutine that decides uses it.
type Book struct {
	Journal *journal.Journal
	History *journal.State
	Redact  *redact.Redactor
	Observe func(journal.Event)
	State   *store.State // what does not change during the run
	Own     *OwnState
	Root    string                       // of the project
	TaskID  func(id string) store.TaskID // a task's id as its list has it
	// takes the new statuses that lines give tasks, before these are announced; nil: there is no list
	Changes func(map[string]string) error
}

// Write appends lines in one write, and announces them once they are on disk.
func (b *Book) Write(lines ...*journal.Event) error {
	if len(lines) == 0 {
		return nil
	}
	for _, e := range lines {
		loop.RedactEvent(b.Redact, e)
	}
	if err := b.Journal.Append(lines...); err != nil {
		return err
	}
	for _, e := range lines {
		b.History.Apply(e)
	}
	if changes := b.History.TakeChanges(0); b.Changes != nil && len(changes) > 0 {
		if err := b.Changes(changes); err != nil {
			return err
		}
	}
	for _, e := range lines {
		if b.Observe != nil {
			b.Observe(*e)
		}
	}
	return nil
}

// Begun reports whether anything was written down.
func (b *Book) Begun() bool { return b.Journal != nil && b.Journal.Seq() > 0 }

// Close closes the journal. A run that never began, as it was refused, leaves no folder that would keep its name from
// the next one.
func (b *Book) Close() error {
	if b.Journal == nil {
		return nil
	}
	err := b.Journal.Close()
	if !b.Begun() {
		err = errors.Join(err, store.NewHome(b.Root).Unmake(b.State.ID))
	}
	return err
}

// Snapshot is the run as its state file shows it now.
func (b *Book) Snapshot() *store.State {
	s := *b.State
	store.Fill(&s, b.History, b.TaskID)
	s.Seq = b.Journal.Seq()
	return &s
}

// Relative shows a path as a person in the project's folder would type it.
func (b *Book) Relative(path string) string { return Relative(b.Root, path) }

// Relative shows a path as a person in a folder would type it.
func Relative(root, path string) string {
	if rel, err := filepath.Rel(root, path); err == nil {
		return rel
	}
	return path
}

// Warning is a line that a person should read.
func Warning(unit journal.Unit, text string) *journal.Event {
	return &journal.Event{Type: journal.Warning, Unit: unit, Message: text}
}
