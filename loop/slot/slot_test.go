package slot

import (
	"context"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"descartes/gitops"
	"descartes/internal/atomicfile"
	"descartes/internal/redact"
)

// project is a git repository driven by the real git, with slots.
type project struct {
	t    *testing.T
	dir  string
	env  []string
	repo *gitops.Repo
	opt  PoolOptions
}

func newProject(t *testing.T, script string) *project {
	t.Helper()
	base, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	p := &project{t: t, dir: filepath.Join(base, "project")}
	p.env = []string{"HOME=" + base, "PATH=" + os.Getenv("PATH"), "GIT_CONFIG_NOSYSTEM=1", "LC_ALL=C",
		"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@b.c", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@b.c"}
	if err := os.MkdirAll(filepath.Join(p.dir, ".descartes"), 0o755); err != nil {
		t.Fatal(err)
	}
	p.sh(p.dir, "git init -q -b main .; echo '*' >.descartes/.gitignore; printf '*.log\\nbuild/\\nnode_modules/\\n.env\\n' >.gitignore; echo one >a; git add .; git commit -qm first; "+script)
	p.repo, err = gitops.Open(t.Context(), gitops.Options{Dir: p.dir, Env: p.env,
		Protect: []string{".descartes/", ".scud/"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.repo.Close() })
	p.opt = PoolOptions{Repo: p.repo, FS: atomicfile.OS(), Place: filepath.Join(base, "pool"), Root: p.dir, Dir: p.dir,
		MaxCopy: 1 << 20}
	return p
}

func (p *project) sh(dir, script string) string {
	p.t.Helper()
	c := exec.Command("sh", "-ec", script)
	c.Dir, c.Env = dir, p.env
	out, err := c.CombinedOutput()
	if err != nil {
		p.t.Fatalf("%v\n%s\n%s", err, script, out)
	}
	return string(out)
}

func (p *project) take(pool *Pool, number int) *Slot {
	p.t.Helper()
	s, err := pool.Take(p.t.Context(), number)
	if err != nil || s == nil {
		p.t.Fatalf("take slot %d: %v %v", number, s, err)
	}
	p.t.Cleanup(func() { _ = s.Close() })
	return s
}

func (p *project) prepare(s *Slot, start Start) Stand {
	p.t.Helper()
	start.Aside = filepath.Join(p.dir, ".descartes", "aside")
	stand, err := s.Prepare(p.t.Context(), start)
	if err != nil {
		p.t.Fatal(err)
	}
	return stand
}

func (p *project) result(s *Slot, verify string) (Result, []string) {
	p.t.Helper()
	notes, err := s.Repair(p.t.Context(), "attempt")
	if err != nil {
		p.t.Fatal(err)
	}
	if _, err := s.Look(p.t.Context()); err != nil {
		p.t.Fatal(err)
	}
	p.sh(s.Tree(), verify)
	r, err := s.Result(p.t.Context(), true)
	if err != nil {
		p.t.Fatal(err)
	}
	return r, notes
}

func paths(changes []gitops.Change) (out []string) {
	for _, c := range changes {
		out = append(out, string(c.Op)+" "+c.Path)
	}
	return out
}

// An attempt runs in a slot, and the user's tree stays as it is. What only a verification made is not there for the
// next attempt.
func TestSlot(t *testing.T) {
	t.Parallel()
	p := newProject(t, "echo SECRET >.env; mkdir build; echo o >build/o; echo mine >untracked; echo edited >a")
	s := p.take(NewPool(p.opt), 0)
	stand := p.prepare(s, Start{})
	if got := p.sh(s.Tree(),
		"cat a .env build/o; ls; git status --porcelain; git log --format=%s"); got != "one\nSECRET\no\na\nbuild\nfirst\n" {
		t.Errorf("the slot holds: %q", got)
	}
	if stand.Head.Branch != "refs/heads/main" || stand.Tree == "" {
		t.Errorf("stand: %+v", stand)
	}
	p.sh(s.Tree(), "echo two >>a; echo new >n; git add n; git commit -qm mine; echo x >build/x; echo SECRET2 >.env")
	r, notes := p.result(s, "echo r >report; echo sum >go.sum; echo o >v.log")
	if got, want := paths(r.Changed), []string{"M a", "A go.sum", "A n"}; !slices.Equal(got, want) {
		t.Errorf("changed: got %v want %v", got, want)
	}
	if !slices.Equal(r.Left, []string{"report"}) || len(r.Grown) != 1 {
		t.Errorf("left %v, grown %v", r.Left, r.Grown)
	}
	if told := r.Notes(); len(notes) > 0 || !strings.Contains(told[0],
		"the attempt committed by itself, up to "+r.Commits[:12]) {
		t.Errorf("notes: %q, %q", notes, told)
	}
	if got := p.sh(p.dir, "git log --format=%s "+r.Commits+
		"; cat a untracked; git status --porcelain"); got != "mine\nfirst\nedited\nmine\n M a\n?? untracked\n" {
		t.Errorf("the user's tree: %q", got)
	}
	p.prepare(s, Start{Before: r.After}) // the next attempt of the task
	if got := p.sh(s.Tree(),
		"cat a; git status --porcelain; git log --format=%s; cat .env"); got != "one\ntwo\n M a\n?? go.sum\n?? n\nfirst\nSECRET2\n" {
		t.Errorf("the second attempt finds: %q", got)
	}
	p.prepare(s, Start{Base: r.After}) // another task, on top of this one
	if got := p.sh(s.Tree(),
		"git status --porcelain; git log --format=%s; git diff --name-only HEAD~1"); got != "descartes: verified so far\nfirst\na\ngo.sum\nn\n" {
		t.Errorf("another task finds: %q", got)
	}
	p.sh(p.dir, "git reflog expire --expire=now --all; git gc -q --prune=now")
	p.sh(s.Tree(), "git fsck; git log; git diff HEAD~1")
	// one that starts with what others committed long ago, and is to take it in
	others := p.sh(p.dir, "git checkout -q --detach; echo old >theirs; touch -d 2020-01-01 theirs; git add theirs; "+
		"git commit -qm theirs; git rev-parse HEAD^{tree}; git checkout -q main")
	p.prepare(s, Start{Base: stand.Tree, Before: gitops.Tree(strings.TrimSpace(others)), Whole: true})
	r, _ = p.result(s, "")
	if got := paths(r.Changed); !slices.Contains(got, "A theirs") || len(r.Uncovered) > 0 {
		t.Errorf("of what it started with it keeps %v, not %v", got, r.Uncovered)
	}
}

// An attempt's own commits are not kept where one says a secret in whatever part of it; its files are. Those of a
// submodule, which its files name, fail it.
func TestSlotKeepsNoSecret(t *testing.T) {
	t.Parallel()
	const key = "tok-é0123456789"
	const commit = "echo work >>a; git add a; git commit -qm mine"
	const header = "h=$(git cat-file commit HEAD | sed '/^committer/a %s' | git hash-object -t commit -w --stdin); git reset -q $h"
	for name, script := range map[string]string{
		"none":      commit,
		"message":   commit + "; git commit -q --amend -m 'with " + key + "'",
		"earlier":   "git commit -q --allow-empty -m " + key + "; " + commit,
		"author":    commit + "; git commit -q --amend --no-edit --author='" + key + " <a@b.c>'",
		"e-mail":    commit + "; git commit -q --amend --no-edit --author='a <" + key + "@b.c>'",
		"committer": commit + "; GIT_COMMITTER_NAME=" + key + " git commit -q --amend --no-edit",
		"header":    commit + "; " + strings.ReplaceAll(header, "%s", "note "+key),
		"encoding":  commit + "; git -c i18n.commitEncoding=ISO-8859-1 commit -q --amend -m $(printf '" + key + "' | iconv -f UTF-8 -t ISO-8859-1)",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newProject(t, "")
			p.opt.Redact = redact.New([]string{key})
			s := p.take(NewPool(p.opt), 0)
			p.prepare(s, Start{})
			p.sh(s.Tree(), script)
			r, notes := p.result(s, "")
			kept := strings.TrimSpace(p.sh(p.dir, "git log --format=%H --glob=refs/descartes --not main -- a"))
			if secret := name != "none"; secret != (r.Commits == "") || secret != (len(notes) == 1) ||
				secret && p.sh(p.dir, "git for-each-ref --format='%(objectname)' | xargs -n1 git log --format=%B%an%ae%cn | grep -c tok- || true") != "0\n" {
				t.Errorf("commits %q, notes %q, kept %s", r.Commits, notes, kept)
			}
			if got := paths(r.Changed); !slices.Equal(got, []string{"M a"}) {
				t.Errorf("changed: %v", got)
			}
			p.sh(s.Tree(), "git commit -q --allow-empty -m later")
			if _, again := p.result(s, ""); name != "none" && len(again) != 1 {
				t.Errorf("of the next tip it says %q", again)
			}
		})
	}
	p := newProject(t, "git init -q -b main ../lib; cd ../lib; echo l >l; git add l; git commit -qm lib; cd ../project; git -c protocol.file.allow=always submodule add -q ../lib lib; git commit -qm sub")
	p.opt.Redact = redact.New([]string{key})
	s := p.take(NewPool(p.opt), 0)
	p.prepare(s, Start{})
	p.sh(s.Tree(), "cd lib; echo x >x; git add x; git commit -qm "+key)
	r, _ := p.result(s, "")
	if want := "submodules cannot be taken: lib (its commit "; !strings.Contains(r.Lost, want) ||
		!strings.Contains(r.Lost, "has a secret in its text") {
		t.Errorf("lost %q, want %q", r.Lost, want)
	}
	if got := p.sh(p.dir, "git -C lib for-each-ref refs/descartes"); got != "" {
		t.Errorf("kept: %s", got)
	}
}

