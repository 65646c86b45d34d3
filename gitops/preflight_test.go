package gitops

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"
)

func TestInspect(t *testing.T) {
	t.Parallel()
	const clean = "none"
	for _, tt := range []struct{ name, prepare, hooks, want string }{
		{"clean", "", "", clean},
		{"shallow", "git clone -q --depth 1 file://$PWD sh; mv .git old; mv sh/.git .git; rm -rf sh", "", clean},
		{"autocrlf", "git config core.autocrlf true", "", "both: core.autocrlf"},
		{"autocrlf input", "git config core.autocrlf input", "", "ends: core.autocrlf"},
		{"autocrlf false", "git config core.autocrlf false", "", clean},
		{"eol", "git config core.eol crlf", "", "both: core.eol"},
		{"eol native", "git config core.eol native", "", clean},
		{"attributes", "echo '* text=auto' >.gitattributes; git add .; git commit -qm2", "", "ends: .gitattributes asks"},
		{"attributes of two kinds", "printf '* text=auto\\n*.bat eol=crlf\\n' >.gitattributes; git add .; git commit -qm2", "", "both: .gitattributes asks"},
		{"attributes deeper", "mkdir -p a/b; echo '* ident' >a/b/.gitattributes; git add .; git commit -qm2", "", "both: a/b/.gitattributes asks"},
		{"attributes that convert nothing", "echo '*.go diff=golang' >.gitattributes; git add .; git commit -qm2", "", clean},
		{"attributes missing", "echo '*.go diff' >.gitattributes; git add .; git commit -qm2; rm .gitattributes", "", "both: .gitattributes is tracked but missing"},
		{"info/attributes", "mkdir -p .git/info; echo '* text' >.git/info/attributes", "", "ends: "},
		{"core.attributesFile", "echo '* text' >$HOME/attr; git config --global core.attributesFile '~/attr'", "", "ends: "},
		{"XDG attributes", "mkdir -p $HOME/.config/git; echo '* text' >$HOME/.config/git/attributes", "", "ends: "},
		{"LFS configured", "echo '*.bin filter=lfs' >.gitattributes; git add .; git commit -qm2; git config filter.lfs.clean cat", "", "both: .gitattributes asks"},
		{"LFS not configured", "echo '*.bin filter=lfs -text' >.gitattributes; git add .; git commit -qm2", "", clean},
		{"fileMode", "git config core.fileMode false", "", "both: core.filemode is false"},
		{"symlinks", "git config core.symlinks false", "", "both: core.symlinks is false"},
		{"ignoreCase", "git config core.ignoreCase true", "", "both: core.ignorecase is true"},
		{"precomposeUnicode", "git config core.precomposeUnicode true", "", "both: core.precomposeunicode is true"},
		{"sparse checkout", "mkdir a b; touch a/1 b/1; git add .; git commit -qm2; git sparse-checkout set a", "", "both: core.sparsecheckout"},
		{"split index", "git config core.splitIndex true", "", "both: core.splitIndex"},
		{"sharedRepository", "git config core.sharedRepository group", "", "both: core.sharedRepository"},
		{"sharedRepository umask", "git config core.sharedRepository umask", "", clean},
		{"gpgSign", "git config commit.gpgSign true", "", "commit: commit.gpgSign"},
		{"commit encoding", "git config i18n.commitEncoding ISO-8859-1", "", "commit: i18n.commitEncoding"},
		{"alternates", "git clone -q --bare . ../o.git; echo $(dirname $PWD)/o.git/objects >.git/objects/info/alternates", "", clean},
		{"submodule", "git init -q ../lib; git -C ../lib commit -qm1 --allow-empty; git submodule --quiet add ../lib lib; git commit -qm2", "", "both: lib is a submodule"},
		{"hook", hook("pre-commit", "true"), "", "commit: hook pre-commit"},
		{"hooks", hook("pre-commit", "true") + hook("commit-msg", "true"), "run", "commit: hooks pre-commit, commit-msg"},
		{"hook skipped", hook("pre-commit", "true"), "skip", clean},
		{"hook forbidden", hook("pre-commit", "true"), "fail", "refuse: hook pre-commit"},
		{"hook not executable", hook("pre-commit", "true") + "chmod -x .git/hooks/pre-commit", "", clean},
		{"hook of another command", hook("pre-push", "true"), "", clean},
		{"hooksPath", "mkdir h; printf '#!/bin/sh\n' >h/pre-commit; chmod +x h/pre-commit; git config core.hooksPath h", "", "commit: hook pre-commit"},
		{"configured hook", "git config hook.lint.command true; git config hook.lint.event pre-commit", "", "commit: hook hook.lint"},
		{"merge", "git checkout -qb x; echo x >f; git commit -qam2; git checkout -q main; git merge -q --no-ff --no-commit x", "", "refuse: a merge is in progress"},
		{"conflict", conflict + "git merge -q x || true; rm .git/MERGE_HEAD", "", "refuse: the index holds unresolved conflicts (f)"},
		{"rebase", conflict + "git rebase -q x || true", "", "refuse: a rebase"},
		{"cherry-pick", conflict + "git cherry-pick x || true", "", "refuse: a cherry-pick"},
		{"revert", conflict + "git revert --no-edit HEAD~1 || true; git add .", "", "refuse: a revert"},
		{"SHA-256", "rm -rf .git; git init -q --object-format=sha256 .", "", "refuse: its object format is sha256"},
		{"unknown extension of version 0", "git config extensions.shiny true", "", clean},
		{"worktreeConfig", "git config core.repositoryFormatVersion 1; git config extensions.worktreeConfig true", "", clean},
		{"partial clone", "git config core.repositoryFormatVersion 1; git config extensions.partialClone origin", "", clean},
		{"core.worktree here", "git config core.worktree ..", "", clean},
		{"bisect", "git commit -qm2 --allow-empty; git bisect start -q HEAD HEAD~1", "", clean},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := newSandbox(t)
			s.sh("git init -q .; echo 1 >f; git add f; git commit -qm1\n" + tt.prepare)
			var got []string
			for _, f := range inspectSandbox(s, tt.hooks) {
				kind := "commit: "
				switch {
				case f.ends:
					kind = "ends: "
				case f.refuse:
					kind = "refuse: "
				case f.tree && f.commit:
					kind = "both: "
				}
				got = append(got, kind+f.reason)
			}
			if tt.want == clean && len(got) == 0 {
				return
			}
			if !strings.HasPrefix(strings.Join(got, "\n"), tt.want) {
				t.Errorf("got %q, want %q", got, tt.want)
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

func inspectSandbox(s *sandbox, hooks string) []finding {
	s.t.Helper()
	l := s.layout()
	ix, err := readIndex(filepath.Join(l.gitDir, "index"))
	var unsup *unsupportedError
	if err != nil && !errors.As(err, &unsup) && !strings.Contains(err.Error(), "damaged") {
		s.t.Fatal(err)
	}
	return inspect(l, s.config(), ix, Options{Dir: s.dir, Hooks: hooks, Env: s.env})
}

func TestConversionIn(t *testing.T) {
	t.Parallel()
	s := newSandbox(t)
	s.sh("git init -q .; git config filter.on.clean cat; git config filter.must.required true; git config filter.empty.clean ''")
	c := s.config()
	for _, tt := range []struct {
		text, want string
	}{
		{"", ""},
		{"# * text\n\n", ""},
		{"* text=auto\n", "text=auto"},
		{"*.txt text", "text"},
		{"*.sh eol=lf\n", "eol=lf"},
		{"*.sh eol=cr\n", ""},
		{"*.png binary\n*.jpg -text\n*.x !text -filter -ident\n", ""},
		{"*.c ident\n", "ident"},
		{"*.c crlf=input\n", "crlf=input"},
		{"*.c -crlf\n", ""},
		{"*.psd filter=lfs diff=lfs merge=lfs -text\n", ""}, // no such filter is configured: git leaves it alone
		{"*.psd filter=on\n", "filter=on"},
		{"*.psd filter=must\n", "filter=must"},
		{"*.psd filter=empty\n", ""},
		{"*.txt working-tree-encoding=UTF-16\n", "working-tree-encoding=UTF-16"},
		{"*.txt working-tree-encoding=UTF-8\n", ""},
		{"*.go diff=golang linguist-generated merge=union export-ignore whitespace=tab\n", ""},
		{"\"a text\" -diff\n", ""},
		{"\"a \\\" b\" text\r\n", "text"},
		{"[attr]mine text\n", "text"},
		{"[attr]mine -diff\n*.x mine\n", ""},
		{"text\n", ""}, // a pattern without attributes
		{"\xef\xbb\xbf* ident\n", "ident"},
		{"\"open text\n", ""},
	} {
		got, kind := conversionIn([]byte(tt.text), c)
		if got != tt.want || (kind == noConversion) != (tt.want == "") {
			t.Errorf("%q: got %q %d, want %q", tt.text, got, kind, tt.want)
		}
	}
	for _, tt := range []struct {
		text string
		want conversion
	}{
		{"* text=auto eol=lf\n", lineEnds},
		{"* text=auto\n*.bat eol=crlf\n", fullConversion},
		{"*.c ident\n* crlf=input\n", fullConversion},
		{"* -text\n", noConversion},
	} {
		if _, got := conversionIn([]byte(tt.text), c); got != tt.want {
			t.Errorf("%q: got %d, want %d", tt.text, got, tt.want)
		}
	}
}
