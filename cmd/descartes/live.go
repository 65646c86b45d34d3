package main

import (
	"bufio"
	"bytes"
	"io"
	"sync"
	"time"

	"descartes/internal/redact"
	"descartes/internal/terminal"
)

// liveWriter buffers what a run prints: a thousand quick tasks are not a thousand writes, yet
// nothing waits longer than a moment to be seen. A terminal sees each line at once.
type liveWriter struct {
	mu    sync.Mutex
	b     *bufio.Writer
	term  *screen // sees each line at once; nil for anything else
	timer *time.Timer
	armed bool
	err   error // the first one; nothing is written after it
	mask  *redact.Redactor
}

// flushAfter is how long a line may wait.
const flushAfter = 100 * time.Millisecond

func newLiveWriter(w io.Writer) *liveWriter {
	l := &liveWriter{}
	if terminal.IsTerminal(w) {
		l.term = &screen{w: w}
		w = l.term
	}
	l.b = bufio.NewWriterSize(w, 32<<10)
	return l
}

// Write takes text in, whole lines of it. It never fails: a run does not end because nobody reads any more.
func (l *liveWriter) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil {
		return len(p), nil
	}
	if l.mask != nil {
		p = l.mask.Bytes(bytes.Clone(p))
	}
	_, l.err = l.b.Write(p)
	switch {
	case l.err != nil:
	case l.term != nil:
		l.err = l.b.Flush()
	case l.timer == nil:
		l.timer, l.armed = time.AfterFunc(flushAfter, l.flushLate), true
	case !l.armed:
		l.timer.Reset(flushAfter)
		l.armed = true
	}
	return len(p), nil
}

func (l *liveWriter) flushLate() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.armed = false
	if l.err == nil {
		l.err = l.b.Flush()
	}
}

// Flush brings out what is waiting.
func (l *liveWriter) Flush() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err == nil {
		l.err = l.b.Flush()
	}
	if l.term != nil {
		l.term.settle()
	}
}
