package loop

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"descartes/agent"
	"descartes/config"
	"descartes/internal/atomicfile"
	"descartes/loop/journal"
	"descartes/loop/store"
	"descartes/verify"
)

// newPromptWorld is a folder without git, in which a prompt is repeated.
func newPromptWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, dir: t.TempDir(), fs: atomicfile.OS(), now: time.Now}
	w.cfg = Config{Prompt: "go", CompletionPromise: "COMPLETE", MaxIterations: 5, IterationContext: true}
	w.agent = func(_ agent.Request, env map[string]string) agent.Result {
		if env["DESCARTES_ITERATION"] >= "3" {
			return agent.Result{End: agent.Finished, Final: "<promise>COMPLETE</promise>"}
		}
		return agent.Result{End: agent.Finished, Final: "more"}
	}
	w.check = func(map[string]string) verify.Result { return verify.Result{Passed: true} }
	return w
}

// prompt starts a prompt loop, or goes on with the one of resume, and runs it to its end.
func (w *world) prompt(resume string) (*store.State, Outcome, error) {
	w.t.Helper()
	gate, err := NewGate(w.cfg)
	if err != nil {
		w.t.Fatal(err)
	}
	j := &PromptJob{Dir: w.dir, Kind: store.KindPrompt, Config: w.cfg, Gate: gate}
	r, err := Start(w.t.Context(), w.dir, j, Tools{Agent: w, Verify: checker{w}, FS: w.fs, Now: w.now, Observe: w.tell,
		Sleep: w.sleep, Looks: w.looks},
		StartOptions{Command: "loop", Resume: resume})
	if err != nil {
		return nil, Outcome{}, err
	}
	out, err := r.Run(w.t.Context(), nil)
	st := r.State()
	return st, out, errors.Join(err, r.Close())
}

func (w *world) mustPrompt(resume string, want journal.Ending) *store.State {
	w.t.Helper()
	st, out, err := w.prompt(resume)
	if err != nil || out.Ending != want {
		w.t.Fatalf("got %+v, %v, want %s", out, err, want)
	}
	return st
}

// fork is another world whose loop died at this moment.
func (w *world) fork() *world {
	w.t.Helper()
	dead := newPromptWorld(w.t)
	dead.cfg = w.cfg
	if err := os.CopyFS(filepath.Join(dead.dir, ".descartes"),
		os.DirFS(filepath.Join(w.dir, ".descartes"))); err != nil {
		w.t.Fatal(err)
	}
	return dead
}

// An iteration whose run was killed begins again, and the one after it is told which it is.
func TestPromptBeginsTheKilledAgain(t *testing.T) {
	t.Parallel()
	w := newPromptWorld(t)
	var dead *world
	alive := w.agent
	w.agent = func(r agent.Request, env map[string]string) agent.Result {
		if env["DESCARTES_ITERATION"] == "1" {
			dead = w.fork()
		}
		return alive(r, env)
	}
	w.mustPrompt("", journal.PromiseSeen)
	var prompts []string
	dead.agent = func(r agent.Request, env map[string]string) agent.Result {
		prompts = append(prompts, r.Prompt)
		return alive(r, env)
	}
	st := dead.mustPrompt(store.NewHome(dead.dir).Default(), journal.PromiseSeen)
	if len(prompts) != 3 || !strings.Contains(prompts[1], "- This is iteration 2 of 5\n") {
		t.Errorf("prompts %q", prompts)
	}
	if st.Iteration != 3 || st.Summaries[0].Verdict != "cancelled" {
		t.Errorf("iteration %d, summaries %+v", st.Iteration, st.Summaries)
	}
}

// A clock that goes backwards changes no count and no order, and nothing lasts less than nothing.
func TestPromptClockBackwards(t *testing.T) {
	t.Parallel()
	w := newPromptWorld(t)
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	w.now = func() time.Time {
		at = at.Add(-time.Hour)
		return at
	}
	st := w.mustPrompt("", journal.PromiseSeen)
	if st.Iteration != 3 {
		t.Errorf("iteration %d, want 3", st.Iteration)
	}
	for _, s := range st.Summaries {
		if s.CompletedAt.Before(s.StartedAt) {
			t.Errorf("iteration %d lasted %v", s.Iteration, s.CompletedAt.Sub(s.StartedAt))
		}
	}
}

