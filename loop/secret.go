package loop

import (
	"bytes"
	"encoding/json"

	"descartes/internal/redact"
	"descartes/loop/journal"
)

// maskEvent masks what an event says in the words of others.
func maskEvent(m *redact.Redactor, e *journal.Event) {
	if m == nil {
		return
	}
	if gate := m.Bytes(bytes.Clone(e.Gate)); json.Valid(gate) {
		e.Gate = gate
	}
	for _, t := range e.Texts() {
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
