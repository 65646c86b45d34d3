package acp

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"strconv"

	sdk "github.com/coder/acp-go-sdk"
)

// update is what is read of a session/update, whatever its kind.
type update struct {
	Kind      string `json:"sessionUpdate"`
	MessageID string `json:"messageId"`
	Piece     struct {
		Type string `json:"type"`
		Text string `json:"text"`
	} `json:"-"`
	toolFields
	Entries []struct {
		Content string `json:"content"`
		Status  string `json:"status"`
	} `json:"entries"`
	Used int64 `json:"used"`
	Cost *struct {
		Amount   float64 `json:"amount"`
		Currency string  `json:"currency"`
	} `json:"cost"`
}

// outputLimit is how much of a tool's output, of a thought or of a repeated
// prompt is printed: for a person who looks into the log.
const outputLimit = 2 << 10

// hear takes a notification. Those of other sessions, as of subagents, and of
// kinds that are not known do not matter.
func (b *bridge) hear(method string, params json.RawMessage) {
	var n struct {
		SessionID string `json:"sessionId"`
		Update    update `json:"update"`
	}
	if method != sdk.ClientMethodSessionUpdate || !lenient(json.Unmarshal(params, &n)) {
		return
	}
	u := n.Update
	b.mu.Lock()
	defer b.mu.Unlock()
	if u.Kind == "usage_update" && (n.SessionID == b.session || b.session == "") {
		b.spend(u)
	}
	if !b.turn || b.cancelled || n.SessionID != b.session {
		return
	}
	switch u.Kind {
	case "agent_message_chunk", "agent_thought_chunk", "user_message_chunk":
		_ = json.Unmarshal(u.Content, &u.Piece) // what is no text has none
		b.piece(u)
	case "tool_call", "tool_call_update":
		b.tool(u.toolFields)
	case "plan":
		b.plan(u)
	}
}

// answered ends the turn with the answer to the prompt.
func (b *bridge) answered(id string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if id == strconv.Itoa(b.asked) {
		b.turn, b.delivered = false, true
	}
}

// piece prints a piece of a message.
func (b *bridge) piece(u update) {
	text := u.Piece.Text
	switch {
	case text == "":
	case u.Kind == "agent_thought_chunk":
		b.log.tell(event{Type: "thought", Text: tail(text, outputLimit)})
	case u.Kind == "user_message_chunk":
		b.log.tell(event{Type: "user", Text: tail(text, outputLimit)})
	default:
		if b.said && u.MessageID != b.message {
			text = "\n\n" + text // another message
		}
		b.said, b.message = true, u.MessageID
		b.log.tell(event{Type: "text", Text: text})
	}
}

// tool prints a tool call when it begins and when its status changes. What is
// only more of its output would take the last words from a message that follows.
func (b *bridge) tool(f toolFields) {
	c, known := b.calls[f.ToolCallID]
	if !known {
		if len(b.calls) >= 10_000 {
			clear(b.calls)
		}
		c = &call{}
		b.calls[f.ToolCallID] = c
	}
	before := c.Status
	c.merge(f)
	if known && c.Status == before {
		return
	}
	b.said, b.acted = false, true
	e := event{Type: "tool", ID: f.ToolCallID, Kind: c.Kind, Title: clip(c.Title, 500), Status: c.Status}
	if len(c.Paths) > 0 {
		e.Paths = c.Paths[:min(len(c.Paths), 20)]
	}
	if c.Status == "completed" || c.Status == "failed" {
		for _, part := range f.contents() {
			e.Text = tail(e.Text+part.Content.Text, outputLimit)
		}
	}
	b.log.tell(e)
}

func (b *bridge) plan(u update) {
	text := ""
	for n, entry := range u.Entries {
		if n == 50 {
			break
		}
		text += "[" + entry.Status + "] " + clip(entry.Content, 200) + "\n"
	}
	b.log.tell(event{Type: "plan", Text: text})
}

