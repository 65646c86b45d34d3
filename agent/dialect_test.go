package agent

import (
	"strings"
	"testing"

	"descartes/agent/process"
)

// told is the result of a stream and an exit status.
func told(t *testing.T, backend string, code int, stream ...string) Result {
	t.Helper()
	b, ok := Lookup(backend)
	if !ok {
		t.Fatalf("no backend %s", backend)
	}
	return judged(t, b, []byte(strings.Join(stream, "\n")+"\n"),
		process.Exit{Why: process.Exited, Code: code, End: recordedAt()})
}

func TestOldCodex(t *testing.T) {
	t.Parallel()
	stream := []string{
		`{"id":"0","msg":{"type":"session_configured","session_id":"s"}}`,
		`{"id":"0","msg":{"type":"task_started"}}`,
		`{"id":"0","msg":{"type":"agent_message","message":"TASK_COMPLETE"}}`,
		`{"id":"0","msg":{"type":"exec_command_begin","command":["ls"]}}`,
		`{"id":"0","msg":{"type":"exec_command_output_delta","chunk":"x"}}`,
		`{"id":"0","msg":{"type":"token_count","info":{"total_token_usage":{"input_tokens":100,"cached_input_tokens":40,"output_tokens":7}}}}`,
	}
	res := told(t, "codex", 0,
		append(stream, `{"id":"0","msg":{"type":"task_complete","last_agent_message":"Done.\nTASK_COMPLETE"}}`)...)
	if !res.Complete || res.Session != "s" || res.Unknown != 1 ||
		*res.Cost.Tokens != (Tokens{Input: 100, CacheRead: 40, Output: 7}) {
		t.Errorf("got %+v", res)
	}
	if res := told(t, "codex", 0, stream...); res.Complete || res.End != Finished {
		t.Errorf("said before a tool call: %+v", res)
	}
	res = told(t, "codex", 0,
		`{"type":"item.completed","item":{"item_type":"assistant_message","text":"TASK_COMPLETE"}}`,
		`{"type":"item.completed","item":{"type":"todo_list"}}`, `{"type":"turn.completed"}`)
	if !res.Complete {
		t.Errorf("autumn of 2025: %+v", res)
	}
}

