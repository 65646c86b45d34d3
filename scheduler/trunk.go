package scheduler

import (
	"cmp"
	"fmt"
)

// Entry is a commit of the trunk: a task's merge, or the branch's own commits.
type Entry struct {
	Task string
	Upto int // the branch's own, up to this one
}

// Trunk is the chain of everything merged. It only grows, but by a rewind.
type Trunk struct {
	Chain   []Entry
	In      int    // entries that the branch has
	Good    int    // entries that the checks of waves passed
	EndGood int    // entries that the checks of the end passed
	Busy    string // what is at work at it: one thing at a time
	Moved   int    // the branch's own commits
	Taken   int    // those in the trunk
	Refused int    // up to here they clash, or are red with ours
	Aside   bool   // the run's branch is descartes/<tag>, from its first commit there on
}

func (k *Trunk) resumed(e Resumed) {
	good, endGood := min(k.Good, len(e.Chain)), min(k.EndGood, len(e.Chain))
	*k = Trunk{Chain: append([]Entry{}, e.Chain...), In: e.In, Good: good, EndGood: endGood, Moved: e.Moved, Aside: e.Aside}
	for _, x := range k.Chain {
		k.Taken = max(k.Taken, x.Upto)
	}
	k.pass()
}

// pass goes over entries that are the branch's own: it has them, and no check of ours judges them.
func (k *Trunk) pass() {
	for _, n := range []*int{&k.In, &k.Good, &k.EndGood} {
		for *n < len(k.Chain) && k.Chain[*n].Task == "" {
			*n++
		}
	}
}

// merge: a checked commit is the next tip.
func (r *Run) merge(t *Task) {
	r.Trunk.Chain = append(r.Trunk.Chain, Entry{Task: t.ID})
	r.Trunk.Taken = max(r.Trunk.Taken, t.Takes)
	r.sawCheck(t, len(r.Trunk.Chain))
	r.move(t, Merged, -1)
	if t.Takes > 0 {
		r.dropOurs(func(o *Task) bool { return o.Takes > 0 })
	}
}

// sawCheck: the checks of an attempt at a CHECK ran it besides: that of a wave, or those of waves and of the end. What
// stands in the trunk up to it is seen, then.
func (r *Run) sawCheck(t *Task, tip int) {
	if !t.OfCheck {
		return
	}
	r.Waves.Again = false
	if r.Trunk.Good = max(r.Trunk.Good, tip); t.Wave == EndWave {
		r.Trunk.EndGood = max(r.Trunk.EndGood, tip)
	}
}

// dropOurs puts aside those tasks of ours that wait for a person, when what they were for has come by itself.
func (r *Run) dropOurs(which func(*Task) bool) {
	for _, t := range r.Tasks {
		if t.isOurs() && t.Stage == Blocked && which(t) {
			t.Gone = true
			r.applyWord(t)
		}
	}
}

// takeDue reports whether the branch has commits that nobody tried to take in. One task at a time does what does not
// go by itself.
func (r *Run) takeDue() bool {
	return r.Trunk.Moved > max(r.Trunk.Taken, r.Trunk.Refused) && r.taking() == nil
}

// taking is the task that takes in commits which clash, while it is open.
func (r *Run) taking() *Task {
	for _, t := range r.Tasks {
		if t.Takes > 0 && !t.isFinal() {
			return t
		}
	}
	return nil
}

func (r *Run) takeInEnded(e TakeInEnded) {
	k := &r.Trunk
	switch k.Busy = ""; e.Result {
	case Passed:
		k.Chain, k.Taken = append(k.Chain, Entry{Upto: e.Upto}), e.Upto
		k.pass()
		r.dropOurs(func(t *Task) bool { return true }) // his commit may have mended it: tried again
	case Clashed:
		k.Refused = e.Upto
		r.addTask(Task{Listed: Listed{ID: fmt.Sprint("take-in-", e.Upto)}, Wave: r.firstLoose(), Takes: e.Upto})
	case Failed: // red together: nobody's attempt pays, his next commit is tried again
		k.Refused = e.Upto
	}
}

// firstLoose is the first wave with work that the branch lacks, else the last that it has.
func (r *Run) firstLoose() int {
	wave := 0
	for _, t := range r.Tasks {
		if t.Stage == Merged && t.Wave < EndWave {
			wave = first(wave, t.Wave)
		}
	}
	return cmp.Or(wave, r.Waves.Committed, 1)
}

// commitStarted: the commit has the list as it is now; what is blocked while it is made comes with the next one.
func (r *Run) commitStarted() {
	r.Trunk.Busy = "commit"
	for _, t := range r.Tasks {
		t.Writing = t.Stage == Blocked || t.Unchanged && t.Stage == Done
	}
}

func (r *Run) committed(e Committed) {
	k := &r.Trunk
	if k.Busy = ""; e.Result != Passed {
		if e.Result == Failed { // what the checks passed and the branch's own commits are red together: they look at both
			k.Good = k.In
		}
		return
	}
	k.In, k.Aside = max(k.In, e.Tip), k.Aside || e.Aside
	k.pass()
	if e.Wave < EndWave {
		r.Waves.Committed = max(r.Waves.Committed, e.Wave)
	}
	for _, x := range k.Chain[:k.In] {
		if t := r.byID[x.Task]; t != nil && t.Stage == Merged {
			r.move(t, Done, -1)
		}
	}
	for _, t := range r.Tasks {
		t.Facts.Listed = t.Writing
	}
}

// rewound: a person took the trunk back to an entry. Tasks of ours that are not in it were made for a trunk that is no
// more.
func (r *Run) rewound(e Rewound) {
	k := &r.Trunk
	in := map[string]bool{}
	taken := 0
	for _, x := range e.Chain {
		in[x.Task] = true
		taken = max(taken, x.Upto)
	}
	*k = Trunk{Chain: append([]Entry{}, e.Chain...), In: e.In, Good: min(k.Good, len(e.Chain)), EndGood: min(k.EndGood, len(e.Chain)), Moved: e.Moved, Aside: k.Aside}
	open := map[string]bool{}
	for _, id := range e.Open {
		open[id] = true
	}
	for _, t := range r.Tasks {
		if t.PassedOn = -1; in[t.ID] {
			k.Taken = max(k.Taken, t.Takes)
			continue
		}
		t.Gone = t.Gone || t.isOurs()
		if t.isIn() || open[t.ID] && t.Stage != Aside && !t.ByHand {
			if t.reopen(); t.Stage == Pending {
				r.applyWord(t)
			} else {
				r.move(t, Pending, -1)
			}
		} else {
			r.applyWord(t)
		}
	}
	k.Taken = max(k.Taken, taken)
	k.pass()
	r.Waves.Again, r.Waves.Committed = false, e.Wave
	r.renumber = true
}
