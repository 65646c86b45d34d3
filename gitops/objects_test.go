package gitops

import (
	"bytes"
	"compress/zlib"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestObjectsAreReadAsGitHasThem(t *testing.T) {
	t.Parallel()
	_, r := start(t)
	random := make([]byte, 100_000)
	rand.Read(random)
	for _, data := range [][]byte{nil, []byte("x"), []byte("a\n"), random,
		bytes.Repeat([]byte("long text\n"), 2<<20)} {
		id, err := r.put(t.Context(), "blob", data)
		if err != nil {
			t.Fatal(err)
		}
		for _, limit := range []int64{most, int64(len(data)) - 1} {
			f, err := r.objects.read(id, limit)
			if err != nil || f.kind != "blob" || f.size != int64(len(data)) || limit == most &&
				!bytes.Equal(f.data, data) || limit != most && f.data != nil {
				t.Errorf("%d bytes, at most %d: got %s of %d, %d bytes, %v", len(data), limit, f.kind, f.size,
					len(f.data), err)
			}
		}
	}
	if _, err := r.objects.readAs(strings.Repeat("7", 40), "blob"); err == nil {
		t.Error("an object that is not there")
	}
	if _, err := r.objects.readAs("HEAD", "commit"); err == nil {
		t.Error("HEAD is no object's name")
	}
}

func TestPackedAndBorrowedObjectsAreRead(t *testing.T) {
	t.Parallel()
	s, r := start(t)
	first := snap(t, r)
	s.sh("echo two >f")
	second := snap(t, r)
	if _, err := r.Keep(t.Context(), "refs/descartes/l/1/base", second, nil, "snapshot"); err != nil {
		t.Fatal(err)
	}
	s.git("gc", "-q", "--prune=now")
	s.sh("test -z \"$(find .git/objects -name '??' -type d)\"; git pack-refs --all")
	fresh := s.reopen()
	for _, r := range []*Repo{r, fresh} {
		changes, err := r.Changed(t.Context(), first, second)
		if err != nil || len(changes) != 1 {
			t.Errorf("changed: %v, %v", changes, err)
		}
		restore(t, s, first)
		if b, err := os.ReadFile(s.path("f")); string(b) != "one\n" {
			t.Errorf("f is %q, %v", b, err)
		}
	}
	s.sh("git clone -q --shared . ../borrower")
	borrower := &sandbox{t: t, home: s.home, dir: s.path("../borrower"), env: s.env}
	if _, err := borrower.reopen().HeadTree(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestDamagedObjectsAreErrors(t *testing.T) {
	t.Parallel()
	s, r := start(t)
	hash := strings.TrimSpace(s.git("rev-parse", "HEAD"))
	file := s.path(".git/objects/" + hash[:2] + "/" + hash[2:])
	whole, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range [][]byte{nil, whole[:len(whole)/2], []byte("rubbish"), deflated("commit x\x00"),
		deflated("commit -1\x00"),
		deflated("commit 99\x00short"), deflated(strings.Repeat("c", 100)), deflated("tree 0\x00")} {
		if err := errors.Join(os.Remove(file), os.WriteFile(file, b, 0o666)); err != nil {
			t.Fatal(err)
		}
		if tree, err := r.HeadTree(t.Context()); err == nil {
			t.Errorf("%q: HEAD's tree is %s", b, tree)
		}
	}
}

func deflated(s string) []byte {
	var b bytes.Buffer
	z := zlib.NewWriter(&b)
	_, _ = io.WriteString(z, s) // into memory
	_ = z.Close()
	return b.Bytes()
}

// While git gc is at work nothing is stored that it could take for garbage.
func TestAwaitGC(t *testing.T) {
	t.Parallel()
	s, r := start(t)
	gc := exec.Command("git", "cat-file", "--batch")
	gc.Dir = s.path(".")
	in, err := gc.StdinPipe()
	if err == nil {
		err = gc.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	host, _ := os.Hostname()
	write := func(text string) {
		if err := os.WriteFile(s.path(".git/gc.pid"), []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	for _, other := range []string{"", "1 elsewhere", fmt.Sprint(os.Getpid(), " ", host), "99999999 " + host,
		"x " + host} {
		write(other)
		snap(t, r) // waits for none of them
	}
	tree := snap(t, r)
	write(fmt.Sprint(gc.Process.Pid, " ", host))
	ctx, stop := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer stop()
	r.AwaitGC(ctx)
	if ctx.Err() == nil {
		t.Error("did not wait")
	}
	ctx, stop = context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer stop()
	if _, err := r.Keep(ctx, "refs/descartes/kept", tree, nil, "kept"); err == nil {
		t.Error("a commit is kept while git gc may delete it")
	}
	ended := make(chan error)
	go func() { _, err := r.Snapshot(t.Context()); ended <- err }()
	in.Close()
	_ = gc.Wait()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// A commit that a git gc deletes before or after its ref was set is there in the end: that gc had looked for refs before.
func TestNamedAgain(t *testing.T) {
	t.Parallel()
	s, r := start(t)
	tree, names := snap(t, r), 0
	link := Link{Tree: tree, Message: "kept", When: time.Unix(1, 0)}
	for _, before := range []bool{true, false} {
		put := func() (string, error) { return r.Link(t.Context(), "", link) }
		deleted := false
		got, err := r.named(t.Context(), put, func(hash string) error {
			names++
			object := s.path(".git/objects/" + hash[:2] + "/" + hash[2:])
			if before && !deleted {
				deleted = true
				_ = os.Remove(object) // its ref cannot be set then
			}
			err := r.SetRef(t.Context(), "refs/descartes/kept", hash, "kept")
			if !before {
				_ = os.Remove(object)
			}
			return err
		})
		if err != nil || strings.TrimSpace(s.git("rev-parse", "refs/descartes/kept^{commit}")) != got {
			t.Errorf("deleted before its ref: %v: %s, %v", before, got, err)
		}
	}
	if names != 3 {
		t.Errorf("named %d times", names)
	}
}

// A trailer names a task whole, with its tag: no other tag's, whatever slashes the two have.
func TestNamedTasks(t *testing.T) {
	t.Parallel()
	for _, n := range []Named{{"x", "", "1"}, {"x", "", "12"}, {"a", "", "b/1"}, {"a/b", "", "1"}, {"x", "", "50%"},
		{"x", "", "%2F"}, {"é f", "", "a b"}, {"a", "more/plan.md", "1"}} {
		c := ChainLink{Trailers: trailers("subject\n\n" + n.Trailer() + "\n" + n.Place())}
		if got := c.Tasks(); len(got) != 1 || got[0] != n {
			t.Errorf("%q: got %v", n.Trailer(), got)
		}
		if got := c.TasksOf("a"); (len(got) == 1) != (n.Tag == "a") {
			t.Errorf("%q: of a: %v", n.Trailer(), got)
		}
	}
	old := ChainLink{Trailers: trailers("subject\n\nDescartes-Task: 7\n")}
	if got := old.Tasks(); len(got) != 1 || got[0] != (Named{Task: "7"}) || !slices.Equal(old.TasksOf("a"), []string{"7"}) {
		t.Errorf("of an earlier version: %v", got)
	}
}
