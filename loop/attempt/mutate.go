package attempt

import (
	"context"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"descartes/gitops"
	"descartes/internal/oneline"
	"descartes/verify"
	"descartes/verify/guard"
	"descartes/verify/mutants"
)

// Limits, in bytes, of what is read of a diff and of the faults that are named.
const (
	maxDiff   = 16 << 20
	maxFaults = 50
)

// mutate lets mutation tools put small faults into the lines that the work changed. The tests must notice each.
func mutate(ctx context.Context, s *Subject) (*Objection, error) {
	tree, err := s.Tree(ctx)
	if err != nil {
		return nil, err
	}
	diff, err := s.Repo.Patch(ctx, s.base(), tree, maxDiff)
	if err != nil {
		return nil, err
	}
	files := s.mutable(mutants.Changed(diff))
	var tests []string
	for _, c := range s.Input.Checks {
		if !c.Criterion {
			tests = append(tests, "( "+c.Run+"\n)")
		}
	}
	left, tried := s.Input.Mutants, 0
	var survivors []string
	for _, tool := range mutants.Tools() {
		of := tool.Of(files)
		if len(of) == 0 || left == 0 {
			continue
		}
		list, why, err := s.faults(ctx, tool, tree, of, left, strings.Join(tests, " && "))
		if err != nil {
			return nil, err
		}
		if why != "" {
			if err := s.Note(fmt.Sprintf("no small faults were tried by %s: %s", tool.Name, why)); err != nil {
				return nil, err
			}
			continue
		}
		left, tried = left-len(list), tried+len(list)
		for _, f := range list {
			if f.Survived {
				survivors = append(survivors, oneline.Text(f.String()))
			}
		}
	}
	if len(survivors) == 0 {
		if tried > 0 {
			s.Show(fmt.Sprintf("its tests catch all %d small faults put into what it changed", tried))
		} else {
			s.Show("no small faults could be put into what it changed")
		}
		return nil, nil
	}
	named := survivors[:min(len(survivors), maxFaults)]
	places := make([]string, len(named))
	for i, line := range named {
		parts := strings.SplitN(line, ":", 3)
		places[i] = strings.Join(parts[:2], ":")
	}
	return &Objection{Reason: fmt.Sprintf("no test catches %d of %d small faults put into what it changed: %s",
		len(survivors), tried, oneline.List(slices.Compact(places))),
		Detail: "With each of these small faults in the code all tests still pass:\n\n" + strings.Join(named, "\n") +
			"\n\nTest what these lines do."}, nil
}

// mutable are the files among those that are in reach of the checks, and no tests.
func (s *Subject) mutable(changed []mutants.File) (files []mutants.File) {
	for _, f := range changed {
		rel, inside := strings.CutPrefix(f.Path, s.Below+"/")
		if s.Below == "." {
			rel, inside = f.Path, true
		}
		if test, beside := guard.OfTests(f.Path); inside && !test && !beside {
			files = append(files, mutants.File{Path: path.Clean(rel), Lines: f.Lines})
		}
	}
	return files
}

// faults has a tool put at most left faults into files; why says why it tried none.
func (s *Subject) faults(ctx context.Context, tool *mutants.Tool, tree gitops.Tree, files []mutants.File, left int,
	tests string) (list []mutants.Fault, why string, err error) {
	x := s.like(tree, verify.Check{Run: tool.Command(files, left, tests)}, tool.Name)
	x.Base = s.base()
	if x.Clocks.Idle = 0; x.Clocks.Timeout == 0 {
		x.Clocks.Timeout = time.Hour
	}
	x.Leaves = mutants.Report
	res, report, err := s.inLab(ctx, x)
	switch {
	case err != nil:
		return nil, "", err
	case report != nil:
		if list, err = tool.Read(report, files, left); err != nil {
			why = oneline.Text(err.Error())
		}
	case res.Code == mutants.Missing:
		why = "it is not installed; " + tool.Install
	case res.TimedOut:
		why = res.Overran
	default:
		why = fmt.Sprintf("it ended with exit status %d and made no report; see the log %s", res.Code,
			path.Base(x.Log))
	}
	return list, why, nil
}
