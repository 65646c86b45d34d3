package agent

import "descartes/internal/lazyregexp"

// overflowWords say that the conversation grew longer than the model takes: a further attempt at the task would have
// even more to read.
var overflowWords = []struct {
	of    string // who says so
	words *lazyregexp.Regexp
}{
	{"Anthropic", lazyregexp.New(`(?i)prompt (is|as) too long`)},
	{"Anthropic", lazyregexp.New(`(?i)\bexceeds? context limit\b`)},
	{"Anthropic", lazyregexp.New(`(?i)\b413\b.{0,40}\btoo large\b|\brequest_too_large\b|\brequest too large \(max\b`)},
	{"OpenAI, MiniMax, Claude", lazyregexp.New(`(?i)\bcontext window\b`)},
	{"OpenAI, vLLM, DeepSeek, OpenRouter, Mistral", lazyregexp.New(`(?i)maximum context length`)},
	{"OpenAI, Azure", lazyregexp.New(`(?i)context_length_exceeded`)},
	{"Gemini", lazyregexp.New(`(?i)\binput token count\b.{0,40}\bexceeds`)},
	{"Copilot", lazyregexp.New(`(?i)\bprompt token count\b.{0,40}\bexceeds`)},
	{"Bedrock", lazyregexp.New(`(?i)\binput is too long for requested model\b`)},
	{"Z.ai", lazyregexp.New(`(?i)\bprompt exceeds max length\b`)},
	{"xAI", lazyregexp.New(`(?i)\bmaximum prompt length is \d`)},
	{"DashScope", lazyregexp.New(`(?i)\brange of input length should be\b`)},
	{"llama.cpp", lazyregexp.New(`(?i)\bexceeds the available context size\b`)},
	{"LM Studio", lazyregexp.New(`(?i)\bgreater than the context length\b`)},
	{"Ollama", lazyregexp.New(`(?i)\bexceed(s|ed) (the )?(max )?context length\b`)},
	{"Groq, Cerebras", lazyregexp.New(`(?i)\breduce the length of (the|your) (messages|prompt)\b`)},
	{"Moonshot", lazyregexp.New(`(?i)\bexceeded model token limit\b`)},
	{"Cohere", lazyregexp.New(`(?i)\btokens in the prompt cannot exceed\b`)},
}

// overflows reports whether a client's error is one of these.
func overflows(text string) bool {
	for _, o := range overflowWords {
		if o.words.MatchString(text) {
			return true
		}
	}
	return false
}
