package main

import (
	"fmt"
	"sync"
	"time"

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
					show(spell(left))
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

// spell is a time to wait in a person's words.
func spell(d time.Duration) string {
	d = d.Round(time.Second)
	days, h, m, s := int(d/(24*time.Hour)), int(d/time.Hour)%24, int(d/time.Minute)%60, int(d/time.Second)%60
	switch {
	case days > 0:
		return fmt.Sprintf("%d d %d h", days, h)
	case h > 0:
		return fmt.Sprintf("%d h %d min", h, m)
	case m >= 10:
		return fmt.Sprintf("%d min", m)
	case m > 0:
		return fmt.Sprintf("%d min %d s", m, s)
	}
	return fmt.Sprintf("%d s", s)
}

// moment is a point in time as a person says it.
func moment(t time.Time) string {
	t = t.Local()
	if t.Year() != time.Now().Year() {
		return t.Format("Mon 2 Jan 2006 15:04")
	}
	return t.Format("Mon 2 Jan 15:04")
}
