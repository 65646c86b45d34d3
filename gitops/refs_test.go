package gitops

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

func TestKeepRefsDelete(t *testing.T) {
	t.Parallel()
	s, r := start(t)
	ctx := t.Context()
	tree := snap(t, r)
	head, err := r.Head(ctx)
	if err != nil || head.Branch != "refs/heads/main" || head.Hash != strings.TrimSpace(s.git("rev-parse", "HEAD")) {
		t.Fatalf("head %+v, %v", head, err)
	}
	hash, err := r.Keep(ctx, "refs/descartes/loop/1/1", tree, []string{head.Hash}, "attempt 1 of task 1\n\nverified")
	if err != nil {
		t.Fatal(err)
	}
	s.sh("echo more >f")
	again, err := r.Keep(ctx, "refs/descartes/loop/1/1", snap(t, r), []string{head.Hash, hash}, "attempt 1, again")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Keep(ctx, "refs/descartes/loop/1/base", tree, nil, "snapshot"); err != nil {
		t.Fatal(err)
	}
	if got := s.git("rev-parse", "refs/descartes/loop/1/1", "refs/descartes/loop/1/1^2",
		"refs/descartes/loop/1/base^{tree}"); got != again+"\n"+hash+"\n"+string(tree)+"\n" {
		t.Errorf("git resolves\n%s", got)
	}
	for range 2 {
		refs, err := r.Refs(ctx, "refs/descartes/loop/")
		if err != nil || len(refs) != 2 || refs[0].Hash != again || refs[0].Message != "attempt 1, again\n" ||
			refs[0].When.IsZero() || refs[1].Name != "refs/descartes/loop/1/base" {
			t.Errorf("refs: %+v, %v", refs, err)
		}
		s.git("pack-refs", "--all")
	}
	if err := r.DeleteRefs(ctx, "refs/descartes/loop/1/1"); err != nil {
		t.Fatal(err)
	}
	if err := r.DeleteRefs(ctx, "refs/descartes/loop/1/1"); err != nil {
		t.Errorf("deleting it again: %v", err)
	}
	if got := s.git("for-each-ref", "--format=%(refname)"); got != "refs/descartes/loop/1/base\nrefs/heads/main\n" {
		t.Errorf("refs left:\n%s", got)
	}
	s.check()
}

// Many refs are packed by and by: git reads a file for each that is not.
func TestKeepPacks(t *testing.T) {
	t.Parallel()
	s, r := start(t)
	tree := snap(t, r)
	for i := range mostLoose + 1 {
		if _, err := r.Keep(t.Context(), fmt.Sprintf("refs/descartes/loop/%d/1", i), tree, nil, "attempt"); err != nil {
			t.Fatal(err)
		}
	}
	loose, err := filepath.Glob(filepath.Join(r.l.commonDir, "refs/descartes/loop/*/1"))
	if refs, rerr := r.Refs(t.Context(), "refs/descartes/loop/"); err != nil || rerr != nil || len(loose) != 1 ||
		len(refs) != mostLoose+1 {
		t.Errorf("%d of %d refs have files (%v, %v)", len(loose), len(refs), err, rerr)
	}
	s.check()
}

func TestRefNamesAreChecked(t *testing.T) {
	t.Parallel()
	_, r := start(t)
	tree := snap(t, r)
	for _, name := range []string{"", "x", "HEAD", "refs/x", "refs/heads/x", "refs/descartes/",
		"refs/descartes/a/../b", "refs/descartes/.b", "refs/descartes/b.lock", "refs/descartes/a b",
		"refs/descartes/b\x01", "refs/descartes/b\n", "refs/descartes/a\x00update HEAD"} {
		if _, err := r.Keep(t.Context(), name, tree, nil, "x"); err == nil {
			t.Errorf("kept as %q", name)
		}
	}
}

