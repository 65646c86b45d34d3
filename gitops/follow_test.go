package gitops

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// ahead makes commits at base and next; HEAD, the index and the files are those of base.
const ahead = `echo w >way; echo g >gone; mkdir -p dir2; echo i >dir2/i; echo x >swap; ln -s src folder; echo 'docs/*.tmp' >>.gitignore; git add -A; git commit -qm more; git tag base
echo next >f; chmod -x run.sh; rm link gone; ln -s docs link; rm folder; mkdir folder; echo 2 >folder/x.go; mkdir -p new/deep; echo n >new/deep/n; git rm -qr docs; echo file >docs; rm swap; mkdir swap; echo y >swap/y; echo 2 >src/a/y.go
git add -A; git commit -qm next; git tag next; git reset -q --hard base
`

func TestForward(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, setup, then, status string
		cut                       bool
	}{
		{name: "clean"},
		{name: "the user's work elsewhere stays",
			setup:  "echo mine >way; echo staged >dir2/i; git add dir2; echo own >untracked; git rm -q --cached src/x.go; echo x >a.log",
			status: "M  dir2/i\nD  src/x.go\n M way\n?? src/x.go\n?? untracked\n"},
		{name: "touched files", setup: "touch f run.sh docs/d.md"},
		{name: "files that are there already",
			setup: "echo next >f; rm gone; mkdir -p new/deep; echo n >new/deep/n; git add new", then: ""},
		{name: "all is there already",
			setup: "git checkout -q next; git symbolic-ref HEAD refs/heads/main; git read-tree main"},
		{name: "a file that the user deleted, and the commit changes", setup: "rm f"},
		{name: "crash after the files", setup: "git read-tree -m -u base next"},
		{name: "crash in the middle of the files",
			setup: "rm f; : >run.sh; mkdir -p new/deep; : >new/deep/n; rm link; rm -r docs; printf f >docs",
			cut:   true},
		{name: "crash in the middle of line ends",
			setup: `git config core.autocrlf true; printf 'nex' >f; printf 'n\r' >swap; rm swap; mkdir swap; printf 'y\r\n' >swap/y`, cut: true},
		{name: "crash, and the user's work elsewhere", setup: "rm f; echo mine >way", cut: true, status: " M way\n"},
		{name: "detached", setup: "git checkout -q --detach"},
		{name: "line ends", setup: "git config core.autocrlf true; rm f; git checkout -q f"},
		{name: "no modes", setup: "git config core.fileMode false; chmod +x f"},
		{name: "skipped by a sparse checkout", setup: "git sparse-checkout set --no-cone '/*' '!/src/a/'"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := newBase(t, ahead)
			s.sh(tt.setup)
			r := s.reopen()
			base, next := strings.TrimSpace(s.git("rev-parse", "base")), strings.TrimSpace(s.git("rev-parse", "next"))
			snap(t, r)
			left, err := forward(t, r, base, next, tt.cut)
			if err != nil || left != nil {
				t.Fatalf("%v %v", left, err)
			}
			if got := s.git("status", "--porcelain"); got != tt.status {
				t.Errorf("status afterwards:\n%s\nwant:\n%s", got, tt.status)
			}
			if head := strings.TrimSpace(s.git("rev-parse", "HEAD")); head != next {
				t.Errorf("HEAD is %s", head)
			}
			if got, want := string(snap(t, r)), s.gitTree(); got != want {
				t.Errorf("the next snapshot is %s, want %s", got, want)
			}
			if left, err := forward(t, r, base, next, false); err != nil || left != nil {
				t.Errorf("again: %v %v", left, err)
			}
			s.check()
		})
	}
}

