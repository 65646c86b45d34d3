// Package judge says what a commit's checks are worth: it runs the tests as they were before the commit on its code,
// compares single results by name, and names what changed in whatever judges. It reads no assertion.
package judge

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"descartes/gitops"
	"descartes/verify"
	"descartes/verify/results"
)

// Case is a commit to judge.
type Case struct {
	Repo      *gitops.Repo
	Base, New gitops.Tree
	Title     string // of the task or the commit: its words may ask for a change of tests
	Allow     bool   // it may change tests as it likes: what would be refused is named
	Way       string // what says so, for who reads a refusal; "": he is told elsewhere
	Checks    []verify.Check
	// of the checks on Base, in their order; nil: they are run. One of them that is nil is run where something that
	// judges was changed, and is unknown otherwise.
	Before []*verify.Result
	After  []verify.Result // and on New; nil: they are run
	// Named says what the user's list says of a path: it must not change, or nothing is said of it. nil: nothing.
	Named func(path string) (protected, excepted bool)
	// Run checks out a tree and runs a check on it.
	Run func(ctx context.Context, tree gitops.Tree, c verify.Check, how verify.How) (verify.Result, error)
}

// Finding is one thing that is to be said of a commit.
type Finding struct {
	Rule    string `json:"rule"`
	Refuses bool   `json:"refuses"`
	Path    string `json:"path,omitempty"`
	Line    int    `json:"line,omitempty"` // in the file after the commit, or before it where the line is gone
	Text    string `json:"text"`           // what happened, for people
	Old     string `json:"old,omitempty"`  // the line before the commit, and after it
	New     string `json:"new,omitempty"`
}

func (f Finding) String() string {
	at := f.Path
	if f.Line > 0 {
		at += fmt.Sprintf(":%d", f.Line)
	}
	if at != "" {
		at += ": "
	}
	s := at + f.Text
	switch {
	case f.Old != "" && f.New != "":
		s += ": " + f.Old + " -> " + f.New
	case f.Old+f.New != "":
		s += ": " + f.Old + f.New
	}
	return s
}

// Verdict is what a commit came to.
type Verdict struct {
	Findings []Finding `json:"findings"` // those that refuse first
	Facts    Facts     `json:"facts"`
}

// Facts are what is known of a commit's tests.
type Facts struct {
	Known  bool `json:"known"`  // whether any single result is
	Before bool `json:"before"` // and what some of them were before
	Ran    int  `json:"ran"`    // tests that ran on the commit
	Turned int  `json:"turned"` // from red to green
	Added  int  `json:"added"`
	Lost   int  `json:"lost"`  // ran before, and not on the commit
	Again  bool `json:"again"` // the checks ran with the judges as they were
	// of these runs, in seconds: on the commit, and all others
	Took, More float64 `json:"-"`
}

// Refused reports whether a finding refuses the commit.
func (v *Verdict) Refused() bool {
	return slices.ContainsFunc(v.Findings, func(f Finding) bool { return f.Refuses })
}

// Says is the facts in one line: "8 tests, 6 turned green, none lost".
func (f Facts) Says() string {
	if !f.Known {
		return "single results of its tests are unknown"
	}
	s := count(f.Ran, "test")
	if !f.Before {
		return s
	}
	if f.Turned > 0 {
		s += fmt.Sprintf(", %d turned green", f.Turned)
	}
	if f.Added > 0 {
		s += fmt.Sprintf(", %d added", f.Added)
	}
	if f.Lost == 0 {
		return s + ", none lost"
	}
	return s + fmt.Sprintf(", %d lost", f.Lost)
}

// Judge judges a commit. An error means that there is no verdict.
func Judge(ctx context.Context, c Case) (v Verdict, err error) {
	j := &judging{Case: c, ctx: ctx, asks: c.Allow || Asks(c.Title)}
	if err := j.read(); err != nil {
		return v, err
	}
	old, err := j.old()
	if err != nil {
		return v, err
	}
	if err := j.results(old); err != nil {
		return v, err
	}
	for i := range c.Checks {
		w := weighing{before: j.Before[i], after: &j.After[i], only: old.only, asks: j.asks,
			cut: j.cut(), check: c.Checks[i].Name}
		if c.Way != "" {
			w.way = "; " + c.Way + " allows it"
		}
		if !old.needed(&w) {
			j.add(w.weigh()...)
			continue
		}
		if err := j.unlessUnset(j.oldJudges(&w, old, c.Checks[i])); err != nil {
			return v, err
		}
		j.add(w.weigh()...)
	}
	if err := j.unlessUnset(j.builds()); err != nil {
		return v, err
	}
	if err := j.unlessUnset(j.proofs()); err != nil {
		return v, err
	}
	j.names(old)
	slices.SortStableFunc(j.found, func(a, b Finding) int {
		switch {
		case a.Refuses == b.Refuses:
			return 0
		case a.Refuses:
			return -1
		}
		return 1
	})
	return Verdict{Findings: j.found, Facts: j.facts()}, nil
}

