//go:build agents

package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"descartes/config"
	"descartes/internal/proc"
	"descartes/launch"
)

// each runs a test with the clients that go through all of them.
func each(t *testing.T, test func(t *testing.T, c client)) { with(t, clients(), test) }

// with runs a test with some clients, as many at a time as there are processors: each waits as much as it works.
func with(t *testing.T, list []client, test func(t *testing.T, c client)) {
	for _, c := range list {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			staged(t, c)
			test(t, c)
		})
	}
}

// TestAgentsDone: three tasks are verified and committed in two waves.
func TestAgentsDone(t *testing.T) {
	with(t, everyClient(), func(t *testing.T, c client) {
		s := newStage(t, c)
		r := s.does(t, exitDone, "start")
		s.calm(t, "1", "2", "3")
		if log := s.git(t, "log",
			"--format=%s"); log != "feat(t): complete wave 2\nfeat(t): complete wave 1\nstart\n" {
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
			t.Errorf("task %s: %d tokens in, %d out, of a model that told 2400 and 68", e.Task, e.Detail.InputTokens,
				e.Detail.OutputTokens)
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

// TestAgentsBlocked: one says that it is blocked, one never passes; what both wrote is taken back, and the third is
// held.
func TestAgentsBlocked(t *testing.T) {
	each(t, func(t *testing.T, c client) {
		s := newStage(t, c,
			of("1", 0, turn{Text: "I try.", Shell: "echo half > half.txt"},
				turn{Text: "No key is there.\n\nTASK_BLOCKED: no key for the alpha service"}),
			of("2", 0, turn{Text: "I try.", Shell: "echo bad > 2.txt"}, turn{Text: claim}))
		r := s.does(t, exitBlocked, "start", "--max-attempts", "2")
		s.calm(t)
		out := readText(t, r.stdout)
		for _, want := range []string{"blocked: 1 Write the alpha file: no key for the alpha service",
			"blocked: 2 Write the beta file: verify failed", "held: 3 Write the gamma file"} {
			if !strings.Contains(out, want) {
				t.Errorf("no %q in\n%s", want, out)
			}
		}
		if got := s.ended(t); !slices.Equal(got, []string{"1 1 blocked", "2 1 failed", "2 2 failed"}) {
			t.Errorf("attempts %q", got)
		}
	})
}

// TestAgentsCommand: what the user's command says about permissions stands, and a client takes what is added to it.
func TestAgentsCommand(t *testing.T) {
	for _, tt := range []struct {
		c       client
		command string
		code    int
	}{
		{codexClient(), "codex exec -s read-only", exitBlocked},
		{claudeClient(), "claude -p --permission-mode plan", exitBlocked},
		{qwenClient(), "qwen --approval-mode plan", exitBlocked},
		{geminiClient(), "gemini --approval-mode yolo", exitDone},
		{qwenClient(), "qwen --approval-mode=yolo", exitDone},
		{copilotClient(), "copilot --allow-all", exitDone},
		{opencodeClient(), "opencode run --dangerously-skip-permissions", exitDone},
	} {
		with(t, []client{tt.c}, func(t *testing.T, c client) {
			s := newStage(t, c)
			s.does(t, tt.code, "start", "--command", tt.command, "--max-attempts", "1", "--timeout", "240")
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
		if out := readText(t, r.stdout); !strings.Contains(out, "does not accept its command line: ") ||
			len(s.ended(t)) != 1 {
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
		stopped := grep(readText(t, r.stdout), "stopped")
		if got := s.ended(t); len(got) != 1 || !strings.Contains(strings.ToLower(stopped), "model") {
			t.Errorf("attempts %q, %s", got, stopped)
		}
		t.Log(stopped)
	})
	// One that both know is asked for by its name.
	with(t, []client{codexClient(), claudeClient(), qwenClient(), copilotClient()},
		func(t *testing.T, c client) {
			s := newStage(t, c)
			s.does(t, exitDone, "start", "--model", "other-model")
			if asked := readText(t, s.asked); !strings.Contains(asked, `"model":"other-model"`) {
				t.Errorf("it was not asked for:\n%s", asked)
			}
		})
}

// TestAgentsContinue: a loop goes on with one conversation, and each iteration costs what it costs.
func TestAgentsContinue(t *testing.T) {
	with(t, []client{claudeClient(), opencodeClient()}, func(t *testing.T, c client) {
		s := newStage(t, c, rule{Turns: []turn{{Text: "Not yet."}}})
		path, err := program()
		if err != nil {
			t.Fatal(err)
		}
		r := s.launch(t, []string{path, "loop", "start", "--prompt", "Go on.", "--backend", c.name, "--continue",
			"--max-iterations", "4"}, s.env())
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

// TestAgentsACP: three tasks by the protocol, one after the other: what the first session leaves behind keeps no later
// one from its work. Opencode tells the last answer's tokens alone, which count as unknown; only it and claude know
// prices.
func TestAgentsACP(t *testing.T) {
	with(t, acpClients(), func(t *testing.T, c client) {
		s := newStage(t, c)
		r := s.does(t, exitDone, "start")
		s.calm(t, "1", "2", "3")
		if got := s.ended(t); !slices.Equal(got, []string{"1 1 verified", "2 1 verified", "3 1 verified"}) {
			t.Errorf("attempts %q", got)
		}
		for _, e := range s.journal(t) {
			if e.Type == "agent_finished" && (e.Detail.USD != nil) != c.dollars {
				t.Errorf("task %s: dollars %v", e.Task, e.Detail.USD)
			}
		}
		t.Log(lastLines(readText(t, r.stdout), 3))
	})
}

// TestAgentsACPBlocked: a task is blocked by its agent's own words.
func TestAgentsACPBlocked(t *testing.T) {
	with(t, acpClients(), func(t *testing.T, c client) {
		s := newStage(t, c, of("1", 0, turn{Text: "I try.", Shell: "echo half > half.txt"},
			turn{Text: "No key is there.\n\nTASK_BLOCKED: no key for the alpha service"}))
		r := s.does(t, exitBlocked, "start")
		s.calm(t, "2")
		if out := readText(t, r.stdout); !strings.Contains(out,
			"blocked: 1 Write the alpha file: no key for the alpha service") {
			t.Errorf("got\n%s", out)
		}
	})
}

// builds is a shell command in the background that takes longer than an agent that has ended may stay.
func builds(task string) *tool {
	return &tool{Name: "Bash", Args: map[string]any{"run_in_background": true, "description": "build",
		"command": "i=0; while [ $i -lt 15 ]; do i=$((i+1)); sleep 1; done; " + writes(task)}}
}

// TestAgentsBackground: an agent that waits for its own command goes on when that ends.
func TestAgentsBackground(t *testing.T) {
	with(t, []client{claudeClient()}, func(t *testing.T, c client) {
		s := newStage(t, c,
			rule{Match: "(?s)# Task 1: .*<task-notification>", Turns: []turn{{Text: claim}}},
			of("1", 0, turn{Text: "I build.", Tool: builds("1")}, turn{Text: "The build runs."}))
		s.does(t, exitDone, "start", "--max-attempts", "1")
		s.calm(t, "1", "2", "3")
	})
	// By the protocol neither that is to be had, and the agent learns so at once, nor a tool to be woken later.
	with(t, []client{byProtocol(claudeClient(), "claude-agent-acp", "claude-agent-acp")}, func(t *testing.T, c client) {
		s := newStage(t, c, of("1", 0, turn{Text: "I build.", Tool: builds("other")},
			turn{Text: "I build.", Shell: "i=0; while [ $i -lt 15 ]; do i=$((i+1)); sleep 1; done; " + writes("1")},
			turn{Text: claim}))
		s.does(t, exitDone, "start", "--max-attempts", "1")
		s.calm(t, "1", "2", "3")
		log, asked := readText(t, s.logOf(t, "1-1")), readText(t, s.asked)
		if n := strings.Count(log, `"status":"failed"`); n != 1 {
			t.Errorf("%d calls were refused, want 1:\n%s", n, log)
		}
		if strings.Contains(asked, `"ScheduleWakeup"`) || !strings.Contains(asked, `"Bash"`) {
			t.Errorf("tools are offered:\n%s", asked)
		}
	})
}

// wakeup is a call that has the client ask the model again in a minute.
func wakeup() *tool {
	return &tool{Name: "ScheduleWakeup", Args: map[string]any{"delaySeconds": 60, "prompt": "WAKEUP-7 go on",
		"reason": "the build"}}
}

// TestAgentsWakeup: an agent that has itself asked again in a minute goes on then.
func TestAgentsWakeup(t *testing.T) {
	with(t, []client{claudeClient()}, func(t *testing.T, c client) {
		s := newStage(t, c,
			rule{Match: "(?s)# Task 1: .*WAKEUP-7", Turns: []turn{{}, {Text: "I write it.", Shell: writes("1")}, {Text: claim}}},
			of("1", 0, turn{Text: "I wait.", Tool: wakeup()}, turn{Text: "I go on in a minute."}))
		s.does(t, exitDone, "start", "--max-attempts", "1")
		s.calm(t, "1", "2", "3")
	})
}

// TestAgentsHours: a service that asks to be left alone for hours is out of quota, however its client says so, and if
// that only sleeps.
func TestAgentsHours(t *testing.T) {
	const asks = 2*time.Hour + 7*time.Minute + 12*time.Second
	for _, tt := range []struct {
		c    client
		body any // nil is a limit of the minute, as its headers know better
		told bool
	}{
		{claudeClient(), nil, false},
		{codexClient(), nil, true},
		{geminiClient(), map[string]any{"error": map[string]any{"code": 429, "status": "RESOURCE_EXHAUSTED",
			"message": "Resource has been exhausted (e.g. check quota).", "details": []any{map[string]any{
				"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": fmt.Sprintf("%.0fs", asks.Seconds())}}}}, true},
		{opencodeClient(), perDay(asks), true},
		{qwenClient(), nil, true},
		{copilotClient(), perDay(asks), true},
	} {
		with(t, []client{tt.c}, func(t *testing.T, c client) {
			refused := turn{Fault: "ratelimit", RetryAfter: int(asks.Seconds())}
			if tt.body != nil {
				refused = turn{Fault: "http", HTTP: &answer{Status: 429, Body: tt.body,
					Headers: map[string]string{"retry-after": strconv.Itoa(int(asks.Seconds()))}}}
			}
			s := newStage(t, c, of("1", 0, refused))
			r := s.does(t, exitQuota, "start", "--max-attempts", "1", "--on-limit", "stop")
			if took := time.Since(r.began); took > 4*time.Minute {
				t.Errorf("it took %v", took)
			}
			if out := grep(readText(t, r.stdout), "stopped"); strings.Contains(out, "(in 2 h ") != tt.told {
				t.Errorf("says when: want %v: %s", tt.told, out)
			}
			if got := s.ended(t); !slices.Equal(got, []string{"1 1 limited"}) {
				t.Errorf("attempts %q", got)
			}
			t.Log(grep(readText(t, r.stdout), "stopped"))
		})
	}
}

// perDay is OpenAI's answer to one request of a day too many.
func perDay(wait time.Duration) any {
	return map[string]any{"error": map[string]any{"type": "requests", "code": "rate_limit_exceeded",
		"message": "Rate limit reached for fake-model in organization org-1 on requests per day (RPD): Limit 200, Used 200, " +
			"Requested 1. Please try again in " + wait.String() + "."}}
}

// TestAgentsCredits: a workspace without credits, or at its cap, needs a person, at once.
func TestAgentsCredits(t *testing.T) {
	for reached, words := range map[string]string{"workspace_owner_credits_depleted": "out of credits",
		"workspace_member_usage_limit_reached": "spend cap"} {
		with(t, []client{codexClient()}, func(t *testing.T, c client) {
			s := newStage(t, c, of("1", 0, turn{Fault: "http", HTTP: &answer{Status: 429,
				Headers: map[string]string{"x-codex-rate-limit-reached-type": reached},
				Body:    map[string]any{"error": map[string]any{"type": "usage_limit_reached", "message": "limit"}}}}))
			r := s.does(t, exitAgent, "start")
			if out := readText(t, r.stdout) + readText(t, r.stderr); !strings.Contains(out, words) ||
				len(s.ended(t)) != 1 {
				t.Errorf("attempts %q\n%s", s.ended(t), out)
			}
		})
	}
}

// TestAgentsOverflow: a conversation that the model does not take blocks its task; the rest runs on.
func TestAgentsOverflow(t *testing.T) {
	with(t, []client{codexClient(), geminiClient(), copilotClient()}, func(t *testing.T, c client) {
		s := newStage(t, c, of("1", 0, turn{Fault: "toolong"}))
		r := s.does(t, exitBlocked, "start")
		s.calm(t, "2")
		if got := s.ended(t); !slices.Equal(got, []string{"1 1 blocked", "2 1 verified"}) {
			t.Errorf("attempts %q", got)
		}
		t.Log(grep(readText(t, r.stdout), "blocked"))
	})
}

// TestAgentsSubagent: what a subagent says is not its agent's word; what it cost is in the sum, or said to be left out.
func TestAgentsSubagent(t *testing.T) {
	for _, tt := range []struct {
		c    client
		tool tool
	}{
		{claudeClient(), tool{"Agent", map[string]any{"description": "sub", "prompt": "SUBWORK-7",
			"subagent_type": "general-purpose", "run_in_background": false}}},
		{codexClient(), tool{"spawn_agent", map[string]any{"message": "SUBWORK-7"}}},
		{opencodeClient(), tool{"task", map[string]any{"description": "sub", "prompt": "SUBWORK-7",
			"subagent_type": "general"}}},
		{qwenClient(), tool{"agent", map[string]any{"description": "sub", "prompt": "SUBWORK-7",
			"subagent_type": "general-purpose"}}},
		{copilotClient(), tool{"task", map[string]any{"description": "sub", "prompt": "SUBWORK-7", "name": "sub",
			"agent_type": "general-purpose", "mode": "sync"}}},
	} {
		with(t, []client{tt.c}, func(t *testing.T, c client) {
			s := newStage(t, c,
				rule{Match: `SUBWORK-7`, Turns: []turn{{Text: "TASK_BLOCKED: the subagent has no key"}}},
				of("1", 0, turn{Text: "I ask a subagent.", Tool: &tt.tool},
					turn{Text: "I write it.", Shell: writes("1")}, turn{Text: claim}))
			r := s.does(t, exitDone, "start", "--max-attempts", "1")
			s.calm(t, "1", "2", "3")
			if asked := readText(t, s.asked); !strings.Contains(asked, `"rule":0`) {
				t.Errorf("no subagent asked the model:\n%s", asked)
			}
			out := readText(t, r.stdout)
			told := strings.Contains(out, "leaves out what its subagents cost")
			if want := c.name == "codex" || c.name == "opencode"; told != want {
				t.Errorf("says that the cost is not whole: %v\n%s", told, out)
			}
			for _, e := range s.journal(t) {
				if e.Type == "agent_finished" && e.Task == "1" && c.tokens && !told && e.Detail.InputTokens < 4800 {
					t.Errorf("%d tokens in, of a model that told 4800", e.Detail.InputTokens)
				}
			}
		})
	}
}

// TestAgentsAway: a provider that does not answer is said within half a minute.
func TestAgentsAway(t *testing.T) {
	with(t, []client{claudeClient(), codexClient(), geminiClient()}, func(t *testing.T, c client) {
		s := newStage(t, c)
		if err := s.model.Kill(); err != nil {
			t.Fatal(err)
		}
		r := s.begin(t, "start")
		until(t, "the word that the provider is away", func() bool {
			return strings.Contains(readText(t, r.stdout), "cannot reach its provider")
		})
		t.Logf("after %v: %s", time.Since(r.began).Round(time.Second), grep(readText(t, r.stdout), "cannot reach"))
		for range 2 {
			_ = r.p.Signal(syscall.SIGINT)
		}
		r.wait(t)
		s.nothingLeft(t)
	})
}

// TestAgentsSandbox: in a sandbox the clients work as without one, their tools write nowhere but in the project, and
// what these leave running ends too. The strict one has no network but to the hosts that are named.
func TestAgentsSandbox(t *testing.T) {
	each(t, func(t *testing.T, c client) {
		for _, mode := range []string{"auto", "strict"} {
			t.Run(mode, func(t *testing.T) {
				s := newStage(t, c, of("1", 0, turn{Text: "I write it.",
					Shell: "(setsid tail -f /dev/null >/dev/null 2>&1 &) ; echo x > {{aside}}/outside; " +
						writes("1")}, turn{Text: claim}))
				s.file(t, filepath.Join(s.root, "descartes.yaml"),
					"sandbox_domains: [\""+strings.TrimPrefix(strings.TrimSuffix(s.url, "/s/main"), "http://")+"\"]\n")
				s.git(t, "add", "descartes.yaml")
				s.git(t, "commit", "-q", "--amend", "-C", "HEAD")
				f, err := config.ReadFile(filepath.Join(s.root, "descartes.yaml"), true)
				if err != nil {
					t.Fatal(err)
				}
				r := s.begin(t, "start", "--trust", config.TrustDigest(f.Demands(s.root)), "--sandbox", mode,
					"--timeout", "240", "--max-attempts", "1", "--on-limit", "stop")
				code := r.wait(t)
				s.nothingLeft(t)
				out := readText(t, r.stdout) + readText(t, r.stderr)
				if !strings.Contains(out, "sandbox: "+mode+" (") {
					t.Logf("no sandbox here: %s", grep(out, "sandbox"))
					return
				}
				if code != exitDone {
					t.Fatalf("exit %d\n%s", code, s.story(t))
				}
				if _, err := os.Stat(filepath.Join(s.aside, "outside")); err == nil {
					t.Error("a file outside of the project was written")
				}
				if got := s.ended(t); !slices.Equal(got, []string{"1 1 verified", "2 1 verified", "3 1 verified"}) {
					t.Errorf("attempts %q", got)
				}
				t.Log(lastLines(out, 3))
			})
		}
	})
}

// endless is a tool call that never ends, and leaves a second process that has fled into a session of its own.
const endless = "setsid tail -f /dev/null >/dev/null 2>&1 & tail -f /dev/null"

// sleeps is a first attempt at task 1 whose tool never ends; a later one is a good one.
func sleeps() rule { return of("1", 1, turn{Text: "Sleeping.", Shell: endless}, turn{Text: claim}) }

// soon is how many seconds a client needs to come to its first request on a machine with little else to do.
func (c client) soon() int {
	if c.name == "opencode" {
		return 15
	}
	return 6
}

// timedOut runs an attempt at task 1 that a limit ends, with a higher one if that came before it was under way.
func timedOut(t *testing.T, c client, flag string, first rule, underWay func(*stage) bool) {
	t.Helper()
	for limit := c.soon(); ; limit *= 2 {
		s := newStage(t, c, first)
		r := s.does(t, exitBlocked, "step", "--task", "1", "--max-attempts", "1", flag, strconv.Itoa(limit))
		if got := s.ended(t); len(got) != 1 || got[0] != "1 1 timeout" && got[0] != "1 1 idle" {
			t.Errorf("attempts %q", got)
		}
		s.calm(t)
		if underWay(s) {
			t.Log(grep(readText(t, r.stdout), "blocked"))
			return
		}
		if limit > 100 {
			t.Fatalf("not under way after %d s:\n%s", limit, s.story(t))
		}
	}
}

// TestAgentsHang: the model never answers; the limit of all time or that of silence ends the attempt.
func TestAgentsHang(t *testing.T) {
	each(t, func(t *testing.T, c client) {
		asked := func(s *stage) bool { return strings.Contains(readText(t, s.asked), `"fault":"hang"`) }
		for _, flag := range []string{"--timeout", "--idle-timeout"} {
			timedOut(t, c, flag, of("1", 0, turn{Fault: "hang"}), asked)
		}
	})
}

// TestAgentsToolTimesOut: a tool that never ends is ended with its client.
func TestAgentsToolTimesOut(t *testing.T) {
	each(t, func(t *testing.T, c client) {
		timedOut(t, c, "--timeout", sleeps(), func(s *stage) bool { return s.tails() == 2 })
	})
}

// tails is how many of an endless tool's processes were seen.
func (s *stage) tails() (n int) {
	s.seen.mu.Lock()
	defer s.seen.mu.Unlock()
	for _, line := range s.seen.seen {
		if strings.HasPrefix(line, "tail -f /dev/null") {
			n++
		}
	}
	return n
}

// tools waits until both processes of an endless tool run.
func (s *stage) tools(t *testing.T, r *launched) {
	t.Helper()
	until(t, "the tool", func() bool {
		if !r.alive() {
			t.Fatalf("it ended:\n%s", s.story(t))
		}
		return s.tails() == 2
	})
}

// TestAgentsInterrupted: the second Ctrl-C ends client and tool, also without a sandbox to help; a resume goes on.
func TestAgentsInterrupted(t *testing.T) {
	each(t, func(t *testing.T, c client) {
		s := newStage(t, c, sleeps())
		r := s.begin(t, "start", "--sandbox", "off")
		s.tools(t, r)
		for _, said := range []string{"interrupted: ", "stopping: "} {
			if err := r.p.Signal(syscall.SIGINT); err != nil {
				t.Fatal(err)
			}
			until(t, said, func() bool { return strings.Contains(readText(t, r.stdout)+readText(t, r.stderr), said) })
		}
		s.ends(t, r, exitInterrupted)
		s.does(t, exitDone, "resume")
		s.calm(t, "1", "2", "3")
	})
}

// TestAgentsKilled: kill -9 of the program alone, or of it and of the process that watches over the client, whose
// sandbox would end all that is in it.
func TestAgentsKilled(t *testing.T) {
	each(t, func(t *testing.T, c client) {
		for _, both := range []bool{false, true} {
			s := newStage(t, c, sleeps())
			r := s.begin(t, "start", "--sandbox", map[bool]string{false: "auto", true: "off"}[both])
			s.tools(t, r)
			if both {
				for pid, p := range everything() {
					if p.parent == r.p.Pid && strings.Contains(p.line, proc.ShimCommand) {
						_ = syscall.Kill(pid, syscall.SIGKILL)
					}
				}
			}
			if err := r.p.Kill(); err != nil {
				t.Fatal(err)
			}
			if code := r.wait(t); code != -int(syscall.SIGKILL) {
				t.Fatalf("exit %d", code)
			}
			if both { // only the resume ends what is left
				t.Logf("left:\n%s", s.named(s.left(t)))
			} else { // the watcher ends all by itself
				until(t, "the end of all", func() bool { return len(s.left(t)) == 0 })
			}
			r = s.does(t, exitDone, "resume")
			s.calm(t, "1", "2", "3")
			if out := readText(t, r.stdout); c.dollars && !strings.Contains(out, ", 1 attempt unknown") {
				t.Errorf("the cost of the killed attempt is not called unknown:\n%s", out)
			}
		}
	})
}

// TestAgentsOrphan: what a tool leaves running ends with its attempt.
func TestAgentsOrphan(t *testing.T) {
	each(t, func(t *testing.T, c client) {
		leave := "(setsid tail -f /dev/null >/dev/null 2>&1 &) ; tail -f /dev/null >/dev/null 2>&1 & " + writes("1")
		s := newStage(t, c, of("1", 0, turn{Text: "I start a server.", Shell: leave}, turn{Text: claim}))
		s.does(t, exitDone, "start", "--sandbox", "off")
		if s.tails() == 0 { // codex ends them with the tool's call: both are seldom seen
			t.Error("no server was seen")
		}
		s.calm(t, "1", "2", "3")
	})
}

// kin is a process, told from a later one with its number by its start.
type kin struct {
	pid   int
	start string
}

// family is everything that was seen below a program while it ran.
type family struct {
	mu   sync.Mutex
	seen map[kin]string // to its command line
	met  map[int]bool   // every process of the machine at the last look: it is read once, for there may be many
}

// follow looks below a launch until that has ended.
func (f *family) follow(t *testing.T, r *launched) {
	over := make(chan struct{})
	go func() {
		defer close(over)
		tick := time.NewTicker(50 * time.Millisecond)
		defer tick.Stop()
		for {
			f.look(r.p.Pid)
			select {
			case <-r.ended:
				return
			case <-tick.C:
			}
		}
	}()
	t.Cleanup(func() { <-over })
}

// look adds what is below a process now, and below what was below it before.
func (f *family) look(root int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.seen == nil {
		f.seen = map[kin]string{}
	}
	here, fresh := map[int]bool{}, map[int]procStat{}
	for _, pid := range processes() {
		if here[pid] = true; !f.met[pid] {
			if p, ok := processOf(pid); ok {
				fresh[pid] = p
			}
		}
	}
	f.met = here
	in := map[int]bool{root: true}
	for k := range f.seen {
		if !here[k.pid] {
			continue
		}
		if p, ok := processOf(k.pid); ok && p.start == k.start {
			in[k.pid] = true
			if p.line != "" {
				f.seen[k] = p.line // it may have become another program
			}
		}
	}
	for grown := true; grown; {
		grown = false
		for pid, p := range fresh {
			if in[p.parent] && !in[pid] {
				in[pid], grown = true, true
				f.seen[kin{pid, p.start}] = p.line
			}
		}
	}
}

// procStat is what /proc says of a process.
type procStat struct {
	parent      int
	start, line string
	dead        bool
}

// processes are the machine's, by their numbers.
func processes() (list []int) {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(-1)
	for _, name := range names {
		if pid, err := strconv.Atoi(name); err == nil {
			list = append(list, pid)
		}
	}
	return list
}

// processOf is what there is to know of one; not ok where it has gone.
func processOf(pid int) (procStat, bool) {
	dir := fmt.Sprintf("/proc/%d/", pid)
	b, err := os.ReadFile(dir + "stat")
	end := bytes.LastIndexByte(b, ')')
	if err != nil || end < 0 {
		return procStat{}, false
	}
	fields := strings.Fields(string(b[end+1:])) // from the state on
	parent, _ := strconv.Atoi(fields[1])
	line, _ := os.ReadFile(dir + "cmdline")
	return procStat{parent: parent, start: fields[19], dead: fields[0] == "Z" || fields[0] == "X",
		line: string(bytes.ReplaceAll(line, []byte{0}, []byte{' '}))}, true
}

// everything is the machine's processes.
func everything() map[int]procStat {
	all := map[int]procStat{}
	for _, pid := range processes() {
		if p, ok := processOf(pid); ok {
			all[pid] = p
		}
	}
	return all
}

// left are the processes of the stage that run: by the mark of its loops or by its home in their environment, by
// having been seen below the program, or by standing in its folders.
func (s *stage) left(t *testing.T) (found []kin) {
	t.Helper()
	mark, home := []byte("\x00"+proc.CookieVar+"="+launch.Cookie(s.root)+"\x00"), []byte("\x00HOME="+s.home+"\x00")
	s.seen.mu.Lock()
	defer s.seen.mu.Unlock()
	for pid, p := range everything() {
		dir := fmt.Sprintf("/proc/%d/", pid)
		environ, _ := os.ReadFile(dir + "environ")
		environ = append([]byte{0}, environ...)
		cwd, _ := os.Readlink(dir + "cwd")
		_, ours := s.seen.seen[kin{pid, p.start}]
		if !p.dead && (ours || bytes.Contains(environ, mark) || bytes.Contains(environ, home) ||
			strings.HasPrefix(cwd, s.root)) {
			found = append(found, kin{pid, p.start})
		}
	}
	return found
}

// nothingLeft is the point of it all.
func (s *stage) nothingLeft(t *testing.T) {
	t.Helper()
	if left := s.left(t); len(left) > 0 {
		t.Errorf("still running:\n%s", s.named(left))
	}
	if s.seen.count() < 2 {
		t.Errorf("only %d processes were seen below the program: nothing was looked at", s.seen.count())
	}
}

func (f *family) count() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.seen)
}

func (s *stage) named(list []kin) string {
	all := everything()
	var lines []string
	for _, k := range list {
		lines = append(lines, fmt.Sprintf("  %d (below %d) %s", k.pid, all[k.pid].parent, all[k.pid].line))
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// limited is a model whose quota is used up in the middle of task 2, for some seconds.
func limited(seconds int) rule {
	return of("2", 0, turn{Text: "I write it.", Shell: writes("2")},
		turn{Fault: "usagelimit", FaultFor: seconds, Text: claim})
}

// TestAgentsLimitWaits: the loop waits for the reset that the client tells, and goes on without an attempt used up.
// Other clients tell none, and a loop waits a quarter of an hour for them.
func TestAgentsLimitWaits(t *testing.T) {
	with(t, []client{claudeClient(), codexClient()}, func(t *testing.T, c client) {
		s := newStage(t, c, limited(6))
		r := s.does(t, exitDone, "start", "--max-attempts", "1", "--on-limit", "wait")
		s.calm(t, "1", "2", "3")
		t.Log(grep(readText(t, r.stdout), "waits"))
		s.wasLimited(t)
	})
}

// TestAgentsLimitStops: with --on-limit stop the loop ends with 75, and a resume after the reset goes on, again
// without an attempt used up.
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
	staged(t, opencodeClient())
	s := newStage(t, opencodeClient(), of("1", 0, turn{Fault: "usagelimit", FaultTimes: 1, RetryAfter: 3600,
		Text: "I write it.", Shell: writes("1")}, turn{Text: claim}))
	r := s.does(t, exitQuota, "start", "--max-attempts", "1", "--on-limit", "stop")
	t.Log(grep(readText(t, r.stdout), "stopped"))
	s.does(t, exitDone, "resume", "--on-limit", "stop") // given anew, it asks at once
	s.calm(t, "1", "2", "3")
}

// TestAgentsFallback: where one client's quota is used up another takes over, and no attempt is used up by that.
func TestAgentsFallback(t *testing.T) {
	c, other := claudeClient(), codexClient()
	staged(t, c, other)
	own := c.env
	c.env, c.files = func(url string) []string { return append(own(url), other.env(url)...) }, other.files
	c.other = other.bin()
	s := newStage(t, c, of("2", 0, turn{Fault: "usagelimit", FaultTimes: 1, ResetIn: 3600, Text: "I write it.",
		Shell: writes("2")}, turn{Text: claim}))
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
		s := newStage(t, c, of("1", 0, turn{Fault: "overloaded", FaultTimes: 1, Text: "I write it.",
			Shell: writes("1")}, turn{Text: claim}))
		s.does(t, exitDone, "start")
		s.calm(t, "1", "2", "3")
		t.Logf("%q", s.ended(t))
	})
}

// TestAgentsPassing: where the client gives up at once, the next attempt gets past it.
func TestAgentsPassing(t *testing.T) {
	staged(t, codexClient())
	s := newStage(t, codexClient(), of("1", 0, turn{Fault: "overloaded", FaultTimes: 1, Text: "I write it.",
		Shell: writes("1")}, turn{Text: claim}))
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
		if words := map[string]string{"claude": "Not logged in", "codex": "401", "opencode": "Incorrect API key",
			"qwen": "Incorrect API key", "copilot": "401"}[c.name]; !strings.Contains(out, words) {
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
	staged(t, claudeClient())
	c := claudeClient()
	c.env = func(url string) []string {
		return []string{"ANTHROPIC_BASE_URL=" + url, "ANTHROPIC_API_KEY=dummy", "IS_SANDBOX=1"}
	}
	s := newStage(t, c, of("1", 0, turn{Fault: "unauthorized"}))
	r := s.does(t, exitAgent, "start")
	s.calm(t)
	out := readText(t, r.stdout) + readText(t, r.stderr)
	if !strings.Contains(out, "Claude cannot go on: authentication_failed, status 401") ||
		time.Since(r.began) > time.Minute {
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

// TestAgentsAlone is the last: in the namespace nothing runs any more but the tests themselves.
func TestAgentsAlone(t *testing.T) {
	staged(t)
	own, err := os.Readlink("/proc/self/ns/net")
	if err != nil {
		t.Fatal(err)
	}
	for pid, p := range everything() {
		if ns, err := os.Readlink("/proc/" + strconv.Itoa(pid) + "/ns/net"); err == nil && ns == own &&
			pid != os.Getpid() && !p.dead && pid != os.Getppid() {
			t.Errorf("%d %s", pid, p.line)
		}
	}
}
