package run

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"descartes/agent"
	"descartes/config"
	"descartes/internal/atomicfile"
	"descartes/loop"
	"descartes/loop/attempt"
	"descartes/loop/journal"
	"descartes/loop/store"
	"descartes/scheduler/prompt"
	"descartes/verify"
)

// world is a folder without git in which an agent and a check are played by functions. Its clock goes on by itself
// where the run would wait.
type world struct {
	t     *testing.T
	dir   string
	cfg   config.Config
	agent func(n string) agent.Result // by the iteration's number
	check func(n string) verify.Result
	fs    atomicfile.FS
	clock func() time.Time
	tell  func(journal.Event) // nil: nobody
	looks []attempt.Look
	mu    sync.Mutex
	asked []string // "number.try" of each agent, in order

	prompts []string
	lines   []journal.Event
	skip    time.Duration
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, dir: t.TempDir(), fs: atomicfile.OS(), clock: time.Now}
	w.cfg = config.Config{Prompt: "go", CompletionPromise: "COMPLETE", MaxIterations: 6, IterationContext: true}
	w.cfg.Checks = []verify.Check{{Run: "check"}}
	w.cfg.Backend.Type = "generic"
	w.agent = func(n string) agent.Result {
		if n >= "3" {
			return agent.Result{End: agent.Finished, Final: "<promise>COMPLETE</promise>", Complete: true}
		}
		return agent.Result{End: agent.Finished, Final: "more"}
	}
	w.check = func(string) verify.Result { return verify.Result{Passed: true} }
	return w
}

func (w *world) now() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.clock().Add(w.skip)
}

func env(list []string, name string) (value string) {
	for _, kv := range list {
		if v, ok := strings.CutPrefix(kv, name+"="); ok {
			value = v
		}
	}
	return value
}

// Agents and checks are played.
type plays struct{ w *world }

func (p plays) Run(_ context.Context, r agent.Request) (agent.Result, error) {
	n := env(r.Env, "DESCARTES_ITERATION")
	p.w.mu.Lock()
	p.w.asked = append(p.w.asked, n+"."+env(r.Env, "DESCARTES_ATTEMPT"))
	p.w.prompts = append(p.w.prompts, r.Prompt)
	p.w.mu.Unlock()
	return p.w.agent(n), nil
}

type judges struct{ w *world }

func (j judges) Run(_ context.Context, r verify.Request) (verify.Result, error) {
	res := j.w.check(env(r.Env, "DESCARTES_ITERATION"))
	res.Command = r.Command
	return res, nil
}

// start starts a run, or resumes the one of a state file.
func (w *world) start(resume string) (*Run, error) {
	gate, err := loop.NewGate(w.cfg)
	if err != nil {
		w.t.Fatal(err)
	}
	job := &loop.PromptJob{Dir: w.dir, Kind: store.KindPrompt, Config: w.cfg, Gate: gate}
	return Start(w.t.Context(), w.dir, job, loop.Tools{Agent: plays{w}, Verify: judges{w}, FS: w.fs,
		Now: w.now, Observe: w.hear, Looks: w.looks}, loop.StartOptions{Command: "loop", Resume: resume})
}

// hear follows the run; where it waits for an account the clock goes on.
func (w *world) hear(e journal.Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.tell != nil {
		w.tell(e)
	}
	if w.lines = append(w.lines, e); e.Type == journal.LimitWaiting {
		w.skip += time.Until(*e.Detail.Until) - w.skip + time.Second
	}
}

// play runs to the end.
func (w *world) play(resume string, want journal.Ending) *Run {
	w.t.Helper()
	r, out, err := w.run(resume)
	if err != nil || out.Ending != want {
		w.t.Fatalf("got %+v, %v, want %s", out, err, want)
	}
	return r
}

func (w *world) run(resume string) (*Run, loop.Outcome, error) {
	w.t.Helper()
	r, err := w.start(resume)
	if err != nil {
		return nil, loop.Outcome{}, err
	}
	out, err := r.Run(w.t.Context(), nil)
	return r, out, errors.Join(err, r.Close())
}

func (w *world) journal(id string) []byte {
	w.t.Helper()
	b, err := os.ReadFile(store.NewHome(w.dir).Events(id))
	if err != nil {
		w.t.Fatal(err)
	}
	return b
}

// carriedIn lists the machine's events in the world's lines.
func (w *world) carriedIn() (names []string) {
	for i := range w.lines {
		e, _, err := carriedBy(&w.lines[i])
		if err != nil {
			w.t.Fatal(err)
		}
		if e != nil {
			names = append(names, fmt.Sprintf("%s:%s", w.lines[i].Type, reflect.TypeOf(e).Name()))
		}
	}
	return names
}

// Each event of the machine is on one line, in the order in which it was applied, and its start is there before what
// it starts.
func TestRunJournalsEachEvent(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.cfg.MaxIterations = 2
	w.play("", journal.LimitReached)
	one := "iteration_started:Started agent_finished:AgentEnded step:CheckStarted iteration_finished:CheckEnded"
	want := "loop_started:Resumed " + one + " " + one + " loop_finished:Ended"
	if got := strings.Join(w.carriedIn(), " "); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	var types []string
	for _, e := range w.lines {
		types = append(types, string(e.Type))
	}
	if got := strings.Join(types, " "); !strings.Contains(got,
		"iteration_started agent_finished step verify_started verify_finished iteration_finished") {
		t.Errorf("what people hear: %s", got)
	}
}

