package agent

import (
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"descartes/agent/stream"
)

// acpScript is an agent that speaks the protocol as a shell can: it reads a
// request, and answers it unseen. Then come the lines of turn, with @ for the
// beginning of an update.
func acpScript(turn string) Backend {
	const update = `{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":`
	return Backend{Name: "mine", Prompt: ByStdin, Format: stream.FormatACP, Command: []string{"sh", "-c", `read l
echo '{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":1}}'
read l
echo '{"jsonrpc":"2.0","id":2,"result":{"sessionId":"s"}}'
read l
` + strings.ReplaceAll(turn, "@", update)}}
}

const (
	acpSay = `printf '%s\n' '@"agent_message_chunk","content":{"type":"text","text":"Done.\n<promise>COM"}}}}' '@"agent_message_chunk","content":{"type":"text","text":"PLETE</promise>"}}}}'` + "\n"
	acpEnd = `printf '%s\n' '{"jsonrpc":"2.0","id":3,"result":{"stopReason":"end_turn","usage":{"inputTokens":10,"outputTokens":2,"thoughtTokens":3,"cachedReadTokens":5,"totalTokens":20}}}'` + "\n"
)

func TestACP(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	for _, tt := range []struct {
		name, turn string
		end        End
		cause      Cause
		complete   bool
		reason     string
	}{
		{"good", acpSay + acpEnd, Finished, "", true, ""},
		{"mute", acpEnd, Finished, "", false, ""},
		{"thinks it", `printf '%s\n' '@"agent_thought_chunk","content":{"type":"text","text":"<promise>COMPLETE</promise>"}}}}'` + "\n" + acpEnd, Finished, "", false, ""},
		{"repeats it", `printf '%s\n' '@"user_message_chunk","content":{"type":"text","text":"<promise>COMPLETE</promise>"}}}}'` + "\n" + acpEnd, Finished, "", false, ""},
		{"then a tool", acpSay + `printf '%s\n' '@"tool_call","toolCallId":"t","status":"pending"}}}'` + "\n" + acpEnd,
			Finished, "", false, ""},
		{"dies", acpSay + "echo out of memory >&2; exit 3", Crashed, Transient, false,
			"mine failed: it ended without an answer to session/prompt (exit status 3): out of memory"},
		{"dies of a limit", "echo 'usage limit reached' >&2; exit 3", Limited, "", false,
			"mine's usage limit is used up; it does not say when it resets"},
		{"killed", "kill -KILL $$", Crashed, Transient, false,
			"mine failed: it ended without an answer to session/prompt (ended by signal 9 (SIGKILL))"},
		{"limit", `echo '{"jsonrpc":"2.0","id":3,"error":{"code":429,"message":"You have exhausted your daily quota on this model."}}'`, Limited, "", false, "mine's daily quota is used up; it does not say when it resets"},
		{"overloaded", `echo '{"jsonrpc":"2.0","id":3,"error":{"code":503,"message":"overloaded"}}'`, Crashed,
			Transient, false, "mine failed: overloaded"},
		{"key", `echo '{"jsonrpc":"2.0","id":3,"error":{"code":401,"message":"bad key"}}'`, Refused, Fatal, false,
			"mine cannot go on: bad key"},
		{"login", `echo '{"jsonrpc":"2.0","id":3,"error":{"code":-32000,"message":"Authentication required"}}'`,
			Refused, Fatal, false, "mine cannot go on: Authentication required: log in with sh by hand first"},
		{"refusal", `echo '{"jsonrpc":"2.0","id":3,"result":{"stopReason":"refusal"}}'`, Crashed, "", false,
			"mine failed: the model refuses to continue this task"},
		{"tokens", `echo '{"jsonrpc":"2.0","id":3,"result":{"stopReason":"max_tokens"}}'`, Crashed, Budget, false,
			"mine stopped at a limit of its own: the model's answer reached its length limit"},
		{"requests", `echo '{"jsonrpc":"2.0","id":3,"result":{"stopReason":"max_turn_requests"}}'`, Crashed, Budget,
			false, "mine stopped at a limit of its own: it reached its limit of requests in a turn"},
	} {
		res := s.run(acpScript(tt.turn), s.request(strings.ReplaceAll(tt.name, " ", "-")))
		if res.End != tt.end || res.Cause != tt.cause || res.Complete != tt.complete || res.Reason != tt.reason ||
			res.Unknown != 0 {
			t.Errorf("%s: got %+v", tt.name, res)
		}
		if tt.name == "good" && (res.Session != "s" || *res.Cost.Tokens != Tokens{Input: 15, CacheRead: 5,
			Output: 5} || res.Cost.USD != nil || res.Notes != nil) {
			t.Errorf("good: %+v %+v", res, res.Cost.Tokens)
		}
	}
}

