package gitops

import (
	"errors"
	"regexp"
	"strings"
	"testing"
	"time"
)

const packAll = "git branch old; git tag -m t v1; git update-ref refs/remotes/origin/main HEAD; git pack-refs --all; "

// What an attempt writes over git's files of refs ends the run, where git cannot read it any more, with a way out: who
// goes it has all refs of before. What git can read is repaired.
var damagedRows = []struct {
	name, setup, attempt string
	refused              string // the reason, or part of it
	notes                []string
	keeps                string // refs that there are afterwards besides those of before
}{
	{name: "packed-refs of junk", attempt: "echo x >.git/packed-refs", refused: "git cannot read the refs of the repository: unexpected line in"},
	{name: "packed-refs without a line's end", attempt: "printf x >.git/packed-refs", refused: "git cannot read the refs"},
	{name: "packed-refs overwritten", setup: packAll, attempt: "echo x >.git/packed-refs", refused: "git cannot read the refs"},
	{name: "packed-refs emptied", setup: packAll, attempt: ": >.git/packed-refs", notes: []string{"branch main went from", "branch old was deleted", "origin/main was deleted", "tag v1 was deleted"}},
	{name: "packed-refs deleted", setup: packAll, attempt: "rm .git/packed-refs", notes: []string{"branch main went from", "branch old was deleted", "origin/main was deleted", "tag v1 was deleted"}},
	{name: "packed-refs is a directory", setup: packAll, attempt: "rm .git/packed-refs; mkdir -p .git/packed-refs/x", refused: "git cannot read the refs"},
	{name: "packed-refs is a FIFO", setup: packAll, attempt: "rm .git/packed-refs; mkfifo .git/packed-refs", refused: ".git/packed-refs is a link, a FIFO or a device"},
	{name: "packed-refs leads nowhere", setup: packAll, attempt: "ln -sf nowhere .git/packed-refs", refused: ".git/packed-refs is a link"},
	{name: "junk after what was packed", setup: packAll, attempt: "echo x >>.git/packed-refs", refused: "git cannot read the refs"},
	{name: "all packed by the attempt and lost", setup: "git branch old; git tag v1", attempt: "git pack-refs --all; echo x >.git/packed-refs", refused: "git cannot read the refs"},
	{name: "packed ref to no object", setup: packAll, attempt: "sed -i '/refs.heads.old/i 1234567890123456789012345678901234567890 refs/heads/none' .git/packed-refs", refused: "objects are not in the repository: branch none (123456789012)"},
	{name: "packed ref of no name", setup: packAll, attempt: "sed -i \"/refs.heads.main/i $(git rev-parse HEAD) refs/heads/a..b\" .git/packed-refs", refused: "git cannot read what the attempt made of refs/heads/a..b"},
	{name: "gc", setup: packAll, attempt: "git commit -q --allow-empty -m 2; git reset -q --hard HEAD~1; git branch mine; git gc -q --prune=now", notes: []string{"branch mine was made"}, keeps: "refs/heads/mine"},
	{name: "new branch of junk", attempt: "echo junk >.git/refs/heads/x", refused: "made of refs/heads/x"},
	{name: "new tag to no object", attempt: "mkdir -p .git/refs/tags/a; echo 1234567890123456789012345678901234567890 >.git/refs/tags/a/b", refused: "not in the repository: tag a/b"},
	{name: "new empty branch", attempt: ": >.git/refs/heads/x", refused: "made of refs/heads/x"},
	{name: "new branch is a FIFO", attempt: "mkfifo .git/refs/heads/x", refused: ".git/refs/heads/x is a link, a FIFO or a device"},
	{name: "new branch is a large file", attempt: "truncate -s 8G .git/refs/heads/x", refused: "/refs/heads/x is not a regular file of ordinary size"},
	{name: "branch overwritten", setup: "git branch old", attempt: "echo junk >.git/refs/heads/old", refused: "made of refs/heads/old"},
	{name: "packed branch overwritten", setup: packAll, attempt: "echo junk >.git/refs/heads/old", refused: "made of refs/heads/old"},
	{name: "stash overwritten", setup: "echo 2 >>f; git stash -q", attempt: "echo junk >.git/refs/stash", refused: "made of refs/stash"},
	{name: "the current branch overwritten", attempt: "echo junk >.git/refs/heads/main", refused: "made of refs/heads/main"},
	{name: "several", setup: packAll + "git branch two; ", attempt: "for f in refs/heads/main refs/heads/old refs/heads/two refs/heads/x; do echo junk >.git/$f; done",
		refused: "made of refs/heads/main, refs/heads/old, refs/heads/two, refs/heads/x"},
	{name: "HEAD of junk", attempt: "echo junk >.git/HEAD", refused: "the attempt damaged .git/HEAD"},
	{name: "HEAD is a FIFO", attempt: "rm .git/HEAD; mkfifo .git/HEAD", refused: "the attempt damaged .git/HEAD"},
	{name: "HEAD is a large file", attempt: "truncate -s 8G .git/HEAD", refused: "the attempt damaged .git/HEAD"},
	{name: "branch renamed below itself", attempt: "git branch -m main main/login", refused: "cannot put back the refs that the attempt changed: cannot lock ref 'refs/heads/main'", keeps: "refs/heads/aside",
		notes: []string{"branch aside was checked out; switched back to branch main", "branch aside was made"}},
	{name: "branch replaced by a folder", setup: "git branch feature", attempt: "git branch -D feature; git branch feature/login", refused: "cannot put back the refs", keeps: "refs/heads/aside", notes: []string{"branch aside was made"}},
	{name: "branch in the place of a folder", setup: "git branch feature/login; git branch feature/x; git pack-refs --all", attempt: "git branch -D feature/login feature/x; git branch feature; git pack-refs --all", refused: "cannot put back the refs",
		keeps: "refs/heads/aside", notes: []string{"branch aside was made"}},
	{name: "an object is replaced", attempt: "git replace -f $(git rev-parse HEAD) $(git commit-tree -m x HEAD^{tree})", refused: "which shows another object in the place of one"},
	{name: "HEAD's log leads elsewhere", attempt: "rm -f .git/logs/HEAD; ln -s ~/.gitconfig .git/logs/HEAD", refused: ".git/logs/HEAD is a link, a FIFO or a device"},
	{name: "the branch's log leads elsewhere", attempt: "rm -rf .git/logs/refs/heads; ln -s ~ .git/logs/refs/heads", refused: ".git/logs/refs/heads is a link"},
	{name: "HEAD's log is a FIFO", attempt: "rm -f .git/logs/HEAD; mkfifo .git/logs/HEAD", refused: ".git/logs/HEAD is a link, a FIFO"},
	{name: "shallow of junk", attempt: "echo junk >.git/shallow", refused: "the attempt cut the history: .git/shallow has changed"},
	{name: "shallow is a FIFO", attempt: "mkfifo .git/shallow", refused: "the attempt cut the history"},
	{name: "shallow leads elsewhere", attempt: "ln -s ~/.gitconfig .git/shallow", refused: "the attempt cut the history"},
	{name: "history cut", setup: "git commit -qm2 --allow-empty", attempt: "git rev-parse HEAD >.git/shallow", refused: "the attempt cut the history"},
	{name: "history cut by a fetch", setup: "git commit -qm2 --allow-empty; git clone -q file://$PWD ../c; git -C ../c commit -q --allow-empty -m3", attempt: "git fetch -q --depth 1 file://$PWD/../c main", refused: "the attempt cut the history"},
	{name: "shallow deleted", setup: "git commit -qm2 --allow-empty; git clone -q --depth 1 file://$PWD ../c; rm -rf .git; mv ../c/.git .", attempt: "rm .git/shallow", refused: "the attempt cut the history"},
}

