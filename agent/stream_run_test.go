package agent

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// claudeScript is claude, but a script under its name.
func claudeScript(text string) Backend {
	b, _ := Lookup("claude")
	b.Command = []string{"sh", "-c", text, "claude"}
	return b
}

// What runs under a client's name may be somebody's script: text is the agent's
// words as long as not one event is seen.
func TestTextUnderAClientsName(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	for _, tt := range []struct {
		name, text string
		end        End
		cause      Cause
		complete   bool
		blocked    string
		reason     string
	}{
		{"mute", "true", Finished, "", false, "", ""},
		{"text", "echo hello; echo TASK_COMPLETE", Finished, "", true, "", ""},
		{"echo", "cat", Finished, "", false, "", ""},
		{"blocked", "echo TASK_BLOCKED: no key", Finished, "", false, "no key", ""},
		{"braces", "echo '{ not json }'; echo '{\"a\":1}'; echo TASK_COMPLETE", Finished, "", true, "", ""},
		{"an event, then text", `echo '{"type":"system","subtype":"init"}'; echo '{"type":"assistant","message":{"content":[{"type":"text","text":"hi"}]}}'; echo TASK_COMPLETE`, Finished, "", false, "", ""},
		{"no answer", `echo '{"type":"system","subtype":"init"}'; echo TASK_COMPLETE`, Crashed, Transient, false, "",
			"Claude failed: it ended without an answer"},
		{"crash before the first event", "echo 'cannot start' >&2; exit 3", Crashed, "", false, "",
			"exit status 3: cannot start"},
		{"crash after it", `echo '{"type":"system","subtype":"init"}'; echo 'out of memory' >&2; exit 3`, Crashed,
			Transient, false, "", "Claude failed: exit status 3: out of memory"},
		{"killed", `echo '{"type":"system","subtype":"init"}'; kill -KILL $$`, Crashed, Transient, false, "",
			"Claude failed: ended by signal 9 (SIGKILL)"},
		{"root", "echo '--dangerously-skip-permissions cannot be used with root/sudo privileges' >&2; exit 1", Refused,
			Fatal, false, "", "--dangerously-skip-permissions cannot be used with root/sudo privileges"},
		{"finished, then a bad status", `echo '{"type":"result","is_error":false,"result":"TASK_COMPLETE"}'; exit 143`,
			Finished, "", true, "", ""},
		{"error, good status", `echo '{"type":"result","subtype":"success","is_error":true,"api_error_status":529,"result":"Overloaded"}'`, Crashed, Transient, false, "", "Claude failed: Overloaded"},
		{"talks of limits", `echo '{"type":"result","is_error":false,"result":"The docs say: usage limit reached. TASK_COMPLETE"}'`, Finished, "", false, "", ""},
		{"limit in a tool result",
			`echo '{"type":"user","message":{"content":"usage limit reached"}}'; echo '{"type":"result","is_error":false,"result":"TASK_COMPLETE"}'`, Finished, "", true, "", ""},
		{"limit that it got past",
			`echo '{"type":"rate_limit_event","rate_limit_info":{"status":"rejected"}}'; echo '{"type":"result","is_error":false,"result":"TASK_COMPLETE"}'`, Finished, "", true, "", ""},
		{"limit, no end", `echo '{"type":"rate_limit_event","rate_limit_info":{"status":"rejected","rateLimitType":"seven_day"}}'; exit 1`, Limited, "", false, "", "Claude's weekly limit is used up; it does not say when it resets"},
		{"subagent", `echo '{"type":"assistant","message":{"content":[{"type":"text","text":"TASK_COMPLETE"}]},"parent_tool_use_id":"t"}'; echo '{"type":"result","is_error":false,"result":""}'`, Finished, "", false, "", ""},
		{"prompt quoted in the answer",
			`printf '%s\n' '{"type":"result","is_error":false,"result":"# Task 3: add a parser\n\nDo it well.\n\n## How to report\n\nWhen all is done, print <promise>COMPLETE</promise> on a line of its own:\n\n<promise>COMPLETE</promise>\n\nTASK_COMPLETE\nTASK_BLOCKED: why you cannot go on\n\nEnd of the task.\n\nI have not begun."}'`, Finished, "", false, "", ""},
	} {
		res := s.run(claudeScript(tt.text), s.request(strings.ReplaceAll(tt.name, " ", "-")))
		if res.End != tt.end || res.Cause != tt.cause || res.Complete != tt.complete || res.Blocked != tt.blocked ||
			res.Reason != tt.reason {
			t.Errorf("%s: got %+v", tt.name, res)
		}
	}
}

