package loop

import (
	"math/rand/v2"
	"strings"
	"time"

	"descartes/agent"
	"descartes/loop/journal"
)

// ShortDuration prints 6h, not 6h0m0s.
func ShortDuration(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// faultTries is how often to wait for a provider's fault to pass; then the next account's turn comes.
const faultTries = 3

// mostSpread is how far apart those begin who wait for the same moment.
const mostSpread = 30 * time.Second

// faultRest is the wait before asking a provider again that still failed at the last try.
const faultRest = 15 * time.Minute

func fault(r agent.Result) bool {
	return r.End == agent.Crashed && r.Cause == agent.Transient && r.Signal == 0
}

// Rest returns until when a provider must rest after an agent run that ended like this: zero unless it met a limit or
// a passing fault.
func Rest(s *journal.Provider, r agent.Result, now time.Time) time.Time {
	limits := s.Limits
	if limits > 0 && now.Before(s.Until) {
		limits-- // nobody starts into a known limit: this agent ran when it was met, and meets the same one
	}
	switch {
	case r.End == agent.Limited && limits < s.Limits && !r.Until.After(s.Until):
		return s.Until
	case r.End == agent.Limited && r.Until.IsZero():
		return now.Add(15*time.Minute<<min(limits, 2) + spread(30*time.Second))
	case r.End == agent.Limited:
		// Many processes may wait for the same moment. A reset in the past, or none, must not cause a burst of
		// requests: each limit in a row waits longer.
		until := r.Until.Round(0).Add(spread(min(mostSpread, time.Second+max(0, r.Until.Sub(now))/10)))
		least := now.Add([]time.Duration{time.Second, 30 * time.Second, 5 * time.Minute, 15 * time.Minute,
			time.Hour}[min(limits, 4)])
		if until.Before(least) {
			return least.Add(spread(time.Second))
		}
		return until
	case fault(r) && s.Faults >= faultTries:
		return now.Add(faultRest + spread(time.Minute))
	case fault(r):
		d := []time.Duration{5 * time.Second, 30 * time.Second, 2 * time.Minute}[s.Faults]
		return now.Add(d*3/4 + spread(d/2))
	}
	return time.Time{}
}

// spread returns a random duration up to d, so that several loops do not come back at once.
func spread(d time.Duration) time.Duration { return rand.N(d + 1) }
