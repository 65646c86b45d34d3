// Package acp is the other side of an agent that speaks the Agent Client
// Protocol. It runs in a process of its own, under the shim like any agent: it
// starts the program, hands over one prompt, answers what the program asks
// without a person, and prints what happens as lines of JSON.
//
// Of the client's abilities it announces the writing of files, which it keeps
// to the working tree. It serves reading too, and does not announce it: there
// are no unsaved buffers here to read from, and gemini 0.61.0 cannot make a new
// file when the client tells it that there is none. Terminals it does not have:
// the agents that were tried run commands themselves, in the shim's tree, and a
// second way of doing that would bring nothing but another place where output
// has to be bounded and processes have to be ended.
package acp

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	sdk "github.com/coder/acp-go-sdk"

	"descartes/agent/process"
	"descartes/internal/proc"
)

const (
	promptLimit = 64 << 20
	// cancelWait is what the program gets to answer session/cancel, endWait what
	// it gets for its end before each harder means. Together they stay below
	// the shim's grace.
	cancelWait = 1500 * time.Millisecond
	endWait    = 800 * time.Millisecond
)

// Serve is the main function of the hidden command: [--model M] -- program
// [arguments], with the prompt on standard input. It returns the exit code: 0
// after a good end, the program's own where it died, 1 for the rest.
func Serve(args []string) int {
	model := ""
	if len(args) > 1 && args[0] == "--model" {
		model, args = args[1], args[2:]
	}
	if len(args) < 2 || args[0] != "--" {
		os.Stderr.WriteString("error: this command is for descartes itself: an agent program is to be given\n")
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

// conversation is one with a program.
type conversation struct {
	log   *eventLog
	model string
	argv  []string
	env   func(string) string
	tree  tree
	peer  *proc.Peer
	conn  *sdk.Connection
	to    *oneWriter

	mu        sync.Mutex
	asked     int           // requests so far, which is the last one's id: the SDK counts them from 1
	taken     chan struct{} // closes when the last one's answer is taken, or given up
	delivered bool          // that answer was handed on
	session   string
	turn      bool // the prompt was handed over and is not answered yet
	cancelled bool // by a signal: what is said from then on does not count
	calls     map[string]*call
	message   string // id of the message whose pieces come
	said      bool   // pieces of a message came since the last tool call
	acted     bool   // a tool was called
	noises    int
	used      Usage
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
		b.peer, err = proc.StartPeer(b.argv)
	}
	if err != nil {
		b.log.print(event{Type: "end", Stop: "error", Word: "not_started", Text: err.Error()})
		return 127
	}
	b.calls = map[string]*call{}
	talk, cancel := context.WithCancelCause(context.Background())
	sorted := b.connect()
	ended := make(chan struct{})
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		b.awaitSignal(ctx, cancel, ended)
	}()
	end := b.converse(talk, string(prompt))
	close(ended)
	<-watched
	code := b.finish(ctx, end)
	cancel(nil)
	<-sorted
	return code
}

// connect lays the SDK's connection over the program's pipes. The channel closes
// when the program's output is read to its end.
func (b *conversation) connect() <-chan struct{} {
	in, out := io.Pipe()
	to := &oneWriter{w: b.peer.In}
	b.to = to
	s := &sorter{in: bufio.NewReaderSize(b.peer.Out, 64<<10), to: out, hear: b.notified, noise: b.noise, answered: b.answered, reply: func(id json.RawMessage, message string) {
		line, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": id, "error": map[string]any{"code": -32600, "message": message}})
		if err == nil {
			_, _ = to.Write(append(line, '\n')) // a program that does not read finds its end anyway
		}
	}}
	b.conn = sdk.NewConnection(b.serve, to, in)
	b.conn.SetLogger(slog.New(slog.DiscardHandler))
	sorted := make(chan struct{})
	go func() {
		defer close(sorted)
		err := s.run()
		b.awaitTaken()
		out.CloseWithError(err)
		_, _ = io.Copy(io.Discard, s.in) // so that the program does not hang in a write
	}()
	return sorted
}

// awaitTaken waits until an answer that was handed on is taken. The SDK forgets it
// where the connection closes at the same time, as it does when a program
// answers and exits.
func (b *conversation) awaitTaken() {
	b.mu.Lock()
	taken, delivered := b.taken, b.delivered
	b.mu.Unlock()
	if delivered {
		<-taken
	}
}

// awaitSignal waits for a signal or the end of the conversation. After a signal the
// program is asked to stop, and after a while the conversation is over.
func (b *conversation) awaitSignal(ctx context.Context, cancel context.CancelCauseFunc, ended <-chan struct{}) {
	select {
	case <-ended:
		return
	case <-ctx.Done():
	}
	b.mu.Lock()
	b.cancelled = true
	session, turn := b.session, b.turn
	b.mu.Unlock()
	if turn {
		go func() { // it may not read
			_ = b.conn.SendNotification(context.Background(), sdk.AgentMethodSessionCancel, sdk.CancelNotification{SessionId: sdk.SessionId(session)})
		}()
		timer := time.NewTimer(cancelWait)
		defer timer.Stop()
		select {
		case <-ended:
		case <-timer.C:
		}
	}
	cancel(errCancelled)
}

var errCancelled = errors.New("ended by a signal")

// finish prints the last event, ends the program and gives the exit code.
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

