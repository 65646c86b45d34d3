package loop

import (
	"math/rand/v2"
	"strings"
	"time"

	"descartes/agent"
)

// pace is what a loop knows of its agents' providers. The journal's events fill it through apply alone, so
// that a loop that is taken up again waits for what is left of a wait, and not for all of it anew.
type pace struct {
	of    map[string]*standing // by backend
	since time.Time            // when the waiting began that no attempt has got past yet; zero: there is none
	said  bool                 // the last run's provider said when its quota resets
}

// standing is how it stands with one provider.
//
//	free --limit--> used up until a time --the time comes--> free, with the limit counted
//	free --fault--> resting for a moment --the moment is over--> free, with the fault counted
//	     --fault after the last try--> failing, and asked again a quarter of an hour later
//	free --refusal--> unusable, until the loop is taken up again
//
// An attempt that ends in any other way clears the counts: the provider did its part.
type standing struct {
	until    time.Time // its quota is used up until then
	guess    bool      // which the provider did not say
	limits   int       // attempts in a row that met a limit
	rest     time.Time // it is not asked again before that
	faults   int       // attempts in a row that failed by a fault of its own
	unusable string    // why it cannot be used at all
	reason   string    // of the last limit or fault
	met      time.Time // when that was
}

// faultTries is how often a provider's fault is waited out. An attempt that ended by such a fault is none
// of its task's: an outage of an hour must not use up the attempts of one task after the other. When the
// tries are used up the next backend takes over, and where there is none the loop ends, to be resumed.
const faultTries = 3

// faultRest is waited before a provider is asked again that still failed after the last try.
const faultRest = 15 * time.Minute

func newPace() pace { return pace{of: map[string]*standing{}} }

func (p *pace) get(backend string) *standing {
	s := p.of[backend]
	if s == nil {
		s = &standing{}
		p.of[backend] = s
	}
	return s
}

// apply takes one event into account.
func (p *pace) apply(e *Event) {
	switch e.Type {
	case LoopStarted, LoopResumed: // a person may have mended what was wrong
		for _, s := range p.of {
			s.unusable, s.faults, s.rest = "", 0, time.Time{}
		}
		p.since = time.Time{} // nobody waited meanwhile
	case LimitWaiting:
		if p.since.IsZero() {
			p.since = e.TS
		}
	case LoopPaused, LoopFinished:
		p.since = time.Time{}
		for _, s := range p.of { // who goes on with a loop that gave up may ask: the time was our guess
			if s.guess && e.Reason == string(QuotaUsedUp) {
				s.until = time.Time{}
			}
		}
	case AgentFinished:
		p.said = e.Detail != nil && e.Detail.Until != nil
	case AttemptFinished, IterationFinished:
		if e.Detail != nil {
			p.attempt(e)
		}
	}
}

func (p *pace) attempt(e *Event) {
	d := e.Detail
	s := p.get(d.Backend)
	switch {
	case e.Verdict == verdictLimited:
		s.limits, s.reason, s.met = s.limits+1, e.Reason, e.TS
		s.guess = !p.said
		if d.Until != nil {
			s.until = *d.Until
		}
	case passing(d):
		s.faults, s.reason, s.met = s.faults+1, e.Reason, e.TS
		if d.Until != nil {
			s.rest = *d.Until
		}
	case d.End == endRefused:
		s.unusable = e.Reason
	case d.End == string(agent.Cancelled): // nothing is known of it
	default:
		*s, p.since = standing{}, time.Time{}
	}
}

// passing reports whether an agent's run ended by a fault of its provider's that a later one may not meet. A client
// that a signal ended ran out of memory or into a fault of its own, perhaps by what the task asks of it: such an
// attempt counts.
func passing(d *Detail) bool {
	return fault(agent.Result{End: agent.End(d.End), Cause: agent.Cause(d.Cause), Signal: d.Signal})
}

func fault(r agent.Result) bool {
	return r.End == agent.Crashed && r.Cause == agent.Transient && r.Signal == 0
}

// pause says how long a provider is left alone after a run that ended so: zero for any end but a limit and
// a passing fault.
func (s *standing) pause(r agent.Result, now time.Time) time.Time {
	switch {
	case r.End == agent.Limited && r.Until.IsZero():
		return now.Add(15*time.Minute<<min(s.limits, 2) + spread(30*time.Second))
	case r.End == agent.Limited:
		// Many may wait for the same moment. A reset that lies in the past, or was none, must not become
		// a run of requests: each limit in a row is waited for longer.
		until := r.Until.Round(0).Add(spread(min(30*time.Second, time.Second+max(0, r.Until.Sub(now))/10)))
		least := now.Add([]time.Duration{time.Second, 30 * time.Second, 5 * time.Minute, 15 * time.Minute, time.Hour}[min(s.limits, 4)])
		if until.Before(least) {
			return least.Add(spread(time.Second))
		}
		return until
	case fault(r) && s.faults >= faultTries:
		return now.Add(faultRest + spread(time.Minute))
	case fault(r):
		d := []time.Duration{5 * time.Second, 30 * time.Second, 2 * time.Minute}[s.faults]
		return now.Add(d*3/4 + spread(d/2))
	}
	return time.Time{}
}

// why is the reason of the last limit or fault, without what it says of the time left once that is long ago.
func (s *standing) why(now time.Time) string {
	if text, _, ok := strings.Cut(s.reason, " (in "); ok && now.Sub(s.met).Abs() > time.Minute {
		return text
	}
	return s.reason
}

// spread is some time up to d, so that several loops do not come back at once.
func spread(d time.Duration) time.Duration { return rand.N(d + 1) }
