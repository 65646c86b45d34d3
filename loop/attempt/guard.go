package attempt

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"descartes/gitops"
	"descartes/internal/lockfile"
	"descartes/internal/oneline"
	"descartes/verify"
	"descartes/verify/judge"
)

// Guard is what an attempt must not do to the checks that judge it. It survives JSON.
type Guard struct {
	Levels  map[string]judge.Level // by rule, group, or all; see judge.Policy
	Allow   []string               // what the task may do
	Title   string                 // of the task: its words may ask for a change of tests
	Protect []string               // patterns of paths, as in a .gitignore
	Yes     []string               // the guard's questions about the task that a person answered with yes
}

// off reports whether nothing is guarded.
func (g *Guard) off() bool {
	return len(g.Protect) == 0 && len(g.Levels) == 1 && g.Levels[judge.All] == judge.Off
}

// mostTold is how many findings stand in a spec, a question or the journal.
const mostTold = 20

func guards(in *Input) bool {
	return in.Guard != nil && !in.Guard.off() && in.Base != "" && in.decided()
}

// guarded says what the checks of the work are worth: it has them run with the tests as they were before it.
func guarded(ctx context.Context, s *Subject) (*Objection, error) {
	tree, err := s.Tree(ctx)
	if err != nil {
		return nil, err
	}
	if err := s.tellTakenBack(ctx, tree); err != nil {
		return nil, err
	}
	c := s.toJudge(tree)
	for i := range s.Result.Checks {
		ran := &s.Result.Checks[i]
		if ran.Command.Criterion {
			continue
		}
		c.Checks, c.After = append(c.Checks, ran.Command.Check), append(c.After, ran.Result)
		c.Before = append(c.Before, before(ran.Command.Bar))
	}
	c.Run = func(ctx context.Context, tree gitops.Tree, check verify.Check, how verify.How) (verify.Result, error) {
		x := s.like(tree, check, "with other tests")
		x.Base, x.How = s.Input.Base, how
		res, _, err := s.inLab(ctx, x)
		return res, err
	}
	v, err := judge.Judge(ctx, c)
	if err != nil {
		return nil, err
	}
	if v.Facts.Known {
		s.Show(v.Facts.Says())
	}
	if v.Facts.Before {
		s.run.res.Proof = v.Facts.Says()
	}
	return s.weigh(append(v.Findings, s.installed(ctx, tree)...))
}

// before is what is known of a check before the work; nil where nothing is.
func before(b *verify.Bar) *verify.Result {
	if b == nil || !b.Ran {
		return nil
	}
	return &verify.Result{Passed: !b.Failed, Tests: b.Before}
}

// toJudge is the work as package judge sees it.
func (s *Subject) toJudge(tree gitops.Tree) judge.Case {
	g := s.Input.Guard
	allow := slices.ContainsFunc([]string{judge.All, "tests"}, func(name string) bool { return slices.Contains(g.Allow, name) })
	return judge.Case{Repo: s.Repo, Base: s.Input.Base, New: tree, Title: g.Title, Allow: allow,
		Named: gitops.NewPatterns(g.Protect).Match}
}

// Again is the guard's look at verified work that another machine sent: whatever that machine reports, the trees are
// here.
func Again(ctx context.Context, repo *gitops.Repo, in *Input, res *Result, observe func(*Step) error) error {
	if res.Verdict != verify.Verified || !guards(in) {
		return nil
	}
	a := &run{Runner: &Runner{Repo: repo}, in: in, observe: observe, res: *res}
	s := &Subject{Runner: a.Runner, Input: in, Result: &a.res, run: a, looked: &Looked{Name: "guard"}}
	tree, err := s.Tree(ctx)
	if err != nil {
		return err
	}
	v, err := judge.Judge(ctx, s.toJudge(tree))
	if err != nil {
		return err
	}
	objection, err := s.weigh(v.Findings)
	if err != nil || objection == nil {
		return err
	}
	a.object("guard", objection)
	res.Objection, res.Verdict, res.Reason = a.res.Objection, a.res.Verdict, a.res.Reason
	return nil
}

// tellTakenBack notes the files that earlier work of this run changed and that the work sets back.
func (s *Subject) tellTakenBack(ctx context.Context, tree gitops.Tree) error {
	first := s.Input.First
	if first == "" || first == s.Input.Base || s.Repo == nil {
		return nil
	}
	paths, err := s.Repo.TakenBack(ctx, first, s.Input.Base, tree, false)
	if err != nil || len(paths) == 0 {
		return err
	}
	return s.Note("the work takes back what earlier tasks of this run did to " + oneline.List(paths))
}

