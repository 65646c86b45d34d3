package stream

import (
	"strings"
	"testing"
	"testing/iotest"
)

func TestRender(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ format, in, want string }{
		"text":      {FormatText, "a\nb", "a\nb"},
		"no events": {FormatClaude, "plain words\n\n  more\n", "plain words\n\nmore\n"},
		"claude": {FormatClaude, `{"type":"system","subtype":"init","session_id":"s"}
{"type":"assistant","message":{"content":[{"type":"text","text":"I look."}]},"parent_tool_use_id":null}
{"type":"assistant","message":{"content":[{"type":"tool_use","name":"Bash","input":{}}]},"parent_tool_use_id":null}
{"type":"user","message":{"content":[{"type":"tool_result","content":"secret output"}]}}
{"type":"assistant","message":{"content":[{"type":"text","text":"Done.\n"}]},"parent_tool_use_id":null}
`, "I look.\nDone.\n"},
		"gemini": {FormatGemini, `{"type":"message","role":"user","content":"the prompt"}
{"type":"message","role":"assistant","content":"Half a ","delta":true}
{"type":"message","role":"assistant","content":"sentence.","delta":true}
{"type":"tool_use","tool_name":"x","tool_id":"1","parameters":{}}
{"type":"message","role":"assistant","content":"End","delta":true}
{"type":"result","status":"success"}
`, "Half a sentence.\nEnd\n"},
	} {
		var whole, bytes strings.Builder
		if err := Render(tc.format, strings.NewReader(tc.in), &whole); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if whole.String() != tc.want {
			t.Errorf("%s: got %q, want %q", name, whole.String(), tc.want)
		}
		if err := Render(tc.format, iotest.OneByteReader(strings.NewReader(tc.in)), &bytes); err != nil || bytes.String() != tc.want {
			t.Errorf("%s, byte by byte: got %q, %v", name, bytes.String(), err)
		}
	}
}