// The steps of an iteration, and the order in which they are told. Those of an attempt at a task are the same: see
// package loop.
func TestRunSteps(t *testing.T) {
	t.Parallel()
	said := agent.Result{End: agent.Finished, Final: "<promise>COMPLETE</promise>", Complete: true}
	passes, fails := verify.Result{Passed: true}, verify.Result{Code: 1}
	for _, c := range []struct {
		name  string
		agent agent.Result
		check verify.Result
		want  string
	}{
		{"verified", said, passes, "started agent verify_started verify_finished finished"},
		{"verify fails", said, fails, "started agent verify_started verify_finished finished"},
		{"crashed", agent.Result{End: agent.Crashed, Code: 1, Reason: "boom"}, passes, "started agent finished"},
		{"timed out", agent.Result{End: agent.TimedOut, Reason: "too long"}, passes, "started agent finished"},
		{"limited", agent.Result{End: agent.Limited, Reason: "quota"}, passes, "started agent finished"},
		{"refused", agent.Result{End: agent.Refused, Reason: "no key"}, passes, "started agent finished"},
		{"with a note", agent.Result{End: agent.Finished, Complete: true, Final: said.Final, Notes: []string{"odd"}}, passes,
			"started agent warning verify_started verify_finished finished"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			var steps []string
			w.cfg.OnLimit, w.cfg.MaxIterations = config.OnLimitStop, 1
			w.agent = func(string) agent.Result { return c.agent }
			w.check = func(string) verify.Result { return c.check }
			w.tell = func(e journal.Event) {
				if slices.Contains(steps, "finished") || e.Type == journal.Step ||
					len(steps) == 0 && e.Type != journal.IterationStarted {
					return
				}
				step := strings.TrimPrefix(string(e.Type), "iteration_")
				steps = append(steps, strings.Replace(step, "agent_finished", "agent", 1))
			}
			if _, _, err := w.run(""); err != nil {
				t.Fatal(err)
			}
			if got := strings.Join(steps, " "); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

// What a run does by what its agents and checks come to.
func TestRunEnds(t *testing.T) {
	t.Parallel()
	done := agent.Result{End: agent.Finished, Final: "<promise>COMPLETE</promise>", Complete: true}
	for _, c := range []struct {
		name  string
		agent map[string]agent.Result // by iteration; "" is any other
		check map[string]verify.Result
		set   func(*config.Config)
		asked string
		want  journal.Ending
	}{
		{"a promise", map[string]agent.Result{"": {End: agent.Finished}, "2": done}, nil, nil, "1.1 2.1",
			journal.PromiseSeen},
		{"one that fails its checks does not count", map[string]agent.Result{"": done},
			map[string]verify.Result{"1": {Code: 1, Tail: "no"}}, nil, "1.1 2.1", journal.PromiseSeen},
		{"the first exit status 0", map[string]agent.Result{"1": {End: agent.Crashed, Code: 1, Reason: "exit status 1"},
			"": {End: agent.Finished}}, nil, func(c *config.Config) { c.CompletionPromise = "" }, "1.1 2.1",
			journal.CommandSucceeded},
		{"five crashes in a row", map[string]agent.Result{"": {End: agent.Crashed, Code: 9, Reason: "exit status 9"}}, nil,
			nil, "1.1 2.1 3.1 4.1 5.1", journal.AgentUnusable},
		{"a login that is refused", map[string]agent.Result{"": {End: agent.Refused, Reason: "log in"}}, nil, nil, "1.1",
			journal.AgentUnusable},
		{"the limit", map[string]agent.Result{"": {End: agent.Finished}}, nil,
			func(c *config.Config) { c.MaxIterations = 2 }, "1.1 2.1", journal.LimitReached},
		{"a baseline that fails", nil, map[string]verify.Result{"": {Code: 1, Tail: "red"}},
			func(c *config.Config) { c.Baseline = config.BaselineRequire }, "", journal.BaselineFails},
		{"a baseline that may fail", map[string]agent.Result{"": done}, map[string]verify.Result{"": {Code: 1, Tail: "red"}},
			func(c *config.Config) { c.Baseline = config.BaselineWarn }, "1.1", journal.PromiseSeen},
		{"checks of the end", map[string]agent.Result{"": done}, map[string]verify.Result{"": {Code: 1, Tail: "red"}},
			func(c *config.Config) {
				c.Checks = append(c.Checks, verify.Check{Name: "all", Run: "check", When: verify.AtEnd})
			}, "1.1", journal.ChecksFail},
		{"a question", map[string]agent.Result{"": {End: agent.Finished, Question: "Which one?"}}, nil, nil,
			"1.1 2.1", journal.GateAsks},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			if c.set != nil {
				c.set(&w.cfg)
			}
			w.agent = func(n string) agent.Result {
				if r, ok := c.agent[n]; ok {
					return r
				}
				return c.agent[""]
			}
			w.check = func(n string) verify.Result {
				if r, ok := c.check[n]; ok {
					return r
				}
				return verify.Result{Passed: true}
			}
			w.play("", c.want)
			if got := strings.Join(w.asked, " "); got != c.asked {
				t.Errorf("agents %s, want %s", got, c.asked)
			}
		})
	}
}

// To the gate an objection is a failed check: the promise does not count, and the next iteration hears why.
func TestRunLooks(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.agent = func(string) agent.Result {
		return agent.Result{End: agent.Finished, Complete: true, Final: "<promise>COMPLETE</promise>"}
	}
	w.looks = []attempt.Look{{Name: "guard", On: func(*attempt.Input) bool { return true },
		At: func(context.Context, *attempt.Subject) (*attempt.Objection, error) {
			if len(w.asked) == 1 {
				return &attempt.Objection{Reason: "it is too short", Detail: "2 bytes"}, nil
			}
			return nil, nil
		}}}
	w.play("", journal.PromiseSeen)
	if len(w.prompts) != 2 || !strings.Contains(w.prompts[1], "the guard objected: it is too short:\n\n```\n2 bytes\n") {
		t.Errorf("prompts %q", w.prompts)
	}
}

// A quota costs no iteration: the same number has another try when it is back.
func TestRunWaitsForQuota(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	first := true
	w.agent = func(string) agent.Result {
		if first {
			first = false
			return agent.Result{End: agent.Limited, Until: w.now().Add(time.Hour), Reason: "usage limit"}
		}
		return agent.Result{End: agent.Finished, Final: "<promise>COMPLETE</promise>", Complete: true}
	}
	w.play("", journal.PromiseSeen)
	if got := strings.Join(w.asked, " "); got != "1.1 1.2" {
		t.Errorf("agents %s, want 1.1 1.2", got)
	}
}

// A run that is killed after any line of its journal goes on from there: what its journal folds to is what it was, no
// finished agent works again, and the run ends as it would have.
func TestRunKilledAtAnyLine(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.check = func(n string) verify.Result { return verify.Result{Passed: n != "1", Code: 1, Tail: "not yet"} }
	r := w.play("", journal.PromiseSeen)
	all := bytes.SplitAfter(bytes.TrimRight(w.journal(r.ID()), "\n"), []byte("\n"))
	for n := 1; n < len(all); n++ {
		dead := newWorld(t)
		dead.check, dead.cfg = w.check, w.cfg
		if err := os.CopyFS(filepath.Join(dead.dir, ".descartes"), os.DirFS(filepath.Join(w.dir, ".descartes"))); err != nil {
			t.Fatal(err)
		}
		home := store.NewHome(dead.dir)
		if err := os.WriteFile(home.Events(r.ID()), bytes.Join(all[:n], nil), 0o600); err != nil {
			t.Fatal(err)
		}
		path := dead.alive(home.Default())
		finished := map[string]bool{}
		events, err := journal.ReadEvents(home.Events(r.ID()))
		if err != nil {
			t.Fatal(err)
		}
		for i := range events {
			if e := &events[i]; e.Type == journal.AgentFinished {
				finished[fmt.Sprint(e.Iteration)] = true
			}
		}
		again := dead.play(path, journal.PromiseSeen)
		for _, try := range dead.asked {
			if number, _, _ := strings.Cut(try, "."); finished[number] {
				t.Errorf("killed after %d lines (%s): iteration %s, which was made, is made again", n,
					events[len(events)-1].Type, try)
			}
		}
		if got := again.State().Iteration; got != 3 {
			t.Errorf("killed after %d lines: it ends with iteration %d, want 3", n, got)
		}
	}
}

// alive makes the state file that of a run that still went on.
func (w *world) alive(path string) string {
	w.t.Helper()
	s, err := store.LoadState(path)
	if err != nil {
		w.t.Fatal(err)
	}
	s.Completed, s.ExitReason = false, store.ExitReason{Type: "running"}
	if err := s.Save(atomicfile.OS(), path); err != nil {
		w.t.Fatal(err)
	}
	return path
}

// The journal folded again is the same run.
func TestRunFoldsToTheSame(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.check = func(n string) verify.Result { return verify.Result{Passed: n != "2", Code: 1, Tail: "not yet"} }
	w.cfg.MaxIterations = 2
	was := w.play("", journal.LimitReached)
	is, err := w.start(was.StatePath())
	if err != nil {
		t.Fatal(err)
	}
	defer is.Close()
	a, b := *was.machine, *is.machine
	a.Gate, b.Gate = nil, nil
	normal(&a)
	normal(&b)
	if !reflect.DeepEqual(a, b) {
		t.Errorf("it was %+v\nit is %+v", a, b)
	}
}

// normal takes the clock's monotonic reading off a machine's times.
func normal(m *prompt.Run) {
	m.At.Left.Until, m.Say.Until = m.At.Left.Until.Round(0), m.Say.Until.Round(0)
}
