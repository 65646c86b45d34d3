package acp

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// script is an agent that does what its scenario says, one message after the other.
type script struct {
	in     *bufio.Reader
	nextID int
	prompt json.RawMessage // id of session/prompt
	text   string          // what it was given
}

func actScript(name string) {
	a := &script{in: bufio.NewReader(os.Stdin), nextID: 100}
	play, ok := scenarios()[name]
	if !ok {
		fmt.Fprintln(os.Stderr, "no scenario", name)
		os.Exit(98)
	}
	play(a)
	_, _ = io.Copy(io.Discard, a.in) // until nobody talks any more
}

func (a *script) line(v any) {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	os.Stdout.Write(append(b, '\n'))
}

func (a *script) read() message {
	line, err := a.in.ReadBytes('\n')
	if err != nil {
		os.Exit(97)
	}
	var m message
	if err := json.Unmarshal(line, &m); err != nil {
		panic(err)
	}
	return m
}

// await reads until a message of this method comes.
func (a *script) await(method string) message {
	for {
		if m := a.read(); m.Method == method {
			return m
		}
	}
}

func (a *script) answer(id json.RawMessage, result any) {
	a.line(map[string]any{"jsonrpc": "2.0", "id": id, "result": result})
}

func (a *script) fail(id json.RawMessage, code int, text string, data any) {
	a.line(map[string]any{"jsonrpc": "2.0", "id": id, "error": map[string]any{"code": code, "message": text,
		"data": data}})
}

// open goes as far as the prompt, with these answers.
func (a *script) open(hello, session map[string]any) {
	m := a.await("initialize")
	if hello["protocolVersion"] == nil {
		hello["protocolVersion"] = 1
	}
	a.answer(m.ID, hello)
	m = a.await("session/new")
	session["sessionId"] = "s1"
	a.answer(m.ID, session)
	a.take()
}

func (a *script) take() {
	m := a.await("session/prompt")
	a.prompt = m.ID
	var p struct{ Prompt []struct{ Text string } }
	if err := json.Unmarshal(m.Params, &p); err != nil {
		panic(err)
	}
	a.text = p.Prompt[0].Text
}

func (a *script) start() { a.open(map[string]any{}, map[string]any{}) }

func (a *script) update(kind string, more map[string]any) {
	more["sessionUpdate"] = kind
	a.line(map[string]any{"jsonrpc": "2.0", "method": "session/update",
		"params": map[string]any{"sessionId": "s1", "update": more}})
}

func (a *script) chunk(kind, text string) {
	a.update(kind, map[string]any{"content": map[string]any{"type": "text", "text": text}})
}

func (a *script) say(text string) { a.chunk("agent_message_chunk", text) }

func (a *script) stop(reason string) { a.answer(a.prompt, map[string]any{"stopReason": reason}) }

// ask sends a request and says what came back.
func (a *script) ask(method string, params map[string]any) {
	a.nextID++
	params["sessionId"] = "s1"
	a.line(map[string]any{"jsonrpc": "2.0", "id": a.nextID, "method": method, "params": params})
	for {
		m := a.read()
		if string(m.ID) == fmt.Sprint(a.nextID) && m.Method == "" {
			if m.Error != nil {
				text, _ := json.Marshal(m.Error)
				a.say(fmt.Sprintf("[%s]\n", text))
			} else {
				a.say(fmt.Sprintf("[%s]\n", m.Result))
			}
			return
		}
	}
}

// may asks for permission to touch a path.
func (a *script) may(kind, path string) {
	call := map[string]any{"toolCallId": kind + path, "title": kind + " " + path, "kind": kind}
	if path != "" {
		call["locations"] = []any{map[string]any{"path": path}}
	}
	a.ask("session/request_permission", map[string]any{"toolCall": call, "options": []any{
		map[string]any{"optionId": "always", "kind": "allow_always"},
		map[string]any{"optionId": "once", "kind": "allow_once"},
		map[string]any{"optionId": "never", "kind": "reject_always"},
		map[string]any{"optionId": "no", "kind": "reject_once"}}})
}

