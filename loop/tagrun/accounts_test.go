package tagrun

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"descartes/agent"
	"descartes/agent/quota"
	"descartes/config"
	"descartes/gitops"
	"descartes/loop"
	"descartes/loop/journal"
)

// patient is a world whose clock only waiting moves on: to the first time that people are told of.
type patient struct {
	*world
	mu     sync.Mutex
	time   time.Time
	began  time.Time
	next   time.Time                          // that somebody waits for; zero: nobody does
	result func(r agent.Request) agent.Result // of each agent, in turn; none: it does its work
	asked  []string                           // account of each agent
	waits  []journal.Event
	warned []string
}

func newPatient(t *testing.T) *patient {
	t.Helper()
	p := &patient{world: newWorld(t, threeTasks), time: gitops.Now().Round(0)}
	p.began = p.time
	p.now = func() time.Time {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.next.After(p.time) {
			p.time = p.next
		}
		p.next = time.Time{}
		return p.time
	}
	p.cfg.Scud.MaxIterationsPerTask = 1
	p.cfg.MaxWaitSecs = 6 * 60 * 60
	p.cfg.Backend.Type = "claude"
	p.script()
	p.agent = func(r agent.Request, env map[string]string) agent.Result {
		p.asked = append(p.asked, r.Backend)
		if res := p.result(r); res.End != "" {
			return res
		}
		return p.works(env)
	}
	p.tell = func(e journal.Event) {
		p.mu.Lock()
		defer p.mu.Unlock()
		switch e.Type {
		case journal.LimitWaiting:
			p.waits = append(p.waits, e)
			if until := *e.Detail.Until; p.next.IsZero() || until.Before(p.next) {
				p.next = until
			}
		case journal.Warning:
			p.warned = append(p.warned, e.Message)
		}
	}
	return p
}

// pass lets time go by, also while the run decides, and says what time it is then.
func (p *patient) pass(d time.Duration) time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.time = p.time.Add(d)
	return p.time
}

// script gives the first agents their results; those after them do their work.
func (p *patient) script(results ...agent.Result) {
	p.result = func(agent.Request) (r agent.Result) {
		if len(results) > 0 {
			r, results = results[0], results[1:]
		}
		return r
	}
}

// within fails the test unless the run took that long.
func (p *patient) within(from, to time.Duration) {
	p.t.Helper()
	if d := p.time.Sub(p.began); d < from || d > to {
		p.t.Errorf("it took %v, want %v to %v", d, from, to)
	}
}

func (p *patient) remembers() *patient {
	p.known = &quota.Accounts{Dir: filepath.Join(p.t.TempDir(), "limits"),
		IDs: map[string]string{"claude": "claude-one", "codex": "codex-one"}}
	return p
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
	p.ends(loop.StartOptions{}, journal.AllDone)
	p.within(2*time.Hour, 2*time.Hour+40*time.Second)
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
	if st := p.state(); st.Iteration != 3 || st.Cost.Runs != 4 {
		t.Errorf("state: %+v", st)
	}
	p.clean()
}