func TestRepairRefusesDamagedRefs(t *testing.T) {
	t.Parallel()
	for _, tt := range damagedRows {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := newTwin(t, &scenario{setup: tt.setup + "\ngit update-ref refs/descartes/l/1/1 HEAD; git pack-refs"})
			r, err := s.open("", gitProgram(t))
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			g, err := r.Guard(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			before, tree := allRefs(s), files(t, s.dir)
			s.sh(tt.attempt)
			config := !strings.Contains(tt.name, "HEAD ") && tt.name != "shallow is a FIFO" // where git does not fail, or wait
			if config {
				s.sh("git config x.y z")
			}
			repaired, err := g.Repair(t.Context())
			if tt.refused != "" {
				takeWayOut(t, s, err, tt.refused)
				var more Repaired
				more, err = g.Repair(t.Context())
				repaired.Notes = append(repaired.Notes, more.Notes...)
			}
			if err != nil {
				t.Fatal(err)
			}
			want := tt.notes
			if config {
				want = append([]string{".git/config was changed"}, want...)
			}
			if !matchNotes(repaired.Notes, want) {
				t.Errorf("got notes %q, want %q", repaired.Notes, want)
			}
			if diff := diffFiles(tree, files(t, s.dir)); diff != "" {
				t.Errorf("the working tree changed: %s", diff)
			}
			checkRefs(t, s, before, tt.keeps)
			if again, err := g.Repair(t.Context()); err != nil || again.Commits != "" || len(again.Notes) > 0 {
				t.Errorf("repaired again: %+v, %v", again, err)
			}
		})
	}
}

