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
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"
)

func TestObjectsAreReadByGitAndBack(t *testing.T) {
	t.Parallel()
	s, r := start(t)
	random := make([]byte, 100_000)
	rand.Read(random)
	for _, data := range [][]byte{nil, []byte("x"), bytes.Repeat([]byte("a"), 5000), random, bytes.Repeat([]byte("long text\n"), 50_000)} {
		id, err := r.store.put(kindBlob, data)
		if err != nil {
			t.Fatal(err)
		}
		if got := s.git("cat-file", "blob", id.String()); got != string(data) {
			t.Errorf("git reads %d bytes of %d", len(got), len(data))
		}
		got, err := r.store.read(id, kindBlob)
		if err != nil || !bytes.Equal(got, data) {
			t.Errorf("own reader: %d bytes of %d, %v", len(got), len(data), err)
		}
	}
	if err := r.store.writeOut(); err != nil {
		t.Error(err)
	}
	for _, p := range strings.Fields(func() string {
		s.sh("find .git/objects -name 'tmp_*' >../left")
		b, _ := os.ReadFile(s.path("../left"))
		return string(b)
	}()) {
		t.Errorf("left behind: %s", p)
	}
	s.check()
}

func TestPackedAndBorrowedObjectsAreRead(t *testing.T) {
	t.Parallel()
	s, r := start(t)
	first := snap(t, r)
	s.sh("echo two >f")
	second := snap(t, r)
	if err := r.Pin(t.Context(), "refs/descartes/l/1/base", second); err != nil {
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
	borrower := newObjectStore(s.path("../borrower/.git"))
	id, _ := parseID(strings.TrimSpace(s.git("rev-parse", "HEAD")))
	if _, err := borrower.read(id, kindCommit); err != nil {
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
	for _, b := range [][]byte{nil, whole[:len(whole)/2], []byte("rubbish"), deflated("commit x\x00"), deflated("commit -1\x00"),
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

// A blob that ends early, or became another, leaves nothing that git would call damaged.
func TestStreamThatIsNotWhatItsNameSays(t *testing.T) {
	t.Parallel()
	s, r := start(t)
	id := hashObject(kindBlob, []byte("whole\n"))
	for _, content := range []string{"who", "other\n", ""} {
		if err := r.store.stream(id, kindBlob, strings.NewReader(content), 6); err != errChanged {
			t.Errorf("%q: got %v, want %v", content, err, errChanged)
		}
		if r.store.has(id) {
			t.Errorf("%q: %s is there", content, id)
		}
	}
	s.git("fsck", "--strict")
	s.sh("test -z \"$(find .git/objects -name 'tmp_*')\"")
}

// A power cut leaves an empty file of an object that was renamed into place before its bytes were on the disk.
func TestEmptyObjectIsWrittenAgain(t *testing.T) {
	t.Parallel()
	s, r := start(t)
	id, err := r.store.put(kindBlob, []byte("kept\n"))
	if err != nil {
		t.Fatal(err)
	}
	s.sh("chmod u+w " + r.store.path(id) + "; : >" + r.store.path(id))
	if _, err := r.store.put(kindBlob, []byte("kept\n")); err != nil {
		t.Fatal(err)
	}
	if got := s.git("cat-file", "blob", id.String()); got != "kept\n" {
		t.Errorf("git reads %q", got)
	}
}

// zeros yields n bytes without holding them.
type zeros int64

func (z *zeros) Read(p []byte) (int, error) {
	if *z == 0 {
		return 0, io.EOF
	}
	n := min(int64(len(p)), int64(*z))
	clear(p[:n])
	*z -= zeros(n)
	return int(n), nil
}

func TestLargeFilesAreStreamed(t *testing.T) {
	s, r := start(t) // not parallel: it looks at the memory of the process
	before := snap(t, r)
	f, err := os.Create(s.path("large"))
	if err != nil {
		t.Fatal(err)
	}
	z := zeros(96 << 20)
	if _, err := io.Copy(f, &z); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	var m0, m1 runtime.MemStats
	runtime.ReadMemStats(&m0)
	tree := snap(t, r)
	runtime.ReadMemStats(&m1)
	if used := int64(m1.TotalAlloc - m0.TotalAlloc); used > 16<<20 {
		t.Errorf("a snapshot of 96 MiB allocated %d MiB", used>>20)
	}
	if want := s.gitTree(); string(tree) != want {
		t.Errorf("tree %s, git makes %s", tree, want)
	}
	restore(t, s, before)
	runtime.ReadMemStats(&m0)
	restore(t, s, tree)
	runtime.ReadMemStats(&m1)
	if used := int64(m1.TotalAlloc - m0.TotalAlloc); used > 16<<20 {
		t.Errorf("restoring 96 MiB allocated %d MiB", used>>20)
	}
	s.sh("test $(stat -c %s large) = 100663296")
}

// Objects are written while git gc, started by the user's own git, removes empty folders.
func TestObjectsAreWrittenBesideAGC(t *testing.T) {
	t.Parallel()
	s, r := start(t)
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-stop:
				return
			default:
			}
			dirs, _ := filepath.Glob(s.path(".git/objects/??"))
			for _, d := range dirs {
				_ = os.Remove(d) // only where it is empty
			}
		}
	}()
	for i := range 200 {
		if _, err := r.store.put(kindBlob, []byte(strconv.Itoa(i))); err != nil {
			t.Fatal(err)
		}
	}
	close(stop)
	<-done
	s.git("fsck", "--strict")
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
	for _, other := range []string{"", "1 elsewhere", fmt.Sprint(os.Getpid(), " ", host), "99999999 " + host, "x " + host} {
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
