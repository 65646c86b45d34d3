package terminal

import (
	"io"
	"sync"
	"time"
)

// Screen hands text to a terminal, a pipe or a file in a goroutine of its own: one that takes nothing (Ctrl-S, a
// connection that stalls, a program that does not read) must not hold up a run, and one that is gone must not end it.
type Screen struct {
	W io.Writer
	// of a pipe or a file: Write waits until it has everything, or this is closed. nil: a terminal, which drops what
	// it cannot take
	Until <-chan struct{}

	mu   sync.Mutex
	text []byte        // not written yet
	idle chan struct{} // closed when everything is; nil while nothing is under way
	gone bool          // nothing is written any more
}

const (
	screenHolds = 1 << 20 // bytes that wait for a terminal; what comes then is dropped
	screenWait  = 2 * time.Second
)

// Write takes text in. It never fails.
func (t *Screen) Write(p []byte) (int, error) {
	t.mu.Lock()
	if t.gone || t.Until == nil && len(t.text)+len(p) > screenHolds {
		t.mu.Unlock()
		return len(p), nil
	}
	t.text = append(t.text, p...)
	if t.idle == nil {
		t.idle = make(chan struct{})
		go t.drain()
	}
	idle := t.idle
	t.mu.Unlock()
	if t.Until != nil {
		select {
		case <-idle:
		case <-t.Until:
		}
	}
	return len(p), nil
}

func (t *Screen) drain() {
	for {
		t.mu.Lock()
		text := t.text
		t.text = nil
		if len(text) == 0 || t.gone {
			close(t.idle)
			t.idle = nil
			t.mu.Unlock()
			return
		}
		t.mu.Unlock()
		if _, err := t.W.Write(text); err != nil {
			t.mu.Lock()
			t.gone = true
			t.mu.Unlock()
		}
	}
}

// Wait returns when everything is written, or after as long as anybody would wait for a terminal. What does not take
// anything even then, and is no terminal, gets nothing more.
func (t *Screen) Wait() {
	t.mu.Lock()
	idle := t.idle
	gone := t.gone
	t.mu.Unlock()
	if idle == nil || gone {
		return
	}
	if t.Until != nil {
		select {
		case <-idle:
			return
		case <-t.Until:
		}
	}
	timer := time.NewTimer(screenWait)
	defer timer.Stop()
	select {
	case <-idle:
	case <-timer.C:
		t.mu.Lock()
		t.gone = t.Until != nil
		t.mu.Unlock()
	}
}