// takeWayOut does what the hint of a refusal says.
func takeWayOut(t *testing.T, s *sandbox, err error, reason string) {
	t.Helper()
	var refused *RefusedError
	if !errors.As(err, &refused) || !strings.Contains(refused.Reason, reason) {
		t.Fatalf("got %v, want a refusal: %s", err, reason)
	}
	hint := refused.Hint
	switch {
	case strings.HasPrefix(hint, "fetch what is missing"):
		s.sh("git update-ref -d refs/heads/none || true; rm -f .git/refs/tags/a/b")
	case strings.HasPrefix(hint, "rename a branch"):
		s.sh("for b in main/login feature/login feature; do ! git show-ref -q --verify refs/heads/$b || git branch -m $b aside; done")
	}
	if strings.HasPrefix(hint, "delete the line of") {
		s.sh("sed -i '/a[.][.]b/d' .git/packed-refs")
	}
	for _, command := range regexp.MustCompile(`^(rm|mv|git replace) [^;]*|git update-ref --stdin <\S+`).FindAllString(hint, -1) {
		s.sh(command)
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
	s.sh("git branch mine; git gc -q")
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

// After a killed run the refs are as they stand: the way out leads back to those of before, and what is gone is told of.
func TestRefsOfAKilledRun(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, setup, attempt, refused, notes string }{
		{"packed", packAll, "echo junk >.git/packed-refs", "git cannot read the refs", ""},
		{"loose", packAll + "git branch two; ", "echo junk >.git/refs/heads/two; echo junk >.git/refs/heads/x", "made of refs/heads/two, refs/heads/x", ""},
		{"deleted", packAll, "git branch -qD old", "", "branch old, at "},
		{"by git", bothWays[1].setup + packAll, "echo junk >.git/packed-refs", "git cannot read the refs", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := newTwin(t, &scenario{setup: tt.setup})
			dead, err := s.open("", gitProgram(t))
			if err != nil {
				t.Fatal(err)
			}
			defer dead.Close()
			began := time.Now()
			g, err := dead.Guard(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			before, head, kept := allRefs(s), g.Head(), g.Settings()
			s.sh(tt.attempt)
			next, err := s.open("", gitProgram(t))
			if err != nil {
				t.Fatal(err)
			}
			defer next.Close()
			repair := func() (done Repaired, err error) {
				if g, err = next.GuardSince(t.Context(), head, kept, began, time.Now()); err == nil {
					done, err = g.Repair(t.Context())
				}
				return done, err
			}
			done, err := repair()
			if tt.refused != "" {
				takeWayOut(t, s, err, tt.refused)
				done, err = repair()
			}
			if err != nil || len(done.Notes) > 1 || !strings.HasPrefix(strings.Join(done.Notes, ""), tt.notes) {
				t.Errorf("got notes %q, %v", done.Notes, err)
			}
			if tt.notes != "" {
				_, command, _ := strings.Cut(done.Notes[0], "is gone: ")
				s.sh(strings.TrimSuffix(command, " brings it back"))
			}
			checkRefs(t, s, before, "")
		})
	}
}

func allRefs(s *sandbox) []string {
	return strings.Split(strings.TrimSpace(s.git("for-each-ref", "--format=%(refname) %(objectname)")), "\n")
}

func checkRefs(t *testing.T, s *sandbox, before []string, keeps string) {
	t.Helper()
	now := allRefs(s)
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
