package attempt

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"descartes/gitops"
	"descartes/internal/oneline"
	"descartes/specbuild"
	"descartes/verify/guard"
)

// Strength asks an agent for patches that measure the tests of an attempt.
type Strength struct {
	Wrong specbuild.Wrong // without the changes
	Among []With          // what it may run with, best first
}

// suggested is a patch that an agent suggests.
type suggested struct{ Title, Diff string }

const (
	maxPatch = 256 << 10 // largest patch that is tried, in bytes
	maxShown = 3 << 10   // how much of a patch the next attempt sees, in bytes
)

// strengthen lets an agent write wrong solutions, and one right one. With the work's tests, the checks must fail on each wrong one and pass on the
// right one.
func strengthen(ctx context.Context, s *Subject) (*Objection, error) {
	tree, err := s.Tree()
	if err != nil {
		return nil, err
	}
	q := s.Input.Strength.Wrong
	if q.Tests, _, err = s.tests(ctx, tree); err != nil {
		return nil, err
	}
	if len(q.Tests) == 0 {
		s.Show("it adds and changes no tests: there is no strength to test")
		return nil, nil
	}
	if q.Diff, err = s.Repo.Patch(ctx, s.base(), tree, maxDiff); err != nil {
		return nil, err
	}
	res, err := s.Consult(ctx, Question{Who: "strength", Among: s.Input.Strength.Among, Prompt: specbuild.WrongPrompt(q), Tree: tree})
	if err != nil {
		return nil, err
	}
	var answer struct {
		Wrong     []suggested
		Permitted *suggested
	}
	if err := Decode(res.Final, "wrong", &answer); err != nil {
		return nil, s.Note("the strength of its tests is unknown: the agent's answer cannot be read: " + err.Error())
	}
	var weak []suggested
	tried := 0
	for i, p := range answer.Wrong[:min(len(answer.Wrong), q.N)] {
		passed, done, err := s.try(ctx, tree, p, fmt.Sprintf("wrong patch %d", i+1))
		if err != nil {
			return nil, err
		}
		if done {
			tried++
		}
		if done && passed {
			weak = append(weak, p)
		}
	}
	if p := answer.Permitted; p != nil && len(weak) == 0 {
		passed, done, err := s.try(ctx, tree, *p, "the permitted patch")
		if err != nil {
			return nil, err
		}
		if done && !passed {
			return &Objection{Reason: "its tests reject a solution that the task permits: " + oneline.Text(p.Title),
				Detail: "With this patch, which the task permits, the checks fail:\n\n" + shown(p.Diff) + "\n\nTest what the task asks for, and not how the work does it."}, nil
		}
	}
	if len(weak) == 0 {
		s.Show(fmt.Sprintf("its tests reject %d of the %d wrong solutions asked for", tried, q.N))
		if tried == 0 {
			return nil, s.Note("the strength of its tests is unknown: none of the wrong solutions could be tried")
		}
		return nil, nil
	}
	var detail strings.Builder
	titles := make([]string, len(weak))
	detail.WriteString("With each of these wrong patches on top of the work all checks pass. Write tests that fail with them; do not apply the patches.\n")
	for i, p := range weak {
		titles[i] = oneline.Text(p.Title)
		fmt.Fprintf(&detail, "\n%s\n\n%s\n", titles[i], shown(p.Diff))
	}
	return &Objection{Reason: fmt.Sprintf("its tests pass with %d of %d wrong solutions: %s", len(weak), tried, oneline.List(titles)), Detail: detail.String()}, nil
}

// try runs the checks with a patch on top of the work. A patch that cannot be tried is reported and does not count: done is false.
func (s *Subject) try(ctx context.Context, tree gitops.Tree, p suggested, name string) (passed, done bool, err error) {
	cannot := func(why string) (bool, bool, error) {
		return false, false, s.Note(name + " was not tried: " + why)
	}
	if len(p.Diff) > maxPatch {
		return cannot("it is too long")
	}
	patched, err := s.Repo.Apply(ctx, tree, []byte(strings.TrimRight(p.Diff, "\n")+"\n"))
	if bad, ok := errors.AsType[*gitops.PatchError](err); ok {
		return cannot(bad.Error())
	}
	if err != nil {
		return false, false, err
	}
	changed, err := s.Repo.Changed(ctx, tree, patched)
	if err != nil {
		return false, false, err
	}
	if len(changed) == 0 {
		return cannot("it changes nothing")
	}
	if at := slices.IndexFunc(changed, func(c gitops.Change) bool { test, beside := guard.OfTests(c.Path); return test || beside }); at >= 0 {
		return cannot("it changes the test file " + changed[at].Path)
	}
	for _, c := range s.Input.Checks {
		if c.Criterion {
			continue
		}
		res, err := s.InLab(ctx, patched, c.Check, name)
		if err != nil {
			return false, false, err
		}
		if !res.Passed {
			return false, true, nil
		}
	}
	return true, true, nil
}

// shown returns a patch, or its beginning.
func shown(diff string) string {
	if len(diff) <= maxShown {
		return diff
	}
	return strings.ToValidUTF8(diff[:maxShown], "") + "\n[...]"
}
