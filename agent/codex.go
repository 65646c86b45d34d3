package agent

import "strings"

// codexEvent is what is read of a line of `codex exec --json`, of old versions
// (the event is the member "msg") and of newer ones (items).
type codexEvent struct {
	kind, thread string
	message      string // of an error
	failure      string // of a turn
	item         string // its type
	text         string
	last         string // last_agent_message
	used         codexUsage
	msg          bool
}

type codexUsage struct{ input, cached, written, output int64 }

func (u *codexUsage) member(d *decoder, key []byte) {
	switch string(key) {
	case "input_tokens":
		u.input = d.integer()
	case "cached_input_tokens":
		u.cached = d.integer()
	case "cache_write_input_tokens":
		u.written = d.integer()
	case "output_tokens":
		u.output = d.integer()
	}
}

func (u codexUsage) event() event {
	return event{kind: eventUsage, tokens: Tokens{Input: u.input, CacheRead: u.cached, CacheWrite: u.written, Output: u.output}}
}

func codexLine(d *decoder, tell func(event)) reading {
	var e codexEvent
	d.object(func(key []byte) {
		if string(key) == "msg" {
			e.msg = true
			d.object(func(key []byte) { e.member(d, key) })
			return
		}
		e.member(d, key)
	})
	if !d.dropped && (!d.complete() || e.kind == "") {
		return readBroken
	}
	if e.msg {
		return e.tellOld(tell)
	}
	return e.tell(tell)
}

func (e *codexEvent) member(d *decoder, key []byte) {
	switch string(key) {
	case "type":
		e.kind = d.word()
	case "thread_id", "session_id":
		e.thread = d.word()
	case "message":
		e.message = d.text(messageLimit)
	case "last_agent_message":
		e.last = d.text(messageLimit)
	case "error":
		d.object(func(key []byte) {
			if string(key) == "message" {
				e.failure = d.text(errorLimit)
			}
		})
	case "usage", "total_token_usage":
		d.object(func(key []byte) { e.used.member(d, key) })
	case "info":
		d.object(func(key []byte) { e.member(d, key) })
	case "item":
		d.object(func(key []byte) {
			switch string(key) {
			case "type", "item_type":
				if e.item = d.word(); e.tool() && e.kind != "" {
					d.drop() // its output
				}
			case "text":
				e.text = d.text(messageLimit)
			}
		})
	}
}

func (e *codexEvent) tell(tell func(event)) reading {
	switch e.kind {
	case "thread.started":
		tell(event{kind: eventSession, id: e.thread})
	case "turn.started":
		tell(event{kind: eventBegin})
	case "turn.completed":
		tell(e.used.event())
		tell(event{kind: eventEnd, ok: true})
	case "turn.failed":
		tell(event{kind: eventEnd, text: e.failure})
	case "error":
		tellCodexError(e.message, tell)
	case "item.started", "item.updated", "item.completed":
		return e.tellItem(tell)
	default:
		return readUnknown
	}
	return readKnown
}

// tellItem tells of a step. Items of type error are warnings; the list of
// things to do is printed once more after the last message.
func (e *codexEvent) tellItem(tell func(event)) reading {
	if e.tool() {
		tell(event{kind: eventTool})
		return readKnown
	}
	switch e.item {
	case "agent_message", "assistant_message":
		if e.kind == "item.completed" {
			tell(event{kind: eventText, text: e.text, whole: true})
		}
	case "reasoning", "todo_list", "error":
	default:
		return readUnknown
	}
	return readKnown
}

// tool reports whether the item is a step that does something.
func (e *codexEvent) tool() bool {
	switch e.item {
	case "command_execution", "file_change", "mcp_tool_call", "web_search", "collab_tool_call":
		return true
	}
	return false
}

func tellCodexError(text string, tell func(event)) {
	kind := eventTrouble
	if strings.HasPrefix(text, "Reconnecting...") {
		kind = eventRetry
	}
	tell(event{kind: kind, text: lastText(text, errorLimit)})
}

// tellOld tells of an event of versions before 0.44.
func (e *codexEvent) tellOld(tell func(event)) reading {
	switch e.kind {
	case "session_configured":
		tell(event{kind: eventSession, id: e.thread})
	case "task_started":
		tell(event{kind: eventBegin})
	case "agent_message":
		tell(event{kind: eventText, text: e.message, whole: true})
	case "exec_command_begin", "patch_apply_begin", "mcp_tool_call_begin", "web_search_begin":
		tell(event{kind: eventTool})
	case "token_count":
		tell(e.used.event())
	case "stream_error":
		tell(event{kind: eventRetry, text: lastText(e.message, errorLimit)})
	case "error":
		tell(event{kind: eventEnd, text: lastText(e.message, errorLimit)})
	case "task_complete":
		if e.last != "" {
			tell(event{kind: eventText, text: e.last, whole: true})
		}
		tell(event{kind: eventEnd, ok: true})
	default:
		return readUnknown
	}
	return readKnown
}
