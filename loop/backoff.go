package loop

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"descartes/agent"
	"descartes/agent/quota"
	"descartes/config"
	"descartes/loop/journal"
)

// backoff decides which backend an agent may run with next, and until when to wait while none is available:
//
//	m, err := p.pick(choices, tell)                  // whom to run with, or when to ask again, or the end of the run
//	out, err := p.wait(m, tell); ...; p.woke(m)      // if one has to
//	... the agent runs with m.choice ...
//	until, err := p.after(c, result, reason, tell)   // goes into the attempt_finished event's Detail.Until
//
// Its state is rebuilt from the journal's events; Accounts adds what other loops met.
type backoff struct {
	tools     Tools
	onLimit   string
	maxWait   time.Duration // of a single wait; 0: no limit
	deadline  *time.Time
	providers *journal.Providers
	anew      bool      // ignore limits that are older than this run
	began     time.Time // start of this run
	loop      string
	saved     func() error // saves the wait to disk
	told      string       // the last change of backend that was reported
	warned    []string
	past      []string             // backends that worked although an earlier run had met a limit
	seen      map[string]time.Time // by backend: when the limit was met whose record this run has seen
}

// teller records a warning or a limit_waiting event about whoever needs the provider.
type teller func(*journal.Event) error

// move is pick's decision: a choice to run with, a time to wait for, or the end of the run.
type move struct {
	choice  Choice
	until   time.Time
	reason  string
	limited bool          // waiting for a quota, not for a fault to pass
	record  *quota.Record // what another loop recorded about it
	end     *Outcome
	instead string // why the first choice was not taken
}

// free reports whether, as far as this run knows, one of the choices can be used now.
func (p *backoff) free(choices []Choice) bool {
	now := p.tools.Now().Round(0)
	return slices.ContainsFunc(choices, func(c Choice) bool {
		s := p.providers.Get(c.Backend)
		return s.Unusable == "" && !now.Before(s.Until) && !now.Before(s.Rest)
	})
}

// over returns the outcome if the providers leave the run nothing to do, else nil. It does not wait.
func (p *backoff) over(choices []Choice, tell teller) (*Outcome, error) {
	m, err := p.pick(choices, tell)
	if err == nil && m.end == nil && !m.until.IsZero() {
		m.end = p.tooLong(m)
	}
	return m.end, err
}