func scenarios() map[string]func(*script) {
	return map[string]func(*script){
		"good": func(a *script) {
			a.open(map[string]any{"agentInfo": map[string]any{"name": "scripted", "version": "7"},
				"agentCapabilities": map[string]any{"news": []int{1}}}, map[string]any{})
			a.chunk("user_message_chunk", a.text)
			a.chunk("agent_thought_chunk", "<promise>COMPLETE</promise>")
			a.say("I will. <promise>COMPLETE</promise>")
			a.update("tool_call", map[string]any{"toolCallId": "t", "title": "make it", "kind": "edit",
				"status": "pending", "locations": []any{map[string]any{"path": "a.txt"}}})
			a.update("tool_call_update", map[string]any{"toolCallId": "t", "status": "completed",
				"content": []any{map[string]any{"type": "content",
					"content": map[string]any{"type": "text", "text": "made"}}}})
			a.update("plan", map[string]any{"entries": []any{
				map[string]any{"content": "do it", "status": "completed"}}})
			a.update("of_the_future", map[string]any{"content": 7})
			a.update("usage_update", map[string]any{"used": 500, "size": 1000,
				"cost": map[string]any{"amount": 0.25, "currency": "USD"}})
			for _, piece := range []string{"Done.\n<pro", "mise>COMP", "LETE</promise>\n"} {
				a.say(piece)
			}
			// no change of its status
			a.update("tool_call_update", map[string]any{"toolCallId": "t", "content": []any{}})
			a.answer(a.prompt, map[string]any{"stopReason": "end_turn",
				"usage": map[string]any{"inputTokens": 900, "outputTokens": 30, "cachedReadTokens": 100,
					"totalTokens": 1030}})
			a.say("and one more thing")
		},
		"ask": func(a *script) {
			a.start()
			a.may("edit", "in.txt")
			a.may("edit", filepath.Join(mustGetwd(), "deep", "new", "in.txt"))
			a.may("edit", "../out.txt")
			a.may("edit", "/etc/passwd")
			a.may("edit", "link/out.txt")
			a.may("edit", "dangling")
			a.may("delete", ".git/config")
			a.may("edit", "sub/.git")
			a.may("edit", ".scud/tasks/x.json")
			a.may("edit", "sub/../.descartes/x")
			a.may("edit", "")
			a.may("read", "inner")
			a.may("read", ".git/config")
			a.may("read", "/etc/passwd")
			a.may("execute", "/usr/bin")
			a.may("fetch", "https://example.org/")
			a.may("mystery", "in.txt")
			a.may("mystery", "/etc/passwd")
			a.may("mystery", "")
			a.stop("end_turn")
		},
		"ask-later": func(a *script) { // what it asks for was told before
			a.start()
			a.update("tool_call", map[string]any{"toolCallId": "t", "title": "write", "kind": "edit",
				"status": "pending", "rawInput": map[string]any{"file_path": "/etc/passwd"}})
			options := []any{map[string]any{"optionId": "yes", "kind": "allow_always"}}
			a.ask("session/request_permission", map[string]any{"toolCall": map[string]any{"toolCallId": "t"},
				"options": options})
			a.ask("session/request_permission", map[string]any{
				"toolCall": map[string]any{"toolCallId": "u", "kind": "edit",
					"content": []any{map[string]any{"type": "diff", "path": "in.txt"}}}, "options": options})
			a.ask("session/request_permission", map[string]any{
				"toolCall": map[string]any{"toolCallId": "v", "kind": "edit",
					"rawInput": map[string]any{"changes": map[string]any{"/etc/x": 1}}}, "options": options})
			a.ask("terminal/create", map[string]any{"command": "ls"})
			a.stop("end_turn")
		},
		"files": func(a *script) {
			a.start()
			write := func(path, text string) {
				a.ask("fs/write_text_file", map[string]any{"path": path, "content": text})
			}
			a.ask("fs/read_text_file", map[string]any{"path": "in.txt"})
			write("in.txt", "new\n")
			write("deep/er/new.txt", "made\n")
			write("inner", "through a link\n")
			write("../out.txt", "bad")
			write("link/out.txt", "bad")
			write("dangling", "bad")
			write(".git/config", "bad")
			write("sub/.GIT/config", "bad")
			write(".descartes/x", "bad")
			write("sub", "bad")
			write("fifo", "bad")
			a.ask("fs/write_text_file", map[string]any{"path": "in.txt"})
			a.stop("end_turn")
		},
		"silent": func(a *script) {
			a.read()
			if err := os.WriteFile("asked", nil, 0o600); err != nil {
				panic(err)
			}
			a.await("never")
		},
		"dies": func(a *script) {
			a.start()
			a.say("<promise>COMPLETE</promise>")
			fmt.Fprintln(os.Stderr, "out of memory")
			os.Exit(3)
		},
		"dies-first": func(a *script) { os.Exit(41) },
		"leaves":     func(a *script) { a.start(); os.Exit(0) },
		"killed": func(a *script) {
			a.start()
			self, err := os.FindProcess(os.Getpid())
			if err == nil {
				_ = self.Kill()
			}
			time.Sleep(time.Hour)
		},
		"nonsense": func(a *script) {
			os.Stdout.WriteString("Welcome!\n\n[1,2]\n{\"half\":\n{}\n42\n\x00\xff\n{\"id\":null}\n")
			a.start()
			os.Stdout.WriteString("{\"jsonrpc\":\"2.0\",\"id\":77,\"result\":{}}\n{\"jsonrpc\":\"2.0\",\"method\":\"session/update\",\"params\":[]}\n")
			a.say("fine")
			a.line(map[string]any{"jsonrpc": "2.0", "method": "session/update",
				"params": map[string]any{"sessionId": "another",
					"update": map[string]any{"sessionUpdate": "agent_message_chunk",
						"content": map[string]any{"type": "text", "text": "not mine"}}}})
			a.ask("no/such", map[string]any{})
			a.stop("end_turn")
		},
		"long": func(a *script) {
			a.start()
			big := strings.Repeat("x", 20<<20)
			a.update("tool_call", map[string]any{"toolCallId": "t", "status": "completed",
				"content": []any{map[string]any{"type": "content",
					"content": map[string]any{"type": "text", "text": big}}}})
			a.ask("fs/write_text_file", map[string]any{"path": "in.txt", "content": big[:9<<20]})
			os.Stdout.WriteString(strings.Repeat(big, 2) + "\n")
			a.say("still here")
			a.stop("end_turn")
		},
		"flood": func(a *script) {
			a.start()
			for range 5_000 {
				a.say("x")
			}
			a.stop("end_turn")
		},
		"cancel": func(a *script) {
			a.start()
			a.say("working")
			a.await("session/cancel")
			a.say("<promise>COMPLETE</promise>")
			a.may("edit", "in.txt")
			a.stop("cancelled")
			_ = os.WriteFile("cancelled", nil, 0o666)
		},
		"deaf": func(a *script) {
			a.start()
			a.say("working")
			time.Sleep(time.Hour)
		},
		"stays": func(a *script) { // after its end
			a.start()
			a.say("done")
			a.stop("end_turn")
			time.Sleep(time.Hour)
		},
		"version":  func(a *script) { a.open(map[string]any{"protocolVersion": 2}, map[string]any{}) },
		"refuses":  func(a *script) { a.start(); a.stop("refusal") },
		"tokens":   func(a *script) { a.start(); a.stop("max_tokens") },
		"turns":    func(a *script) { a.start(); a.stop("max_turn_requests") },
		"gives-up": func(a *script) { a.start(); a.stop("cancelled") },
		"new-stop": func(a *script) { a.start(); a.stop("sunset") },
		"limit": func(a *script) {
			a.start()
			a.fail(a.prompt, 429, "You have exhausted your daily quota on this model.", nil)
		},
		"broken": func(a *script) {
			a.start()
			a.fail(a.prompt, -32603, "Internal error", map[string]any{"details": "the model server is down"})
		},
		"raw": func(a *script) {
			a.start()
			a.fail(a.prompt, 400, `{"error":{"code":400,"message":"API key not valid.","status":"INVALID_ARGUMENT"}}`,
				nil)
		},
		"login": func(a *script) { actLogin(a) },
		"models": func(a *script) {
			a.await("initialize")
			a.answer(json.RawMessage("1"), map[string]any{"protocolVersion": 1})
			a.await("session/new")
			a.answer(json.RawMessage("2"), map[string]any{"sessionId": "s1",
				"models": map[string]any{"currentModelId": "small", "availableModels": []any{
					map[string]any{"modelId": "small", "name": "Small"},
					map[string]any{"modelId": "big", "name": "Big One"}}}})
			a.setModel("session/set_model")
		},
		"options": func(a *script) {
			a.await("initialize")
			a.answer(json.RawMessage("1"), map[string]any{"protocolVersion": 1})
			a.await("session/new")
			a.answer(json.RawMessage("2"), map[string]any{"sessionId": "s1", "configOptions": []any{
				map[string]any{"id": "fast", "type": "boolean", "currentValue": true},
				map[string]any{"id": "m", "category": "model", "type": "select", "currentValue": "small",
					"options": []any{
						map[string]any{"group": "g", "name": "G",
							"options": []any{map[string]any{"value": "big", "name": "Big One"}}}}}}})
			a.setModel("session/set_config_option")
		},
		"reads":                           actReads("read-only"),
		"read-only":                       actReads("read-only"),
		"trusted":                         actReads("auto"),
		"judges":                          actJudges("auto"),
		"plans":                           actJudges("plan"),
		"-c sandbox_mode=workspace-write": actReads("auto"),
		"names-later": func(a *script) { // what is run and written, as claude-agent-acp does
			a.start()
			options := []any{map[string]any{"optionId": "once", "kind": "allow_once"}}
			a.update("tool_call", map[string]any{"toolCallId": "t", "title": "Terminal", "kind": "execute",
				"status": "pending", "rawInput": map[string]any{}})
			a.update("tool_call_update", map[string]any{"toolCallId": "t", "title": "make check",
				"rawInput": map[string]any{"command": "make check"}})
			a.update("tool_call_update", map[string]any{"toolCallId": "t", "status": "completed"})
			a.update("tool_call", map[string]any{"toolCallId": "u", "title": "Write", "kind": "edit",
				"status": "pending"})
			a.update("tool_call_update", map[string]any{"toolCallId": "u",
				"rawInput": map[string]any{"file_path": "a.txt"}})
			a.update("tool_call", map[string]any{"toolCallId": "v", "title": "Shell", "kind": "execute",
				"status": "in_progress", "rawInput": map[string]any{"command": []string{"bash", "-lc", "go vet"}}})
			a.ask("session/request_permission", map[string]any{
				"toolCall": map[string]any{"toolCallId": "w", "title": "Fetch", "kind": "fetch"}, "options": options})
			a.stop("end_turn")
		},
		"no-models": func(a *script) { a.start(); a.stop("end_turn") },
		"last-only": func(a *script) {
			a.start()
			a.update("tool_call", map[string]any{"toolCallId": "t", "status": "completed"})
			a.update("usage_update", map[string]any{"used": 1400,
				"cost": map[string]any{"amount": 0.5, "currency": "USD"}})
			a.answer(a.prompt, map[string]any{"stopReason": "end_turn",
				"usage": map[string]any{"inputTokens": 1400, "outputTokens": 20, "totalTokens": 1420}})
		},
		"meta": func(a *script) {
			a.start()
			a.answer(a.prompt, map[string]any{"stopReason": "end_turn",
				"_meta": map[string]any{"quota": map[string]any{
					"token_count": map[string]any{"input_tokens": 7, "output_tokens": 3}, "model_usage": []any{
						map[string]any{"model": "router", "token_count": map[string]any{"input_tokens": 2, "output_tokens": 1}},
						map[string]any{"model": "writer", "token_count": map[string]any{"input_tokens": 5, "output_tokens": 2}}}}}})
		},
		"models' meta": func(a *script) {
			a.start()
			a.answer(a.prompt, map[string]any{"stopReason": "end_turn",
				"usage": map[string]any{"inputTokens": 70, "outputTokens": 3, "cachedReadTokens": 5, "totalTokens": 78},
				"_meta": map[string]any{"quota": map[string]any{"model_usage": []any{map[string]any{"model": "writer",
					"token_count": map[string]any{"inputTokens": 90, "outputTokens": 4, "cachedInputTokens": 6,
						"totalTokens": 100}}}}}})
		},
		"odd meta": func(a *script) {
			a.start()
			a.answer(a.prompt, map[string]any{"stopReason": "end_turn", "_meta": map[string]any{"quota": "plenty"}})
		},
	}
}

