package agent

import (
	"strconv"
	"strings"
	"testing"
)

// A client that refuses its command line cannot be run, and the line that says why is the reason. The texts are
// the clients' own.
func TestRefusedCommandLine(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	long := "Usage: gemini [options] [command]\n\nOptions:\n" +
		strings.Repeat("  -x, --xyz  an option  [boolean]\n", 1000) + "  -h, --help  Show help  [boolean]\n"
	for n, tt := range []struct{ backend, errs, want string }{
		{"codex", "error: unexpected argument '--no-such' found\n\n  tip: a similar argument exists\n\nUsage: codex exec\n\nFor more information, try '--help'.\n",
			"Codex does not accept its command line: unexpected argument '--no-such' found"},
		{"codex", "error: the argument '--approve-for-me' cannot be used with '--yolo'\n\nUsage: codex\n\nFor more information, try '--help'.\n",
			"Codex does not accept its command line: the argument '--approve-for-me' cannot be used with '--yolo'"},
		{"codex", "WARNING: proceeding, even though we could not create PATH aliases\nerror: unexpected argument '--x' found\n\nUsage: codex exec\n\nFor more information, try '--help'.\n",
			"Codex does not accept its command line: unexpected argument '--x' found"},
		{"claude", "error: unknown option '--no-such'\n",
			"Claude does not accept its command line: unknown option '--no-such'"},
		{"claude", "error: option '--model <model>' argument missing\n",
			"Claude does not accept its command line: option '--model <model>' argument missing"},
		{"claude", "Error: When using --print, --output-format=stream-json requires --verbose\n",
			"Claude does not accept its command line: When using --print, --output-format=stream-json requires --verbose"},
		{"gemini", "Cannot use both --yolo (-y) and --approval-mode together.\n" + long,
			"Gemini does not accept its command line: Cannot use both --yolo (-y) and --approval-mode together."},
		{"qwen", "Invalid values:\n  Argument: approval-mode, Given: \"x\"\n" + long,
			`Qwen does not accept its command line: Invalid values: Argument: approval-mode, Given: "x"`},
		{"opencode", "opencode run [message..]\n\nOptions:\n  -h, --help  show help\n",
			"opencode does not accept its command line: it printed its usage, and nothing else"},
		{"copilot", "Error: No authentication information found.\n\n  • Run 'gh auth login'\n",
			"Error: No authentication information found."},
		{"codex", "goose: error: unrecognized arguments: --x\n",
			"Codex does not accept its command line: goose: error: unrecognized arguments: --x"},
		{"claude", "cannot start\nUsage of memory: 3\n", ""},
		{"claude", "error: the network is down\n", ""},
	} {
		b, _ := Lookup(tt.backend)
		b.Command = []string{"sh", "-c", `printf %s "$0" >&2; exit 2`, tt.errs}
		res := s.run(b, s.request(strconv.Itoa(n)))
		if got := res.End == Refused && res.Cause == Fatal; got != (tt.want != "") || got && res.Reason != tt.want {
			t.Errorf("%s: %.60s: got %+v", tt.backend, tt.errs, res)
		}
	}
	b, _ := Lookup("codex")
	b.Command = []string{"sh", "-c", `echo "I try."; echo "error: unexpected argument '--x' found" >&2; exit 2`}
	if res := s.run(b, s.request("speaks")); res.End != Crashed {
		t.Errorf("one that said something first: %+v", res)
	}
}

// The name of a model is told at the end too, and costs have every model's tokens.
func TestModelsOfStreams(t *testing.T) {
	t.Parallel()
	res := told(t, "gemini", 0, `{"type":"init","session_id":"s","model":"auto"}`,
		`{"type":"message","role":"assistant","content":"TASK_COMPLETE"}`,
		`{"type":"result","status":"success","stats":{"models":{"flash":{"output_tokens":5},"pro":{"output_tokens":50}}}}`)
	if res.Model != "pro" {
		t.Errorf("gemini: %+v", res)
	}
	res = told(t, "copilot", 0, `{"type":"assistant.message","data":{"content":"TASK_COMPLETE","model":"gpt-9"}}`,
		`{"type":"result","sessionId":"s","exitCode":0}`)
	if res.Model != "gpt-9" || res.Session != "s" {
		t.Errorf("copilot: %+v", res)
	}
	const since = `"model_usage_since_last_result":{"big":{"inputTokens":100,"outputTokens":10,"costUSD":1},"small":{"inputTokens":7,"outputTokens":3,"cacheReadInputTokens":5,"costUSD":0.5}}`
	line := `{"type":"result","is_error":false,"result":"TASK_COMPLETE","usage":{"input_tokens":100,"output_tokens":10},` + since + `}`
	res = told(t, "claude", 0, line, line)
	if want := (Tokens{Input: 224, CacheRead: 10, Output: 26}); res.Cost == nil || *res.Cost.Tokens != want || *res.Cost.USD != 3 {
		t.Errorf("claude: got %+v, want %+v", res.Cost, want)
	}
}