// weigh reports what was found, and objects where a level asks for that.
func (s *Subject) weigh(found []judge.Finding) (*Objection, error) {
	policy := judge.Policy{Levels: s.Input.Guard.Levels, Allow: s.Input.Guard.Allow}
	by := map[judge.Level][]judge.Finding{}
	for _, f := range found {
		level := policy.Of(f)
		switch {
		case level != judge.Ask:
		case s.Input.Guard.answered(f):
			level = judge.Off
		case s.Input.Always: // no answer reaches an iteration
			level = judge.Fail
		}
		by[level] = append(by[level], f)
	}
	for i, f := range by[judge.Warn] {
		if i == mostTold {
			break
		}
		if err := s.Note("guard: " + named(f)); err != nil {
			return nil, err
		}
	}
	if list := by[judge.Fail]; len(list) > 0 {
		text := named(list[0])
		if n := len(list) - 1; n > 0 {
			text += fmt.Sprintf(", and %d more", n)
		}
		return &Objection{Reason: "the checks got weaker: " + text + "; to allow it: " +
			judge.Permit(list, !s.Input.Always), Detail: "What the work did to the checks:\n\n" + lines(list) +
			"\nUndo this, and do the task without it. New tests and stricter checks are welcome. Where the task\ncannot be done otherwise, say so: TASK_BLOCKED and the reason."}, nil
	}
	if list := by[judge.Ask]; len(list) > 0 {
		return &Objection{Reason: "may the work do this to the checks?", Detail: lines(list) +
			"\nIf you answer yes, the next attempt may do it.", Ask: true}, nil
	}
	return nil, nil
}

// named is a finding with its rule, by which settings and tasks name it.
func named(f judge.Finding) string { return f.String() + " (" + f.Rule + ")" }

// lines lists findings.
func lines(found []judge.Finding) string {
	var b strings.Builder
	for i, f := range found {
		if i == mostTold {
			b.WriteString("...\n")
			break
		}
		b.WriteString(oneline.Text(named(f)) + "\n")
	}
	return b.String()
}

// answered reports whether a person said yes to a question about such a finding.
func (g *Guard) answered(f judge.Finding) bool {
	for _, q := range g.Yes {
		for l := range strings.Lines(q) {
			if l = strings.TrimSpace(l); (f.Path == "" || strings.HasPrefix(l, f.Path+":")) && strings.HasSuffix(l, "("+f.Rule+")") {
				return true
			}
		}
	}
	return false
}

// places are where ignored tools of checks are installed, and how many of their files are examined.
var places = []string{
	"node_modules/.bin", "node_modules/jest*", "node_modules/@jest", "node_modules/vitest", "node_modules/@vitest",
	"node_modules/mocha", "node_modules/chai", "node_modules/ava", "node_modules/tap", "node_modules/typescript/bin",
	"node_modules/eslint/bin",
	"*venv*/bin", "*venv*/lib/python*/site-packages/*.pth", "*venv*/lib/python*/site-packages/*customize.py",
	"*venv*/lib/python*/site-packages/_pytest", "*venv*/lib/python*/site-packages/pytest",
	"*venv*/lib/python*/site-packages/pluggy",
	"vendor/bin", "vendor/bundle/ruby/*/gems/rspec*", "vendor/phpunit",
}

const mostInstalled = 5000

// installed finds tools of the checks, in ignored places, that were written since the agent began although no file
// that lists the tools changed.
func (s *Subject) installed(ctx context.Context, tree gitops.Tree) []judge.Finding {
	fi, err := os.Stat(s.PromptFile())
	if err != nil {
		return nil
	}
	changed, err := s.Repo.Changed(ctx, s.Input.Base, tree)
	if err != nil || slices.ContainsFunc(changed, func(c gitops.Change) bool {
		_, locks := lockfile.Of(c.Path)
		return locks || judge.Of(c.Path, nil) == judge.Build
	}) {
		return nil
	}
	seen, first, n := 0, "", 0
	for _, p := range places {
		found, err := filepath.Glob(filepath.Join(s.Workspace.Files(), p))
		if err != nil {
			continue
		}
		for _, root := range found {
			err := filepath.WalkDir(root, func(file string, d fs.DirEntry, err error) error {
				if seen++; err != nil || seen > mostInstalled {
					return errors.Join(err, fs.SkipAll)
				}
				if info, err := d.Info(); err == nil && !d.IsDir() && written(info, fi.ModTime()) {
					if n++; n == 1 {
						first = file
					}
				}
				return nil
			})
			if err != nil {
				continue // it is gone
			}
		}
	}
	if n == 0 {
		return nil
	}
	rel, err := filepath.Rel(s.Workspace.Files(), first)
	if err != nil {
		return nil
	}
	text := "installed tools of the checks, which git ignores, were written by the attempt"
	if n > 1 {
		text += fmt.Sprintf(", and %d more files", n-1)
	}
	return []judge.Finding{{Rule: "installed", Path: path.Clean(filepath.ToSlash(rel)), Text: text}}
}

// written reports whether a file was written at a time or later. The prompt was written just before the agent began,
// perhaps in the same tick.
func written(fi fs.FileInfo, since time.Time) bool { return !fi.ModTime().Before(since) }
