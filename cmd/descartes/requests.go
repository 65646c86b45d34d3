package main

import (
	"sync"
	"time"

	"descartes/loop"
)

// unitOf is what a loop of a kind finishes before it stops.
func unitOf(kind string) string {
	if kind == loop.KindTag {
		return "attempt"
	}
	return "iteration"
}

// requestText says what a loop was asked to do, "" for nothing. underway says that an attempt is running.
func requestText(r loop.Request, now bool, kind string, underway bool) string {
	switch {
	case r == "":
		return ""
	case !underway:
		return string(r) + " requested: no " + unitOf(kind) + " is running, the loop stops now"
	case now:
		return string(r) + " requested: the agent is interrupted now"
	}
	return string(r) + " requested: the loop stops when its running " + unitOf(kind) + " is finished"
}

// requestTeller shows in a run's own terminal what another one asks of it.
type requestTeller struct {
	once sync.Once
	quit chan struct{}
	done sync.WaitGroup
}

// watch begins with the first call. The caller stops it.
func (t *requestTeller) watch(home loop.Home, id, kind string, underway func() bool, say func(string, ...any)) {
	t.once.Do(func() {
		t.quit = make(chan struct{})
		t.done.Go(func() {
			tick := time.NewTicker(300 * time.Millisecond)
			defer tick.Stop()
			told := ""
			for {
				select {
				case <-t.quit:
					return
				case <-tick.C:
				}
				if text := requestOf(home, id, kind, underway()); text != "" && text != told {
					told = text
					say("%s", text)
				}
			}
		})
	})
}

// requestOf says what a live loop is asked to do, "" for nothing.
func requestOf(home loop.Home, id, kind string, underway bool) string {
	r, now := home.Asked(id)
	return requestText(r, now, kind, underway)
}

// stop ends it, and returns when nothing more is shown.
func (t *requestTeller) stop() {
	if t.quit != nil {
		close(t.quit)
		t.done.Wait()
	}
}
