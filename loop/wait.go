package loop

import (
	"context"
	"time"
)

// wait waits until the wall clock shows a time, or until the run is to end. The wall clock is looked at on
// each tick: a machine that slept is late by a tick at most, and one whose clock was set back waits no longer
// than it would have.
func (s *stopper) wait(ctx context.Context, t *Tools, until time.Time) *Outcome {
	until = until.Round(0) // a reading of the monotonic clock would stand still while the machine sleeps
	last := t.Now().Round(0)
	for {
		if out := s.asked(ctx); out != nil {
			return out
		}
		now := t.Now().Round(0)
		if now.Before(last) {
			until = now.Add(until.Sub(last))
		}
		last = now
		left := until.Sub(now)
		if left <= 0 {
			return nil
		}
		s.sleep(ctx, t, min(left, pollEvery))
	}
}

// sleep waits for d, or until something ends the run.
func (s *stopper) sleep(ctx context.Context, t *Tools, d time.Duration) {
	if s.yield != nil {
		alone := *s
		alone.yield = nil
		s.yield(func() { alone.sleep(ctx, t, d) })
		return
	}
	if t.Sleep != nil {
		t.Sleep(d)
		return
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	case <-s.soft:
	}
}
