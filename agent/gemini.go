package agent

// geminiEvent is what is read of a line of `gemini --output-format stream-json`.
type geminiEvent struct {
	kind, id, model string
	role, content   string
	severity        string
	message         string
	status          string
	failure         string
	tokens          Tokens
}

func geminiLine(d *decoder, tell func(event)) reading {
	var e geminiEvent
	d.object(func(key []byte) { e.member(d, key) })
	tool := e.kind == "tool_use" || e.kind == "tool_result"
	if d.dropped {
		if tool {
			tell(event{kind: eventTool})
		}
		return readKnown
	}
	if !d.complete() || e.kind == "" {
		return readBroken
	}
	if tool {
		tell(event{kind: eventTool})
		return readKnown
	}
	return e.tell(tell)
}

func (e *geminiEvent) member(d *decoder, key []byte) {
	switch string(key) {
	case "type":
		if e.kind = d.word(); e.kind == "tool_use" || e.kind == "tool_result" {
			d.drop()
		}
	case "session_id":
		e.id = d.word()
	case "model":
		e.model = d.word()
	case "role":
		if e.role = d.word(); e.role == "user" { // the prompt
			d.drop()
		}
	case "content":
		e.content = d.text(messageLimit)
	case "severity":
		e.severity = d.word()
	case "message":
		e.message = d.text(errorLimit)
	case "status":
		e.status = d.word()
	case "error":
		d.object(func(key []byte) {
			if string(key) == "message" {
				e.failure = d.text(errorLimit)
			}
		})
	case "stats":
		d.object(func(key []byte) {
			switch string(key) {
			case "input_tokens":
				e.tokens.Input = d.integer()
			case "output_tokens":
				e.tokens.Output = d.integer()
			case "cached":
				e.tokens.CacheRead = d.integer()
			}
		})
	}
}

func (e *geminiEvent) tell(tell func(event)) reading {
	switch e.kind {
	case "init":
		tell(event{kind: eventSession, id: e.id, model: e.model})
	case "message":
		if e.role == "assistant" {
			tell(event{kind: eventText, text: e.content})
		}
	case "error":
		if e.severity != "warning" {
			tell(event{kind: eventTrouble, text: e.message})
		}
	case "result":
		tell(event{kind: eventUsage, tokens: e.tokens})
		tell(event{kind: eventEnd, ok: e.status == "success", text: e.failure})
	default:
		return readUnknown
	}
	return readKnown
}
