// Package acp is the other side of an agent that speaks the Agent Client
// Protocol. It runs in a process of its own, under the shim like any agent: it
// starts the program, hands over one prompt, answers what the program asks
// without a person, and prints what happens as lines of JSON.
//
// Of the client's abilities it announces the writing of files, which it keeps
// to the working tree. Reading it does not have, for there are no unsaved
// buffers here, nor terminals: the agents that were tried run commands
// themselves, in the shim's tree.
package acp

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/tidwall/gjson"

	"descartes/agent/process"
	"descartes/agent/stream"
	"descartes/internal/oneline"
	"descartes/internal/proc"
)

const (
	promptLimit = 64 << 20
	// cancelWait is how long the program may take to answer session/cancel, endWait how long it may take to end
	// before each harder means. Together they stay below the shim's grace.
	cancelWait = 1500 * time.Millisecond
	endWait    = 800 * time.Millisecond
)

// Serve is the main function of the hidden command: [--model M] -- program [arguments], with the prompt on standard
// input. It returns the exit code: 0 after a good end, the program's own where it died, else 1.
func Serve(args []string) int {
	model := ""
	if len(args) > 1 && args[0] == "--model" {
		model, args = args[1], args[2:]
	}
	if len(args) < 2 || args[0] != "--" {
		os.Stderr.WriteString("error: this command is for descartes itself, and needs an agent program\n")
		return 2
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	defer stop()
	b := &conversation{log: &eventLog{w: os.Stdout}, model: model, argv: args[1:], env: os.Getenv}
	code := b.run(ctx, os.Stdin)
	if err := b.log.failed(); err != nil {
		os.Stderr.WriteString("error: write what the agent says: " + err.Error() + "\n")
		return 1
	}
	return code
}

// conversation is one conversation with a program.
type conversation struct {
	log   *eventLog
	model string
	argv  []string
	env   func(string) string
	tree  tree
	peer  *proc.Peer
	rpc   *rpc

	mu        sync.Mutex
	session   string
	turn      bool // the prompt was sent and is not answered yet
	cancelled bool // by a signal: nothing said afterwards counts
	calls     map[string]*call
	message   string // id of the message whose pieces come
	said      bool   // pieces of a message came since the last tool call
	acted     bool   // a tool was called
	noises    int
	used      usage
}

// run does all of it and returns the exit code.
func (b *conversation) run(ctx context.Context, stdin io.Reader) int {
	prompt, err := io.ReadAll(io.LimitReader(stdin, promptLimit+1))
	if err == nil && len(prompt) > promptLimit {
		err = errors.New("the prompt is too long")
	}
	if err == nil {
		b.tree, err = newTree(".")
	}
	if err == nil {
		b.peer, err = proc.StartPeer(b.argv, nil)
	}
	if err != nil {
		b.log.print(event{Type: "end", Stop: "error", Word: "not_started", Text: err.Error()})
		return 127
	}
	b.calls = map[string]*call{}
	b.rpc = &rpc{to: b.peer.In, serve: b.serve, hear: b.notified, noise: b.noise, heard: b.answered,
		closed: make(chan struct{})}
	go b.rpc.listen(bufio.NewReaderSize(b.peer.Out, 64<<10))
	talk, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	ended := make(chan struct{})
	// After a signal the program is asked to stop, and after a while the conversation is over.
	defer context.AfterFunc(ctx, func() {
		if b.interrupt() {
			select {
			case <-ended:
			case <-time.After(cancelWait):
			}
		}
		cancel(errCancelled)
	})()
	end := b.converse(talk, string(prompt))
	close(ended)
	return b.finish(ctx, end)
}

// interrupt asks the program to end its turn; it is false where it has none.
func (b *conversation) interrupt() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.cancelled = true
	if b.turn {
		go func() { // it may not read
			_ = b.rpc.send(nil, "session/cancel", map[string]any{"sessionId": b.session})
		}()
	}
	return b.turn
}

var errCancelled = errors.New("ended by a signal")

// finish prints the last event, ends the program and returns the exit code.
func (b *conversation) finish(ctx context.Context, end event) int {
	stopped := event{Type: "end", Stop: "cancelled", Word: "cancelled", Text: "it was stopped by a signal"}
	if ctx.Err() != nil {
		b.log.print(stopped)
		b.peer.End(endWait)
		return 143
	}
	if end.Type == "end" {
		b.log.print(end)
		b.peer.End(endWait)
		if end.OK {
			return 0
		}
		return 1
	}
	exit := b.peer.End(endWait)
	if ctx.Err() != nil { // it was for both of us
		b.log.print(stopped)
		return 143
	}
	end.Code, end.Signal = exit.Code, exit.Signal
	if end.Text += " (" + exit.String() + ")"; exit.Why == process.Exited && exit.Code == 0 {
		exit.Code = 1
	}
	b.log.print(end)
	if exit.Signal != 0 {
		return 128 + exit.Signal
	}
	return exit.Code
}