// spend notes the session's cost so far.
func (b *bridge) spend(u update) {
	b.used.Context = u.Used
	if u.Cost != nil && u.Cost.Currency == "USD" && u.Cost.Amount > 0 {
		b.used.USD = u.Cost.Amount
	}
}

// noise prints the beginning of a line that is no message.
func (b *bridge) noise(line []byte, size int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.noises++; b.noises <= noiseLimit {
		b.log.tell(event{Type: "noise", Bytes: size, Text: clip(string(line[:min(len(line), 1000)]), 200)})
	}
}

// serve answers what the program asks.
func (b *bridge) serve(_ context.Context, method string, params json.RawMessage) (any, *sdk.RequestError) {
	switch method {
	case sdk.ClientMethodSessionRequestPermission:
		return b.permit(params)
	case sdk.ClientMethodFsReadTextFile:
		var q struct {
			Path  string `json:"path"`
			Line  int    `json:"line"`
			Limit int    `json:"limit"`
		}
		if !lenient(json.Unmarshal(params, &q)) {
			return nil, sdk.NewInvalidParams(nil)
		}
		text, err := b.tree.read(q.Path, q.Line, q.Limit)
		if err != nil {
			return nil, b.refuse("read "+q.Path, err)
		}
		return sdk.ReadTextFileResponse{Content: text}, nil
	case sdk.ClientMethodFsWriteTextFile:
		var q struct {
			Path    string  `json:"path"`
			Content *string `json:"content"`
		}
		if !lenient(json.Unmarshal(params, &q)) || q.Content == nil {
			return nil, sdk.NewInvalidParams(nil)
		}
		if err := b.tree.write(q.Path, *q.Content); err != nil {
			return nil, b.refuse("write "+q.Path, err)
		}
		return struct{}{}, nil
	}
	return nil, sdk.NewMethodNotFound(method)
}

// refuse tells the agent why it does not get a file, and us if it was kept from it.
func (b *bridge) refuse(what string, err error) *sdk.RequestError {
	var outside *outsideError
	if errors.As(err, &outside) {
		b.log.tell(event{Type: "denied", Title: clip(what, 300), Text: outside.why})
		return &sdk.RequestError{Code: -32602, Message: "not allowed: " + err.Error()}
	}
	if errors.Is(err, fs.ErrNotExist) {
		return &sdk.RequestError{Code: -32002, Message: "Resource not found: " + err.Error()} // gemini knows it by these words
	}
	return &sdk.RequestError{Code: -32603, Message: err.Error()}
}

// permit answers a request for permission.
func (b *bridge) permit(params json.RawMessage) (any, *sdk.RequestError) {
	var q struct {
		ToolCall toolFields `json:"toolCall"`
		Options  []option   `json:"options"`
	}
	if !lenient(json.Unmarshal(params, &q)) {
		return nil, sdk.NewInvalidParams(nil)
	}
	b.mu.Lock()
	if b.cancelled {
		b.mu.Unlock()
		return outcome("cancelled", ""), nil
	}
	status := q.ToolCall.Status
	q.ToolCall.Status = or(status, "pending")
	b.tool(q.ToolCall)
	c := *b.calls[q.ToolCall.ToolCallID]
	b.mu.Unlock()
	chosen, ok, why := b.tree.answer(c, q.Options)
	what := clip(or(c.Title, or(c.Kind, "a tool")), 300)
	if why != "" {
		b.log.tell(event{Type: "denied", Title: what, Kind: c.Kind, Text: why})
	} else {
		b.log.tell(event{Type: "allowed", Title: what, Kind: chosen.Kind})
	}
	if !ok {
		return outcome("cancelled", ""), nil
	}
	return outcome("selected", chosen.ID), nil
}

func outcome(word, id string) map[string]any {
	o := map[string]any{"outcome": word}
	if id != "" {
		o["optionId"] = id
	}
	return map[string]any{"outcome": o}
}