// Where nothing is said of the reset it is asked ever more seldom, and not for ever.
func TestLimitUnknownReset(t *testing.T) {
	t.Parallel()
	p := newPatient(t)
	p.result = func(agent.Request) agent.Result { return limitedUntil(time.Time{}) }
	out := p.ends(loop.StartOptions{}, journal.QuotaUsedUp)
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

// A run that gave up on a guess asks when it is resumed; one that was told the time does not.
func TestLimitGuessIsNotKept(t *testing.T) {
	t.Parallel()
	p := newPatient(t).remembers()
	p.cfg.OnLimit = config.OnLimitStop
	p.script(limitedUntil(time.Time{}))
	p.ends(loop.StartOptions{}, journal.QuotaUsedUp)
	p.ends(loop.StartOptions{}, journal.AllDone)
	if len(p.waits) != 0 {
		t.Errorf("%d waits", len(p.waits))
	}
	p.within(0, 0)
}

// A reset that lies in the past must not become a run of paid requests.
func TestLimitPastReset(t *testing.T) {
	t.Parallel()
	p := newPatient(t)
	p.result = func(agent.Request) agent.Result { return limitedUntil(p.pass(0).Add(-time.Hour)) }
	p.ends(loop.StartOptions{}, journal.QuotaUsedUp)
	if n := len(p.ran); n < 5 || n > 12 {
		t.Errorf("%d requests in six hours", n)
	}
}

// A limit beyond what the run may wait ends it. It is known then, and nobody asks before.
func TestLimitBeyondMaxWait(t *testing.T) {
	t.Parallel()
	p := newPatient(t)
	reset := p.time.Add(50 * time.Hour)
	p.script(limitedUntil(reset))
	out := p.ends(loop.StartOptions{}, journal.QuotaUsedUp)
	p.within(0, 0)
	if out.Until.Before(reset) {
		t.Errorf("outcome: %+v", out)
	}
	p.ends(loop.StartOptions{}, journal.QuotaUsedUp)
	if len(p.ran) != 1 {
		t.Errorf("ran %v", p.ran)
	}
	p.time = reset.Add(-time.Hour)
	p.ends(loop.StartOptions{}, journal.AllDone)
	p.within(50*time.Hour, 50*time.Hour+40*time.Second)
	if !slices.Equal(p.ran, []string{"1 1", "1 2", "2 1", "3 1"}) {
		t.Errorf("ran %v", p.ran)
	}
}

// Another account has a quota of its own.
func TestLimitIsOfOneAccount(t *testing.T) {
	t.Parallel()
	p := newPatient(t)
	p.script(limitedUntil(p.time.Add(50 * time.Hour)))
	p.ends(loop.StartOptions{}, journal.QuotaUsedUp)
	p.cfg.Backend.Type = "codex"
	p.ends(loop.StartOptions{}, journal.AllDone)
	p.within(0, 0)
	if !slices.Equal(p.asked, []string{"claude", "codex", "codex", "codex"}) {
		t.Errorf("asked %v", p.asked)
	}
}

// Nothing is waited for that comes after the deadline.
func TestLimitAfterDeadline(t *testing.T) {
	t.Parallel()
	p := newPatient(t)
	deadline := p.time.Add(time.Hour)
	p.cfg.Deadline = &deadline
	p.script(limitedUntil(p.time.Add(2 * time.Hour)))
	if out := p.ends(loop.StartOptions{}, journal.QuotaUsedUp); !strings.Contains(out.Message, "after the deadline") {
		t.Errorf("outcome: %+v", out)
	}
	p.within(0, 0)
}

// A person who says so has the provider asked, whatever is known.
func TestLimitAskedAnew(t *testing.T) {
	t.Parallel()
	p := newPatient(t).remembers()
	p.cfg.OnLimit = config.OnLimitStop
	p.script(limitedUntil(p.time.Add(50 * time.Hour)))
	p.ends(loop.StartOptions{}, journal.QuotaUsedUp)
	p.ends(loop.StartOptions{Anew: true}, journal.AllDone)
	if names, err := os.ReadDir(p.known.Dir); err != nil || len(names) != 0 {
		t.Errorf("the record of a limit that is over stays: %v, %v", names, err)
	}
}

// What is left of a wait is known from the journal.
func TestWaitSurvivesInterrupt(t *testing.T) {
	t.Parallel()
	p := newPatient(t)
	p.script(limitedUntil(p.time.Add(4 * time.Hour)))
	wait := p.tell
	p.tell = func(e journal.Event) {
		if e.Type != journal.LimitWaiting {
			wait(e)
			return
		}
		p.waits = append(p.waits, e)
		p.interrupt(nil)
	}
	p.ends(loop.StartOptions{}, journal.UserCancelled)
	p.tell, p.time = wait, p.time.Add(time.Hour)
	p.ends(loop.StartOptions{}, journal.AllDone)
	p.within(4*time.Hour, 4*time.Hour+40*time.Second)
	if !slices.Equal(p.ran, []string{"1 1", "1 2", "2 1", "3 1"}) || len(p.waits) != 2 {
		t.Errorf("ran %v, %d waits", p.ran, len(p.waits))
	}
}

// A provider's fault is waited out, and no task's attempt is used up by it.
func TestTransientTries(t *testing.T) {
	t.Parallel()
	p := newPatient(t)
	p.script(transient(), transient(), transient())
	p.ends(loop.StartOptions{}, journal.AllDone)
	p.within(3*155*time.Second/4, 5*155*time.Second/4+20*time.Second)
	if !slices.Equal(p.ran, []string{"1 1", "1 2", "1 3", "1 4", "2 1", "3 1"}) {
		t.Errorf("ran %v", p.ran)
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
	if out := p.ends(loop.StartOptions{}, journal.TasksBlocked); len(p.ran) != 2 || out.Blocked != 1 {
		t.Errorf("ran %v, outcome %+v", p.ran, out)
	}
	p.within(0, 0)
}

// While one is out of quota another takes over, and it goes back once that has passed.
func TestFallback(t *testing.T) {
	t.Parallel()
	p := newPatient(t)
	p.cfg.OnLimit, p.cfg.Fallback = config.OnLimitFallback, []string{"codex"}
	p.cfg.Models = map[string]config.Models{"codex": {Default: "gpt"}}
	first := true
	p.result = func(r agent.Request) agent.Result {
		defer p.pass(time.Hour)
		if r.Backend == "codex" && r.Model != "gpt" {
			t.Errorf("model %q", r.Model)
		}
		if first {
			first = false
			return limitedUntil(p.pass(0).Add(150 * time.Minute))
		}
		return agent.Result{}
	}
	p.ends(loop.StartOptions{}, journal.AllDone)
	if !slices.Equal(p.asked, []string{"claude", "codex", "codex", "claude"}) || len(p.waits) != 0 {
		t.Errorf("asked %v, %d waits", p.asked, len(p.waits))
	}
	if !slices.Equal(p.warned, []string{"Claude's weekly limit: codex takes over"}) {
		t.Errorf("warned of %q", p.warned)
	}
}

// Where all are used up, the run waits for the first that is not.
func TestFallbackAllLimited(t *testing.T) {
	t.Parallel()
	p := newPatient(t)
	p.cfg.OnLimit, p.cfg.Fallback = config.OnLimitFallback, []string{"codex", "gemini"}
	p.script(limitedUntil(p.time.Add(3*time.Hour)), limitedUntil(p.time.Add(time.Hour)),
		limitedUntil(p.time.Add(5*time.Hour)))
	p.ends(loop.StartOptions{}, journal.AllDone)
	if !slices.Equal(p.asked, []string{"claude", "codex", "gemini", "codex", "codex", "codex"}) {
		t.Errorf("asked %v", p.asked)
	}
	p.within(time.Hour, time.Hour+40*time.Second)
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
			p.ends(loop.StartOptions{}, want)
			if p.asked[len(p.asked)-1] != "codex" {
				t.Errorf("asked %v", p.asked)
			}
		})
	}
}

