package scheduler

import (
	"fmt"
	"slices"
)

// EndWave is where a task of the checks of the end stands: behind all waves, and in none.
const EndWave = 1 << 30

// WaveCommits is what a run knows of waves beside their tasks.
type WaveCommits struct {
	Committed int      // the highest of which the branch has a commit
	Upto      int      // of step: the wave that was open at the start; 0: all
	Checking  []string // names of the checks of a wave, or of the end, that are at work
	Red       []string // names of those that failed once, and run once more at the same tip
	Wave, Tip int      // of these
	Owed      []string // names of checks of the end that failed in an earlier run, and have not passed since
}

func (w *WaveCommits) resumed(committed int, owed []string) {
	w.Committed, w.Checking, w.Red, w.Owed = committed, nil, nil, union(w.Owed, owed)
}

// mended: a check that failed passed, perhaps in another way.
func (w *WaveCommits) mended(check string) {
	is := func(name string) bool { return name == check }
	w.Red, w.Owed = slices.DeleteFunc(slices.Clone(w.Red), is), slices.DeleteFunc(slices.Clone(w.Owed), is)
}

// commit is what the branch gets now, if anything. A wave is committed when nothing more comes of it and of those
// before it; what later ones have merged by then comes with it. last: the run has nothing else to do, and leaves
// nothing uncommitted behind.
func (r *Run) commit(s *survey, last bool) (c Commit, ok bool) {
	k := &r.Trunk
	switch {
	case len(r.Stops.Lost) > 0: // it would bring back what a person took out
		return c, false
	case r.Stops.Trouble.Commits, r.Stops.Cut:
		return c, false
	case k.Aside, k.Taken == len(k.Branch):
	case s.taking != nil || k.Refused < len(k.Branch):
		return c, false
	default:
		c.Aside = true // they clash and nobody could mend it, or are red together
	}
	limit := len(k.Entries)
	gate := len(r.Settings.WaveChecks) > 0 && !r.commitsEachTask()
	if gate {
		limit = k.passed(r.Settings.WaveChecks)
	}
	work, due := 0, 0 // the first wave that gains work by it, and the first that is due
	for i := k.In; i < limit; i++ {
		if t := r.byID[k.Entries[i].Task]; t != nil {
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
	for _, t := range r.Tasks { // nothing was verified: the list alone, so that the next clone does not pay again
		if t.IsUnlisted() && (last || t.Wave < s.open) {
			due = first(due, t.Wave)
		}
	}
	for i := k.In; i < len(k.Entries) && !last; i++ { // work of that wave, whose checks come first, brings it
		if t := r.byID[k.Entries[i].Task]; t != nil && t.Wave < s.open {
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

// waveCheck is what checks of a wave, or of the end, are due.
func (r *Run) waveCheck(s *survey) (c WaveCheck, ok bool) {
	w, k := &r.Waves, &r.Trunk
	if len(w.Checking) > 0 || s.takeDue || r.Stops.noChecks(s.now, &r.Limits) { // the branch's commits may mend it
		return c, false
	}
	if len(w.Red) > 0 { // on the same commit, before it counts
		return WaveCheck{w.Wave, w.Tip, slices.Clone(w.Red)}, true
	}
	c.Tip = len(k.Entries)
	for _, name := range r.Settings.WaveChecks {
		lacks := false
		for _, x := range k.Entries[k.Passed[name]:] {
			if t := r.byID[x.Task]; t != nil && t.Wave < s.open {
				wave := t.Wave
				if wave == EndWave { // its attempts ran other checks, before a resume
					wave = max(1, r.Waves.Committed)
				}
				c.Wave, lacks = first(c.Wave, wave), true
			}
		}
		if lacks {
			c.Checks = append(c.Checks, name)
		}
	}
	if c.Wave == 0 && s.open > EndWave && k.In == len(k.Entries) {
		for _, name := range r.Settings.EndChecks {
			if k.pass(k.Passed[name]) < k.In || slices.Contains(w.Owed, name) {
				c.Wave, c.Checks = EndWave, append(c.Checks, name)
			}
		}
	}
	return c, c.Wave > 0 && r.givenUp(c.Wave) == nil
}

// givenUp is the blocked task of a check that fails: no other is added before a person tries it again, or commits.
func (r *Run) givenUp(wave int) *Task {
	for _, t := range r.Tasks {
		if t.Check != "" && t.Stage == Blocked && (wave == 0 || t.Wave == wave) {
			return t
		}
	}
	return nil
}

func (r *Run) waveCheckEnded(e WaveCheckEnded) {
	w := &r.Waves
	ran := w.Checking
	if w.Checking = nil; e.Result == Cut {
		return
	}
	for _, name := range ran {
		if e.Result == Passed || !slices.Contains(e.Failed, name) {
			r.Trunk.sawPass(name, e.Tip)
			w.mended(name)
		}
	}
	if r.tookInSince(e.Tip) { // which may have mended what fails: it is checked on that
		return
	}
	var again []string
	for _, name := range e.Failed {
		switch {
		case !slices.Contains(ran, name):
		case slices.Contains(w.Red, name):
			r.addTask(Task{Listed: Listed{ID: r.checkID(e.Wave, name)}, Wave: e.Wave, Check: name})
		default:
			again = append(again, name)
		}
	}
	w.Red, w.Wave, w.Tip = again, e.Wave, e.Tip
}

// IsOwed reports whether a check of the end has yet to pass on what the branch has.
func (r *Run) IsOwed(check string) bool {
	k := &r.Trunk
	return slices.Contains(r.Waves.Owed, check) || k.pass(k.Passed[check]) < k.In
}

// tookInSince reports whether the trunk got commits of the branch's own after a tip.
func (r *Run) tookInSince(tip int) bool {
	return slices.ContainsFunc(r.Trunk.Entries[min(tip, len(r.Trunk.Entries)):], func(x Entry) bool {
		t := r.byID[x.Task]
		return x.Commit != "" || t != nil && t.Takes != ""
	})
}

// checkID names the task of a check that fails; one before it that is in the trunk stays there.
func (r *Run) checkID(wave int, check string) string {
	name := fmt.Sprintf("check-%d-%s", wave, check)
	if wave == EndWave {
		name = "check-end-" + check
	}
	id := name
	for n := 2; r.byID[id] != nil && r.byID[id].Stage != Aside; n++ {
		id = fmt.Sprintf("%s-%d", name, n)
	}
	return id
}

// commitsEachTask: commit: task says so; and a step for one task does not wait for the rest of its wave, whose checks
// come with the run that ends it.
func (r *Run) commitsEachTask() bool { return r.Settings.PerTask || r.Settings.Only != "" }
