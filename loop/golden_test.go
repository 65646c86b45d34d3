package loop

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"descartes/agent"
	"descartes/agent/quota"
	"descartes/gitops"
	"descartes/loop/attempt"
	"descartes/loop/journal"
	"descartes/loop/source"
	"descartes/loop/store"
	"descartes/loop/trunk"
	"descartes/loop/workspace"
	"descartes/tasks"
	"descartes/verify"
)

var update = flag.Bool("update", false, "rewrite the golden traces")

// TestGolden plays the scenarios of testdata/golden, with real git and a clock that stands still while anybody works,
// and compares how their units move through the states of the table at unit with the traces below them. A scenario is:
//
//	== its name, and what must hold
//	tasks 1 2<1,3 3          the list: 2 depends on 1 and 3
//	with attempts=2 slots=2  settings, see stage.set
//	2.1 2s, ctrl-c, fails    what happens in attempt 1 at task 2 in the next run, see stage.Run; any other attempt takes a second and passes
//	run step                 a run, with settings of its own; and between runs what a person does, see stage.user
//	--
//	its trace, that -update renews
//
// Work passes the check unless a file of it says "bad", or "not beside F" where there is an F.
func TestGolden(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/golden/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		list := scenarios(t, file)
		for i := range list {
			s := &list[i]
			t.Run(strings.TrimSuffix(filepath.Base(file), ".txt")+"/"+s.name, func(t *testing.T) {
				t.Parallel()
				got := ""
				synctest.Test(t, func(t *testing.T) { got = play(t, s.script) })
				if *update {
					s.trace = got
				} else if got != s.trace {
					t.Errorf("got\n%s\nwant\n%s", got, s.trace)
				}
			})
		}
		t.Cleanup(func() {
			if !*update {
				return
			}
			var b strings.Builder
			for _, s := range list {
				fmt.Fprintf(&b, "== %s\n%s--\n%s\n", s.name, s.script, s.trace)
			}
			if err := os.WriteFile(file, []byte(strings.TrimSuffix(b.String(), "\n")), 0o644); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestGoldenIsWhole: each row of the table at unit is in a golden trace, and no trace has a transition that is no row;
// each ending is in one.
func TestGoldenIsWhole(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/golden/*.txt")
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]string{}
	ended := map[string]bool{"rewound": true} // nobody's end
	for _, of := range []journal.Ending{journal.PromiseSeen, journal.CommandSucceeded, journal.GateDone,
		journal.GateBlocked, journal.TestsFailed, journal.PlanMissing, journal.GitRefused} { // of prompt loops: see package run
		ended[string(of)] = true
	}
	for _, file := range files {
		for _, s := range scenarios(t, file) {
			for line := range strings.Lines(s.trace) {
				if f := strings.Fields(line); len(f) > 3 && f[2] == "->" {
					seen[f[1]+" "+f[3]] = s.name
				} else if how, ok := strings.CutPrefix(strings.TrimSpace(line), "run ends: "); ok {
					ended[strings.Fields(how)[0]] = true
				}
			}
		}
	}
	rows := map[string]bool{}
	for _, row := range regexp.MustCompile(`(?m)^//\t(\w+) +(\w+) +\w`).FindAllStringSubmatch(contents(t, "engine.go"),
		-1) {
		if row[1] != "from" {
			rows[row[1]+" "+row[2]] = true
		}
	}
	if len(rows) < 12 {
		t.Fatalf("the table at unit has %d rows", len(rows))
	}
	for row := range rows {
		if seen[row] == "" {
			t.Errorf("no trace has the row %q", row)
		}
	}
	for row, name := range seen {
		if !rows[row] {
			t.Errorf("%q is no row of the table: %s", row, name)
		}
	}
	for _, e := range regexp.MustCompile(`Ending = "(\w+)"`).FindAllStringSubmatch(contents(t, "journal/event.go"), -1) {
		if !ended[e[1]] {
			t.Errorf("no trace ends with %s", e[1])
		}
	}
}

// Tasks that all wait for a quota, which another run met, wake while one of them has the only lane.
func TestWakesWithoutLane(t *testing.T) {
	t.Parallel()
	known := accountsIn(t)
	known.IDs[""] = "one"
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, listOf([]string{"1", "2", "3", "4"}))
		s.known = known
		if err := known.Note(quota.Record{Until: time.Now().Add(12 * time.Second), Reason: "quota",
			Loop: "other", At: time.Now()}); err != nil {
			t.Fatal(err)
		}
		for _, id := range []string{"1", "2", "3", "4"} {
			s.steps[id+".1"] = []string{"5s", "works"}
		}
		s.perform("")
		slept := 0
		for _, e := range s.moves {
			if e.Type == journal.LimitWaiting {
				slept++
			}
		}
		if slept != 4 || len(s.ran) != 4 {
			t.Errorf("%d tasks waited, and %v ran", slept, s.ran)
		}
		if got := s.git("ls-tree", "--name-only", "HEAD", "1.txt", "2.txt", "3.txt", "4.txt"); strings.Count(got,
			"txt") != 4 {
			t.Errorf("HEAD has %s", got)
		}
	})
}

// TestKilledAtEachEvent has a run die right after every second of its events; with DESCARTES_CRASH_EVERY=1 after each,
// which takes two minutes with the race detector; and right before that of each commit. The next one ends as it would
// have: no verified attempt is made again, no commit twice, each is recorded, and what an agent left is in the commit
// or kept.
func TestKilledAtEachEvent(t *testing.T) {
	t.Parallel()
	later := time.Now().Add(time.Hour) // than the times of all files, with which a resumed run compares it
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, listOf([]string{"1", "2<1"}))
		s.now = func() time.Time { return later.Add(time.Since(s.began)) }
		s.steps["1.1"] = []string{"fails"}
		copies, n, tell := t.TempDir(), 0, s.tell
		bring := func(pairs ...string) {
			t.Helper()
			for i := 0; i < len(pairs); i += 2 {
				if out, err := exec.Command("cp", "-a", pairs[i], pairs[i+1]).CombinedOutput(); err != nil {
					t.Fatalf("%v: %s", err, out)
				}
			}
		}
		at := func(what string, k int) string { return filepath.Join(copies, fmt.Sprint(what, k)) }
		s.tell = func(e journal.Event) {
			tell(e)
			bring(s.dir, at("dir", n), s.pool, at("pool", n))
			n++
		}
		s.perform("")
		log, list, loop := s.git("log", "--format=%s"), s.left(), s.loop
		if n < 20 {
			t.Fatalf("%d events", n)
		}
		s.tell = tell
		for k := range 2 * n { // odd: of a commit, whose event is missing
			for _, dir := range []string{s.dir, s.pool} {
				if err := os.RemoveAll(dir); err != nil {
					t.Fatal(err)
				}
			}
			bring(at("dir", k/2), s.dir, at("pool", k/2), s.pool)
			path := store.NewHome(s.dir).Events(loop)
			events, err := journal.ReadEvents(path)
			if err != nil || len(events) == 0 {
				t.Fatal(k, err)
			}
			last := events[len(events)-1]
			switch unsaid := k%2 == 1; {
			case unsaid && last.Type != journal.WaveCommitted, !unsaid && k/2%every(2) > 0:
				continue
			case unsaid:
				text := strings.TrimSuffix(contents(t, path), "\n")
				s.write(strings.TrimPrefix(path, s.dir+"/"), text[:strings.LastIndex(text, "\n")+1])
				last.Type = "before-" + last.Type
			}
			s.ran, s.moves, s.repo = nil, nil, s.world.repo()
			s.perform("")
			if got := s.git("log", "--format=%s"); got != log || s.left() != list {
				t.Errorf("killed after %s %s: the branch has\n%s\nwant\n%s\n%s%s", last.Type, last.Task, got, log,
					s.left(), s.trace())
			}
			if got := strings.Count(contents(t, store.NewHome(s.dir).Events(s.loop)),
				`"type":"wave_committed"`); got != 2 {
				t.Errorf("killed after %s %s: %d of 2 commits are recorded", last.Type, last.Task, got)
			}
			refs := s.git("for-each-ref", "--format=%(refname)", "refs/descartes/")
			for _, e := range events {
				key := fmt.Sprint(e.Task, ".", e.Attempt)
				again := slices.ContainsFunc(s.ran, func(r string) bool { return strings.HasPrefix(r, e.Task+".") })
				if e.Type == journal.AttemptFinished && e.Verdict == journal.Verified && again {
					t.Errorf("killed after %s %s: %s was verified, and then ran %v", last.Type, last.Task, key, s.ran)
				}
				if ref := store.RefPrefix(loop, e.Task) + strconv.Itoa(e.Attempt); e.Type == journal.AgentFinished &&
					!strings.Contains(refs, ref) {
					t.Errorf("killed after %s %s: the work of %s is lost:\n%s", last.Type, last.Task, key, refs)
				}
			}
		}
	})
}

func contents(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

type scenario struct{ name, script, trace string }

func scenarios(t *testing.T, file string) (list []scenario) {
	t.Helper()
	for _, part := range strings.Split("\n"+contents(t, file), "\n== ")[1:] {
		name, rest, _ := strings.Cut(part, "\n")
		script, trace, ok := strings.Cut(rest+"\n", "--\n")
		if !ok {
			t.Fatalf("%s: %q has no trace", file, name)
		}
		list = append(list, scenario{name, script, strings.TrimSpace(trace) + "\n"})
	}
	return list
}

// stage is the world of a scenario.
type stage struct {
	*world
	t     *testing.T
	repo  *gitops.Repo
	began time.Time
	steps map[string][]string // by attempt
	looks int                 // reviews so far
	at    map[string]string   // by folder: the attempt whose agent works there
	free  int64
	ran   []string // attempts that agents made

	mu     sync.Mutex // of what the engine's goroutine writes
	moves  []move0
	loop   string // the last one
	soft   chan struct{}
	cancel context.CancelCauseFunc
}

// move0 is an event, and when it was.
type move0 struct {
	journal.Event
	at time.Duration
}

// play plays a scenario and returns its trace.
func play(t *testing.T, script string) string {
	list := threeTasks
	if f, ok := strings.CutPrefix(script, "tasks "); ok {
		line, _, _ := strings.Cut(f, "\n")
		list = listOf(strings.Fields(line))
	}
	s := newStage(t, list)
	for line := range strings.Lines(script) {
		word, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch {
		case word == "tasks" || word == "":
		case word == "with":
			s.set(rest)
		case word == "run":
			s.perform(rest)
		case word[0] >= '0' && word[0] <= '9' || strings.HasPrefix(word, "review."):
			s.steps[word] = strings.Split(rest, ", ")
		default:
			s.user(strings.TrimSpace(line))
		}
	}
	return s.trace()
}

func newStage(t *testing.T, list string) *stage {
	t.Helper()
	s := &stage{world: newWorld(t, list), t: t, began: time.Now(), steps: map[string][]string{},
		at: map[string]string{}, free: 1 << 40}
	s.now = time.Now
	s.world.free = func(string) (int64, error) { s.mu.Lock(); defer s.mu.Unlock(); return s.free, nil }
	s.tell = func(e journal.Event) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.loop = e.Loop
		s.moves = append(s.moves, move0{e, time.Since(s.began)})
	}
	s.repo = s.world.repo()
	return s
}

// listOf is a task list: "2<1" is a task 2 that depends on 1.
func listOf(words []string) string {
	var list []string
	for _, w := range words {
		id, deps, _ := strings.Cut(w, "<")
		list = append(list, fmt.Sprintf(`  {"id": %s, "title": "T%s", "status": "pending", "depends_on": [%s]}`, id,
			id, deps))
	}
	return "{\"tag\": \"x\", \"tasks\": [\n" + strings.Join(list, ",\n") + "\n]}\n"
}

// set changes settings.
func (s *stage) set(words string) (opt StartOptions) {
	c := &s.cfg
	for _, word := range strings.Fields(words) {
		key, value, _ := strings.Cut(word, "=")
		n, _ := strconv.Atoi(value)
		d, _ := time.ParseDuration(value)
		switch key {
		case "attempts":
			c.Scud.MaxIterationsPerTask = n
		case "total":
			c.Scud.MaxTotalIterations = n
		case "iterations":
			c.MaxIterations = n
		case "slots":
			c.Parallel = n
		case "breaker":
			c.Breaker = n
		case "candidates":
			c.Candidates = n
		case "pick":
			c.Pick = value
		case "on-limit":
			c.OnLimit = value
		case "fallback":
			c.Fallback = []string{value}
		case "max-wait":
			c.MaxWaitSecs = int(d / time.Second)
		case "cost":
			c.MaxCostUSD = float64(n)
		case "task-cost":
			c.MaxCostPerTask = float64(n)
		case "deadline":
			at := s.now().Add(d)
			c.Deadline = &at
		case "baseline":
			c.Baseline = value
		case "review":
			c.Review.Backend, c.Review.On = "judge", value
			s.world.looks = attempt.Looks()
		case "commit":
			c.Commit = value
		case "no-commit":
			c.Scud.AutoCommitWaves = false
		case "barrier":
			c.Barrier = true
		case "gate":
			c.Gate = value
		case "promise":
			c.CompletionPromise = value
		case "check": // one for the given moment, besides that of an attempt
			c.Scud.VerificationCommand = ""
			c.Checks = []verify.Check{{Name: "own", Run: "check"}, {Name: value, Run: value, When: verify.When(value)}}
		case "disk":
			c.MinFreeDisk = 1
		case "retry":
			c.Scud.RetryBlocked = true
		case "anew":
			opt.Anew = true
		case "yes":
			opt.Yes = true
		case "step":
			opt.Scope = store.Scope{Step: true, Task: value}
		default:
			s.t.Fatalf("no setting %q", word)
		}
	}
	return opt
}

// perform starts a loop, or resumes it, and runs it to its end.
func (s *stage) perform(words string) {
	opt := s.set(words)
	opt.Command = "loop"
	ctx, cancel := context.WithCancelCause(s.t.Context())
	defer cancel(nil)
	s.soft, s.cancel = make(chan struct{}), cancel
	tools := s.tools(s.repo)
	tools.Agent, tools.Verify = s, inspector{}
	tools.Slot = func(*workspace.Slot, string) (attempt.Agent, attempt.Verifier, func() error, error) {
		return s, inspector{}, func() error { return nil }, nil
	}
	tools.Code = func(out Outcome) int { return 0 }
	job, problems := source.Load(s.dir, s.cfg)
	problems = append(problems, idle(job)...)
	if len(problems) > 0 {
		s.say("run is refused")
		return
	}
	l, err := Start(ctx, s.dir, Tag{job}, tools, opt)
	if err != nil {
		s.t.Fatal(err)
	}
	s.soft = make(chan struct{})
	out, err := l.Run(ctx, s.soft)
	if err = errors.Join(err, l.Close()); err != nil && out.Ending != journal.OwnError {
		s.t.Errorf("run: %+v, %v", out, err)
	}
	s.cfg.Scud.RetryBlocked, s.cfg.Deadline = false, nil
	clear(s.steps)
}

// say adds a line of its own to the trace.
func (s *stage) say(line string) {
	s.tell(journal.Event{Type: "", Loop: s.loop, Message: line})
}

// Run plays an agent.
func (s *stage) Run(ctx context.Context, r agent.Request) (agent.Result, error) {
	env := map[string]string{}
	for _, kv := range r.Env {
		k, v, _ := strings.Cut(kv, "=")
		env[k] = v
	}
	unit := env["DESCARTES_TASK_ID"]
	key := unit + "." + env["DESCARTES_ATTEMPT"]
	s.mu.Lock()
	if env["DESCARTES_REVIEW"] != "" {
		s.looks++
		key = fmt.Sprint("review.", s.looks)
	}
	steps := s.steps[key]
	s.ran = append(s.ran, key)
	if other := s.at[r.Dir]; other != "" {
		s.t.Errorf("the agents of %s and %s are in one lane", other, key)
	}
	s.at[r.Dir] = key
	s.mu.Unlock()
	defer func() { s.mu.Lock(); defer s.mu.Unlock(); delete(s.at, r.Dir) }()
	if id := env["DESCARTES_TASK_ID"]; id != "" && env["DESCARTES_REVIEW"] == "" &&
		!strings.HasPrefix(r.Prompt, "# Task "+id) {
		s.t.Errorf("the agent of task %s got another prompt:\n%s", id, r.Prompt)
	}
	if !slices.ContainsFunc(steps, func(step string) bool { _, err := time.ParseDuration(step); return err == nil }) {
		n, _ := strconv.Atoi(unit) // no two end together
		steps = slices.Insert(slices.Clone(steps), 0, fmt.Sprint(1000+10*n, "ms"))
	}
	res := agent.Result{End: agent.Finished, Complete: true,
		Final: cmp.Or(map[bool]string{
			true: `{"verdict": "approve", "reasons": ["good"]}`}[env["DESCARTES_REVIEW"] != ""])}
	works := unit + ".txt"
	if env["DESCARTES_REVIEW"] != "" {
		works = ""
	}
	text := "by " + key + "\n"
	for _, step := range steps {
		if d, err := time.ParseDuration(step); err == nil {
			select {
			case <-ctx.Done():
				return agent.Result{End: agent.Cancelled}, nil
			case <-time.After(d):
			}
			continue
		}
		word, rest, _ := strings.Cut(step, " ")
		switch word {
		case "works":
		case "fails":
			text += "bad\n"
		case "bad": // to a check with that name
			text += step + "\n"
		case "says": // to the status gate
			res.Complete = rest == "COMPLETE"
			res.Final = fmt.Sprintf(
				"All tasks are done. The project is complete.\n\n---RALPH_STATUS---\nSTATUS: %s\nEXIT_SIGNAL: %v\n---END_RALPH_STATUS---", rest, res.Complete)
		case "breaks": // what it does does not go with another file
			text += "not beside " + rest + "\n"
		case "edits": // a file of others, or that others edit too
			works = rest
		case "more": // an iteration that does not promise
			res.Complete = false
		case "promises":
			res.Final = "<promise>COMPLETE</promise>"
		case "claims": // to each gate
			res.Final = "All is done. The work is complete.\n\n<promise>COMPLETE</promise>\n\n---RALPH_STATUS---\n" +
				"STATUS: COMPLETE\nTESTS_STATUS: PASSING\nEXIT_SIGNAL: true\n---END_RALPH_STATUS---\n\n---LOOP_STATUS---\n" +
				"EXIT_SIGNAL: true\nCRITERIA: {\"a\": {\"met\": true, \"verification\": \"observation\"}}\n" +
				"---END_STATUS---\n\n<promise>COMPLETE</promise>"
		case "blocked": // by its work, and says so in each format
			res.Complete, res.Blocked = false, "no key"
			res.Final = strings.ReplaceAll(res.Final, "EXIT_SIGNAL: true", "STATUS: BLOCKED\nEXIT_SIGNAL: true")
		case "idle": // changes nothing, says nothing
			works, res.Complete = "", false
		case "blocks":
			works, res.Complete, res.Blocked = "", false, "it cannot be done"
		case "asks":
			works, res.Complete, res.Blocked, res.Question = "", false, "which one?", "which one?"
		case "crashes":
			res = agent.Result{End: agent.Crashed, Code: 1, Reason: "boom"}
		case "hangs":
			res = agent.Result{End: agent.TimedOut, Reason: "too long"}
		case "refused":
			works, res = "", agent.Result{End: agent.Refused, Cause: agent.Fatal, Reason: "no key"}
		case "disappears": // an error of ours
			return res, errors.New("no such thing")
		case "overloaded":
			works, res = "", agent.Result{End: agent.Crashed, Cause: agent.Transient, Code: 1, Reason: "overloaded"}
		case "quota":
			d, err := time.ParseDuration(rest)
			if err != nil {
				s.t.Error(err)
			}
			works, res = "", agent.Result{End: agent.Limited, Until: s.now().Add(d), Reason: "quota"}
		case "costs":
			usd, err := strconv.ParseFloat(rest, 64)
			if err != nil {
				s.t.Error(err)
			}
			res.Cost = &agent.Cost{USD: &usd}
		case "rejects":
			res.Final = `{"verdict": "reject", "reasons": ["no test"]}`
		case "doubts":
			res.Final = `{"verdict": "ask", "reasons": ["is that so?"]}`
		default:
			s.user(step)
		}
	}
	if works != "" {
		if err := os.WriteFile(filepath.Join(r.Dir, works), []byte(text), 0o644); err != nil {
			s.t.Error(err)
		}
	}
	return res, nil
}

// user does what a person does, between runs or during an attempt.
func (s *stage) user(command string) {
	ctx, home := s.t.Context(), store.NewHome(s.dir)
	s.mu.Lock()
	loop := s.loop
	s.mu.Unlock()
	word, rest, _ := strings.Cut(command, " ")
	var err error
	switch word {
	case "ctrl-c":
		close(s.soft)
	case "ctrl-c-again":
		s.cancel(nil)
	case "term":
		s.cancel(ErrTerminated)
	case "pause", "cancel":
		err = home.Ask(s.fs, loop, store.Request(word), rest == "now")
	case "withdraw":
		err = home.ClearRequest(loop)
	case "answer":
		err = home.Answer(ctx, s.fs, "x", store.Answer{Task: rest, Text: "this one", At: s.now()})
	case "accept":
		task, n, _ := strings.Cut(rest, ".")
		number, _ := strconv.Atoi(n)
		err = home.Answer(ctx, s.fs, "x", store.Answer{Task: task, At: s.now(),
			Accept: &store.Accept{Loop: loop, Attempt: number}})
	case "list": // 2=cancelled
		id, status, _ := strings.Cut(rest, "=")
		text := contents(s.t, filepath.Join(s.dir, ".scud/tasks/x.json"))
		text = regexp.MustCompile(`("id": `+id+`, .*"status": )"[^"]*"`).ReplaceAllString(text, `$1"`+status+`"`)
		err = os.WriteFile(filepath.Join(s.dir, ".scud/tasks/x.json"), []byte(text), 0o644)
	case "commits": // a file that says its name
		if err = os.WriteFile(filepath.Join(s.dir, rest), []byte(rest+"\n"), 0o644); err == nil {
			s.git("add", rest)
			s.git("commit", "-q", "-m", "mine")
		}
	case "git":
		s.git(strings.Fields(rest)...)
	case "full":
		s.mu.Lock()
		s.free = 0
		s.mu.Unlock()
	case "room":
		s.mu.Lock()
		s.free = 1 << 40
		s.mu.Unlock()
	case "rewind":
		err = s.rewind(rest)
	default:
		s.t.Errorf("nobody can %q", command)
	}
	if err != nil {
		s.t.Errorf("%s: %v", command, err)
	}
}

// rewind goes back to a wave, and puts what the journal says of it into the trace.
func (s *stage) rewind(wave string) error {
	n, err := strconv.Atoi(wave)
	if err != nil {
		return err
	}
	job, problems := source.Load(s.dir, s.cfg)
	if len(problems) > 0 {
		return problems[0].Err
	}
	r, err := trunk.PlanRewind(s.t.Context(), job, s.repo, n)
	if err != nil {
		return err
	}
	if _, err := r.Do(s.t.Context(), s.fs, s.repo, s.now); err != nil {
		return err
	}
	events, err := journal.ReadEvents(store.NewHome(s.dir).Events(s.loop))
	for _, e := range events {
		if e.Type == journal.LoopRewound {
			s.tell(e)
		}
	}
	return err
}

// inspector is the check.
type inspector struct{}

func (inspector) Run(ctx context.Context, r verify.Request) (verify.Result, error) {
	names, err := filepath.Glob(filepath.Join(r.Dir, "*"))
	if err != nil {
		return verify.Result{}, err
	}
	for _, name := range names {
		b, err := os.ReadFile(name)
		if err != nil {
			continue
		}
		for line := range strings.Lines(string(b)) {
			other, not := strings.CutPrefix(strings.TrimSpace(line), "not beside ")
			if line == "bad\n" || not && slices.Contains(names, filepath.Join(r.Dir, other)) ||
				line == "bad at the "+r.Command+"\n" {
				return verify.Result{Code: 1, Tail: filepath.Base(name) + ": " + line}, ctx.Err()
			}
		}
	}
	return verify.Result{Passed: true}, nil
}

// trace says how the units moved. What happens to several tasks at one time is in the order of their ids, since they
// run beside each other.
func (s *stage) trace() string {
	type line struct {
		at   time.Duration
		id   string
		text string
	}
	var lines []line
	state := map[string]string{}
	for i := range s.moves {
		e := &s.moves[i]
		id := e.Task
		switch {
		case e.Iteration > 0:
			id = fmt.Sprint("i", e.Iteration)
		case e.Round > 0: // a candidate
			id = fmt.Sprint(e.Task, ".", e.Attempt)
		}
		add := func(format string, args ...any) { lines = append(lines, line{e.at, id, fmt.Sprintf(format, args...)}) }
		goes := func(id, to, why string) {
			if why != "" {
				why = " (" + why + ")"
			}
			add("%s %s -> %s%s", id, cmp.Or(state[id], "ready"), to, why)
			state[id] = to
		}
		all := func(to, why string) {
			for _, id := range e.Tasks {
				if from := cmp.Or(state[id], "ready"); from != to {
					goes(id, to, why)
				}
			}
		}
		// next is the next event about the same unit.
		next := &move0{}
		for k := i + 1; k < len(s.moves) && next.Type == ""; k++ {
			if o := &s.moves[k]; o.Task == e.Task && o.Iteration == e.Iteration && o.Loop == e.Loop {
				next = o
			}
		}
		back := "ready"
		if next.Type == journal.TaskBlocked {
			back = "blocked"
		}
		switch d := e.Detail; e.Type {
		case "":
			add("%s", e.Message)
		case journal.LoopStarted:
			add("run starts")
			all("ready", "to be tried again")
		case journal.LoopResumed:
			if e.Reason != journal.ReasonAnswered {
				add("run resumes")
			}
			all("ready", map[string]string{journal.ReasonAnswered: "answered",
				journal.ReasonRetry: "to be tried again"}[e.Reason])
		case journal.AttemptStarted, journal.IterationStarted:
			switch state[id] {
			case "asleep":
				goes(id, "ready", "")
			case "committed":
				goes(id, "ready", "as the list says")
			}
			if d == nil || d.Inputs == nil || d.Inputs.Spec != "" || e.Iteration > 0 && e.Task == "" {
				goes(id, "running", fmt.Sprint("attempt ", e.Attempt))
			}
		case journal.AttemptFinished:
			if e.Verdict != journal.Verified {
				goes(id, back, string(e.Verdict))
			} else if d != nil && d.Grade == journal.Accepted {
				goes(id, "integrating", "accepted")
			} else {
				goes(id, "integrating", "")
			}
		case journal.LimitWaiting:
			goes(id, "asleep", "")
		case journal.Integrated:
			switch {
			case e.Iteration > 0: // the event says both
				goes(id, "integrating", "")
			case cmp.Or(state[id], "ready") == "ready":
				goes(id, "integrating", "it merges by now")
			}
			if why := "conflict: " + strings.Join(e.Paths, " "); e.Verdict == "" {
				goes(id, "integrated", "")
			} else if len(e.Paths) > 0 {
				goes(id, back, why)
			} else {
				goes(id, back, "what is merged fails")
			}
			state[e.Task] = state[id]
		case journal.TaskBlocked:
			if state[id] != "blocked" {
				goes(id, "blocked", string(e.Verdict))
			}
		case journal.TaskHeld:
			add("%s is held by %s", id, strings.Join(e.Tasks, " "))
		case journal.WaveCommitted:
			all("committed", "")
			add("commit: %s", e.Message)
		case journal.ListChanged:
			add("list: %s", e.Message)
			all("ready", "the list")
		case journal.Warning:
			if e.Reason == journal.ReasonGone {
				all("ready", "its commit is gone")
			}
		case journal.BreakerOpened:
			add("breaker opens: %s", strings.Join(e.Tasks, " "))
		case journal.GateSpoke:
			add("gate: %s", e.Verdict)
		case journal.LoopStopping:
			add("run is to end")
		case journal.IterationFinished:
			switch {
			case e.Verdict.Unjudged():
				goes(id, "ready", string(e.Verdict))
			case state[id] == "running":
				add("%s is over, and changed nothing (%s)", id, e.Verdict)
			case e.Commit != "":
				goes(id, "committed", string(e.Verdict))
			default:
				add("%s: %s", id, e.Verdict)
			}
		case journal.LoopPaused, journal.LoopFinished:
			id = ""
			add("run ends: %s", d.End)
		case journal.LoopRewound:
			add("rewind to wave %d", e.Wave)
			all("ready", "rewound")
		}
	}
	for from := 0; s.cfg.Parallel > 1 && from < len(lines); {
		to := from + 1
		for ; lines[from].id != "" && to < len(lines) && lines[to].id != "" && lines[to].at == lines[from].at; to++ {
		}
		slices.SortStableFunc(lines[from:to], func(a, b line) int { return cmp.Compare(a.id, b.id) })
		from = to
	}
	var b strings.Builder
	for _, l := range lines {
		b.WriteString(l.text + "\n")
	}
	return b.String() + s.left()
}

// left says how the tasks stand in the list, and what of the user's tree is in no commit.
func (s *stage) left() string {
	var b strings.Builder
	f, err := tasks.Open(s.dir, "x")
	if err != nil {
		s.t.Fatal(err)
	}
	b.WriteString("list:")
	for _, one := range f.Tasks() {
		fmt.Fprintf(&b, " %s=%s", one.ID, one.Status)
	}
	b.WriteString("\n")
	if status := s.git("status", "--porcelain"); status != "" {
		b.WriteString("git status:\n" + status + "\n")
	}
	return b.String()
}
