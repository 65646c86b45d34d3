package tagrun

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"descartes/agent"
	"descartes/config"
	"descartes/loop/accounts"
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
		if err := r.happened(scheduler.LimitMet{Account: name, Until: record.Until}); err != nil {
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

// known is what the run knows of its accounts now.
func (r *Run) known() *accounts.Known {
	t := r.ground.tools
	return &accounts.Known{History: r.book.History, Remembered: t.Accounts, Machine: &r.machine.Accounts,
		Bounds: &r.machine.Limits.Bounds, Redact: t.Redact, Loop: r.ID(), Anew: r.options.Anew, Now: t.Now()}
}

// rests is until when an account must rest after an agent that ended like this; nil if it need not.
func (r *Run) rests(with config.Choice, res *agent.Result) (*time.Time, error) {
	until, err := r.known().Rest(with.Backend, res)
	return until, r.warnOf(err)
}

// clearLimits lets accounts be asked again whose limits hold no more, or that a person wants asked.
func (r *Run) clearLimits() error {
	k := r.known()
	for _, name := range r.accounts() {
		// a fleet knows its accounts better than an earlier run did
		anew := r.options.Anew || r.ground.tools.Away != nil
		if k.IsCleared(name) || anew && k.Machine.Until(name).After(k.Now) {
			if err := r.happened(scheduler.LimitCleared{Account: name}); err != nil {
				return err
			}
		}
	}
	return nil
}
