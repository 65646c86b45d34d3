package loop

import (
	"bytes"
	"encoding/json"

	"descartes/internal/redact"
)

// mask masks what an event says in the words of others. Names by which the journal is read again stay: a task's
// id, paths, refs and hashes.
func (e *Event) mask(m *redact.Redactor) {
	texts := []*string{&e.Title, &e.Reason, &e.Message, &e.Next}
	for i := range e.Lines {
		texts = append(texts, &e.Lines[i])
	}
	if gate := m.Bytes(bytes.Clone(e.Gate)); json.Valid(gate) {
		e.Gate = gate
	}
	if d := e.Detail; d != nil {
		texts = append(texts, &d.Blocked, &d.Question, &d.Words, &d.Output, &d.Command, &d.Session, &d.Model)
		for i := range d.Notes {
			texts = append(texts, &d.Notes[i])
		}
		for i := range d.Denied {
			texts = append(texts, &d.Denied[i])
		}
	}
	for _, t := range texts {
		*t = m.Text(*t)
	}
}

// maskFiles masks what an interrupted attempt printed: whoever would have done that was killed.
func maskFiles(m *redact.Redactor, paths ...string) error {
	for _, path := range paths {
		if _, err := m.File(path, 0); err != nil {
			return err
		}
	}
	return nil
}
