package gitops

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// A repository of a format that we do not know is refused for that, not for an index that reads like damage.
func TestOpenRefusesForeignFormats(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, setup, want string }{
		{"unknown extension", "git init -q .; git config core.repositoryFormatVersion 1; git config extensions.shiny true; echo x >.git/index", "unknown repository extension found: shiny"},
		{"unknown version", "git init -q .; git config core.repositoryFormatVersion 7; echo x >.git/index",
			"Expected git repo version <= 1, found 7"},
		{"core.worktree elsewhere", "git init -q .; mkdir ../else; git config core.worktree ../../else",
			"core.worktree puts the working tree at"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := newSandbox(t)
			s.sh(tt.setup)
			_, err := s.open("", "")
			if refused, ok := errors.AsType[*RefusedError](err); !ok || !strings.Contains(refused.Reason, tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
}

func TestLocked(t *testing.T) {
	t.Parallel()
	for name, setup := range map[string]string{"main": "", "linked": "git worktree add -q -b side work"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newBase(t, setup)
			r, err := s.open("", "")
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			head, err := r.Head(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if path, ok := r.Locked(t.Context()); ok {
				t.Errorf("nothing is locked: got %s", path)
			}
			for _, file := range []string{r.l.gitDir + "/index", r.l.gitDir + "/HEAD",
				r.l.commonDir + "/" + head.Branch} {
				s.put(file+".lock", "")
				if path, ok := r.Locked(t.Context()); !ok || path != file+".lock" {
					t.Errorf("%s.lock: got %q %v", file, path, ok)
				}
				if err := os.Remove(file + ".lock"); err != nil {
					t.Fatal(err)
				}
			}
			s.put(r.l.commonDir+"/refs/heads/other.lock", "")
			if path, ok := r.Locked(t.Context()); ok {
				t.Errorf("another branch: got %q", path)
			}
		})
	}
}

// Every row is asked of git too: the same root, or both find no working tree.
func TestLocateAsGit(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, prepare, from string
		err                 error
	}{
		{"root", "git init -q .", "", nil},
		{"none", "", "", ErrNotRepo},
		{"bare", "git init -q --bare .", "", ErrBare},
		{"inside a git directory", "git init -q .", ".git", ErrBare},
		{"linked working tree", "git init -q .; git commit -qm1 --allow-empty; git worktree add -q wt; mkdir wt/sub",
			"wt/sub", nil},
		{"submodule", "git init -q lib; git -C lib commit -qm1 --allow-empty; git init -q top; git -C top submodule --quiet add ../lib lib; mkdir top/lib/d", "top/lib/d", nil},
		{"symbolic link into it", "git init -q real; mkdir -p real/sub; ln -s real/sub link", "link", nil},
		{"git directory elsewhere", "git init -q --separate-git-dir=meta work", "work", nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := newSandbox(t)
			s.sh(tt.prepare)
			s.dir = filepath.Join(s.dir, tt.from)
			l, err := s.locate()
			if !errors.Is(err, tt.err) {
				t.Fatalf("got error %v, want %v", err, tt.err)
			}
			out, code := s.tryGit("rev-parse", "--path-format=absolute", "--show-toplevel", "--git-dir",
				"--git-common-dir")
			if (code == 0) != (err == nil) {
				t.Fatalf("got %+v, %v; git: exit %d %s", l, err, code, out)
			}
			for _, p := range []*string{&l.gitDir, &l.commonDir} {
				if real, err := filepath.EvalSymlinks(*p); err == nil {
					*p = real
				}
			}
			if err == nil && out != l.root+"\n"+l.gitDir+"\n"+l.commonDir+"\n" {
				t.Errorf("got %+v, git says\n%s", l, out)
			}
		})
	}
}

func TestLocateIgnoresTheEnvironment(t *testing.T) {
	s := newSandbox(t)
	s.sh("git init -q . ; git init -q ../other")
	t.Setenv("GIT_DIR", filepath.Join(filepath.Dir(s.dir), "other", ".git"))
	if l := s.layout(); l.root != s.dir {
		t.Errorf("got root %s, want %s", l.root, s.dir)
	}
}

func TestLocateBrokenGitFile(t *testing.T) {
	t.Parallel()
	s := newSandbox(t)
	for _, text := range []string{"", "nonsense\n", "gitdir: missing\n", "gitdir: \n"} {
		s.put(".git", text)
		if _, err := s.locate(); !errors.Is(err, ErrNotRepo) {
			t.Errorf(".git file %q: got %v, want %v", text, err, ErrNotRepo)
		}
	}
	if _, err := locate(t.Context(), gitProgram, Options{Dir: filepath.Join(s.dir, "missing"),
		Env: s.env}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("missing directory: got %v", err)
	}
}

// The oldest version of git lacks options of later ones.
func TestOldestGit(t *testing.T) {
	t.Parallel()
	for name, setup := range map[string]string{"plain": "", "sparse checkout": "git sparse-checkout set docs"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newBase(t, setup)
			s.gitScript("for a; do last=$a; case $a in --path-format*|--sparse) echo \"unknown option: $a\" >&2; exit 129;; esac; done\n" +
				"if [ \"$last\" = version ]; then echo git version 2.30.2; else exec " + gitProgram + " \"$@\"; fi\n")
			s.sh("mkdir -p docs/deep; ln -s repo/docs/deep ../link")
			root := s.dir
			for _, s.dir = range []string{root, root + "/docs/deep", root + "/../link"} {
				r, err := s.open("", root+"/../git")
				if err != nil {
					t.Fatal(err)
				}
				if want := (layout{root: root, gitDir: root + "/.git", commonDir: root + "/.git"}); r.l != want {
					t.Errorf("%s: got %+v, want %+v", s.dir, r.l, want)
				}
				s.sh("echo " + s.dir + " >" + root + "/docs/new")
				done, err := r.CommitWave(t.Context(), Wave{Message: waveMessage, Tree: mustSnapshot(t, r),
					On: strings.TrimSpace(s.git("rev-parse", "HEAD"))})
				if err != nil || !slices.Equal(done.Paths, []string{"docs/new"}) {
					t.Errorf("got %+v, %v", done, err)
				}
				if err := r.Close(); err != nil {
					t.Error(err)
				}
			}
		})
	}
}