func TestForwardTouchesNothingOfTheUsers(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, setup, want string
		cut               bool
	}{
		{"edited after a crash", "echo next and mine >f", "f (it was changed here, and the commit changes it too)",
			true},
		{"edited", "echo mine >f", "f (it was changed here, and the commit changes it too)", false},
		{"edited and staged", "echo mine >f; git add f", "f (it was changed here, and the commit changes it too)",
			false},
		{"what the commit deletes", "echo mine >gone", "gone (it was changed here, and the commit changes it too)",
			false},
		{"untracked in the way", "mkdir -p new/deep; echo mine >new/deep/n",
			"new/deep/n (it exists here and is untracked, and the commit adds it)", false},
		{"ignored in the way", "echo new/ >.git/info/exclude; mkdir -p new/deep; echo mine >new/deep/n",
			"new/deep/n (it exists here and is untracked, and the commit adds it)", false},
		{"file where a folder comes", "echo mine >new",
			"new (it exists here and is untracked, and the commit adds it)", false},
		{"link where a folder comes", "ln -s src new",
			"new/deep/n (new is a link here, and the commit changes what is in it)", false},
		{"ignored in a folder that becomes a file", "echo mine >docs/x.tmp",
			"docs (it holds untracked files, and the commit replaces it)", false},
		{"folder in place of a file", "rm f; mkdir f; echo mine >f/x",
			"f (it was changed here, and the commit changes it too)", false},
		{"pipe in place of a file", "rm f; mkfifo f", "f (it was changed here, and the commit changes it too)", false},
		{"link in place of a file", "rm f; ln -s way f", "f (it was changed here, and the commit changes it too)",
			false},
		{"assumed unchanged", "git update-index --assume-unchanged f; echo mine >f",
			"f (it was changed here, and the commit changes it too)", false},
		{"several", "echo mine >f; echo mine >docs/d.md",
			"docs/d.md (it was changed here, and the commit changes it too) f (it was changed here, and the commit changes it too)", false},
		{"link in place of a folder", "mv src ../src; ln -s ../src src",
			"src/a/y.go (src is a link here, and the commit changes what is in it)", false},
		{"a merge of his", "git rev-parse base >.git/MERGE_HEAD", "main (a merge is in progress)", false},
		{"a conflict of his", `b=$(git rev-parse base:way); git update-index --force-remove way; printf "100644 $b 1\tway\n100644 $b 2\tway\n" | git update-index --index-info`, "the index (a merge is not finished)", false},
		{"git commit -a with an editor open", "touch .git/index.lock",
			".git/index.lock (another git command is at work, or one was killed)", false},
		{"mode", "chmod -x run.sh; chmod +x f", "f (it was changed here, and the commit changes it too)", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := newBase(t, ahead)
			r := s.reopen()
			r.cli.patience = time.Millisecond
			s.sh(tt.setup)
			before, state := files(t, s.dir), s.git("status", "--porcelain=v2", "--branch", "--ignored")
			left, err := forward(t, r, strings.TrimSpace(s.git("rev-parse", "base")),
				strings.TrimSpace(s.git("rev-parse", "next")), tt.cut)
			var got []string
			for _, l := range left {
				got = append(got, l.String())
			}
			if err != nil || strings.Join(got, " ") != tt.want {
				t.Errorf("got %v %v, want %s", got, err, tt.want)
			}
			if now := files(t, s.dir); !maps.Equal(now, before) {
				t.Errorf("it touched files: %s", diffFiles(before, now))
			}
			if now := s.git("status", "--porcelain=v2", "--branch", "--ignored"); now != state {
				t.Errorf("status before:\n%safterwards:\n%s", state, now)
			}
		})
	}
}

// Somebody else's git locks the index after ours has looked: ours waits, and tries again.
func TestForwardAwaitsTheIndex(t *testing.T) {
	t.Parallel()
	for _, command := range []string{"--index-info", "read-tree"} {
		s := newBase(t, ahead+"echo next >f")
		r := s.reopen()
		s.meanwhile(r, command,
			"touch .git/index.lock; (until test -e ../seen; do sleep 0.01; done; rm .git/index.lock) &")
		left, err := forward(t, r, strings.TrimSpace(s.git("rev-parse", "base")),
			strings.TrimSpace(s.git("rev-parse", "next")), false)
		if err != nil || left != nil {
			t.Errorf("%s: %v %v", command, left, err)
		}
		if got := s.git("status", "--porcelain"); got != "" {
			t.Errorf("%s: %s", command, got)
		}
	}
}

// meanwhile has somebody act, once, when a repository runs a git command.
func (s *sandbox) meanwhile(r *Repo, command, act string) {
	s.t.Helper()
	program := filepath.Join(s.t.TempDir(), "git")
	text := fmt.Sprintf(`#!/bin/sh
case " $* " in *" %s "*) (cd %s && mkdir ../once 2>/dev/null && { %s
}) >%[2]s/../meanwhile 2>&1 </dev/null;; esac
%[4]s "$@"; code=$?
test -d %[2]s/../once && touch %[2]s/../seen
exit $code
`, command, s.dir, act, r.cli.program)
	if err := os.WriteFile(program, []byte(text), 0o755); err != nil {
		s.t.Fatal(err)
	}
	r.cli.program = program
}