func TestDialectOddities(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, backend string
		code          int
		stream        []string
		want          string
	}{
		{"recovered", "opencode", 1,
			[]string{`{"type":"error","error":{"name":"ContextOverflowError","data":{"message":"too long"}}}`,
				`{"type":"step_start"}`,
				`{"type":"text","part":{"text":"TASK_COMPLETE"}}`, `{"type":"step_finish","part":{"reason":"stop"}}`},
			"complete"},
		{"did not recover", "opencode", 1, []string{`{"type":"text","part":{"text":"TASK_COMPLETE"}}`,
			`{"type":"error","error":{"name":"ContextOverflowError","data":{"message":"too long"}}}`}, "blocked"},
		{"starts and is gone", "opencode", 0, []string{`{"type":"step_start"}`}, "retryable"},
		{"the client's own text", "opencode", 0,
			[]string{`{"type":"text","part":{"synthetic":true,"text":"TASK_COMPLETE"}}`,
				`{"type":"step_finish","part":{"reason":"stop"}}`}, "incomplete"},
		{"trouble and nothing after it, exit status 0", "copilot", 0,
			[]string{`{"type":"assistant.message","data":{"content":"TASK_COMPLETE"}}`,
				`{"type":"session.error","data":{"message":"gone","statusCode":503}}`}, "retryable"},
		{"trouble that it got past", "copilot", 0, []string{
			`{"type":"session.error","data":{"message":"gone","statusCode":503}}`,
			`{"type":"assistant.message","data":{"content":"TASK_COMPLETE"}}`}, "complete"},
		{"a subagent's", "copilot", 0,
			[]string{`{"type":"assistant.message","data":{"content":"TASK_COMPLETE","parentToolCallId":"t"}}`,
				`{"type":"result","exitCode":0}`}, "incomplete"},
		{"a model that the server does not know, told as its own error", "gemini-acp", 0,
			[]string{`{"type":"session","id":"s"}`,
				`{"type":"end","word":"error","text":"models/nothing is not found for API version v1beta","code":500}`}, "fatal"},
		{"a server's error", "gemini-acp", 0, []string{`{"type":"session","id":"s"}`,
			`{"type":"end","word":"error","text":"Internal error","code":500}`}, "retryable"},
		{"a model that the provider does not know, told as the answer", "gemini-acp", 0, []string{
			`{"type":"session","id":"s"}`,
			`{"type":"text","text":"Error: Model 'fake-model' not found on provider at http://127.0.0.2:33465/v1 (HTTP 404).\n  Check that the model is available on your provider."}`,
			`{"type":"end","ok":true,"stop":"end_turn"}`}, "fatal"},
		{"an answer about such an error", "gemini-acp", 0, []string{`{"type":"session","id":"s"}`,
			`{"type":"tool","id":"1","kind":"read","status":"completed","title":"read"}`,
			`{"type":"text","text":"Error: Model 'x' not found is what the log says."}`,
			`{"type":"end","ok":true,"stop":"end_turn"}`}, "incomplete"},
		{"a quota of the minute", "gemini", 173,
			[]string{`{"type":"result","status":"error","error":{"message":"You exceeded your current quota, please check your plan and billing details. Please retry in 33.5s."}}`}, "retryable"},
		{"goes round", "qwen", 1,
			[]string{`{"type":"result","subtype":"error_during_execution","is_error":true,"error":{"message":"Agent stopped: duplicate tool-call loop detected."}}`}, "crashed"},
		{"no login", "qwen", 1, []string{
			`{"type":"result","subtype":"error_during_execution","is_error":true,"error":{"message":"No auth type is selected. Please configure an auth type."}}`}, "fatal"},
		{"untrusted folder", "gemini", 55, []string{`{"type":"init"}`}, "fatal"},
		{"untrusted folder, no event", "gemini", 55, nil, "fatal"},
		{"too many requests, no event", "gemini", 173, nil, "retryable"},
		{"quota that ends", "gemini", 173,
			[]string{`{"type":"result","status":"error","error":{"message":"[API Error: You have exhausted your capacity on this model. Your quota will reset after 8h32m10s.]"}}`}, "limit"},
		{"pays for more", "claude", 1,
			[]string{`{"type":"rate_limit_event","rate_limit_info":{"status":"rejected","isUsingOverage":true}}`,
				`{"type":"result","is_error":true,"api_error_status":500,"result":"API Error"}`}, "retryable"},
		{"logged out", "claude", 1,
			[]string{`{"type":"result","is_error":true,"api_error_status":null,"result":"Not logged in · Please run /login"}`}, "fatal"},
		{"turns", "claude", 1, []string{
			`{"type":"result","subtype":"error_max_turns","is_error":true,"errors":["Reached maximum number of turns (3)"]}`}, "budget"},
		{"promise of a failed run", "claude", 1,
			[]string{`{"type":"assistant","message":{"content":[{"type":"text","text":"TASK_COMPLETE"}]}}`},
			"retryable"},
		{"status in words", "codex", 1,
			[]string{`{"type":"turn.failed","error":{"message":"unexpected status 401 Unauthorized: bad key"}}`},
			"fatal"},
		{"at capacity", "codex", 1,
			[]string{`{"type":"turn.failed","error":{"message":"Selected model is at capacity."}}`}, "retryable"},
		{"days", "codex", 1, []string{
			`{"type":"turn.failed","error":{"message":"You've hit your usage limit. Try again in 5 days 22 hours 11 minutes."}}`}, "limit"},
	} {
		res := told(t, tt.backend, tt.code, tt.stream...)
		if got := outcome(res); got != tt.want {
			t.Errorf("%s: got %s, want %s: %+v", tt.name, got, tt.want, res)
		}
		if tt.want == "limit" && !res.Until.After(recordedAt()) {
			t.Errorf("%s: until %v", tt.name, res.Until)
		}
	}
}
