package run

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"descartes/agent"
	"descartes/agent/quota"
	"descartes/config"
	"descartes/loop"
	"descartes/loop/journal"
	"descartes/scheduler/prompt"
)

// What the run hears and says of its accounts. Which of them works is the machine's to decide.

// metElsewhere takes in the limits that other runs met and this one does not know.
func (r *Run) metElsewhere() (met bool, err error) {
	now := r.tools.Now().Round(0)
	for _, name := range r.machine.Among() {
		record, found, err := r.tools.Accounts.Look(name, now)
		if err != nil {
			return met, r.warnOnce(err.Error())
		}
		if !found || !record.Until.After(r.machine.Accounts.Until(name)) || r.options.Anew && !record.At.After(r.book.History.Begun) ||
			record.Loop == r.ID() {
			continue
		}
		met = true
		p := r.book.History.Providers.Get(name)
		p.Reason, p.Met = record.Reason, record.At
		r.told.records = append(r.told.records, record)
		if err := r.happened(prompt.LimitMet{Account: name, Until: record.Until}); err != nil {
			return met, err
		}
	}
	return met, nil
}

// rests is until when an account must rest after an agent that ended like this. A limit is noted for other runs that
// use the same account.
func (r *Run) rests(with config.Choice, res *agent.Result) (*time.Time, error) {
	now := r.tools.Now().Round(0)
	until := loop.Rest(r.book.History.Providers.Get(with.Backend), *res, now)
	if res.End == agent.Limited {
		reset := res.Until.Round(0)
		if reset.Before(now) {
			reset = until
		} else if r.machine.Limits.OnLimitStop { // the run ends instead of waiting
			until = reset
		}
		if res.Until.IsZero() && r.machine.Limits.OnLimitStop { // other runs find out for themselves
			return &until, nil
		}
		return &until, r.warnOf(r.tools.Accounts.Note(quota.Record{Backend: with.Backend, Until: reset,
			Reason: r.tools.Redact.Text(res.Reason), Loop: r.ID(), At: now}))
	}
	if r.options.Anew && res.End == agent.Finished {
		return nil, r.warnOf(r.tools.Accounts.Forget(with.Backend))
	}
	if until.IsZero() {
		return nil, nil
	}
	return &until, nil
}

func (r *Run) warnOf(err error) error {
	if err == nil {
		return nil
	}
	return r.warnOnce(err.Error())
}

// warnOnce tells people something that must not stop the run.
func (r *Run) warnOnce(text string) error {
	if r.told.missing[text] {
		return nil
	}
	r.told.missing[text] = true
	return r.book.Write(&journal.Event{Type: journal.Warning, Message: text})
}

// takesOver tells people once that another account takes over.
func (r *Run) takesOver(account string) error {
	first := r.machine.Names[0]
	if account == first {
		r.told.instead = ""
		return nil
	}
	p := r.book.History.Providers.Get(first)
	text := fmt.Sprintf("%s: %s takes over", cmp.Or(p.Unusable, p.Reason), account)
	if text == r.told.instead {
		return nil
	}
	r.told.instead = text
	return r.book.Write(&journal.Event{Type: journal.Warning, Unit: r.unit(), Message: text})
}

// waitsFor tells people that nothing is done before a time: an account has no quota, or rests.
func (r *Run) waitsFor(until time.Time) error {
	if until.IsZero() || until.Equal(r.told.waits) {
		return nil
	}
	r.told.waits = until
	name, limited := "", false
	for _, one := range r.machine.Among() {
		if limited = r.machine.Accounts.Until(one).Equal(until); limited || r.machine.Accounts.Rest(one).Equal(until) {
			name = one
			break
		}
	}
	e := &journal.Event{Type: journal.LimitWaiting, Unit: journal.Unit{Iteration: r.book.History.Iteration},
		Reason: r.book.History.Providers.Get(name).Reason,
		Detail: &journal.Detail{Exit: journal.Exit{Until: &until}, Client: journal.Client{Backend: name}}}
	if !limited {
		e.Detail.Cause = string(agent.Transient)
	}
	if err := r.book.Write(e); err != nil {
		return err
	}
	return r.book.Save()
}

// usedUp is how a run ends whose accounts are out of quota for too long.
func (r *Run) usedUp() loop.Outcome {
	out := loop.Outcome{Ending: journal.QuotaUsedUp}
	first, now := "", r.tools.Now()
	for _, name := range r.machine.Among() {
		until := r.machine.Accounts.Until(name)
		if until.After(now) && (first == "" || until.Before(out.Until)) {
			first, out.Until = name, until
		}
	}
	if first == "" {
		return out
	}
	out.Message = r.book.History.Providers.Get(first).Reason
	l := &r.machine.Limits
	switch {
	case l.OnLimitStop:
	case l.MaxWait > 0 && out.Until.Sub(now) > l.MaxWait:
		out.Message += "; the wait would be longer than max_wait: " + loop.ShortDuration(l.MaxWait)
	case !l.Deadline.IsZero() && !out.Until.Before(l.Deadline):
		out.Message += "; that is after the deadline"
	}
	for _, record := range slices.Backward(r.told.records) {
		if record.Backend == first && record.Until.Equal(out.Until) {
			out.Message += "; " + record.Forget()
			break
		}
	}
	return out
}

// nobodyCan is how a run ends that has no account left to ask.
func (r *Run) nobodyCan() loop.Outcome {
	out := loop.Outcome{Ending: journal.AgentUnusable}
	for _, name := range r.machine.Among() {
		p := r.book.History.Providers.Get(name)
		why := "the agent cannot be run: " + p.Unusable
		if p.Unusable == "" {
			why = fmt.Sprintf("%s; %d tries in a row ended like this", p.Reason, p.Faults)
			out.Ending = journal.ProviderFails
		}
		if out.Message != "" {
			out.Message += "; "
		}
		out.Message += why
	}
	return out
}

// clearedLeast: a remembered limit that disappears earlier than this before its end was cleared by a person. At its end
// it disappears by itself.
const clearedLeast = time.Minute

// cleared reports whether a limit that an earlier run met holds no more: a person cleared it, or it was only our guess
// and he resumes a run that gave up.
func (r *Run) cleared() bool {
	now := r.tools.Now().Round(0)
	for _, name := range r.machine.Among() {
		until := r.machine.Accounts.Until(name)
		if until.Sub(now) <= clearedLeast {
			continue
		}
		if !r.book.History.Providers.Get(name).Until.After(now) {
			return true
		}
		_, found, err := r.tools.Accounts.Look(name, now)
		if err == nil && !found && r.tools.Accounts.Path(name) != "" {
			return true
		}
	}
	return false
}
