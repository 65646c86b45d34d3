//go:build agents

package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// acpClients are those that speak the Agent Client Protocol.
func acpClients(t *testing.T) (list []client) {
	opencode := opencodeClient()
	opencode.name = "opencode-acp"
	list = append(list, opencode)
	if _, err := os.Stat(filepath.Join(os.Getenv("AGENTS_BIN"), "gemini")); err != nil {
		t.Log("no gemini: its part is left out")
		return list
	}
	return append(list, client{name: "gemini-acp",
		env: func(url string) []string { return []string{"GEMINI_API_KEY=dummy", "GOOGLE_GEMINI_BASE_URL=" + url} },
		files: func(string) map[string]string {
			return map[string]string{".gemini/settings.json": `{"security":{"auth":{"selectedType":"gemini-api-key"}}}`}
		},
	})
}

// TestAgentsACP: three tasks by the protocol, one of them blocked by its agent's own words.
func TestAgentsACP(t *testing.T) {
	if !staged(t) {
		return
	}
	for _, c := range acpClients(t) {
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
