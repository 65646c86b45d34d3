package scheduler

import (
	"slices"
	"time"
)

// Stops is what a person, a signal or the machine said since the run was started.
type Stops struct {
	Paused   bool
	Stopped  bool
	Now      bool
	Term     bool
	Lost     []string // tasks whose commits are gone from the branch
	Unpushed bool     // the last push failed
	Trouble  Trouble
	Cut      bool // a commit was cut short by one of these: a resume makes it
}

// met notes what cannot be done. What is not tried again for one reason is not for another.
func (s *Stops) met(t Trouble) {
	t.Checks, t.Commits = t.Checks || s.Trouble.Checks, t.Commits || s.Trouble.Commits
	s.Trouble, s.Now = t, s.Now || t.Checks
}

// noChecks: a run that is stopped or out of time starts none that is not an attempt's.
func (s *Stops) noChecks(now time.Time, l *Limits) bool {
	return s.Paused || s.Stopped || len(s.Lost) > 0 || s.Trouble.Code > 0 || l.IsLate(now)
}

// Halts reports whether no agent may start now, also one whose lane was prepared for it meanwhile.
func (r *Run) Halts(now time.Time) bool { return len(r.halts(r.survey(now))) > 0 }

// halts are the reasons why no agent starts; none while some may. What is made is checked, merged and committed all
// the same.
func (r *Run) halts(s *survey) (why []string) {
	l := &r.Limits
	for _, x := range []struct {
		is  bool
		why string
	}{
		{r.Stops.Trouble.Code > 0, "trouble"}, {r.Stops.Stopped, "stopped"}, {r.Stops.Paused, "paused"},
		{len(r.Stops.Lost) > 0, "lost"}, {r.Baseline == Failed && r.Settings.Baseline == "require", "baseline"},
		{r.givenUp(0) != nil, "checks"}, {r.Breaker.IsOpen(), "breaker"},
		{l.IsLate(s.now), "deadline"}, {l.IsSpent(r.USD), "cost"},
		{l.OnLimitStop && slices.ContainsFunc(r.Tasks, func(t *Task) bool { return r.isOut(t, s) }), "quota"},
	} {
		if x.is {
			why = append(why, x.why)
		}
	}
	return why
}

// isOut reports whether a task that may still come waits for quota.
func (r *Run) isOut(t *Task, s *survey) bool {
	if t.Stage != Reviewing && (t.Stage != Pending || s.held[t.at] || r.Settings.Only != "" && !r.isInStep(t)) {
		return false
	}
	q := r.quotaOf(t, s.now)
	return !q.can && !q.at.IsZero() && !q.resting
}

// codes of the reasons to end, in the order in which they count.
var codes = []struct {
	why  string
	code int
}{
	{"baseline", 2}, {"step", 2}, {"term", 143}, {"stopped", 130}, {"aside", 5}, {"push", 5},
	{"quota", 75}, {"agent", 4}, {"blocked", 3}, {"limit", 6}, {"cost", 6}, {"deadline", 6},
	{"paused", 7}, {"lost", 7}, {"breaker", 7}, {"asks", 7},
}

// resumable are the reasons for which a run ends with tasks left that its resume goes on with.
var resumable = []string{"breaker", "quota", "paused", "limit", "cost", "deadline"}

// end says how the run ends, when nothing is left to do.
func (r *Run) end(s *survey) End {
	why := map[string]bool{}
	left, blocked, crashed, asks := false, 0, 0, 0
	var review *Task // that no step is for, and that keeps others from starting
	for i, t := range r.Tasks {
		if !r.isInStep(t) || t.Stage == Merged && r.Waves.Upto > 0 && t.Wave > r.Waves.Upto { // another step commits that
			if t.Stage == Reviewing {
				review = t
			}
			continue
		}
		switch {
		case t.Stage == Blocked && t.Asks:
			asks++
		case t.Stage == Blocked:
			if blocked++; t.Crashed > 0 && t.Crashed == t.Spent {
				crashed++
			}
		case s.held[i]:
			if s.never[i] {
				blocked++
			}
		case !t.isOver():
			left = true
			r.whyLeft(t, s, why)
		}
	}
	if left && review != nil {
		r.whyLeft(review, s, why)
	}
	why["blocked"] = blocked > 0
	why["asks"] = asks > 0
	why["agent"] = why["agent"] || blocked > 0 && crashed == blocked
	why["aside"] = r.Trunk.Aside && len(r.Trunk.Branch) > r.Trunk.Taken // else only his files are in the way
	why["push"] = r.Stops.Unpushed
	why["baseline"] = slices.Contains(s.halts, "baseline")
	for _, h := range s.halts {
		why[h] = why[h] || left
	}
	if t := r.byID[r.Settings.Only]; t != nil { // it is not its turn
		why["step"] = t.Stage == Pending && !s.held[t.at] && !r.hasNeeds(t)
	}
	why["lost"] = len(r.Stops.Lost) > 0
	why["term"] = left && r.Stops.Term
	if t := r.Stops.Trouble; t.Code > 0 {
		return End{Why: t.Why, Code: t.Code}
	}
	halt := ""
	if i := slices.IndexFunc(resumable, func(x string) bool { return why[x] }); i >= 0 {
		halt = resumable[i]
	}
	for _, c := range codes {
		if why[c.why] {
			e := r.endBy(c.why, c.code)
			e.Halt = halt
			return e
		}
	}
	if left {
		return End{Why: "left", Code: 1}
	}
	return End{Why: "done"}
}

func (r *Run) endBy(why string, code int) End {
	e := End{Why: why, Code: code}
	if why == "lost" {
		e.Tasks = r.Stops.Lost
	}
	return e
}

// whyLeft says what a task waits for that does not come in this run.
func (r *Run) whyLeft(t *Task, s *survey, why map[string]bool) {
	switch {
	case len(s.halts) > 0:
		return
	case t.Stage == Reviewing:
	case !r.isReady(t, s), r.meetsAtPath(t, s):
		return
	case !t.Look && r.Attempts >= r.Limits.Total:
		why["limit"] = true
		return
	}
	switch q := r.quotaOf(t, s.now); {
	case !q.can && !q.at.IsZero():
		why["quota"] = true
	default: // no account is left, or no lane has its labels
		why["agent"] = true
	}
}