// version is that of the protocol.
const version = 1

// initialized is what is read of the answer to initialize.
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
	StopReason string          `json:"stopReason"`
	Usage      *turnUsage      `json:"usage"`
	Meta       json.RawMessage `json:"_meta"`
}

// turnUsage is a turn's usage; ours is a session of one turn.
type turnUsage struct {
	Input      int64 `json:"inputTokens"`
	Output     int64 `json:"outputTokens"`
	Thought    int64 `json:"thoughtTokens"`
	CacheRead  int64 `json:"cachedReadTokens"`
	CacheWrite int64 `json:"cachedWriteTokens"`
	Total      int64 `json:"totalTokens"`
}

// lastOnly reports whether these are the tokens of the last answer only, as opencode counts them, and not of the
// turn: each answer is billed for everything said before it, so the sum can exceed the context.
func (u turnUsage) lastOnly(context int64) bool {
	return context > 0 && u.Input+u.CacheRead+u.CacheWrite <= context
}

// quotas is what gemini and claude-agent-acp report beside the protocol: by model, subagents and compaction included,
// and in sum. model is the one that wrote most.
func (s stopped) quotas() (model string, all turnUsage) {
	quota := gjson.GetBytes(s.Meta, "quota")
	read := func(count gjson.Result) turnUsage {
		number := func(names ...string) (n int64) {
			for _, name := range names {
				n = max(n, count.Get(name).Int())
			}
			return n
		}
		return turnUsage{Input: number("inputTokens", "input_tokens"), Output: number("outputTokens", "output_tokens"),
			CacheRead: number("cachedInputTokens"), CacheWrite: number("cachedWriteTokens"),
			Total: number("totalTokens")}
	}
	most := int64(-1)
	for _, row := range quota.Get("model_usage").Array() {
		u := read(row.Get("token_count"))
		if name := row.Get("model").Str; name != "" && u.Output > most {
			model, most = name, u.Output
		}
		all = turnUsage{Input: all.Input + u.Input, Output: all.Output + u.Output,
			CacheRead: all.CacheRead + u.CacheRead, CacheWrite: all.CacheWrite + u.CacheWrite, Total: all.Total + u.Total}
	}
	if sum := read(quota.Get("token_count")); all.Input+all.Output < sum.Input+sum.Output {
		all = sum
	}
	return model, all
}

// converse hands over the prompt and returns the last event: "end", or "exited"
// where the program went away in between.
func (b *conversation) converse(ctx context.Context, prompt string) event {
	var first initialized
	err := b.rpc.call(ctx, "initialize", map[string]any{
		"protocolVersion": version,
		"clientCapabilities": map[string]any{"fs": map[string]any{"readTextFile": false, "writeTextFile": true},
			"terminal": false},
		"clientInfo": map[string]any{"name": "descartes", "version": "1"},
	}, &first)
	if err != nil {
		return b.failure("initialize", err, nil)
	}
	b.log.print(event{Type: "agent", Name: first.AgentInfo.Name, Version: first.AgentInfo.Version})
	if v := first.ProtocolVersion.String(); v != strconv.Itoa(version) {
		return event{Type: "end", Stop: "error", Word: "invalid_request",
			Text: fmt.Sprintf("it speaks version %s of the Agent Client Protocol, and descartes version %d: "+
				"install a version of %s that speaks %d", cmp.Or(v, "(none given)"), version, b.argv[0], version)}
	}
	session, err := b.open(ctx, first.AuthMethods)
	if err != nil {
		return b.failure("session/new", err, first.AuthMethods)
	}
	if err := b.chooseMode(ctx, session); err != nil {
		return b.failure("session/set_mode", err, first.AuthMethods)
	}
	model, err := b.chooseModel(ctx, session)
	b.log.print(event{Type: "session", ID: session.Get("sessionId").Str, Model: model})
	if err != nil {
		return b.failure("set the model", err, first.AuthMethods)
	}
	b.mu.Lock()
	b.session, b.turn = session.Get("sessionId").Str, true
	b.mu.Unlock()
	var stop stopped
	err = b.rpc.call(ctx, "session/prompt", map[string]any{"sessionId": b.session,
		"prompt": []any{map[string]any{"type": "text", "text": prompt}}}, &stop)
	if err != nil {
		return b.failure("session/prompt", err, first.AuthMethods)
	}
	b.account(stop)
	return ending(stop.StopReason)
}

// meta is for claude-agent-acp alone: a turn is all that there is, so the agent gets no tool to be woken after it.
func meta() map[string]any {
	return map[string]any{"claudeCode": map[string]any{"options": map[string]any{"disallowedTools": stream.Wakers()}}}
}