// Two pools, as of two runs, never share a slot; what a run leaves is used by the next.
func TestSlotsAreLocked(t *testing.T) {
	t.Parallel()
	p := newProject(t, "")
	one, other := NewPool(p.opt), NewPool(p.opt)
	a := p.take(one, 0)
	b := p.take(other, 0)
	if a.Number != 1 || b.Number != 2 {
		t.Errorf("numbers: %d, %d", a.Number, b.Number)
	}
	if s, err := other.Take(t.Context(), 1); s != nil || err != nil {
		t.Errorf("a slot that is taken: %v %v", s, err)
	}
	p.prepare(a, Start{})
	p.sh(a.Tree(), "echo work >w.log")
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	if c := p.take(other, 1); p.sh(c.Tree(), "cat w.log") != "work\n" {
		t.Error("the slot was not kept")
	}
}

func TestSlotIsMadeAnew(t *testing.T) {
	t.Parallel()
	for name, script := range map[string]string{
		"deleted":          "rm -rf ../pool/1",
		"filled":           "rm -rf ../pool/1/tree; mkdir ../pool/1/tree; echo x >../pool/1/tree/a",
		"a file":           "rm -rf ../pool/1/tree; echo x >../pool/1/tree",
		"our part damaged": "rm -rf ../pool/1/git; mkdir ../pool/1/git; echo x >../pool/1/git/index",
		"index damaged":    "echo x >../pool/1/git/index",
		"everything":       "rm -rf ../pool",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newProject(t, "echo SECRET >.env")
			s := p.take(NewPool(p.opt), 0)
			p.prepare(s, Start{})
			p.sh(s.Tree(), "echo edited >a; mkdir -p node_modules/u; chmod 000 node_modules/u")
			p.sh(p.dir, "chmod -R u+rwx ../pool; "+script)
			if name == "everything" { // objects is a link of the pool's, which a run makes when it takes a slot
				if err := s.Close(); err != nil {
					t.Fatal(err)
				}
				s = p.take(NewPool(p.opt), 0)
			}
			p.prepare(s, Start{})
			if got := p.sh(s.Tree(), "cat a .env; git status --porcelain"); got != "one\nSECRET\n" {
				t.Errorf("the slot holds: %q", got)
			}
		})
	}
}

