package gitops

import (
	"context"
	"errors"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// What no commit can hold is left out of a snapshot and named; a restore removes what the attempt made of it.
func TestLeftOut(t *testing.T) {
	t.Parallel()
	for _, way := range bothWays[:2] {
		t.Run(way.name, func(t *testing.T) {
			t.Parallel()
			s, r := openBothWays(t, way.setup, "mkdir -p old/.GIT; echo mine >old/.GIT/x")
			for info, err := r.statBelow("old/.GIT/x"); err == nil && !olderThan(info, Now()); {
				runtime.Gosched()
			}
			base, began := mustSnapshot(t, r), Now()
			s.sh("mkdir -p 'x/.git '; echo 1 >'x/.git /config'; echo 1 >git~1; echo 2 >new")
			makeDeep(t, s.dir)
			want := []string{"git~1", "x/.git /config"}
			if way.setup == "" {
				s.sh("truncate -s 20G huge") // git would read it, however long that takes
				want = []string{"git~1", "huge", "x/.git /"}
			}
			if os.Geteuid() != 0 {
				s.sh("echo 3 >closed; chmod 0 closed; chmod 0 f")
				want = append(want, "closed", "f")
			}
			result := mustSnapshot(t, r)
			recent, old := r.LeftOut(began)
			var got []string
			for _, x := range recent {
				got = append(got, x.Path)
			}
			slices.Sort(want)
			if !slices.Equal(got, want) || len(old) == 0 || !strings.HasPrefix(old[len(old)-1].Path, "old/.GIT/") {
				t.Errorf("left out %q and before %v, want %q", got, old, want)
			}
			if got := s.git("diff", "--name-only", string(base), string(result)); got != "new\n" {
				t.Errorf("the snapshot adds\n%s", got)
			}
			done, err := r.Restore(t.Context(), base, began)
			if err != nil {
				t.Fatal(err)
			}
			s.sh("test -f old/.GIT/x; test ! -e new; test ! -e huge; test ! -e git~1; test ! -e closed; test \"$(cat f)\" = one")
			if now := mustSnapshot(t, r); now != base {
				t.Errorf("restored %+v: the next snapshot is %s, not %s", done, now, base)
			}
		})
	}
}

// makeDeep makes a chain of directories with a file at its end, longer than a path may be.
func makeDeep(t *testing.T, dir string) {
	t.Helper()
	fd, err := unix.Open(dir, openDirFlags, 0)
	for range 50 {
		if err == nil {
			name := strings.Repeat("d", 100)
			err = unix.Mkdirat(fd, name, 0o777)
			at := fd
			fd, _ = unix.Openat(at, name, openDirFlags, 0)
			unix.Close(at)
		}
	}
	if err == nil {
		at := fd
		fd, err = unix.Openat(at, "f", unix.O_CREAT|unix.O_WRONLY, 0o666)
		unix.Close(at)
		unix.Close(fd)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// A file that is appended to while it is read is taken as far as it was read.
func TestFileThatGrows(t *testing.T) {
	t.Parallel()
	for _, way := range bothWays[:2] {
		t.Run(way.name, func(t *testing.T) {
			t.Parallel()
			s, r := openBothWays(t, way.setup, "")
			f, err := os.Create(s.path("server.out"))
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			stop, done := make(chan struct{}), make(chan struct{})
			go func() {
				defer close(done)
				for n := 0; ; n++ {
					select {
					case <-stop:
						return
					default:
						if n < 1<<20 {
							f.WriteString("another line of it\n")
						}
					}
				}
			}()
			_, err = r.Snapshot(t.Context())
			left, _ := r.LeftOut(time.Time{})
			close(stop)
			<-done
			if err != nil || len(left) > 0 {
				t.Errorf("left out %v, %v", left, err)
			}
			if got, want := string(mustSnapshot(t, r)), s.gitTree(); got != want {
				t.Errorf("tree %s afterwards, git makes %s", got, want)
			}
		})
	}
}

// A file that takes long to read is given up with the run.
func TestLargeFileIsGivenUp(t *testing.T) {
	t.Parallel()
	s, r := start(t)
	snap(t, r)
	s.sh("truncate -s 4G large")
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := r.Snapshot(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v, want the deadline", err)
	}
	s.sh("rm large; echo 2 >f")
	snap(t, r)
	s.check()
}

// A file is never stamped with an earlier time than Now said before it was made.
func TestNow(t *testing.T) {
	t.Parallel()
	path := t.TempDir() + "/f"
	for range 2000 {
		before := Now()
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		st, err := stampOf(path)
		if err != nil || time.Unix(st.ctime.Unix()).Before(before) {
			t.Fatalf("stamped %v, %v, made after %v", time.Unix(st.ctime.Unix()), err, before)
		}
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
}
