//go:build agents

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestAgentsCommand: what the user's command says about permissions stands, and a client takes what is added to it.
func TestAgentsCommand(t *testing.T) {
	for _, tt := range []struct {
		c       client
		command string
		code    int
	}{
		{codexClient(), "codex exec -s read-only", exitBlocked},
		{claudeClient(), "claude -p --permission-mode plan", exitBlocked},
		{newestClaude(), "claude -p --permission-mode plan", exitBlocked},
		{qwenClient(), "qwen --approval-mode plan", exitBlocked},
		{geminiClient(), "gemini --approval-mode yolo", exitDone},
		{qwenClient(), "qwen --approval-mode=yolo", exitDone},
		{copilotClient(), "copilot --allow-all", exitDone},
		{opencodeClient(), "opencode run --dangerously-skip-permissions", exitDone},
	} {
		with(t, []client{tt.c}, func(t *testing.T, c client) {
			s := newStage(t, c)
			s.does(t, tt.code, "start", "--command", tt.command, "--max-attempts", "1", "--timeout", "60")
			_, err := os.Stat(filepath.Join(s.root, "1.txt"))
			if written := err == nil; written != (tt.code == exitDone) {
				t.Errorf("%s: the file is there: %v\n%s", tt.command, written, s.story(t))
			}
		})
	}
}

// TestAgentsUsage: a client that refuses its command line ends the run at once, and no task is blocked.
func TestAgentsUsage(t *testing.T) {
	with(t, everyClient(), func(t *testing.T, c client) {
		s := newStage(t, c)
		command := map[string]string{"codex": "codex exec", "opencode": "opencode run"}[c.name]
		if command == "" {
			command = c.name
		}
		r := s.does(t, exitAgent, "start", "--command", command+" --no-such-option")
		if out := readText(t, r.stdout); !strings.Contains(out, "does not accept its command line: ") || len(s.ended(t)) != 1 {
			t.Errorf("attempts %q\n%s", s.ended(t), out)
		}
		t.Log(grep(readText(t, r.stdout), "command line"))
	})
}

// TestAgentsModel: a model that does not exist ends the run at the first attempt, be it the server or the client that
// does not know it.
func TestAgentsModel(t *testing.T) {
	with(t, append(everyClient(), acpClients()...), func(t *testing.T, c client) {
		s := newStage(t, c, of("1", 0, turn{Fault: "nomodel"}))
		var flags []string
		if c.name == "opencode" {
			flags = []string{"--model", "fake/other-model"}
		}
		r := s.does(t, exitAgent, "start", flags...)
		if got := s.ended(t); len(got) != 1 {
			t.Errorf("attempts %q", got)
		}
		t.Log(grep(readText(t, r.stdout), "stopped"))
	})
	// One that both know is asked for by its name.
	with(t, []client{codexClient(), claudeClient(), newestClaude(), qwenClient(), copilotClient()}, func(t *testing.T, c client) {
		s := newStage(t, c)
		s.does(t, exitDone, "start", "--model", "other-model")
		if asked := readText(t, s.asked); !strings.Contains(asked, `"model":"other-model"`) {
			t.Errorf("it was not asked for:\n%s", asked)
		}
	})
}

// TestAgentsContinue: a loop goes on with one conversation, and each iteration costs what it costs.
func TestAgentsContinue(t *testing.T) {
	with(t, []client{claudeClient(), newestClaude(), opencodeClient()}, func(t *testing.T, c client) {
		s := newStage(t, c, rule{Turns: []turn{{Text: "Not yet."}}})
		path, err := program()
		if err != nil {
			t.Fatal(err)
		}
		r := s.launch(t, []string{path, "loop", "start", "--prompt", "Go on.", "--backend", c.name, "--continue", "--max-iterations", "4"}, s.env())
		s.seen.follow(t, r)
		s.ends(t, r, exitLimit)
		session, first, n := "", 0.0, 0
		for _, e := range s.journal(t) {
			if e.Type != "agent_finished" {
				continue
			}
			if n++; n == 1 {
				session = e.Detail.Session
			}
			if e.Detail.Session != session || session == "" || e.Detail.USD == nil {
				t.Fatalf("iteration %d: session %q, want %q, dollars %v", n, e.Detail.Session, session, e.Detail.USD)
			}
			if n == 2 {
				first = *e.Detail.USD // the first may have asked for a title besides
			}
			if n > 2 && (*e.Detail.USD > 1.2*first || *e.Detail.USD < 0.8*first) {
				t.Errorf("iteration %d cost $%.5f, the second $%.5f", n, *e.Detail.USD, first)
			}
		}
		if n != 4 {
			t.Errorf("%d iterations", n)
		}
	})
}
