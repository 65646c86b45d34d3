package attempt

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"descartes/gitops"
	"descartes/internal/oneline"
	"descartes/verify"
	"descartes/verify/judge"
	"descartes/verify/results"
)

// tests returns the test files that the work added or changed, and what tests read: expected output, fixtures,
// helpers.
func (s *Subject) tests(ctx context.Context, tree gitops.Tree) (tests, all []string, err error) {
	changed, err := s.Repo.Changed(ctx, s.base(), tree)
	if err != nil {
		return nil, nil, err
	}
	for _, c := range changed {
		kind := judge.Of(c.Path, nil)
		if kind == judge.Test && c.Op != 'D' {
			tests = append(tests, c.Path)
		}
		if kind == judge.Test || kind == judge.Helper || kind == judge.Data {
			all = append(all, c.Path)
		}
	}
	return tests, all, nil
}

// base is the tree that the whole work started from.
func (s *Subject) base() gitops.Tree {
	if s.Input.Base != "" {
		return s.Input.Base
	}
	return s.Result.Work.Before
}

// failsMore reports whether a test is known by name that fails now and did not fail before.
func failsMore(before, now *verify.Result) bool {
	return before.Tests != nil && now.Tests != nil && len(results.Compare(before.Tests, now.Tests).Broken) > 0
}

// redBefore wants a check that fails without the work, which brings no tests and whose tests have no names.
func redBefore(ctx context.Context, s *Subject) (*Objection, error) {
	for _, c := range s.Input.Checks {
		if c.Criterion {
			continue
		}
		before := s.like(s.base(), c.Check, "before")
		before.Known = true
		res, _, err := s.inLab(ctx, before)
		if err != nil {
			return nil, err
		}
		if !res.Passed {
			s.Show(c.Title() + " fails without its work")
			return nil, nil
		}
	}
	return &Objection{Reason: "nothing shows what it did: all checks pass without its work, and it adds no test",
		Detail: "Write tests that fail without what the task asks for, and pass with it."}, nil
}

// prove runs the checks with the work's tests on everything else as it was before: a test must fail there that passes
// without those tests. A build error counts as a failure.
func prove(ctx context.Context, s *Subject) (*Objection, error) {
	tree, err := s.Tree(ctx)
	if err != nil {
		return nil, err
	}
	tests, all, err := s.tests(ctx, tree)
	if err != nil {
		return nil, err
	}
	if _, known := s.Result.better(); len(tests) == 0 && s.Input.Careful && !known {
		return redBefore(ctx, s)
	}
	if len(tests) == 0 {
		s.Show("it adds and changes no tests: there is nothing to prove")
		return nil, nil
	}
	without, err := s.Repo.TreeWith(ctx, s.base(), tree, all)
	if err != nil {
		return nil, err
	}
	for _, c := range s.Input.Checks {
		if c.Criterion {
			continue
		}
		res, _, err := s.inLab(ctx, s.like(without, c.Check, "without the work"))
		if unset, ok := errors.AsType[*verify.SetupError](err); ok { // with tests and without what they need
			s.Show("its tests cannot be judged: without its work, " + unset.Text)
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		if res.Passed {
			continue
		}
		known := s.like(s.base(), c.Check, "before")
		known.Known = true
		before, _, err := s.inLab(ctx, known)
		if err != nil {
			return nil, err
		}
		if before.Passed || failsMore(&before, &res) {
			s.Show(fmt.Sprintf("its tests fail without the rest of its work: %s", oneline.List(tests)))
			return nil, nil
		}
		if before.Tests == nil || res.Tests == nil {
			s.Show("its tests cannot be judged: " + c.Title() + " also fails without them and without its work")
			return nil, nil
		}
	}
	return &Objection{Reason: "its tests prove nothing: they also pass without its other changes",
		Detail: "With these test files, and every other file as it was before, all checks pass:\n\n" +
			strings.Join(tests[:min(len(tests), 50)], "\n") +
			"\n\nWrite tests that fail without what the task asks for, and pass with it."}, nil
}
