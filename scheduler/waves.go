package scheduler

import "fmt"

// EndWave is where a task of the checks of the end stands: behind all waves, and in none.
const EndWave = 1 << 30

// WaveCommits is what a run knows of them beside its tasks.
type WaveCommits struct {
	Committed int  // the highest of which the branch has a commit
	Upto      int  // of step: the wave that was open at the start; 0: all
	Checking  bool // a check of one, or of the end, is at work
	Again     bool // it failed once, and runs once more at the same tip
	Wave, Tip int  // of that check
}

func (w *WaveCommits) resumed(committed int) {
	w.Committed, w.Checking, w.Again = committed, false, false
}

// commit is what the branch gets now, if anything. A wave is committed when nothing more comes of it and of those
// before it; what later ones have merged by then comes with it. last: the run has nothing else to do, and leaves
// nothing uncommitted behind.
func (r *Run) commit(s *survey, last bool) (c Commit, ok bool) {
	k := &r.Trunk
	switch {
	case k.Aside, k.Taken == k.Moved:
	case r.taking() != nil || k.Refused < k.Moved:
		return c, false
	default:
		c.Aside = true // they clash and nobody could mend it, or are red together
	}
	limit := len(k.Chain)
	gate := r.Settings.WaveChecks && !r.commitsEachTask()
	if gate {
		limit = k.Good
	}
	work, due := 0, 0 // the first wave that gains work by it, and the first that is due
	for i := k.In; i < limit; i++ {
		if t := r.byID[k.Chain[i].Task]; t != nil {
			work = first(work, t.Wave)
			if gate || last || r.commitsEachTask() || t.Wave < s.open {
				due = first(due, t.Wave)
			}
		}
	}
	if due > 0 {
		c.Wave, c.Tip = work, limit
		c.Continued = work <= r.Waves.Committed
		return c, true
	}
	for _, t := range r.Tasks { // nothing of it was verified: the list alone, so that the next clone does not pay again
		if (t.Stage == Blocked || t.Unchanged && t.Stage == Done) && !t.Facts.Listed && (last || t.Wave < s.open) {
			due = first(due, t.Wave)
		}
	}
	for i := k.In; i < len(k.Chain) && !last; i++ { // work of that wave, whose checks come first, brings it
		if t := r.byID[k.Chain[i].Task]; t != nil && t.Wave < s.open {
			return c, false
		}
	}
	c.Wave, c.Tip = due, k.In
	c.Continued = due <= r.Waves.Committed
	return c, due > 0
}

func first(a, b int) int {
	if a == 0 {
		return b
	}
	return min(a, b)
}

// waveCheck is the check of a wave, or of the end, that is due.
func (r *Run) waveCheck(s *survey) (WaveCheck, bool) {
	if r.Waves.Checking || r.Stops.noChecks(s.now, &r.Limits) {
		return WaveCheck{}, false
	}
	if r.Waves.Again { // on the same commit, before it counts
		return WaveCheck{r.Waves.Wave, r.Waves.Tip}, true
	}
	k := &r.Trunk
	wave := 0
	if r.Settings.WaveChecks {
		for _, x := range k.Chain[k.Good:] {
			if t := r.byID[x.Task]; t != nil && t.Wave < s.open && t.Wave < EndWave {
				wave = first(wave, t.Wave)
			}
		}
	}
	if wave == 0 && r.Settings.EndCheck && s.open > EndWave && k.In == len(k.Chain) && k.EndGood < k.In {
		wave = EndWave
	}
	return WaveCheck{wave, len(k.Chain)}, wave > 0 && r.givenUp(wave) == nil
}

// givenUp is the blocked task of a check that fails: no other is added before a person tries it again, or commits.
func (r *Run) givenUp(wave int) *Task {
	for _, t := range r.Tasks {
		if t.OfCheck && t.Stage == Blocked && (wave == 0 || t.Wave == wave) {
			return t
		}
	}
	return nil
}

func (r *Run) waveCheckEnded(e WaveCheckEnded) {
	w, k := &r.Waves, &r.Trunk
	again := w.Again
	w.Checking, w.Again = false, false
	switch {
	case e.Result == Passed && e.Wave == EndWave:
		k.EndGood = max(k.EndGood, e.Tip)
		k.pass()
	case e.Result == Passed:
		k.Good = max(k.Good, e.Tip)
		k.pass()
	case e.Result == Failed && !again:
		w.Again, w.Wave, w.Tip = true, e.Wave, e.Tip
	case e.Result == Failed:
		name := fmt.Sprintf("check-%d-CHECK", e.Wave)
		if e.Wave == EndWave {
			name = "check-end-CHECK"
		}
		id := name
		for n := 2; r.byID[id] != nil && r.byID[id].Stage != Aside; n++ {
			id = fmt.Sprintf("%s-%d", name, n) // the one before it is in the trunk, and stays there
		}
		r.addTask(Task{Listed: Listed{ID: id}, Wave: e.Wave, OfCheck: true})
	default: // cut short
		w.Again = again
	}
}

// commitsEachTask: commit: task says so; and a step for one task does not wait for the rest of its wave, whose checks
// come with the run that ends it.
func (r *Run) commitsEachTask() bool { return r.Settings.PerTask || r.Settings.Only != "" }
