package gitops

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

const packAll = "git branch old; git tag -m t v1; git update-ref refs/remotes/origin/main HEAD; git pack-refs --all; "

// What an attempt writes over git's files of refs. Real git has to find its way afterwards.
var damagedRows = []struct {
	name, setup, attempt string
	notes                []string
	keeps                string // refs that there are afterwards besides those of before
}{
	{name: "packed-refs of junk", attempt: "echo x >.git/packed-refs", notes: []string{".git/packed-refs was damaged during the attempt and removed"}},
	{name: "packed-refs without a line's end", attempt: "printf x >.git/packed-refs", notes: []string{"packed-refs was damaged"}},
	{name: "packed-refs overwritten", setup: packAll, attempt: "echo x >.git/packed-refs", notes: []string{".git/packed-refs was damaged during the attempt and put right: 4 refs are back"}},
	{name: "packed-refs emptied", setup: packAll, attempt: ": >.git/packed-refs", notes: []string{"put right: 4 refs are back"}},
	{name: "packed-refs deleted", setup: packAll, attempt: "rm .git/packed-refs", notes: []string{"put right: 4 refs are back"}},
	{name: "packed-refs is a directory", setup: packAll, attempt: "rm .git/packed-refs; mkdir -p .git/packed-refs/x", notes: []string{"put right: 4 refs are back"}},
	{name: "packed-refs is a new directory", attempt: "mkdir .git/packed-refs", notes: []string{"packed-refs was damaged during the attempt and removed"}},
	{name: "packed-refs leads nowhere", setup: packAll, attempt: "ln -sf nowhere .git/packed-refs", notes: []string{"put right: 4 refs are back"}},
	{name: "junk after what was packed", setup: packAll, attempt: "echo x >>.git/packed-refs", notes: []string{".git/packed-refs was damaged during the attempt and put right"}},
	{name: "junk after what the attempt packed", setup: packAll + "git branch two; ", attempt: "git branch mine; git pack-refs --all; echo x >>.git/packed-refs",
		notes: []string{"packed-refs was damaged during the attempt and put right", "branch mine was made"}, keeps: "refs/heads/mine"},
	{name: "all packed by the attempt and lost", setup: "git branch old; git tag v1", attempt: "git pack-refs --all; echo x >.git/packed-refs", notes: []string{"put right: 3 refs are back"}},
	{name: "packed ref to no object", setup: packAll, attempt: "echo 1234567890123456789012345678901234567890 refs/heads/none >>.git/packed-refs", notes: []string{"packed-refs was damaged"}},
	{name: "packed ref of no name", setup: packAll, attempt: "echo $(git rev-parse HEAD) refs/heads/a..b >>.git/packed-refs", notes: []string{"packed-refs was damaged"}},
	{name: "gc", setup: packAll, attempt: "git commit -q --allow-empty -m 2; git reset -q --hard HEAD~1; git branch mine; git gc -q --prune=now", notes: []string{"branch mine was made"}, keeps: "refs/heads/mine"},
	{name: "new branch of junk", attempt: "echo junk >.git/refs/heads/x", notes: []string{"branch x was damaged during the attempt and removed"}},
	{name: "new tag to no object", attempt: "mkdir -p .git/refs/tags/a; echo 1234567890123456789012345678901234567890 >.git/refs/tags/a/b", notes: []string{"tag a/b was damaged during the attempt and removed"}},
	{name: "new empty branch", attempt: ": >.git/refs/heads/x", notes: []string{"branch x was damaged during the attempt and removed"}},
	{name: "branch overwritten", setup: "git branch old", attempt: "echo junk >.git/refs/heads/old", notes: []string{"branch old was damaged during the attempt and put back at"}},
	{name: "packed branch overwritten", setup: packAll, attempt: "echo junk >.git/refs/heads/old", notes: []string{"branch old was damaged during the attempt and put back at"}},
	{name: "stash overwritten", setup: "echo 2 >>f; git stash -q", attempt: "echo junk >.git/refs/stash", notes: []string{"refs/stash was damaged during the attempt and put back at"}},
	{name: "the current branch overwritten", attempt: "echo junk >.git/refs/heads/main", notes: []string{"branch main was damaged during the attempt and put back at"}},
	{name: "everything", setup: packAll + "git branch two; ", attempt: "for f in HEAD packed-refs refs/heads/main refs/heads/old refs/heads/two refs/heads/x; do echo junk >.git/$f; done",
		notes: []string{"put right: 4 refs are back", "branch main was damaged", "branch old was damaged", "branch two was damaged", "branch x was damaged", "HEAD was damaged"}},
}

