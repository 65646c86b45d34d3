package run

import (
	"cmp"
	"fmt"
	"time"

	"descartes/agent"
	"descartes/config"
	"descartes/loop/accounts"
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
		if err := r.happened(prompt.LimitMet{Account: name, Until: record.Until}); err != nil {
			return met, err
		}
	}
	return met, nil
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

// known is what the run knows of its accounts now.
func (r *Run) known() *accounts.Known {
	return &accounts.Known{History: r.book.History, Remembered: r.tools.Accounts, Machine: &r.machine.Accounts,
		Bounds: &r.machine.Limits.Bounds, Redact: r.tools.Redact, Loop: r.ID(), Anew: r.options.Anew, Now: r.tools.Now()}
}

// rests is until when an account must rest after an agent that ended like this; nil if it need not.
func (r *Run) rests(with config.Choice, res *agent.Result) (*time.Time, error) {
	until, err := r.known().Rest(with.Backend, res)
	return until, r.warnOf(err)
}
