package gitops

import (
	"errors"
	"strings"
	"testing"
)

// What go-git would not treat as git does is known before anything is done: git makes the commits, or nothing does.
func TestInspect(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, prepare, hooks, notes, refused string }{
		{name: "plain"},
		{name: "a hook", prepare: hook("pre-commit", "true"), notes: "hook pre-commit to run where commits are checked"},
		{name: "hooks that run nowhere", prepare: hook("post-commit", "true") + hook("commit-msg", "true"),
			notes: "hook commit-msg to run where commits are checked; hook post-commit to run only with git.hooks=outside"},
		{name: "a hook outside", prepare: hook("pre-commit", "true"), hooks: "outside", notes: "hook pre-commit to run: the git"},
		{name: "a hook to skip", prepare: hook("pre-commit", "true"), hooks: "skip"},
		{name: "a hook to fail", prepare: hook("pre-commit", "true"), hooks: "fail",
			refused: "hook pre-commit would run"},
		{name: "signing", prepare: "git config commit.gpgSign true", notes: "commit.gpgSign is true"},
		{name: "an encoding", prepare: "git config i18n.commitEncoding latin1",
			notes: "i18n.commitEncoding is latin1"},
		{name: "line ends and filters",
			prepare: "git config core.autocrlf true; echo '* filter=x' >.gitattributes; git config filter.x.clean cat"},
		{name: "a merge", prepare: conflict + "git merge -q x || true", refused: "a merge is in progress"},
		{name: "a rebase", prepare: conflict + "git rebase -q x || true", refused: "a rebase is in progress"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := newSandbox(t)
			s.sh("git init -q -b main .; echo 1 >f; git add f; git commit -qm1\n" + tt.prepare)
			r, err := s.open(tt.hooks, "")
			var refused *RefusedError
			if tt.refused != "" {
				if !errors.As(err, &refused) || !strings.HasPrefix(refused.Reason, tt.refused) {
					t.Errorf("got %v, want a refusal: %s", err, tt.refused)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			if got := strings.Join(r.Notes(), "\n"); strings.HasPrefix(got, tt.notes) != true || tt.notes == "" &&
				got != "" {
				t.Errorf("got %q, want %q", got, tt.notes)
			}
		})
	}
}

func hook(name, script string) string {
	p := ".git/hooks/" + name
	return "mkdir -p .git/hooks; printf '#!/bin/sh\n%s\n' '" + script + "' >" + p + "; chmod +x " + p + "\n"
}

// conflict makes a branch x whose commit does not apply to main.
const conflict = "git checkout -qb x; echo x >f; git commit -qam2; git checkout -q main; echo y >f; git commit -qam3; echo z >f; git commit -qam4\n"
