package agent

import (
	"slices"
	"strconv"
	"testing"
	"time"

	"descartes/agent/process"
)

// A context that overflows blocks its task, in whichever provider's words. Each row of the table stands for a sentence.
func TestOverflowWords(t *testing.T) {
	t.Parallel()
	said := []string{
		"prompt is too long: 208310 tokens > 200000 maximum",
		"input length and `max_tokens` exceed context limit: 198000 + 20000 > 200000, decrease input length or `max_tokens` and try again",
		"413 Request too large (max 32MB).",
		"Your input exceeds the context window of this model. Please adjust your input and try again.",
		"This model's maximum context length is 128000 tokens. However, your messages resulted in 140211 tokens.",
		"context_length_exceeded",
		"The input token count (1048600) exceeds the maximum number of tokens allowed (1048576).",
		"prompt token count of 140211 exceeds the limit of 128000",
		"Input is too long for requested model.",
		"Prompt exceeds max length",
		"This model's maximum prompt length is 131072 but the request contains 140211 tokens.",
		"Range of input length should be [1, 129024]",
		"request (40211 tokens) exceeds the available context size (32768 tokens), try increasing it",
		"The number of tokens to keep from the initial prompt is greater than the context length.",
		"prompt too long; exceeded max context length by 4 tokens",
		"Please reduce the length of the messages or completion.",
		"Invalid request: Your request exceeded model token limit: 262144 (requested: 270000)",
		"too many tokens: total number of tokens in the prompt cannot exceed 4081 - received 4292",
	}
	for n, o := range overflowWords {
		if !slices.ContainsFunc(said, o.words.MatchString) {
			t.Errorf("row %d: no sentence has these words of %s", n, o.of)
		}
	}
	b, _ := Lookup("claude")
	for _, text := range said {
		res := judged(t, b, []byte(`{"type":"system","subtype":"init"}`+"\n"+
			`{"type":"result","is_error":true,"api_error_status":400,"result":`+strconv.Quote("API Error: 400 "+text)+"}\n"),
			process.Exit{Why: process.Exited, Code: 1, End: recordedAt()})
		if res.End != Finished || res.Blocked == "" {
			t.Errorf("%q: got %+v", text, res)
		}
	}
	for _, text := range []string{
		"API Error: 400 model: String should have at least 1 character",
		"API Error: 400 Invalid max_tokens value",
		"Request too large for gpt-4o in organization org-1 on tokens per min (TPM): Limit 30000, Requested 40211.",
	} {
		if overflows(text) {
			t.Errorf("%q is no overflow", text)
		}
	}
}

// What an agent did before it waited for its own server counts, however its silence was ended.
func TestIdleAfterGoodResult(t *testing.T) {
	t.Parallel()
	const (
		opens   = `{"type":"system","subtype":"init"}` + "\n"
		waits   = `{"type":"system","subtype":"background_tasks_changed","tasks":[{}]}` + "\n"
		works   = `{"type":"assistant","message":{"content":[{"type":"text","text":"I look again."},{"type":"tool_use","name":"Bash"}]},"parent_tool_use_id":null}` + "\n"
		good    = `{"type":"result","is_error":false,"result":"The server runs; all works."}` + "\n"
		promise = `{"type":"result","is_error":false,"result":"TASK_COMPLETE"}` + "\n"
		bad     = `{"type":"result","is_error":true,"api_error_status":529,"result":"Overloaded"}` + "\n"
	)
	b, _ := Lookup("claude")
	for _, tt := range []struct {
		name, stream string
		end          End
		complete     bool
	}{
		{"waits", opens + waits + good, Finished, false},
		{"waits, with a promise", opens + waits + promise, Finished, true},
		{"works again", opens + waits + good + works, Idled, false},
		{"a bad result", opens + waits + bad, Idled, false},
		{"no result", opens + works, Idled, false},
		{"429, and how long it sleeps", opens + `{"type":"system","subtype":"api_retry","retry_delay_ms":500,"error_status":429}` + "\n",
			Idled, false},
		{"429, and no word of that", opens + `{"type":"system","subtype":"api_retry","error_status":429}` + "\n",
			Limited, false},
	} {
		res := judged(t, b, []byte(tt.stream), process.Exit{Why: process.Idled, Signal: 15, End: recordedAt(),
			Took: 20 * time.Minute})
		if res.End != tt.end || res.Complete != tt.complete || (res.End == Finished) != (len(res.Notes) == 1) {
			t.Errorf("%s: got %+v", tt.name, res)
		}
	}
}
