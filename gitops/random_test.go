package gitops

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// tumbler changes a working tree at random, with few names so that they often meet.
type tumbler struct {
	t    *testing.T
	s    *sandbox
	rnd  *rand.Rand
	text string
}

func (u *tumbler) path() string {
	names := []string{"a", "b", "c.o", "a.b", "a-", "d"}
	p := names[u.rnd.IntN(len(names))]
	for u.rnd.IntN(2) == 0 {
		p += "/" + names[u.rnd.IntN(len(names))]
	}
	return filepath.Join(u.s.dir, p)
}

// step makes one change; those that are not possible just then are none.
func (u *tumbler) step() {
	p := u.path()
	switch u.rnd.IntN(13) {
	case 0, 1, 2, 3:
		os.MkdirAll(filepath.Dir(p), 0o777)
		os.WriteFile(p, fmt.Appendf(nil, "%d\n", u.rnd.IntN(3)), 0o666)
	case 4:
		os.RemoveAll(p)
	case 5:
		os.Rename(p, u.path())
	case 6:
		os.MkdirAll(filepath.Dir(p), 0o777)
		os.Symlink([]string{"x", "..", "nowhere"}[u.rnd.IntN(3)], p)
	case 7:
		if fi, err := os.Lstat(p); err == nil && fi.Mode().IsRegular() {
			os.Chmod(p, []os.FileMode{0o644, 0o755}[u.rnd.IntN(2)])
		}
	case 8:
		rules := []string{"*.o", "!c.o", "b/", "/a", "a/b", "d", "!d", "**/a.b", "*"}
		dir := u.s.dir
		if u.rnd.IntN(2) == 0 {
			dir = filepath.Dir(p)
		}
		os.WriteFile(filepath.Join(dir, ".gitignore"), []byte(rules[u.rnd.IntN(len(rules))]+"\n"+rules[u.rnd.IntN(len(rules))]+"\n"), 0o666)
	case 9:
		os.Remove(filepath.Join(filepath.Dir(p), ".gitignore"))
	case 10:
		if fi, err := os.Lstat(p); err == nil && fi.Mode().IsRegular() {
			b, _ := os.ReadFile(p) // the same content in another file
			os.Remove(p)
			os.WriteFile(p, b, 0o666)
		}
	case 11:
		os.MkdirAll(p, 0o777)
	case 12:
		os.MkdirAll(filepath.Join(u.s.dir, ".git/info"), 0o777)
		os.WriteFile(filepath.Join(u.s.dir, ".git/info/exclude"), []byte([]string{"", "d/", "*.b", "/a/*/"}[u.rnd.IntN(4)]+"\n"), 0o666)
	}
}

// TestRandomTrees: whatever happens to a working tree, a snapshot is what git adds, a restore brings every
// snapshot back and leaves what is ignored, and a wave commit leaves git with nothing to say.
func TestRandomTrees(t *testing.T) {
	t.Parallel()
	runs, rounds := 6, 12
	if testing.Short() {
		runs = 2
	}
	for seed := range runs {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			s := newSandbox(t)
			s.sh("git init -q .; echo x >x; git add .; git commit -qm base")
			u := &tumbler{t: t, s: s, rnd: rand.New(rand.NewPCG(uint64(seed), 7))}
			r := s.reopen()
			first := snap(t, r)
			for round := range rounds {
				for range 1 + u.rnd.IntN(12) {
					u.step()
				}
				now := snap(t, r)
				if want := s.gitTree(); string(now) != want {
					t.Fatalf("round %d: snapshot %s, git makes %s\n%s", round, now, want, s.git("diff-tree", "-r", want, string(now)))
				}
				u.there(r, first, now)
				if round%3 == 2 {
					head, err := r.HeadTree(t.Context())
					if err != nil {
						t.Fatal(err)
					}
					commitWave(t, r, Wave{Message: "w", Results: []Pair{{Base: head, Result: now}}})
					if out := s.git("status", "--porcelain"); out != "" {
						t.Fatalf("round %d: status after the commit\n%s", round, out)
					}
					s.checkCache()
					first = now
				}
			}
			s.check()
		})
	}
}

// there restores a snapshot and comes back. A file that both the tree and an ignored file claim is left
// and named, and must not have cost the ignored file.
func (u *tumbler) there(r *Repo, to, back Tree) {
	u.t.Helper()
	for _, tree := range []Tree{to, back} {
		done, err := r.Restore(u.t.Context(), tree, time.Time{})
		if err == nil && len(done.Left) > 0 {
			u.clear(done.Left)
			done, err = r.Restore(u.t.Context(), tree, time.Time{})
		}
		if err != nil || len(done.Left) > 0 {
			u.t.Fatal(done.Left, err)
		}
		if got := snap(u.t, r); got != tree {
			u.t.Fatalf("restored to %s, want %s\n%s", got, tree, u.s.git("diff-tree", "-r", string(tree), string(got)))
		}
		if want := u.s.gitTree(); string(tree) != want {
			u.t.Fatalf("restored to %s, git sees %s", tree, want)
		}
	}
}

// clear makes room for what was left.
func (u *tumbler) clear(left []LeftOut) {
	u.s.sh("git ls-files -o -i --exclude-standard -z | xargs -0 -r rm -f; find . -depth -name .git -prune -o -type d -empty -exec rmdir {} + 2>/dev/null || true")
	u.t.Logf("cleared ignored files: %v", left)
}
