package gitops

import (
	"errors"
	"strings"
	"testing"
)

// The settings are those that git lists, the last word on each.
func TestSettings(t *testing.T) {
	t.Parallel()
	s := newSandbox(t)
	s.sh(`git init -q .
printf '[a]\nflag\nempty =\nx = one\nx = "two\\nlines"\n[b "C.d"]\ny = \n' >>.git/config
printf '[a]\nx = included\n' >~/inc; git config --add include.path ~/inc
git config core.hooksPath '~/hooks'`)
	s.env = append(s.env, "GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=a.typed", "GIT_CONFIG_VALUE_0=x")
	set := s.settings()
	for key, want := range map[string]string{"a.flag": "true", "a.empty": "", "a.x": "included", "b.C.d.y": "",
		"core.hookspath": s.home + "/hooks"} {
		if got, ok := set[key]; !ok || got != want {
			t.Errorf("%s: got %q %v, want %q", key, got, ok, want)
		}
	}
	if got, ok := set["a.typed"]; ok {
		t.Errorf("a.typed: got %q", got)
	}
}

func TestBadSettings(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{"syntax": "[a\nx = 1\n",
		"no such user": "[core]\nhooksPath = ~nobody-of-that-name/x\n"} {
		s := newSandbox(t)
		s.sh("git init -q .")
		s.put(".git/config", text)
		if _, _, err := readSettings(t.Context(), s.program()); err == nil ||
			!strings.Contains(err.Error(), "read git configuration") {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

func TestFindGit(t *testing.T) {
	t.Parallel()
	s := newSandbox(t)
	for version, want := range map[string]string{
		"git version 2.39.5":                 "",
		"git version 2.30.0 (Apple Git-154)": "",
		"git version 3.0.0.rc1":              "",
		"git version 2.29.9":                 "is git 2.29; git 2.30 or newer is needed",
		"git version 1.8.3.1":                "is git 1.8; git 2.30 or newer is needed",
		"something else":                     `git reports its version as "something else", which cannot be parsed`,
	} {
		s.sh("mkdir -p bin; printf '#!/bin/sh\\necho \"" + version + "\"\\n' >bin/git; chmod +x bin/git")
		env := []string{"PATH=" + s.dir + "/bin:/bin:/usr/bin"}
		_, _, err := FindGit(t.Context(), "", s.home, env)
		if got := errText(err); want == "" && got != "" || !strings.Contains(got, want) {
			t.Errorf("%s: got %q, want %q", version, got, want)
		}
		if path, _, err := FindGit(t.Context(), "", s.dir, env); err != nil || strings.HasPrefix(path, s.dir) {
			t.Errorf("in the project git is %s, %v", path, err)
		}
	}
	_, _, err := FindGit(t.Context(), "", s.dir, []string{"PATH=" + s.home})
	if got := errText(err); got != "the git program is not on the PATH; git 2.30 or newer is needed" {
		t.Errorf("got %q", got)
	}
}

func errText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func TestIdentityMissing(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, prepare, env, missing string }{
		{"none", "rm $HOME/.gitconfig", "", "name"},
		{"no name", "git config --global --unset user.name", "", "name"},
		{"empty name", "git config user.name ''", "", "name"},
		{"empty name of the environment", "", "GIT_AUTHOR_NAME=", "name"},
		{"no email", "git config --global --unset user.email", "", "email"},
		{"useConfigOnly and EMAIL", "git config --global --unset user.email; git config user.useConfigOnly true",
			"EMAIL=m@x", "email"},
		{"only crud", "git config user.name ,.,", "", "name"},
	} {
		s := newSandbox(t)
		s.sh("git init -q .\n" + tt.prepare)
		s.env = append(s.env, strings.Fields(tt.env)...)
		r, err := s.open("", "")
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		err = r.Author()
		var refused *RefusedError
		if !errors.As(err, &refused) || !strings.Contains(refused.Reason, tt.missing) ||
			!strings.Contains(refused.Hint, "user.name") {
			t.Errorf("%s: got %v", tt.name, err)
		}
	}
}
