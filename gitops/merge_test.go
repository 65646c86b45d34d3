package gitops

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

func TestMergeConflicts(t *testing.T) {
	t.Parallel()
	s := newBase(t, `mkdir -p dir; seq 20 >f; seq 30 >renamed; seq 40 >gone; printf 'a\0b' >bin; seq 50 >dir/x; seq 60 >dir/y
git add -A; git commit -qm b; git tag base
sed -i 5s/.*/ours/ f; git mv renamed other; git rm -q gone; printf 'a\0c' >bin; rm link; ln -s ours link; echo 1 >new; mkdir way; echo 1 >way/a; git mv dir moved
git add -A; git commit -qm o; git tag ours; git checkout -q base
sed -i 5s/.*/theirs/ f; git rm -q renamed; sed -i 5s/.*/x/ gone; printf 'a\0d' >bin; rm link; ln -s theirs link; echo 2 >new; echo x >way; seq 70 >dir/z
git add -A; git commit -qm t; git tag theirs`)
	r := s.reopen()
	tree := func(name string) Tree { return Tree(strings.TrimSpace(s.git("rev-parse", name+"^{tree}"))) }
	before := s.git("status", "--porcelain=v2", "--branch")
	got, conflicts, err := r.MergeTrees(t.Context(), tree("base"), tree("ours"), tree("theirs"))
	want := "[bin (binary) f (content) gone (modify/delete) link (content) moved/z (file location) new (add/add) other (rename/delete) way (file/directory)]"
	if err != nil || got == "" || fmt.Sprint(conflicts) != want {
		t.Errorf("got %q %v %v, want %s", got, conflicts, err, want)
	}
	for _, c := range conflicts {
		if c.Path == "gone" && c.Why != "CONFLICT (modify/delete): gone deleted in ours and modified in theirs.  Version theirs of gone left in tree." {
			t.Errorf("%q", c.Why)
		}
	}
	if after := s.git("status", "--porcelain=v2", "--branch"); after != before {
		t.Errorf("a merge of trees touched the repository: %s", after)
	}
	for _, side := range []string{"ours", "theirs"} { // where one side changed nothing, the other is the result
		if got, conflicts, err := r.MergeTrees(t.Context(), tree("base"), tree("base"),
			tree(side)); got != tree(side) || conflicts != nil || err != nil {
			t.Errorf("%s alone: %s %v %v", side, got, conflicts, err)
		}
	}
	if got, _, err := r.MergeTrees(t.Context(), r.EmptyTree(), tree("base"),
		Tree(strings.Repeat("7", 40))); got != "" || err == nil {
		t.Errorf("a tree that is not there: %q %v", got, err)
	}
}

func TestMergeNeedsGit238(t *testing.T) {
	t.Parallel()
	s := newBase(t, "git tag base; echo a >a; git add a; git commit -qm a; git tag a; git checkout -q base; echo b >b; git add b; git commit -qm b")
	old := s.home + "/git"
	s.put(old, "#!/bin/sh\ncase \"$*\" in *' version') echo git version 2.37.1 ;; *) exec "+gitProgram+
		" \"$@\" ;; esac\n")
	s.sh("chmod +x " + old)
	r, err := s.open("", old)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	tree := func(name string) Tree { return Tree(strings.TrimSpace(s.git("rev-parse", name+"^{tree}"))) }
	_, _, err = r.MergeTrees(t.Context(), tree("base"), tree("a"), tree("HEAD"))
	var version *VersionError
	var refused *RefusedError
	if !errors.As(err, &version) || version.Found != (Version{2, 37}) || version.Needed != OldestMerging ||
		!errors.As(err, &refused) ||
		!strings.Contains(err.Error(), "is git 2.37; git 2.38 or newer is needed for merging") {
		t.Errorf("got %v", err)
	}
}
