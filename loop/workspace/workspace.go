// Package workspace is where attempts run: the user's own tree, or a plain folder. It notes how things stand before an attempt, undoes
// what no attempt may do, and says what an attempt changed. It knows no task and no journal: what it restored it returns, in lines for
// people.
package workspace

import (
	"context"
	"fmt"
	"slices"
	"time"

	"descartes/gitops"
	"descartes/internal/oneline"
)

// Start is what an attempt begins with.
type Start struct {
	Before  gitops.Tree // what it starts from; "" is the tree as it is
	Base    gitops.Tree // before the first attempt at the same work; "" is Before
	At      string      // of a slot: the commit that its branch is at; "" is the user's
	Branch  string      // of a slot: its branch; "" is the user's
	Whole   bool        // what it changed is all that differs from Base, not from Before: earlier attempts' work that no commit holds is its own
	Since   time.Time   // when the first attempt at the same work began, by the clock that files are stamped by; zero is now
	Users   []string    // paths that the user had changed before the run
	Left    []string    // files that only verifications made
	Aside   string      // the log without its ending: beside it is kept what is put back
	Resumed *Resumed    // the attempt was begun by a run that was killed
}

// Resumed is the journal's account of an attempt that a killed run had begun.
type Resumed struct {
	Head  gitops.Head
	Began time.Time
	Ended time.Time   // at the latest
	Seen  gitops.Tree // when its agent had ended; "" where that is not known
}

// Stand is how things stood before an attempt.
type Stand struct {
	Tree gitops.Tree // "" where nobody looks
	Head gitops.Head
	Busy string // the loop that has the tree for itself: nothing is known of what the attempt changes
}

// Result is what an attempt left behind. It survives JSON.
type Result struct {
	Before    gitops.Tree // what Changed is measured against
	Seen      gitops.Tree // when its agent had ended
	After     gitops.Tree // when all had ended; "" where nobody looked
	Changed   []gitops.Change
	Left      []string         // files that only its verification made
	Fresh     []string         // of these, those that no earlier one had made
	Taken     []string         // those of earlier ones that its agent made its own
	Grown     []gitops.Change  // what its verification changed, which is part of the work
	Uncovered []string         // files that git had ignored before it: no work of its
	LeftOut   []gitops.LeftOut // what it made and no commit can hold
	Old       []gitops.LeftOut // what was there before it and no commit can hold, told once
	Nested    []string         // edits inside submodules and the like
	Commits   string           // tip of the commits that the agent made itself
	Busy      string           // see Stand
	Lost      string           // why there is nothing of its work, "" where there is
}

// measure says what of the changes is work. verified says that commands ran after the agent.
func (r *Result) measure(ctx context.Context, repo *gitops.Repo, start Start, verified bool) (err error) {
	if verified {
		if r.Left, r.Taken, r.Grown, err = leavings(ctx, repo, r.Before, r.Seen, r.After, start.Left); err != nil {
			return gitErr("compare the work", err)
		}
		r.drop(r.Left)
		r.Fresh = without(r.Left, start.Left)
	}
	if r.Uncovered = uncovered(repo, r.Changed, past(start.Since)); len(r.Uncovered) > 0 {
		r.drop(r.Uncovered)
		r.Left = append(r.Left, r.Uncovered...)
	}
	r.LeftOut, r.Old = repo.LeftOut(past(start.Since))
	return nil
}

// drop takes paths out of the work.
func (r *Result) drop(paths []string) {
	r.Changed = slices.DeleteFunc(r.Changed, func(c gitops.Change) bool { return slices.Contains(paths, c.Path) })
}

// unreported are those that were not reported before, and are now.
func unreported(told map[string]bool, all []gitops.LeftOut) (out []gitops.LeftOut) {
	for _, x := range all {
		if !told[x.Path] {
			told[x.Path] = true
			out = append(out, x)
		}
	}
	return out
}

// Notes are what a person should know of a result, in lines.
func (r *Result) Notes() (notes []string) {
	add := func(what, list string) {
		if list != "" {
			notes = append(notes, what+list)
		}
	}
	add(MadeByVerify, oneline.List(r.Fresh))
	add("the verification changed files, which count as part of the work: ", Paths(r.Grown))
	add("the attempt edited files inside a submodule, which no commit here will contain: ", oneline.List(r.Nested))
	add("files of yours that git ignored before the attempt stay where they are and in no commit, though the attempt changed what is ignored or staged them by force: ", oneline.List(r.Uncovered))
	add("in no snapshot and no commit: ", Reasons(r.Old))
	return notes
}

// MadeByVerify begins a line that names files which only a verification made.
const MadeByVerify = "the verification made files that git does not ignore; they stay, but in no commit: "

// Restored is what was put back of an attempt's work.
type Restored struct {
	gitops.Restored
	Tree    gitops.Tree     // now
	Differs []gitops.Change // from what it was to be
	Nested  []string        // edits inside submodules, which stay
}

// Line says in one line what was put back and removed, and where the attempts' own files are kept; "" where nothing was touched.
func (r *Restored) Line(ref string) string {
	s := ""
	add := func(paths []string, done string) {
		if len(paths) == 0 {
			return
		}
		if s != "" {
			s += ", "
		}
		what := fmt.Sprintf("%d paths", len(paths))
		if len(paths) == 1 {
			what = "1 path"
		}
		s += what + " " + done + " (" + oneline.List(paths) + ")"
	}
	add(r.Back, "put back")
	add(r.Removed, "removed")
	if s != "" && ref != "" {
		s += ", what was there is kept in " + ref
	}
	return s
}

// NotRestored says what could not be put back, "" where that is nothing.
func NotRestored(r gitops.Restored) string {
	if len(r.Left) == 0 {
		return ""
	}
	return "; not put back: " + Reasons(r.Left)
}

// Reasons names the first of what was left out, with the reasons.
func Reasons(left []gitops.LeftOut) string {
	list := make([]string, len(left))
	for i, x := range left {
		list[i] = x.String()
	}
	return oneline.List(list)
}

// Paths names the first of what was changed.
func Paths(changed []gitops.Change) string {
	list := make([]string, len(changed))
	for i, c := range changed {
		list[i] = c.Path
	}
	return oneline.List(list)
}

// GitError marks what git refused: a run ends with that, and not with an internal error.
type GitError struct {
	What string
	Err  error
}

func (e *GitError) Error() string { return e.What + ": " + e.Err.Error() }
func (e *GitError) Unwrap() error { return e.Err }

func gitErr(what string, err error) error { return &GitError{what, err} }