// after returns until when the backend must rest after an agent run that ended like this, nil for no rest. A limit is
// recorded for other loops that use the same account.
func (p *backoff) after(c Choice, r agent.Result, reason string, tell teller) (*time.Time, error) {
	now := p.tools.Now().Round(0)
	s := p.providers.Get(c.Backend)
	until := Rest(s, r, now)
	if r.End == agent.Limited {
		reset := r.Until.Round(0)
		if reset.Before(now) {
			reset = until
		} else if p.onLimit == config.OnLimitStop { // the run ends instead of waiting
			until = reset
		}
		p.seen[c.Backend] = now
		if r.Until.IsZero() && p.onLimit == config.OnLimitStop { // other loops find out for themselves
			return &until, nil
		}
		return &until, p.warn(p.tools.Accounts.Note(quota.Record{Backend: c.Backend, Until: reset,
			Reason: p.tools.Redact.Text(reason), Loop: p.loop, At: now}), tell)
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

// pick tries the choices in order, best first.
func (p *backoff) pick(choices []Choice, tell teller) (move, error) {
	now := p.tools.Now().Round(0)
	var hold move // for the choice that is free first
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
		case now.Before(s.Until) && p.onLimit == config.OnLimitStop:
			return move{end: &Outcome{Ending: journal.QuotaUsedUp, Message: used.because(""), Until: s.Until}}, nil
		case now.Before(s.Until) && p.onLimit != config.OnLimitFallback:
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

// because says why a limit ends the run, and what to do if the limit is only remembered from before.
func (m move) because(besides string) string {
	text := m.reason + besides
	if m.record != nil {
		text += "; " + m.record.Forget()
	}
	return text
}

// clearedLeast: a remembered limit that disappears earlier than this before its end was cleared by a person. At its
// end it disappears by itself.
const clearedLeast = time.Minute

// others adds what other loops recorded about a backend's account, and returns it. A limit from before this run that
// is no longer recorded was cleared.
func (p *backoff) others(backend string, s *journal.Provider, now time.Time, tell teller) (record *quota.Record,
	_ error) {
	u, found, err := p.tools.Accounts.Look(backend, now)
	if err != nil {
		return nil, p.warn(err, tell)
	}
	if !found && s.Met.Before(p.began) && s.Until.Sub(now) > clearedLeast && p.tools.Accounts.Path(backend) != "" {
		s.Until = time.Time{}
	}
	// our own record of an earlier run, or one that run knew
	if found && !u.At.After(s.Met) && !p.anew && !u.At.Equal(p.seen[backend]) {
		record = &u
	}
	if !found || p.anew && !u.At.After(p.began) || u.At.Equal(p.seen[backend]) || !u.Until.After(s.Until) {
		return record, nil
	}
	s.Until, s.Reason = u.Until.Add(spread(min(mostSpread, u.Until.Sub(now)/10))), u.Reason
	s.Met = u.At
	return &u, nil
}

// wait records that somebody waits for what pick chose, up to the longest wait allowed: else the run ends.
func (p *backoff) wait(m move, tell teller) (*Outcome, error) {
	if out := p.tooLong(m); out != nil {
		return out, nil
	}
	e := &journal.Event{Type: journal.LimitWaiting, Reason: m.reason,
		Detail: &journal.Detail{Exit: journal.Exit{Until: &m.until},
			Client: journal.Client{Backend: m.choice.Backend}}}
	if !m.limited {
		e.Detail.Cause = string(agent.Transient)
	}
	if err := tell(e); err != nil {
		return nil, err
	}
	return nil, p.saved()
}

// woke notes that a wait is over. Over means over, even if the clock was set back meanwhile. A limit that another lane
// met since counts too.
func (p *backoff) woke(m move) {
	s := p.providers.Get(m.choice.Backend)
	for _, at := range []*time.Time{&s.Until, &s.Rest} {
		if !at.After(m.until) {
			*at = time.Time{}
		}
	}
	if m.record != nil {
		p.seen[m.choice.Backend] = m.record.At
	}
}

// tooLong is the outcome of a run that would have to wait longer than allowed.
func (p *backoff) tooLong(m move) *Outcome {
	since := p.providers.Since
	if since.IsZero() {
		since = p.tools.Now().Round(0)
	}
	switch {
	case !m.limited: // a short rest
	case p.maxWait > 0 && m.until.After(since.Add(p.maxWait)):
		return &Outcome{Ending: journal.QuotaUsedUp, Message: m.because("; the wait would be longer than max_wait: " +
			ShortDuration(p.maxWait)), Until: m.until}
	case p.deadline != nil && m.until.After(*p.deadline):
		return &Outcome{Ending: journal.QuotaUsedUp, Message: m.because("; that is after the deadline"),
			Until: m.until}
	}
	return nil
}

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

// tellSwitch reports once that another backend takes over.
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

// warn records, once, an error that must not stop the run.
func (p *backoff) warn(err error, tell teller) error {
	if err == nil || slices.Contains(p.warned, err.Error()) {
		return nil
	}
	p.warned = append(p.warned, err.Error())
	return tell(&journal.Event{Type: journal.Warning, Message: err.Error()})
}

// sleepUntil waits until a provider can be asked again, and reports whether it can, or until the run ends. A unit sleeps
// before its attempt, see start; an agent of a look in the middle of one, see chooser. It is slow; whoever wakes up
// calls woke.
func (l *Loop) sleepUntil(m move) (over bool) { return l.stop.wait(l.stop.soon(), &l.tools, m.until) }

// newBackoff returns a loop's backoff. Its events go into the journal, from which p is rebuilt.
func newBackoff(tools Tools, c *Config, p *journal.Providers, loop string, anew bool) *backoff {
	if anew {
		*p = journal.NewProviders()
	}
	if tools.Away != nil { // which knows its accounts better than an earlier run did
		for _, s := range p.Of {
			s.Until = time.Time{}
		}
	}
	return &backoff{tools: tools, onLimit: c.OnLimit, maxWait: seconds(c.MaxWaitSecs), deadline: c.Deadline,
		providers: p, anew: anew,
		began: tools.Now().Round(0), loop: loop, seen: map[string]time.Time{}}
}

// faultTries is how often to wait for a provider's fault to pass. Such a fault does not use up an attempt of the task:
// an outage of an hour must not block one task after another. After the last try the next backend takes over; without
// one the loop ends and can be resumed.
const faultTries = 3

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

// why returns the reason of the last limit or fault, without the time left it mentions if that has long passed.
func why(s *journal.Provider, now time.Time) string {
	if text, _, ok := strings.Cut(s.Reason, " (in "); ok && now.Sub(s.Met).Abs() > time.Minute {
		return text
	}
	return s.Reason
}

// mostSpread is the longest time by which a known end of a limit is put off.
const mostSpread = 30 * time.Second

// spread returns a random duration up to d, so that several loops do not come back at once.
func spread(d time.Duration) time.Duration { return rand.N(d + 1) }
