package main

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"time"
)

// id is a name for a part of an answer; no two are alike.
func id(prefix string) string { return fmt.Sprintf("%s_fake%08x", prefix, rand.Uint64()) }

func writeJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	json.NewEncoder(w).Encode(v)
}

type sse struct {
	w http.ResponseWriter
	f http.Flusher
}

func newSSE(w http.ResponseWriter) *sse {
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-cache")
	w.WriteHeader(200)
	f, _ := w.(http.Flusher)
	return &sse{w, f}
}

func (s *sse) send(event string, v any) {
	b, _ := json.Marshal(v)
	if event != "" {
		fmt.Fprintf(s.w, "event: %s\n", event)
	}
	fmt.Fprintf(s.w, "data: %s\n\n", b)
	if s.f != nil {
		s.f.Flush()
	}
}

func (s *sse) raw(line string) {
	fmt.Fprintf(s.w, "data: %s\n\n", line)
	if s.f != nil {
		s.f.Flush()
	}
}

type m = map[string]any

// chunks splits text for streaming; pause is the wait between two.
func chunks(t Turn) (parts []string, pause time.Duration) {
	text := t.Text
	if n := t.TextBytes - len(text); n > 0 {
		text = strings.Repeat("x", n-1) + "\n" + text
	}
	pause = time.Duration(t.ChunkMS) * time.Millisecond
	size := len(text)/8 + 1
	if t.ChunkMS > 0 {
		size = 5
	}
	for len(text) > 0 {
		n := min(size, len(text))
		parts = append(parts, text[:n])
		text = text[n:]
	}
	return parts, pause
}

func (t Turn) usage() Usage {
	if t.Usage != nil {
		return *t.Usage
	}
	return defaultUsage
}

func (t Turn) full() string {
	p, _ := chunks(t)
	return strings.Join(p, "")
}

func beginOnly(s *sse, c *Conv) {
	switch c.API {
	case "anthropic":
		s.send("message_start", m{"type": "message_start", "message": m{"id": id("msg"), "type": "message",
			"role": "assistant", "model": c.Model,
			"content": []any{}, "stop_reason": nil, "stop_sequence": nil,
			"usage": m{"input_tokens": 1200, "output_tokens": 1}}})
		s.send("content_block_start", m{"type": "content_block_start", "index": 0,
			"content_block": m{"type": "text", "text": ""}})
		s.send("content_block_delta", m{"type": "content_block_delta", "index": 0,
			"delta": m{"type": "text_delta", "text": "I begin"}})
	case "chat":
		s.send("", m{"id": id("chatcmpl"), "object": "chat.completion.chunk", "created": time.Now().Unix(),
			"model": c.Model,
			"choices": []any{m{"index": 0, "delta": m{"role": "assistant", "content": "I begin"},
				"finish_reason": nil}}})
	case "responses":
		s.send("response.created", m{"type": "response.created", "sequence_number": 0,
			"response": m{"id": id("resp"), "object": "response", "status": "in_progress", "model": c.Model,
				"output": []any{}}})
	case "gemini":
		s.send("", m{"candidates": []any{m{"content": m{"role": "model", "parts": []any{m{"text": "I begin"}}},
			"index": 0}}, "modelVersion": c.Model})
	}
}

func answer(w http.ResponseWriter, c *Conv, t Turn) {
	call := t.call(c.Tools, c.cwd())
	switch c.API {
	case "anthropic":
		answerAnthropic(w, c, t, call)
	case "chat":
		answerChat(w, c, t, call)
	case "responses":
		answerResponses(w, c, t, call)
	case "gemini":
		answerGemini(w, c, t, call)
	}
}

