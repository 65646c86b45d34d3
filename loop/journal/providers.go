package journal

import "time"

// Providers is what a loop knows about its agents' providers. Only State.Apply changes it, from the journal's events,
// so that a resumed loop waits for the rest of a wait, not for all of it again.
type Providers struct {
	Of    map[string]*Provider // by backend
	Since time.Time            // start of the current waiting, which no attempt has got past; zero if there is none
	said  bool                 // the last run's provider said when its quota resets
}

// Provider is the state of one provider.
//
//	free --limit--> used up until a time --the time comes--> free, with the limit counted
//	free --fault--> resting for a moment --the moment is over--> free, with the fault counted
//	     --fault after the last try--> failing, and asked again a quarter of an hour later
//	free --refusal--> unusable, until the loop is resumed
//
// An attempt that ends in any other way resets the counts: the provider did its part.
type Provider struct {
	Until    time.Time // its quota is used up until then
	Guess    bool      // Until is a guess: the provider did not say
	Limits   int       // limits in a row; what attempts that run at the same time meet is one
	Rest     time.Time // do not ask it before
	Faults   int       // attempts in a row that failed because of it
	Unusable string    // why it cannot be used at all
	Reason   string    // of the last limit or fault
	Met      time.Time // time of that
}

// NewProviders is the state before the first attempt.
func NewProviders() Providers { return Providers{Of: map[string]*Provider{}} }

// Get returns the state of a backend's provider.
func (p *Providers) Get(backend string) *Provider {
	s := p.Of[backend]
	if s == nil {
		s = &Provider{}
		p.Of[backend] = s
	}
	return s
}

func (p *Providers) loopBegan() { // a person may have fixed the problem
	for _, s := range p.Of {
		s.Unusable, s.Faults, s.Rest = "", 0, time.Time{}
	}
	p.Since = time.Time{} // nobody waited meanwhile
}

func (p *Providers) loopEnded(end Ending) {
	p.Since = time.Time{}
	for _, s := range p.Of { // a person who resumes a loop that gave up may ask again: the time was our guess
		if s.Guess && end == QuotaUsedUp {
			s.Until = time.Time{}
		}
	}
}

// attempt applies the end of an attempt, or of an agent that a look asked.
func (p *Providers) attempt(e *Event) {
	d := e.Detail
	if d == nil {
		return
	}
	s := p.Get(d.Backend)
	switch {
	case e.Verdict == Limited || e.Type == LookAnswered && d.End == EndLimited:
		// else it ran when the limit was met
		if s.Reason, s.Met = e.Reason, e.TS; s.Limits == 0 || !e.TS.Before(s.Until) {
			s.Limits++
		}
		s.Guess = !p.said
		if d.Until != nil {
			s.Until = *d.Until
		}
	case d.Transient():
		s.Faults, s.Reason, s.Met = s.Faults+1, e.Reason, e.TS
		if d.Until != nil {
			s.Rest = *d.Until
		}
	case d.End == EndRefused:
		s.Unusable = e.Reason
	case d.End == EndCancelled: // it says nothing
	default:
		*s, p.Since = Provider{}, time.Time{}
	}
}
