package stream

import "cmp"

// clineLine is what is read of a line of `cline --json`.
type clineLine struct {
	Type   string `json:"type"`
	Reason string `json:"finishReason"`
	Usage  struct {
		Input      number  `json:"inputTokens"`
		Output     number  `json:"outputTokens"`
		CacheRead  number  `json:"cacheReadTokens"`
		CacheWrite number  `json:"cacheWriteTokens"`
		USD        float64 `json:"totalCost"`
	} `json:"usage"`
	clineWords
	Event struct {
		Type    string `json:"type"`
		Content string `json:"contentType"`
		clineWords
	} `json:"event"`
}

type clineWords struct {
	Text    string `json:"text"`
	Message string `json:"message"`
	Error   string `json:"error"`
}

func readCline(line []byte, tell func(Event)) LineKind {
	var e clineLine
	if !Decode(line, &e) || e.Type == "" {
		return Noise
	}
	failure := lastOf(cmp.Or(cmp.Or(e.Message, e.Error), cmp.Or(e.Event.Message, e.Event.Error)))
	switch e.Type {
	case "agent_event":
		switch {
		case e.Event.Content == "tool":
			tell(Event{Kind: Tool})
		case e.Event.Content == "text" && e.Event.Type == "content_end":
			tell(Event{Kind: Text, Text: e.Event.Text, Whole: true})
		case e.Event.Type == "error":
			tell(Event{Kind: Trouble, Text: failure})
		}
	case "run_result":
		u := e.Usage
		tell(Event{Kind: Usage, USD: u.USD, Tokens: Tokens{Input: u.Input.int(), CacheRead: u.CacheRead.int(),
			CacheWrite: u.CacheWrite.int(), Output: u.Output.int()}})
		ok := e.Reason == "completed"
		if ok && e.Text != "" {
			tell(Event{Kind: Text, Text: e.Text, Whole: true})
		}
		tell(Event{Kind: End, OK: ok, Text: failure, Word: e.Reason})
	case "error":
		tell(Event{Kind: Trouble, Text: failure})
	case "hook_event":
	default:
		return Unknown
	}
	return Known
}