// A run in another project waits for the account's quota too, and asks nobody.
func TestAccountHoldsOthers(t *testing.T) {
	t.Parallel()
	a, b := newPatient(t).remembers(), newPatient(t)
	b.known, b.time, b.began = a.known, a.time, a.time
	a.cfg.OnLimit = config.OnLimitStop
	a.script(limitedUntil(a.time.Add(90 * time.Minute)))
	a.ends(loop.StartOptions{}, journal.QuotaUsedUp)
	b.ends(loop.StartOptions{}, journal.AllDone)
	b.within(90*time.Minute, 91*time.Minute)
	if !slices.Equal(b.ran, []string{"1 1", "2 1", "3 1"}) || len(b.waits) != 1 ||
		b.waits[0].Reason != "Claude's weekly limit" {
		t.Errorf("ran %v, waits %+v", b.ran, b.waits)
	}
	if names, err := os.ReadDir(a.known.Dir); err != nil || len(names) != 0 {
		t.Errorf("the record stays: %v, %v", names, err)
	}
}

// What cannot be read or written of an account is a warning, told once.
func TestAccountTrouble(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(path string) error{
		"not JSON": func(path string) error { return os.WriteFile(path, []byte("{"), 0o600) },
		"a folder": func(path string) error { return os.Mkdir(path, 0o700) },
		"large":    func(path string) error { return os.WriteFile(path, make([]byte, 1<<20), 0o600) },
		"version":  func(path string) error { return os.WriteFile(path, []byte(`{"version":9}`), 0o600) },
		"impossible": func(path string) error {
			return os.WriteFile(path,
				[]byte(`{"version":1,"until":"2999-01-01T00:00:00Z","at":"2026-01-01T00:00:00Z"}`), 0o600)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPatient(t).remembers()
			if err := os.Mkdir(p.known.Dir, 0o700); err != nil {
				t.Fatal(err)
			}
			if err := spoil(p.known.Path("claude")); err != nil {
				t.Fatal(err)
			}
			p.ends(loop.StartOptions{}, journal.AllDone)
			if len(p.warned) != 1 || !strings.Contains(p.warned[0], p.known.Path("claude")) {
				t.Errorf("warned of %q", p.warned)
			}
		})
	}
	p := newPatient(t).remembers()
	if err := os.WriteFile(p.known.Dir, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	p.script(limitedUntil(p.time.Add(time.Hour)))
	p.ends(loop.StartOptions{}, journal.AllDone)
	if len(p.warned) == 0 || len(p.warned) > 2 {
		t.Errorf("warned of %q", p.warned)
	}
}