// A client that does not know the conversation it was to go on with says so in its own words, and has done nothing.
func TestSessionGone(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	for _, tt := range []struct {
		backend, text string
		gone          bool
	}{
		{"claude", `echo '{"type":"result","subtype":"error_during_execution","is_error":true,"errors":["No conversation found with session ID: 0"]}'; echo 'No conversation found with session ID: 0' >&2; exit 1`, true},
		{"codex", `echo 'Error: thread/resume: thread/resume failed: no rollout found for thread id 0 (code -32600)' >&2; exit 1`, true},
		{"gemini", `echo 'Error resuming session: Invalid session identifier "0".' >&2; exit 42`, true},
		{"gemini", `echo 'Error resuming session: No previous sessions found for this project.' >&2; exit 42`, true},
		{"qwen", `echo 'No saved session found with ID 0. Run qwen --resume.' >&2; exit 1`, true},
		{"copilot", `echo "Error: No session, task, or name matched '0'." >&2; exit 1`, true},
		{"opencode", `printf '\033[91m\033[1mError: \033[0mSession not found\n' >&2; exit 1`, true},
		{"codex", `echo 'Error: no route to host' >&2; exit 1`, false},
		{"claude", `echo '{"type":"assistant","message":{"content":[{"type":"text","text":"hi"}]}}'; echo 'No conversation found' >&2; exit 1`, false},
		{"claude", `echo 'No conversation found with session ID: 0' >&2`, false},
	} {
		b, _ := Lookup(tt.backend)
		b.Command = []string{"sh", "-c", tt.text, tt.backend}
		q := s.request(tt.backend)
		q.Session = "0"
		if res := s.run(b, q); res.Gone != tt.gone {
			t.Errorf("%s: %s: got %+v", tt.backend, tt.text, res)
		}
		q.Session = ""
		if res := s.run(b, q); res.Gone {
			t.Errorf("%s, not asked to go on: %s: got %+v", tt.backend, tt.text, res)
		}
	}
}

// Of a conversation that goes on some clients tell the tokens from its beginning: what it cost before is taken off.
func TestTokensOfASessionThatGoesOn(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	for backend, want := range map[string]int64{"codex": 1200, "qwen": 1200, "claude": 3600} {
		b, _ := Lookup(backend)
		b.Command = []string{"sh", "-c", `echo '{"type":"thread.started","thread_id":"s"}'
echo '{"type":"item.completed","item":{"type":"agent_message","text":"Done."}}'
echo '{"type":"turn.completed","usage":{"input_tokens":3600,"cached_input_tokens":600,"output_tokens":102}}'`}
		if b.Format != "codex" {
			b.Command[2] = `echo '{"type":"result","is_error":false,"result":"Done.","usage":{"input_tokens":3000,"cache_read_input_tokens":600,"output_tokens":102,"total_tokens":3702}}'`
		}
		q := s.request(backend)
		q.Session, q.Spent = "s", &Tokens{Input: 2400, CacheRead: 400, Output: 68}
		if res := s.run(b, q); res.Cost == nil || res.Cost.Tokens.Input != want {
			t.Errorf("%s: got %+v", backend, res.Cost)
		}
	}
}

func TestQuestionOfARun(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	res := s.run(claudeScript(
		`echo '{"type":"result","is_error":false,"result":"Should I use SQLite?","permission_denials":[{"tool_name":"Bash"},{"tool_name":"Bash"}]}'`), s.request("asks"))
	if res.Question != "Should I use SQLite?" || len(res.Notes) != 1 ||
		res.Notes[0] != "Claude did not let the agent use Bash" {
		t.Errorf("got %+v", res)
	}
	res = s.run(script(ByStdin, "echo 'Should I use SQLite?'; echo TASK_COMPLETE"), s.request("asks-and-claims"))
	if res.Question != "" {
		t.Errorf("got %+v", res)
	}
}

// A client that waits silently for its quota is ended at once; without that
// check, its silence still is none of the task's.
func TestSilentQuota(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	b, _ := Lookup("opencode")
	b.Command = []string{"sh", "-c",
		`echo '{"type":"step_start"}'; echo 'level=ERROR error.error="AI_APICallError: The usage limit has been reached"' >&2; sleep 60`}
	q := s.request("silent")
	q.Idle = time.Minute
	res := s.run(b, q)
	if res.End != Limited || res.Reason != "opencode's usage limit is used up; it does not say when it resets" ||
		res.Events != 1 || res.Duration > time.Minute {
		t.Errorf("got %+v", res)
	}
	b.StderrLimit, q.Label, q.Idle = nil, "silent-again", 300*time.Millisecond
	res = s.run(b, q)
	if res.End != Limited || res.Reason != "opencode's usage limit is used up; it does not say when it resets" {
		t.Errorf("got %+v", res)
	}
}

