package tagrun

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
	"descartes/scheduler"
)

// What the run hears and says of its accounts. Which of them works is the machine's to decide.

// among are the accounts that a task may use, for an attempt or a review.
func (r *Run) among(id string) []string {
	t := r.machine.Task(id)
	if t == nil {
		return nil
	}
	if t.Stage == scheduler.Reviewing {
		return t.Review
	}
	return t.Accounts
}

// metElsewhere takes in the limits that other runs met and this one does not know.
func (r *Run) metElsewhere(task string) (met bool, err error) {
	now := r.ground.tools.Now().Round(0)
	for _, name := range r.among(task) {
		record, found, err := r.ground.tools.Accounts.Look(name, now)
		if err != nil {
			if err := r.warnOnce(err.Error()); err != nil {
				return met, err
			}
			continue
		}
		if !found || !record.Until.After(r.machine.Accounts.Until(name)) || record.Loop == r.ID() ||
			r.options.Anew && !record.At.After(r.book.History.Begun) {
			continue
		}
		met = true
		p := r.book.History.Providers.Get(name)
		p.Reason, p.Met = record.Reason, record.At
		r.told.records = append(r.told.records, record)
		if err := r.happened(scheduler.LimitMet{Account: name, Until: record.Until}); err != nil {
			return met, err
		}
	}
	return met, nil
}

// rests is until when an account must rest after an agent that ended like this; nil if it need not. A limit is noted
// for other runs that use the same account.
func (r *Run) rests(with config.Choice, res *agent.Result) (*time.Time, error) {
	now := r.ground.tools.Now().Round(0)
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
		return &until, r.warnOf(r.ground.tools.Accounts.Note(quota.Record{Backend: with.Backend, Until: reset,
			Reason: r.ground.tools.Redact.Text(res.Reason), Loop: r.ID(), At: now}))
	}
	if r.options.Anew && res.End == agent.Finished {
		return nil, r.warnOf(r.ground.tools.Accounts.Forget(with.Backend))
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
	if r.told.once[text] {
		return nil
	}
	r.told.once[text] = true
	return r.book.Write(&journal.Event{Type: journal.Warning, Message: text})
}

// takesOver tells people once that another account takes over.
func (r *Run) takesOver(a scheduler.Attempt) error {
	all := r.among(a.Task)
	if len(all) == 0 {
		return nil
	}
	first := all[0]
	if a.Account == first {
		delete(r.told.instead, first)
		return nil
	}
	p := r.book.History.Providers.Get(first)
	text := fmt.Sprintf("%s: %s takes over", cmp.Or(p.Unusable, p.Reason), a.Account)
	if text == r.told.instead[first] {
		return nil
	}
	r.told.instead[first] = text
	return r.book.Write(&journal.Event{Type: journal.Warning, Unit: r.unit(a.Task), Message: text})
}

// tellWaits tells people that tasks wait for an account: it has no quota, or rests.
func (r *Run) tellWaits() error {
	now := r.ground.tools.Now()
	if r.machine.Wakes(now).IsZero() {
		return nil
	}
	var lines []*journal.Event
	for _, t := range r.machine.Tasks {
		if t.Stage != scheduler.Pending && (t.Stage != scheduler.Reviewing || t.Lane >= 0) {
			continue
		}
		for _, name := range r.among(t.ID) {
			until, limited := r.machine.Accounts.Until(name), true
			if !until.After(now) {
				until, limited = r.machine.Accounts.Rest(name), false
			}
			if !until.After(now) || r.told.waits[name].Equal(until) {
				continue
			}
			r.told.waits[name] = until
			e := &journal.Event{Type: journal.LimitWaiting, Unit: r.unit(t.ID),
				Reason: r.book.History.Providers.Get(name).Reason,
				Detail: &journal.Detail{Exit: journal.Exit{Until: &until}, Client: journal.Client{Backend: name}}}
			if !limited {
				e.Detail.Cause = string(agent.Transient)
			}
			lines = append(lines, e)
		}
	}
	if len(lines) == 0 {
		return nil
	}
	return cmp.Or(r.book.Write(lines...), r.list.write())
}

// accounts are those of all tasks that are not over, in the order of the list.
func (r *Run) accounts() (names []string) {
	for _, t := range r.machine.Tasks {
		if t.Stage == scheduler.Done || t.Stage == scheduler.Aside {
			continue
		}
		for _, name := range r.among(t.ID) {
			if !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	return names
}

// usedUp is how a run ends whose accounts are out of quota for too long.
func (r *Run) usedUp() loop.Outcome {
	out := loop.Outcome{Ending: journal.QuotaUsedUp}
	first, now := "", r.ground.tools.Now()
	for _, name := range r.accounts() {
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
	for _, name := range r.accounts() {
		p := r.book.History.Providers.Get(name)
		why := "the agent cannot be run: " + p.Unusable
		if p.Unusable == "" {
			if p.Faults == 0 {
				continue
			}
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

// clearLimits lets accounts be asked again whose limits hold no more: a person said so, or cleared what is remembered of
// them, or it was only our guess and he resumes a run that gave up.
func (r *Run) clearLimits() error {
	now := r.ground.tools.Now().Round(0)
	for _, name := range r.accounts() {
		until := r.machine.Accounts.Until(name)
		if until.Sub(now) <= clearedLeast {
			continue
		}
		_, found, err := r.ground.tools.Accounts.Look(name, now)
		if r.options.Anew || !r.book.History.Providers.Get(name).Until.After(now) ||
			err == nil && !found && r.ground.tools.Accounts.Path(name) != "" {
			if err := r.happened(scheduler.LimitCleared{Account: name}); err != nil {
				return err
			}
		}
	}
	return nil
}
