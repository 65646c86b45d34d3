package scheduler

import (
	"cmp"
	"slices"
	"time"
)

// survey is what is derived once for each Next, in one pass over the graph.
type survey struct {
	now      time.Time
	never    []bool    // it needs what there is not, or itself
	held     []bool    // behind what no longer comes
	rank     []int     // its own, or of one that waits for it
	hours    []float64 // of work behind it, itself included
	open     int       // the first wave of which something more comes to the trunk
	going    int       // the first that the branch does not have yet
	underWay int       // made, checking, reviewing
	paths    map[string]bool
	untried  map[int]bool // waves with tasks that had no attempt
	halts    []string     // why no agent starts
}

func (r *Run) survey(now time.Time) *survey {
	n := len(r.Tasks)
	s := &survey{now: now, held: make([]bool, n), rank: make([]int, n), hours: make([]float64, n), open: EndWave + 1, going: EndWave + 1}
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
		if t.isAtWork() {
			s.occupy(t, r.Settings.RespectScope)
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
	s.halts = r.halts(s)
	return s
}

// occupy: what clashed at a path with one of these would clash again.
func (s *survey) occupy(t *Task, scope bool) {
	if s.paths == nil {
		s.paths = map[string]bool{}
	}
	for _, p := range t.Clashes {
		s.paths["clash "+p] = true
	}
	for _, p := range t.Scope {
		s.paths["scope "+p] = scope
	}
}

// Next is what to do now. What it returns is started, journaled and applied before it is asked again.
func (r *Run) Next(now time.Time) []Action {
	if r.Ended != "" {
		return nil
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
	if r.Trunk.Busy != "" {
		return nil
	}
	if r.takeDue() && !r.Stops.Now {
		return TakeIn{r.Trunk.Moved}
	}
	if c, ok := r.commit(s, false); ok {
		return c
	}
	if r.Stops.Now {
		return nil
	}
	if r.needsBaseline() && !r.Stops.noChecks(s.now, &r.Limits) {
		return Check{Purpose: Baseline}
	}
	if task := r.Breaker.doubted(); task != "" && !r.Stops.noChecks(s.now, &r.Limits) {
		return Check{Purpose: Recheck, Task: task, Known: r.Known}
	}
	var next *Task
	for _, t := range r.Tasks {
		if t.Stage == Made && (next == nil || t.Reviewed && !next.Reviewed || t.Reviewed == next.Reviewed && t.Turn < next.Turn) {
			next = t
		}
	}
	if next == nil {
		return nil
	}
	return Check{OfAttempt, next.ID, next.Reviewed && next.PassedOn == len(r.Trunk.Chain), r.Known}
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
		account, purpose := r.purposeOf(t, s.now)
		if account == "" || purpose != Review && r.meetsAtPath(t, s) || purpose == Work && started >= r.Limits.Total {
			continue
		}
		i := slices.IndexFunc(free, func(l Lane) bool { return purpose == Review || hasLabels(l, t.Labels) })
		if i < 0 {
			continue
		}
		if purpose == Work {
			started++
		}
		s.occupy(t, r.Settings.RespectScope)
		todo = append(todo, Attempt{t.ID, free[i].Number, account, purpose})
		if free = slices.Delete(free, i, i+1); len(free) == 0 {
			break
		}
	}
	return todo
}

// purposeOf is what an agent of a task would be for, and by whose account.
func (r *Run) purposeOf(t *Task, now time.Time) (account string, p Purpose) {
	switch {
	case t.Stage == Reviewing:
		account, _, _ = r.Accounts.Pick(t.Review, now)
		return account, Review
	case t.Look:
		p = SecondLook
	default:
		p = Work
	}
	account, _, _ = r.Accounts.Pick(t.Accounts, now)
	return account, p
}

func hasLabels(l Lane, labels []string) bool {
	return !slices.ContainsFunc(labels, func(x string) bool { return !slices.Contains(l.Labels, x) })
}

// isReady reports whether a task could start, were there a lane and an account, and nobody at the same paths.
func (r *Run) isReady(t *Task, s *survey) bool {
	switch {
	case t.Stage != Pending, s.held[t.at], !r.hasNeeds(t):
		return false
	case r.takeDue() || r.Trunk.Busy == "take in", r.needsBaseline(): // it starts from the branch as it is, and not before that is known
		return false
	case len(r.Lanes) == 1 && s.underWay > 0: // with one lane an agent sees what the one before it made
		return false
	case !r.isInStep(t):
		return false
	}
	return t.isOurs() || t.Wave <= s.going || len(r.Lanes) > 1 && !r.Settings.Barrier && !r.Settings.Step
}

// isInStep reports whether a step is for a task: its wave, or the one task that was named. Without one all are.
func (r *Run) isInStep(t *Task) bool {
	return t.isOurs() || (r.Waves.Upto == 0 || t.Wave <= r.Waves.Upto) && (r.Settings.Only == "" || t.ID == r.Settings.Only)
}

// meetsAtPath reports whether what is under way keeps a task from starting, by its paths.
func (r *Run) meetsAtPath(t *Task, s *survey) bool {
	return slices.ContainsFunc(t.Clashes, func(p string) bool { return s.paths["clash "+p] }) ||
		r.Settings.RespectScope && slices.ContainsFunc(t.Scope, func(p string) bool { return s.paths["scope "+p] })
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
	return r.Trunk.Busy != "" || r.Waves.Checking || slices.ContainsFunc(r.Tasks, func(t *Task) bool { return t.Lane >= 0 })
}

// Wakes is when to ask Next again although nothing happened; zero: not at all.
func (r *Run) Wakes(now time.Time) time.Time {
	if r.Ended != "" {
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
		if u := r.waitsUntil(t, s); !u.IsZero() && !(idle && r.Limits.IsTooLong(u, s.now)) {
			at = earlier(u, at)
		}
	}
	return at
}

// waitsUntil is when an account of a task that could start can be used again.
func (r *Run) waitsUntil(t *Task, s *survey) time.Time {
	list := t.Accounts
	if t.Stage == Reviewing && t.Lane < 0 {
		list = t.Review
	} else if !r.isReady(t, s) || r.meetsAtPath(t, s) || !t.Look && r.Attempts >= r.Limits.Total {
		return time.Time{}
	}
	_, at, _ := r.Accounts.Pick(list, s.now)
	return at
}