// results runs the checks whose results on the base, or on the commit, are not known and wanted.
func (j *judging) results(old oldTree) error {
	known := len(j.Before) == len(j.Checks)
	if !known {
		j.Before = make([]*verify.Result, len(j.Checks))
	}
	for i, c := range j.Checks {
		switch {
		case j.Before[i] != nil:
		case known && len(old.back) == 0 && old.canary == "":
			j.Before[i] = &verify.Result{Passed: true}
		default:
			r, err := j.run(j.Base, c, verify.How{})
			if err != nil {
				return err
			}
			j.Before[i] = &r
		}
	}
	if len(j.After) == len(j.Checks) {
		return nil
	}
	j.After = nil
	for i, c := range j.Checks {
		r, err := j.run(j.New, c, verify.How{})
		if err != nil {
			return err
		}
		b := j.Before[i]
		r.Measure(&verify.Bar{Before: b.Tests, Failed: !b.Passed, Known: true, Fewer: true})
		j.After = append(j.After, r)
	}
	return nil
}

// Old is a tree with the code of one commit and the judges of another one, and what it puts back.
func Old(ctx context.Context, repo *gitops.Repo, judges, code gitops.Tree, checks []verify.Check) (gitops.Tree,
	[]string, error) {
	j := &judging{Case: Case{Repo: repo, Base: judges, New: code, Checks: checks}, ctx: ctx}
	if err := j.read(); err != nil {
		return "", nil, err
	}
	o, err := j.putBack()
	return o.tree, o.back, err
}

// judging is one run of Judge.
type judging struct {
	Case
	ctx     context.Context
	asks    bool
	changes []change
	found   []Finding
	ranOld  bool
	took    float64 // seconds of runs besides those of the commit
}

func (j *judging) add(list ...Finding) {
	for _, f := range list {
		if f.Old, f.New = short(f.Old), short(f.New); !slices.Contains(j.found, f) {
			j.found = append(j.found, f)
		}
	}
}

// run runs a check on a tree. One that was cancelled is an error.
func (j *judging) run(tree gitops.Tree, c verify.Check, how verify.How) (verify.Result, error) {
	r, err := j.Run(j.ctx, tree, c, how)
	if err == nil && r.Cancelled {
		err = context.Canceled
	}
	return r, err
}

// unlessUnset lets one thing stay unknown: what the set-up command fails for on a tree that the judge made. It needs a
// file that was put back or taken out there, which says nothing of the commit.
func (j *judging) unlessUnset(err error) error {
	if unset, ok := errors.AsType[*verify.SetupError](err); ok {
		j.add(Finding{Rule: "settings", Text: "not all checks of the tests could be made: with files as they were, " + unset.Text})
		return nil
	}
	return err
}

// oldJudges runs a check with the judges as they were, and where the code is able to decide how it is judged a test that
// must fail beside them.
func (j *judging) oldJudges(w *weighing, old oldTree, c verify.Check) error {
	if len(old.back) > 0 {
		r, err := j.runOld(w, old, c)
		if err != nil {
			return err
		}
		w.old, j.ranOld = &r, true
		if err := j.together(w, old, c); err != nil {
			return err
		}
	}
	if old.canary == "" || tests(w.before) == nil && tests(w.after) == nil {
		return nil
	}
	r, err := j.again(old.canary, c, old.beside)
	if err == nil && r.Narrowed && r.Passed { // nothing may have run
		r, err = j.again(old.canary, c, nil)
	}
	if err != nil {
		return err
	}
	w.canary = &r
	if n := len(canariesOf(failedOf(r.Tests))); n == 0 || n >= len(old.beside) {
		return nil
	}
	tree, beside, err := j.canary(j.Base) // some may be of no check
	if err != nil || tree == "" {
		return err
	}
	before, err := j.again(tree, c, beside)
	w.muted = without(canariesOf(failedOf(before.Tests)), canariesOf(failedOf(r.Tests)))
	return err
}

// canariesOf are those of some names that are of tests that must fail.
func canariesOf(list []string) []string {
	return slices.DeleteFunc(slices.Clone(list), func(n string) bool { return !isCanary(n) })
}

