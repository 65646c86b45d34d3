package gitops

import (
	"strings"
	"testing"
)

// Where HEAD is is what git says, however it is stored, and after others have moved it.
func TestHead(t *testing.T) {
	t.Parallel()
	s := newSandbox(t)
	s.sh("git init -q -b main .; git commit -q --allow-empty -m one; git branch other; git worktree add -q ../linked other; git branch named; git symbolic-ref refs/heads/alias refs/heads/named")
	r := s.reopen()
	for _, script := range []string{
		"", "git commit -q --allow-empty -m two", "git pack-refs --all --prune", "git checkout -q --detach",
		"git tag -a -m x t; git checkout -q t",
		"git checkout -q -b a/b; git commit -q --allow-empty -m three", "git symbolic-ref HEAD refs/heads/alias",
		"git checkout -q main; git update-ref refs/heads/main other",
		"mv .git/HEAD .git/to; ln -s refs/heads/main .git/HEAD", "rm .git/HEAD; mv .git/to .git/HEAD",
	} {
		s.sh(script)
		branch, hash, err := r.head(t.Context())
		want := strings.TrimSpace(s.sh("git rev-parse HEAD; git symbolic-ref -q HEAD || true"))
		if got := strings.TrimSpace(hash + "\n" + branch); err != nil || got != want {
			t.Errorf("after %q: got %q, %v, want %q", script, got, err, want)
		}
	}
	s.sh("git checkout -q --orphan new")
	if branch, hash, err := r.head(t.Context()); err != nil || branch != "refs/heads/new" || hash != "" {
		t.Errorf("on an unborn branch: %q, %q, %v", branch, hash, err)
	}
}