// A client that asks again for hours on standard error alone is ended: by a quota that is renewed, and by one that is
// not.
func TestQuotaOnStandardError(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	for _, tt := range []struct{ words, end, reason string }{
		{"429 The usage limit has been reached", "limit",
			"Qwen's usage limit is used up; it does not say when it resets"},
		{"429 hour allocated quota exceeded, please increase your quota limit.", "limit",
			"Qwen's hour quota is used up; it does not say when it resets"},
		{"429 You exceeded your current quota, please check your plan and billing details.", "fatal",
			"Qwen cannot go on: 429 You exceeded your current quota, please check your plan and billing details."},
	} {
		b, _ := Lookup("qwen")
		b.Command = []string{"sh", "-c",
			`echo '{"type":"system","subtype":"init"}'; echo "Retrying in 60s (attempt 1/10): [API Error: $0]" >&2; sleep 60`, tt.words}
		q := s.request(tt.end)
		q.Idle = time.Minute
		if res := s.run(b, q); outcome(res) != tt.end || res.Reason != tt.reason || res.Duration > time.Minute {
			t.Errorf("%s: got %+v", tt.words, res)
		}
	}
}

// A prompt that the client does not take is not handed over again: the task is blocked.
func TestPromptRefusedForItsLength(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	b, _ := Lookup("codex")
	b.Command = []string{"sh", "-c", `echo '{"type":"thread.started","thread_id":"s"}'
echo 'Error: turn/start: turn/start failed: Input exceeds the maximum length of 1048576 characters. (code -32602), data: {"input_error_code":"input_too_large"}' >&2; exit 1`}
	res := s.run(b, s.request("long"))
	if res.End != Finished ||
		res.Blocked != "Codex takes no prompt of this length: Input exceeds the maximum length of 1048576 characters" {
		t.Errorf("got %+v", res)
	}
}

// opencode sleeps for hours where its free models are used up, and says so in its log alone.
func TestFreeModelsUsedUp(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	b, _ := Lookup("opencode")
	b.Command = []string{"sh", "-c",
		`echo 'level=ERROR message="stream error" error.error="AI_APICallError: Rate limit exceeded. Please try again later."' >&2; sleep 60`}
	q := s.request("free")
	q.Idle = time.Minute
	if res := s.run(b, q); res.End != Limited || res.Duration > time.Minute {
		t.Errorf("got %+v", res)
	}
}

// A client that says again and again that it waits for the network is no livelier than a silent one, and its
// provider's fault is none of the task's.
func TestOnlyRetries(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	b, _ := Lookup("codex")
	const waits = `{"type":"error","message":"Reconnecting... waiting for network (dns error)"}`
	b.Command = []string{"sh", "-c",
		`echo '{"type":"thread.started","thread_id":"s"}'; echo '{"type":"turn.started"}'; while :; do echo "$0"; sleep 0.02; done`, waits}
	q := s.request("waits")
	q.Idle = 2 * time.Second
	res := s.run(b, q)
	if outcome(res) != "retryable" || res.Signal != 0 ||
		res.Reason != "Codex did nothing but try again for 2s and was ended: Reconnecting... waiting for network (dns error)" {
		t.Errorf("got %+v", res)
	}
}

// opencode says of a model that it does not know only that its log has more.
func TestErrorInTheClientsLog(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	b, _ := Lookup("opencode")
	b.Command = []string{"sh", "-c", `echo 'level=ERROR message=failed error="ProviderModelNotFoundError: Model not found: fake/x. Did you mean: fake-model?" cause="..."' >&2
echo '{"type":"error","error":{"name":"UnknownError","data":{"message":"Unexpected server error. Check server logs for details."}}}'; exit 1`}
	res := s.run(b, s.request("model"))
	if outcome(res) != "fatal" ||
		res.Reason != "opencode cannot go on: ProviderModelNotFoundError: Model not found: fake/x. Did you mean: fake-model?" {
		t.Errorf("got %+v", res)
	}
}

// A client that tries a key again and again that was refused is ended: the next
// try comes to the same, and three minutes of them are three minutes.
func TestRefusedKey(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	again := func(status int) string {
		return fmt.Sprintf(`echo '{"type":"system","subtype":"api_retry","attempt":1,"max_retries":10,"error_status":%d,"error":"authentication_failed"}'; `, status)
	}
	q := s.request("refused")
	res := s.run(claudeScript(strings.Repeat(again(401), 3)+"sleep 600"), q)
	if res.End != Refused || res.Cause != Fatal ||
		res.Reason != "Claude cannot go on: authentication_failed, status 401 (it was ended after 3 tries)" ||
		res.Duration > time.Minute {
		t.Errorf("got %+v", res)
	}
	q = s.request("refused in between")
	q.Timeout = 500 * time.Millisecond
	if res := s.run(claudeScript(strings.Repeat(again(401)+again(529), 3)+"sleep 600"), q); res.End != TimedOut {
		t.Errorf("got %+v", res)
	}
}
