package loop

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"descartes/agent"
	"descartes/config"
	"descartes/gitops"
	"descartes/loop/journal"
	"descartes/loop/store"
)

// patient is a world whose clock only waiting moves on, in leaps.
type patient struct {
	*world
	time   time.Time
	began  time.Time
	result func(r agent.Request) agent.Result // of each run, in turn
	asked  []string                           // backend of each run
	waits  []journal.Event
	warned []string
}

func newPatient(t *testing.T) *patient {
	t.Helper()
	return newPatientOf(t, threeTasks)
}

func newPatientOf(t *testing.T, list string) *patient {
	t.Helper()
	p := &patient{world: newWorld(t, list), time: gitops.Now().Round(0)}
	p.began = p.time
	var clock sync.Mutex
	p.now = func() time.Time {
		clock.Lock()
		defer clock.Unlock()
		return p.time
	}
	p.sleep = func(d time.Duration) {
		clock.Lock()
		defer clock.Unlock()
		p.time = p.time.Add(max(d, 5*time.Second))
	}
	p.cfg.Scud.MaxIterationsPerTask = 1
	p.cfg.MaxWaitSecs = 6 * 60 * 60
	p.cfg.Backend.Type = "claude"
	work := p.agent
	p.agent = func(r agent.Request, env map[string]string) agent.Result {
		p.asked = append(p.asked, r.Backend)
		if res := p.result(r); res.End != "" {
			return res
		}
		return work(r, env)
	}
	p.tell = func(e journal.Event) {
		switch e.Type {
		case journal.LimitWaiting:
			p.waits = append(p.waits, e)
		case journal.Warning:
			p.warned = append(p.warned, e.Message)
		}
	}
	return p
}

// script gives the first runs their results; those after them do their work.
func (p *patient) script(results ...agent.Result) {
	p.result = func(agent.Request) (r agent.Result) {
		if len(results) > 0 {
			r, results = results[0], results[1:]
		}
		return r
	}
}

func (p *patient) took() time.Duration { return p.time.Sub(p.began) }

// within fails the test unless d lies between from and to.
func within(t *testing.T, what string, d, from, to time.Duration) {
	t.Helper()
	if d < from || d > to {
		t.Errorf("%s: %v, want %v to %v", what, d, from, to)
	}
}

func limitedUntil(at time.Time) agent.Result {
	return agent.Result{End: agent.Limited, Until: at, Reason: "Claude's weekly limit"}
}

func transient() agent.Result {
	return agent.Result{End: agent.Crashed, Cause: agent.Transient, Code: 1, Reason: "Claude failed: overloaded"}
}

// A limit uses up no attempt; the next one is told what the first left in the tree.
func TestLimitInMidTask(t *testing.T) {
	t.Parallel()
	p := newPatient(t)
	reset := p.time.Add(2 * time.Hour)
	prompts := []string{}
	p.result = func(r agent.Request) agent.Result {
		prompts = append(prompts, r.Prompt)
		if len(prompts) == 1 {
			p.write("half.txt", "half\n")
			return limitedUntil(reset)
		}
		return agent.Result{}
	}
	p.mustRun(StartOptions{}, journal.AllDone)
	within(t, "the wait", p.took(), 2*time.Hour, 2*time.Hour+40*time.Second)
	if len(p.waits) != 1 || p.waits[0].Task != "1" || p.waits[0].Detail.Backend != "claude" {
		t.Errorf("waits: %+v", p.waits)
	}
	for _, want := range []string{"cut short", "Claude's weekly limit", "half.txt"} {
		if !strings.Contains(prompts[1], want) {
			t.Errorf("the next prompt lacks %q:\n%s", want, prompts[1])
		}
	}
	if strings.Contains(prompts[2], "cut short") {
		t.Error("another task's prompt tells of it too")
	}
	st, err := store.LoadState(store.NewHome(p.dir).Default())
	if err != nil || st.Iteration != 3 || st.Cost.Runs != 4 {
		t.Errorf("state: %+v, %v", st, err)
	}
	p.clean()
}

