package gitops

import (
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

func restore(t *testing.T, r *Repo, to Tree) []string {
	t.Helper()
	done, err := r.Restore(t.Context(), to, time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	if len(done.Left) > 0 {
		t.Errorf("left %v", done.Left)
	}
	return done.touched()
}

// touched lists what a restore wrote and deleted.
func (d Restored) touched() []string {
	return slices.Sorted(slices.Values(slices.Concat(d.Back, d.Removed)))
}

func TestRestore(t *testing.T) {
	t.Parallel()
	s, r := start(t)
	s.sh("echo user >docs/d.md; echo mine >untracked; echo keep >k.log; mkdir build; echo o >build/o")
	first := snap(t, r)
	for _, script := range []string{
		"echo two >f; rm src/x.go; mkdir -p new/deep; echo n >new/deep/n",
		"rm -rf src docs; ln -s /etc src; echo file >docs",
		"rm f; mkdir f; echo in >f/in; chmod -x run.sh; rm link; echo nolink >link",
		"rm -rf .gitignore; rm untracked",
		"echo '*' >.gitignore",
		"rm -rf f run.sh link src docs untracked",
		"printf '' >f; git add -A; git rm -q --cached f",
	} {
		s.sh(script)
		changed := snap(t, r)
		restore(t, r, first)
		if got := snap(t, r); got != first {
			t.Fatalf("%s: restored to %s, want %s\n%s", script, got, first, s.git("diff-tree", "-r", string(first), string(got)))
		}
		s.sh("test \"$(cat k.log)\" = keep; test -f build/o; test ! -e new; git reset -q")
		if got := s.git("status", "--porcelain"); got != " M docs/d.md\n?? untracked\n" {
			t.Fatalf("%s: status after restore\n%s", script, got)
		}
		restore(t, r, changed)
		restore(t, r, first)
	}
	if touched := restore(t, r, first); len(touched) > 0 {
		t.Errorf("touched %q where nothing differs", touched)
	}
	s.check()
}

func TestRestoreLeavesIgnoredFiles(t *testing.T) {
	t.Parallel()
	s, r := start(t)
	s.sh("echo secret >k.log")
	first := snap(t, r)
	s.sh("echo '!k.log' >>.gitignore; echo x >new")
	touched := func() []string { snap(t, r); return restore(t, r, first) }()
	if want := []string{".gitignore", "new"}; !slices.Equal(touched, want) {
		t.Errorf("touched %q, want %q", touched, want)
	}
	if b, err := os.ReadFile(s.path("k.log")); string(b) != "secret\n" {
		t.Errorf("the ignored file: %q, %v", b, err)
	}
	s.sh("echo node/ >>.gitignore; mkdir node; echo big >node/big")
	snap(t, r)
	restore(t, r, first)
	if _, err := os.Stat(s.path("node")); err == nil {
		t.Error("what only the attempt's own rules ignored is still there")
	}
	s.sh("rm f; mkdir f; echo i >f/i.log")
	if done, err := r.Restore(t.Context(), first, time.Time{}); err != nil || len(done.Left) != 1 || done.Left[0].Path != "f" || !strings.Contains(done.Left[0].Why, "f/i.log") {
		t.Errorf("an ignored file in the way: %+v, %v", done, err)
	}
	s.sh("rm -r f")
	restore(t, r, first)
	s.clean()
}

func TestRestoreNeverFollowsLinks(t *testing.T) {
	t.Parallel()
	s, r := start(t)
	first := snap(t, r)
	s.sh("mkdir ../outside; echo out >../outside/x.go; mkdir ../outside/a; echo out >../outside/a/y.go; rm -r src; ln -s ../outside src")
	restore(t, r, first)
	s.sh("test \"$(cat ../outside/x.go)\" = out; test \"$(cat ../outside/a/y.go)\" = out")
	s.clean()
	s.sh("rm -r src; mkdir -p .git/info; echo src >>.git/info/exclude; ln -s ../outside src")
	if done, err := r.Restore(t.Context(), first, time.Time{}); err != nil || len(done.Left) != 2 || !strings.Contains(done.Left[0].Why, "src is a symbolic link now") {
		t.Errorf("an ignored link in the way: %+v, %v", done, err)
	}
	s.sh("test \"$(cat ../outside/x.go)\" = out")
}

func TestRestoreRefusesUnsafeTrees(t *testing.T) {
	t.Parallel()
	s, r := start(t)
	blob := strings.TrimSpace(s.git("rev-parse", "HEAD:f"))
	id, err := parseID(blob)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"..", ".git", ".GIT", ".git ", "git~1", ".git:x", "a/b"} {
		tree, err := r.store.put(kindTree, appendEntry(nil, modeRegular, name, id))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := r.Restore(t.Context(), Tree(tree.String()), time.Time{}); err == nil {
			t.Errorf("a tree with %q was restored", name)
		}
	}
	if got := s.git("status", "--porcelain"); got != "" {
		t.Errorf("status:\n%s", got)
	}
}

// What the store lost cannot be restored; everything else is.
func TestRestoreOfIncompleteSnapshot(t *testing.T) {
	t.Parallel()
	s, r := start(t)
	s.sh("echo precious >untracked")
	first := snap(t, r)
	s.sh("rm untracked; echo two >f; echo new >new")
	snap(t, r)
	id := hashObject(kindBlob, []byte("precious\n")).String()
	if err := os.Remove(s.path(".git/objects/" + id[:2] + "/" + id[2:])); err != nil {
		t.Fatal(err)
	}
	done, err := r.Restore(t.Context(), first, time.Time{})
	if err != nil || len(done.Left) != 1 || done.Left[0].Path != "untracked" || !strings.Contains(done.Left[0].Why, "somebody pruned it") {
		t.Errorf("restored %+v, %v, want one left that names the file", done, err)
	}
	if got := s.git("status", "--porcelain"); got != "" {
		t.Errorf("status afterwards:\n%s", got)
	}
}

// TestScanWithoutKeeping: what a scan only named, the next snapshot stores.
func TestScanWithoutKeeping(t *testing.T) {
	t.Parallel()
	s, r := start(t)
	first := snap(t, r)
	s.sh("echo unseen >f; echo new >new; head -c 9000000 /dev/zero >src/x.go; ln -sf elsewhere link")
	for range 2 {
		if err := r.scan(t.Context(), readKnown); err != nil {
			t.Fatal(err)
		}
	}
	second := snap(t, r)
	if err := r.Pin(t.Context(), "refs/descartes/l/1/base", second); err != nil {
		t.Fatal(err)
	}
	s.check()
	restore(t, r, first)
	restore(t, r, second)
	s.sh("test \"$(cat f new)\" = \"$(printf 'unseen\nnew')\"; test \"$(readlink link)\" = elsewhere")
}

func TestRestorePaths(t *testing.T) {
	t.Parallel()
	s, r := start(t)
	s.sh("echo mine >docs/d.md; echo mine >untracked; mkdir deep; echo mine >deep/u")
	first := snap(t, r)
	s.sh("git stash -q -u; echo theirs >f; echo new >other")
	if _, err := r.RestorePaths(t.Context(), first, []string{"docs/d.md", "deep/u", "untracked", "nowhere"}); err != nil {
		t.Fatal(err)
	}
	s.sh("test \"$(cat docs/d.md untracked deep/u)\" = 'mine\nmine\nmine'; test \"$(cat f)\" = theirs; test \"$(cat other)\" = new")
	s.sh("rm other; git checkout -q f")
	if got := snap(t, r); got != first {
		t.Errorf("got %s, want %s", got, first)
	}
}
