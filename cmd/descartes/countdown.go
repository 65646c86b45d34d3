package main

import (
	"fmt"
	"sync"
	"time"

	"descartes/internal/terminal"
	"descartes/loop/journal"
)

// countdown shows how long a run still waits for its provider: on a terminal as one line that changes each second,
// elsewhere as a line each half hour. It is over with the next event.
type countdown struct {
	quit chan struct{}
	done sync.WaitGroup
}

const toldEvery = 30 * time.Minute

// startCountdown shows the wait that e tells of on p. The caller stops it.
func startCountdown(p *printer, e *journal.Event, live bool) *countdown {
	c := &countdown{quit: make(chan struct{})}
	until := e.Detail.Until.Round(0)
	every, show := toldEvery, func(left string) { p.say("  still waiting, %s left", left) }
	if live {
		// The cursor stays at the line's begin: whatever is printed next takes its place.
		every, show = time.Second, func(left string) { fmt.Fprintf(p.text, "  %s left\x1b[K\r", left) }
	}
	c.done.Go(func() {
		tick := time.NewTicker(every)
		defer tick.Stop()
		for {
			select {
			case <-c.quit:
				if live {
					fmt.Fprint(p.text, "\x1b[K")
				}
				return
			case <-tick.C:
				if left := until.Sub(time.Now().Round(0)); left > 0 { // by the wall clock, as the wait itself
					show(terminal.Spell(left))
				}
			}
		}
	})
	return c
}

// stop ends it, and returns when nothing more is shown. A nil countdown has ended.
func (c *countdown) stop() {
	if c != nil {
		close(c.quit)
		c.done.Wait()
	}
}
