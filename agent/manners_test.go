//go:build unix

package agent

import (
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// manner is a way to behave, and what has to come of it.
type manner struct {
	name   string
	want   string // an outcome
	only   string // these dialects; "" is all
	reason string // part of it
	note   string // part of a note
	change func(q *Request)
}

func manners() []manner {
	const events = "claude qwen opencode codex gemini copilot"
	timeout := func(q *Request) { q.Timeout, q.Grace = 400*time.Millisecond, 100*time.Millisecond }
	closing := func(q *Request) { q.Clocks.Exit = 150 * time.Millisecond }
	starting := func(q *Request) { q.Clocks.Start = 3 * time.Second }
	begun := func(q *Request) { q.Clocks.Start, q.Timeout = 3*time.Second, 3500*time.Millisecond }
	return []manner{
		{name: "good", want: "complete"},
		{name: "mute", want: "incomplete"},
		{name: "only stderr", want: "incomplete"},
		{name: "thinks it", want: "incomplete", only: events},
		{name: "reads it", want: "incomplete", only: events},
		{name: "shows it", want: "incomplete", only: events},
		{name: "echoes the prompt", want: "incomplete"},
		{name: "in pieces", want: "complete"},
		{name: "in three events", want: "complete", only: "gemini"},
		{name: "in three events", want: "incomplete", only: "claude qwen opencode codex copilot"},
		{name: "takes it back", want: "incomplete", only: events},
		{name: "twice", want: "complete"},
		{name: "limit", want: "limit", only: events},
		{name: "reads of a limit", want: "complete"},
		{name: "orphan", want: "complete"},
		{name: "ignores TERM", want: "killed", change: timeout, reason: "not finished after 400ms"},
		{name: "promises after TERM", want: "killed", change: timeout},
		{name: "says no more", want: "idle", change: func(q *Request) { q.Idle = 300 * time.Millisecond },
			reason: "no output for 300ms"},
		{name: "never closes", want: "complete", only: events, change: closing, note: "was still running 150ms later"},
		{name: "goes on after the end", want: "complete", only: events,
			change: func(q *Request) { q.Clocks.Exit = 900 * time.Millisecond }},
		{name: "ended, then a limit", want: "complete", only: "opencode"},
		{name: "promises after the end and TERM", want: "incomplete", only: events, change: closing,
			note: "was still running"},
		{name: "fails, never closes", want: "retryable", only: "claude qwen codex gemini copilot", change: closing,
			note: "was still running"},
		{name: "mute, hangs", want: "idle", only: events, change: starting, reason: "in its first 3s"},
		{name: "only stderr, hangs", want: "idle", only: events, change: starting,
			reason: "in its first 3s; its last line on standard error: waiting for a lock"},
		{name: "text, hangs", want: "killed", change: begun},
		{name: "dots, hangs", want: "killed", change: begun},
		{name: "mute, hangs", want: "killed", only: "text", change: begun},
		{name: "spins", want: "crashed", only: "opencode codex", change: func(q *Request) { q.Clocks.Spin = 20 },
			reason: "20 steps in a row"},
		{name: "spins", want: "killed", only: "opencode codex", change: timeout},
		{name: "overflows", want: "blocked", only: "opencode", change: func(q *Request) { q.Clocks.Spin = 20 },
			reason: "exceeds the context window of this model. (5 times"},
		{name: "large line", want: "complete", only: "claude text"},
	}
}

// fake is the test binary as an agent of a dialect, which behaves so.
func fake(tb testing.TB, dialect, manner string) Backend {
	tb.Helper()
	exe, err := os.Executable()
	if err != nil {
		tb.Fatal(err)
	}
	b, ok := Lookup(tongues()[dialect].backend)
	if !ok {
		tb.Fatalf("no backend for %s", dialect)
	}
	b.Command, b.Prompt, b.StdinArgs = []string{exe, fakeCommand, dialect, manner}, ByStdin, nil
	return b
}

// Every bad manner that an agent may have, through a real shim. They mostly
// wait, so the dialects do it all at once.
func TestManners(t *testing.T) {
	t.Parallel()
	var all sync.WaitGroup
	defer all.Wait()
	for dialect := range tongues() {
		s := newStage(t)
		all.Go(func() {
			for n, m := range manners() {
				if m.only != "" && !strings.Contains(" "+m.only+" ", " "+dialect+" ") {
					continue
				}
				q := s.request(strconv.Itoa(n))
				q.Timeout = time.Minute
				if m.change != nil {
					m.change(&q)
				}
				res, err := NewRunner(s.shim, fake(t, dialect, m.name)).Run(t.Context(), q)
				if err != nil {
					t.Errorf("%s: %s: %v", dialect, m.name, err)
					continue
				}
				m.check(t, dialect, res, q)
			}
		})
	}
}

func (m manner) check(t *testing.T, dialect string, res Result, q Request) {
	t.Helper()
	if got := outcome(res); got != m.want || !strings.Contains(res.Reason+res.Blocked, m.reason) ||
		!strings.Contains(strings.Join(res.Notes, "\n"), m.note) {
		t.Errorf("%s: %s: got %s, want %s: %+v", dialect, m.name, got, m.want, res)
	}
	if res.Complete != (m.want == "complete") {
		t.Errorf("%s: %s: complete %v: %+v", dialect, m.name, res.Complete, res)
	}
	if res.Duration > time.Minute {
		t.Errorf("%s: %s: took %v", dialect, m.name, res.Duration)
	}
	if m.name != "orphan" {
		return
	}
	text, err := os.ReadFile(orphanFile(q.PromptFile))
	pid, _ := strconv.Atoi(string(text))
	if err != nil || pid == 0 {
		t.Errorf("%s: no orphan was left: %v", dialect, err)
		return
	}
	if err := syscall.Kill(pid, 0); err != syscall.ESRCH {
		t.Errorf("the orphan, process %d, is still there: %v", pid, err)
	}
}
