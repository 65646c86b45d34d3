// Package slot is where attempts run: a slot, or a folder without git. It records the state before an attempt,
// undoes what attempts must not do, and says what an attempt changed. It knows neither tasks nor the journal: it
// returns what it restored, in lines for people.
package slot

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"descartes/gitops"
	"descartes/internal/oneline"
)

// Start is what an attempt starts from.
type Start struct {
	Before gitops.Tree   // "" is Base
	Base   gitops.Tree   // before the first attempt at the same work; "" is the tree of HEAD
	Tips   []gitops.Tree // trees of which Base differs by no work: what a check of one left is as good for it
	At     string        // its branch's commit; "" is the user's
	Branch string        // its branch; "" is the user's
	// its work is all that differs from Base, not from Before: it owns the uncommitted work of earlier attempts
	Whole bool
	Cold  bool      // a check begins without what that of the tip left
	Since time.Time // start of the first attempt at the same work, by the clock of file times; zero is now
	// files of the user's, from the repository's top on, that are in the slot as he has them, and no work where git
	// does not have them so
	Named []string
	But   []string // are none of them: the branch has gone on from what the user's tree has there
	Aside string   // the log without its ending: restored files' changed versions are kept beside it
	// what its agent left, where that worked in another slot: what only that knows goes into the results. nil: it
	// works here
	Made *Result
}

// Stand is the state before an attempt; zero for a folder.
type Stand struct {
	Tree gitops.Tree
	Head gitops.Head
}

// Result is what an attempt left behind. It survives JSON.
type Result struct {
	Before    gitops.Tree // what Changed is compared with
	Seen      gitops.Tree // when its agent had ended
	After     gitops.Tree // the work when everything had ended, without what is in Left; "" if not recorded
	Changed   []gitops.Change
	Left      []string         // files that only its verification made
	Grown     []gitops.Change  // changes by its verification that are part of the work
	Uncovered []string         // files that git ignored before: not its work
	LeftOut   []gitops.LeftOut // what it made and no commit can contain
	Old       []gitops.LeftOut // what was there before and no commit can contain, reported once
	Named     Named            // files of the user's that were there as he has them
	Nested    []string         // edits inside submodules and the like
	Alone     bool             // its slot had nothing that a check slot lacks
	Beside    []string         // else what of that git ignores, the first of it
	Hidden    []string         // source files that it wrote and git ignores
	Installs  []string         // folders of package managers into which it put something
	Commits   string           // tip of the agent's own commits
	Lost      string           // why its work is lost, or ""
	Removed   bool             // somebody else did that
	TookBack  string           // what its own git took back of earlier work, or ""
}

// Named are files of the user's that an attempt had as he has them, and that git does not have so: what it changed in
// them is not its work.
type Named struct {
	Paths    []string
	Was, Has gitops.Tree // trees with them, before and after it; the same if it left them alone
}

// Changed reports whether the attempt changed one of them.
func (n *Named) Changed() bool { return len(n.Paths) > 0 && n.Was != n.Has }

// carry adds what only the slot knows in which the work was made.
func (r *Result) carry(made *Result) {
	if made == nil {
		return
	}
	r.Commits, r.Named, r.Hidden, r.Installs = made.Commits, made.Named, made.Hidden, made.Installs
	r.Uncovered, r.LeftOut, r.Old = made.Uncovered, append(r.LeftOut, made.LeftOut...), append(r.Old, made.Old...)
	r.Nested, r.Lost = append(r.Nested, made.Nested...), cmp.Or(r.Lost, made.Lost)
	r.Removed, r.TookBack = r.Removed || made.Removed, cmp.Or(r.TookBack, made.TookBack)
}

// drop takes paths out of the work.
func (r *Result) drop(paths []string) {
	r.Changed = slices.DeleteFunc(r.Changed, func(c gitops.Change) bool { return slices.Contains(paths, c.Path) })
}

// Notes are what a person should know about a result, in lines.
func (r *Result) Notes() (notes []string) {
	add := func(what, list string) {
		if list != "" {
			notes = append(notes, what+list)
		}
	}
	if r.Commits != "" {
		notes = append(notes, fmt.Sprintf("the attempt committed by itself, up to %.12s; its commits are kept",
			r.Commits))
	}
	add(MadeByVerify, oneline.List(slices.DeleteFunc(slices.Clone(r.Left),
		func(p string) bool { return slices.Contains(r.Uncovered, p) })))
	add("the verification changed files, which count as part of the work: ", Paths(r.Grown))
	if r.Lost == "" { // which names them
		add("files inside a submodule were edited, which no commit here will contain: ", oneline.List(r.Nested))
	}
	add("files of yours that git ignored before the attempt stay where they are and in no commit, though the attempt changed what is ignored or staged them by force: ", oneline.List(r.Uncovered))
	add("the attempt wrote source files that git ignores, which no commit will have: ", oneline.List(r.Hidden))
	add("in no snapshot and no commit: ", gitops.Reasons(r.Old))
	return notes
}

// MadeByVerify begins a line about files that only a verification made.
const MadeByVerify = "the verification made files that git does not ignore; they are in no commit: "

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

// relative is a path as a person in the project's folder would type it.
func relative(root, path string) string {
	if rel, err := filepath.Rel(root, path); err == nil {
		return rel
	}
	return path
}
