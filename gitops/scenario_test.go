package gitops

import (
	"context"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// scenario is a repository and what happens in it. Both scripts run in two sandboxes: in one we snapshot and
// commit, in the other `git add -A && git commit` does. Everything that git can tell must then be equal.
type scenario struct {
	name   string
	setup  string // after base, unless it starts with "!"
	change string // what an attempt does between two snapshots
	by     string // what does the work: "" natively, "git", or "git commit" where only the commit is git's
	hooks  string
	refuse string // part of the reason where neither way is open
	stays  string // space-separated paths that a restore rightly leaves alone
	nested bool   // a repository of its own stays as it is, and so in the next snapshot
	status string // of ours afterwards, where the user's staging must survive; git add -A would have replaced it
}

// base is the repository that most scenarios start from.
const base = `git init -q .
mkdir -p src/a docs
printf 'one\n' >f
printf 'x\n' >src/x.go
printf 'y\n' >src/a/y.go
printf '#!/bin/sh\n' >run.sh
chmod +x run.sh
ln -s f link
printf 'doc\n' >docs/d.md
printf '*.log\nbuild/\n' >.gitignore
git add .
git commit -qm base
`

const waveMessage = "feat(tag): complete wave 1\n\n- 1 first\n\nDescartes-Loop: loop-1\nDescartes-Wave: 1\n"

func (sc *scenario) script() string {
	if rest, own := strings.CutPrefix(sc.setup, "!"); own {
		return rest
	}
	return base + sc.setup
}

// newTwin makes one of the two sandboxes of a scenario. Dates are fixed, so that both make the same commits.
func newTwin(t *testing.T, sc *scenario) *sandbox {
	t.Helper()
	s := newSandbox(t)
	s.env = append(s.env, "GIT_AUTHOR_DATE=2024-01-02T03:04:05Z", "GIT_COMMITTER_DATE=2024-01-02T03:04:05Z")
	s.sh(sc.script())
	if fi, err := os.Stat(filepath.Join(s.dir, "work")); err == nil && fi.IsDir() {
		s.dir = filepath.Join(s.dir, "work") // where a scenario wants to work elsewhere
	}
	return s
}

func (s *sandbox) open(hooks, program string) (*Repo, error) {
	return Open(s.t.Context(), Options{Dir: s.dir, Hooks: hooks, Git: program, Env: s.env})
}

func TestScenarios(t *testing.T) {
	t.Parallel()
	for _, table := range [][]scenario{contentRows, ignoreRows, indexRows, layoutRows, conversionRows, hookRows} {
		for _, sc := range table {
			t.Run(sc.name, func(t *testing.T) {
				t.Parallel()
				if sc.refuse != "" {
					checkRefused(t, &sc)
				} else {
					checkScenario(t, &sc)
				}
			})
		}
	}
}

func checkScenario(t *testing.T, sc *scenario) {
	ctx := t.Context()
	ours, theirs := newTwin(t, sc), newTwin(t, sc)
	r, err := ours.open(sc.hooks, gitProgram(t))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if _, err := r.Snapshot(ctx); err != nil {
		t.Fatal(err)
	}
	ours.sh(sc.change)
	theirs.sh(sc.change)
	after := files(t, ours.dir)
	result, done, err := snapshotAndCommit(ctx, r)
	if err != nil {
		t.Fatal(err)
	}
	commitAsGit(theirs, sc.hooks)
	compareRepositories(t, sc, ours, theirs)
	if tree, _ := ours.tryGit("rev-parse", "HEAD^{tree}"); tree != string(result)+"\n" && !done.Empty && sc.by != "git commit" {
		t.Errorf("the commit holds another tree than the snapshot %s", result)
	}
	checkPath(t, sc, r.Notes())
	if now := files(t, ours.dir); sc.by != "git commit" && !maps.Equal(now, after) {
		t.Errorf("snapshot and commit changed the working tree: %s", diffFiles(after, now))
	}
	checkRestore(t, sc)
}

// checkRestore goes back to where the attempt began and forth again, as after a failed attempt, and then
// snapshots once more.
func checkRestore(t *testing.T, sc *scenario) {
	ctx := t.Context()
	s := newTwin(t, sc)
	r, err := s.open(sc.hooks, gitProgram(t))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	before := files(t, s.dir)
	start, err := r.Snapshot(ctx)
	if err != nil {
		t.Fatal(err)
	}
	s.sh(sc.change)
	after := files(t, s.dir)
	result, err := r.Snapshot(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for _, way := range []struct {
		name string
		to   Tree
		want map[string]string
	}{{"back", start, before}, {"forth", result, after}} {
		done, err := r.Restore(ctx, way.to, time.Time{})
		if err != nil {
			t.Fatalf("%s: %v", way.name, err)
		}
		if diff := diffFiles(way.want, files(t, s.dir)); !onlyThese(diff, sc.stays) {
			t.Errorf("%s, touching %q: %s", way.name, done.touched(), diff)
		}
		if again, err := r.Snapshot(ctx); err != nil || again != way.to && !sc.nested {
			t.Errorf("%s: snapshot %s, %v, want %s", way.name, again, err, way.to)
		}
	}
}

func snapshotAndCommit(ctx context.Context, r *Repo) (Tree, Commit, error) {
	result, err := r.Snapshot(ctx)
	if err != nil {
		return "", Commit{}, err
	}
	head, err := r.HeadTree(ctx)
	if err != nil {
		return "", Commit{}, err
	}
	done, err := r.CommitWave(ctx, Wave{Message: waveMessage, Results: []Pair{{Base: head, Result: result}}})
	return result, done, err
}

// commitAsGit does what a person would; nothing to commit is no failure.
func commitAsGit(s *sandbox, hooks string) {
	s.t.Helper()
	s.git("add", "-A")
	s.put(s.home+"/message", waveMessage)
	args := []string{"commit", "-q", "--cleanup=verbatim", "-F", s.home + "/message"}
	if hooks == "skip" {
		args = append([]string{"-c", "core.hooksPath=/dev/null"}, args...)
	}
	if out, code := s.tryGit(args...); code != 0 && !strings.Contains(out, "nothing to commit") && !strings.Contains(out, "nothing added") {
		s.t.Fatalf("git commit: %s", out)
	}
}

// compareRepositories asks git the same questions of both.
func compareRepositories(t *testing.T, sc *scenario, ours, theirs *sandbox) {
	t.Helper()
	questions := []string{"log -1 --format=%T%n%P%n%an<%ae>%cn<%ce>%n%B", "ls-files -s -v", "status --porcelain -uall"}
	if sc.status != "" {
		questions = questions[:1]
		if got := ours.git("status", "--porcelain", "-uall"); got != sc.status {
			t.Errorf("git status:\n%swant\n%s", got, sc.status)
		}
	}
	for _, question := range questions {
		got, code := ours.tryGit(strings.Fields(question)...)
		want, wantCode := theirs.tryGit(strings.Fields(question)...)
		got, want = strings.ReplaceAll(got, ours.home, "~"), strings.ReplaceAll(want, theirs.home, "~")
		if got != want || code != wantCode {
			t.Errorf("git %s: exit %d\n%s\ngit's own: exit %d\n%s", question, code, got, wantCode, want)
		}
	}
	for _, name := range []string{"HEAD", "logs/HEAD"} {
		if got, want := ours.lastWords(name), theirs.lastWords(name); got != want {
			t.Errorf("%s: %q, git's own %q", name, got, want)
		}
	}
	if out, code := ours.tryGit("fsck", "--strict", "--no-dangling", "--no-progress"); out != "" || code != 0 {
		t.Errorf("git fsck: exit %d\n%s", code, out)
	}
}

// lastWords is the message, or what else stands at the end, of the last line of a file of the git directory.
func (s *sandbox) lastWords(name string) string {
	b, _ := os.ReadFile(filepath.Join(s.layout().gitDir, name))
	line := strings.TrimSpace(string(b))
	line = line[strings.LastIndex(line, "\n")+1:]
	if len(line) == 40 && isHex(line) {
		return "detached" // at a commit whose time is another one
	}
	return line[strings.LastIndex(line, "\t")+1:]
}

// checkPath: the slow way must be taken where it is needed, and only there.
func checkPath(t *testing.T, sc *scenario, notes []string) {
	t.Helper()
	if (len(notes) > 0) != (sc.by != "") {
		t.Errorf("done by %q, notes %q", sc.by, notes)
	}
}

// checkRefused: opening, or the first snapshot or commit, says why not, and HEAD and index stay as they are.
func checkRefused(t *testing.T, sc *scenario) {
	s := newTwin(t, sc)
	state := func() string {
		head, _ := s.tryGit("rev-parse", "-q", "--verify", "HEAD")
		status, _ := s.tryGit("status", "--porcelain")
		return head + status
	}
	r, err := s.open(sc.hooks, gitProgram(t))
	before := ""
	if err == nil {
		s.sh(sc.change)
		before = state()
		_, _, err = snapshotAndCommit(t.Context(), r)
	} else {
		before = state()
	}
	if err == nil || !strings.Contains(err.Error(), sc.refuse) {
		t.Fatalf("got %v, want %q", err, sc.refuse)
	}
	if after := state(); after != before {
		t.Errorf("refused, but\n%s\nbecame\n%s", before, after)
	}
}

func gitProgram(t *testing.T) string {
	t.Helper()
	p, err := exec.LookPath("git")
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// files reads a working tree: kind, permission to execute, and content of everything but git's own.
func files(t *testing.T, root string) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(root, func(p string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if e.Name() == ".git" {
			if e.IsDir() {
				return filepath.SkipDir
			}
			return nil
		}
		name, fi := strings.TrimPrefix(p, root+"/"), mustInfo(e)
		switch {
		case fi.Mode().IsRegular():
			b, err := os.ReadFile(p)
			out[name] = fmt.Sprintf("%v %s", fi.Mode()&0o100 != 0, b)
			return err
		case fi.Mode()&fs.ModeSymlink != 0:
			to, err := os.Readlink(p)
			out[name] = "-> " + to
			return err
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func mustInfo(e fs.DirEntry) fs.FileInfo {
	fi, err := e.Info()
	if err != nil {
		panic(err)
	}
	return fi
}

// diffFiles lists the paths that differ.
func diffFiles(want, got map[string]string) string {
	var out []string
	for p, w := range want {
		if g, ok := got[p]; !ok {
			out = append(out, "-"+p)
		} else if g != w {
			out = append(out, "~"+p)
		}
	}
	for p := range got {
		if _, ok := want[p]; !ok {
			out = append(out, "+"+p)
		}
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}

// onlyThese reports whether every difference is one that the scenario expects.
func onlyThese(diff, stays string) bool {
	for d := range strings.FieldsSeq(diff) {
		if !slices.Contains(strings.Fields(stays), d[1:]) {
			return false
		}
	}
	return true
}