// oneWriter writes one message at a time.
type oneWriter struct {
	mu     sync.Mutex
	w      io.Writer
	broken bool // nobody reads any more
}

func (o *oneWriter) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	n, err := o.w.Write(p)
	o.broken = o.broken || err != nil
	return n, err
}

func (o *oneWriter) isBroken() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.broken
}

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
func (b *conversation) converse(ctx context.Context, prompt string) event {
	first, err := ask[initialized](ctx, b, sdk.AgentMethodInitialize, map[string]any{
		"protocolVersion":    sdk.ProtocolVersionNumber,
		"clientCapabilities": map[string]any{"fs": map[string]any{"readTextFile": false, "writeTextFile": true}, "terminal": false},
		"clientInfo":         map[string]any{"name": "descartes", "version": "1"},
	})
	if err != nil {
		return b.failure("initialize", err, nil)
	}
	b.log.print(event{Type: "agent", Name: first.AgentInfo.Name, Version: first.AgentInfo.Version})
	if v := first.ProtocolVersion.String(); v != fmt.Sprint(sdk.ProtocolVersionNumber) {
		return event{Type: "end", Stop: "error", Word: "invalid_request", Text: fmt.Sprintf("it speaks version %s of the Agent Client Protocol, and descartes version %d: "+
			"install a version of %s that speaks %d", or(v, "(none told)"), sdk.ProtocolVersionNumber, b.argv[0], sdk.ProtocolVersionNumber)}
	}
	session, err := b.open(ctx, first.AuthMethods)
	if err != nil {
		return b.failure("session/new", err, first.AuthMethods)
	}
	model, err := b.chooseModel(ctx, session)
	b.log.print(event{Type: "session", ID: session.SessionID, Model: model})
	if err != nil {
		return b.failure("set the model", err, first.AuthMethods)
	}
	b.mu.Lock()
	b.session, b.turn = session.SessionID, true
	b.mu.Unlock()
	stop, err := ask[stopped](ctx, b, sdk.AgentMethodSessionPrompt, sdk.PromptRequest{SessionId: sdk.SessionId(session.SessionID), Prompt: []sdk.ContentBlock{sdk.TextBlock(prompt)}})
	if err != nil {
		return b.failure("session/prompt", err, first.AuthMethods)
	}
	b.account(stop)
	return ending(stop.StopReason)
}

// ask sends a request and waits for its answer.
func ask[T any](ctx context.Context, b *conversation, method string, params any) (T, error) {
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
func (b *conversation) open(ctx context.Context, methods []authMethod) (session newSession, err error) {
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

// failure is the last event of a conversation that went wrong.
func (b *conversation) failure(during string, err error, methods []authMethod) event {
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
func (b *conversation) account(s stopped) {
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
		b.log.print(event{Type: "usage", Usage: &u})
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

// outputLimit is how much of a tool's output, of a thought or of a repeated
// prompt is printed: for a person who looks into the log.
const outputLimit = 2 << 10

// notified takes a notification. Those of other sessions, as of subagents, and of
// kinds that are not known do not matter.
func (b *conversation) notified(method string, params json.RawMessage) {
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
func (b *conversation) answered(id string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if id == strconv.Itoa(b.asked) {
		b.turn, b.delivered = false, true
	}
}

// piece prints a piece of a message.
func (b *conversation) piece(u update) {
	text := u.Piece.Text
	switch {
	case text == "":
	case u.Kind == "agent_thought_chunk":
		b.log.print(event{Type: "thought", Text: tail(text, outputLimit)})
	case u.Kind == "user_message_chunk":
		b.log.print(event{Type: "user", Text: tail(text, outputLimit)})
	default:
		if b.said && u.MessageID != b.message {
			text = "\n\n" + text // another message
		}
		b.said, b.message = true, u.MessageID
		b.log.print(event{Type: "text", Text: text})
	}
}

// tool prints a tool call when it begins and when its status changes. What is
// only more of its output would take the last words from a message that follows.
func (b *conversation) tool(f toolFields) {
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
	b.log.print(e)
}

func (b *conversation) plan(u update) {
	text := ""
	for n, entry := range u.Entries {
		if n == 50 {
			break
		}
		text += "[" + entry.Status + "] " + clip(entry.Content, 200) + "\n"
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

// noise prints the beginning of a line that is no message.
func (b *conversation) noise(line []byte, size int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.noises++; b.noises <= noiseLimit {
		b.log.print(event{Type: "noise", Bytes: size, Text: clip(string(line[:min(len(line), 1000)]), 200)})
	}
}

// serve answers what the program asks.
func (b *conversation) serve(_ context.Context, method string, params json.RawMessage) (any, *sdk.RequestError) {
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
func (b *conversation) refuse(what string, err error) *sdk.RequestError {
	var outside *outsideError
	if errors.As(err, &outside) {
		b.log.print(event{Type: "denied", Title: clip(what, 300), Text: outside.why})
		return &sdk.RequestError{Code: -32602, Message: "not allowed: " + err.Error()}
	}
	if errors.Is(err, fs.ErrNotExist) {
		return &sdk.RequestError{Code: -32002, Message: "Resource not found: " + err.Error()} // gemini knows it by these words
	}
	return &sdk.RequestError{Code: -32603, Message: err.Error()}
}

// permit answers a request for permission.
func (b *conversation) permit(params json.RawMessage) (any, *sdk.RequestError) {
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
