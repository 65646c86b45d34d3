package trunk

import (
	"slices"
	"testing"
	"time"

	"descartes/gitops"
)

// TestUnresolved finds what a merge left of conflicts, whatever attempt had them, until nothing of them is left.
func TestUnresolved(t *testing.T) {
	f := newField(t)
	f.writes("note", "how conflicts look:\n<<<<<<< HEAD\na\n=======\nb\n>>>>>>> topic\n")
	f.writes("d/a", "x\n")
	f.writes("same", "was\n")
	base := f.head()
	was, err := f.repo.CommitTree(base)
	f.do(err)
	side := func(change func(map[string][]byte)) string {
		t.Helper()
		files := map[string][]byte{}
		change(files)
		tree, err := f.repo.WithContent(t.Context(), was, files)
		f.do(err)
		made, err := f.repo.Link(t.Context(), base, gitops.Link{Tree: tree, Message: "side", When: time.Unix(0, 0)})
		f.do(err)
		return made
	}
	ours := side(func(m map[string][]byte) { m["same"], m["d/b"] = []byte("ours\r\n"), []byte("y\n") })
	f.git(f.repo.Root(), "checkout", "-q", "--detach", base)
	f.git(f.repo.Root(), "rm", "-qr", "d")
	f.writes("d", "a file now\n")
	f.writes("same", "theirs\r\n")
	theirs := f.git(f.repo.Root(), "rev-parse", "HEAD")
	tree, met, err := f.repo.Merge(t.Context(), ours, theirs)
	if f.do(err); len(met) < 2 {
		t.Fatalf("the merge says %v", met)
	}
	tip, err := f.repo.CommitTree(ours)
	f.do(err)
	copied := "d~" + theirs
	expect := func(to gitops.Tree, want ...string) {
		t.Helper()
		left, err := Unresolved(t.Context(), f.repo, tip, to)
		if f.do(err); !slices.Equal(left, want) {
			t.Errorf("unresolved are %q, not %q", left, want)
		}
	}
	expect(tree, copied, "same")
	resolved, err := f.repo.WithContent(t.Context(), tree, map[string][]byte{"same": []byte("both\n"),
		"note": []byte("how conflicts look:\n<<<<<<< HEAD\n=======\n>>>>>>> topic, more\n")})
	f.do(err)
	expect(resolved, copied)
	expect(tip)
}
