package gitops

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"descartes/internal/oscall"
	"descartes/internal/proc"
)

// What all processes of a run leave when they are killed at once is cleared by the next; other people's locks stay.
func TestLocksOfAKilledRunAreCleared(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		alive   bool // the run
		briefly bool // a child of the killed run still holds its file
		older   bool // than the run are the locks
		cleared bool
	}{
		"killed":             {cleared: true},
		"alive":              {alive: true},
		"a child dies later": {briefly: true, cleared: true},
		"locks from before":  {older: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, r := start(t)
			if err := r.Close(); err != nil {
				t.Fatal(err)
			}
			presence := ".git/" + ours + "1" + live
			s.put(presence, "running\n")
			if tt.alive || tt.briefly {
				f, err := os.Open(s.path(presence))
				if err != nil {
					t.Fatal(err)
				}
				defer f.Close()
				if err := oscall.Flock(int(f.Fd()), oscall.LOCK_SH); err != nil {
					t.Fatal(err)
				}
				if tt.briefly {
					defer time.AfterFunc(50*time.Millisecond, func() { f.Close() }).Stop()
				}
			}
			locks := []string{".git/index.lock", ".git/refs/heads/main.lock", ".git/refs/descartes/x/1/1.lock",
				".git/packed-refs.lock"}
			for _, l := range locks {
				s.put(l, "")
				if tt.older {
					long := time.Now().Add(-time.Hour)
					if err := os.Chtimes(s.path(l), long, long); err != nil {
						t.Fatal(err)
					}
				}
			}
			next, err := s.open("", "")
			if err != nil {
				t.Fatal(err)
			}
			defer next.Close()
			for _, l := range locks {
				if _, err := os.Lstat(s.path(l)); (err != nil) != tt.cleared {
					t.Errorf("%s: %v", l, err)
				}
			}
			if path, locked := next.Locked(t.Context()); locked == tt.cleared {
				t.Errorf("locked: %q %v", path, locked)
			}
		})
	}
}

// A run shows its presence for as long as it works there, and one that lives keeps the locks.
func TestPresence(t *testing.T) {
	t.Parallel()
	s, r := start(t)
	shown := func() int {
		names, err := filepath.Glob(s.path(".git/" + ours + "*" + live))
		if err != nil {
			t.Fatal(err)
		}
		return len(names)
	}
	if err := r.Claim(); err != nil {
		t.Fatal(err)
	}
	second, err := s.open("", "")
	if err == nil {
		err = second.Claim()
	}
	if err != nil {
		t.Fatal(err)
	}
	s.put(".git/index.lock", "")
	other, err := s.open("", "")
	if err != nil {
		t.Fatal(err)
	}
	if path, locked := other.Locked(t.Context()); !locked || !strings.HasSuffix(path, "index.lock") {
		t.Errorf("while the run lives: %q %v", path, locked)
	}
	if err := other.Close(); err != nil {
		t.Error(err)
	}
	for i, one := range []*Repo{r, second} {
		if n := shown(); n != 2-i {
			t.Errorf("%d runs are shown", n)
		}
		if err := one.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if n := shown(); n != 0 {
		t.Errorf("after both: %d", n)
	}
}

// TestUnreachable: what may pass is told from what does not.
func TestUnreachable(t *testing.T) {
	for said, want := range map[string]bool{
		"fatal: unable to access 'http://127.0.0.1:1/x.git/': Failed to connect to 127.0.0.1 port 1 after 0 ms: Couldn't connect to server": true,
		"ssh: connect to host h port 22: Connection refused\nfatal: Could not read from remote repository.":                                 true,
		"ssh: Could not resolve hostname h: Temporary failure in name resolution":                                                           true,
		"fatal: unable to access 'http://h/': Could not resolve host: h":                                                                    true,
		"error: RPC failed; HTTP 502 curl 22 The requested URL returned error: 502":                                                         true,
		"fatal: the remote end hung up unexpectedly":                                                                                        true,
		"fatal: unable to access 'http://h/': The requested URL returned error: 403":                                                        false,
		"fatal: Authentication failed for 'http://h/'":                                                                                      false,
		"git@h: Permission denied (publickey).\nfatal: Could not read from remote repository.":                                              false,
		" ! [remote rejected] refs/x -> refs/x (pre-receive hook declined)":                                                                 false,
		"fatal: couldn't find remote ref refs/x":                                                                                            false,
		"":                                                                                                                                  false,
	} {
		if got := Unreachable(fmt.Errorf("push: %w", &gitError{"push", 128, said})); got != want {
			t.Errorf("%q: got %v, want %v", said, got, want)
		}
	}
	if Unreachable(nil) || Unreachable(errors.New("connection refused")) {
		t.Error("what git did not say counts")
	}
}

// TestLookersEnd: what git is asked while a run ends is answered, and does not keep it from its end.
func TestLookersEnd(t *testing.T) {
	t.Parallel()
	s := newBase(t, "git tag a")
	r := s.reopen()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := r.cli.run(ctx, gitCall{args: []string{"rev-parse", "a"}}); err != nil {
		t.Errorf("it is not answered: %v", err)
	}
	s.gitScript("exec sleep 600")
	r.cli.program, r.cli.patience = s.path("../git"), 10*time.Millisecond
	_, err := r.cli.run(ctx, gitCall{args: []string{"ls-files"}})
	if _, stopped := errors.AsType[*StoppedError](err); !stopped {
		t.Errorf("got %v", err)
	}
}

// TestBlame: what git says of an attempt's files that is too long to be read is the attempt's fault, and no run's end.
func TestBlame(t *testing.T) {
	t.Parallel()
	s := newBase(t, "git tag a")
	slot, _ := prepared(t, s, s.reopen(".descartes/"))
	err := slot.cli.blame(t.Context(), fmt.Errorf("add: %w", &proc.TooMuchError{Name: "git", Limit: 1}))
	if _, is := errors.AsType[*UnstorableError](err); !is {
		t.Errorf("got %v", err)
	}
}