func mustGetwd() string {
	dir, err := os.Getwd()
	if err != nil {
		panic(err)
	}
	return dir
}

// setModel says which model was asked for, and works with it.
func (a *script) setModel(method string) {
	m := a.read()
	if m.Method == method {
		a.answer(m.ID, map[string]any{})
		a.take()
		a.say(string(m.Params))
	} else {
		a.prompt = m.ID
	}
	a.stop("end_turn")
}

// actReads has codex-acp's modes, and begins in this one; actJudges has those of claude-agent-acp.
func actReads(mode string) func(*script) {
	return func(a *script) { a.beginIn(mode, "read-only", "auto", "full-access") }
}

func actJudges(mode string) func(*script) {
	return func(a *script) { a.beginIn(mode, "default", "acceptEdits", "plan", "auto", "bypassPermissions") }
}

func (a *script) beginIn(mode string, modes ...string) {
	var offered []any
	for _, id := range modes {
		offered = append(offered, map[string]any{"id": id})
	}
	a.await("initialize")
	a.answer(json.RawMessage("1"), map[string]any{"protocolVersion": 1})
	a.await("session/new")
	a.answer(json.RawMessage("2"), map[string]any{"sessionId": "s1",
		"modes": map[string]any{"currentModeId": mode, "availableModes": offered}})
	a.setModel("session/set_mode")
}

// actLogin wants a login, and takes the key that is said to be in the environment.
func actLogin(a *script) {
	m := a.await("initialize")
	a.answer(m.ID, map[string]any{"protocolVersion": 1, "authMethods": []any{
		map[string]any{"id": "oauth", "name": "Log in"}, map[string]any{"id": "scripted-api-key", "name": "Key"}}})
	for in := false; ; {
		switch m = a.read(); m.Method {
		case "authenticate":
			in = strings.Contains(string(m.Params), `"scripted-api-key"`)
			a.answer(m.ID, map[string]any{})
		case "session/new":
			if !in {
				a.fail(m.ID, -32000, "Authentication required", nil)
				continue
			}
			a.answer(m.ID, map[string]any{"sessionId": "s1"})
			a.take()
			a.stop("end_turn")
			return
		}
	}
}
