package trunk

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"descartes/gitops"
	"descartes/verify"
)

// lines is a tree in words: "path=text" for each file, sorted. Merging goes by path.
type lines map[string]string

func (l lines) tree() gitops.Tree {
	var out []string
	for _, path := range slices.Sorted(maps.Keys(l)) {
		out = append(out, path+"="+l[path])
	}
	return gitops.Tree(strings.Join(out, " "))
}

func linesOf(tree gitops.Tree) lines {
	l := lines{}
	for _, f := range strings.Fields(string(tree)) {
		path, text, _ := strings.Cut(f, "=")
		l[path] = text
	}
	return l
}

func (l lines) with(path, text string) lines {
	out := maps.Clone(l)
	out[path] = text
	return out
}

func mergeLines(_ context.Context, base, ours, theirs gitops.Tree) (gitops.Tree, []gitops.Conflict, error) {
	b, o, t := linesOf(base), linesOf(ours), linesOf(theirs)
	out := maps.Clone(o)
	var met []gitops.Conflict
	for _, path := range slices.Sorted(maps.Keys(t)) {
		switch {
		case t[path] == b[path] || t[path] == o[path]:
		case o[path] != b[path]:
			met = append(met, gitops.Conflict{Path: path, Kind: "content"})
		default:
			out[path] = t[path]
		}
	}
	if len(met) > 0 {
		return "", met, nil
	}
	return out.tree(), nil, nil
}

// fakeHistory has commits with such trees. The base of a merge is the first parent of what comes in.
type fakeHistory struct {
	commits map[string]gitops.ChainLink
	refs    map[string]string
}

func (h *fakeHistory) CommitTree(commit string) (gitops.Tree, error) {
	return h.commits[commit].Tree, nil
}
func (h *fakeHistory) RefCommit(ref string) (string, error) { return h.refs[ref], nil }

func (h *fakeHistory) LeadsTo(ctx context.Context, from, to string) bool {
	return from == to || slices.ContainsFunc(h.commits[from].Parents,
		func(p string) bool { return h.LeadsTo(ctx, p, to) })
}

func (h *fakeHistory) Merge(ctx context.Context, ours, theirs string) (gitops.Tree, []gitops.Conflict, error) {
	c := h.commits[theirs]
	return mergeLines(ctx, h.commits[c.Parents[0]].Tree, h.commits[ours].Tree, c.Tree)
}

func (h *fakeHistory) MergeTrees(ctx context.Context, base, ours, theirs gitops.Tree) (gitops.Tree, []gitops.Conflict,
	error) {
	return mergeLines(ctx, base, ours, theirs)
}

func (h *fakeHistory) Link(_ context.Context, on string, l gitops.Link) (string, error) {
	hash := fmt.Sprint("c", len(h.commits))
	c := gitops.ChainLink{Hash: hash, Tree: l.Tree, Trailers: map[string][]string{}}
	for _, p := range []string{on, l.Second} {
		if p != "" {
			c.Parents = append(c.Parents, p)
		}
	}
	for line := range strings.Lines(l.Message) {
		if key, value, ok := strings.Cut(strings.TrimSpace(line), ": "); ok {
			c.Trailers[key] = append(c.Trailers[key], value)
		}
	}
	h.commits[hash] = c
	return hash, nil
}

func (h *fakeHistory) Extend(ctx context.Context, ref, from string, links ...gitops.Link) (string, error) {
	if h.refs[ref] != from {
		return "", fmt.Errorf("%s is not at %s", ref, from)
	}
	for _, l := range links {
		from, _ = h.Link(ctx, from, l)
	}
	h.refs[ref] = from
	return from, nil
}

func (h *fakeHistory) MoveRef(_ context.Context, ref, from, to, _ string) error {
	h.refs[ref] = to
	return nil
}