// Whatever write fails, the counter on the disk is not behind the agents, and the loop can be gone on with.
func TestPromptDiskFails(t *testing.T) {
	t.Parallel()
	for k := 1; ; k++ {
		w := newPromptWorld(t)
		var ran []string
		alive := w.agent
		w.agent = func(r agent.Request, env map[string]string) agent.Result {
			ran = append(ran, env["DESCARTES_ITERATION"])
			return alive(r, env)
		}
		f := &faulty{FS: atomicfile.OS(), k: k, err: syscall.ENOSPC, sticky: true}
		w.fs = f
		_, out, err := w.prompt("")
		if f.n < k {
			if k < 20 {
				t.Fatalf("only %d operations", f.n)
			}
			if err != nil || out.Ending != journal.PromiseSeen {
				t.Fatalf("undisturbed: %+v, %v", out, err)
			}
			return
		}
		if err == nil && out.Ending != journal.DiskFull {
			t.Fatalf("operation %d failed, and the loop ended with %+v", k, out)
		}
		w.fs = atomicfile.OS()
		path := store.NewHome(w.dir).Default()
		if _, err := os.Stat(path); err != nil {
			if len(ran) > 0 {
				t.Fatalf("operation %d: agents ran for %v, and there is no state file", k, ran)
			}
			path = ""
		} else if st, err := store.LoadState(path); err != nil || st.Iteration < len(ran) {
			t.Fatalf("operation %d: state %+v, %v after agents for %v", k, st, err, ran)
		} else if known, err := store.NewHome(w.dir).Load(path); err != nil {
			t.Fatal(err)
		} else if known.Completed { // its end was recorded
			continue
		}
		w.mustPrompt(path, journal.PromiseSeen)
		if !slices.IsSorted(ran) {
			t.Fatalf("operation %d: agents for iterations %v", k, ran)
		}
	}
}

// The counter is on the disk when the agent starts.
func TestPromptCountsFirst(t *testing.T) {
	t.Parallel()
	w := newPromptWorld(t)
	alive := w.agent
	w.agent = func(r agent.Request, env map[string]string) agent.Result {
		st, err := store.LoadState(store.NewHome(w.dir).Default())
		if err != nil || strconv.Itoa(st.Iteration) != env["DESCARTES_ITERATION"] {
			t.Errorf("iteration %s: the state file has %+v, %v", env["DESCARTES_ITERATION"], st, err)
		}
		return alive(r, env)
	}
	w.mustPrompt("", journal.PromiseSeen)
}

// A provider that is out of quota uses up no iteration, and a passing fault of it none either.
func TestPromptProviderFails(t *testing.T) {
	t.Parallel()
	w := newPromptWorld(t)
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	w.now = func() time.Time { return at }
	w.sleep = func(d time.Duration) { at = at.Add(d) }
	ends := []agent.Result{{End: agent.Limited, Until: at.Add(time.Minute), Reason: "limit"},
		{End: agent.Crashed, Cause: agent.Transient, Reason: "529"},
		{End: agent.Finished, Final: "<promise>COMPLETE</promise>"}}
	var seen []string
	w.agent = func(_ agent.Request, env map[string]string) agent.Result {
		seen = append(seen, env["DESCARTES_ITERATION"]+"/"+env["DESCARTES_ATTEMPT"])
		return ends[len(seen)-1]
	}
	st := w.mustPrompt("", journal.PromiseSeen)
	if want := []string{"1/1", "1/2", "1/3"}; !slices.Equal(seen, want) || st.Iteration != 1 {
		t.Errorf("agents %v, iteration %d, want %v and 1", seen, st.Iteration, want)
	}
}

// A template is filled in; what is no name of one stays.
func TestNamesExpand(t *testing.T) {
	t.Parallel()
	n := config.Names{Iteration: 7, Wave: 2, Tag: "x", At: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}
	if got, want := n.Expand("{tag} {iteration}/{wave} {timestamp} {other}"),
		"x 7/2 20260102-030405 {other}"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
