package gitops

import (
	"slices"
	"strings"
	"testing"
)

// asGit is what `git config --list` prints, sorted: one "key\nvalue" per setting.
func (c *gitConfig) asGit() []string {
	var out []string
	for k, values := range c.values {
		for _, v := range values {
			if v.given {
				out = append(out, k+"\n"+v.text)
			} else {
				out = append(out, k)
			}
		}
	}
	slices.Sort(out)
	return out
}

func TestConfigAsGit(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, prepare string }{
		{"quotes", `printf '%s\n' '[a]' 'x = "  two  words " tail' 'y = a"b c"d' 'z=""' >>.git/config`},
		{"escapes", `printf '%s\n' '[a]' 'x = tab\tnew\nback\\slash\"q' '  y = "a\\b"' 'z = "\b;#"' >>.git/config`},
		{"continuation", `printf '[a]\nx = one \\\n  two\ny = "in \\\nquotes"\n' >>.git/config`},
		{"comments", `printf '# c\n; d\n[a] # e\nx = v # f\ny = "v # g" ; h\n\tz\n' >>.git/config`},
		{"no value", `printf '[a]\nflag\nempty =\n' >>.git/config`},
		{"subsections", `printf '[a "B.c D"]\nx = 1\n[a "q\\"\\\\z"]\nx = 2\n[a.Old.Style]\nX = 3\n[A]\nMixed-Case = 4\n' >>.git/config`},
		{"before the first section", `printf 'x = 1\n[a]\ny = 2\n' >"$HOME/inc"; git config include.path ~/inc`},
		{"key beside its section", `printf '[a] x = 1\n[b]y=2\n' >>.git/config`},
		{"CRLF", `printf '[a]\r\nx = 1\r\ny\r\n' >>.git/config`},
		{"no final newline", `printf '[a]\nx = 1' >>.git/config`},
		{"BOM", `printf '\357\273\277[a]\nx = 1\n' >"$HOME/.gitconfig"`},
		{"several files", `mkdir -p "$HOME/.config/git"; printf '[a]\nx = xdg\n[user]\nname = X\n' >"$HOME/.config/git/config"; git config a.x local`},
		{"include", `printf '[a]\nx = inc\n' >"$HOME/inc"; git config include.path ~/inc; printf '[a]\ny = rel\n' >.git/rel; git config --add include.path rel; git config --add include.path missing`},
		{"nested include", `printf '[include]\npath = two\n' >.git/one; printf '[a]\nx = deep\n' >.git/two; git config include.path one`},
		{"gitdir", `printf '[a]\nx = yes\n' >"$HOME/inc"; git config --global "includeIf.gitdir:$PWD/.path" ~/inc; git config --global "includeIf.gitdir:$PWD/.git.path" ~/inc`},
		{"gitdir below", `printf '[a]\nx = yes\n' >"$HOME/inc"; git config --global "includeIf.gitdir:$(dirname $PWD)/.path" ~/inc`},
		{"gitdir name", `printf '[a]\nx = yes\n' >"$HOME/inc"; git config --global "includeIf.gitdir:repo/.path" ~/inc`},
		{"gitdir no", `printf '[a]\nx = yes\n' >"$HOME/inc"; git config --global "includeIf.gitdir:nowhere/.path" ~/inc`},
		{"gitdir pattern", `printf '[a]\nx = yes\n' >"$HOME/inc"; git config --global "includeIf.gitdir:**/r?po/.g*.path" ~/inc`},
		{"gitdir home", `printf '[a]\nx = yes\n' >"$HOME/inc"; git config --global "includeIf.gitdir:~/.path" ~/inc`},
		{"gitdir relative", `printf '[a]\nx = yes\n' >"$HOME/inc"; git config --global "includeIf.gitdir:./../repo/.path" ~/inc; git config "includeIf.gitdir:./.path" ~/inc`},
		{"gitdir/i", `printf '[a]\nx = yes\n' >"$HOME/inc"; git config --global "includeIf.gitdir/i:REPO/.path" ~/inc`},
		{"onbranch", `printf '[a]\nx = yes\n' >"$HOME/inc"; git config --global "includeIf.onbranch:ma*.path" ~/inc; git config --global "includeIf.onbranch:feature/.path" ~/inc`},
		{"onbranch below", `printf '[a]\nx = yes\n' >"$HOME/inc"; git commit -qm1 --allow-empty; git checkout -qb feature/x; git config --global "includeIf.onbranch:feature/.path" ~/inc`},
		{"hasconfig", `printf '[a]\nx = yes\n' >"$HOME/inc"; git config --global "includeIf.hasconfig:remote.*.url:https://h/**.path" ~/inc; git config remote.o.url https://h/a/b`},
		{"hasconfig no", `printf '[a]\nx = yes\n' >"$HOME/inc"; git config --global "includeIf.hasconfig:remote.*.url:https://h/*.path" ~/inc; git config remote.o.url https://h/a/b`},
		{"worktree config", `git config extensions.worktreeConfig true; git config --worktree a.x wt`},
		{"unused worktree config", `printf '[a]\nx = no\n' >.git/config.worktree`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := newSandbox(t)
			s.sh("git init -q .\n" + tt.prepare)
			want := strings.Split(strings.TrimSuffix(s.git("config", "--list", "--includes", "-z"), "\x00"), "\x00")
			slices.Sort(want)
			if got := s.config().asGit(); !slices.Equal(got, want) {
				t.Errorf("got\n%q\ngit\n%q", got, want)
			}
		})
	}
}