func (h *fakeHistory) Chain(_ context.Context, tip, until, trailer string) (links []gitops.ChainLink, rest string,
	err error) {
	for rest = tip; rest != until && len(h.commits[rest].Trailers[trailer]) > 0; rest = h.commits[rest].Parents[0] {
		links = append(links, h.commits[rest])
	}
	return links, rest, nil
}

// bench is a chain of such trees. Pairs of texts that do not go together break it.
type bench struct {
	Folder
	history  *fakeHistory
	verified []gitops.Tree
	breaks   [][2]string
}

func newBench(start gitops.Tree) *bench {
	h := &fakeHistory{commits: map[string]gitops.ChainLink{"base": {Hash: "base", Tree: start}},
		refs: map[string]string{}}
	b := &bench{history: h, Folder: Folder{Chain: &Chain{Repo: h, Ref: "trunk", Now: time.Now}}}
	_ = b.Plan(context.Background(), "base")
	_ = b.Save(context.Background())
	b.Verify = func(_ context.Context, tree gitops.Tree, _ []string) (verify.Result, error) {
		b.verified = append(b.verified, tree)
		return verify.Result{Passed: b.works(tree), Code: 1, Tail: "it does not compile\n"}, nil
	}
	return b
}

// from completes a candidate: an attempt on the first commit.
func (b *bench) from(c Candidate) Candidate {
	c.From = "base"
	c.Commit, _ = b.history.Link(context.Background(), "base", gitops.Link{Tree: c.Tree})
	return c
}

func (b *bench) works(tree gitops.Tree) bool {
	files := " " + string(tree) + " "
	return !slices.ContainsFunc(b.breaks, func(p [2]string) bool {
		return strings.Contains(files, " "+p[0]+" ") && strings.Contains(files, " "+p[1]+" ")
	})
}

func (b *bench) fold(t *testing.T, batch ...Candidate) string {
	t.Helper()
	list := make([]Candidate, len(batch))
	for i, c := range batch {
		list[i] = b.from(c)
	}
	fates, err := b.Folder.Fold(t.Context(), list)
	if err != nil {
		t.Fatal(err)
	}
	again := Chain{Repo: b.history, Ref: "trunk"}
	if _, err := again.Read(t.Context()); err != nil || again.Tree != b.Tree || again.Tip != b.Tip ||
		!slices.Equal(again.Units, b.Units) || again.On != b.On {
		t.Fatalf("the chain reads as %+v, %v, and is %+v", again, err, b.Chain)
	}
	var out []string
	for _, f := range fates {
		if f.Accepted() {
			out = append(out, f.Unit+" accepted")
		} else {
			out = append(out, f.Unit+": "+f.Reason())
		}
	}
	return strings.Join(out, "\n")
}

