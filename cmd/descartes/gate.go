package main

import (
	"cmp"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"descartes/loop"
	"descartes/loop/gate"
	"descartes/loop/mode"
	"descartes/verify"
	"descartes/view"
)

// criteriaIterations and criteriaCost are the limits of a criteria loop where none is given.
const (
	criteriaIterations = 10
	criteriaCost       = 25
)

// limitGate gives a criteria loop its limits, before those of other loops are chosen.
func (s *settings) limitGate() {
	if s.Gate == "" && s.Given("criterion") {
		s.Gate = loop.GateCriteria
	}
	if s.Gate != loop.GateCriteria {
		return
	}
	if s.MaxIterations == 0 {
		s.MaxIterations = criteriaIterations
	}
	if s.MaxCostUSD == 0 && !s.Given("max-cost") {
		s.MaxCostUSD = criteriaCost
	}
}

// completeGate reads what the gate is made of.
func (s *settings) completeGate(root string) error {
	if s.Gate != loop.GateCriteria {
		if name := s.IsTyped("criterion", "shape_file", "shape", "reversibility", "precheck", "loop_state"); name != "" {
			return badInput("add --gate criteria", "%s is for a loop with the criteria gate", name)
		}
		s.Criteria, s.MustNot, s.Precheck = nil, nil, ""
	}
	if s.Given("completion-promise") && s.Gate != "" && s.Gate != loop.GatePromise {
		return badInput("leave one of them out", "--completion-promise is for the promise gate; with --gate %s the promise ends nothing", s.Gate)
	}
	switch s.Gate {
	case loop.GateStatus:
		return s.completeStatus(root)
	case loop.GateCriteria:
		return s.completeCriteria(root)
	}
	return nil
}

// gateOfTag refuses what only loops over a prompt have.
func (s *settings) gateOfTag(but ...string) error {
	if name := s.typedIn("gate", but...); name != "" {
		return badInput("leave it out: the verify command decides about each task", "--%s is for loops over a prompt, not over the tasks of a tag", name)
	}
	return nil
}

// completeStatus finds the command that shows that tests pass, where a prompt loop is given none.
func (s *settings) completeStatus(root string) error {
	if s.mode == mode.Plan {
		return badInput("leave --gate out: a plan ends when its agent has nothing to add", "--gate status is for building: a plan is made of items that are not checked off")
	}
	if s.mode != "" || s.VerificationCommand != "" || len(s.Checks) > 0 || s.Given("verify") {
		return nil
	}
	if cmd, why, ok := verify.Detect(cmp.Or(s.WorkingDirectory, root)); ok {
		s.VerificationCommand, s.verifyFrom = cmd, why
	}
	return nil
}

func (s *settings) completeCriteria(root string) error {
	if err := s.readShape(root); err != nil {
		return err
	}
	if s.Reversibility != "" {
		class, err := gate.ParseReversibility(s.Reversibility)
		if err != nil {
			return badInput("", "%w", err)
		}
		s.Reversibility = string(class)
	}
	if s.Given("precheck") && strings.TrimSpace(s.Precheck) == "" {
		return badInput("leave it out, or give a command", "precheck is empty")
	}
	if len(s.Criteria) == 0 {
		return badInput(`--criterion "tests pass :: make test", criteria: in descartes.yaml, or a SHAPE.md with a section criteria`, "a loop with the criteria gate needs at least one criterion")
	}
	return nil
}

// readShape adds what a SHAPE.md asks for: criteria of other names than those that were given, how criteria
// are verified, and what must not be.
func (s *settings) readShape(root string) error {
	var names []string
	for _, dir := range slices.Compact([]string{cmp.Or(s.WorkingDirectory, root), root}) {
		names = append(names, filepath.Join(dir, ".loop", "shape", "SHAPE.md"), filepath.Join(dir, "SHAPE.md"))
	}
	if s.ShapeFile != "" {
		names = []string{absolute(s.dirPath(), s.ShapeFile)}
	}
	for _, name := range names {
		text, err := readPromptFile(root, name)
		if _, serr := os.Stat(name); errors.Is(serr, fs.ErrNotExist) && s.ShapeFile == "" {
			continue
		}
		if err != nil {
			return badInput("", "shape file %s: %w", view.Relative(root, name), err)
		}
		a, err := gate.ParseShape(text)
		if err != nil {
			return badInput("", "%s %s", view.Relative(root, name), strings.TrimPrefix(err.Error(), "SHAPE.md "))
		}
		s.Criteria, s.MustNot = addCriteria(s.Criteria, a.Criteria), addCriteria(s.MustNot, a.MustNot)
		return nil
	}
	return nil
}

// addCriteria adds those of more whose names the list does not have. A criterion of the same name gives what
// is not known yet: how it is verified.
func addCriteria(list, more []gate.Criterion) []gate.Criterion {
	for _, m := range more {
		at := -1
		for i := range list {
			if gate.CheckCriteria([]gate.Criterion{list[i], m}) != nil {
				at = i
			}
		}
		if at < 0 {
			list = append(list, m)
			continue
		}
		list[at].Verification = cmp.Or(list[at].Verification, m.Verification)
		list[at].Command = cmp.Or(list[at].Command, m.Command)
	}
	return list
}
