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
	"descartes/internal/oneline"
	"descartes/internal/plainfile"
	"descartes/verify"
	"descartes/verify/guard"
)

// Guard is what an attempt must not do to the checks that judge it. It survives JSON.
type Guard struct {
	Levels  map[string]guard.Level // by rule, group, or all; see guard.Settings
	Allow   []string               // what the task may do
	Protect []string               // patterns of paths, as in a .gitignore
	Yes     []string               // the guard's questions about the task that a person answered with yes
}

// off reports whether nothing is guarded.
func (g *Guard) off() bool {
	return len(g.Protect) == 0 && len(g.Levels) == 1 && g.Levels[guard.All] == guard.Off
}

const (
	mostGuarded = 10000    // changed files that are read
	guardBytes  = 64 << 20 // bytes read of them
	mostTold    = 20       // findings in a spec, a question or the journal
)

// guarded compares the checks with those from before the work.
func guarded(ctx context.Context, s *Subject) (*Objection, error) {
	tree, err := s.Tree(ctx)
	if err != nil {
		return nil, err
	}
	if err := s.tellTakenBack(ctx, tree); err != nil {
		return nil, err
	}
	whole := ctx
	ctx, done := context.WithTimeout(ctx, guardTime)
	defer done()
	found, err := s.examine(ctx, tree)
	if errors.Is(err, context.DeadlineExceeded) && whole.Err() == nil {
		return &Objection{Reason: fmt.Sprintf("what the work changed could not be compared with the checks in %v: it is too much",
			guardTime)}, nil
	}
	if err != nil {
		return nil, err
	}
	return s.weigh(found)
}

// guardTime bounds a look at what an attempt changed.
const guardTime = 2 * time.Minute