func TestFold(t *testing.T) {
	t.Parallel()
	start := lines{"a": "0", "b": "0", "c": "0"}
	base := start.tree()
	unit := func(name, path, text string) Candidate {
		return Candidate{Unit: name, Tree: start.with(path, text).tree()}
	}
	for name, tt := range map[string]struct {
		breaks  [][2]string
		batches [][]Candidate
		want    string // fates
		tree    gitops.Tree
		checks  int // verifications
	}{
		"one alone is verified already": {batches: [][]Candidate{{unit("1", "a", "1")}}, want: "1 accepted",
			tree: "a=1 b=0 c=0"},
		"one after another": {batches: [][]Candidate{{unit("1", "a", "1")}, {unit("2", "b", "2")}},
			want: "1 accepted\n2 accepted",
			tree: "a=1 b=2 c=0", checks: 1},
		"several at once are verified once": {batches: [][]Candidate{
			{unit("1", "a", "1"), unit("2", "b", "2"), unit("3", "c", "3")}},
			want: "1 accepted\n2 accepted\n3 accepted", tree: "a=1 b=2 c=3", checks: 1},
		"a conflict": {batches: [][]Candidate{{unit("1", "a", "1"), unit("2", "a", "2"), unit("3", "c", "3")}},
			want: "1 accepted\n2: merge conflict with the work of 1: a (content)\n3 accepted", tree: "a=1 b=0 c=3",
			checks: 1},
		"a culprit is found one at a time": {breaks: [][2]string{{"a=1", "b=2"}},
			batches: [][]Candidate{{unit("1", "a", "1"), unit("2", "b", "2"), unit("3", "c", "3")}},
			want:    "1 accepted\n2: verification fails on its changes together with the work of 1, merged meanwhile\n3 accepted", tree: "a=1 b=0 c=3", checks: 3},
		"a culprit alone": {breaks: [][2]string{{"a=1", "b=2"}},
			batches: [][]Candidate{{unit("1", "a", "1")}, {unit("2", "b", "2")}},
			want:    "1 accepted\n2: verification fails on its changes together with the work of 1, merged meanwhile",
			tree:    "a=1 b=0 c=0", checks: 1},
		"a conflict with a culprit is none": {breaks: [][2]string{{"a=1", "b=2"}},
			batches: [][]Candidate{{unit("1", "a", "1"), unit("2", "b", "2"), unit("3", "b", "3")}},
			want:    "1 accepted\n2: verification fails on its changes together with the work of 1, merged meanwhile\n3 accepted", tree: "a=1 b=3 c=0", checks: 2},
		"nothing new": {batches: [][]Candidate{{unit("1", "a", "1")}, {unit("2", "a", "1")}},
			want: "1 accepted\n2 accepted", tree: "a=1 b=0 c=0"},
		"nobody": {batches: [][]Candidate{{}}, tree: base},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(base)
			b.breaks = tt.breaks
			var got []string
			for _, batch := range tt.batches {
				got = append(got, b.fold(t, batch...))
			}
			if s := strings.Join(got, "\n"); s != tt.want || b.Tree != tt.tree || len(b.verified) != tt.checks {
				t.Errorf("got %s\n%s, %d verifications %v\nwant %s\n%s, %d", s, b.Tree, len(b.verified), b.verified,
					tt.want, tt.tree, tt.checks)
			}
		})
	}
}

// An interrupted verification accepts nothing; what was accepted before stays.
func TestFoldIsInterrupted(t *testing.T) {
	t.Parallel()
	start := lines{"a": "0", "b": "0"}
	b := newBench(start.tree())
	b.fold(t, Candidate{Unit: "1", Tree: start.with("a", "1").tree()})
	good := b.Verify
	b.Verify = func(context.Context, gitops.Tree, []string) (verify.Result, error) {
		return verify.Result{Cancelled: true}, nil
	}
	two := Candidate{Unit: "2", Tree: start.with("b", "2").tree()}
	if fates, err := b.Folder.Fold(t.Context(), []Candidate{b.from(two)}); err == nil || len(fates) != 0 ||
		b.Tree != "a=1 b=0" {
		t.Errorf("got %v %v %s", fates, err, b.Tree)
	}
	if b.Verify = good; b.fold(t, two) != "2 accepted" {
		t.Error("not folded in afterwards")
	}
}