// TestFollowMeetsTheUser: he commits, switches or writes between our look and our move. His commit stays on its
// branch, what he wrote stays, no branch gets ours but the one that was meant, and files and index are a commit's.
func TestFollowMeetsTheUser(t *testing.T) {
	t.Parallel()
	const commit = "echo mine >racing; git add racing; git commit -qm racing"
	for _, tt := range []struct {
		name, at, act string
		main          string // where that is afterwards: at from, at to, or at his commit
		status        string
	}{
		{"switches before the lock", "update-ref", "git checkout -q -b feature", "to", ""},
		{"switches under the lock", "read-tree", "git checkout -q -b feature", "to", ""},
		{"commits before the lock", "update-ref", commit, "racing", ""},
		{"commits under the lock", "read-tree", commit, "to", "A  racing\n"},
		{"writes what git ignores", "update-ref", "echo secret >.git/info/exclude; echo mine >secret", "from", ""},
	} {
		for _, way := range []string{"forward", "back", "first"} {
			t.Run(way+", "+tt.name, func(t *testing.T) {
				t.Parallel()
				s := newBase(t, `git tag a; echo 2 >f; echo theirs >secret; git add -A; git commit -qm b; git tag b; git reset -q --hard a`)
				from, to := strings.TrimSpace(s.git("rev-parse", "a")), strings.TrimSpace(s.git("rev-parse", "b"))
				if way == "first" {
					s.sh("git update-ref -d HEAD; git rm -rfq .; git clean -fdxq; git tag -d a")
					from = ""
				}
				r := s.reopen()
				s.meanwhile(r, tt.at, tt.act)
				var left []LeftOut
				var err error
				if way == "back" {
					left, err = r.Back(t.Context(), from, to, false)
				} else {
					left, err = forward(t, r, from, to, false)
				}
				if (tt.main == "to") != (err == nil && left == nil) {
					t.Errorf("it says %v %v", left, err)
				}
				main, _ := s.tryGit("rev-parse", "-q", "--verify", "main")
				subject, _ := s.tryGit("log", "-1", "--format=%s", "main")
				switch main = strings.TrimSpace(main); {
				case tt.main == "from" && main == from, tt.main == "to" && main == to,
					tt.main == "racing" && subject == "racing\n":
				default:
					t.Errorf("main is at %s %s, want %s", main, subject, tt.main)
				}
				if got := s.git("status", "--porcelain"); got != tt.status {
					t.Errorf("status:\n%s", got)
				}
				if at, code := s.tryGit("rev-parse", "-q", "--verify", "feature"); code == 0 &&
					strings.TrimSpace(at) != from {
					t.Errorf("feature is at %s", at)
				}
				if b, rerr := os.ReadFile(s.path("secret")); tt.main == "from" && string(b) != "mine\n" {
					t.Errorf("what he wrote is %q now, %v", b, rerr)
				}
				s.sh("test -z \"$(find .git -name '*.lock')\"")
			})
		}
	}
}

func TestForwardProtectedUnbornAndElsewhere(t *testing.T) {
	t.Parallel()
	s := newBase(t, `mkdir list; echo 1 >list/t; git add list; git commit -qm l; git tag base; echo 2 >list/t; git commit -qam l2; git tag next; git reset -q --hard base; echo 3 >list/t`)
	r := s.reopen("list/")
	base, next := strings.TrimSpace(s.git("rev-parse", "base")), strings.TrimSpace(s.git("rev-parse", "next"))
	if left, err := forward(t, r, base, next, false); err != nil || left != nil {
		t.Errorf("%v %v", left, err)
	}
	if got := s.git("diff", "-U0", "list"); !strings.Contains(got, "-2\n+3\n") {
		t.Errorf("a protected file: %s", got)
	}
	if _, err := forward(t, r, base, strings.TrimSpace(s.git("rev-parse", "base~1")), false); err == nil ||
		!strings.Contains(err.Error(), "main is at "+next[:12]+", not at "+base[:12]) {
		t.Errorf("HEAD is elsewhere: %v", err)
	}
	r = s.reopen()
	s.sh("git symbolic-ref HEAD refs/heads/other; git rm -rfq --cached .; git clean -fdxq")
	if left, err := forward(t, r, "", base, false); err != nil || left != nil {
		t.Errorf("%v %v", left, err)
	}
	s.clean()
}