func answerAnthropic(w http.ResponseWriter, c *Conv, t Turn, call *Call) {
	u := t.usage()
	stop := "end_turn"
	if call != nil {
		stop = "tool_use"
	}
	usage := m{"input_tokens": u.Input - u.CacheRead, "cache_creation_input_tokens": 0,
		"cache_read_input_tokens": u.CacheRead, "output_tokens": u.Output, "service_tier": "standard"}
	if !c.Stream {
		var content []any
		if t.Think != "" {
			content = append(content, m{"type": "thinking", "thinking": t.Think, "signature": "ZmFrZQ=="})
		}
		if t.Text != "" || call == nil {
			content = append(content, m{"type": "text", "text": t.full()})
		}
		if call != nil {
			content = append(content, m{"type": "tool_use", "id": id("toolu"), "name": call.Name, "input": call.Args})
		}
		writeJSON(w, 200, m{"id": id("msg"), "type": "message", "role": "assistant", "model": c.Model,
			"content":     content,
			"stop_reason": stop, "stop_sequence": nil, "usage": usage})
		return
	}
	s := newSSE(w)
	start := m{}
	for k, v := range usage {
		start[k] = v
	}
	start["output_tokens"] = 1
	s.send("message_start", m{"type": "message_start", "message": m{"id": id("msg"), "type": "message",
		"role": "assistant", "model": c.Model,
		"content": []any{}, "stop_reason": nil, "stop_sequence": nil, "usage": start}})
	i := 0
	block := func(open m, deltas []m, pause time.Duration) {
		s.send("content_block_start", m{"type": "content_block_start", "index": i, "content_block": open})
		for _, d := range deltas {
			s.send("content_block_delta", m{"type": "content_block_delta", "index": i, "delta": d})
			time.Sleep(pause)
		}
		s.send("content_block_stop", m{"type": "content_block_stop", "index": i})
		i++
	}
	if t.Think != "" {
		block(m{"type": "thinking", "thinking": "", "signature": ""},
			[]m{{"type": "thinking_delta", "thinking": t.Think}, {"type": "signature_delta", "signature": "ZmFrZQ=="}},
			0)
	}
	if t.Text != "" || call == nil {
		parts, pause := chunks(t)
		var ds []m
		for _, p := range parts {
			ds = append(ds, m{"type": "text_delta", "text": p})
		}
		block(m{"type": "text", "text": ""}, ds, pause)
	}
	if call != nil {
		b, _ := json.Marshal(call.Args)
		block(m{"type": "tool_use", "id": id("toolu"), "name": call.Name, "input": m{}},
			[]m{{"type": "input_json_delta", "partial_json": string(b)}}, 0)
	}
	s.send("message_delta", m{"type": "message_delta", "delta": m{"stop_reason": stop, "stop_sequence": nil},
		"usage": usage})
	s.send("message_stop", m{"type": "message_stop"})
}

func answerChat(w http.ResponseWriter, c *Conv, t Turn, call *Call) {
	u := t.usage()
	usage := m{"prompt_tokens": u.Input, "completion_tokens": u.Output, "total_tokens": u.Input + u.Output,
		"prompt_tokens_details":     m{"cached_tokens": u.CacheRead},
		"completion_tokens_details": m{"reasoning_tokens": u.Reasoning}}
	cid, now := id("chatcmpl"), time.Now().Unix()
	stop := "stop"
	var tc m
	if call != nil {
		stop = "tool_calls"
		b, _ := json.Marshal(call.Args)
		tc = m{"index": 0, "id": id("call"), "type": "function",
			"function": m{"name": call.Name, "arguments": string(b)}}
	}
	if !c.Stream {
		msg := m{"role": "assistant", "content": t.full()}
		if tc != nil {
			delete(tc, "index")
			msg["tool_calls"] = []any{tc}
		}
		writeJSON(w, 200, m{"id": cid, "object": "chat.completion", "created": now, "model": c.Model,
			"choices": []any{m{"index": 0, "message": msg, "finish_reason": stop}}, "usage": usage})
		return
	}
	s := newSSE(w)
	chunk := func(delta m, fin any) {
		s.send("", m{"id": cid, "object": "chat.completion.chunk", "created": now, "model": c.Model,
			"choices": []any{m{"index": 0, "delta": delta, "finish_reason": fin}}})
	}
	chunk(m{"role": "assistant", "content": ""}, nil)
	if t.Think != "" {
		chunk(m{"reasoning_content": t.Think}, nil)
	}
	parts, pause := chunks(t)
	for _, p := range parts {
		chunk(m{"content": p}, nil)
		time.Sleep(pause)
	}
	if tc != nil {
		chunk(m{"tool_calls": []any{tc}}, nil)
	}
	chunk(m{}, stop)
	s.send("", m{"id": cid, "object": "chat.completion.chunk", "created": now, "model": c.Model, "choices": []any{},
		"usage": usage})
	s.raw("[DONE]")
}

