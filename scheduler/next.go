package scheduler

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

// survey is what is derived once for each Next, in one pass over the graph.
type survey struct {
	now      time.Time
	never    []bool          // it needs what there is not, or itself
	held     []bool          // behind what no longer comes
	rank     []int           // its own, or of one that waits for it
	hours    []float64       // of work behind it, itself included
	open     int             // the first wave of which something more comes to the trunk
	going    int             // the first that the branch does not have yet
	underWay int             // made, checking, reviewing
	paths    map[string]bool // at which those under way clashed
	scoped   []*Task         // under way, that say which files they change
	trees    int             // for checks
	taking   *Task           // that takes in commits which clash, while it is open
	takeDue  bool            // the branch has commits that are to be taken in first
	untried  map[int]bool    // waves with tasks that had no attempt
	halts    []string        // why no agent starts
}

func (r *Run) survey(now time.Time) *survey {
	n := len(r.Tasks)
	s := &survey{now: now, held: make([]bool, n), rank: make([]int, n), hours: make([]float64, n),
		open: EndWave + 1, going: EndWave + 1, trees: r.checkTrees()}
	order, tied := r.openOrder()
	s.never = tied
	for i, t := range r.Tasks {
		s.rank[i], s.hours[i] = t.Rank, cmp.Or(t.Hours, 1)
		s.never[i] = tied[i] || r.links.missing[i]
		s.held[i] = s.never[i] && t.Stage == Pending
	}
	for _, i := range order {
		for _, k := range r.links.needs[i] {
			if o := r.Tasks[k]; r.Tasks[i].Stage == Pending && (s.held[k] || o.Stage == Blocked || o.Stage == Aside) {
				s.held[i] = true
				s.never[i] = s.never[i] || s.never[k] && o.Stage == Pending
			}
		}
	}
	for j := len(order) - 1; j >= 0; j-- {
		i := order[j]
		waits := r.Tasks[i].Stage == Pending && !s.held[i]
		for _, k := range r.links.needs[i] {
			if waits {
				s.rank[k] = min(s.rank[k], s.rank[i])
				s.hours[k] = max(s.hours[k], s.hours[i]+cmp.Or(r.Tasks[k].Hours, 1))
			}
		}
	}
	for i, t := range r.Tasks {
		if !t.isFinal() && !s.held[i] {
			s.open = min(s.open, t.Wave)
		}
		if !t.isOver() && !s.held[i] {
			s.going = min(s.going, t.Wave)
		}
		if t.Takes != "" && !t.isFinal() {
			s.taking = t
		}
		if t.isAtWork() {
			s.occupy(t)
			if t.Stage != Running {
				s.underWay++
			}
		}
		if !r.Worked && t.Stage == Pending && t.Number == 0 && !s.held[i] {
			if s.untried == nil {
				s.untried = map[int]bool{}
			}
			s.untried[t.Wave] = true
		}
	}
	s.takeDue = r.takeDue(s) || r.Trunk.Busy == "take in"
	s.halts = r.halts(s)
	return s
}

// occupy: what clashed at a path with one of these would clash again.
func (s *survey) occupy(t *Task) {
	for _, p := range t.Clashes {
		if s.paths == nil {
			s.paths = map[string]bool{}
		}
		s.paths[p] = true
	}
	if len(t.Scope) > 0 {
		s.scoped = append(s.scoped, t)
	}
}

// Next is what to do now. What it returns is started, journaled and applied before it is asked again.
func (r *Run) Next(now time.Time) []Action {
	if r.Ended != "" {
		return nil
	}
	if len(r.Trunk.Lost) > 0 { // before anything else, and when what a fleet still makes has ended
		if r.isAtWork() {
			return nil
		}
		return []Action{r.cutTrunk()}
	}
	s := r.survey(now)
	var todo []Action
	if a := r.atTrunk(s); a != nil {
		todo = append(todo, a)
	}
	if c, ok := r.waveCheck(s); ok {
		todo = append(todo, c)
	}
	if len(s.halts) == 0 {
		todo = append(todo, r.attempts(s)...)
	}
	if len(todo) > 0 || r.isAtWork() || !r.wakes(s, true).IsZero() {
		return todo
	}
	if c, ok := r.commit(s, true); ok {
		return []Action{c}
	}
	return []Action{r.end(s)}
}

