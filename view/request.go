package view

import "descartes/loop/store"

// Pending is what a live loop was asked to do and has not done yet; its zero value is nothing.
type Pending struct {
	Asked    store.Request // by another terminal, a view or a page
	Now      bool          // at once
	Stopping bool          // by Ctrl-C where it runs, which nobody can take back
	Kind     string        // of the loop
	Underway bool          // an attempt is running
}

// PendingOf is what is asked of a loop that somebody looks at.
func PendingOf(v *store.View) Pending {
	if !v.Live {
		return Pending{}
	}
	return Pending{v.Asked, v.Now, !v.History.Stopping.IsZero(), v.State.Kind, v.History.Underway()}
}

// CanUndo is the request that can be taken back; "" if there is none.
func (p Pending) CanUndo() store.Request {
	if p.Stopping {
		return ""
	}
	return p.Asked
}

// Words are for the end of a state, in two words; "" for nothing.
func (p Pending) Words() string {
	switch {
	case p.Stopping && !p.Now:
		return "interrupted"
	case p.Asked != "":
		return string(p.Asked) + " requested"
	}
	return ""
}

// When says when the loop does what it was asked.
func (p Pending) When() string {
	switch {
	case !p.Underway:
		return "now, as no " + Unit(p.Kind) + " is running"
	case p.Now:
		return "now, the agent is interrupted"
	}
	return "when the running " + Unit(p.Kind) + " is finished"
}

// Text is the sentence; "" for nothing.
func (p Pending) Text() string {
	what, unit := p.Words(), Unit(p.Kind)
	switch {
	case what == "":
		return ""
	case !p.Underway:
		return what + ": no " + unit + " is running, the run stops now"
	case p.Now:
		return what + ": the agent is interrupted now"
	}
	return what + ": the run stops when its running " + unit + " is finished"
}
