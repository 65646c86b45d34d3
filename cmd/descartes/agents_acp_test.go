//go:build agents

package main

import (
	"slices"
	"strings"
	"testing"
)

// acpClients are those that speak the Agent Client Protocol.
func acpClients() []client {
	opencode, gemini := opencodeClient(), geminiClient()
	opencode.name, gemini.name = "opencode-acp", "gemini-acp"
	return []client{opencode, gemini}
}

// TestAgentsACP: three tasks by the protocol, one of them blocked by its agent's own words.
func TestAgentsACP(t *testing.T) {
	if !staged(t) {
		return
	}
	for _, c := range acpClients() {
		t.Run(c.name, func(t *testing.T) {
			s := newStage(t, c)
			r := s.does(t, exitDone, "start")
			s.calm(t, "1", "2", "3")
			if got := s.ended(t); !slices.Equal(got, []string{"1 1 verified", "2 1 verified", "3 1 verified"}) {
				t.Errorf("attempts %q", got)
			}
			// opencode tells the last answer's tokens alone, which count as unknown, and gemini knows no prices.
			for _, e := range s.journal(t) {
				if e.Type == "agent_finished" && (e.Detail.USD != nil) != (c.name == "opencode-acp") {
					t.Errorf("task %s: dollars %v", e.Task, e.Detail.USD)
				}
			}
			t.Log(lastLines(readText(t, r.stdout), 3))
		})
		t.Run(c.name+" blocked", func(t *testing.T) {
			s := newStage(t, c, of("1", 0, turn{Text: "I try.", Shell: "echo half > half.txt"}, turn{Text: "No key is there.\n\nTASK_BLOCKED: no key for the alpha service"}))
			r := s.does(t, exitBlocked, "start")
			s.calm(t, "2")
			if out := readText(t, r.stdout); !strings.Contains(out, "blocked: 1 Write the alpha file: no key for the alpha service") {
				t.Errorf("got\n%s", out)
			}
		})
	}
}
