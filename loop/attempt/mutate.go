package attempt

import (
	"context"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

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
	var files []mutants.File
	for _, f := range mutants.Changed(diff) {
		rel, inside := strings.CutPrefix(f.Path, s.Below+"/")
		if s.Below == "." {
			rel, inside = f.Path, true
		}
		if test, beside := guard.OfTests(f.Path); inside && !test && !beside {
			files = append(files, mutants.File{Path: path.Clean(rel), Lines: f.Lines})
		}
	}
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
		x := s.like(tree, verify.Check{Run: tool.Command(of, left, strings.Join(tests, " && "))}, tool.Name)
		x.Base = s.base()
		if x.Clocks.Idle = 0; x.Clocks.Timeout == 0 {
			x.Clocks.Timeout = time.Hour
		}
		x.Leaves = mutants.Report
		res, report, err := s.inLab(ctx, x)
		if err != nil {
			return nil, err
		}
		why := ""
		switch {
		case res.Code == mutants.Missing && report == nil:
			why = "it is not installed; " + tool.Install
		case report == nil && res.TimedOut:
			why = res.Overran
		case report == nil:
			why = fmt.Sprintf("it ended with exit status %d and made no report; see the log %s", res.Code, path.Base(x.Log))
		}
		var list []mutants.Fault
		if why == "" {
			if list, err = tool.Read(report, of, left); err != nil {
				why = oneline.Text(err.Error())
			}
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
	return &Objection{Reason: fmt.Sprintf("no test catches %d of %d small faults put into what it changed: %s", len(survivors), tried, oneline.List(slices.Compact(places))),
		Detail: "With each of these small faults in the code all tests still pass:\n\n" + strings.Join(named, "\n") + "\n\nTest what these lines do."}, nil
}
