package agent

import "strings"

// copilotEvent is what is read of a line of `copilot --output-format json`.
type copilotEvent struct {
	kind, id string
	content  string
	parent   string // the tool call that a subagent works for
	tools    bool
	failure  event
	code     float64
	coded    bool
}

func copilotLine(d *decoder, tell func(event)) reading {
	var e copilotEvent
	d.object(func(key []byte) {
		switch string(key) {
		case "type":
			e.kind = d.word()
			if !e.wanted() {
				d.drop()
			}
		case "sessionId":
			e.id = d.word()
		case "exitCode":
			e.code, e.coded = d.number()
		case "data":
			d.object(func(key []byte) { e.member(d, key) })
		}
	})
	if !d.dropped && (!d.complete() || e.kind == "") {
		return readBroken
	}
	return e.tell(tell)
}

// wanted reports whether more than the event's name is of interest.
func (e *copilotEvent) wanted() bool {
	switch e.kind {
	case "assistant.message", "session.error", "model.call_failure", "result", "":
		return true
	}
	return false
}

func (e *copilotEvent) member(d *decoder, key []byte) {
	switch string(key) {
	case "content":
		e.content = d.text(messageLimit)
	case "parentToolCallId":
		e.parent = d.word()
	case "toolRequests":
		d.array(func() { e.tools = true })
	case "errorType":
		e.failure.word = d.word()
	case "message":
		e.failure.text = d.text(errorLimit)
	case "statusCode":
		e.failure.status = int(d.integer())
	}
}

func (e *copilotEvent) tell(tell func(event)) reading {
	switch e.kind {
	case "assistant.message":
		if e.parent != "" {
			return readKnown
		}
		if e.content != "" {
			tell(event{kind: eventText, text: e.content, whole: true})
		}
		if e.tools {
			tell(event{kind: eventTool})
		}
	case "tool.execution_start":
		tell(event{kind: eventTool})
	case "model.call_failure":
		tell(event{kind: eventRetry, status: e.failure.status})
	case "session.error":
		e.failure.kind = eventTrouble
		tell(e.failure)
	case "result":
		tell(event{kind: eventSession, id: e.id})
		tell(event{kind: eventEnd, ok: e.coded && e.code == 0})
	default:
		group, _, _ := strings.Cut(e.kind, ".")
		switch group {
		case "assistant", "session", "model", "tool", "user", "hook":
		default:
			return readUnknown
		}
	}
	return readKnown
}
