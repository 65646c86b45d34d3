package tagrun

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"descartes/agent"
	"descartes/config"
	"descartes/gitops"
	"descartes/internal/atomicfile"
	"descartes/loop"
	"descartes/loop/attempt"
	"descartes/loop/journal"
	"descartes/loop/slot"
	"descartes/loop/store"
	"descartes/loop/trunk"
	"descartes/scheduler"
	"descartes/tasks"
	"descartes/verify"
)

// yard is a project with a run at its trunk. Its check is a function of the files in the check tree.
type yard struct {
	t      *testing.T
	g      *ground
	dir    string
	env    []string
	now    standing
	at     *tree
	passes func(files map[string]string) bool
	ran    int // checks
	said   []string
	chk    []attempt.Command
}

func newYard(t *testing.T) *yard {
	t.Helper()
	base, err := filepath.EvalSymlinks(t.TempDir())
	y := &yard{t: t, dir: filepath.Join(base, "p"), at: &tree{}, passes: func(map[string]string) bool { return true }}
	y.do(err)
	y.env = []string{"HOME=" + base, "PATH=" + os.Getenv("PATH"), "GIT_CONFIG_NOSYSTEM=1", "LC_ALL=C",
		"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@b.c", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@b.c"}
	y.do(os.Mkdir(y.dir, 0o755))
	y.git("init", "-qb", "main")
	y.commits("begin", "f", "0\n")
	repo, err := gitops.Open(t.Context(), gitops.Options{Dir: y.dir, Env: y.env})
	y.do(err)
	t.Cleanup(func() { repo.Close() })
	y.chk = []attempt.Command{{Check: verify.Check{Run: "check"}}}
	tools := &loop.Tools{Repo: repo, FS: atomicfile.OS(), Now: gitops.Now, Pool: filepath.Join(base, "pool")}
	y.g = &ground{root: y.dir, id: "r", tag: "x", list: gitops.Named{Tag: "x"}, config: &config.Config{}, repo: repo, home: store.NewHome(y.dir),
		tools: tools, pool: slot.NewPool(slot.PoolOptions{Repo: repo, FS: atomicfile.OS(), Loop: "r",
			Place: tools.Pool, Root: y.dir, Dir: y.dir}),
		inTree: func(_ context.Context, _ voice, do func() error) error { return do() }}
	y.g.seat = func(s *slot.Slot) (*seats, error) {
		return &seats{slot: s, end: s.Close, runner: &attempt.Runner{Verify: y, Repo: repo, Dir: base}}, nil
	}
	t.Cleanup(func() {
		if y.at.seats != nil {
			y.do(y.at.end())
		}
	})
	y.start(begins{branch: "refs/heads/main"})
	return y
}

// start reads the trunk as a run does that starts or resumes.
func (y *yard) start(b begins) trunkState {
	y.t.Helper()
	b.made = func(string) (bool, bool) { return true, true }
	s, err := readTrunk(y.t.Context(), y.g, b, y.voice())
	y.do(err)
	y.now, err = saveTrunk(y.t.Context(), y.g, s.now)
	y.do(err)
	return s
}

func (y *yard) Run(_ context.Context, r verify.Request) (verify.Result, error) {
	y.ran++
	files := map[string]string{}
	y.do(filepath.WalkDir(r.Files, func(path string, d os.DirEntry, err error) error {
		if err == nil && d.IsDir() && d.Name() == ".git" {
			return filepath.SkipDir
		}
		if rel, _ := filepath.Rel(r.Files, path); err == nil && d.Type().IsRegular() && rel != ".git" {
			b, err := os.ReadFile(path)
			y.do(err)
			files[rel] = string(b)
		}
		return err
	}))
	res := verify.Result{Passed: y.passes(files)}
	if !res.Passed {
		res.Code, res.Tail = 1, fmt.Sprintf("error: no good after %d ms\n", y.ran)
	}
	return res, nil
}

func (y *yard) voice() voice {
	note := func(lines ...string) { y.said = append(y.said, lines...) }
	return voice{tell: func(s *attempt.Step) error { note(s.Lines...); return nil },
		write: func(...*journal.Event) error { return nil }}
}

func (y *yard) do(err error) {
	y.t.Helper()
	if err != nil {
		y.t.Fatal(err)
	}
}

func (y *yard) git(args ...string) string {
	y.t.Helper()
	c := exec.Command("git", args...)
	c.Dir, c.Env = y.dir, y.env
	out, err := c.CombinedOutput()
	if err != nil {
		y.t.Fatalf("git %v: %v\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

func (y *yard) write(name, text string) {
	y.t.Helper()
	y.do(os.WriteFile(filepath.Join(y.dir, name), []byte(text), 0o644))
}

// commits has the user commit a file; it returns the commit.
func (y *yard) commits(subject, name, text string) string {
	y.t.Helper()
	y.write(name, text)
	y.git("add", "--", name)
	y.git("commit", "-qm", subject)
	return y.git("rev-parse", "HEAD")
}

// attempt is one whose agent, started on the trunk as it is, wrote a file.
func (y *yard) attempt(id, name, text string) *made {
	y.t.Helper()
	ctx := y.t.Context()
	tree, err := y.g.repo.WithContent(ctx, y.now.chain.Tree, map[string][]byte{name: []byte(text)})
	y.do(err)
	m := &made{task: &tasks.Task{ID: id, Title: "Task " + id}, unit: journal.Unit{Task: id, Attempt: 1}, base: y.now.chain.Tree,
		from: y.now.chain.Tip, ref: store.RefPrefix("r", id) + "1", began: time.Now()}
	m.res.Agent = agent.Result{End: agent.Finished, Complete: true}
	m.res.Work.Before, m.res.Work.After, m.res.Changed = m.base, tree, 1
	m.res.Work.Changed, err = y.g.repo.Changed(ctx, m.base, tree)
	y.do(err)
	m.in = attempt.Input{Checks: y.chk, Log: filepath.Join(filepath.Dir(y.dir), "log")}
	m.commit, err = y.g.repo.Keep(ctx, m.ref, tree, []string{m.from}, "x: task "+id+" attempt 1\n\nDescartes-Left: {}\n")
	y.do(err)
	return m
}

func (y *yard) took(r result, err error) scheduler.Event {
	y.t.Helper()
	if y.do(err); r.now != nil {
		y.now = *r.now
	}
	return r.event
}

func (y *yard) check(m *made) scheduler.CheckEnded {
	y.t.Helper()
	a := scheduler.Check{Purpose: scheduler.OfAttempt, Task: m.task.ID}
	return y.took(checkAttempt(y.t.Context(), y.g, y.now, a, m, nil, y.at, y.voice())).(scheduler.CheckEnded)
}

func (y *yard) takeIn(commit string) scheduler.Result {
	y.t.Helper()
	return y.took(takeIn(y.t.Context(), y.g, y.now, scheduler.TakeIn{Commit: commit}, nil, y.chk, y.at,
		y.voice())).(scheduler.TakeInEnded).Result
}

// wave commits the trunk up to an entry.
func (y *yard) wave(n, tip int, aside bool) scheduler.Committed {
	y.t.Helper()
	w := trunk.Wave{Loop: "r", Tag: "x", Number: n, Done: 1, Of: 1}
	for _, id := range bringsOf(&y.now, tip) {
		w.Brings = append(w.Brings, trunk.Item{ID: id, Title: "Task " + id})
	}
	files := map[string][]byte{"list": fmt.Appendf(nil, "wave %d\n", n)}
	return y.took(commitWave(y.t.Context(), y.g, y.now, scheduler.Commit{Wave: n, Tip: tip, Aside: aside}, w, files,
		nil, y.chk, y.at, y.voice())).(scheduler.Committed)
}

// is is the trunk's entries, then of each commit since the first its subject and the tasks that it names, then the
// files of HEAD, and what differs from it in the user's tree.
func (y *yard) is(ref string) string {
	y.t.Helper()
	var out []string
	for i, e := range entriesOf(&y.now.chain) {
		word := e.Task
		if word == "" {
			word = "(" + y.git("log", "-1", "--format=%s", e.Commit) + ")"
		}
		if i < y.now.chain.In() {
			word += "+"
		}
		out = append(out, word)
	}
	out = append(out, "|")
	for line := range strings.Lines(y.git("log", "--reverse", "--topo-order",
		"--format=%s %(trailers:key=Descartes-Task,valueonly,separator=%x2C)", ref)) {
		out = append(out, strings.TrimSpace(line)+";")
	}
	out = append(out, "|")
	for name := range strings.FieldsSeq(y.git("ls-tree", "-r", "--name-only", ref)) {
		out = append(out, name+"="+strings.ReplaceAll(y.git("show", ref+":"+name), "\n", ","))
	}
	if dirty := y.git("status", "--porcelain"); dirty != "" {
		out = append(out, "| "+dirty)
	}
	return strings.Join(out, " ")
}

func TestTrunk(t *testing.T) {
	t.Parallel()
	good := func(y *yard, id, name, text string) {
		y.t.Helper()
		if e := y.check(y.attempt(id, name, text)); e.Result != scheduler.Passed {
			y.t.Fatalf("task %s: %+v", id, e)
		}
	}
	for name, tt := range map[string]struct {
		do   func(y *yard) any
		got  string // what do returns
		ref  string // "": main
		want string
	}{
		"a wave is what passed": {func(y *yard) any {
			good(y, "1", "a", "1")
			good(y, "2", "b", "2")
			return y.wave(1, 2, false)
		}, "{1 2 passed false}", "", "1+ 2+ | begin; feat(x): complete wave 1 x/1,x/2; | a=1 b=2 f=0 list=wave 1"},
		"what fails leaves the trunk as it is": {func(y *yard) any {
			y.passes = func(files map[string]string) bool { return files["a"] == "" }
			m := y.attempt("1", "a", "1")
			e := y.check(m)
			y.passes = func(map[string]string) bool { return false }
			if again := y.check(y.attempt("2", "b", "1")); again.Signature != e.Signature || e.Signature == "" {
				y.t.Errorf("the same failure is %q, then %q", e.Signature, again.Signature)
			}
			said := y.git("log", "-1", "--format=%B", m.ref)
			if y.git("rev-parse", m.ref) != m.commit || !strings.Contains(said, "Descartes-Verdict: failed") ||
				!strings.Contains(said, "Descartes-Left: {}") || !strings.Contains(said, "error: no good") {
				y.t.Errorf("the ref says %s", said)
			}
			return e.Result
		}, "failed", "", "| begin; | f=0"},
		"a clash names its paths": {func(y *yard) any {
			m := y.attempt("2", "f", "2\n")
			good(y, "1", "f", "1\n")
			e := y.check(m)
			return fmt.Sprintln(e.Result, e.Paths)
		}, "clashed [f]", "", "1 | begin; | f=0"},
		"a person's word": {func(y *yard) any {
			y.passes = func(map[string]string) bool { return false }
			m := y.attempt("1", "a", "1")
			m.accepts, m.accepted = &store.Accept{Loop: "r", Attempt: 1}, "accepted by a person"
			m.unit.Attempt, m.ref = 2, store.RefPrefix("r", "1")+"2"
			return fmt.Sprintln(y.check(m).Result, y.ran)
		}, "passed 1", "", "1 | begin; | f=0"},
		"accepted work that clashes": {func(y *yard) any {
			m := y.attempt("2", "f", "2\n")
			good(y, "1", "f", "1\n")
			m.accepts, m.unit.Attempt, m.ref = &store.Accept{Loop: "r", Attempt: 1}, 2, store.RefPrefix("r", "2")+"2"
			e := y.check(m)
			return fmt.Sprintln(e.Result, e.Paths)
		}, "clashed [f]", "", "1 | begin; | f=0"},
		"a change of the attempt's files by the merge": {func(y *yard) any {
			good(y, "0", "f", "0\n1\n2\n3\n4\n5\n6\n7\n")
			m := y.attempt("2", "f", "0\n1\n2\n3\n4\n5\n6\nseven\n")
			good(y, "1", "f", "zero\n1\n2\n3\n4\n5\n6\n7\n")
			return y.check(m).Changed
		}, "true", "", "0 1 2 | begin; | f=0"},
		"the user commits meanwhile": {func(y *yard) any {
			good(y, "1", "a", "1")
			c := y.commits("his", "h", "h")
			moved := y.wave(1, 1, false).Result
			e, _, err := watchBranch(y.t.Context(), y.g, y.now, nil)
			y.do(err)
			return fmt.Sprintln(moved, len(e.Commits), e.Lost, y.takeIn(c), y.ran, y.wave(1, 2, false))
		}, "moved 1 [] passed 2 {1 2 passed false}", "", "1+ (his)+ | begin; his; feat(x): complete wave 1 x/1; | a=1 f=0 h=h list=wave 1"},
		"what he commits is taken in unchecked where nothing else is": {func(y *yard) any {
			c := y.commits("his", "h", "h")
			return fmt.Sprintln(y.takeIn(c), y.ran)
		}, "passed 0", "", "(his)+ | begin; his; | f=0 h=h"},
		"he clashes": {func(y *yard) any {
			good(y, "1", "f", "1\n")
			return y.takeIn(y.commits("his", "f", "h\n"))
		}, "clashed", "", "1 | begin; his; | f=h"},
		"he is red with ours, which goes aside": {func(y *yard) any {
			good(y, "1", "a", "1")
			y.passes = func(files map[string]string) bool { return files["h"] == "" }
			red := y.takeIn(y.commits("his", "h", "h"))
			return fmt.Sprintln(red, y.wave(1, 1, true), y.now.branch)
		}, "failed {1 1 passed true} refs/heads/descartes/x", "descartes/x",
			"1+ | begin; feat(x): complete wave 1 x/1; | a=1 f=0 list=wave 1"},
		"his files are in the way": {func(y *yard) any {
			good(y, "1", "a", "1")
			y.write("a", "mine")
			return y.wave(1, 1, false)
		}, "{1 1 passed true}", "descartes/x", "1+ | begin; feat(x): complete wave 1 x/1; | a=1 f=0 list=wave 1 | ?? a"},
		"two waves, and what is between": {func(y *yard) any {
			good(y, "1", "f", "1\n")
			good(y, "2", "f", "2\n")
			one := y.wave(1, 1, false)
			return fmt.Sprintln(one, y.takeIn(y.commits("his", "h", "h")), y.wave(2, 2, false))
		}, "{1 1 passed false} passed {2 2 passed false}", "",
			"1+ 2+ (his)+ | begin; feat(x): complete wave 1 x/1; his; feat(x): complete wave 2 x/2; | f=2 h=h list=wave 2"},
		"a kill before the branch moved": {func(y *yard) any {
			good(y, "1", "a", "1")
			before := y.now
			y.wave(1, 1, false)
			made := y.git("rev-parse", "HEAD")
			y.git("reset", "-q", "--hard", "HEAD~")
			y.git("update-ref", before.chain.Ref, before.chain.Tip)
			s := y.start(begins{branch: "refs/heads/main"})
			return fmt.Sprintln(y.git("rev-parse", "HEAD") == made, s.in, len(s.lines), s.lines[0].Tasks, s.wave, s.branch,
				y.wave(2, 1, false).Result)
		}, "true 1 1 [1] 1 [] passed", "", "1+ | begin; feat(x): complete wave 1 x/1; chore(x): complete wave 2; | a=1 f=0 list=wave 2"},
		"a kill before the trunk had the commit": {func(y *yard) any {
			good(y, "1", "f", "1\n")
			good(y, "2", "f", "2\n")
			before := y.now
			y.wave(1, 1, false)
			y.git("update-ref", before.chain.Ref, before.chain.Tip)
			s := y.start(begins{branch: "refs/heads/main"})
			return fmt.Sprintln(s.chain, s.in, len(s.lines), y.wave(2, 2, false))
		}, "[{1 } {2 }] 1 1 {2 2 passed false}", "",
			"1+ 2+ | begin; feat(x): complete wave 1 x/1; feat(x): complete wave 2 x/2; | f=2 list=wave 2"},
		"he takes a wave out": {func(y *yard) any {
			good(y, "1", "a", "1")
			y.wave(1, 1, false)
			good(y, "2", "b", "2")
			y.wave(2, 2, false)
			y.git("reset", "-q", "--hard", "HEAD~")
			y.commits("his", "h", "h")
			e, moved, err := watchBranch(y.t.Context(), y.g, y.now, nil)
			y.do(err)
			r := y.took(cutTrunk(y.t.Context(), y.g, y.now, scheduler.CutTrunk{Tip: 1, Open: []string{"3"}},
				y.voice())).(scheduler.Rewound)
			return fmt.Sprintln(moved, e.Lost, len(r.Chain), r.In, r.Wave, r.Branch, r.Open)
		}, "true [2] 2 2 1 [] [3]", "",
			"1+ (his)+ | begin; feat(x): complete wave 1 x/1; his; | a=1 f=0 h=h list=wave 1"},
		"he rewords a commit": {func(y *yard) any {
			good(y, "1", "a", "1")
			y.wave(1, 1, false)
			y.git("commit", "-q", "--amend", "-m", "mine")
			e, _, err := watchBranch(y.t.Context(), y.g, y.now, nil)
			y.do(err)
			good(y, "2", "b", "2")
			return fmt.Sprintln(len(e.Commits), e.Lost, y.takeIn(e.Commits[0]), y.wave(2, 3, false).Result)
		}, "1 [] passed passed", "", "1+ 2+ (mine)+ | begin; mine; feat(x): complete wave 2 x/2; | a=1 b=2 f=0 list=wave 2"},
		"he amends a commit, and leaves its trailers": {func(y *yard) any {
			good(y, "1", "a", "1")
			y.wave(1, 1, false)
			y.write("a", "mine")
			y.git("commit", "-qa", "--amend", "--no-edit")
			good(y, "2", "b", "2")
			moved := y.wave(2, 2, false).Result
			e, _, err := watchBranch(y.t.Context(), y.g, y.now, nil)
			y.do(err)
			return fmt.Sprintln(moved, len(e.Commits), e.Lost, y.takeIn(e.Commits[0]), y.wave(2, 3, false).Result)
		}, "moved 1 [] passed passed", "", "1+ 2+ (feat(x): complete wave 1)+ | begin; feat(x): complete wave 1 x/1; feat(x): complete wave 2 x/2; | a=mine b=2 f=0 list=wave 2"},
		"he takes back what he committed": {func(y *yard) any {
			c := y.commits("his", "h", "h")
			in := y.takeIn(c)
			good(y, "1", "a", "1")
			y.git("reset", "-q", "--hard", "HEAD~")
			e, _, err := watchBranch(y.t.Context(), y.g, y.now, []string{c})
			y.do(err)
			return fmt.Sprintln(in, len(e.Commits), y.takeIn(e.Commits[0]), y.wave(1, 3, false).Result)
		}, "passed 1 passed passed", "", "(his)+ 1+ (begin)+ | begin; feat(x): complete wave 1 x/1; | a=1 f=0 list=wave 1"},
		"the next run goes on from what no branch has": {func(y *yard) any {
			good(y, "1", "a", "1")
			y.wave(1, 1, false)
			good(y, "2", "b", "2")
			_, err := leaveTrunk(y.t.Context(), y.g, y.now)
			y.do(err)
			y.g.id = "s"
			s := y.start(begins{branch: "refs/heads/main"})
			good(y, "3", "c", "3")
			return fmt.Sprintln(s.chain, s.in, y.wave(2, 2, false).Result)
		}, "[{2 }] 0 passed", "",
			"2+ 3+ | begin; feat(x): complete wave 1 x/1; feat(x): complete wave 2 x/2,x/3; | a=1 b=2 c=3 f=0 list=wave 2"},
		"a run whose branch is aside from the start": {func(y *yard) any {
			y.git("update-ref", "-d", y.now.chain.Ref)
			y.start(begins{branch: trunk.AsideOf("x")})
			good(y, "1", "a", "1")
			return y.wave(1, 1, false)
		}, "{1 1 passed false}", "descartes/x", "1+ | begin; feat(x): complete wave 1 x/1; | a=1 f=0 list=wave 1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			y := newYard(t)
			got := strings.TrimSpace(fmt.Sprint(tt.do(y)))
			ref := tt.ref
			if ref == "" {
				ref = "main"
			}
			if is := y.is(ref); got != tt.got || is != tt.want {
				t.Errorf("got  %s\nwant %s\ngot  %s\nwant %s\n%v", got, tt.got, is, tt.want, y.said)
			}
			again := trunk.Chain{Repo: y.g.repo, Ref: y.now.chain.Ref, Now: time.Now}
			if _, err := again.Read(t.Context()); err != nil || again.Tip != y.now.chain.Tip ||
				!slices.Equal(entriesOf(&again), entriesOf(&y.now.chain)) {
				t.Errorf("the trunk reads as %+v, %v, and is %+v", again, err, y.now.chain)
			}
		})
	}
}

// A check that stands on another's is only said to pass; where the other clashes it says nothing.
func TestCheckAhead(t *testing.T) {
	t.Parallel()
	y := newYard(t)
	one, two, three := y.attempt("1", "a", "1"), y.attempt("2", "b", "2"), y.attempt("3", "a", "3")
	y.passes = func(files map[string]string) bool { return files["a"] == "1" }
	on := func(m *made, ahead ...*made) scheduler.Result {
		a := scheduler.Check{Purpose: scheduler.OfAttempt, Task: m.task.ID}
		for _, o := range ahead {
			a.On = append(a.On, o.task.ID)
		}
		return y.took(checkAttempt(t.Context(), y.g, y.now, a, m, ahead, y.at, y.voice())).(scheduler.CheckEnded).Result
	}
	got := fmt.Sprintln(on(two, one), on(two, one, three), on(one), len(y.now.chain.Entries()))
	a := scheduler.Check{Purpose: scheduler.OfAttempt, Task: "2", Checked: true}
	ran := y.ran
	r, err := checkAttempt(t.Context(), y.g, y.now, a, two, nil, y.at, y.voice())
	y.took(r, err)
	if got += fmt.Sprint(y.ran-ran, len(r.lines)); got != "passed cut passed 1\n0 2" ||
		!strings.HasPrefix(y.is("main"), "1 2 |") {
		t.Errorf("got %s\n%s", got, y.is("main"))
	}
}

// The tip is checked as it is: before any attempt, and again where a check fails in task after task.
func TestCheckTip(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		setting string
		purpose scheduler.Purpose
		code    int
		want    string
	}{
		"passes":                {"require", scheduler.Baseline, 0, "passed false"},
		"fails":                 {"require", scheduler.Baseline, 1, "failed true"},
		"may fail":              {"warn", scheduler.Baseline, 1, "passed false"},
		"cannot run":            {"warn", scheduler.Baseline, 127, "cut true"},
		"a recheck fails":       {"warn", scheduler.Recheck, 1, "failed false signed"},
		"a recheck passes":      {"warn", scheduler.Recheck, 0, "passed false"},
		"nothing is comparable": {"known", scheduler.Baseline, 1, "cut true"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			y := newYard(t)
			y.g.config.Baseline = tt.setting
			y.passes = func(map[string]string) bool { return tt.code == 0 }
			y.at.seats = nil
			seat := y.g.seat
			y.g.seat = func(s *slot.Slot) (*seats, error) {
				one, err := seat(s)
				one.runner.Verify = coded{y, tt.code}
				return one, err
			}
			var r result
			var err error
			if tt.purpose == scheduler.Recheck {
				r, err = recheck(t.Context(), y.g, y.now, scheduler.Check{Purpose: tt.purpose, Task: "1"}, y.chk, y.at,
					y.voice())
			} else {
				r, err = baseline(t.Context(), y.g, y.now, scheduler.Check{}, "", nil, y.chk, y.at, y.voice())
			}
			y.do(err)
			e := r.event.(scheduler.CheckEnded)
			got := fmt.Sprint(e.Result, " ", r.out != nil)
			if e.Signature != "" {
				got += " signed"
			}
			if got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
}

// coded is a check with an exit status.
type coded struct {
	*yard
	code int
}

func (c coded) Run(ctx context.Context, r verify.Request) (verify.Result, error) {
	res, err := c.yard.Run(ctx, r)
	res.Code = c.code
	return res, err
}

// The checks of a wave look at the trunk up to an entry, each by its name.
func TestCheckWave(t *testing.T) {
	t.Parallel()
	y := newYard(t)
	y.check(y.attempt("1", "a", "1"))
	y.check(y.attempt("2", "b", "2"))
	y.passes = func(files map[string]string) bool { return files["b"] == "" }
	list := []attempt.Command{{Check: verify.Check{Name: "lint", Run: "lint"}}, {Check: verify.Check{Name: "e2e", Run: "e2e"}},
		{Check: verify.Check{Name: "other", Run: "other"}}}
	for _, tt := range []struct {
		tip  int
		want string
	}{{1, "{7 1 passed []} 2"}, {2, "{7 2 failed [lint e2e]} 2"}} {
		ran := y.ran
		a := scheduler.WaveCheck{Wave: 7, Tip: tt.tip, Checks: []string{"lint", "e2e"}}
		e := y.took(checkWave(t.Context(), y.g, y.now, a, list, y.at, y.voice()))
		if got := fmt.Sprint(e, " ", y.ran-ran); got != tt.want {
			t.Errorf("got %s, want %s", got, tt.want)
		}
	}
}

// What is pushed is there, and what cannot be is said with the command to type.
func TestPush(t *testing.T) {
	t.Parallel()
	y := newYard(t)
	y.check(y.attempt("1", "a", "1"))
	y.wave(1, 1, false)
	r, unpushed, err := push(t.Context(), y.g, y.now, nil, y.voice())
	if y.do(err); r.event.(scheduler.Pushed).Result != scheduler.Failed || !strings.Contains(unpushed, "git push REMOTE") {
		t.Errorf("without a remote: %v, %s", r.event, unpushed)
	}
	y.git("init", "-q", "--bare", "../there")
	y.git("remote", "add", "origin", "../there")
	repo, err := gitops.Open(t.Context(), gitops.Options{Dir: y.dir, Env: y.env}) // which has read the settings
	y.do(err)
	defer repo.Close()
	y.g.repo = repo
	r, unpushed, err = push(t.Context(), y.g, y.now, nil, y.voice())
	if y.do(err); r.event.(scheduler.Pushed).Result != scheduler.Passed || unpushed != "" {
		t.Errorf("got %v, %s, %v", r.event, unpushed, y.said)
	}
	if there := y.git("ls-remote", "origin"); !strings.Contains(there, "refs/heads/main") ||
		!strings.Contains(there, store.RefPrefix("r", "1")+"1") || strings.Contains(there, "/trunk") {
		t.Errorf("there is\n%s", there)
	}
}