// atTrunk is the one thing to do there: take in, commit, check.
func (r *Run) atTrunk(s *survey) Action {
	switch {
	case len(r.Stops.Lost) > 0: // the trunk has what a person took out of the branch
		return nil
	case r.Trunk.Busy != "" && r.Trunk.Busy != "check":
		return nil
	case r.takeDue(s) && !r.Stops.Now:
		return r.whenFree(TakeIn{r.Trunk.Branch[len(r.Trunk.Branch)-1]})
	}
	if c, ok := r.commit(s, false); ok {
		return r.whenFree(c)
	}
	if r.Stops.Now {
		return nil
	}
	return r.checkDue(s)
}

// whenFree is an action that waits for the checks at work, and starts before another one.
func (r *Run) whenFree(a Action) Action {
	if r.Trunk.Busy != "" {
		return nil
	}
	return a
}

func (r *Run) needsBaseline() bool {
	b := r.Settings.Baseline
	return b != "" && b != "off" && r.Baseline == ""
}

func (r *Run) attempts(s *survey) (todo []Action) {
	var free []Lane
	taken := map[int]bool{}
	for _, t := range r.Tasks {
		if t.Lane >= 0 {
			taken[t.Lane] = true
		}
	}
	for _, l := range r.Lanes {
		if !taken[l.Number] {
			free = append(free, l)
		}
	}
	if len(free) == 0 {
		return nil
	}
	slices.SortFunc(free, func(a, b Lane) int { // what any lane can do does not take the one with a label
		return cmp.Or(len(a.Labels)-len(b.Labels), a.Number-b.Number)
	})
	var order []*Task
	for _, t := range r.Tasks {
		if t.Stage == Reviewing && t.Lane < 0 || r.isReady(t, s) {
			order = append(order, t)
		}
	}
	slices.SortStableFunc(order, func(a, b *Task) int { return r.compare(a, b, s) })
	started := r.Attempts
	for _, t := range order {
		purpose, accounts := r.turnOf(t)
		if purpose != Review && r.meetsAtPath(t, s) || purpose == Work && started >= r.Limits.Total {
			continue
		}
		account := ""
		i := slices.IndexFunc(free, func(l Lane) bool {
			if l.suits(t, purpose) {
				account, _, _ = r.Accounts.pickOn(l.Worker, accounts, s.now)
			}
			return account != ""
		})
		if i < 0 {
			continue
		}
		if purpose == Work {
			started++
		}
		s.occupy(t)
		todo = append(todo, Attempt{t.ID, free[i].Number, account, purpose})
		if free = slices.Delete(free, i, i+1); len(free) == 0 {
			break
		}
	}
	return todo
}

// turnOf is what an agent of a task would be for, and whose quota it may use.
func (r *Run) turnOf(t *Task) (p Purpose, accounts []string) {
	switch {
	case t.Stage == Reviewing:
		return Review, r.reviewersOf(t)
	case t.Look:
		return SecondLook, t.Accounts
	}
	return Work, t.Accounts
}

// reviewersOf are the accounts whose agents may review what a task has made.
func (r *Run) reviewersOf(t *Task) []string {
	if !r.Settings.OtherReviewer {
		return t.Review
	}
	return slices.DeleteFunc(slices.Clone(t.Review), func(a string) bool { return a == t.By })
}

// suits reports whether a lane has what a task needs; a review needs nothing.
func (l *Lane) suits(t *Task, p Purpose) bool { return p == Review || hasLabels(l, t.Labels) }

// workerOf is the machine of a lane.
func (r *Run) workerOf(lane int) string {
	for _, l := range r.Lanes {
		if l.Number == lane {
			return l.Worker
		}
	}
	return ""
}

// quota is how things stand with the accounts of a task, over the lanes that it could have: can, one can be used now;
// else at, when the first can, and whether that is only a rest. A worker's machine has accounts of its own.
type quota struct {
	can, resting bool
	at           time.Time
}

func (r *Run) quotaOf(t *Task, now time.Time) (q quota) {
	purpose, accounts := r.turnOf(t)
	last, first := "", true
	for i := range r.Lanes {
		l := &r.Lanes[i]
		if !l.suits(t, purpose) || !first && l.Worker == last {
			continue
		}
		last, first = l.Worker, false
		account, at, resting := r.Accounts.pickOn(l.Worker, accounts, now)
		q.can = q.can || account != ""
		q.resting = q.resting || resting
		if account == "" && !at.IsZero() {
			q.at = earlier(at, q.at)
		}
	}
	return q
}

func hasLabels(l *Lane, labels []string) bool {
	return !slices.ContainsFunc(labels, func(x string) bool { return !slices.Contains(l.Labels, x) })
}

