package gitops

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

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
		r.put(r.name(i), fmt.Appendf(nil, "file %d\n%01990d\n", i%64, i%64)) // few objects: writing them is most of the time
	}
	r.put(".gitignore", []byte("node_modules/\n*.o\n"))
	for _, args := range [][]string{{"init", "-q"}, {"config", "user.name", "A"}, {"config", "user.email", "a@b.c"}, {"config", "gc.auto", "0"},
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

// change makes six changes: three files edited, one added, one deleted, one brought back.
func (r *benchRepo) change(round int) {
	for k := range 3 {
		i := (round*7919 + k*104729) % r.n
		r.put(r.name(i), fmt.Appendf(nil, "file %d\nround %d\n%01990d\n", i, round, i))
	}
	r.put(fmt.Sprintf("p000/new%06d.go", round), []byte("new\n"))
	gone := filepath.Join(r.dir, fmt.Sprintf("p000/new%06d.go", round-1))
	if err := os.Remove(gone); err != nil && round > 0 {
		r.b.Fatal(err)
	}
	r.put("p000/back.go", fmt.Appendf(nil, "%d\n", round%2))
}

// against runs ours and theirs in turn and reports the median of the ratios of their times.
func against(b *testing.B, prepare func(round int), ours, theirs func()) {
	b.Helper()
	var ratios, us, them []float64
	round := 0
	for b.Loop() {
		prepare(round)
		round++
		t := time.Now()
		ours()
		a := time.Since(t).Seconds()
		t = time.Now()
		theirs()
		g := time.Since(t).Seconds()
		ratios, us, them = append(ratios, a/g), append(us, a*1e3), append(them, g*1e3)
	}
	b.ReportMetric(median(ratios), "x-git")
	b.ReportMetric(median(us), "ms-ours")
	b.ReportMetric(median(them), "ms-git")
}

func median(v []float64) float64 {
	slices.Sort(v)
	return v[len(v)/2]
}

var benchSizes = []int{1_000, 10_000, 50_000}

// BenchmarkCommit: snapshot and wave commit of six changes against `git add -A && git commit`. Goals 0.8, 0.7, 0.65.
func BenchmarkCommit(b *testing.B) {
	for _, n := range benchSizes {
		b.Run(fmt.Sprint(n), func(b *testing.B) { benchCommit(b, newBenchRepo(b, n), newBenchRepo(b, n)) })
	}
}

// BenchmarkCommitIgnored is the same beside 10,000 ignored files. Goal 0.6.
func BenchmarkCommitIgnored(b *testing.B) {
	mine, gits := newBenchRepo(b, 2_000), newBenchRepo(b, 2_000)
	for _, r := range []*benchRepo{mine, gits} {
		for i := range 10_000 {
			r.put(fmt.Sprintf("node_modules/m%03d/f%d.js", i/100, i), nil)
		}
	}
	benchCommit(b, mine, gits)
}

func benchCommit(b *testing.B, mine, gits *benchRepo) {
	ctx := b.Context()
	r := mine.open()
	against(b, func(round int) { mine.change(round); gits.change(round) },
		func() {
			now, err := r.Snapshot(ctx)
			if err != nil {
				b.Fatal(err)
			}
			c, err := r.CommitWave(ctx, Wave{Message: "wave", Tree: now})
			if err != nil || c.Empty {
				b.Fatalf("%+v, %v", c, err)
			}
		},
		func() {
			gits.git("add", "-A")
			gits.git("commit", "-qm", "wave")
		})
}

// BenchmarkSnapshot: a snapshot after an attempt with six changes against `git status`. Goal 0.6.
func BenchmarkSnapshot(b *testing.B) {
	for _, n := range benchSizes[:2] {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			repo := newBenchRepo(b, n)
			r := repo.open()
			if _, err := r.Snapshot(b.Context()); err != nil {
				b.Fatal(err)
			}
			against(b, repo.change,
				func() {
					if _, err := r.Snapshot(b.Context()); err != nil {
						b.Fatal(err)
					}
				},
				func() { repo.git("status", "--porcelain") })
		})
	}
}

// BenchmarkSnapshotUnchanged is what a task without changes pays in a small repository. Goal 100 us.
func BenchmarkSnapshotUnchanged(b *testing.B) {
	for _, n := range []int{10, 100, 1000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			r := newBenchRepo(b, n).open()
			for b.Loop() {
				if _, err := r.Snapshot(b.Context()); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkKeep is a commit object and a ref, on the disk.
func BenchmarkKeep(b *testing.B) {
	r := newBenchRepo(b, 10).open()
	tree, err := r.Snapshot(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	n := 0
	for b.Loop() {
		n++
		if _, err := r.Keep(b.Context(), fmt.Sprintf("refs/descartes/l/t/%d", n), tree, nil, "kept"); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkNewContent: the first snapshot of much that is new against `git add -A`, many small files or a few
// large ones. Goal 1.0.
func BenchmarkNewContent(b *testing.B) {
	for _, c := range []struct {
		name        string
		files, size int
	}{{"1000x2KB", 1_000, 2 << 10}, {"10x1MB", 10, 1 << 20}, {"1x16MB", 1, 16 << 20}} {
		b.Run(c.name, func(b *testing.B) {
			mine, gits := newBenchRepo(b, 100), newBenchRepo(b, 100)
			r := mine.open()
			rnd := rand.NewChaCha8([32]byte{1})
			against(b, func(round int) {
				for i := range c.files {
					data := make([]byte, c.size)
					rnd.Read(data)
					text := fmt.Appendf(nil, "%x", data)[:c.size] // compresses to half
					for _, repo := range []*benchRepo{mine, gits} {
						repo.put(fmt.Sprintf("new/%d/%d", i/100, i), text)
					}
				}
			},
				func() {
					if _, err := r.Snapshot(b.Context()); err != nil {
						b.Fatal(err)
					}
				},
				func() { gits.git("add", "-A") })
		})
	}
}

// A slot goes from one attempt to the next: six files changed by an agent, the result taken, the next state brought.
func BenchmarkSlot(b *testing.B) {
	for _, n := range []int{10_000, 50_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			r := newBenchRepo(b, n)
			user := r.open()
			slot, err := user.OpenSlot(b.Context(), SlotOptions{Dir: filepath.Join(b.TempDir(), "1"), Objects: filepath.Join(b.TempDir(), "objects")})
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
				if _, err := slot.Commits(b.Context(), "refs/descartes/bench/1/1"); err != nil {
					b.Fatal(err)
				}
				if err := slot.Prepare(b.Context(), head, tree, false); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
