package journal

import (
	"cmp"
	"maps"
	"slices"
)

// Known is what is known about a check on all verified work so far: what failed before the first attempt, less what has passed since, plus added
// tests.
type Known struct {
	Command string
	Failed  bool // it did not pass before the first attempt, nor since
	Told    bool // its test results are known
	More    int  // passing tests without a name here

	passes, fails map[string]bool
}

// Passes are the tests that pass, by name.
func (k *Known) Passes() []string { return slices.Sorted(maps.Keys(k.passes)) }

// Fails are the tests that fail.
func (k *Known) Fails() []string { return slices.Sorted(maps.Keys(k.fails)) }

// knownOf is what a check before the first attempt tells.
func knownOf(d *Detail) *Known {
	k := &Known{Command: d.Command, Failed: !d.Passed, passes: map[string]bool{}, fails: map[string]bool{}}
	if t := d.Tests; t != nil {
		k.Told, k.More = true, t.More
		for _, name := range t.Passes {
			k.passes[name] = true
		}
		for _, name := range t.Fails {
			k.fails[name] = true
		}
	}
	return k
}

// after returns what is known once a verified attempt is part of the state: what failed and now passes raises the bar for all later ones. was is what
// was known when the attempt began. It does not change k.
func (k *Known) after(d *Detail, was *Known) *Known {
	next := *k
	if !d.Standing {
		next.Failed = k.Failed && d.Tests != nil && d.Tests.Failed > 0
	}
	t := d.Tests
	if t == nil || !k.Told {
		return &next
	}
	next.passes, next.fails = maps.Clone(k.passes), maps.Clone(k.fails)
	for _, name := range slices.Concat(t.Fixed, t.Gone) {
		delete(next.fails, name)
	}
	for _, name := range t.Gone {
		delete(next.passes, name)
	}
	named := slices.Concat(t.Fixed, t.Added)
	if t.More > 0 { // they are among those without a name
		named = nil
	}
	for _, name := range named {
		next.passes[name] = true
	}
	next.More = max(0, k.More+t.More-was.More)
	return &next
}

// Flaky is a check, or one of its tests, that failed and passed when run again.
type Flaky struct {
	Check string `json:"check,omitempty"` // "" for the only one
	Test  string `json:"test,omitempty"`  // "" if unknown
	Times int    `json:"times"`
}

// Apart reports whether a check belongs to no attempt: it ran before the first one, or on the whole state.
func (d *Detail) Apart() bool { return d != nil && (d.Baseline || d.At != "") }

// noteFlaky counts what failed and passed when run again.
func (s *State) noteFlaky(d *Detail) {
	if !d.Passed || d.Tries < 2 {
		return
	}
	tests := d.Flaky
	if len(tests) == 0 {
		tests = []string{""}
	}
	for _, test := range tests {
		at := slices.IndexFunc(s.Flaky, func(f Flaky) bool { return f.Check == d.Check && f.Test == test })
		if at < 0 {
			s.Flaky = append(s.Flaky, Flaky{Check: d.Check, Test: test})
			at = len(s.Flaky) - 1
		}
		s.Flaky[at].Times++
	}
	slices.SortStableFunc(s.Flaky, func(a, b Flaky) int {
		return cmp.Or(b.Times-a.Times, cmp.Compare(a.Check, b.Check), cmp.Compare(a.Test, b.Test))
	})
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

// tally counts a run of a named check.
func (s *State) tally(e *Event) {
	d := e.Detail
	if d.Check == "" {
		return
	}
	at := slices.IndexFunc(s.Checks, func(t Tally) bool { return t.Check == d.Check })
	if at < 0 {
		at = len(s.Checks)
		s.Checks = append(s.Checks, Tally{Check: d.Check})
	}
	t := &s.Checks[at]
	t.Runs, t.Seconds = t.Runs+1, t.Seconds+d.Seconds
	switch {
	case !d.Passed:
		t.Failed++
	case d.Tries > 1:
		t.Flaky++
	}
	if d.At != "" {
		t.Fails = e.Reason
	}
}

// noteCheck applies the end of a check: at once if it ran on a tree without unverified work, else once the attempt is verified.
func (s *State) noteCheck(e *Event) {
	d := e.Detail
	s.noteFlaky(d)
	s.tally(e)
	switch {
	case d.Baseline && d.Passed || d.At != "" && d.Passed:
		s.Passes[d.Check] = Pass{e.Tree, d.Command, d.Tests != nil}
	case d.Baseline:
		delete(s.Passes, d.Check)
	case d.Passed:
		if s.checked[keyOf(e)] == nil {
			s.checked[keyOf(e)] = map[string]*Detail{}
		}
		s.checked[keyOf(e)][d.Check] = d
	}
	if d.Baseline && e.Task == "" {
		s.BaselineOutput = d.Output
		s.Known[d.Check] = knownOf(d)
	}
}

// passAttempt applies that an attempt is verified: its checks passed on what it left.
func (s *State) passAttempt(e *Event) {
	for name, d := range s.checked[keyOf(e)] {
		s.Passes[name] = Pass{e.Tree, d.Command, d.Tests != nil}
	}
}

// KnownAt is what was known about the checks when a running task began: its tree lacks what others changed since.
func (s *State) KnownAt(task string) map[string]*Known {
	if at, ok := s.bars[task]; ok {
		return at
	}
	return s.Known
}

// integrateTests applies that an attempt's work is now part of the state.
func (s *State) integrateTests(e *Event) {
	for name, d := range s.checked[keyOf(e)] {
		if k := s.Known[name]; k != nil && k.Command == d.Command {
			was := k
			if at := s.KnownAt(e.Task)[name]; at != nil {
				was = at
			}
			s.Known[name] = k.after(d, was)
		}
	}
	delete(s.checked, keyOf(e))
}

// GradeOf is the grade of a verified attempt, integrated or not.
func (s *State) GradeOf(task string, number int) Grade {
	for _, a := range slices.Backward(s.Ended) {
		if a.Task == task && a.Number == number && a.Result != nil {
			return a.Result.Grade
		}
	}
	return ""
}

// ModelOf is the model of a running attempt's agent, or "".
func (s *State) ModelOf(task string, number int) string {
	if a := s.Running[Key{Task: task, Number: number}]; a != nil && a.Agent != nil {
		return a.Agent.Model
	}
	return ""
}
