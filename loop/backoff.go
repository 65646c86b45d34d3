package loop

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"descartes/agent"
	"descartes/agent/quota"
	"descartes/loop/journal"
)

// What is done when a provider's quota is used up.
const (
	OnLimitWait     = "wait"
	OnLimitStop     = "stop"
	OnLimitFallback = "fallback" // the next backend takes over; where all are used up, wait
)

// backoff says with which backend an agent may run next, and holds a run where none can be asked:
//
//	c, waited, out, err := p.before(ctx, stop, choices, tell)    // out ends the run
//	... the agent runs with c ...
//	until, err := p.after(c, result, reason, tell)               // goes into the attempt_finished event's Detail.Until
//
// What it knows comes back from the journal through the events, and of other loops through Accounts.
type backoff struct {
	tools     Tools
	onLimit   string
	maxWait   time.Duration // of one waiting; 0 is as long as it takes
	deadline  *time.Time
	providers *journal.Providers
	anew      bool      // limits of before this run are not believed
	began     time.Time // this run
	loop      string
	saved     func() error // writes the wait to the disk
	told      string       // the last change of backend
	warned    []string
	past      []string             // backends that got past a limit of before this run
	seen      map[string]time.Time // when the limit was met whose record this run knows already, by backend
}

// teller records a warning or a limit_waiting about who asks.
type teller func(*journal.Event) error

// move is what pick came to: a choice to run with, a time to wait for, or an end.
type move struct {
	choice  Choice
	until   time.Time
	reason  string
	limited bool          // it is a quota that is waited for
	record  *quota.Record // what another loop remembered of it
	end     *Outcome
	instead string // why the first choice is not taken
}

// before finds what the next run may be made with, and waits where it has to.
func (p *backoff) before(ctx context.Context, stop *stopper, choices []Choice, tell teller) (_ Choice, waited bool, _ *Outcome, _ error) {
	for {
		m, err := p.pick(choices, tell)
		switch {
		case err != nil || m.end != nil:
			return m.choice, waited, m.end, err
		case m.until.IsZero():
			return m.choice, waited, nil, p.tellSwitch(m, tell)
		}
		waited = true
		out, err := p.hold(ctx, stop, m, tell)
		if out != nil || err != nil {
			return m.choice, waited, out, err
		}
	}
}

// free reports whether an agent can run with one of the choices now, as far as this run knows.
func (p *backoff) free(choices []Choice) bool {
	now := p.tools.Now().Round(0)
	return slices.ContainsFunc(choices, func(c Choice) bool {
		s := p.providers.Get(c.Backend)
		return s.Unusable == "" && !now.Before(s.Until) && !now.Before(s.Rest)
	})
}

// over is the end that a run has come to by what its providers did, or nil. It does not wait.
func (p *backoff) over(choices []Choice, tell teller) (*Outcome, error) {
	m, err := p.pick(choices, tell)
	if err == nil && m.end == nil && !m.until.IsZero() {
		m.end = p.tooLong(m)
	}
	return m.end, err
}

// after returns until when the provider of a run with this end is left alone, nil for no wait. Other loops of the
// same account learn of a limit.
func (p *backoff) after(c Choice, r agent.Result, reason string, tell teller) (*time.Time, error) {
	now := p.tools.Now().Round(0)
	s := p.providers.Get(c.Backend)
	until := pause(s, r, now)
	if r.End == agent.Limited {
		reset := r.Until.Round(0)
		if reset.Before(now) {
			reset = until
		} else if p.onLimit == OnLimitStop { // nobody waits for it
			until = reset
		}
		p.seen[c.Backend] = now
		if r.Until.IsZero() && p.onLimit == OnLimitStop { // others may ask for themselves
			return &until, nil
		}
		return &until, p.warn(p.tools.Accounts.Note(quota.Record{Backend: c.Backend, Until: reset, Reason: p.tools.Redact.Text(reason), Loop: p.loop, At: now}), tell)
	}
	if p.anew && r.End == agent.Finished && !slices.Contains(p.past, c.Backend) {
		p.past = append(p.past, c.Backend)
		return nil, p.warn(p.tools.Accounts.Forget(c.Backend), tell)
	}
	if until.IsZero() {
		return nil, nil
	}
	return &until, nil
}

// pick goes through the choices, best first.
func (p *backoff) pick(choices []Choice, tell teller) (move, error) {
	now := p.tools.Now().Round(0)
	var hold move // for the one that is free first
	var dead []string
	limited, ending := false, journal.AgentUnusable
	later := func(m move) {
		limited = limited || m.limited
		if hold.until.IsZero() || m.until.Before(hold.until) {
			hold = m
		}
	}
	first := ""
	for _, c := range choices {
		s := *p.providers.Get(c.Backend)
		record, err := p.others(c.Backend, &s, now, tell)
		if err != nil {
			return move{}, err
		}
		why := why(&s, now)
		used := move{choice: c, until: s.Until, reason: why, limited: true, record: record}
		switch {
		case s.Unusable != "":
			why = s.Unusable
			dead = append(dead, "the agent cannot be run: "+why)
		case now.Before(s.Until) && p.onLimit == OnLimitStop:
			return move{end: &Outcome{Ending: journal.QuotaUsedUp, Message: used.because(""), Until: s.Until}}, nil
		case now.Before(s.Until) && p.onLimit != OnLimitFallback:
			return used, nil
		case now.Before(s.Until):
			later(used)
		case now.Before(s.Rest) && s.Faults <= faultTries:
			return move{choice: c, until: s.Rest, reason: why}, nil
		case now.Before(s.Rest):
			why = fmt.Sprintf("%s; %d tries in a row ended like this", why, s.Faults)
			dead = append(dead, why)
			ending = journal.ProviderFails
			later(move{choice: c, until: s.Rest, reason: why})
		default:
			return move{choice: c, instead: first}, nil
		}
		if first == "" {
			first = why
		}
	}
	if !limited {
		return move{end: &Outcome{Ending: ending, Message: strings.Join(dead, "; ")}}, nil
	}
	return hold, nil
}