// examine finds what the work changed in the checks.
func (s *Subject) examine(ctx context.Context, tree gitops.Tree) ([]guard.Finding, error) {
	in, err := s.evidence(ctx, tree)
	if err != nil {
		return nil, err
	}
	found, err := guard.Find(ctx, in)
	if err != nil {
		return nil, err
	}
	found = append(found, s.installed(&in)...)
	ran, err := s.asChecked(ctx, tree)
	if err != nil {
		return nil, err
	}
	for _, f := range ran {
		if !slices.Contains(found, f) {
			found = append(found, f)
		}
	}
	return found, nil
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

// weigh reports what the guard found, and objects where a level asks for that.
func (s *Subject) weigh(found []guard.Finding) (*Objection, error) {
	found = slices.DeleteFunc(found, func(f guard.Finding) bool {
		return f.Level == guard.Ask && s.Input.Guard.answered(f)
	})
	for i := range found {
		if s.Input.Always && found[i].Level == guard.Ask { // no answer reaches an iteration
			found[i].Level = guard.Fail
		}
	}
	slices.SortStableFunc(found, func(a, b guard.Finding) int { return guard.Compare(a, b) })
	told := 0
	for _, f := range found {
		if f.Level == guard.Warn {
			if told++; told > mostTold {
				break
			}
			if err := s.Note("guard: " + f.String()); err != nil {
				return nil, err
			}
		}
	}
	switch guard.Worst(found) {
	case guard.Fail:
		return &Objection{Reason: "the checks got weaker: " + summary(found) + "; to allow it: " +
			guard.Permit(found, !s.Input.Always), Detail: "What the work changed in the checks:\n\n" +
			lines(found, guard.Fail) +
			"\nUndo this, and do the task without it. New tests and stricter checks are welcome. Where the task\ncannot be done otherwise, say so: TASK_BLOCKED and the reason."}, nil
	case guard.Ask:
		return &Objection{Reason: "may the work do this to the checks?", Detail: lines(found, guard.Ask) +
			"\nIf you answer yes, the next attempt may do it.", Ask: true}, nil
	}
	return nil, nil
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
	changes, err := s.evidence(ctx, tree)
	if err != nil {
		return err
	}
	found, err := guard.Find(ctx, changes)
	if err != nil {
		return err
	}
	objection, err := s.weigh(found)
	if err != nil || objection == nil {
		return err
	}
	a.object("guard", objection)
	res.Objection, res.Verdict, res.Reason = a.res.Objection, a.res.Verdict, a.res.Reason
	return nil
}

func guards(in *Input) bool {
	return in.Guard != nil && !in.Guard.off() && in.Base != "" && in.decided()
}

// summary is the first finding that fails in words, and how many more there are.
func summary(found []guard.Finding) string {
	text, more := "", -1
	for _, f := range found {
		if f.Level == guard.Fail {
			if more++; more == 0 {
				text = f.String()
			}
		}
	}
	if more > 0 {
		text += fmt.Sprintf(", and %d more", more)
	}
	return text
}

// lines lists the findings of a level.
func lines(found []guard.Finding, level guard.Level) string {
	var b strings.Builder
	n := 0
	for _, f := range found {
		if f.Level != level {
			continue
		}
		if n++; n > mostTold {
			b.WriteString("...\n")
			break
		}
		b.WriteString(oneline.Text(f.String()) + "\n")
	}
	return b.String()
}

// answered reports whether a person said yes to a question about such a finding.
func (g *Guard) answered(f guard.Finding) bool {
	for _, q := range g.Yes {
		for l := range strings.Lines(q) {
			if l = strings.TrimSpace(l); strings.HasPrefix(l, f.Path+":") && strings.HasSuffix(l, "("+f.Rule+")") {
				return true
			}
		}
	}
	return false
}

// asChecked examines the work as it was when the checks began, if they changed it: a running script can restore
// itself.
func (s *Subject) asChecked(ctx context.Context, tree gitops.Tree) ([]guard.Finding, error) {
	seen := s.Result.Work.Seen
	if seen == "" || seen == tree {
		return nil, nil
	}
	in, err := s.evidence(ctx, seen)
	if err != nil {
		return nil, err
	}
	return guard.Find(ctx, in)
}

// evidence reads what changed since the work began.
func (s *Subject) evidence(ctx context.Context, tree gitops.Tree) (in guard.Input, err error) {
	g := s.Input.Guard
	changed, err := s.Repo.Changed(ctx, s.Input.Base, tree)
	if err != nil {
		return in, err
	}
	slices.SortStableFunc(changed, func(a, b gitops.Change) int { return soon(a) - soon(b) })
	base, err := s.Repo.Contents(s.Input.Base)
	if err != nil {
		return in, err
	}
	after, err := s.Repo.Contents(tree)
	if err != nil {
		return in, err
	}
	left := int64(guardBytes)
	for i, c := range changed {
		if ctx.Err() != nil {
			return in, ctx.Err()
		}
		limit := min(int64(guard.MaxFile), left)
		if i >= mostGuarded {
			limit = -1
		}
		one := guard.Change{Path: c.Path}
		if one.Before, err = version(base, c.Path, limit); err == nil {
			one.After, err = version(after, c.Path, limit)
		}
		if err != nil {
			return in, err
		}
		for _, v := range []*guard.Version{one.Before, one.After} {
			if v != nil {
				left -= int64(len(v.Data))
			}
		}
		in.Changes = append(in.Changes, one)
	}
	for _, c := range s.Input.Checks {
		in.Commands = append(in.Commands, c.Run)
	}
	in.Base = func(path string) ([]byte, bool) {
		f, err := base.File(path, guard.MaxFile)
		if err != nil || f == nil || f.Data == nil || f.Link {
			return nil, false
		}
		return f.Data, true
	}
	in.There = func(dir string) bool {
		there, err := base.Folder(dir)
		return dir == "." || err != nil || there
	}
	hidden, err := s.hidden(ctx, &in)
	in.Changes = append(in.Changes, hidden...)
	in.Settings = guard.Settings{Levels: g.Levels, Allow: g.Allow, Named: gitops.NewPatterns(g.Protect).Match}
	return in, err
}

// soon orders what is read under the limit: first what existed before, tests foremost.
func soon(c gitops.Change) int {
	test, beside := guard.OfTests(c.Path)
	switch {
	case c.Op == 'A':
		return 2
	case test && !beside:
		return 0
	}
	return 1
}

// mostHidden limits how many files are examined that git ignores because of the work.
const mostHidden = 20000

// hidden reads the files that a .gitignore from the work hides: a check still finds them.
func (s *Subject) hidden(ctx context.Context, in *guard.Input) (out []guard.Change, err error) {
	if s.Workspace == nil {
		return nil, nil // they are on the machine that made the work
	}
	root := s.Workspace.Files()
	n := 0
	for _, c := range in.Changes {
		if path.Base(c.Path) != ".gitignore" || c.After == nil {
			continue
		}
		var added []string
		was := map[string]bool{}
		if c.Before != nil {
			for l := range strings.SplitSeq(string(c.Before.Data), "\n") {
				was[l] = true
			}
		}
		for l := range strings.Lines(string(c.After.Data)) {
			if l = strings.TrimRight(l, "\r\n"); !was[l] {
				added = append(added, l)
			}
		}
		patterns, dir := gitops.NewPatterns(added), filepath.Join(root, filepath.FromSlash(path.Dir(c.Path)))
		err := filepath.WalkDir(dir, func(file string, d fs.DirEntry, err error) error {
			if n++; err != nil || n > mostHidden || ctx.Err() != nil {
				return errors.Join(err, fs.SkipAll)
			}
			if d.IsDir() {
				if name := d.Name(); file != dir && (name == ".git" || name == ".descartes" ||
					name == "node_modules" || strings.Contains(name, "venv") || name == "target") {
					return fs.SkipDir
				}
				return nil
			}
			rel, err := filepath.Rel(dir, file)
			if err != nil {
				return err
			}
			if meant, _ := patterns.Match(filepath.ToSlash(rel)); !meant {
				return nil
			}
			name := path.Join(path.Dir(c.Path), filepath.ToSlash(rel))
			if _, tracked := in.Base(name); tracked {
				return nil
			}
			v := guard.Version{}
			if info, err := d.Info(); err == nil && info.Mode()&0o100 != 0 {
				v.Kind = guard.Executable
			}
			if v.Data, err = plainfile.Read(root, file, guard.MaxFile); err != nil {
				v.Long = true // or no file
			}
			out = append(out, guard.Change{Path: name, After: &v, Hidden: true})
			return nil
		})
		if err != nil {
			continue // it is gone
		}
	}
	return out, ctx.Err()
}

// version returns a file for the guard, nil if it does not exist.
func version(c *gitops.Contents, path string, limit int64) (*guard.Version, error) {
	f, err := c.File(path, limit)
	if err != nil || f == nil {
		return nil, err
	}
	v := &guard.Version{Data: f.Data, Long: f.Data == nil && !f.Module}
	switch {
	case f.Link:
		v.Kind = guard.Link
	case f.Module:
		v.Kind = guard.Module
	case f.Executable:
		v.Kind = guard.Executable
	}
	return v, nil
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
func (s *Subject) installed(in *guard.Input) []guard.Finding {
	level := in.LevelOf("installed")
	fi, err := os.Stat(s.PromptFile())
	if level == guard.Off || err != nil || slices.ContainsFunc(in.Changes,
		func(c guard.Change) bool { return guard.Installs(c.Path) }) {
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
	return []guard.Finding{{Rule: "installed", Path: path.Clean(filepath.ToSlash(rel)), Text: text, Level: level}}
}

// written reports whether a file was written at a time or later. The prompt was written just before the agent began,
// perhaps in the same tick.
func written(fi fs.FileInfo, since time.Time) bool { return !fi.ModTime().Before(since) }
