package stream

import (
	"maps"
	"slices"
)

// geminiLine is what is read of a line of `gemini --output-format stream-json`.
type geminiLine struct {
	Type     string `json:"type"`
	ID       string `json:"session_id"`
	Model    string `json:"model"`
	Role     string `json:"role"`
	Content  string `json:"content"`
	Severity string `json:"severity"`
	Message  string `json:"message"`
	Status   string `json:"status"`
	Failure  struct {
		Message string `json:"message"`
	} `json:"error"`
	Stats struct {
		Input  number `json:"input_tokens"`
		Output number `json:"output_tokens"`
		Cached number `json:"cached"`
		Models map[string]struct {
			Output number `json:"output_tokens"`
		} `json:"models"`
	} `json:"stats"`
}

func skimGemini(kind string, _ []byte, tell func(Event)) bool {
	if kind == "tool_use" || kind == "tool_result" {
		tell(Event{Kind: Tool})
		return true
	}
	return false
}

func readGemini(line []byte, tell func(Event)) LineKind {
	var e geminiLine
	if !Decode(line, &e) || e.Type == "" {
		return Noise
	}
	switch e.Type {
	case "init":
		tell(Event{Kind: Session, ID: e.ID, Model: e.Model})
	case "message":
		if e.Role == "assistant" {
			tell(Event{Kind: Text, Text: e.Content})
		}
	case "tool_use", "tool_result":
		tell(Event{Kind: Tool})
	case "error":
		if e.Severity != "warning" {
			tell(Event{Kind: Trouble, Text: lastOf(e.Message)})
		}
	case "result":
		if name := e.model(); name != "" {
			tell(Event{Kind: Session, Model: name})
		}
		tell(Event{Kind: Usage, Tokens: Tokens{Input: e.Stats.Input.int(), CacheRead: e.Stats.Cached.int(),
			Output: e.Stats.Output.int()}})
		tell(Event{Kind: End, OK: e.Status == "success", Text: lastOf(e.Failure.Message)})
	default:
		return Unknown
	}
	return Known
}

// model is the one that wrote most of the answers: another may choose it, and the start may say only "auto".
func (e *geminiLine) model() (name string) {
	most := 0.0
	for _, m := range slices.Sorted(maps.Keys(e.Stats.Models)) {
		if out := float64(e.Stats.Models[m].Output); name == "" || out > most {
			name, most = m, out
		}
	}
	return name
}
