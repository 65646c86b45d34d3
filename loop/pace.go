package loop

import (
	"math/rand/v2"
	"strings"
	"time"

	"descartes/agent"
	"descartes/loop/journal"
)

// faultTries is how often a provider's fault is waited out. An attempt that ended by such a fault is none
// of its task's: an outage of an hour must not use up the attempts of one task after the other. When the
// tries are used up the next backend takes over, and where there is none the loop ends, to be resumed.
const faultTries = 3

// faultRest is waited before a provider is asked again that still failed after the last try.
const faultRest = 15 * time.Minute

func fault(r agent.Result) bool {
	return r.End == agent.Crashed && r.Cause == agent.Transient && r.Signal == 0
}

// pause says how long a provider is left alone after a run that ended so: zero for any end but a limit and
// a passing fault.
func pause(s *journal.Provider, r agent.Result, now time.Time) time.Time {
	switch {
	case r.End == agent.Limited && r.Until.IsZero():
		return now.Add(15*time.Minute<<min(s.Limits, 2) + spread(30*time.Second))
	case r.End == agent.Limited:
		// Many may wait for the same moment. A reset that lies in the past, or was none, must not become
		// a run of requests: each limit in a row is waited for longer.
		until := r.Until.Round(0).Add(spread(min(30*time.Second, time.Second+max(0, r.Until.Sub(now))/10)))
		least := now.Add([]time.Duration{time.Second, 30 * time.Second, 5 * time.Minute, 15 * time.Minute, time.Hour}[min(s.Limits, 4)])
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

// why is the reason of the last limit or fault, without what it says of the time left once that is long ago.
func why(s *journal.Provider, now time.Time) string {
	if text, _, ok := strings.Cut(s.Reason, " (in "); ok && now.Sub(s.Met).Abs() > time.Minute {
		return text
	}
	return s.Reason
}

// spread is some time up to d, so that several loops do not come back at once.
func spread(d time.Duration) time.Duration { return rand.N(d + 1) }