// again runs a check on a tree that the judge made; only is as verify.How has it.
func (j *judging) again(tree gitops.Tree, c verify.Check, only []string) (verify.Result, error) {
	r, err := j.run(tree, c, verify.How{GoOn: true, Only: only})
	j.took += r.Duration.Seconds()
	return r, err
}

// runOld runs a check with the judges as they were: the changed tests alone where that says as much, with what the
// others came to on the commit.
func (j *judging) runOld(w *weighing, old oldTree, c verify.Check) (verify.Result, error) {
	only := old.alone
	if after := tests(w.after); len(ranOf(after)) == 0 || after.More > 0 || w.after.Standing {
		only = nil
	}
	r, err := j.again(old.tree, c, only)
	if err != nil || !r.Narrowed {
		return r, err
	}
	if failed := failedOf(r.Tests); len(named(failed)) < len(failed) || !r.Passed && len(failed) == 0 {
		return j.again(old.tree, c, nil) // what cannot be loaded, or fails without a test, says too little
	}
	r.Tests = r.Tests.With(w.after.Tests, w.before.Tests)
	return r, nil
}

// together tries judges and files that build as well, where the old judges alone fail and no single result says why: the
// build may name a file of tests that is not there now.
func (j *judging) together(w *weighing, old oldTree, c verify.Check) error {
	back := j.building()
	if w.old.Passed || len(failedOf(tests(w.old))) > 0 || len(back) == 0 {
		return nil
	}
	tree, err := j.Repo.TreeWith(j.ctx, old.tree, j.Base, back)
	if err != nil {
		return err
	}
	r, err := j.again(tree, c, nil)
	if err == nil && r.Passed {
		w.old = &r
	}
	return err
}

// building are the changed files that build as well as judge.
func (j *judging) building() (back []string) {
	for _, c := range j.changes {
		if c.kind == Build && c.before != nil && !sameChecks(c.path, c.before, c.after) {
			back = append(back, c.path)
		}
	}
	return back
}

// builds puts the files back that build as well as judge, in a run of their own, which only names. It refuses where the
// check passes by the new ones with nothing left to check, and does not by the old ones.
func (j *judging) builds() error {
	back := j.building()
	if err := j.hollow(); err != nil || len(back) == 0 {
		return err
	}
	tree, err := j.Repo.TreeWith(j.ctx, j.New, j.Base, back)
	if err != nil {
		return err
	}
	for i, c := range j.Checks {
		if !j.After[i].Passed {
			continue
		}
		r, err := j.again(tree, c, nil)
		if err != nil {
			return err
		}
		text := ""
		now, then := tests(&j.After[i]), tests(&r)
		switch {
		case then != nil && len(ranOf(now)) < len(ranOf(then)):
			text = count(len(ranOf(then))-len(ranOf(now)), "test") + " more with it as it was"
		case !r.Passed && then != nil && len(named(then.Failed)) > 0:
			text = count(len(named(then.Failed)), "test") + " fail with it as it was"
		case !r.Passed:
			text = "the checks fail with it as it was"
		}
		if text != "" {
			j.add(Finding{Rule: "settings", Path: strings.Join(back, ", "), Text: text})
		}
	}
	return nil
}

// longest is how long the checks may take, in seconds, for added tests to run once more.
const longest = 60

// proofs names tests that were added to a green project and pass without the rest of the commit, too: they say nothing
// of it.
func (j *judging) proofs() error {
	f := j.facts()
	if f.Turned > 0 || f.Added == 0 || f.Took > longest {
		return nil
	}
	var back, only []string
	code := false
	for _, c := range j.changes {
		if code = code || c.kind == Code; c.kind.judges() {
			back = append(back, c.path)
		}
		if c.kind == Test && apart.MatchString(c.path) && c.op != 'D' {
			only = append(only, c.path)
		}
	}
	if !code || len(only) == 0 {
		return nil
	}
	tree, err := j.Repo.TreeWith(j.ctx, j.Base, j.New, back)
	if err != nil {
		return err
	}
	for i, c := range j.Checks {
		before, after := tests(j.Before[i]), tests(&j.After[i])
		if before == nil || after == nil {
			continue
		}
		added := without(ranOf(after), append(ranOf(before), before.Skipped...))
		if len(added) == 0 {
			continue
		}
		r, err := j.again(tree, c, only)
		if err != nil {
			return err
		}
		if len(without(added, passedOf(r.Tests))) > 0 {
			return nil
		}
		j.add(Finding{Rule: "no-proof", Text: count(len(added), "test") + " added, green without the work, too: " + few(added)})
	}
	return nil
}

