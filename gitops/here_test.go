package gitops

import (
	"errors"
	"slices"
	"strings"
	"testing"
)

// TestHere: in the user's own folder only what differs is written, protected and ignored files stay, and somebody's
// edit is an error that touches nothing.
func TestHere(t *testing.T) {
	t.Parallel()
	s := newSandbox(t)
	s.sh(slotBase + "; echo list >list; git add list; git commit -qm list; echo changed >list; mkdir empty build; echo o >build/o; touch -d 2020-01-01 a")
	r := s.reopen("list")
	said := ""
	slot, err := r.OpenSlot(t.Context(), SlotOptions{Dir: s.path("../pool/1"), Here: true, Loop: "l",
		Say: func(line string) error { said = line; return nil }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { slot.Close() })
	head := prepare(t, r, slot, "", false)
	s.sh("echo mine >>d/b; echo new >n; git add n; git checkout -q -b side; git commit -qm own")
	tip, err := slot.SetHeadBack(t.Context())
	if ref := "refs/descartes/l/set-back/1"; err != nil || !strings.Contains(said, "left HEAD at the branch side") ||
		!strings.Contains(said, "kept as "+ref+":") || s.git("rev-parse", ref) != tip+"\n" {
		t.Fatalf("set back %v: %q, %v", said, tip, err)
	}
	now, err := slot.Snapshot(t.Context())
	if err == nil {
		err = slot.Settle(t.Context(), now)
	}
	if err != nil {
		t.Fatal(err)
	}
	s.sh("echo theirs >a")
	var edited *EditedError
	if err := slot.Prepare(t.Context(), head, Tree(s.git("rev-parse", "HEAD^{tree}")[:40]), false); !errors.As(err,
		&edited) || !slices.Equal(edited.Paths, []string{"a"}) {
		t.Fatalf("after an edit: %v", err)
	}
	s.sh("test $(cat a) = theirs; test -e n; echo one >a; touch -d 2020-01-01 a")
	prepare(t, r, slot, "", false)
	s.sh("test ! -e n; test $(cat d/b) = two; test $(cat list) = changed; test -d empty; test -e build/o; test $(git symbolic-ref HEAD) = refs/heads/main")
	if got := s.git("status", "--porcelain"); got != " M list\n" {
		t.Errorf("git status: %q", got)
	}
}

// TestHereSparesWhatIsWritten: a protected file that is written while the folder is brought to a state stays as
// written.
func TestHereSparesWhatIsWritten(t *testing.T) {
	t.Parallel()
	s := newSandbox(t)
	s.sh(slotBase + "; echo pending >list; git add list; git commit -qm list")
	s.put("../git", "#!/bin/sh\ncase \"$*\" in *' read-tree --reset -u '*) echo done >list ;; esac\nexec "+gitProgram+
		" \"$@\"\n")
	s.sh("chmod +x ../git")
	r, err := Open(t.Context(), Options{Dir: s.dir, Git: s.path("../git"), Env: s.env, Protect: []string{"list"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	slot, err := r.OpenSlot(t.Context(), SlotOptions{Dir: s.path("../pool/1"), Here: true, Loop: "l",
		Say: func(string) error { return nil }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { slot.Close() })
	prepare(t, r, slot, "", false)
	s.sh("test $(cat list) = done; echo running >list; echo x >a")
	prepare(t, r, slot, "", false)
	s.sh("test $(cat list) = done; test $(cat a) = one")
	if got := s.git("status", "--porcelain"); got != " M list\n" {
		t.Errorf("git status: %q", got)
	}
}

// TestHereAwaitsTheIndex: a git of somebody else's, or of a run that was just killed, still has the index.
func TestHereAwaitsTheIndex(t *testing.T) {
	t.Parallel()
	s := newSandbox(t)
	s.sh(slotBase)
	s.put("../git", "#!/bin/sh\ncase \" $* \" in *' reset -q '*) mkdir ../once 2>/dev/null && { touch .git/index.lock; "+
		"(until test -e ../seen; do sleep 0.01; done; rm .git/index.lock) & };; esac\n"+
		gitProgram+" \"$@\"; code=$?; test -d ../once && touch ../seen; exit $code\n")
	s.sh("chmod +x ../git")
	r, err := Open(t.Context(), Options{Dir: s.dir, Git: s.path("../git"), Env: s.env})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	slot, err := r.OpenSlot(t.Context(), SlotOptions{Dir: s.path("../pool/1"), Here: true, Loop: "l",
		Say: func(string) error { return nil }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { slot.Close() })
	prepare(t, r, slot, "", false)
	s.sh("test -e ../seen")
}
