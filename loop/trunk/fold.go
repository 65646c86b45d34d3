package trunk

import (
	"context"
	"fmt"
	"strings"

	"descartes/gitops"
	"descartes/internal/oneline"
	"descartes/verify"
)

// Candidate is a verified result to fold in.
type Candidate struct {
	Unit    string
	Subject string      // of the commit that takes it in
	From    string      // commit of the chain that its attempt started from
	Commit  string      // of the attempt
	Tree    gitops.Tree // of that commit; "" if it was not verified as it is
	Suspect bool        // it was verified beside files that a check slot lacks
}

// Fate says what happened to a candidate: it was accepted, it conflicts, or verification fails with it. In the last
// two cases the chain is as before.
type Fate struct {
	Unit      string
	Conflicts []gitops.Conflict
	Failure   *verify.Result // of the state with it on top
	Beside    string         // why it fails in a check slot and passed elsewhere, or ""
	After     []string       // units integrated since its attempt started
}

// Accepted reports whether the candidate is now part of the state.
func (f *Fate) Accepted() bool { return len(f.Conflicts) == 0 && f.Failure == nil }

// Reason says in one line why a candidate was rejected.
func (f *Fate) Reason() string {
	with, when := "the work merged meanwhile", ""
	if len(f.After) > 0 {
		with, when = "the work of "+oneline.List(f.After), ", merged meanwhile"
	}
	switch {
	case f.Accepted():
		return ""
	case len(f.Conflicts) > 0:
		list := make([]string, len(f.Conflicts))
		for i, c := range f.Conflicts {
			list[i] = c.String()
		}
		return "merge conflict with " + with + ": " + oneline.List(list)
	case f.Beside != "":
		return f.Beside
	case len(f.After) == 0: // a check that no attempt runs alone
		return f.Failure.Reason()
	}
	return "verification fails on its changes together with " + with + when
}

// Detail is what the next attempt learns: where the two conflict, or how the verification failed.
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

// Paths are those at which the candidate conflicts.
func (f *Fate) Paths() (paths []string) {
	for _, c := range f.Conflicts {
		paths = append(paths, c.Path)
	}
	return paths
}

// Folder folds candidates into a chain. Each state that the chain takes has passed verification as a whole.
type Folder struct {
	*Chain
	More   func(units []string) bool // whether these units' combined work needs further checks; nil: never
	Verify func(ctx context.Context, tree gitops.Tree, units []string) (verify.Result, error)
}

// verdicts holds the result of each verified state; nil means it passed.
type verdicts map[gitops.Tree]*verify.Result

// Fold folds in candidates in the order in which they finished, and returns the fate of each. All that merge are
// verified together. Only if that fails are they verified one by one, and those with which verification fails are left
// out. After an error the chain is as far as it was verified; fold the candidates without a fate again.
func (g *Folder) Fold(ctx context.Context, batch []Candidate) ([]Fate, error) {
	known := verdicts{g.Tree: nil}
	fates := make([]Fate, len(batch))
	on, state := g.Tip, g.Tree
	var units []string
	var links []gitops.Link
	for i, c := range batch {
		if fates[i].Unit = c.Unit; g.Has(c.Unit, c.Commit) { // a dead loop did not record it
			continue
		}
		fates[i].After = append(g.Since(c.From), units...)
		next, met, err := g.Repo.Merge(ctx, on, c.Commit)
		if err != nil {
			return nil, err
		}
		if fates[i].Conflicts = met; len(met) > 0 {
			continue
		}
		l := g.Bring(c.Unit, c.Subject, c.Commit, next)
		if i < len(batch)-1 { // the next one is merged with it
			if on, err = g.Repo.Link(ctx, on, l); err != nil {
				return nil, err
			}
		}
		links, state = append(links, l), next
		if units = append(units, c.Unit); next == c.Tree && !c.Suspect && (g.More == nil || !g.More(units)) {
			known[next] = nil // its verification just passed
		}
	}
	failure, err := g.check(ctx, known, state, units)
	switch {
	case err != nil:
		return nil, err
	case failure != nil:
		return g.oneByOne(ctx, known, batch)
	case len(links) > 0:
		if err := g.Add(ctx, links...); err != nil {
			return nil, err
		}
	}
	return fates, nil
}

// oneByOne verifies the state after each candidate.
func (g *Folder) oneByOne(ctx context.Context, known verdicts, batch []Candidate) (fates []Fate, err error) {
	for _, c := range batch {
		f := Fate{Unit: c.Unit, After: g.Since(c.From)}
		if !g.Has(c.Unit, c.Commit) {
			var next gitops.Tree
			if next, f.Conflicts, err = g.Repo.Merge(ctx, g.Tip, c.Commit); err != nil {
				return fates, err
			}
			if len(f.Conflicts) == 0 {
				if f.Failure, err = g.check(ctx, known, next, append(f.After, c.Unit)); err != nil {
					return fates, err
				}
			}
			if f.Accepted() {
				if err := g.Add(ctx, g.Bring(c.Unit, c.Subject, c.Commit, next)); err != nil {
					return fates, err
				}
			}
		}
		fates = append(fates, f)
	}
	return fates, nil
}

// check verifies a state unless its result is known. It returns the failure, or nil if it passed.
func (g *Folder) check(ctx context.Context, known verdicts, tree gitops.Tree, units []string) (*verify.Result, error) {
	if failure, ok := known[tree]; ok {
		return failure, nil
	}
	res, err := g.Verify(ctx, tree, units)
	if err != nil {
		return nil, err
	}
	if res.Cancelled {
		return nil, stopped("the verification of the merged work was stopped")
	}
	if known[tree] = &res; res.Passed {
		known[tree] = nil
	}
	return known[tree], nil
}

// stopped says what a request to stop at once interrupted.
type stopped string

func (e stopped) Error() string { return string(e) }
func (e stopped) Unwrap() error { return context.Canceled }
