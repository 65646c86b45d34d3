package gitops

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
)

// patchwork is a tree of files that two sides change at random, in few places so that they often meet.
type patchwork map[string]struct{ mode, text string }

func newPatchwork(rnd *rand.Rand) patchwork {
	p := patchwork{}
	for _, name := range []string{"a", "b", "d/a", "d/b", "d/e/x", "s/a", "s/b"} {
		lines := make([]string, 12)
		for i := range lines {
			lines[i] = fmt.Sprintf("%s line %d %d", name, i, rnd.IntN(1000))
		}
		p.put(name, "100644", strings.Join(lines, "\n")+"\n")
	}
	p.put("bin", "100644", fmt.Sprintf("a\x00%d", rnd.IntN(1000)))
	p.put("link", "120000", "a")
	return p
}

func (p patchwork) put(name, mode, text string) { p[name] = struct{ mode, text string }{mode, text} }

// move renames everything at or below a path, unless something is there.
func (p patchwork) move(from, to string) {
	for _, name := range slices.Sorted(maps.Keys(p)) {
		if rest, ok := strings.CutPrefix(name+"/", from+"/"); ok {
			p[strings.TrimSuffix(to+"/"+rest, "/")] = p[name]
			delete(p, name)
		}
	}
}

// there says whether a path is taken, as a file or as a directory, or lies below a file.
func (p patchwork) there(path string) bool {
	for name := range p {
		if name == path || strings.HasPrefix(name, path+"/") || strings.HasPrefix(path, name+"/") {
			return true
		}
	}
	return false
}

func (p patchwork) change(rnd *rand.Rand) {
	names := slices.Sorted(maps.Keys(p))
	name := names[rnd.IntN(len(names))]
	f := p[name]
	free := []string{"n", "d/n", "s/n", "t/n", "b/n", "c"}[rnd.IntN(6)]
	switch rnd.IntN(14) {
	case 0, 1, 2, 3, 4:
		switch lines := strings.Split(f.text, "\n"); {
		case f.mode == "120000":
			p.put(name, f.mode, []string{"b", "c"}[rnd.IntN(2)])
		case name == "bin" || len(lines) < 12:
			p.put(name, f.mode, f.text+fmt.Sprint(rnd.IntN(3)))
		default:
			lines[rnd.IntN(12)] = fmt.Sprintf("changed %d", rnd.IntN(4))
			p.put(name, f.mode, strings.Join(lines, "\n"))
		}
	case 5, 6:
		if len(p) > 2 {
			delete(p, name)
		}
	case 7, 8:
		if !p.there(free) {
			p.move(name, free)
		}
	case 9:
		if to := []string{"u", "v"}[rnd.IntN(2)]; !p.there(to) {
			p.move([]string{"d", "s"}[rnd.IntN(2)], to)
		}
	case 10, 11:
		if !p.there(free) {
			p.put(free, "100644", fmt.Sprintf("new %d\n", rnd.IntN(3)))
		}
	case 12:
		if f.mode == "100644" {
			p.put(name, "100755", f.text)
		}
	case 13:
		if !p.there(name+"/x") || len(p) > 3 {
			delete(p, name)
			p.put(name+"/x", "100644", f.text)
		}
	}
}