// Agents that run at the same time and meet one limit wait for its reset, and for nothing more; who meets it after
// that waits longer.
func TestLimitMetTogether(t *testing.T) {
	t.Parallel()
	w := newWorld(t, threeTasks)
	now := gitops.Now().Round(0)
	w.now = func() time.Time { return now }
	h := journal.NewState()
	b := newBackoff(Tools{Now: w.now}, &w.cfg, &h.Providers, "l", false)
	meet := func(reset time.Time) time.Time {
		t.Helper()
		until, err := b.after(Choice{Backend: "claude"}, limitedUntil(reset), "Claude's limit",
			func(*journal.Event) error { return nil })
		if err != nil || until == nil {
			t.Fatalf("got %v, %v", until, err)
		}
		h.Apply(&journal.Event{Type: journal.AttemptFinished, TS: now, Verdict: journal.Limited,
			Detail: &journal.Detail{Client: journal.Client{Backend: "claude"}, Exit: journal.Exit{Until: until}}})
		return *until
	}
	reset := now.Add(75 * time.Second)
	for range 8 {
		within(t, "the wait", meet(reset).Sub(reset), 0, 10*time.Second)
		now = now.Add(time.Second)
	}
	week := reset.Add(50 * time.Hour)
	within(t, "the wait for another limit", meet(week).Sub(week), 0, 31*time.Second)
	now = week.Add(time.Minute)
	within(t, "the wait after a reset that was none", meet(week).Sub(now), 30*time.Second, 32*time.Second)
}

// Where nothing is said of the reset it is asked ever more seldom, and not for ever.
func TestLimitUnknownReset(t *testing.T) {
	t.Parallel()
	p := newPatient(t)
	p.result = func(agent.Request) agent.Result { return limitedUntil(time.Time{}) }
	out := p.mustRun(StartOptions{}, journal.QuotaUsedUp)
	var got []string
	last := p.began
	for _, e := range p.waits {
		got = append(got, fmt.Sprint(int(e.Detail.Until.Sub(last).Minutes())))
		last = *e.Detail.Until
	}
	if s := strings.Join(got, " "); s != "15 30 60 60 60 60 60" {
		t.Errorf("waits: %s", s)
	}
	if out.Until.Before(p.time) || !strings.Contains(out.Message, "max_wait: 6h") {
		t.Errorf("outcome: %+v", out)
	}
}

// A loop that gave up on a guess asks when it is gone on with; one that was told the time does not.
func TestLimitGuessIsNotKept(t *testing.T) {
	t.Parallel()
	p := newPatient(t)
	p.known = accountsIn(t)
	p.cfg.OnLimit = config.OnLimitStop
	p.script(limitedUntil(time.Time{}))
	p.mustRun(StartOptions{}, journal.QuotaUsedUp)
	p.mustRun(StartOptions{}, journal.AllDone)
	if len(p.waits) != 0 || p.took() != 0 {
		t.Errorf("%d waits, %v", len(p.waits), p.took())
	}
}

// A reset that lies in the past must not become a run of paid requests.
func TestLimitPastReset(t *testing.T) {
	t.Parallel()
	p := newPatient(t)
	p.result = func(agent.Request) agent.Result { return limitedUntil(p.time.Add(-time.Hour)) }
	p.mustRun(StartOptions{}, journal.QuotaUsedUp)
	if n := len(p.runs); n < 5 || n > 12 {
		t.Errorf("%d requests in six hours", n)
	}
}

func TestLimitBeyondMaxWait(t *testing.T) {
	t.Parallel()
	p := newPatient(t)
	reset := p.time.Add(50 * time.Hour)
	p.script(limitedUntil(reset))
	out := p.mustRun(StartOptions{}, journal.QuotaUsedUp)
	within(t, "the wait", p.took(), 0, 0)
	if out.Until.Before(reset) {
		t.Errorf("outcome: %+v", out)
	}
	p.mustRun(StartOptions{}, journal.QuotaUsedUp) // it is known, and not asked for again
	if len(p.runs) != 1 {
		t.Errorf("runs: %v", p.runs)
	}
	p.time = reset.Add(-time.Hour)
	p.mustRun(StartOptions{}, journal.AllDone)
	within(t, "the rest of the wait", p.time.Sub(reset), 0, 40*time.Second)
	if !slices.Equal(p.runs, []string{"1 1", "1 2", "2 1", "3 1"}) {
		t.Errorf("runs: %v", p.runs)
	}
}

// Another backend has a quota of its own.
func TestLimitIsOfOneBackend(t *testing.T) {
	t.Parallel()
	p := newPatient(t)
	p.script(limitedUntil(p.time.Add(50 * time.Hour)))
	p.mustRun(StartOptions{}, journal.QuotaUsedUp)
	p.cfg.Backend.Type = "codex"
	p.mustRun(StartOptions{}, journal.AllDone)
	within(t, "the wait", p.took(), 0, 0)
	if !slices.Equal(p.asked, []string{"claude", "codex", "codex", "codex"}) {
		t.Errorf("asked %v", p.asked)
	}
}

