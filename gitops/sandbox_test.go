package gitops

import (
	"fmt"
	"io/fs"
	"slices"

	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// sandbox is a directory with a home of its own and a git repository in repo/, driven by the real git.
type sandbox struct {
	t    *testing.T
	home string
	dir  string
	env  []string
}

func newSandbox(t *testing.T) *sandbox {
	t.Helper()
	base, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	s := &sandbox{t: t, home: filepath.Join(base, "home"), dir: filepath.Join(base, "repo")}
	// no sample hooks: they cost time
	for _, d := range []string{s.home + "/template/hooks", s.home + "/template/info", s.dir} {
		if err := os.MkdirAll(d, 0o777); err != nil {
			t.Fatal(err)
		}
	}
	s.env = []string{"HOME=" + s.home, "PATH=" + os.Getenv("PATH"), "GIT_CONFIG_NOSYSTEM=1", "LC_ALL=C", "TZ=UTC",
		"GIT_TERMINAL_PROMPT=0", "GIT_ATTR_NOSYSTEM=1"}
	s.put(s.home+"/.gitconfig",
		"[user]\n\tname = A U Thor\n\temail = author@example.com\n[init]\n\tdefaultBranch = main\n\ttemplateDir = ~/template\n"+
			"[gc]\n\tauto = 0\n[maintenance]\n\tauto = false\n[protocol \"file\"]\n\tallow = always\n[advice]\n\taddEmbeddedRepo = false\n")
	return s
}

// put writes a file; a relative path is the repository's.
func (s *sandbox) put(path, text string) {
	s.t.Helper()
	path = s.path(path)
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		s.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
		s.t.Fatal(err)
	}
}

func (s *sandbox) path(path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(s.dir, path)
}

// git runs git in the repository and returns its standard output; it must succeed.
func (s *sandbox) git(args ...string) string {
	s.t.Helper()
	out, code := s.tryGit(args...)
	if code != 0 {
		s.t.Fatalf("git %s: exit %d\n%s", strings.Join(args, " "), code, out)
	}
	return out
}

// tryGit returns standard output, or what git complained of, and the exit code.
func (s *sandbox) tryGit(args ...string) (string, int) {
	s.t.Helper()
	c := exec.Command("git", args...)
	c.Dir, c.Env = s.dir, s.env
	var out, errOut strings.Builder
	c.Stdout, c.Stderr = &out, &errOut
	if err := c.Run(); err != nil {
		if c.ProcessState == nil {
			s.t.Fatal(err)
		}
		return out.String() + errOut.String(), c.ProcessState.ExitCode()
	}
	return out.String(), 0
}

// sh runs a script in the repository and returns what it prints.
func (s *sandbox) sh(script string) string {
	s.t.Helper()
	c := exec.Command("sh", "-ec", script)
	c.Dir, c.Env = s.dir, s.env
	out, err := c.CombinedOutput()
	if err != nil {
		s.t.Fatalf("sh: %v\n%s\n%s", err, script, out)
	}
	return string(out)
}

// gitScript makes ../git, a program to be called instead of git. This process never has it open for writing: a child
// that another test starts meanwhile would have it open too, and who is to run it finds it busy.
func (s *sandbox) gitScript(text string) {
	s.t.Helper()
	s.put(s.dir+"/../git.sh", "#!/bin/sh\n"+text)
	s.sh("cp ../git.sh ../git; chmod +x ../git")
}

func (s *sandbox) layout() layout {
	s.t.Helper()
	l, err := s.locate()
	if err != nil {
		s.t.Fatal(err)
	}
	return l
}

func (s *sandbox) settings() settings {
	s.t.Helper()
	set, _, err := readSettings(s.t.Context(), s.program())
	if err != nil {
		s.t.Fatal(err)
	}
	return set
}

func (s *sandbox) locate() (layout, error) {
	return locate(s.t.Context(), gitProgram, Options{Dir: s.dir, Env: s.env})
}

// program is git in the repository, before it is opened.
func (s *sandbox) program() *cli {
	return &cli{program: gitProgram, env: gitEnv(s.env, s.dir), l: layout{root: s.dir}}
}

const base = `git init -q .
mkdir -p src/a docs
printf 'one\n' >f
printf 'x\n' >src/x.go
printf 'y\n' >src/a/y.go
printf '#!/bin/sh\n' >run.sh
chmod +x run.sh
ln -s f link
printf 'doc\n' >docs/d.md
printf '*.log\nbuild/\n' >.gitignore
git add .
git commit -qm base
`

const waveMessage = "feat(tag): complete wave 1\n\n- 1 first\n\nDescartes-Loop: loop-1\nDescartes-Wave: 1\n"

func (s *sandbox) open(hooks, program string) (*Repo, error) {
	return Open(s.t.Context(), Options{Dir: s.dir, Hooks: hooks, Git: program, Env: s.env})
}

func mustSnapshot(t *testing.T, r *Repo) Tree {
	t.Helper()
	tree, err := r.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return tree
}

// newBase is a repository with the files of base, and what a script makes of it.
func newBase(t *testing.T, script string) *sandbox {
	t.Helper()
	s := newSandbox(t)
	s.env = append(s.env, "GIT_AUTHOR_DATE=2024-01-02T03:04:05Z", "GIT_COMMITTER_DATE=2024-01-02T03:04:05Z")
	s.sh(base + script)
	return s
}

// files are those below a folder, with what they hold.
func files(t *testing.T, root string) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(root, func(p string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if e.Name() == ".git" {
			if e.IsDir() {
				return filepath.SkipDir
			}
			return nil
		}
		name, fi := strings.TrimPrefix(p, root+"/"), info(e)
		switch {
		case fi.Mode().IsRegular():
			b, err := os.ReadFile(p)
			out[name] = fmt.Sprintf("%v %s", fi.Mode()&0o100 != 0, b)
			return err
		case fi.Mode()&fs.ModeSymlink != 0:
			to, err := os.Readlink(p)
			out[name] = "-> " + to
			return err
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func diffFiles(want, got map[string]string) string {
	var out []string
	for p, w := range want {
		if g, ok := got[p]; !ok {
			out = append(out, "-"+p)
		} else if g != w {
			out = append(out, "~"+p)
		}
	}
	for p := range got {
		if _, ok := want[p]; !ok {
			out = append(out, "+"+p)
		}
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}

func commitWave(t *testing.T, r *Repo, w Wave) Commit {
	t.Helper()
	c, err := r.CommitWave(t.Context(), w)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func (s *sandbox) clean() {
	s.t.Helper()
	if out := s.git("status", "--porcelain"); out != "" {
		s.t.Errorf("git status is not clean:\n%s", out)
	}
	s.check()
}

func info(e fs.DirEntry) fs.FileInfo {
	fi, err := e.Info()
	if err != nil {
		panic(err)
	}
	return fi
}

// gitProgram is the git of this machine.
var gitProgram = func() string { p, _ := exec.LookPath("git"); return p }()

// restore brings the working tree to a snapshot, as git does.
func restore(t *testing.T, s *sandbox, to Tree) {
	t.Helper()
	s.git("read-tree", "--reset", "-u", string(to))
}
