// Package results has the single results of a check's tests: a recorder beside the runners notes them; else they are
// read from JUnit XML, or from what go test -json, TAP and pytest print.
package results

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// Set is the results of tests, each by its name. It survives JSON.
type Set struct {
	Passed  []string `json:"passed,omitempty"` // sorted, as the others; a test is in one of them
	Failed  []string `json:"failed,omitempty"`
	Skipped []string `json:"skipped,omitempty"`
	More    int      `json:"more,omitempty"`    // that passed besides, and are not named
	Omitted int      `json:"omitted,omitempty"` // that were skipped besides, and are not named
}

// Ran is how many tests passed or failed.
func (s *Set) Ran() int { return len(s.Passed) + len(s.Failed) + s.More }

// With is a set to which the results are added that another set has of tests that known names, and this one lacks.
func (s *Set) With(other, known *Set) *Set {
	var all collector
	if s != nil {
		all.addSet(s)
	}
	if other == nil || known == nil {
		return all.set()
	}
	here := all.tests
	for _, r := range []struct {
		names []string
		state status
	}{{other.Passed, passed}, {other.Failed, failed}, {other.Skipped, skipped}} {
		for _, name := range r.names {
			if _, there := here[name]; !there && known.has(name) {
				all.add(name, r.state)
			}
		}
	}
	return all.set()
}

func (s *Set) has(name string) bool {
	for _, list := range [][]string{s.Passed, s.Failed, s.Skipped} {
		if _, there := slices.BinarySearch(list, name); there {
			return true
		}
	}
	return false
}

// Rename gives each test the name that a function makes of it.
func (s *Set) Rename(to func(string) string) {
	for _, list := range [][]string{s.Passed, s.Failed, s.Skipped} {
		for i := range list {
			list[i] = to(list[i])
		}
		slices.Sort(list)
	}
}

// Change is how the results of tests differ from those of before. It survives JSON.
type Change struct {
	Fixed  []string `json:"fixed,omitempty"`  // failed, and pass
	Added  []string `json:"added,omitempty"`  // pass, and were not run
	More   int      `json:"more,omitempty"`   // that pass, were not run, and are not named
	Broken []string `json:"broken,omitempty"` // fail, and did not
	Gone   []string `json:"gone,omitempty"`   // were run, and are not
	Fewer  int      `json:"fewer,omitempty"`  // tests run than before
}

// Compare says what changed from before to now. Where some tests have no names, it compares numbers.
func Compare(before, now *Set) *Change {
	c := &Change{Broken: without(now.Failed, before.Failed), Fewer: max(0, before.Ran()-now.Ran())}
	named := before.More == 0 && now.More == 0
	if named {
		c.Fixed = both(before.Failed, now.Passed)
		c.Added = without(without(now.Passed, before.Passed), before.Failed)
		c.Gone = without(without(append(slices.Clone(before.Passed), before.Failed...), now.Passed), now.Failed)
		slices.Sort(c.Gone)
		return c
	}
	if c.Fewer == 0 { // those that failed and are not named now have passed
		c.Fixed = without(without(before.Failed, now.Failed), now.Skipped)
	}
	c.More = max(0, now.Ran()-before.Ran())
	return c
}

// Better reports whether a test went from red to green, or was added.
func (c *Change) Better() bool { return len(c.Fixed)+len(c.Added)+c.More > 0 }

// without is a sorted list less what another one has.
func without(list, out []string) (left []string) {
	for _, s := range list {
		if _, there := slices.BinarySearch(out, s); !there {
			left = append(left, s)
		}
	}
	return left
}

func both(a, b []string) (list []string) {
	for _, s := range a {
		if _, there := slices.BinarySearch(b, s); there {
			list = append(list, s)
		}
	}
	return list
}

// Most is how many tests are kept apart; beyond that nothing is known.
const Most = 20000

const maxName = 300 // bytes

type status int

const (
	skipped status = iota
	passed
	failed // counts before what the same test came to otherwise
)

// collector puts results together.
type collector struct {
	tests map[string]status
	over  bool
}

func (c *collector) add(name string, s status) {
	name = nameOf(name)
	was, seen := c.tests[name]
	switch {
	case !seen && len(c.tests) >= Most:
		c.over = true
		return
	case c.tests == nil:
		c.tests = map[string]status{}
	}
	c.tests[name] = max(was, s)
}

// take adds what another one has.
func (c *collector) take(other *collector) {
	c.over = c.over || other.over
	for name, s := range other.tests {
		c.add(name, s)
	}
}

// addSet adds the named results of a set.
func (c *collector) addSet(s *Set) {
	for state, names := range map[status][]string{passed: s.Passed, failed: s.Failed, skipped: s.Skipped} {
		for _, name := range names {
			c.add(name, state)
		}
	}
}

// nameOf is a test's name as it is kept: one line of bounded length.
func nameOf(s string) string {
	s = strings.Join(strings.Fields(strings.ToValidUTF8(s, "\uFFFD")), " ")
	if s == "" {
		return "(no name)"
	}
	if len(s) <= maxName {
		return s
	}
	cut := maxName - 22
	for !utf8.RuneStart(s[cut]) {
		cut--
	}
	return fmt.Sprintf("%s… (%016x)", s[:cut], sum(s))
}

// sum tells long names apart.
func sum(s string) uint64 {
	h := uint64(14695981039346656037)
	for i := range len(s) {
		h = (h ^ uint64(s[i])) * 1099511628211
	}
	return h
}

// set is what was collected; nil where it is too much.
func (c *collector) set() *Set {
	if c.over {
		return nil
	}
	s := &Set{}
	for name, st := range c.tests {
		switch st {
		case passed:
			s.Passed = append(s.Passed, name)
		case failed:
			s.Failed = append(s.Failed, name)
		case skipped:
			s.Skipped = append(s.Skipped, name)
		}
	}
	slices.Sort(s.Passed)
	slices.Sort(s.Failed)
	slices.Sort(s.Skipped)
	return s
}
