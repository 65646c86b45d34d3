package loop

import "descartes/internal/mask"

// mask masks what an event says in the words of others. Names by which the journal is read again stay: a task's
// id, paths, refs and hashes.
func (e *Event) mask(m *mask.Mask) {
	texts := []*string{&e.Title, &e.Reason, &e.Message}
	if d := e.Detail; d != nil {
		texts = append(texts, &d.Blocked, &d.Question, &d.Words, &d.Output, &d.Session, &d.Model)
		for i := range d.Notes {
			texts = append(texts, &d.Notes[i])
		}
	}
	for _, t := range texts {
		*t = m.Text(*t)
	}
}

// maskLogs masks what an interrupted attempt printed: whoever would have done that was killed.
func (l *Loop) maskLogs(tr *trial) error {
	for _, path := range []string{tr.log, l.errLog()} {
		if _, err := l.tools.Mask.File(path, 0); err != nil {
			return err
		}
	}
	return nil
}