// What a reason says of the time left is not repeated once it is no longer true.
func TestReasonGrowsOld(t *testing.T) {
	t.Parallel()
	now := time.Now()
	s := journal.Provider{Reason: "Claude's weekly limit; resets Mon 23 Nov 20:33 (in 6 h 12 min)", Met: now}
	if got := why(&s, now); got != s.Reason {
		t.Errorf("at once: %q", got)
	}
	if got := why(&s, now.Add(time.Hour)); got != "Claude's weekly limit; resets Mon 23 Nov 20:33" {
		t.Errorf("an hour later: %q", got)
	}
}

// Nothing is waited for that comes after the deadline.
func TestLimitAfterDeadline(t *testing.T) {
	t.Parallel()
	p := newPatient(t)
	deadline := p.time.Add(time.Hour)
	p.cfg.Deadline = &deadline
	p.script(limitedUntil(p.time.Add(2 * time.Hour)))
	if out := p.mustRun(StartOptions{}, journal.QuotaUsedUp); !strings.Contains(out.Message, "after the deadline") ||
		p.took() != 0 {
		t.Errorf("after %v: %+v", p.took(), out)
	}
}

// A person who says so has the provider asked, whatever is known.
func TestLimitAskedAnew(t *testing.T) {
	t.Parallel()
	p := newPatient(t)
	p.known = accountsIn(t)
	p.cfg.OnLimit = config.OnLimitStop
	p.script(limitedUntil(p.time.Add(50 * time.Hour)))
	p.mustRun(StartOptions{}, journal.QuotaUsedUp)
	p.mustRun(StartOptions{Anew: true}, journal.AllDone)
	if names, err := os.ReadDir(p.known.Dir); err != nil || len(names) != 0 {
		t.Errorf("the record of a limit that is over stays: %v, %v", names, err)
	}
}

// What is left of a wait is known from the journal.
func TestWaitSurvivesInterrupt(t *testing.T) {
	t.Parallel()
	p := newPatient(t)
	reset := p.time.Add(4 * time.Hour)
	p.script(limitedUntil(reset))
	ctx, cancel := context.WithCancel(t.Context())
	leap := p.sleep
	p.sleep = func(d time.Duration) {
		if leap(d); p.took() > time.Hour {
			cancel()
		}
	}
	l, err := p.start(StartOptions{})
	if err != nil {
		t.Fatal(err)
	}
	out, err := l.Run(ctx, nil)
	if cerr := l.Close(); err != nil || cerr != nil || out.Ending != journal.UserCancelled {
		t.Fatalf("got %+v, %v, %v", out, err, cerr)
	}
	p.sleep = leap
	p.mustRun(StartOptions{}, journal.AllDone)
	within(t, "both waits", p.took(), 4*time.Hour, 4*time.Hour+40*time.Second)
	if !slices.Equal(p.runs, []string{"1 1", "1 2", "2 1", "3 1"}) || len(p.waits) != 2 {
		t.Errorf("runs: %v, %d waits", p.runs, len(p.waits))
	}
}

// A provider's fault is waited out, and no task's attempt is used up by it.
func TestTransientTries(t *testing.T) {
	t.Parallel()
	p := newPatient(t)
	p.script(transient(), transient(), transient())
	p.mustRun(StartOptions{}, journal.AllDone)
	within(t, "the waits", p.took(), 3*155*time.Second/4, 5*155*time.Second/4+20*time.Second)
	if !slices.Equal(p.runs, []string{"1 1", "1 2", "1 3", "1 4", "2 1", "3 1"}) {
		t.Errorf("runs: %v", p.runs)
	}
}

// A client that was killed is not its provider's fault: the attempt counts, and the next one waits for nothing.
func TestKilledClientCounts(t *testing.T) {
	t.Parallel()
	p := newPatient(t)
	p.cfg.Scud.MaxIterationsPerTask = 2
	killed := transient()
	killed.Signal = 9
	p.script(killed, killed)
	out := p.mustRun(StartOptions{}, journal.TasksBlocked)
	if len(p.runs) != 2 || out.Blocked != 1 || p.took() != 0 {
		t.Errorf("runs %v, outcome %+v", p.runs, out)
	}
}

// While one is out of quota another takes over, and it goes back once that has passed.
func TestFallback(t *testing.T) {
	t.Parallel()
	p := newPatient(t)
	p.cfg.OnLimit, p.cfg.Fallback = config.OnLimitFallback, []string{"codex"}
	p.cfg.Models = map[string]Models{"codex": {Default: "gpt"}}
	first := true
	p.result = func(r agent.Request) agent.Result {
		defer func() { p.time = p.time.Add(time.Hour) }()
		if r.Backend == "codex" && r.Model != "gpt" {
			t.Errorf("model %q", r.Model)
		}
		if first {
			first = false
			return limitedUntil(p.time.Add(150 * time.Minute))
		}
		return agent.Result{}
	}
	p.mustRun(StartOptions{}, journal.AllDone)
	if !slices.Equal(p.asked, []string{"claude", "codex", "codex", "claude"}) || len(p.waits) != 0 {
		t.Errorf("asked %v, %d waits", p.asked, len(p.waits))
	}
	if !slices.Equal(p.warned, []string{"Claude's weekly limit: codex takes over"}) {
		t.Errorf("warned of %q", p.warned)
	}
}

