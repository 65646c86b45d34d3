package gitops

import (
	"os"
	"strings"
	"testing"
)

// A push hook among the project's files, or that runs some of them, may run what is an agent's and does not run; any other
// of the user's does, and so does git-lfs.
func TestPushHooks(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, setup string
		hooks       string
		skips       string
		runs        bool
	}{
		{name: "his own", setup: "make .git/hooks/pre-push", runs: true},
		{name: "his own that runs the project", setup: "echo make check >.git/hooks/pre-push; chmod +x .git/hooks/pre-push", skips: "pre-push"},
		{name: "his own folder", setup: "mkdir ../mine; make ../mine/pre-push; git config core.hooksPath $PWD/../mine", runs: true},
		{name: "husky", setup: "mkdir .husky; make .husky/pre-push; git config core.hooksPath .husky", skips: ".husky/pre-push"},
		{name: "a link", setup: "make push.sh; ln -s ../../push.sh .git/hooks/pre-push", skips: "push.sh"},
		{name: "of refs", setup: "mkdir .husky; make .husky/reference-transaction; git config core.hooksPath .husky",
			skips: ".husky/reference-transaction"},
		{name: "asked for", setup: "mkdir .husky; make .husky/pre-push; git config core.hooksPath .husky", hooks: "outside", runs: true},
		{name: "skipped", setup: "make .git/hooks/pre-push", hooks: "skip"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := newBase(t, "git init -q --bare ../hub.git; git remote add origin $PWD/../hub.git")
			s.sh("make() { printf '#!/bin/sh\\ntouch %s/../ran\\n' $PWD >$1; chmod +x $1; }; " + tt.setup)
			r, err := s.open(tt.hooks, "")
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			if got := r.SkipsPushHook(); got != tt.skips {
				t.Errorf("skips %q, want %q", got, tt.skips)
			}
			if err := r.Push(t.Context(), "origin", []string{"refs/heads/main"}); err != nil {
				t.Fatal(err)
			}
			if _, err := os.Lstat(s.dir + "/../ran"); (err == nil) != tt.runs {
				t.Errorf("it ran: %v", err == nil)
			}
			if left := s.sh("ls .git"); strings.Contains(left, "descartes-hooks") {
				t.Errorf("left behind: %s", left)
			}
		})
	}
}
