package gitops

import (
	"errors"
	"strings"
	"testing"
)

func TestNewBranch(t *testing.T) {
	t.Parallel()
	s, r := start(t)
	s.sh("echo staged >staged; git add staged; echo loose >loose")
	before, index := s.git("rev-parse", "HEAD"), s.git("status", "--porcelain")
	if err := r.NewBranch(t.Context(), "topic/x"); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args string
		want string
	}{
		{"symbolic-ref HEAD", "refs/heads/topic/x\n"},
		{"rev-parse refs/heads/topic/x", before},
		{"status --porcelain", index},
		{"reflog -1 --format=%gs HEAD", "checkout: moving from main to topic/x\n"},
		{"reflog -1 --format=%gs topic/x", "branch: Created from HEAD\n"},
	} {
		if got := s.git(strings.Fields(c.args)...); got != c.want {
			t.Errorf("git %s: got %q, want %q", c.args, got, c.want)
		}
	}
	if err := r.NewBranch(t.Context(), "topic/x"); err != nil {
		t.Errorf("again: %v", err)
	}
	for _, name := range []string{"main", "a b", "-x", "HEAD", "a..b", ""} {
		err := r.NewBranch(t.Context(), name)
		if _, refused := errors.AsType[*RefusedError](err); !refused {
			t.Errorf("%q: got %v, want a refusal", name, err)
		}
	}
	if got := s.git("symbolic-ref", "HEAD"); got != "refs/heads/topic/x\n" {
		t.Errorf("HEAD is %q", got)
	}
	s.check()
}

func TestNewBranchUnborn(t *testing.T) {
	t.Parallel()
	s := newSandbox(t)
	s.git("init", "-q")
	r, err := Open(t.Context(), Options{Dir: s.dir, Env: s.env})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if err := r.NewBranch(t.Context(), "first"); err != nil {
		t.Fatal(err)
	}
	if got := s.git("symbolic-ref", "HEAD"); got != "refs/heads/first\n" {
		t.Errorf("HEAD is %q", got)
	}
}