// Where all are used up, it waits for the first that is not.
func TestFallbackAllLimited(t *testing.T) {
	t.Parallel()
	p := newPatient(t)
	p.cfg.OnLimit, p.cfg.Fallback = config.OnLimitFallback, []string{"codex", "gemini"}
	p.script(limitedUntil(p.time.Add(3*time.Hour)), limitedUntil(p.time.Add(time.Hour)),
		limitedUntil(p.time.Add(5*time.Hour)))
	p.mustRun(StartOptions{}, journal.AllDone)
	if !slices.Equal(p.asked, []string{"claude", "codex", "gemini", "codex", "codex", "codex"}) || len(p.waits) != 1 {
		t.Errorf("asked %v, %d waits", p.asked, len(p.waits))
	}
	within(t, "the wait", p.took(), time.Hour, time.Hour+40*time.Second)
}

// --on-limit wait with a fallback waits for a quota, and falls back where waiting does not help.
func TestFallbackForFailures(t *testing.T) {
	t.Parallel()
	for name, results := range map[string][]agent.Result{
		"refused":  {{End: agent.Refused, Reason: "no key"}},
		"failing":  {transient(), transient(), transient(), transient()},
		"outofall": {{End: agent.Refused, Reason: "no key"}, {End: agent.Refused, Reason: "no program"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPatient(t)
			p.cfg.OnLimit, p.cfg.Fallback = config.OnLimitWait, []string{"codex"}
			p.script(results...)
			want := journal.AllDone
			if name == "outofall" {
				want = journal.AgentUnusable
			}
			p.mustRun(StartOptions{}, want)
			if p.asked[len(p.asked)-1] != "codex" {
				t.Errorf("asked %v", p.asked)
			}
		})
	}
}

// A machine that slept is not late, and a clock that is set back does not make the wait longer.
func TestWaitWatchesTheClock(t *testing.T) {
	t.Parallel()
	for name, jump := range map[string]time.Duration{"slept": 10 * time.Hour, "set back": -10 * time.Hour} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPatient(t)
			p.script(limitedUntil(p.time.Add(2 * time.Hour)))
			leap, slept := p.sleep, time.Duration(0)
			p.sleep = func(d time.Duration) {
				was := p.time
				leap(d)
				if slept += p.time.Sub(was); jump != 0 && slept > time.Hour {
					p.time, jump = p.time.Add(jump), 0
				}
			}
			p.mustRun(StartOptions{}, journal.AllDone)
			if name == "slept" {
				within(t, "the wait", slept, time.Hour, time.Hour+time.Minute)
			} else {
				within(t, "the wait", slept, 2*time.Hour-time.Minute, 2*time.Hour+time.Minute)
			}
		})
	}
}

// A task that sat out a limit longer than the run may wait has its turn in the same run once the limit is over.
func TestLimitSatOut(t *testing.T) {
	t.Parallel()
	p := newPatientOf(t, `{"tag":"x","tasks":[{"id":1,"title":"One","status":"pending"},{"id":2,"title":"Two","status":"pending","agent_type":"other"},{"id":3,"title":"Three","status":"pending","agent_type":"other"}]}`)
	p.cfg.MaxWaitSecs = 60 * 60
	p.cfg.AgentTypes = map[string]AgentType{"other": {Backend: "codex"}}
	p.result = func(r agent.Request) (res agent.Result) {
		switch len(p.asked) {
		case 1:
			return limitedUntil(p.time.Add(5 * time.Hour))
		default:
			p.time = p.time.Add(3 * time.Hour)
		}
		return res
	}
	p.mustRun(StartOptions{}, journal.AllDone)
	if !slices.Equal(p.asked, []string{"claude", "codex", "codex", "claude"}) {
		t.Errorf("asked %v", p.asked)
	}
}

// A limit that is reached with the last task is no end before everything is done.
func TestLimitWithTheLastTask(t *testing.T) {
	t.Parallel()
	w := newWorld(t, `{"tag":"x","tasks":[{"id":1,"title":"One","status":"pending"}]}`)
	w.cfg.Parallel, w.cfg.Scud.MaxTotalIterations = 2, 1
	w.mustRun(StartOptions{}, journal.AllDone)
}
