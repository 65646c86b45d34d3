//go:build agents

package main

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// limited is a model whose quota is used up in the middle of task 2, for some seconds.
func limited(seconds int) rule {
	return of("2", 0, turn{Text: "I write it.", Shell: writes("2")}, turn{Fault: "usagelimit", FaultFor: seconds, Text: claim})
}

// TestAgentsLimitWaits: the loop waits for the reset that the client tells, and goes on without an attempt used up.
// Other clients tell none, and a loop waits a quarter of an hour for them.
func TestAgentsLimitWaits(t *testing.T) {
	with(t, []client{claudeClient(), newestClaude(), codexClient()}, func(t *testing.T, c client) {
		s := newStage(t, c, limited(6))
		r := s.does(t, exitDone, "start", "--max-attempts", "1", "--on-limit", "wait")
		s.calm(t, "1", "2", "3")
		t.Log(grep(readText(t, r.stdout), "waits"))
		s.wasLimited(t)
	})
}

// TestAgentsLimitStops: with --on-limit stop the loop ends with 75, and a resume after the reset goes on, again without
// an attempt used up.
func TestAgentsLimitStops(t *testing.T) {
	each(t, func(t *testing.T, c client) {
		const lasts = 10
		s := newStage(t, c, limited(lasts))
		r := s.does(t, exitQuota, "start", "--max-attempts", "1", "--on-limit", "stop")
		over := time.Now().Add((lasts + 1) * time.Second)
		t.Log(grep(readText(t, r.stdout), "stopped"))
		if got := s.ended(t); !slices.Equal(got, []string{"1 1 verified", "2 1 limited"}) {
			t.Errorf("attempts %q\n%s", got, s.story(t))
		}
		until(t, "the reset", func() bool { return time.Now().After(over) })
		var more []string
		if c.name == "opencode" { // it tells no reset: without being given anew this waits for a while yet
			more = []string{"--on-limit", "stop"}
		}
		s.does(t, exitDone, "resume", more...)
		s.calm(t, "1", "2", "3")
		s.wasLimited(t)
	})
}

// wasLimited says that task 2 met the limit, once or more often, and each task needed no attempt besides.
func (s *stage) wasLimited(t *testing.T) {
	t.Helper()
	var limited, verified int
	for _, a := range s.ended(t) {
		switch _, verdict, _ := strings.Cut(a[2:], " "); {
		case verdict == "verified":
			verified++
		case verdict == "limited" && strings.HasPrefix(a, "2 "):
			limited++
		default:
			t.Errorf("attempt %q", a)
		}
	}
	if limited == 0 || verified != 3 {
		t.Errorf("%d times limited, %d tasks verified", limited, verified)
	}
}

// TestAgentsLimitSlept: a client that would sleep until the reset, an hour, without a word is ended at once.
func TestAgentsLimitSlept(t *testing.T) {
	if !staged(t) {
		return
	}
	s := newStage(t, opencodeClient(), of("1", 0, turn{Fault: "usagelimit", FaultTimes: 1, RetryAfter: 3600, Text: "I write it.", Shell: writes("1")}, turn{Text: claim}))
	r := s.does(t, exitQuota, "start", "--max-attempts", "1", "--on-limit", "stop")
	t.Log(grep(readText(t, r.stdout), "stopped"))
	s.does(t, exitDone, "resume", "--on-limit", "stop") // given anew, it asks at once
	s.calm(t, "1", "2", "3")
}

// TestAgentsFallback: where one client's quota is used up another takes over, and no attempt is used up by that.
func TestAgentsFallback(t *testing.T) {
	if !staged(t) {
		return
	}
	c, other := claudeClient(), codexClient()
	own := c.env
	c.env, c.files = func(url string) []string { return append(own(url), other.env(url)...) }, other.files
	s := newStage(t, c, of("2", 0, turn{Fault: "usagelimit", FaultTimes: 1, ResetIn: 3600, Text: "I write it.", Shell: writes("2")}, turn{Text: claim}))
	r := s.does(t, exitDone, "start", "--max-attempts", "1", "--fallback", "codex")
	s.calm(t, "1", "2", "3")
	s.wasLimited(t)
	if asked := readText(t, s.asked); !strings.Contains(asked, `"api":"responses"`) {
		t.Errorf("nobody took over:\n%s\n%s", readText(t, r.stdout), asked)
	}
}

// TestAgentsOverloaded: a service that is overloaded once stops nothing.
func TestAgentsOverloaded(t *testing.T) {
	each(t, func(t *testing.T, c client) {
		s := newStage(t, c, of("1", 0, turn{Fault: "overloaded", FaultTimes: 1, Text: "I write it.", Shell: writes("1")}, turn{Text: claim}))
		s.does(t, exitDone, "start")
		s.calm(t, "1", "2", "3")
		t.Logf("%q", s.ended(t))
	})
}

// TestAgentsPassing: where the client gives up at once, the next attempt gets past it.
func TestAgentsPassing(t *testing.T) {
	if !staged(t) {
		return
	}
	s := newStage(t, codexClient(), of("1", 0, turn{Fault: "overloaded", FaultTimes: 1, Text: "I write it.", Shell: writes("1")}, turn{Text: claim}))
	config := filepath.Join(s.home, ".codex", "config.toml")
	s.file(t, config, readText(t, config)+"request_max_retries = 0\nstream_max_retries = 0\n")
	s.does(t, exitDone, "start")
	s.calm(t, "1", "2", "3")
	if got := s.ended(t); !slices.Equal(got, []string{"1 1 crashed", "1 2 verified", "2 1 verified", "3 1 verified"}) {
		t.Errorf("attempts %q", got)
	}
}

// TestAgentsUnauthorized: a key that is refused ends the loop at the first attempt, in the client's own words.
func TestAgentsUnauthorized(t *testing.T) {
	with(t, everyClient(), func(t *testing.T, c client) {
		s := newStage(t, c, of("1", 0, turn{Fault: "unauthorized"}))
		r := s.does(t, exitAgent, "start")
		s.calm(t)
		out := readText(t, r.stdout) + readText(t, r.stderr)
		if words := map[string]string{"claude": "Not logged in", "codex": "401", "opencode": "Incorrect API key", "qwen": "Incorrect API key", "copilot": "401"}[c.name]; !strings.Contains(out, words) {
			t.Errorf("no %q in\n%s", words, out)
		}
		if got := s.ended(t); len(got) != 1 {
			t.Errorf("attempts %q", got)
		}
		t.Log(grep(out, "stopped"))
	})
}

// TestAgentsRefusedKey: the client itself would try a plain key ten times more, for three minutes.
func TestAgentsRefusedKey(t *testing.T) {
	if !staged(t) {
		return
	}
	c := claudeClient()
	c.env = func(url string) []string {
		return []string{"ANTHROPIC_BASE_URL=" + url, "ANTHROPIC_API_KEY=dummy", "IS_SANDBOX=1"}
	}
	s := newStage(t, c, of("1", 0, turn{Fault: "unauthorized"}))
	r := s.does(t, exitAgent, "start")
	s.calm(t)
	out := readText(t, r.stdout) + readText(t, r.stderr)
	if !strings.Contains(out, "Claude cannot go on: authentication_failed, status 401") || time.Since(r.began) > time.Minute {
		t.Errorf("after %v:\n%s", time.Since(r.began), out)
	}
}

// grep is the first line with a word.
func grep(text, word string) string {
	for line := range strings.Lines(text) {
		if strings.Contains(line, word) {
			return strings.TrimSpace(line)
		}
	}
	return ""
}
