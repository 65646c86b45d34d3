package acp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	sdk "github.com/coder/acp-go-sdk"
)

// initialized is what is read of the answer to initialize. Answers are read
// into our own types: the SDK's refuse a whole answer for one member that is
// newer than they are.
type initialized struct {
	ProtocolVersion json.Number `json:"protocolVersion"`
	AgentInfo       struct {
		Name    string `json:"name"`
		Version string `json:"version"`
	} `json:"agentInfo"`
	AuthMethods []authMethod `json:"authMethods"`
}

// authMethod is one way of logging in that an agent knows.
type authMethod struct {
	ID          string `json:"id"`
	Name        string `json:"name"`
	Description string `json:"description"`
	Type        string `json:"type"`
	Vars        []struct {
		Name     string `json:"name"`
		Optional bool   `json:"optional"`
	} `json:"vars"`
}

// stopped is the answer to session/prompt.
type stopped struct {
	StopReason string     `json:"stopReason"`
	Usage      *sdkUsage  `json:"usage"`
	Meta       metaTokens `json:"_meta"`
}

// sdkUsage is a turn's usage; ours is a session of one turn.
type sdkUsage struct {
	Input      int64 `json:"inputTokens"`
	Output     int64 `json:"outputTokens"`
	Thought    int64 `json:"thoughtTokens"`
	CacheRead  int64 `json:"cachedReadTokens"`
	CacheWrite int64 `json:"cachedWriteTokens"`
	Total      int64 `json:"totalTokens"`
}

// lastOnly reports whether these are the tokens of the last answer alone, as
// opencode tells them, and not of the turn: each answer is asked for with all
// that was said before it, so that the sum for two is more than the context
// holds in the end.
func (u sdkUsage) lastOnly(context int64) bool {
	return context > 0 && u.Input+u.CacheRead+u.CacheWrite <= context
}

// metaTokens is where gemini tells of tokens.
type metaTokens struct {
	Quota struct {
		Tokens struct {
			Input  int64 `json:"input_tokens"`
			Output int64 `json:"output_tokens"`
		} `json:"token_count"`
	} `json:"quota"`
}

// converse hands over the prompt and returns the last event: "end", or "exited"
// where the program went away in between.
func (b *bridge) converse(ctx context.Context, prompt string) event {
	first, err := ask[initialized](ctx, b, sdk.AgentMethodInitialize, map[string]any{
		"protocolVersion":    sdk.ProtocolVersionNumber,
		"clientCapabilities": map[string]any{"fs": map[string]any{"readTextFile": false, "writeTextFile": true}, "terminal": false},
		"clientInfo":         map[string]any{"name": "descartes", "version": "1"},
	})
	if err != nil {
		return b.bad("initialize", err, nil)
	}
	b.log.tell(event{Type: "agent", Name: first.AgentInfo.Name, Version: first.AgentInfo.Version})
	if v := first.ProtocolVersion.String(); v != fmt.Sprint(sdk.ProtocolVersionNumber) {
		return event{Type: "end", Stop: "error", Word: "invalid_request", Text: fmt.Sprintf("it speaks version %s of the Agent Client Protocol, and descartes version %d: "+
			"install a version of %s that speaks %d", or(v, "(none told)"), sdk.ProtocolVersionNumber, b.argv[0], sdk.ProtocolVersionNumber)}
	}
	session, err := b.open(ctx, first.AuthMethods)
	if err != nil {
		return b.bad("session/new", err, first.AuthMethods)
	}
	model, err := b.chooseModel(ctx, session)
	b.log.tell(event{Type: "session", ID: session.SessionID, Model: model})
	if err != nil {
		return b.bad("set the model", err, first.AuthMethods)
	}
	b.mu.Lock()
	b.session, b.turn = session.SessionID, true
	b.mu.Unlock()
	stop, err := ask[stopped](ctx, b, sdk.AgentMethodSessionPrompt, sdk.PromptRequest{SessionId: sdk.SessionId(session.SessionID), Prompt: []sdk.ContentBlock{sdk.TextBlock(prompt)}})
	if err != nil {
		return b.bad("session/prompt", err, first.AuthMethods)
	}
	b.account(stop)
	return ending(stop.StopReason)
}

// ask sends a request and waits for its answer.
func ask[T any](ctx context.Context, b *bridge, method string, params any) (T, error) {
	var out T
	taken := make(chan struct{})
	defer close(taken)
	b.mu.Lock()
	b.asked, b.taken, b.delivered = b.asked+1, taken, false
	b.mu.Unlock()
	raw, err := sdk.SendRequest[json.RawMessage](b.conn, ctx, method, params)
	if err != nil {
		return out, err
	}
	if err := json.Unmarshal(raw, &out); err != nil && !lenient(err) {
		return out, fmt.Errorf("its answer to %s cannot be read: %w", method, err)
	}
	return out, nil
}