func answerResponses(w http.ResponseWriter, c *Conv, t Turn, call *Call) {
	u := t.usage()
	rid := id("resp")
	usage := m{"input_tokens": u.Input, "input_tokens_details": m{"cached_tokens": u.CacheRead},
		"output_tokens":         u.Output,
		"output_tokens_details": m{"reasoning_tokens": u.Reasoning}, "total_tokens": u.Input + u.Output}
	var output []any
	resp := func(status string) m {
		r := m{"id": rid, "object": "response", "created_at": time.Now().Unix(), "status": status, "model": c.Model,
			"output":              output,
			"parallel_tool_calls": false, "tool_choice": "auto", "tools": []any{}, "error": nil,
			"incomplete_details": nil}
		if status == "completed" {
			r["usage"] = usage
		}
		return r
	}
	text := t.full()
	var items []m
	if t.Think != "" {
		items = append(items, m{"type": "reasoning", "id": id("rs"),
			"summary": []any{m{"type": "summary_text", "text": t.Think}}})
	}
	if text != "" || call == nil {
		items = append(items, m{"type": "message", "id": id("msg"), "status": "completed", "role": "assistant",
			"content": []any{m{"type": "output_text", "text": text, "annotations": []any{}}}})
	}
	if call != nil {
		if call.Name == "local_shell" {
			items = append(items, m{"type": "local_shell_call", "id": id("lsh"), "call_id": id("call"),
				"status": "completed",
				"action": m{"type": "exec", "command": []any{"bash", "-lc", t.Shell}, "env": m{}}})
		} else {
			b, _ := json.Marshal(call.Args)
			items = append(items, m{"type": "function_call", "id": id("fc"), "call_id": id("call"),
				"status": "completed", "name": call.Name, "arguments": string(b)})
		}
	}
	if !c.Stream {
		for _, it := range items {
			output = append(output, it)
		}
		writeJSON(w, 200, resp("completed"))
		return
	}
	s := newSSE(w)
	n := 0
	send := func(typ string, v m) {
		v["type"], v["sequence_number"] = typ, n
		n++
		s.send(typ, v)
	}
	send("response.created", m{"response": resp("in_progress")})
	for i, it := range items {
		open := m{}
		for k, v := range it {
			open[k] = v
		}
		open["status"] = "in_progress"
		if it["type"] == "message" {
			open["content"] = []any{}
		}
		if it["type"] == "function_call" {
			open["arguments"] = ""
		}
		send("response.output_item.added", m{"output_index": i, "item": open})
		switch it["type"] {
		case "message":
			send("response.content_part.added", m{"item_id": it["id"], "output_index": i, "content_index": 0,
				"part": m{"type": "output_text", "text": "", "annotations": []any{}}})
			parts, pause := chunks(t)
			for _, p := range parts {
				send("response.output_text.delta", m{"item_id": it["id"], "output_index": i, "content_index": 0,
					"delta": p})
				time.Sleep(pause)
			}
			send("response.output_text.done", m{"item_id": it["id"], "output_index": i, "content_index": 0,
				"text": text})
			send("response.content_part.done", m{"item_id": it["id"], "output_index": i, "content_index": 0,
				"part": m{"type": "output_text", "text": text, "annotations": []any{}}})
		case "function_call":
			send("response.function_call_arguments.delta", m{"item_id": it["id"], "output_index": i,
				"delta": it["arguments"]})
			send("response.function_call_arguments.done", m{"item_id": it["id"], "output_index": i,
				"arguments": it["arguments"]})
		}
		send("response.output_item.done", m{"output_index": i, "item": it})
		output = append(output, it)
	}
	send("response.completed", m{"response": resp("completed")})
}

func answerGemini(w http.ResponseWriter, c *Conv, t Turn, call *Call) {
	u := t.usage()
	usage := m{"promptTokenCount": u.Input, "candidatesTokenCount": u.Output,
		"totalTokenCount":         u.Input + u.Output + u.Reasoning,
		"cachedContentTokenCount": u.CacheRead, "thoughtsTokenCount": u.Reasoning}
	part := func(parts []any, fin bool) m {
		cand := m{"content": m{"role": "model", "parts": parts}, "index": 0}
		r := m{"candidates": []any{cand}, "modelVersion": c.Model, "responseId": "fake"}
		if fin {
			cand["finishReason"] = "STOP"
			r["usageMetadata"] = usage
		}
		return r
	}
	var last []any
	if call != nil {
		last = append(last, m{"functionCall": m{"name": call.Name, "args": call.Args}})
	}
	if !c.Stream {
		var ps []any
		if t.Text != "" {
			ps = append(ps, m{"text": t.full()})
		}
		writeJSON(w, 200, part(append(ps, last...), true))
		return
	}
	s := newSSE(w)
	if t.Think != "" {
		s.send("", part([]any{m{"text": t.Think, "thought": true}}, false))
	}
	parts, pause := chunks(t)
	for _, p := range parts {
		s.send("", part([]any{m{"text": p}}, false))
		time.Sleep(pause)
	}
	if last == nil {
		last = []any{m{"text": ""}}
	}
	s.send("", part(last, true))
}
