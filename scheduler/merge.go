package scheduler

import "slices"

// merges reports whether what passed so is merged. What was asked for when the check started holds, for the executor
// went by that.
func (b *Basis) merges(e *CheckEnded) bool {
	return e.Result == Passed && (b.Review == NoReview || b.Review == IfChanged && !e.Changed)
}

// judge is what follows from a check that counts.
func (r *Run) judge(t *Task, e CheckEnded) {
	switch {
	case t.Accepted && e.Result != Clashed: // a person's word: what is red is known from now on
		r.Known, r.Accepted = union(r.Known, e.Known), union(r.Accepted, e.Known)
		r.merge(t)
		return
	case e.Result == Passed:
		r.Breaker.Passed()
		if t.On.merges(&e) {
			isMended := func(k string) bool { return slices.Contains(e.Mended, k) }
			r.Known = slices.DeleteFunc(slices.Clone(r.Known), isMended)
			r.Accepted = slices.DeleteFunc(slices.Clone(r.Accepted), isMended)
			r.mergePassed(t)
			return
		}
		t.Reviewed, t.On.Passed = false, true
		if r.moneySpent(t) && len(t.Review) > 0 {
			r.block(t)
		} else {
			r.review(t)
		}
	case e.Result == Failed && e.Ask:
		t.Asks = true
		r.block(t)
	case e.Result == Failed:
		r.failAttempt(t, e.Signature, false)
		if t.Stage == Blocked && t.Check == "" && r.tipPassed() { // that the tip fails a CHECK is why its task is there
			r.Breaker.blocked(t.ID, r.Settings.Breaker)
		}
	case e.Result == Clashed:
		t.Clashes = union(t.Clashes, e.Paths)
		if t.Accepted {
			t.Accepted = false
			r.block(t)
		} else {
			r.retryOrBlock(t)
		}
	}
	r.leaveLine(t)
}

// tipPassed reports whether the checks have passed on the tip, known failures aside: else that a task fails so says
// nothing about it.
func (r *Run) tipPassed() bool {
	return r.Baseline == Passed || r.Baseline == Failed && r.Settings.Baseline == "known" ||
		slices.ContainsFunc(r.Trunk.Entries, func(x Entry) bool { return x.Task != "" })
}

// mergePassed: the executor has merged what passed on the tip; what passed on others' commits it merges now.
func (r *Run) mergePassed(t *Task) {
	if len(t.On.With) > 0 && !t.On.Passed {
		t.On.Passed = true
		r.move(t, Made, -1)
		return
	}
	r.merge(t)
}

// merge: a checked commit is the next tip.
func (r *Run) merge(t *Task) {
	k := &r.Trunk
	k.add(Entry{Task: t.ID})
	if len(k.Line) > 0 && k.Line[0] == t.ID {
		k.Line = k.Line[1:]
	}
	if t.Takes != "" {
		k.Taken = max(k.Taken, slices.Index(k.Branch, t.Takes)+1)
	}
	r.sawCheck(t, len(k.Entries))
	r.move(t, Merged, -1)
	if t.Takes != "" {
		r.Waves.Red = nil
		r.dropOurs(func(o *Task) bool { return o.Takes != "" })
	}
}

// sawCheck: the checks of an attempt at a CHECK ran it besides: that of a wave, or one of the end and those of waves.
// What stands in the trunk up to it is seen, then.
func (r *Run) sawCheck(t *Task, tip int) {
	if t.Check == "" {
		return
	}
	seen := []string{t.Check}
	if t.Wave == EndWave {
		seen = append(seen, r.Settings.WaveChecks...)
	}
	for _, name := range seen {
		r.Trunk.sawPass(name, tip)
		r.Waves.mended(name)
	}
}