func TestAdvance(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, setup, want string }{
		{"nobody has it", "git branch b base", ""},
		{"checked out here", "git checkout -q -b b base", ""},
		{"in another working tree", "git worktree add -q ../other -b b base",
			"b (is checked out in another working tree)"},
		{"rebased in another working tree",
			"git worktree add -q --detach ../other base; git branch b base; mkdir .git/worktrees/other/rebase-merge; echo refs/heads/b >.git/worktrees/other/rebase-merge/head-name",
			"b (is being rebased)"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := newBase(t, ahead)
			s.sh(tt.setup)
			r := s.reopen()
			base, next := strings.TrimSpace(s.git("rev-parse", "base")), strings.TrimSpace(s.git("rev-parse", "next"))
			left, err := r.Advance(t.Context(), "refs/heads/b", base, next, false)
			got, at := "", next
			for _, l := range left {
				got, at = l.String(), base
			}
			if err != nil || got != tt.want || strings.TrimSpace(s.git("rev-parse", "b")) != at {
				t.Errorf("got %q, %v, want %q; b is at %s", got, err, tt.want, s.git("rev-parse", "b"))
			}
		})
	}
}

// TestForwardKeepsIgnoredFiles: where git itself would not ask.
func TestForwardKeepsIgnoredFiles(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, setup, from, to, want string }{
		{"on an unborn branch", "echo f >f; git add f; git commit -qm f; git tag to; git symbolic-ref HEAD refs/heads/other; git rm -rfq .; echo f >.git/info/exclude; echo mine >f",
			"", "to", "f (it exists here and is untracked, and the commit adds it)"},
		{"in a submodule that becomes a file", `git init -q ../sub; (cd ../sub; echo '*.o' >.gitignore; git add .; git commit -qm s); git submodule add -q ../sub sub; git commit -qm sub; git tag from
git rm -q sub; echo file >sub; git add sub; git commit -qm to; git tag to; rm sub; git reset -q --hard from; git submodule update -q; echo mine >sub/f.o`,
			"from", "to", "sub (it holds a submodule, and the commit replaces it)"},
		{"on the way back", "echo f >f; git add f; git commit -qm f; git tag to; git rm -q f; git commit -qm from; git tag from; echo f >.git/info/exclude; echo mine >f",
			"from", "to", "f (it exists here and is untracked, and the commit adds it)"},
		{"below a folder, on the way back",
			"echo d >d; git add d; git commit -qm d; git tag to; git rm -q d; mkdir d; echo a >d/a; git add d; git commit -qm from; git tag from; echo f >.git/info/exclude; echo mine >d/f",
			"from", "to", "d (it holds untracked files, and the commit replaces it)"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := newBase(t, tt.setup)
			r := s.reopen()
			commit := func(name string) string {
				if name == "" {
					return ""
				}
				return strings.TrimSpace(s.git("rev-parse", name))
			}
			move := func() ([]LeftOut, error) { return forward(t, r, commit(tt.from), commit(tt.to), false) }
			if strings.HasSuffix(tt.name, "back") {
				move = func() ([]LeftOut, error) { return r.Back(t.Context(), commit(tt.from), commit(tt.to), false) }
			}
			before := files(t, s.dir)
			if left, err := move(); err != nil || len(left) != 1 || left[0].String() != tt.want {
				t.Errorf("got %v %v, want %s", left, err, tt.want)
			}
			if now := files(t, s.dir); !maps.Equal(now, before) {
				t.Errorf("it touched files: %s", diffFiles(before, now))
			}
		})
	}
}

