package gitops

import (
	"context"
	"fmt"
	"strings"

	"descartes/internal/proc"
)

// Oldest is the first version of the git program that has what is asked of it here. merge-tree --write-tree, which
// working copies of their own need, came with OldestMerging.
var (
	Oldest        = Version{2, 30}
	OldestMerging = Version{2, 38}
)

// Version is the git program's, as far as it matters.
type Version struct{ Major, Minor int }

func (v Version) String() string { return fmt.Sprintf("%d.%d", v.Major, v.Minor) }

// Before reports whether v is older than w.
func (v Version) Before(w Version) bool {
	return v.Major < w.Major || v.Major == w.Major && v.Minor < w.Minor
}

// VersionError is a git program that is too old. It is a RefusedError.
type VersionError struct {
	Program       string
	Found, Needed Version
	For           string // what it is too old for, "" for everything
}

func (e *VersionError) Error() string {
	needed := " is needed"
	if e.For != "" {
		needed += " for " + e.For
	}
	return fmt.Sprintf("%s is git %s; git %s or newer%s", e.Program, e.Found, e.Needed, needed)
}

func (e *VersionError) Unwrap() error {
	return &RefusedError{Reason: e.Error(), Hint: fmt.Sprintf("install git %s or newer", e.Needed)}
}

// FindGit looks for the git program in env as dir sees it ("" is "git"), and asks for its version. None, or one that is
// too old, is a RefusedError that says what was found and what is needed.
func FindGit(ctx context.Context, program, dir string, env []string) (path string, v Version, err error) {
	if program == "" {
		program = "git"
	}
	if path, err = proc.Look(program, dir, env); err != nil {
		return "", Version{}, &RefusedError{Reason: "the git program is not on the PATH", Hint: fmt.Sprintf("install git %s or newer", Oldest)}
	}
	git := &cli{program: path, env: gitEnv(env), l: layout{root: dir}}
	said, err := git.word(ctx, "", "version")
	if err != nil {
		return "", Version{}, fmt.Errorf("ask git for its version: %w", err)
	}
	if v, err = parseVersion(said); err != nil {
		return "", Version{}, err
	}
	if v.Before(Oldest) {
		return "", v, &VersionError{Program: path, Found: v, Needed: Oldest}
	}
	return path, v, nil
}

// parseVersion reads "git version 2.39.5 (Apple Git-154)" and the like.
func parseVersion(said string) (Version, error) {
	var v Version
	if _, err := fmt.Sscanf(strings.TrimSpace(said), "git version %d.%d", &v.Major, &v.Minor); err != nil {
		return Version{}, fmt.Errorf("git calls its version %q, which is not understood", said)
	}
	return v, nil
}
