package main

import (
	"sync"
	"time"

	"descartes/internal/report"
	"descartes/loop"
)

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
	return report.RequestText(r, now, kind, underway)
}

// stop ends it, and returns when nothing more is shown.
func (t *requestTeller) stop() {
	if t.quit != nil {
		close(t.quit)
		t.done.Wait()
	}
}