// A slot that was being made when its run was killed is made anew.
func TestHalfASlot(t *testing.T) {
	t.Parallel()
	p := newProject(t, "echo SECRET >.env; mkdir -p node_modules/a; echo 1 >node_modules/a/x")
	ctx, cancel := context.WithCancel(t.Context())
	s := p.take(NewPool(p.opt), 0)
	p.prepare(s, Start{})
	p.sh(p.dir, "rm -rf ../pool/1/slot.json ../pool/1/tree/.env; echo torn >../pool/1/git/index.lock")
	cancel()
	if _, err := s.Prepare(ctx, Start{}); err == nil {
		t.Error("prepared after the end")
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = p.take(NewPool(p.opt), 1)
	p.prepare(s, Start{})
	if got := p.sh(s.Tree(), "cat a .env node_modules/a/x"); got != "one\nSECRET\n1\n" {
		t.Errorf("the slot holds: %q", got)
	}
}

func TestCopies(t *testing.T) {
	t.Parallel()
	p := newProject(t, `mkdir -p build/deep node_modules; echo d >build/deep/d; chmod 750 build/deep; touch -d 2001-02-03 build/deep/d; printf '#!/bin/sh\n' >build/run; chmod +x build/run
		mkfifo build/pipe; echo hidden >build/closed; chmod 000 build/closed; ln -s deep/d build/in; ln -s "$PWD/a" build/abs; ln -s ../../outside build/out; ln -s /etc/hostname build/etc
		truncate -s 900K build/big; mkdir node_modules/x; truncate -s 1200K node_modules/x/y; echo l >x.log; mkdir -p sub/build; echo s >sub/build/s; ln -s /tmp sub/esc.log`)
	l, err := net.Listen("unix", filepath.Join(p.dir, "build", "sock"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	pool := NewPool(p.opt)
	s := p.take(pool, 0)
	p.prepare(s, Start{})
	got := p.sh(s.Tree(), "cat build/deep/d build/in build/abs sub/build/s x.log; readlink build/abs build/out build/etc; test -x build/run; test -p build/pipe; stat -c '%a' build/deep; stat -c %y build/deep/d | cut -c1-10; stat -c %s build/big; ls")
	if want := "d\nd\none\ns\nl\n../a\n" + filepath.Dir(p.dir) +
		"/outside\n/etc/hostname\n750\n2001-02-03\n921600\na\nbuild\nsub\nx.log\n"; got != want {
		t.Errorf("got %q\nwant %q", got, want)
	}
	notes := strings.Join(pool.Notes(), "\n")
	for _, want := range []string{"more than 1 MiB would be copied (pool.max_copy): node_modules (1.2 MiB)",
		"build/sock (it is not a file)"} {
		if !strings.Contains(notes, want) {
			t.Errorf("the notes lack %q:\n%s", want, notes)
		}
	}
	if os.Geteuid() != 0 && !strings.Contains(notes, "build/closed (permission denied)") {
		t.Errorf("the file that cannot be read is not named:\n%s", notes)
	}
	if len(pool.Notes()) != 0 {
		t.Error("told twice")
	}
}

// A folder of the user's that is a link in the slot leads no copy out of it.
func TestCopiesStayInTheSlot(t *testing.T) {
	t.Parallel()
	p := newProject(t, "git checkout -q -b links; ln -s ../../../../trap d; git add d; git commit -qm link; git checkout -q main; mkdir d ../trap; echo secret >d/x.log")
	s := p.take(NewPool(p.opt), 0)
	p.prepare(s, Start{Base: gitops.Tree(strings.TrimSpace(p.sh(p.dir, "git rev-parse links^{tree}")))})
	if got := p.sh(p.dir, "ls ../trap"); got != "" {
		t.Errorf("copied out of the slot: %s", got)
	}
}

// The next run's copies go around what attempts left in their way: no link is followed, closed folders are opened,
// what they deleted stays so.
func TestCopiesAgain(t *testing.T) {
	t.Parallel()
	p := newProject(t, "mkdir src build build/shut build/gone; echo s >src/s; git add src; git commit -qm src; echo 1 >build/x; echo 1 >build/shut/y; echo 1 >build/gone/z; echo 1 >.env")
	s := p.take(NewPool(p.opt), 0)
	p.prepare(s, Start{})
	p.sh(s.Tree(), "rm -r build/gone; chmod 500 build/shut; mv build built.log; ln -s src build; rm .env; mkdir .env; touch .env/x")
	p.sh(p.dir, "echo 22 >build/x; echo 22 >build/shut/y; echo 22 >.env")
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = p.take(NewPool(p.opt), 1)
	p.prepare(s, Start{})
	if got := p.sh(s.Tree(),
		"cat build/x build/shut/y .env; ls src built.log; git status --porcelain"); got != "22\n22\n22\nbuilt.log:\nshut\nx\n\nsrc:\ns\n" {
		t.Errorf("the slot holds: %q", got)
	}
	p.sh(s.Tree(), "chmod 500 build/shut; rm build/x")
	p.sh(p.dir, "echo 333 >build/shut/y; rm build/gone/z")
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = p.take(NewPool(p.opt), 1)
	p.prepare(s, Start{})
	if got := p.sh(s.Tree(), "cat build/shut/y; ls build; chmod -R u+w ."); got != "333\nshut\n" {
		t.Errorf("the slot holds: %q", got)
	}
}

func TestSetup(t *testing.T) {
	t.Parallel()
	p := newProject(t, "echo 1 >go.sum; mkdir web; echo 1 >web/package-lock.json; git add .; git commit -qm locks")
	p.opt.Setup = "make ready"
	runs, fail := 0, true
	p.opt.Run = func(context.Context, *Slot, string) error {
		if runs++; fail {
			return errors.New("it failed")
		}
		return nil
	}
	s := p.take(NewPool(p.opt), 0)
	if _, err := s.Prepare(t.Context(), Start{}); err == nil || !strings.Contains(err.Error(), "it failed") {
		t.Errorf("got %v", err)
	}
	fail = false
	p.prepare(s, Start{})
	p.prepare(s, Start{})
	if runs != 2 {
		t.Errorf("%d runs, want one that failed and one that did not", runs)
	}
	p.sh(s.Tree(), "echo 2 >a")
	other, _ := p.result(s, "true")
	p.prepare(s, Start{Base: other.After})
	if runs != 2 {
		t.Errorf("run again although no lock file changed")
	}
	p.sh(s.Tree(), "echo 2 >web/package-lock.json")
	locks, _ := p.result(s, "true")
	p.prepare(s, Start{Base: locks.After})
	if runs != 3 {
		t.Errorf("not run again although a lock file changed")
	}
}

// A disk that fills up while a slot is made is an error, and the slot is made anew next time.
func TestDiskFull(t *testing.T) {
	t.Parallel()
	p := newProject(t, "truncate -s 5000 x.log; head -c 900000 /dev/zero >big.log")
	small := p.opt.Place
	if err := os.MkdirAll(small, 0o755); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("mount", "-t", "tmpfs", "-o", "size=512k", "none",
		small).CombinedOutput(); err != nil {
		t.Logf("no small disk can be mounted here: %s", out)
		return
	}
	t.Cleanup(func() { _ = exec.Command("umount", "-l", small).Run() })
	s := p.take(NewPool(p.opt), 0)
	if _, err := s.Prepare(t.Context(), Start{}); err == nil || !strings.Contains(err.Error(), "no space left") {
		t.Fatalf("got %v", err)
	}
	_ = s.Close()
	p.sh(p.dir, "rm big.log")
	s = p.take(NewPool(p.opt), 1)
	p.prepare(s, Start{})
	if got := p.sh(s.Tree(), "ls"); got != "a\nx.log\n" {
		t.Errorf("the slot holds: %q", got)
	}
}

func TestFixedFilesOfASlot(t *testing.T) {
	t.Parallel()
	p := newProject(t, "mkdir -p .scud; echo list >.scud/t.json; echo 'command: x' >descartes.yaml; git add .; git commit -qm lists")
	p.opt.Fixed = []string{filepath.Join(p.dir, ".scud/t.json"), filepath.Join(p.dir, "descartes.yaml")}
	s := p.take(NewPool(p.opt), 0)
	p.prepare(s, Start{})
	p.sh(s.Tree(), "echo forged >.scud/t.json; rm descartes.yaml; rm -rf .git")
	r, notes := p.result(s, "true")
	if len(r.Changed) != 0 {
		t.Errorf("changed: %v", paths(r.Changed))
	}
	if all := strings.Join(notes, "\n"); !strings.Contains(all, ".scud/t.json, which was put back") ||
		!strings.Contains(all, "descartes.yaml, which was put back") ||
		!strings.Contains(all, "destroyed the .git of its slot") {
		t.Errorf("notes: %s", all)
	}
	if got := p.sh(p.dir, "cat .scud/t.json descartes.yaml"); got != "list\ncommand: x\n" {
		t.Errorf("the user's: %q", got)
	}
}
