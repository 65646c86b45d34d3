package stream

import (
	"encoding/json"
	"strings"
)

// copilotLine is what is read of a line of `copilot --output-format json`.
type copilotLine struct {
	Type string  `json:"type"`
	ID   string  `json:"sessionId"`
	Code *number `json:"exitCode"`
	Data struct {
		Content string            `json:"content"`
		Model   string            `json:"model"`
		Parent  string            `json:"parentToolCallId"` // the tool call that a subagent works for
		Tools   []json.RawMessage `json:"toolRequests"`
		Error   string            `json:"errorType"`
		Message string            `json:"message"`
		Status  number            `json:"statusCode"`
	} `json:"data"`
}

// skimCopilot knows the events of which only the name is of interest.
func skimCopilot(kind string, _ []byte, tell func(Event)) bool {
	switch kind {
	case "assistant.message", "session.error", "model.call_failure", "result":
		return false
	case "tool.execution_start":
		tell(Event{Kind: Tool})
		return true
	}
	return copilotGroup(kind)
}

func copilotGroup(kind string) bool {
	group, _, _ := strings.Cut(kind, ".")
	switch group {
	case "assistant", "session", "model", "tool", "user", "hook":
		return true
	}
	return false
}

func readCopilot(line []byte, tell func(Event)) LineKind {
	var e copilotLine
	if !Decode(line, &e) || e.Type == "" {
		return Noise
	}
	switch d := e.Data; e.Type {
	case "assistant.message":
		if d.Parent != "" {
			return Known
		}
		if d.Model != "" {
			tell(Event{Kind: Session, Model: d.Model})
		}
		if d.Content != "" {
			tell(Event{Kind: Text, Text: d.Content, Whole: true})
		}
		if len(d.Tools) > 0 {
			tell(Event{Kind: Tool})
		}
	case "tool.execution_start":
		tell(Event{Kind: Tool})
	case "model.call_failure":
		tell(Event{Kind: Retry, Status: int(d.Status.int())})
	case "session.error":
		tell(Event{Kind: Trouble, Word: d.Error, Text: lastOf(d.Message), Status: int(d.Status.int())})
	case "result":
		tell(Event{Kind: Session, ID: e.ID})
		tell(Event{Kind: End, OK: e.Code != nil && *e.Code == 0})
	default:
		if !copilotGroup(e.Type) {
			return Unknown
		}
	}
	return Known
}