// TestForwardWithTheUsersSettings: what he set for merges of his own, and his hooks, have no say; his filters act.
func TestForwardWithTheUsersSettings(t *testing.T) {
	t.Parallel()
	s := newBase(t, ahead+`git config merge.autoStash true; git config merge.verifySignatures true; git config merge.ff false; git config branch.main.mergeOptions '--squash --no-commit'; git config submodule.recurse true
for h in post-merge post-checkout post-index-change reference-transaction pre-merge-commit; do printf '#!/bin/sh\ntouch ../ran\n' >.git/hooks/$h; chmod +x .git/hooks/$h; done
git config filter.upper.smudge 'tr a-z A-Z'; git config filter.upper.clean 'tr A-Z a-z'; echo 'f filter=upper' >.git/info/attributes; echo mine >way; rm -f ../ran`)
	r := s.reopen()
	base, next := strings.TrimSpace(s.git("rev-parse", "base")), strings.TrimSpace(s.git("rev-parse", "next"))
	if left, err := forward(t, r, base, next, false); err != nil || left != nil {
		t.Fatalf("forward: %v %v", left, err)
	}
	s.sh("test $(cat f) = NEXT; test ! -e ../ran; test -z \"$(git stash list)\"; rm -r .git/hooks; test \"$(git status --porcelain)\" = ' M way'")
	if left, err := r.Back(t.Context(), next, base, false); err != nil || left != nil {
		t.Fatalf("back: %v %v", left, err)
	}
	s.sh("test $(cat f) != NEXT; test $(git symbolic-ref HEAD) = refs/heads/main; test $(git rev-parse HEAD) = $(git rev-parse base); test \"$(git status --porcelain)\" = ' M way'")
}

// TestForwardCutShortAndInTheWay: what git had moved when it was killed goes back, if the rest cannot follow.
func TestForwardCutShortAndInTheWay(t *testing.T) {
	t.Parallel()
	s := newBase(t, ahead+"echo mine >>f; rm run.sh gone; mkdir -p new/deep; : >new/deep/n; echo 2 >src/a/y.go; echo own >own")
	left, err := forward(t, s.reopen(), strings.TrimSpace(s.git("rev-parse", "base")),
		strings.TrimSpace(s.git("rev-parse", "next")), true)
	if err != nil || len(left) != 1 || left[0].Path != "f" {
		t.Errorf("got %v %v", left, err)
	}
	if got := s.git("status", "--porcelain"); got != " M f\n D gone\n?? own\n" && got != " M f\n?? own\n" {
		t.Errorf("status:\n%s", got)
	}
}

// TestForwardWithoutTheBranch: where git cannot move the branch, the next call does.
func TestForwardWithoutTheBranch(t *testing.T) {
	t.Parallel()
	s := newBase(t, ahead+"echo next >f; echo mine >way")
	r := s.reopen()
	s.put(".git/refs/heads/main.lock", "")
	base, next := strings.TrimSpace(s.git("rev-parse", "base")), strings.TrimSpace(s.git("rev-parse", "next"))
	if left, err := forward(t, r, base, next, false); err == nil || left != nil {
		t.Errorf("got %v %v", left, err)
	}
	s.sh("rm .git/refs/heads/main.lock")
	if left, err := forward(t, r, base, next, false); err != nil || left != nil {
		t.Errorf("got %v %v", left, err)
	}
	if got := s.git("status", "--porcelain", "--branch"); got != "## main\n M way\n" ||
		strings.TrimSpace(s.git("rev-parse", "HEAD")) != next {
		t.Errorf("status afterwards: %s", got)
	}
}

// forward moves what is checked out forward.
func forward(t *testing.T, r *Repo, from, to string, cut bool) ([]LeftOut, error) {
	t.Helper()
	head, err := r.Head(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return r.Advance(t.Context(), head.Branch, from, to, cut)
}

// TestForwardKilled: git dies while it moves the files, and leaves its lock.
func TestForwardKilled(t *testing.T) {
	t.Parallel()
	for _, last := range []string{"docs", "f", "new/deep/n", "src/a/y.go", "swap/y"} {
		t.Run(last, func(t *testing.T) {
			t.Parallel()
			s := newBase(t, ahead+`echo `+last+` filter=kill >.git/info/attributes; echo mine >way
(git -c filter.kill.smudge='kill -9 $PPID' merge -q --ff-only next) || true; test -e .git/index.lock; rm .git/index.lock .git/info/attributes; git status --short`)
			r := s.reopen()
			base, next := strings.TrimSpace(s.git("rev-parse", "base")), strings.TrimSpace(s.git("rev-parse", "next"))
			if left, err := forward(t, r, base, next, true); err != nil || left != nil {
				t.Fatalf("%v %v", left, err)
			}
			if got := s.git("status", "--porcelain", "--branch"); got != "## main\n M way\n" ||
				strings.TrimSpace(s.git("rev-parse", "HEAD")) != next {
				t.Errorf("status afterwards: %s", got)
			}
		})
	}
}
