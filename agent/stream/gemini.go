package stream

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
		tell(Event{Kind: Usage, Tokens: Tokens{Input: e.Stats.Input.int(), CacheRead: e.Stats.Cached.int(),
			Output: e.Stats.Output.int()}})
		tell(Event{Kind: End, OK: e.Status == "success", Text: lastOf(e.Failure.Message)})
	default:
		return Unknown
	}
	return Known
}
