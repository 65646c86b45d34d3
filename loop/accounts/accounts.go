// Package accounts is what a run of either kind notes of its accounts, and says of them when it ends. Which of them works
// is the machine's to decide.
package accounts

import (
	"fmt"
	"time"

	"descartes/agent"
	"descartes/agent/quota"
	"descartes/internal/redact"
	"descartes/loop"
	"descartes/loop/journal"
	"descartes/scheduler"
)

// Known is what a run knows of its accounts at a time. Only the goroutine that decides uses it.
type Known struct {
	History    *journal.State
	Remembered *quota.Accounts // by all loops of the user
	Machine    *scheduler.Accounts
	Bounds     *scheduler.Bounds
	Redact     *redact.Redactor
	Loop       string
	Anew       bool // the run was told to forget what is remembered
	Now        time.Time
}

// Rest is until when an account must rest after an agent that ended like this; nil if it need not. A limit is noted for
// other runs that use the same account; the error, why it cannot be, is to be told and stops nothing.
func (k *Known) Rest(backend string, res *agent.Result) (*time.Time, error) {
	now := k.Now.Round(0)
	known := *k.History.Providers.Get(backend)
	known.Until = k.Machine.Until(backend) // a limit that was cleared is none
	until := loop.Rest(&known, *res, now)
	if res.End == agent.Limited {
		reset := res.Until.Round(0)
		if reset.Before(now) {
			reset = until
		} else if k.Bounds.OnLimitStop { // the run ends instead of waiting
			until = reset
		}
		if res.Until.IsZero() && k.Bounds.OnLimitStop { // other runs find out for themselves
			return &until, nil
		}
		return &until, k.Remembered.Note(quota.Record{Backend: backend, Until: reset,
			Reason: k.Redact.Text(res.Reason), Loop: k.Loop, At: now})
	}
	if k.Anew && res.End == agent.Finished {
		return nil, k.Remembered.Forget(backend)
	}
	if until.IsZero() {
		return nil, nil
	}
	return &until, nil
}

// UsedUp is how a run ends whose accounts are out of quota for too long. A limit that this run did not meet itself since
// it began is said to be remembered.
func (k *Known) UsedUp(names []string) loop.Outcome {
	out := loop.Outcome{Ending: journal.QuotaUsedUp}
	first := ""
	for _, name := range names {
		until := k.Machine.Until(name)
		if until.After(k.Now) && (first == "" || until.Before(out.Until)) {
			first, out.Until = name, until
		}
	}
	if first == "" {
		return out
	}
	p := k.History.Providers.Get(first)
	out.Message = p.Reason
	wait := *k.Bounds
	wait.Deadline = time.Time{}
	switch b := k.Bounds; {
	case b.OnLimitStop:
	case k.Machine.IsTooLong(&wait, out.Until, k.Now):
		out.Message += "; the wait would be longer than max_wait: " + loop.ShortDuration(b.MaxWait)
	case !b.Deadline.IsZero() && !out.Until.Before(b.Deadline):
		out.Message += "; that is after the deadline"
	}
	if record, found := k.Remembered.Known(first, k.Now); found &&
		(!p.Met.After(k.History.Begun) || record.Loop != k.Loop && p.Met.Equal(record.At)) {
		out.Message += "; " + record.Forget()
	}
	return out
}

// NobodyCan is how a run ends that has no account left to ask. Its message is "" if none of them was ever in trouble.
func (k *Known) NobodyCan(names []string) loop.Outcome {
	out := loop.Outcome{Ending: journal.AgentUnusable}
	for _, name := range names {
		p := k.History.Providers.Get(name)
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

// IsCleared reports whether a limit that an earlier run met holds no more: a person cleared it, or it was only our guess
// and he resumes a run that gave up.
func (k *Known) IsCleared(name string) bool {
	now := k.Now.Round(0)
	if k.Machine.Until(name).Sub(now) <= clearedLeast {
		return false
	}
	if !k.History.Providers.Get(name).Until.After(now) {
		return true
	}
	_, found, err := k.Remembered.Look(name, now)
	return err == nil && !found && k.Remembered.Path(name) != ""
}
