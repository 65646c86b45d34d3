package run

import (
	"path/filepath"

	"descartes/internal/redact"
	"descartes/loop"
	"descartes/loop/journal"
	"descartes/loop/store"
)

// book is what the run writes down: the journal, what people read of it, and the state file, a snapshot of both. Only
// the goroutine that decides uses it.
type book struct {
	journal *journal.Journal
	history *journal.State
	redact  *redact.Redactor
	observe func(journal.Event)
	state   *store.State // what does not change during the run
	own     *loop.OwnState
	root    string
}

// write appends lines in one write, and announces them once they are on disk.
func (b *book) write(lines ...*journal.Event) error {
	if len(lines) == 0 {
		return nil
	}
	for _, e := range lines {
		loop.RedactEvent(b.redact, e)
	}
	if err := b.journal.Append(lines...); err != nil {
		return err
	}
	for _, e := range lines {
		b.history.Apply(e)
	}
	b.history.TakeChanges(0)
	for _, e := range lines {
		if b.observe != nil {
			b.observe(*e)
		}
	}
	return nil
}

// snapshot is the run as its state file shows it now.
func (b *book) snapshot() *store.State {
	s := *b.state
	store.Fill(&s, b.history, func(id string) store.TaskID { return store.TaskID{ID: id} })
	s.Seq = b.journal.Seq()
	return &s
}

// save rewrites the state file. The journal is on disk before it.
func (b *book) save() error {
	if err := b.journal.Sync(); err != nil {
		return err
	}
	return b.own.Save(b.snapshot())
}

// relative shows a path as a person in the project's folder would type it.
func (b *book) relative(path string) string { return relative(b.root, path) }

func relative(root, path string) string {
	if rel, err := filepath.Rel(root, path); err == nil {
		return rel
	}
	return path
}

// warning is a line that a person should read.
func warning(unit journal.Unit, text string) *journal.Event {
	return &journal.Event{Type: journal.Warning, Unit: unit, Message: text}
}