// A ref moves only from where it is thought to be.
func TestSetRefCompares(t *testing.T) {
	t.Parallel()
	s, r := start(t)
	head := strings.TrimSpace(s.git("rev-parse", "HEAD"))
	next := strings.TrimSpace(s.git("commit-tree", "-p", "HEAD", "-m", "next", "HEAD^{tree}"))
	for _, name := range []string{"refs/heads/main", "refs/heads/new"} {
		if err := r.MoveRef(t.Context(), name, next, head, "x"); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := r.MoveRef(t.Context(), "refs/heads/main", "", next, "x"); err == nil {
		t.Error("a ref that is there was taken for a new one")
	}
	if err := r.MoveRef(t.Context(), "refs/heads/new", "", strings.Repeat("1", 40), "x"); err == nil {
		t.Error("a ref names a commit that is not there")
	}
	s.git("pack-refs", "--all")
	if err := r.MoveRef(t.Context(), "refs/heads/main", head, next, "moved"); err != nil {
		t.Fatal(err)
	}
	if got := s.git("reflog", "-1", "--format=%H %gs"); got != next+" moved\n" {
		t.Errorf("HEAD's log: %q", got)
	}
	s.check()
}

// Another command's lock of a ref is waited for, and then told of.
func TestSetRefWaits(t *testing.T) {
	t.Parallel()
	s, r := start(t)
	head := strings.TrimSpace(s.git("rev-parse", "HEAD"))
	s.put(".git/refs/heads/side.lock", "")
	err := r.MoveRef(t.Context(), "refs/heads/side", "", head, "x")
	if refused, ok := errors.AsType[*RefusedError](err); !ok ||
		!strings.Contains(refused.Reason, "side.lock is held") {
		t.Errorf("got %v", err)
	}
	// a killed git's lock of a ref of our own is in nobody's hands
	s.put(".git/refs/descartes/pool/x/1/base.lock", "")
	if err := r.SetRef(t.Context(), "refs/descartes/pool/x/1/base", head, "x"); err != nil {
		t.Error(err)
	}
}

// TestTakeBranch: a branch of a run that HEAD has left behind moves up to it, one that is not there stays so; HEAD,
// index and files stay as they are.
func TestTakeBranch(t *testing.T) {
	t.Parallel()
	s, r := start(t)
	s.sh("git branch topic/x; git commit -q --allow-empty -m more; echo staged >staged; git add staged; echo loose >loose")
	head, index := s.git("rev-parse", "HEAD"), s.git("status", "--porcelain")
	for _, name := range []string{"topic/x", "topic/x", "missing", "main"} {
		if err := r.TakeBranch(t.Context(), name, nil); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	for _, c := range []struct {
		args string
		want string
	}{
		{"symbolic-ref HEAD", "refs/heads/main\n"},
		{"rev-parse refs/heads/topic/x", head},
		{"for-each-ref refs/heads/missing", ""},
		{"status --porcelain", index},
		{"reflog -1 --format=%gs topic/x", "descartes: forward\n"},
	} {
		if got := s.git(strings.Fields(c.args)...); got != c.want {
			t.Errorf("git %s: got %q, want %q", c.args, got, c.want)
		}
	}
	s.sh("git branch -q ahead; git branch -q taken; git update-ref refs/heads/ahead $(git commit-tree -p HEAD -m a HEAD^{tree}); git worktree add -q ../other taken")
	ahead := s.git("rev-parse", "ahead")
	if err := r.TakeBranch(t.Context(), "ahead", nil); err != nil || s.git("rev-parse", "ahead") != ahead {
		t.Errorf("one that is ahead: %v", err)
	}
	for _, name := range []string{"taken", "a b", "-x", "HEAD", "a..b", ""} {
		err := r.TakeBranch(t.Context(), name, nil)
		if _, refused := errors.AsType[*RefusedError](err); !refused {
			t.Errorf("%q: got %v, want a refusal", name, err)
		}
	}
	s.check()
}

// join puts the lines of two notes together, each once.
func joinLines(old, add []byte) []byte {
	out := slices.Clone(old)
	for line := range bytes.Lines(add) {
		if !bytes.Contains(old, line) {
			out = append(out, line...)
		}
	}
	return out
}

const someNotes = "refs/notes/descartes"

// Notes are what git reads and writes: with one note, with hundreds in folders, and beside those of a person.
func TestNotesAreGits(t *testing.T) {
	t.Parallel()
	s, r := start(t)
	ctx := t.Context()
	head := strings.TrimSpace(s.git("rev-parse", "HEAD"))
	s.git("notes", "--ref", "descartes", "add", "-m", "mine", head)
	add := func(notes map[string][]byte) {
		t.Helper()
		if err := r.AddNotes(ctx, someNotes, notes, joinLines); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 {
		add(map[string][]byte{head: []byte("{}\n")})
	}
	if got := s.git("notes", "--ref", "descartes", "show", head); got != "mine\n{}\n" {
		t.Errorf("git shows %q", got)
	}
	if got := s.git("rev-list", "--count", someNotes); got != "2\n" { // the same twice is one commit
		t.Errorf("%s commits", strings.TrimSpace(got))
	}
	many := s.sh("for i in $(seq 300); do echo $i | git hash-object -w --stdin; done")
	s.sh("for o in " + strings.Join(strings.Fields(many), " ") + "; do git notes --ref descartes add -m x $o; done")
	if text, err := r.ReadNote(someNotes, head); err != nil || string(text) != "mine\n{}\n" {
		t.Errorf("among many: %q, %v", text, err)
	}
	notes, err := r.ReadNotes(ctx, someNotes)
	if err != nil || len(notes) != 301 || string(notes[head]) != "mine\n{}\n" {
		t.Errorf("%d notes, %q, %v", len(notes), notes[head], err)
	}
	s.check()
}

// Of several that add notes at the same time none loses what another wrote.
func TestNotesAtTheSameTime(t *testing.T) {
	t.Parallel()
	s, r := start(t)
	ctx := t.Context()
	s.sh("for i in 1 2 3 4 5; do git commit -q --allow-empty -m $i; done")
	commits := strings.Fields(s.git("rev-list", "-5", "HEAD"))
	var all sync.WaitGroup
	for i := range 4 {
		other, err := Open(ctx, r.opt)
		if err != nil {
			t.Fatal(err)
		}
		all.Go(func() {
			defer other.Close()
			for _, on := range commits {
				note := map[string][]byte{on: fmt.Appendf(nil, "%d\n", i)}
				if err := other.AddNotes(ctx, someNotes, note, joinLines); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	notes, err := r.ReadNotes(ctx, someNotes)
	if err != nil || len(notes) != 5 {
		t.Fatalf("%d notes, %v", len(notes), err)
	}
	for on, text := range notes {
		for i := range 4 {
			if !strings.Contains(string(text), fmt.Sprintln(i)) {
				t.Errorf("the note on %s lacks %d: %q", on, i, text)
			}
		}
	}
	s.check()
}

// What two clones noted comes together, whichever is pushed first.
func TestNotesAreMerged(t *testing.T) {
	t.Parallel()
	s, r := start(t)
	ctx := t.Context()
	head := strings.TrimSpace(s.git("rev-parse", "HEAD"))
	far := t.TempDir()
	s.git("init", "-q", "--bare", far)
	if err := r.MergeNotes(ctx, far, someNotes); err != nil { // it has none
		t.Fatal(err)
	}
	s.git("push", "-q", far, "HEAD:refs/heads/main")
	s.git("notes", "--ref", "descartes", "add", "-m", "theirs", head)
	s.git("push", "-q", far, someNotes)
	s.git("update-ref", "-d", someNotes)
	if err := r.AddNotes(ctx, someNotes, map[string][]byte{head: []byte("ours\n")}, joinLines); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := r.MergeNotes(ctx, far, someNotes); err != nil {
			t.Fatal(err)
		}
		if got := s.git("notes", "--ref", "descartes", "show", head); got != "ours\ntheirs\n" {
			t.Errorf("git shows %q", got)
		}
	}
	s.git("push", "-q", far, someNotes) // which is no forced one
	s.check()
}

// A patch has the same name after a rebase, and another where a line of it differs.
func TestPatchIDOutlastsARebase(t *testing.T) {
	t.Parallel()
	s, r := start(t)
	ctx := t.Context()
	id := func(from, to string) string {
		t.Helper()
		out, err := r.PatchID(ctx, Tree(strings.TrimSpace(s.git("rev-parse", from+"^{tree}"))),
			Tree(strings.TrimSpace(s.git("rev-parse", to+"^{tree}"))))
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	s.sh("git switch -qc work; echo new >new; git add new; git commit -qm new; git switch -q main; echo other >other; git add other; git commit -qm other; git switch -q work")
	before := id("work^", "work")
	s.git("rebase", "-q", "main")
	if after := id("work^", "work"); before == "" || after != before {
		t.Errorf("%s became %s", before, after)
	}
	if other := id("main^", "main"); other == before {
		t.Error("another patch has the same name")
	}
	if id("main", "main") != "" {
		t.Error("no difference has a name")
	}
}

// What a shallow clone cannot tell of two branches it fetches; without a remote it says so.
func TestShallowCloneIsDeepened(t *testing.T) {
	t.Parallel()
	s := newBase(t, "git branch old; git checkout -qb side; echo s >s; git add s; git commit -qm side; git checkout -q main; for i in 1 2 3; do git commit -q --allow-empty -m $i; done")
	s.sh("git clone -q --depth 1 file://$PWD ../far; cd ../far; git fetch -q --depth 1 origin old:old side:side")
	far := &sandbox{t: t, home: s.home, dir: s.path("../far"), env: s.env}
	r := far.reopen()
	far.sh("mv .git/config ../config; printf '[core]\n\trepositoryformatversion = 0\n' >.git/config")
	if _, err := far.reopen().CanBranch(t.Context(), "old", nil); err == nil ||
		!strings.Contains(err.Error(), "too shallow") {
		t.Errorf("without a remote: %v", err)
	}
	far.sh("mv ../config .git/config")
	if ahead, err := r.CanBranch(t.Context(), "old", nil); ahead != "" || err != nil {
		t.Errorf("a branch that main has left behind: %q, %v", ahead, err)
	}
	if _, err := r.CanBranch(t.Context(), "side", nil); err != nil {
		t.Errorf("a branch with other commits: %v", err)
	}
	ours, theirs := strings.TrimSpace(far.git("rev-parse", "main")), strings.TrimSpace(far.git("rev-parse", "side"))
	if _, met, err := r.Merge(t.Context(), ours, theirs); err != nil || len(met) > 0 {
		t.Errorf("merge: %v, %v", met, err)
	}
}