// TestMergeTrees: what git makes of 200 random merges is what we make of them, the tree or the list of conflicts.
func TestMergeTrees(t *testing.T) {
	t.Parallel()
	runs := 200
	if testing.Short() {
		runs = 40
	}
	var history bytes.Buffer
	commit := func(name, from string, p patchwork) {
		fmt.Fprintf(&history, "commit refs/heads/%s\ncommitter A <a@b> 1700000000 +0000\ndata 1\n%.1s\n", name, name)
		if from != "" {
			fmt.Fprintf(&history, "from refs/heads/%s\n", from)
		}
		history.WriteString("deleteall\n")
		for _, f := range slices.Sorted(maps.Keys(p)) {
			fmt.Fprintf(&history, "M %s inline %s\ndata %d\n%s\n", p[f].mode, f, len(p[f].text), p[f].text)
		}
	}
	for i := range runs {
		rnd := rand.New(rand.NewPCG(uint64(i), 11))
		base := newPatchwork(rnd)
		commit(fmt.Sprintf("base%d", i), "", base)
		for _, side := range []string{"ours", "theirs"} {
			p := maps.Clone(base)
			for range 1 + rnd.IntN(6) {
				p.change(rnd)
			}
			commit(fmt.Sprintf("%s%d", side, i), fmt.Sprintf("base%d", i), p)
		}
	}
	s := newSandbox(t)
	s.put("../history", history.String())
	s.sh("git init -q .; git config merge.renames true; git fast-import --quiet <../history")
	oracle := fmt.Sprintf(`for i in $(seq 0 %d); do
git checkout -q -f --detach ours$i
echo "merge $i"; git merge -q --no-commit theirs$i >/dev/null 2>&1 && git write-tree || case $? in 1) git ls-files -u;; *) rm -f .git/index.lock;; esac
done >../oracle 2>/dev/null
git checkout -q -f --detach base0
git for-each-ref --format='%%(refname) %%(tree)' refs/heads >../trees`, runs-1)
	s.sh(oracle)
	trees := map[string]Tree{}
	b, err := os.ReadFile(s.path("../trees"))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(b)) {
		name, id, _ := strings.Cut(strings.TrimSpace(line), " ")
		trees[strings.TrimPrefix(name, "refs/heads/")] = Tree(id)
	}
	if b, err = os.ReadFile(s.path("../oracle")); err != nil {
		t.Fatal(err)
	}
	r := s.reopen()
	want, clean, dead := make([]string, runs), 0, 0
	for i, said := range strings.Split(string(b), "merge ")[1:] {
		_, said, _ := strings.Cut(said, "\n")
		for line := range strings.Lines(said) {
			_, name, unmerged := strings.Cut(strings.TrimSpace(line), "\t")
			if name, _, _ = strings.Cut(name, "~"); !unmerged {
				name = "tree:" + strings.TrimSpace(line)
			}
			if !slices.Contains(strings.Fields(want[i]), name) {
				want[i] += " " + name
			}
		}
		names := strings.Fields(want[i])
		slices.Sort(names)
		want[i] = strings.Join(names, " ")
	}
	for i := range runs {
		tree, conflicts, err := r.MergeTrees(t.Context(), trees[fmt.Sprint("base", i)], trees[fmt.Sprint("ours", i)], trees[fmt.Sprint("theirs", i)])
		if err != nil {
			t.Fatal(err)
		}
		got := "tree:" + string(tree)
		if len(conflicts) > 0 {
			var names []string
			for _, c := range conflicts {
				name, _, _ := strings.Cut(c.Path, "~")
				names = append(names, name)
				if c.Kind == "" || strings.Contains(c.Why, string(trees[fmt.Sprint("ours", i)])) {
					t.Errorf("merge %d: %+v", i, c)
				}
			}
			slices.Sort(names)
			got = strings.Join(slices.Compact(names), " ")
		} else {
			clean++
		}
		if want[i] == "" && len(conflicts) > 0 { // git merge aborts: "Conflicted u/b/x but nothing in basic working tree or index"
			dead++
			continue
		}
		if got != want[i] {
			t.Errorf("merge %d: got %s, git says %s\n%v", i, got, want[i], conflicts)
		}
	}
	if dead > runs/50 || clean < runs/8 || clean > runs*7/8 {
		t.Errorf("%d of %d merges are clean, %d unanswered by git: no fair sample", clean, runs, dead)
	}
	s.check()
}

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
	want := "[bin (binary) f (content) gone (delete/edit) link (content) moved/z (directory rename) new (add/add) other (rename/delete) way (file/directory)]"
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
		if got, conflicts, err := r.MergeTrees(t.Context(), tree("base"), tree("base"), tree(side)); got != tree(side) || conflicts != nil || err != nil {
			t.Errorf("%s alone: %s %v %v", side, got, conflicts, err)
		}
	}
	if got, _, err := r.MergeTrees(t.Context(), r.EmptyTree(), tree("base"), Tree(strings.Repeat("7", 40))); got != "" || err == nil {
		t.Errorf("a tree that is not there: %q %v", got, err)
	}
}

func TestMergeNeedsGit238(t *testing.T) {
	t.Parallel()
	s := newBase(t, "git tag base; echo a >a; git add a; git commit -qm a; git tag a; git checkout -q base; echo b >b; git add b; git commit -qm b")
	old := s.home + "/git"
	s.put(old, "#!/bin/sh\ncase \"$*\" in *' version') echo git version 2.37.1 ;; *) exec "+gitProgram+" \"$@\" ;; esac\n")
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
	if !errors.As(err, &version) || version.Found != (Version{2, 37}) || version.Needed != OldestMerging || !errors.As(err, &refused) ||
		!strings.Contains(err.Error(), "is git 2.37; git 2.38 or newer is needed for merging") {
		t.Errorf("got %v", err)
	}
}