// A program that is no agent, and one that is not there.
func TestNoACP(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	b := acpScript("")
	b.Command = []string{"sh", "-c", "echo 'TASK_COMPLETE'; echo 'I need a terminal' >&2; exit 2"}
	res := s.run(b, s.request("plain"))
	if res.End != Crashed || res.Complete ||
		res.Reason != "mine failed: it ended without an answer to initialize (exit status 2): I need a terminal" {
		t.Errorf("got %+v", res)
	}
	b.Command = []string{"no-such-agent-anywhere"}
	if res := s.run(b, s.request("missing")); res.End != Refused || res.Cause != Fatal ||
		res.Reason != "mine cannot go on: no-such-agent-anywhere: no such program on PATH" {
		t.Errorf("got %+v", res)
	}
}

// What descartes did not allow is reported beside the result.
func TestACPNote(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	res := s.run(acpScript(`echo '{"jsonrpc":"2.0","id":7,"method":"session/request_permission","params":{"toolCall":{"toolCallId":"t","title":"Edit passwd","kind":"edit","locations":[{"path":"/etc/passwd"}]},"options":[{"optionId":"y","kind":"allow_once"},{"optionId":"n","kind":"reject_once"}]}}'
read answer
case "$answer" in *'"n"'*) ;; *) exit 9 ;; esac
`+acpSay+acpEnd), s.request("denied"))
	if want := []string{"descartes did not allow: Edit passwd (/etc/passwd is outside the working tree)"}; !res.Complete || !slices.Equal(res.Notes, want) {
		t.Errorf("got %+v", res)
	}
}

// One that never answers is ended by the clock for the first event, and a cancelled one by nobody's promise.
func TestACPClocks(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	b, q := acpScript(""), s.request("silent")
	b.Command = []string{"sh", "-c", "sleep 600"}
	q.Clocks.Start = 300 * time.Millisecond
	if res := s.run(b, q); res.End != Idled || res.Reason != "mine printed nothing in its first 300ms" {
		t.Errorf("got %+v", res)
	}
	q = s.request("late")
	q.Timeout = 300 * time.Millisecond
	if res := s.run(acpScript("trap '' TERM\nread l\n"+acpSay+acpEnd), q); res.End != TimedOut || res.Complete {
		t.Errorf("got %+v", res)
	}
}

// The bridge is asked for the model, unless the program has an option for it.
func TestACPCommand(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	b := Backend{Name: "x", Command: []string{"agent", "--acp"}, Prompt: ByStdin, Format: stream.FormatACP}
	for _, tt := range []struct {
		model string
		args  []string
		want  []string
	}{
		{"", nil, []string{self, ACPCommand, "--", "agent", "--acp"}},
		{"big", nil, []string{self, ACPCommand, "--model", "big", "--", "agent", "--acp"}},
		{"big", []string{"-m", "{model}"}, []string{self, ACPCommand, "--", "agent", "--acp", "-m", "big"}},
	} {
		b.ModelArgs = tt.args
		argv, _, err := b.command(Request{Model: tt.model, PromptFile: "p"})
		if err != nil || !slices.Equal(argv, tt.want) {
			t.Errorf("%q %q: got %q %v", tt.model, tt.args, argv, err)
		}
	}
}