// open starts a session. If the agent wants a login first, it gets one that needs nobody: a key in the environment.
func (b *conversation) open(ctx context.Context, methods []authMethod) (session gjson.Result, err error) {
	var raw json.RawMessage
	ask := func() error {
		return b.rpc.call(ctx, "session/new", map[string]any{"cwd": b.tree.dir, "mcpServers": []any{}, "_meta": meta()},
			&raw)
	}
	err = ask()
	if told, ok := errors.AsType[*rpcError](err); ok && told.Code == wantsLogin {
		if at := slices.IndexFunc(methods, func(m authMethod) bool { return m.unattended(b.env) }); at >= 0 {
			if err = b.rpc.call(ctx, "authenticate", map[string]any{"methodId": methods[at].ID},
				&struct{}{}); err == nil {
				err = ask()
			}
		}
	}
	return gjson.ParseBytes(raw), err
}

// wantsLogin is the code of an error that a login would fix.
const wantsLogin = -32000

// unattended reports whether the method works without a person: its variables are set, or it is an API key's and the
// variable of that name is set (gemini-api-key, GEMINI_API_KEY).
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
	return m.Type != "terminal" && strings.HasSuffix(id, "api-key") &&
		env(strings.ToUpper(strings.ReplaceAll(id, "-", "_"))) != ""
}

