package gitops

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"descartes/internal/oscall"
)

// benchRepo is a committed repository of n files of about 2 KB, twenty in each directory.
type benchRepo struct {
	b   *testing.B
	dir string
	env []string
	n   int
}

func newBenchRepo(b *testing.B, n int) *benchRepo {
	b.Helper()
	base := b.TempDir()
	r := &benchRepo{b: b, dir: filepath.Join(base, "repo"), n: n}
	r.env = []string{"HOME=" + base, "PATH=" + os.Getenv("PATH"), "GIT_CONFIG_NOSYSTEM=1", "LC_ALL=C"}
	for i := range n {
		// few objects: writing them is most of the time
		r.put(r.name(i), fmt.Appendf(nil, "file %d\n%01990d\n", i%64, i%64))
	}
	r.put(".gitignore", []byte("node_modules/\n*.o\n"))
	for _, args := range [][]string{{"init", "-q"}, {"config", "user.name", "A"}, {"config", "user.email", "a@b.c"},
		{"config", "gc.auto", "0"},
		{"add", "-A"}, {"commit", "-qm", "base"}} {
		r.git(args...)
	}
	r.tick() // the index was written in the same tick of the clock as its newest files
	r.git("status")
	return r
}

// tick waits until the kernel's clock has gone on.
func (r *benchRepo) tick() {
	began, err := oscall.Clock()
	for now := began; err == nil && !now.After(began); {
		now, err = oscall.Clock()
	}
	if err != nil {
		r.b.Fatal(err)
	}
}

func (r *benchRepo) name(i int) string { return fmt.Sprintf("p%03d/d%03d/f%05d.go", i/400, i/20, i) }

func (r *benchRepo) put(name string, data []byte) {
	path := filepath.Join(r.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		r.b.Fatal(err)
	}
	if err := os.WriteFile(path, data, 0o666); err != nil {
		r.b.Fatal(err)
	}
}

func (r *benchRepo) git(args ...string) {
	c := exec.Command("git", args...)
	c.Dir, c.Env = r.dir, r.env
	if out, err := c.CombinedOutput(); err != nil {
		r.b.Fatalf("git %v: %v\n%s", args, err, out)
	}
}

func (r *benchRepo) open() *Repo {
	o, err := Open(r.b.Context(), Options{Dir: r.dir, Env: r.env})
	if err != nil {
		r.b.Fatal(err)
	}
	r.b.Cleanup(func() { o.Close() })
	return o
}

// A slot goes from one attempt to the next: six files changed by an agent, the result taken, the next state brought.
func BenchmarkSlot(b *testing.B) {
	for _, n := range []int{10_000, 50_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			r := newBenchRepo(b, n)
			user := r.open()
			slot, err := user.OpenSlot(b.Context(), SlotOptions{Dir: filepath.Join(b.TempDir(), "1"),
				Objects: filepath.Join(b.TempDir(), "objects")})
			if err != nil {
				b.Fatal(err)
			}
			b.Cleanup(func() { slot.Close() })
			head, err := user.Head(b.Context())
			if err != nil {
				b.Fatal(err)
			}
			tree, err := user.HeadTree(b.Context())
			if err != nil {
				b.Fatal(err)
			}
			if err := slot.Prepare(b.Context(), head, tree, false); err != nil {
				b.Fatal(err)
			}
			in := *r
			in.dir = slot.Tree()
			for i := 0; b.Loop(); i++ {
				b.StopTimer()
				for k := range 6 {
					in.put(r.name((i*6+k)%n), fmt.Appendf(nil, "attempt %d\n", i))
				}
				b.StartTimer()
				if _, err := slot.Snapshot(b.Context()); err != nil {
					b.Fatal(err)
				}
				if _, err := slot.Commits(b.Context(), "refs/descartes/bench/1/1", slot.Tip(b.Context())); err != nil {
					b.Fatal(err)
				}
				if err := slot.Prepare(b.Context(), head, tree, false); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
