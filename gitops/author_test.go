package gitops

import (
	"errors"
	"strings"
	"testing"
)

// Where git names somebody without inventing anything, we name the same.
func TestIdentityAsGit(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, prepare, env string }{
		{"user", "", ""},
		{"author settings", "git config author.name Au; git config committer.email c@x", ""},
		{"environment", "", "GIT_AUTHOR_NAME=Env GIT_COMMITTER_EMAIL=env@x"},
		{"empty author.name is none", "git config author.name ''", ""},
		{"empty email is one", "git config user.email ''", ""},
		{"empty email of the environment", "", "GIT_AUTHOR_EMAIL="},
		{"repository wins", "git config user.email repo@x", ""},
		{"crud", `git config user.name "  .J. <R> Doe, Jr.; "`, ""},
		{"not UTF-8", `printf '[user]\nname = J\351r\364me\n' >>.git/config`, ""},
		{"EMAIL", "git config --global --unset user.email", "EMAIL=mail@x"},
		{"included", `printf '[user]\nname = Inc\nemail = i@x\n' >"$HOME/inc"; git config --global include.path inc`, ""},
		{"included for this repository", `printf '[user]\nemail = work@x\n' >"$HOME/w"; git config --global "includeIf.gitdir:$PWD/.path" w`, ""},
		{"useConfigOnly", "git config user.useConfigOnly true", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := newSandbox(t)
			s.sh("git init -q .\n" + tt.prepare)
			s.env = append(s.env, strings.Fields(tt.env)...)
			for _, role := range []string{"author", "committer"} {
				people := identities{git: s.program(), cfg: s.config()}
				got, err := people.ask(t.Context(), strings.ToUpper(role))
				if err != nil {
					t.Fatal(err)
				}
				want := s.git("var", "GIT_"+strings.ToUpper(role)+"_IDENT")
				if !strings.HasPrefix(want, got.name+" <"+got.email+"> ") {
					t.Errorf("%s: got %s <%s>, git %s", role, got.name, got.email, want)
				}
			}
		})
	}
}

func TestIdentityMissing(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, prepare, env, missing string }{
		{"none", "rm $HOME/.gitconfig", "", "email"},
		{"no name", "git config --global --unset user.name", "", "name"},
		{"empty name", "git config user.name ''", "", "name"},
		{"empty name of the environment", "", "GIT_AUTHOR_NAME=", "name"},
		{"no email", "git config --global --unset user.email", "", "email"},
		{"useConfigOnly and EMAIL", "git config --global --unset user.email; git config user.useConfigOnly true", "EMAIL=m@x", "email"},
		{"only crud", "git config user.name ,.,", "", "disallowed"},
	} {
		s := newSandbox(t)
		s.sh("git init -q .\n" + tt.prepare)
		s.env = append(s.env, strings.Fields(tt.env)...)
		people := identities{git: s.program(), cfg: s.config()}
		_, err := people.author(t.Context())
		var refused *RefusedError
		if !errors.As(err, &refused) || !strings.Contains(refused.Reason, tt.missing) || !strings.Contains(refused.Hint, "user.name") {
			t.Errorf("%s: got %v", tt.name, err)
		}
	}
}
