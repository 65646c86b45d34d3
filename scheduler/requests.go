package scheduler

// requested does what a person or a signal asks.
func (r *Run) requested(e Requested) {
	t := r.byID[e.Task]
	switch e.Request {
	case Pause, PauseNow:
		r.Stops.Paused, r.Stops.Now = true, r.Stops.Now || e.Request == PauseNow
	case Go:
		r.Stops.Paused, r.Stops.Now = false, r.Stops.Now && (r.Stops.Stopped || r.Stops.Trouble.Checks)
		r.Stops.Cut = r.Stops.Cut && r.Stops.Stopped
	case Stop:
		r.Stops.Stopped = true
	case StopNow, Term:
		r.Stops.Stopped, r.Stops.Now = true, true
		r.Stops.Term = r.Stops.Term || e.Request == Term
	case Retry:
		if t.Stage == Blocked {
			r.retried = append(r.retried, retried{t.ID, t.Word, t.Facts})
			if t.reopen(); t.Word == Stuck { // which is older
				t.Word = ""
			}
			r.move(t, Pending, -1)
			r.numberWaves()            // what it needs may have come to a later wave
			if t.Wave < r.Waves.Upto { // the step is for it
				r.Waves.Upto = t.Wave
			}
		}
	case Accept: // a person's word instead of the checks'; it needs a commit
		switch {
		case t.Stage == Blocked && t.Shown:
			t.Asks, t.Unchanged = false, true
			r.move(t, Done, -1)
		case (t.Stage == Blocked || t.Stage == Pending) && (t.Kept || e.Kept):
			t.reopen()
			t.Accepted, t.Kept = true, true
			if t.Number++; t.Stage == Blocked {
				r.move(t, Pending, -1)
			}
		}
	}
}

// retried is a task that a person tries again, as it was before.
type retried struct {
	task  string
	word  Word
	facts Facts
}

// takeBackRetries: a run that was refused leaves nothing behind.
func (r *Run) takeBackRetries() {
	for _, was := range r.retried {
		t := r.byID[was.task]
		if t.Stage != Pending || t.Accepted {
			continue
		}
		if t.Facts = was.facts; was.word == Stuck && t.Word == "" {
			t.Word = Stuck
		}
		r.block(t)
	}
	r.retried = nil
}

// takeAccepted has what a person accepted checked, once the trunk has what it needs.
func (r *Run) takeAccepted() {
	for _, t := range r.Tasks {
		if t.Stage == Pending && t.Accepted && r.hasNeeds(t) {
			t.From = len(r.Trunk.Entries)
			r.move(t, Made, -1)
		}
	}
}
