package tagrun

import (
	"cmp"
	"context"

	"descartes/agent"
	"descartes/internal/oneline"
	"descartes/loop/book"
	"descartes/loop/journal"
	"descartes/scheduler"
)

// How a run waits: for what its actions come to, for people, and for accounts without quota.

// serve waits for what happens next, and takes it in. A wait for an account, or for its rest, is only a time: when that
// has come Run asks the machine again (scheduler.Run's Wakes and Next).
func (r *Run) serve() error {
	select {
	case then := <-r.did:
		r.busy--
		return then()
	case s := <-r.said:
		s.done <- s.take(r)
	case text := <-r.news:
		return r.book.Write(&journal.Event{Type: journal.Warning, Message: text})
	case <-r.asks.Wake:
	case <-r.asks.Over:
	case <-r.asks.Tick.C: // so a wait ends within a tick of its time
		return r.list.late()
	}
	return nil
}

// await is for what is slow while nothing else goes on: what do returns follows, and then it is over.
func (r *Run) await(do func(context.Context) (then func() error)) error {
	over := false
	ctx := r.asks.Now
	r.start(func() func() error {
		then := do(ctx)
		return func() error { over = true; return then() }
	})
	for !over {
		if err := r.serve(); err != nil {
			return err
		}
	}
	return nil
}

// tellWaits tells people that tasks wait: for one that may change the same files, or for an account, which has no quota
// or rests.
func (r *Run) tellWaits() error {
	now := r.ground.tools.Now()
	for _, w := range r.machine.Waits(now) {
		if text := oneline.Text(w.String()); !r.told.once[w.Task+" "+text] {
			r.told.once[w.Task+" "+text] = true
			u := r.unit(w.Task)
			u.Attempt, u.Of = 0, 0
			if err := r.book.Write(book.Warning(u, text)); err != nil {
				return err
			}
		}
	}
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