// because is why a run ends with a limit, and what to do about one that is only remembered.
func (m move) because(besides string) string {
	text := m.reason + besides
	if m.record != nil {
		text += "; " + m.record.Forget()
	}
	return text
}

// clearedLeast is how long before its end a limit must be missing among the remembered ones to have been cleared: at
// its end it is removed by itself.
const clearedLeast = time.Minute

// others adds what other loops know of a backend's account, and says what that is. A limit of before this run that is
// remembered no more was cleared.
func (p *backoff) others(backend string, s *journal.Provider, now time.Time, tell teller) (record *quota.Record, _ error) {
	u, found, err := p.tools.Accounts.Look(backend, now)
	if err != nil {
		return nil, p.warn(err, tell)
	}
	if !found && s.Met.Before(p.began) && s.Until.Sub(now) > clearedLeast && p.tools.Accounts.Path(backend) != "" {
		s.Until = time.Time{}
	}
	if found && !u.At.After(s.Met) && !p.anew && !u.At.Equal(p.seen[backend]) { // our own, of an earlier run, or what that one knew
		record = &u
	}
	if !found || p.anew && !u.At.After(p.began) || u.At.Equal(p.seen[backend]) || !u.Until.After(s.Until) {
		return record, nil
	}
	s.Until, s.Reason = u.Until.Add(spread(min(30*time.Second, u.Until.Sub(now)/10))), u.Reason
	s.Met = u.At
	return &u, nil
}

// hold waits for what was picked, as long as that is allowed.
func (p *backoff) hold(ctx context.Context, stop *stopper, m move, tell teller) (*Outcome, error) {
	if out := p.tooLong(m); out != nil {
		return out, nil
	}
	e := &journal.Event{Type: journal.LimitWaiting, Reason: m.reason, Detail: &journal.Detail{Until: &m.until, Backend: m.choice.Backend}}
	if !m.limited {
		e.Detail.Cause = string(agent.Transient)
	}
	if err := tell(e); err != nil {
		return nil, err
	}
	if err := p.saved(); err != nil {
		return nil, err
	}
	if out := stop.wait(ctx, &p.tools, m.until); out != nil {
		return out, nil
	}
	// Over is over, also where the clock was set back meanwhile and shows an earlier time. What another lane has met since counts.
	s := p.providers.Get(m.choice.Backend)
	for _, at := range []*time.Time{&s.Until, &s.Rest} {
		if !at.After(m.until) {
			*at = time.Time{}
		}
	}
	if m.record != nil {
		p.seen[m.choice.Backend] = m.record.At
	}
	return nil, nil
}

// tooLong is the end of a run that would have to wait longer than it may.
func (p *backoff) tooLong(m move) *Outcome {
	since := p.providers.Since
	if since.IsZero() {
		since = p.tools.Now().Round(0)
	}
	switch {
	case !m.limited: // a moment's rest
	case p.maxWait > 0 && m.until.After(since.Add(p.maxWait)):
		return &Outcome{Ending: journal.QuotaUsedUp, Message: m.because("; the wait would be longer than --max-wait " + shortDuration(p.maxWait)), Until: m.until}
	case p.deadline != nil && m.until.After(*p.deadline):
		return &Outcome{Ending: journal.QuotaUsedUp, Message: m.because("; that is after the deadline"), Until: m.until}
	}
	return nil
}

// shortDuration is 6h and not 6h0m0s.
func shortDuration(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// tellSwitch says once that another backend takes over.
func (p *backoff) tellSwitch(m move, tell teller) error {
	if m.instead == "" {
		p.told = ""
		return nil
	}
	text := m.instead + ": " + m.choice.Backend + " takes over"
	if text == p.told {
		return nil
	}
	p.told = text
	return tell(&journal.Event{Type: journal.Warning, Message: text})
}

// warn tells of what must not stop a run, once.
func (p *backoff) warn(err error, tell teller) error {
	if err == nil || slices.Contains(p.warned, err.Error()) {
		return nil
	}
	p.warned = append(p.warned, err.Error())
	return tell(&journal.Event{Type: journal.Warning, Message: err.Error()})
}

// newBackoff is the backoff of a loop. What it tells becomes part of the journal, from which p comes back.
func newBackoff(tools Tools, c *Config, p *journal.Providers, loop string, anew bool) *backoff {
	if anew {
		*p = journal.NewProviders()
	}
	return &backoff{tools: tools, onLimit: c.OnLimit, maxWait: seconds(c.MaxWaitSecs), deadline: c.Deadline, providers: p, anew: anew,
		began: tools.Now().Round(0), loop: loop, seen: map[string]time.Time{}}
}

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