// open makes a session. An agent that wants a login first gets one if that
// needs nobody: a key in the environment.
func (b *bridge) open(ctx context.Context, methods []authMethod) (session newSession, err error) {
	params := map[string]any{"cwd": b.tree.dir, "mcpServers": []any{}}
	session, err = ask[newSession](ctx, b, sdk.AgentMethodSessionNew, params)
	if !wantsLogin(err) {
		return session, err
	}
	at := slices.IndexFunc(methods, func(m authMethod) bool { return m.unattended(b.env) })
	if at < 0 {
		return session, err
	}
	if _, failed := ask[json.RawMessage](ctx, b, sdk.AgentMethodAuthenticate, map[string]any{"methodId": methods[at].ID}); failed != nil {
		return session, failed
	}
	return ask[newSession](ctx, b, sdk.AgentMethodSessionNew, params)
}

func wantsLogin(err error) bool {
	var told *sdk.RequestError
	return errors.As(err, &told) && told.Code == -32000
}

// unattended reports whether the method works without a person: its variables
// are set, or it is an API key's and the variable of that name is
// (gemini-api-key, GEMINI_API_KEY).
func (m authMethod) unattended(env func(string) string) bool {
	if m.Type == "env_var" {
		for _, v := range m.Vars {
			if !v.Optional && env(v.Name) == "" {
				return false
			}
		}
		return len(m.Vars) > 0
	}
	id := strings.ToLower(m.ID)
	return m.Type != "terminal" && strings.HasSuffix(id, "api-key") && env(strings.ToUpper(strings.ReplaceAll(id, "-", "_"))) != ""
}

// bad is the last event of a conversation that went wrong.
func (b *bridge) bad(during string, err error, methods []authMethod) event {
	var told *sdk.RequestError
	gone := b.to.isBroken()
	select {
	case <-b.conn.Done():
		b.mu.Lock()
		gone = gone || !b.delivered
		b.mu.Unlock()
	default:
	}
	if gone {
		return event{Type: "exited", Word: "exited", Text: "it ended without an answer to " + during}
	}
	if !errors.As(err, &told) {
		e := event{Type: "end", Stop: "error", Text: err.Error()}
		if _, ok := errors.AsType[*modelError](err); ok {
			e.Word = "model_not_found"
		}
		return e
	}
	e := event{Type: "end", Stop: "error", Text: words(told)}
	switch {
	case told.Code == -32000:
		e.Word = "authentication"
		e.Text = strings.TrimRight(e.Text, ". ") + ": log in with " + b.argv[0] + " by hand first"
		for _, m := range methods {
			if id := strings.ToLower(m.ID); strings.HasSuffix(id, "api-key") {
				e.Text += ", or set " + strings.ToUpper(strings.ReplaceAll(id, "-", "_"))
			}
		}
	case told.Code >= 400 && told.Code < 600: // gemini gives the service's own
		e.Code = told.Code
	}
	return e
}

// words is what an error says, with its details.
func words(e *sdk.RequestError) string {
	var inner struct {
		Error struct {
			Message string `json:"message"`
			Status  string `json:"status"`
		} `json:"error"`
	}
	if strings.HasPrefix(e.Message, "{") && lenient(json.Unmarshal([]byte(e.Message), &inner)) && inner.Error.Message != "" {
		return clip(strings.TrimSpace(inner.Error.Message+" "+inner.Error.Status), 2000) // the service's answer as it came
	}
	detail := ""
	switch d := e.Data.(type) {
	case string:
		detail = d
	case map[string]any:
		for _, name := range []string{"details", "detail", "message", "error", "reason"} {
			if s, ok := d[name].(string); ok && detail == "" {
				detail = s
			}
		}
	}
	if detail == "" || strings.Contains(e.Message, detail) {
		return clip(e.Message, 2000)
	}
	return clip(e.Message+": "+detail, 2000)
}

// ending is the last event of a turn that the agent ended.
func ending(reason string) event {
	e := event{Type: "end", Stop: reason}
	switch sdk.StopReason(reason) {
	case sdk.StopReasonEndTurn:
		e.OK = true
	case sdk.StopReasonMaxTokens:
		e.Word, e.Text = "error_max_tokens", "the model's answer reached its greatest length"
	case sdk.StopReasonMaxTurnRequests:
		e.Word, e.Text = "error_max_turn_requests", "it reached its greatest number of requests in a turn"
	case sdk.StopReasonRefusal:
		e.Word, e.Text = "refusal", "the model refuses to go on with this task"
	case sdk.StopReasonCancelled:
		e.Word, e.Text = "cancelled", "it cancelled the turn, and nobody had asked for that"
	default:
		e.Text = fmt.Sprintf("it stopped for a reason that is not known: %q", clip(reason, 100))
	}
	return e
}

// account prints what the turn used, where that is told.
func (b *bridge) account(s stopped) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if u := s.Usage; u != nil && !(b.acted && u.lastOnly(b.used.Context)) {
		b.used.Input, b.used.Output, b.used.Thought = u.Input, u.Output, u.Thought
		b.used.CacheRead, b.used.CacheWrite, b.used.Total = u.CacheRead, u.CacheWrite, u.Total
	} else if t := s.Meta.Quota.Tokens; t.Input+t.Output > 0 {
		b.used.Input, b.used.Output = t.Input, t.Output
	}
	if b.used != (Usage{}) {
		u := b.used
		b.log.tell(event{Type: "usage", Usage: &u})
	}
}