// Which files count is for the environment to say.
func TestConfigFilesAsGit(t *testing.T) {
	t.Parallel()
	for _, env := range []string{"GIT_CONFIG_GLOBAL=$H/one", "GIT_CONFIG_GLOBAL=", "GIT_CONFIG_GLOBAL=/dev/null", "XDG_CONFIG_HOME=$H/xdg",
		"GIT_CONFIG_NOSYSTEM=0 GIT_CONFIG_SYSTEM=$H/one", "GIT_CONFIG_NOSYSTEM=yes GIT_CONFIG_SYSTEM=$H/one", "HOME=$H/empty", "GIT_CONFIG_GLOBAL=$H/missing"} {
		s := newSandbox(t)
		s.sh("git init -q .; mkdir -p ~/xdg/git ~/empty; printf '[a]\nx = one\n' >~/one; printf '[a]\nx = xdg\n' >~/xdg/git/config")
		s.env = append(s.env, strings.Fields(strings.ReplaceAll(env, "$H", s.home))...)
		want := strings.Split(strings.TrimSuffix(s.git("config", "--list", "--includes", "-z"), "\x00"), "\x00")
		slices.Sort(want)
		if got := s.config().asGit(); !slices.Equal(got, want) {
			t.Errorf("%s: got\n%q\ngit\n%q", env, got, want)
		}
	}
}

func TestConfigBad(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"[a\nx = 1\n", "[a]\nx = \"open\n", "[a]\nx = \\q\n", "[a]\n1x = 2\n", "[a \"b\" c]\n", "[a]\nx y\n"} {
		s := newSandbox(t)
		s.sh("git init -q .")
		s.put(".git/config", text)
		_, code := s.tryGit("config", "--list")
		_, err := loadConfig(layout{root: s.dir, gitDir: s.dir + "/.git", commonDir: s.dir + "/.git"}, s.env)
		if code == 0 || err == nil {
			t.Errorf("%q: git exit %d, got error %v", text, code, err)
		}
	}
}

func TestConfigTooDeep(t *testing.T) {
	t.Parallel()
	s := newSandbox(t)
	s.sh("git init -q .; git config include.path config")
	if _, err := loadConfig(s.layout(), s.env); err == nil || !strings.Contains(err.Error(), "deep") {
		t.Errorf("got %v", err)
	}
}

func TestConfigBoolean(t *testing.T) {
	t.Parallel()
	s := newSandbox(t)
	s.sh("git init -q .")
	for _, v := range []string{"true", "Yes", "on", "1", "2", "1k", "0x10", "false", "NO", "off", "0", "", "-1"} {
		s.git("config", "a.x", v)
		want := strings.TrimSpace(s.git("config", "--type=bool", "a.x")) == "true"
		if got := s.config().boolean("a.x", !want); got != want {
			t.Errorf("%q: got %v, git %v", v, got, want)
		}
	}
	s.git("config", "a.x", "maybe")
	if c := s.config(); !c.boolean("a.x", true) || c.boolean("a.x", false) {
		t.Error("a value that is no boolean does not give the default")
	}
}

func FuzzParseConfig(f *testing.F) {
	f.Add("[a]\nx = \"b\\n\" # c\n[d \"E\"]\nf\n")
	f.Fuzz(func(t *testing.T, text string) {
		_ = parseConfig([]byte(text), func(key, value string, given bool) {
			if key == "" || !given && value != "" {
				t.Errorf("key %q value %q", key, value)
			}
		})
	})
}