// failure is the last event of a failed conversation.
func (b *conversation) failure(during string, err error, methods []authMethod) event {
	if err == errGone {
		return event{Type: "exited", Word: "exited", Text: err.Error() + " to " + during}
	}
	var told *rpcError
	if !errors.As(err, &told) {
		e := event{Type: "end", Stop: "error", Text: err.Error()}
		if _, ok := errors.AsType[*modelError](err); ok {
			e.Word = "model_not_found"
		}
		return e
	}
	e := event{Type: "end", Stop: "error", Text: words(told)}
	switch {
	case told.Code == wantsLogin:
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
func words(e *rpcError) string {
	if inner := gjson.Get(e.Message, "error"); inner.Get("message").Str != "" {
		// the service's answer as it came
		return oneline.Clip(strings.TrimSpace(inner.Get("message").Str+" "+inner.Get("status").Str), 2000)
	}
	data := gjson.ParseBytes(e.Data)
	detail := cmp.Or(data.Str, data.Get("details").Str, data.Get("detail").Str, data.Get("message").Str,
		data.Get("error").Str, data.Get("reason").Str)
	if detail == "" || strings.Contains(e.Message, detail) {
		return oneline.Clip(e.Message, 2000)
	}
	return oneline.Clip(e.Message+": "+detail, 2000)
}

// ending is the last event of a turn that the agent ended.
func ending(reason string) event {
	e := event{Type: "end", Stop: reason}
	switch reason {
	case "end_turn":
		e.OK = true
	case "max_tokens":
		e.Word, e.Text = "error_max_tokens", "the model's answer reached its length limit"
	case "max_turn_requests":
		e.Word, e.Text = "error_max_turn_requests", "it reached its limit of requests in a turn"
	case "refusal":
		e.Word, e.Text = "refusal", "the model refuses to continue this task"
	case "cancelled":
		e.Word, e.Text = "cancelled", "it cancelled the turn without being asked to"
	default:
		e.Text = fmt.Sprintf("it stopped for an unknown reason: %q", oneline.Clip(reason, 100))
	}
	return e
}

// account prints what the turn used, and the model that the session's beginning may have called "auto", if reported.
func (b *conversation) account(s stopped) {
	b.mu.Lock()
	defer b.mu.Unlock()
	model, all := s.quotas()
	u := s.Usage
	if u == nil || u.Input+u.Output < all.Input+all.Output {
		u = &all
	}
	if u.Input+u.Output > 0 && !(b.acted && u.lastOnly(b.used.Context)) {
		b.used.Input, b.used.Output, b.used.Thought = u.Input, u.Output, u.Thought
		b.used.CacheRead, b.used.CacheWrite, b.used.Total = u.CacheRead, u.CacheWrite, u.Total
	}
	if model != "" {
		b.log.print(event{Type: "session", ID: b.session, Model: model})
	}
	if b.used != (usage{}) {
		u := b.used
		b.log.print(event{Type: "usage", ACPUsage: &u})
	}
}

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

// outputLimit is how much of a tool's output, of a thought or of a repeated prompt is printed for a person who reads
// the log.
const outputLimit = 2 << 10

// notified takes a notification. Those of other sessions, such as subagents', and of unknown kinds do not matter.
func (b *conversation) notified(method string, params json.RawMessage) {
	var n struct {
		SessionID string `json:"sessionId"`
		Update    update `json:"update"`
	}
	if method != "session/update" || !stream.Decode(params, &n) {
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
func (b *conversation) answered() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.turn = false
}

// piece prints a piece of a message.
func (b *conversation) piece(u update) {
	text := u.Piece.Text
	switch {
	case text == "":
	case u.Kind == "agent_thought_chunk":
		b.log.print(event{Type: "thought", Text: oneline.Last(text, outputLimit)})
	case u.Kind == "user_message_chunk":
		b.log.print(event{Type: "user", Text: oneline.Last(text, outputLimit)})
	default:
		if b.said && u.MessageID != b.message {
			text = "\n\n" + text // another message
		}
		b.said, b.message = true, u.MessageID
		b.log.print(event{Type: "text", Text: text})
	}
}

// tool prints a tool call when it begins, when it is known what it is called with, and when its status changes. More
// output alone is not printed: it would separate the agent's last words from the message they belong to.
func (b *conversation) tool(f toolFields) {
	c, known := b.calls[f.ToolCallID]
	if !known {
		if len(b.calls) >= 10_000 {
			clear(b.calls)
		}
		c = &call{}
		b.calls[f.ToolCallID] = c
	}
	before, named := c.Status, c.known()
	c.merge(f)
	if known && c.Status == before && named == c.known() {
		return
	}
	b.said, b.acted = false, true
	e := event{Type: "tool", ID: f.ToolCallID, Kind: c.Kind, Title: oneline.Clip(c.Title, 500),
		Command: oneline.Clip(c.Command, 500), Status: c.Status}
	if len(c.Paths) > 0 {
		e.Paths = c.Paths[:min(len(c.Paths), 20)]
	}
	if c.Status == "completed" || c.Status == "failed" {
		for _, text := range gjson.ParseBytes(f.Content).Get("#.content.text").Array() {
			e.Text = oneline.Last(e.Text+text.String(), outputLimit)
		}
	}
	b.log.print(e)
}

func (b *conversation) plan(u update) {
	text := ""
	for n, entry := range u.Entries {
		if n == 50 {
			break
		}
		text += "[" + entry.Status + "] " + oneline.Clip(entry.Content, 200) + "\n"
	}
	b.log.print(event{Type: "plan", Text: text})
}

// spend notes the session's cost so far.
func (b *conversation) spend(u update) {
	b.used.Context = u.Used
	if u.Cost != nil && u.Cost.Currency == "USD" && u.Cost.Amount > 0 {
		b.used.USD = u.Cost.Amount
	}
}

// noiseLimit is how many lines of noise are recorded.
const noiseLimit = 50

// noise prints the beginning of a line that is no message.
func (b *conversation) noise(line []byte, size int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.noises++; b.noises <= noiseLimit {
		b.log.print(event{Type: "noise", Bytes: size, Text: oneline.Clip(string(line[:min(len(line), 1000)]), 200)})
	}
}

// serve answers what the program asks.
func (b *conversation) serve(method string, params json.RawMessage) (any, *rpcError) {
	switch method {
	case "session/request_permission":
		return b.permit(params)
	case "fs/write_text_file":
		var q struct {
			Path    string  `json:"path"`
			Content *string `json:"content"`
		}
		if !stream.Decode(params, &q) || q.Content == nil {
			return nil, invalidParams()
		}
		err := b.tree.write(q.Path, *q.Content)
		var outside *outsideError
		switch {
		case errors.As(err, &outside):
			b.log.print(event{Type: "denied", Title: oneline.Clip("write "+q.Path, 300), Text: outside.why})
			return nil, &rpcError{Code: -32602, Message: "not allowed: " + err.Error()}
		case err != nil:
			return nil, &rpcError{Code: -32603, Message: err.Error()}
		}
		return struct{}{}, nil
	}
	return nil, &rpcError{Code: -32601, Message: "Method not found: " + method}
}

func invalidParams() *rpcError { return &rpcError{Code: -32602, Message: "Invalid params"} }

// permit answers a request for permission.
func (b *conversation) permit(params json.RawMessage) (any, *rpcError) {
	var q struct {
		ToolCall toolFields `json:"toolCall"`
		Options  []option   `json:"options"`
	}
	if !stream.Decode(params, &q) {
		return nil, invalidParams()
	}
	b.mu.Lock()
	if b.cancelled {
		b.mu.Unlock()
		return outcome("cancelled", ""), nil
	}
	status := q.ToolCall.Status
	q.ToolCall.Status = cmp.Or(status, "pending")
	b.tool(q.ToolCall)
	c := *b.calls[q.ToolCall.ToolCallID]
	b.mu.Unlock()
	chosen, ok, why := b.tree.answer(c, q.Options)
	what := oneline.Clip(cmp.Or(c.Title, cmp.Or(c.Kind, "a tool")), 300)
	if why != "" {
		b.log.print(event{Type: "denied", Title: what, Kind: c.Kind, Text: why})
	} else {
		b.log.print(event{Type: "allowed", Title: what, Kind: chosen.Kind})
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
