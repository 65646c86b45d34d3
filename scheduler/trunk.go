package scheduler

import (
	"cmp"
	"slices"
)

// Trunk is the chain of everything merged, what is at work at it, and what the branch got that is not ours.
type Trunk struct {
	Chain
	Busy    string   // "take in", "commit", "cut" or "check": one thing at a time
	Checks  int      // that are at work
	Alone   bool     // it is one beside which there is no other: of the tip itself
	Line    []string // tasks that are merged in this order if their checks pass
	Branch  []string // the branch's own commits
	Taken   int      // how many of them the trunk has
	Refused int      // so many were tried: they clash, or are red with ours
	Aside   bool     // the run's branch is descartes/<tag>, from its first commit there on
	Lost    []string // tasks whose commits the branch no longer has
	Moved   int      // how often in a row it was another one when it was to get a commit
}

// maxMoved is how often in a row a commit may meet a branch that others have moved: so it never gets one.
const maxMoved = 50

// trunkResumed takes git's word for the trunk. kept is how many entries it still has of those that the journal knew.
func (r *Run) trunkResumed(e Resumed) (kept int, isCut bool) {
	k, was := &r.Trunk, len(r.Trunk.Entries)
	kept = k.replace(e.Chain, e.In)
	isCut = kept < was
	*k = Trunk{Chain: k.Chain, Branch: slices.Clone(e.Branch), Aside: e.Aside, Lost: slices.Clone(e.Lost)}
	k.Taken = r.takenBy(k.Entries)
	return kept, isCut
}

// isBehind reports whether the branch has all that the trunk has, and more, which is taken in without a check.
func (k *Trunk) isBehind() bool { return k.Taken < len(k.Branch) && k.In == len(k.Entries) }

// takenBy is how many of the branch's own commits these entries have.
func (r *Run) takenBy(entries []Entry) (n int) {
	at := make(map[string]int, len(r.Trunk.Branch))
	for i, c := range r.Trunk.Branch {
		at[c] = i + 1
	}
	for _, x := range entries {
		if t := r.byID[x.Task]; t != nil {
			n = max(n, at[t.Takes])
		}
		n = max(n, at[x.Commit])
	}
	return n
}

func (r *Run) branchMoved(e BranchMoved) {
	k := &r.Trunk
	k.Branch = union(k.Branch, e.Commits)
	r.Stops.Lost = union(r.Stops.Lost, e.Lost)
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
func (r *Run) takeDue(s *survey) bool {
	k := &r.Trunk
	return len(k.Branch) > max(k.Taken, k.Refused) && s.taking == nil
}

func (r *Run) takeInEnded(e TakeInEnded) {
	k := &r.Trunk
	upto := slices.Index(k.Branch, e.Commit) + 1
	switch k.Busy = ""; e.Result {
	case Passed:
		k.add(Entry{Commit: e.Commit})
		r.dropLine()
		k.Taken = max(k.Taken, upto)
		r.Waves.Red = nil
		r.dropOurs(func(t *Task) bool { return true }) // his commit may have mended it: tried again
	case Clashed:
		k.Refused = upto
		r.addTask(Task{Listed: Listed{ID: "take-in-" + e.Commit}, Wave: r.firstLoose(), Takes: e.Commit})
	case Failed: // red together: nobody's attempt pays, his next commit is tried again
		k.Refused = upto
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
		if t.Writing = ""; t.hasNoCommit() {
			t.Writing = t.Stage
		}
	}
}

func (r *Run) committed(e Committed) {
	k := &r.Trunk
	if k.Busy = ""; e.Result != Moved {
		k.Moved = 0
	} else if k.Moved++; k.Moved > maxMoved {
		r.Stops.met(Trouble{Why: "moves", Code: 5, Checks: true, Commits: true})
	}
	if e.Result != Passed {
		// what cut it short may be taken back
		r.Stops.Cut = r.Stops.Cut || e.Result == Cut && r.Stops.Now
		if e.Result == Failed { // what the checks passed and the branch's own commits are red together: they look at both
			for name, n := range k.Passed {
				k.Passed[name] = min(n, k.In)
			}
		}
		return
	}
	was := k.In
	k.In, k.Aside = k.pass(max(k.In, e.Tip)), k.Aside || e.Aside
	if e.Wave < EndWave {
		r.Waves.Committed = max(r.Waves.Committed, e.Wave)
	}
	for _, x := range k.Entries[was:k.In] {
		if t := r.byID[x.Task]; t != nil && t.Stage == Merged {
			r.move(t, Done, -1)
		}
	}
	for _, t := range r.Tasks {
		t.Facts.Listed = t.Writing
	}
}