// isReady reports whether a task could start, were there a lane and an account, and nobody at the same paths.
func (r *Run) isReady(t *Task, s *survey) bool {
	switch {
	case t.Stage != Pending, s.held[t.at], !r.hasNeeds(t):
		return false
	case s.takeDue, r.needsBaseline(): // it starts from the branch as it is, and not before that is known
		return false
	case len(r.Lanes) == 1 && (s.underWay > 0 || r.Breaker.doubted() != ""):
		return false // with one lane an agent sees what the one before it made, and whether the trunk is at fault
	case !r.isInStep(t):
		return false
	}
	return t.isOurs() || r.Settings.Only != "" || t.Wave <= s.going || len(r.Lanes) > 1 && !r.Settings.Barrier && !r.Settings.Step
}

// isInStep reports whether a step is for a task: its wave, or the one task that was named. Without one all are.
func (r *Run) isInStep(t *Task) bool {
	return t.isOurs() ||
		(r.Waves.Upto == 0 || t.Wave <= r.Waves.Upto) && (r.Settings.Only == "" || t.ID == r.Settings.Only)
}

// meetsAtPath reports whether what is under way keeps a task from starting, by its paths.
func (r *Run) meetsAtPath(t *Task, s *survey) bool {
	if slices.ContainsFunc(t.Clashes, func(p string) bool { return s.paths[p] }) {
		return true
	}
	with, _ := r.meetsInScope(t, s)
	return with != nil
}

// meetsInScope is a task under way that may change the same files, and where, if that is to be heeded; nil for none.
func (r *Run) meetsInScope(t *Task, s *survey) (with *Task, where []string) {
	if r.Settings.RespectScope && len(t.Scope) > 0 {
		for _, o := range s.scoped {
			if where = meeting(t.Scope, o.Scope); len(where) > 0 {
				return o, where
			}
		}
	}
	return nil, nil
}

// Waits says which tasks could start but for those under way that may change the same files.
func (r *Run) Waits(now time.Time) (list []Wait) {
	s := r.survey(now)
	for _, t := range r.Tasks {
		if with, where := r.meetsInScope(t, s); with != nil && len(s.halts) == 0 && r.isReady(t, s) {
			list = append(list, Wait{Task: t.ID, On: with.ID, Path: strings.Join(where, ", ")})
		}
	}
	return list
}

// compare puts what ends something before what starts something, and what is urgent before what is not.
func (r *Run) compare(a, b *Task, s *survey) int {
	turn := func(t *Task) int {
		switch {
		case t.Stage == Reviewing:
			return 0
		case t.isOurs():
			return 1
		case r.waitsForOthers(t, s):
			return 4
		case t.Again:
			return 2
		}
		return 3
	}
	c := cmp.Or(turn(a)-turn(b), s.rank[a.at]-s.rank[b.at])
	if len(r.Lanes) > 1 {
		c = cmp.Or(c, cmp.Compare(s.hours[b.at], s.hours[a.at]))
	}
	return cmp.Or(c, a.at-b.at)
}

// waitsForOthers: an agent that cannot run is found out by one attempt of each task, not by three of one.
func (r *Run) waitsForOthers(t *Task, s *survey) bool {
	return !r.Worked && t.Crashed > 0 && s.untried[t.Wave]
}

func (r *Run) isAtWork() bool {
	return r.Trunk.Busy != "" || len(r.Waves.Checking) > 0 ||
		slices.ContainsFunc(r.Tasks, func(t *Task) bool { return t.Lane >= 0 })
}

// Wakes is when to ask Next again although nothing happened; zero: not at all.
func (r *Run) Wakes(now time.Time) time.Time {
	if r.Ended != "" || len(r.Trunk.Lost) > 0 {
		return time.Time{}
	}
	return r.wakes(r.survey(now), !r.isAtWork())
}

// wakes is when the first account can be used that somebody waits for. A run that has nothing else to do waits within
// bounds.
func (r *Run) wakes(s *survey, idle bool) (at time.Time) {
	if len(s.halts) > 0 {
		return at
	}
	for _, t := range r.Tasks {
		if u := r.waitsUntil(t, s); !u.IsZero() && !(idle && r.Accounts.IsTooLong(&r.Limits.Bounds, u, s.now)) {
			at = earlier(u, at)
		}
	}
	return at
}

// waitsUntil is when an account of a task that could start can be used again.
func (r *Run) waitsUntil(t *Task, s *survey) time.Time {
	if !(t.Stage == Reviewing && t.Lane < 0) &&
		(!r.isReady(t, s) || r.meetsAtPath(t, s) || !t.Look && r.Attempts >= r.Limits.Total) {
		return time.Time{}
	}
	return r.quotaOf(t, s.now).at
}