// The laws, on random waves: every state that is come to was verified as a whole; batches change nothing but the
// number of verifications; where no two meet, the order in which they finish does not matter.
func TestFoldLaws(t *testing.T) {
	t.Parallel()
	for seed := range uint64(2000) {
		rnd := rand.New(rand.NewPCG(seed, 11))
		start := lines{}
		for i := range 6 {
			start[fmt.Sprint("f", i)] = "0"
		}
		apart := seed%2 == 0 // no two units touch the same file
		var all []Candidate
		var breaks [][2]string
		for i := range 2 + rnd.IntN(5) {
			l := start
			for range 1 + rnd.IntN(2) {
				n := rnd.IntN(6)
				if apart {
					n = i
				}
				l = l.with(fmt.Sprint("f", n%6), fmt.Sprint(i+1))
			}
			all = append(all, Candidate{Unit: fmt.Sprint(i), Tree: l.tree()})
		}
		if apart && len(all) > 6 {
			all = all[:6]
		}
		if !apart && rnd.IntN(2) == 0 {
			breaks = append(breaks, [2]string{fmt.Sprintf("f%d=%d", rnd.IntN(6), 1+rnd.IntN(3)),
				fmt.Sprintf("f%d=%d", rnd.IntN(6), 4+rnd.IntN(3))})
		}
		run := func(order []Candidate, batch func() int) (gitops.Tree, []string) {
			b := newBench(start.tree())
			b.breaks = breaks
			states := []gitops.Tree{b.Tree}
			var fates []string
			for rest := order; len(rest) > 0; {
				n := min(batch(), len(rest))
				fates = append(fates, strings.Split(b.fold(t, rest[:n]...), "\n")...)
				states, rest = append(states, b.Tree), rest[n:]
			}
			for _, s := range states[1:] {
				alone := slices.ContainsFunc(all, func(c Candidate) bool { return c.Tree == s })
				if s != start.tree() && !slices.Contains(b.verified, s) && !alone {
					t.Fatalf("seed %d: %s was never verified", seed, s)
				}
				if !b.works(s) {
					t.Fatalf("seed %d: %s does not pass", seed, s)
				}
			}
			return b.Tree, fates
		}
		if slices.ContainsFunc(all, func(c Candidate) bool { return !(&bench{breaks: breaks}).works(c.Tree) }) {
			continue // would not be verified
		}
		one, fates := run(all, func() int { return 1 })
		many, others := run(all, func() int { return 1 + rnd.IntN(4) })
		if one != many || !slices.Equal(fates, others) {
			t.Fatalf("seed %d: one by one %s %q, in batches %s %q", seed, one, fates, many, others)
		}
		if apart {
			mixed := slices.Clone(all)
			rnd.Shuffle(len(mixed), func(i, k int) { mixed[i], mixed[k] = mixed[k], mixed[i] })
			if got, _ := run(mixed, func() int { return 1 + rnd.IntN(4) }); got != one {
				t.Fatalf("seed %d: %s in one order, %s in another", seed, one, got)
			}
		}
	}
}

// Waves of real trees come to what git merge makes of the same branches, one after the other: the same tree, the same
// conflicts.
func TestFoldIsGitMerge(t *testing.T) {
	t.Parallel()
	const waves, units = 50, 3
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	env := []string{"HOME=" + dir, "PATH=" + os.Getenv("PATH"), "GIT_CONFIG_NOSYSTEM=1", "LC_ALL=C",
		"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@b.c",
		"GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@b.c", "GIT_AUTHOR_DATE=1700000000 +0000",
		"GIT_COMMITTER_DATE=1700000000 +0000"}
	c := exec.Command("sh", "-ec", mergeScript)
	c.Dir, c.Env, c.Stdin = dir, append(env, fmt.Sprint("WAVES=", waves), fmt.Sprint("UNITS=", units)),
		strings.NewReader(plantedWaves(waves, units))
	out, err := c.Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	repo, err := gitops.Open(t.Context(), gitops.Options{Dir: dir, Env: env})
	if err != nil {
		t.Fatal(err)
	}
	defer repo.Close()
	met, same := 0, 0
	for wave := range strings.SplitSeq(strings.TrimSpace(string(out)), "\n") {
		// the base, each unit's tree, and after each what git made of it: a tree, or the paths that conflict
		f := strings.Fields(wave)
		base, err := repo.Resolve(t.Context(), "main")
		if err != nil {
			t.Fatal(err)
		}
		g := Folder{Chain: &Chain{Repo: repo, Ref: fmt.Sprint("refs/descartes/", same, "/trunk"), Now: time.Now},
			Verify: func(context.Context, gitops.Tree, []string) (verify.Result, error) {
				return verify.Result{Passed: true}, nil
			}}
		if err := errors.Join(g.Plan(t.Context(), base), g.Save(t.Context())); err != nil {
			t.Fatal(err)
		}
		for i, tree := range f[1 : units+1] {
			made, err := repo.Link(t.Context(), base, gitops.Link{Tree: gitops.Tree(tree), Message: "an attempt",
				When: time.Unix(0, 0)})
			if err != nil {
				t.Fatal(err)
			}
			fates, err := g.Fold(t.Context(), []Candidate{{Unit: fmt.Sprint(i), From: base, Commit: made,
				Tree: gitops.Tree(tree)}})
			if err != nil {
				t.Fatal(err)
			}
			got := string(g.Tree)
			if !fates[0].Accepted() {
				met++
				got = strings.Join(fates[0].Paths(), ",")
			}
			if want := f[units+1+i]; got != want {
				t.Fatalf("unit %d of %v: got %s want %s", i, f, got, want)
			}
		}
		same++
	}
	if same != waves || met < 12 {
		t.Errorf("%d waves, %d conflicts", same, met)
	}
}

