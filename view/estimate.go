package view

import (
	"time"

	"descartes/loop/journal"
	"descartes/scheduler"
)

// Estimate is how long the rest of a tag's loop takes if every task that can still be done takes as long as those that its run
// finished did; ok is false before it finished one. late says that nothing is left by that measure, and what runs has taken much longer than it.
// slots is how many tasks run at the same time.
func Estimate(h *journal.State, g *scheduler.Graph, slots int, now time.Time) (left time.Duration, late, ok bool) {
	took := map[string]time.Duration{}
	for _, a := range h.Ended {
		if a.Task != "" {
			took[a.Task] += a.Ended.Sub(a.Started)
		}
	}
	var spent time.Duration
	done := 0
	for id, d := range took {
		if s, _ := g.State(id); s == scheduler.StateDone {
			spent += d
			done++
		}
	}
	if done == 0 {
		return 0, false, false
	}
	mean := spent / time.Duration(done)
	var work time.Duration
	chain, last := 0, 0 // of waves, which is as long as the longest path could be
	for _, w := range g.Waves() {
		for _, id := range w.Tasks {
			switch s, _ := g.State(id); s {
			case scheduler.StateReady, scheduler.StateWaiting, scheduler.StateRunning:
				work += mean
				if w.Number != last {
					chain, last = chain+1, w.Number
				}
			}
		}
	}
	for _, a := range h.Working() {
		if a.Task != "" {
			took := now.Sub(a.Started)
			work, late = work-min(mean, took), late || muchLonger(took, mean)
		}
	}
	left = max(work/time.Duration(max(1, slots)), 0)
	if slots > 1 {
		left = max(left, time.Duration(chain-1)*mean)
	}
	if w := h.WaitsUntil(); w != nil && w.Until.After(now) {
		left += w.Until.Sub(now)
	}
	return left, late && left == 0, true
}

// muchLonger says of a time that the mean says nothing about it any more.
func muchLonger(took, mean time.Duration) bool { return took > mean+max(mean/2, 10*time.Second) }

// EstimateIterations is the same for a loop over a prompt that has all the iterations that it may have: it may end sooner.
func EstimateIterations(h *journal.State, most int, now time.Time) (left time.Duration, late, ok bool) {
	var spent time.Duration
	done := 0
	for _, a := range h.Ended {
		if a.Iteration > 0 && !a.Decision.Failed() {
			spent += a.Ended.Sub(a.Started)
			done++
		}
	}
	if done == 0 {
		return 0, false, false
	}
	mean := spent / time.Duration(done)
	left = mean * time.Duration(max(0, most-done))
	for _, a := range h.Working() {
		if a.Iteration > 0 {
			took := now.Sub(a.Started)
			left, late = left-min(mean, took), late || muchLonger(took, mean)
		}
	}
	return max(left, 0), late && left <= 0, true
}
