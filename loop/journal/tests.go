package journal

import (
	"cmp"
	"slices"
)

// Known is what is known about a check on all verified work so far: what failed before the first attempt, less what
// has passed since, plus added tests.
type Known struct {
	Check   string
	Command string
	Failed  bool // it did not pass before the first attempt, nor since
	Told    bool // its test results are known
	More    int  // passing tests without a name here

	Passes, Fails []string // tests
}

// knownOf is what a check before the first attempt tells.
func knownOf(d *Detail) *Known {
	k := &Known{Check: d.Check, Command: d.Command, Failed: !d.Passed}
	if t := d.Tests; t != nil {
		k.Told, k.More, k.Passes, k.Fails = true, t.More, t.Passes, t.Fails
	}
	return k
}

// after returns what is known once a verified attempt is part of the state: what failed and now passes raises the bar
// for all later ones. was is what was known when the attempt began. It does not change k.
func (k *Known) after(d *Detail, was *Known) *Known {
	next := *k
	if !d.Standing {
		next.Failed = k.Failed && d.Tests != nil && d.Tests.Failed > 0
	}
	t := d.Tests
	if t == nil || !k.Told {
		return &next
	}
	next.Fails = without(without(k.Fails, t.Fixed), t.Gone)
	if next.Passes = without(k.Passes, t.Gone); t.More == 0 { // else they are among those without a name
		next.Passes = slices.Compact(slices.Sorted(slices.Values(slices.Concat(next.Passes, t.Fixed, t.Added))))
	}
	next.More = max(0, k.More+t.More-was.More)
	return &next
}

func without(names, some []string) []string {
	if len(some) == 0 {
		return names
	}
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool { return slices.Contains(some, name) })
}

// Flaky is a check, or one of its tests, that failed and passed when run again.
type Flaky struct {
	Check string `json:"check,omitempty"` // "" for the only one
	Test  string `json:"test,omitempty"`  // "" if unknown
	Times int    `json:"times"`
}

// Apart reports whether a check belongs to no attempt: it ran before the first one, or on the whole state.
func (d *Detail) Apart() bool { return d != nil && (d.Baseline || d.At != "") }

// Flaky is what failed and passed when run again, most frequent first.
func (s *State) Flaky() (list []Flaky) {
	for f, n := range s.flaky {
		f.Times = n
		list = append(list, f)
	}
	slices.SortFunc(list, func(a, b Flaky) int {
		return cmp.Or(b.Times-a.Times, cmp.Compare(a.Check, b.Check), cmp.Compare(a.Test, b.Test))
	})
	return list
}

// Tally sums up the runs of one of several checks.
type Tally struct {
	Check   string  `json:"check"`
	Runs    int     `json:"runs"`
	Failed  int     `json:"failed"`
	Flaky   int     `json:"flaky"`
	Seconds float64 `json:"seconds"`
	Fails   string  `json:"fails,omitempty"` // why its last run on the whole work failed, if it did
}

// Check is what is known about one of the checks.
type Check struct {
	Tally
	Pass  Pass   // the last time that it passed; zero for never
	Known *Known // nil if it did not run before the first attempt

	bare string // the tree on which it failed, before the first attempt, as a fresh clone has that
}

// Pass is a tree on which a verify command passed.
type Pass struct {
	Tree, Command string
	Told          bool // its test results were known
}

// Checks are several of them.
type Checks []*Check

// Named returns what is known about one of them, never nil; "" is the only one.
func (all Checks) Named(name string) *Check {
	if at := slices.IndexFunc(all, func(c *Check) bool { return c.Check == name }); at >= 0 {
		return all[at]
	}
	return &Check{Tally: Tally{Check: name}}
}

// Tallies sum up the runs of named checks.
func (s *State) Tallies() (list []Tally) {
	for _, c := range s.Checks {
		if c.Check != "" {
			list = append(list, c.Tally)
		}
	}
	return list
}

// known is what is known about each check.
func (s *State) known() (list []*Known) {
	for _, c := range s.Checks {
		if c.Known != nil {
			list = append(list, c.Known)
		}
	}
	return list
}

// noteCheck applies the end of a check: at once if it ran on a tree without unverified work, else once the attempt is
// verified.
func (s *State) noteCheck(e *Event) {
	d := e.Detail
	c := s.Checks.Named(d.Check)
	if c.Runs == 0 {
		s.Checks = append(s.Checks, c)
	}
	c.Runs, c.Seconds = c.Runs+1, c.Seconds+d.Seconds
	switch {
	case !d.Passed:
		c.Failed++
	case d.Tries > 1:
		c.Tally.Flaky++
		tests := d.Flaky
		if len(tests) == 0 {
			tests = []string{""}
		}
		for _, test := range tests {
			s.flaky[Flaky{Check: d.Check, Test: test}]++
		}
	}
	if d.At != "" {
		c.Fails = e.Reason
	}
	switch {
	case !d.Baseline:
	case d.Alone && !d.Passed:
		c.bare = e.Tree
	case d.Alone:
		c.bare = ""
	case d.Passed && c.bare == e.Tree: // only beside files that no commit has
		return
	}
	if d.Apart() && d.Passed {
		c.Pass = Pass{e.Tree, d.Command, d.Tests != nil}
	} else if d.Baseline {
		c.Pass = Pass{}
	}
	if d.Baseline && e.Task == "" {
		s.BaselineOutput, c.Known = d.Output, knownOf(d)
	}
}

// passed are the checks that an attempt has passed and that decide about it.
func (a *Attempt) passed() []*Detail {
	return slices.DeleteFunc(slices.Clone(a.Checks), func(d *Detail) bool { return !d.Passed || d.Command == "" })
}

// passAttempt applies that an attempt is verified: its checks passed on what it left.
func (s *State) passAttempt(e *Event) {
	for _, d := range s.Attempt(e.Key()).passed() {
		s.Checks.Named(d.Check).Pass = Pass{e.Tree, d.Command, d.Tests != nil}
	}
}

// KnownAt is what was known about a check when a task that is open began: its tree lacks what others changed since.
func (s *State) KnownAt(task, check string) *Known {
	t := s.Task(task)
	if !t.Open() {
		return s.Checks.Named(check).Known
	}
	if at := slices.IndexFunc(t.bar, func(k *Known) bool { return k.Check == check }); at >= 0 {
		return t.bar[at]
	}
	return nil
}

// integrateTests applies that an attempt's work is now part of the state.
func (s *State) integrateTests(e *Event) {
	a := s.Attempt(e.Key())
	if a == nil || a.tested || a.Verdict != Verified && a.Iteration == 0 {
		return
	}
	for _, d := range a.passed() {
		if c := s.Checks.Named(d.Check); c.Known != nil && c.Known.Command == d.Command {
			c.Known = c.Known.after(d, cmp.Or(s.KnownAt(e.Task, d.Check), c.Known))
		}
	}
	a.tested = true
}