// hollow runs the checks that pass on a tree that has nothing but files that build, as they are and as they were.
func (j *judging) hollow() error {
	var changed, all []string
	for _, c := range j.changes {
		if c.kind == Build && c.op != 'D' && (c.before == nil || !sameChecks(c.path, c.before, c.after)) {
			changed = append(changed, c.path)
		}
	}
	if len(changed) == 0 {
		return nil
	}
	list, err := j.Repo.Changed(j.ctx, j.Repo.EmptyTree(), j.New)
	if err != nil {
		return err
	}
	for _, c := range list {
		// without its rules, what git ignores and a check needs would not stay
		if Of(c.Path, nil) == Build || path.Base(c.Path) == ".gitignore" {
			all = append(all, c.Path)
		}
	}
	now, err := j.Repo.TreeWith(j.ctx, j.Repo.EmptyTree(), j.New, all)
	if err != nil {
		return err
	}
	then, err := j.Repo.TreeWith(j.ctx, now, j.Base, changed)
	if err != nil {
		return err
	}
	for i, c := range j.Checks {
		if !j.After[i].Passed {
			continue
		}
		var passes [2]bool
		for k, tree := range []gitops.Tree{now, then} {
			r, err := j.again(tree, c, nil)
			if _, unset := errors.AsType[*verify.SetupError](err); unset { // it needs more than is left
				return nil
			}
			if err != nil {
				return err
			}
			if !r.Passed || r.NoneRan || r.Tests != nil && len(ranOf(r.Tests)) == 0 { // a runner may be content with no tests
				break
			}
			passes[k] = true
		}
		if passes[0] && !passes[1] {
			text := "the check passes with nothing left to check, and did not before"
			if c.Name != "" {
				text = c.Name + ": " + text
			}
			j.add(Finding{Rule: "must-fail", Refuses: !j.asks, Path: strings.Join(changed, ", "), Text: text})
		}
	}
	return nil
}

// facts counts by all checks.
func (j *judging) facts() (f Facts) {
	f.Again, f.More = j.ranOld, j.took
	for i := range j.Checks {
		before, after := tests(j.Before[i]), tests(&j.After[i])
		f.Took += j.After[i].Duration.Seconds()
		if after == nil {
			continue
		}
		f.Known = true
		f.Ran += len(ranOf(after)) + after.More
		if before == nil {
			continue
		}
		f.Before = true
		f.Turned += len(both(after.Passed, before.Failed))
		f.Added += len(without(ranOf(after), append(ranOf(before), before.Skipped...)))
		f.Lost += len(without(ranOf(before), ranOf(after)))
	}
	return f
}

// tests are the known results of a check.
func tests(r *verify.Result) *results.Set { return r.Tests }

// named are those of some names that are tests.
func named(list []string) []string {
	return slices.DeleteFunc(slices.Clone(list), func(n string) bool { return !results.IsTest(n) })
}

// ranOf are the tests that passed or failed.
func ranOf(s *results.Set) []string {
	if s == nil {
		return nil
	}
	return append(named(s.Passed), named(s.Failed)...)
}

func without(list, out []string) (left []string) {
	has := map[string]bool{}
	for _, s := range out {
		has[s] = true
	}
	for _, s := range list {
		if !has[s] {
			left = append(left, s)
		}
	}
	return left
}

func both(a, b []string) []string { return without(a, without(a, b)) }

// count prints a number with its noun.
func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// few lists the first names.
func few(list []string) string {
	s := strings.Join(list[:min(3, len(list))], ", ")
	if n := len(list) - 3; n > 0 {
		s += fmt.Sprintf(" and %d more", n)
	}
	return s
}

// short cuts a line for people.
func short(s string) string {
	s = strings.Join(strings.Fields(s), " ")
	if r := []rune(s); len(r) > 100 {
		return string(r[:97]) + "..."
	}
	return s
}

// lines are the lines of a text without the white space around them, blank ones left out.
func lines(b []byte) (list []line) {
	n := 0
	for l := range bytes.Lines(b) {
		n++
		if s := strings.TrimSpace(string(l)); s != "" {
			list = append(list, line{n, s})
		}
	}
	return list
}

// line is one line of a file.
type line struct {
	n    int
	text string
}

// minus gives the lines of a that b lacks, each as often as it is missing.
func minus(a, b []line) (out []line) {
	have := map[string]int{}
	for _, x := range b {
		have[x.text]++
	}
	for _, x := range a {
		if have[x.text]--; have[x.text] < 0 {
			out = append(out, x)
		}
	}
	return out
}