// plantedWaves are branches from one commit for git fast-import, edits planted so that some meet: the same line, both
// add a file, a rename, a deletion against an edit.
func plantedWaves(waves, units int) string {
	var b strings.Builder
	files := []string{"a", "b", "d/c"}
	text := func(name, edit string, line int) string {
		var f strings.Builder
		for k := range 12 {
			if k == line {
				fmt.Fprintf(&f, "%s\n", edit)
			} else {
				fmt.Fprintf(&f, "%s line %d\n", name, k)
			}
		}
		return f.String()
	}
	put := func(path, text string) { fmt.Fprintf(&b, "M 100644 inline %s\ndata %d\n%s\n", path, len(text), text) }
	commit := func(ref, from string) {
		fmt.Fprintf(&b, "commit refs/heads/%s\nmark :%d\ncommitter a <a@b.c> 1700000000 +0000\ndata 1\nx\n", ref,
			b.Len()+1)
		if from != "" {
			fmt.Fprintf(&b, "from %s\n", from)
		}
	}
	commit("main", "")
	for _, f := range files {
		put(f, text(f, "", -1))
	}
	for w := range waves {
		rnd := rand.New(rand.NewPCG(uint64(w), 5))
		for u := range units {
			commit(fmt.Sprintf("w%d-%d", w, u), "refs/heads/main")
			f := files[rnd.IntN(3)]
			switch rnd.IntN(8) {
			case 0:
				fmt.Fprintf(&b, "D %s\n", f)
			case 1:
				put("new", fmt.Sprintln("by", u))
			case 2:
				fmt.Fprintf(&b, "R %s moved/%s\n", f, f)
			case 3:
				put("new", fmt.Sprintln("of", w))
			default:
				put(f, text(f, fmt.Sprint("edited by ", u), rnd.IntN(12)))
			}
		}
	}
	return b.String()
}

// mergeScript merges the branches of each wave with git merge. Where that stops the branch is left out.
const mergeScript = `
git init -q -b main .
git fast-import --quiet
base=$(git rev-parse main)
tree=$(git rev-parse main^{tree})
n=0
while [ $n -lt $WAVES ]; do
	git update-ref --no-deref HEAD $base; git read-tree -u --reset $base
	line="$tree"; u=0
	while [ $u -lt $UNITS ]; do line="$line $(git rev-parse w$n-$u^{tree})"; u=$((u + 1)); done
	u=0
	while [ $u -lt $UNITS ]; do
		if git merge -q --no-edit w$n-$u >/dev/null 2>&1; then
			line="$line $(git rev-parse HEAD^{tree})"
		else
			line="$line $(git ls-files -u | cut -f2 | sort -u | paste -sd,)"
			git reset -q --hard
		fi
		u=$((u + 1))
	done
	echo "$line"; n=$((n + 1))
done`
