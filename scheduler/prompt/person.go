package prompt

import (
	"slices"
	"time"
)

// What a person says: requests, answers, and that it goes on.

func (r *Run) asked(q Request) {
	switch {
	case q == Go && r.Halt.Request == Pause:
		r.Halt.Request = ""
	case q == Go:
	case rank(q) > rank(r.Halt.Request):
		r.Halt.Request = q
	}
}

// rank orders what can be asked: none is weakened by a later one.
func rank(q Request) int {
	return slices.Index([]Request{Pause, Stop, PauseNow, StopNow, Terminate}, q)
}

func (r *Run) prechecked(o Opinion, at time.Time) {
	r.USD += o.USD
	r.move(Idle)
	switch o.Verdict {
	case Limited, Faulty, Refused:
		r.account(o.Verdict, o.Until)
	case Cancelled:
	default:
		r.Say = r.Gate.Agreed(o.Verdict == Passed, at)
	}
}

func (r *Run) answered(a Answer, at time.Time) {
	r.move(Idle)
	if a == Nobody {
		r.Halt.Alone = true
		return
	}
	r.answer(a == Yes, at)
}

// answer takes a person's word to what is open, if anything is.
func (r *Run) answer(yes bool, at time.Time) {
	switch w := r.Say; {
	case w.Word == Wait && w.What == OfAgent:
		r.Say = Say{Word: Continue}
	case w.Word == Wait, w.Word == Open:
		r.Say = r.Gate.Answer(w.What, yes, at)
		r.Halt.Alone = !yes && r.Say.Word != Continue // he said no: it waits for another word of his
	case yes && (w.Word == First || w.Word == Blocked && w.What == NoCheck):
		r.Say = r.Gate.Answer(NoCheck, true, at)
	}
}

// resumed takes git's word about what was under way, and a person's about what is open. After an end a person goes on;
// without one a kill is mended, and nothing is given again.
func (r *Run) resumed(e Resumed, at time.Time) {
	went := r.Ended != ""
	r.Ended, r.Limits = "", e.Limits
	r.Halt.Request, r.Halt.Alone, r.Halt.Lacks, r.Halt.Broken = "", false, "", ""
	if went || e.Anew {
		r.Accounts.Forget(e.Anew)
	}
	if went && r.Say.Word == Blocked { // he has seen to it; what is heard from here on he has not
		r.Say = Say{Word: Continue}
	}
	r.Whole.forget()
	r.recover(e, at)
	if r.At.Try == (Try{}) {
		r.Then.Plans, r.At.Try.Number = e.Plans, e.Number
	}
	if went {
		r.again()
	}
	if r.Stage == Idle && r.Say.Word != Done && r.Say.Word != Blocked && r.Say.What != OfAgent {
		r.Say = r.Gate.Begin(at)
	}
	if e.Yes {
		r.answer(true, at)
	}
}

// forget has what failed be checked again.
func (w *Whole) forget() {
	for _, v := range []*Verdict{&w.Baseline, &w.Last} {
		if *v == Failed {
			*v = ""
		}
	}
}

// again gives what an end took: tries, one more crash, what a person left aside.
func (r *Run) again() {
	r.Rows.Crashes.Resumed()
	if r.spent() {
		r.Then.Again, r.Rows.Tries = true, 0
	}
	if r.Rows.Refusals > mostRefusals {
		r.Rows.Refusals = 0
	}
	r.Halt.Apart, r.Halt.Clashed = false, false
}

// recover settles what a dead run left in the middle.
func (r *Run) recover(e Resumed, at time.Time) {
	switch {
	case r.Halt.Clashed && e.Landed: // a person merged it and all that it went on from, which no check of ours saw
		r.Halt.Clashed, r.Then.Owed = false, Try{}
		r.settle(false, at)
	case r.Stage == Running && e.Left != nil: // its commit is under its ref, and nobody wrote that down
		r.agentEnded(*e.Left, at)
	case r.Stage == Running: // what it wrote is kept aside; it begins again from what it had
		r.Then.Again = true
		r.move(Idle)
	case r.Stage == Checking:
		r.move(Made)
	case r.Stage == Reviewing:
		r.move(Checked)
	case r.Stage == Delivering && e.Landed:
		r.landed(at)
	case r.Stage == Delivering:
		r.move(Ready)
	case r.Stage == Asking, r.Stage == CheckingAll:
		r.move(Idle)
	}
	if r.Stage == Checked && r.reviewed() { // nobody is to review any more
		r.approved(at)
	}
}
