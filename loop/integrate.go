package loop

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"descartes/gitops"
	"descartes/internal/oneline"
	"descartes/verify"
)

// Integration folds the results of attempts that ran at the same time onto one state. Every state that it comes to has passed
// verification as a whole.
type Integration struct {
	Tree gitops.Tree // everything verified so far, in the order in which it was accepted

	history []Fate // what was accepted
	merge   func(ctx context.Context, base, ours, theirs gitops.Tree) (gitops.Tree, []gitops.Conflict, error)
	verify  func(ctx context.Context, tree gitops.Tree, units []string) (verify.Result, error)
}

// since names the units that were accepted after a state was.
func (g *Integration) since(base gitops.Tree) (units []string) {
	for _, f := range slices.Backward(g.history) {
		if f.Tree == base {
			break
		}
		units = append(units, f.Unit)
	}
	slices.Reverse(units)
	return units
}

// accept makes a state the one to go on from.
func (g *Integration) accept(state gitops.Tree, fates ...*Fate) {
	g.Tree = state
	for _, f := range fates {
		f.Tree = state
		g.history = append(g.history, *f)
	}
}

// Candidate is a verified result that is to be folded in.
type Candidate struct {
	Unit string
	Base gitops.Tree // the integration state that its attempt started from
	Tree gitops.Tree // what was verified there
}

// Fate is what became of a candidate: it was accepted, it conflicts, or verification fails with it. In the last two cases the state is as
// if it had not been there.
type Fate struct {
	Unit      string
	Tree      gitops.Tree // the state it was accepted with; "" where it was not
	Conflicts []gitops.Conflict
	Failure   *verify.Result // of the state with it on top
	After     []string       // units that were integrated since its attempt started
}

// Accepted reports whether the candidate is part of the state now.
func (f *Fate) Accepted() bool { return f.Tree != "" }

// Reason says in one line why a candidate was not accepted.
func (f *Fate) Reason() string {
	with := "the work integrated meanwhile"
	if len(f.After) > 0 {
		with = "the work of " + oneline.List(f.After) + ", integrated meanwhile"
	}
	switch {
	case f.Accepted():
		return ""
	case len(f.Conflicts) > 0:
		list := make([]string, len(f.Conflicts))
		for i, c := range f.Conflicts {
			list[i] = c.String()
		}
		return "its changes conflict with " + with + ": " + oneline.List(list)
	}
	return "verification fails on its changes together with " + with
}

// Detail is what the next attempt is told: where the two meet, or how the verification failed.
func (f *Fate) Detail() string {
	var b strings.Builder
	for _, c := range f.Conflicts {
		fmt.Fprintf(&b, "%s (%s)", c.Path, c.Kind)
		if c.Why != "" {
			b.WriteString(": " + c.Why)
		}
		b.WriteByte('\n')
	}
	if f.Failure != nil {
		b.WriteString(f.Failure.Tail)
	}
	return b.String()
}

// verdict of a verification of one state; nil: it passed.
type verdicts map[gitops.Tree]*verify.Result

// Fold folds in candidates in the order in which they finished, and says what became of each. All that merge are verified together; only
// where that fails are they verified one after the other, and the one with which it fails is left out. An error leaves the state as far as
// it was verified; candidates without a fate are to be folded again.
func (g *Integration) Fold(ctx context.Context, batch []Candidate) ([]Fate, error) {
	known := verdicts{g.Tree: nil}
	state := g.Tree
	fates := make([]Fate, len(batch))
	var units []string
	for i, c := range batch {
		next, conflicts, err := g.merge(ctx, c.Base, state, c.Tree)
		if err != nil {
			return nil, err
		}
		fates[i] = Fate{Unit: c.Unit, Conflicts: conflicts, After: append(g.since(c.Base), units...)}
		if len(conflicts) > 0 {
			continue
		}
		if next == c.Tree {
			known[next] = nil // it is what was verified
		}
		state = next
		units = append(units, c.Unit)
	}
	failure, err := g.check(ctx, known, state, units)
	if err != nil {
		return nil, err
	}
	if failure != nil {
		return g.oneByOne(ctx, known, batch)
	}
	var accepted []*Fate
	for i := range fates {
		if len(fates[i].Conflicts) == 0 {
			accepted = append(accepted, &fates[i])
		}
	}
	g.accept(state, accepted...)
	return fates, nil
}

// oneByOne verifies a state after each candidate.
func (g *Integration) oneByOne(ctx context.Context, known verdicts, batch []Candidate) (fates []Fate, err error) {
	for _, c := range batch {
		f := Fate{Unit: c.Unit, After: g.since(c.Base)}
		var next gitops.Tree
		if next, f.Conflicts, err = g.merge(ctx, c.Base, g.Tree, c.Tree); err != nil {
			return fates, err
		}
		if len(f.Conflicts) == 0 {
			if f.Failure, err = g.check(ctx, known, next, append(f.After, c.Unit)); err != nil {
				return fates, err
			}
			if f.Failure == nil {
				g.accept(next, &f)
			}
		}
		fates = append(fates, f)
	}
	return fates, nil
}

// check verifies a state, unless that was done. A failure is its result; nil: it passed.
func (g *Integration) check(ctx context.Context, known verdicts, tree gitops.Tree, units []string) (*verify.Result, error) {
	if failure, ok := known[tree]; ok {
		return failure, nil
	}
	res, err := g.verify(ctx, tree, units)
	if err != nil {
		return nil, err
	}
	if res.Cancelled {
		return nil, context.Canceled
	}
	if known[tree] = &res; res.Passed {
		known[tree] = nil
	}
	return known[tree], nil
}
