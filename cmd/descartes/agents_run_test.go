//go:build agents

package main

import (
	"slices"
	"strings"
	"testing"
)

// each runs a test with the clients that go through all of them.
func each(t *testing.T, test func(t *testing.T, c client)) { with(t, clients(), test) }

// with runs a test with some clients.
func with(t *testing.T, list []client, test func(t *testing.T, c client)) {
	if !staged(t) {
		return
	}
	for _, c := range list {
		t.Run(c.title(), func(t *testing.T) { test(t, c) })
	}
}

// TestAgentsDone: three tasks are verified and committed in two waves.
func TestAgentsDone(t *testing.T) {
	with(t, everyClient(), func(t *testing.T, c client) {
		s := newStage(t, c)
		r := s.does(t, exitDone, "start")
		s.calm(t, "1", "2", "3")
		if log := s.git(t, "log", "--format=%s"); log != "feat(t): complete wave 2\nfeat(t): complete wave 1\nstart\n" {
			t.Errorf("commits:\n%s", log)
		}
		if got := s.ended(t); !slices.Equal(got, []string{"1 1 verified", "2 1 verified", "3 1 verified"}) {
			t.Errorf("attempts %q", got)
		}
		s.costs(t, 3)
		t.Log(lastLines(readText(t, r.stdout), 3))
	})
}

// costs looks for the tokens of n agents that ended, and dollars where the client tells them.
func (s *stage) costs(t *testing.T, n int) {
	t.Helper()
	for _, e := range s.journal(t) {
		if e.Type != "agent_finished" {
			continue
		}
		n--
		if !s.client.tokens {
			if e.Detail.InputTokens != 0 {
				t.Errorf("task %s: %d tokens, of a client that tells none", e.Task, e.Detail.InputTokens)
			}
		} else if e.Detail.InputTokens < 2400 || e.Detail.OutputTokens < 68 {
			t.Errorf("task %s: %d tokens in, %d out, of a model that told 2400 and 68", e.Task, e.Detail.InputTokens, e.Detail.OutputTokens)
		}
		if (e.Detail.USD != nil) != s.client.dollars {
			t.Errorf("task %s: dollars %v", e.Task, e.Detail.USD)
		}
	}
	if n != 0 {
		t.Errorf("%d ends of agents too few", n)
	}
}

func lastLines(text string, n int) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}

// TestAgentsBlocked: one says that it is blocked, one never passes; what both wrote is taken back, and the third is held.
func TestAgentsBlocked(t *testing.T) {
	each(t, func(t *testing.T, c client) {
		s := newStage(t, c,
			of("1", 0, turn{Text: "I try.", Shell: "echo half > half.txt"}, turn{Text: "No key is there.\n\nTASK_BLOCKED: no key for the alpha service"}),
			of("2", 0, turn{Text: "I try.", Shell: "echo bad > 2.txt"}, turn{Text: claim}))
		r := s.does(t, exitBlocked, "start", "--max-attempts", "2")
		s.calm(t)
		out := readText(t, r.stdout)
		for _, want := range []string{"blocked: 1 Write the alpha file: no key for the alpha service", "blocked: 2 Write the beta file: verify failed", "held: 3 Write the gamma file"} {
			if !strings.Contains(out, want) {
				t.Errorf("no %q in\n%s", want, out)
			}
		}
		if got := s.ended(t); !slices.Equal(got, []string{"1 1 blocked", "2 1 failed", "2 2 failed"}) {
			t.Errorf("attempts %q", got)
		}
	})
}
