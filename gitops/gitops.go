// Package gitops owns the repository that a run works in: whether it is safe to start there, snapshots of a working
// tree, keeping an attempt's result as a ref, merging results, the commit of a wave, and how the user's files follow
// it.
//
//	Open          a repository, by Options; Repo.Author, Dirty, Locked, Head: is it safe to start?
//	OpenSlot      a working copy for an attempt beside the user's
//	Snapshot      the working tree as a Tree: what `git add -A` would stage
//	Changed       what differs between two trees; DiffStat and Patch say it to people
//	Keep          a tree as a commit under a ref, so that nothing an agent made is lost
//	MergeTrees    two results on one base
//	CommitWave    the changes of a wave's attempts, and nothing else, on top of a commit
//	Forward       moves the user's branch and files to a commit; Arrive brings changes into his files
//
// go-git makes the wave's commit (objects.go, commit.go). The git program does all else, so that every format, filter
// and rule is as the user's git has it: objects, settings and identity, refs with their logs, the index, the files,
// differences and merges. Where hooks, signing or an encoding are in play, or go-git does not know the format, it
// makes the commit too: preflight.go finds that out, and Repo.Notes says so. git.go runs it.
//
// Nothing here follows a symbolic link out of the working tree or deletes an ignored file.
package gitops

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// ErrNotRepo and ErrBare mean that gitops cannot work in a directory at all.
var (
	ErrNotRepo = errors.New("not a git repository")
	ErrBare    = errors.New("a bare repository has no working tree")
)

// RefusedError is something that git cannot do, or that must not be done.
type RefusedError struct {
	Reason string
	Hint   string // what the user can do about it, "" if nothing is known
}

func (e *RefusedError) Error() string { return e.Reason }

// Next is the hint.
func (e *RefusedError) Next() string { return e.Hint }

// ClashError is the refusal to bring two branches together: what one lacks of the other, up to Commit, conflicts.
type ClashError struct {
	*RefusedError
	Commit string
}

func (e *ClashError) Unwrap() error { return e.RefusedError }

// StoppedError means that a git command was ended before it finished. The repository is as before.
type StoppedError struct {
	Command string        // "git commit"
	Inside  string        // what it waited for, such as "hook pre-commit"; "" if unknown
	After   time.Duration // how long it ran
	Cause   error         // ErrTooLong, or why the context ended
}

// ErrTooLong is the cause of a StoppedError when Options.HookTimeout ran out.
var ErrTooLong = errors.New("hook_timeout")

func (e *StoppedError) Error() string {
	inside := ""
	if e.Inside != "" {
		inside = " while it waited for the " + e.Inside
	}
	why := "interrupted"
	if !errors.Is(e.Cause, context.Canceled) {
		why = "ended (" + e.Cause.Error() + ")"
	}
	return fmt.Sprintf("%s was %s after %s%s", e.Command, why, e.After.Round(100*time.Millisecond), inside)
}

func (e *StoppedError) Unwrap() error { return e.Cause }

// Options say where to work and by which rules. Only Dir is required.
type Options struct {
	Dir string // any directory inside the working tree
	// repository-relative slash paths, directories with a final slash: never snapshotted, restored or reported
	Protect []string
	// of commits: "run" (default) where they are checked, "skip", "fail", or "outside", as git has it, at a push too where
	// they lie in the project
	Hooks string

	Git string   // the git program; "" is the one on the PATH of Env
	Env []string // the environment that configuration and the git program see

	// Shim is our own command line that runs the git program after Claim, so that git and its hooks end with us,
	// however we end. Nil: git is a plain child.
	Shim        []string
	Box         Box           // where git commands run that may start a filter or merge driver; nil: as any other
	HookTimeout time.Duration // of each run of the git program, its hooks, filters and signing included; 0 is none
}

// Tree is the id of a git tree object, in hexadecimal digits: 40 of SHA-1, 64 of SHA-256.
type Tree string

// Head is where HEAD is.
type Head struct {
	Branch string // "refs/heads/x", "" when detached
	Hash   string // the commit, "" on an unborn branch
}

// Change is one path that differs between two trees.
type Change struct {
	Path   string
	Op     byte // 'A'dded, 'M'odified (the executable bit included), 'D'eleted, or changed 'T'ype
	Module bool // it is a submodule, or another repository of its own, by now
}

// Ref is a ref with the commit that it names.
type Ref struct {
	Name    string
	Hash    string
	Message string
	When    time.Time
}

// Wave is what one commit should contain.
type Wave struct {
	Message string
	Tree    Tree              // all of it
	On      string            // its parent, "" for none
	Files   map[string][]byte // repository paths to commit with this content, whatever the tree has
	Began   string            // the commit whose hooks run, where they lie in the working tree; "" for none
}

// Commit is the result of CommitWave.
type Commit struct {
	Hash  string
	Paths []string // sorted
	Notes []string // one line each, for people
	Empty bool     // nothing differed from HEAD: no commit was made
}