func TestRepairDamagedRefs(t *testing.T) {
	t.Parallel()
	for _, tt := range damagedRows {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := newTwin(t, &scenario{setup: tt.setup})
			r, err := s.open("", gitProgram(t))
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			g, err := r.Guard(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			before := refValues(s)
			s.sh(tt.attempt)
			repaired, err := g.Repair(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if !matchNotes(repaired.Notes, tt.notes) {
				t.Errorf("got notes %q, want %q", repaired.Notes, tt.notes)
			}
			checkRefs(t, s, before, tt.keeps)
			if again, err := g.Repair(t.Context()); err != nil || again.Commits != "" || len(again.Notes) > 0 {
				t.Errorf("repaired again: %+v, %v", again, err)
			}
		})
	}
}

// What git packed itself is not touched, not even its time.
func TestRepairLeavesWhatGitPacked(t *testing.T) {
	t.Parallel()
	s := newTwin(t, &scenario{setup: packAll})
	r, err := s.open("", gitProgram(t))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	g, err := r.Guard(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	s.sh("git branch mine; git update-ref -d refs/remotes/origin/main; git gc -q")
	was, err := stampOf(s.path(".git/packed-refs"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := g.Repair(t.Context()); err != nil {
		t.Fatal(err)
	}
	if now, err := stampOf(s.path(".git/packed-refs")); err != nil || now != was {
		t.Errorf("packed-refs was written: %+v, %v", now, err)
	}
}

// A killed run's attempt is repaired by the next run from what is left: the copy of packed-refs, and the logs of the refs.
func TestGuardSinceOfDamagedRefs(t *testing.T) {
	t.Parallel()
	for name, setup := range map[string]string{"packed": packAll + "git branch two; ", "nothing packed": "git branch old; git branch two; ", "by git": bothWays[1].setup + packAll + "git branch two; "} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newTwin(t, &scenario{setup: setup})
			dead, err := s.open("", gitProgram(t))
			if err != nil {
				t.Fatal(err)
			}
			began := time.Now()
			g, err := dead.Guard(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			before := refValues(s)
			s.sh("for f in packed-refs refs/heads/main refs/heads/old refs/heads/two refs/heads/x; do echo junk >.git/$f; done")
			next, err := s.open("", gitProgram(t))
			if err != nil {
				t.Fatal(err)
			}
			if g, err = next.GuardSince(t.Context(), g.Head(), nil, began, time.Now()); err != nil {
				t.Fatal(err)
			}
			repaired, err := g.Repair(t.Context())
			if want := []string{"packed-refs was damaged", "branch main was damaged", "branch old was damaged", "branch two was damaged", "branch x was damaged"}; err != nil || !matchNotes(repaired.Notes, want) {
				t.Errorf("got notes %q, %v", repaired.Notes, err)
			}
			checkRefs(t, s, before, "")
			if err := next.DropGuard(); err != nil {
				t.Error(err)
			}
			for _, r := range []*Repo{dead, next} {
				if err := r.Close(); err != nil {
					t.Error(err)
				}
			}
			if left, err := filepath.Glob(s.path(".git/descartes-*")); err != nil || len(left) > 0 {
				t.Errorf("left: %q %v", left, err)
			}
		})
	}
}

// The copy of packed-refs is written once for each change.
func TestGuardCopiesPackedRefsOnce(t *testing.T) {
	t.Parallel()
	s := newTwin(t, &scenario{setup: packAll})
	r, err := s.open("", "")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	var was os.FileInfo
	for i := range 2 {
		r.marked = groundMark{}
		if _, err := r.Guard(t.Context()); err != nil {
			t.Fatal(err)
		}
		now, err := os.Stat(r.keptPacked())
		if err != nil || i > 0 && !os.SameFile(was, now) {
			t.Fatalf("look %d: %v, %v", i, now, err)
		}
		was = now
	}
	s.sh("git branch more; git pack-refs --all")
	if _, err := r.Guard(t.Context()); err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(r.keptPacked()); err != nil || !strings.Contains(string(b), "refs/heads/more") {
		t.Errorf("the copy is old: %s, %v", b, err)
	}
}

func refValues(s *sandbox) []string {
	return strings.Split(strings.TrimSpace(s.git("for-each-ref", "--format=%(refname) %(objectname)")), "\n")
}

func checkRefs(t *testing.T, s *sandbox, before []string, keeps string) {
	t.Helper()
	now := refValues(s)
	var more []string
	for _, line := range without(now, before) {
		name, _, _ := strings.Cut(line, " ")
		more = append(more, name)
	}
	if fewer := without(before, now); strings.Join(more, " ") != keeps || len(fewer) > 0 {
		t.Errorf("refs more %q, fewer %q, want %q", more, fewer, keeps)
	}
	s.git("fsck", "--strict")
	s.git("status")
	if _, warned := s.tryGit("symbolic-ref", "HEAD"); warned != 0 {
		t.Error("HEAD is no branch")
	}
}
