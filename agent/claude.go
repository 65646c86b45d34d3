package agent

import (
	"strings"
	"time"
)

// claudeEvent is what is read of a line of Claude Code's stream-json, and of
// those that speak like it (Qwen Code, Amp, Cursor).
type claudeEvent struct {
	kind, subtype     string
	id, model, parent string
	word              string // error, of an assistant or a retry
	status            int
	isError           bool
	result, errors    string
	failure           string // error, where it is an object
	usd               float64
	since             float64 // dollars since the last result
	sinced            bool
	used              claudeUsage
	denied            []string
	limit             string
	limitKind         string
	overage           bool
	resetsAt          float64

	speaker string // model of the message
	text    string // after its last tool call
	said    bool
	acted   bool
}

type claudeUsage struct {
	input, output, cacheRead, cacheWrite, total int64
}

func claudeLine(d *decoder, tell func(event)) reading {
	var e claudeEvent
	d.object(func(key []byte) { e.member(d, key) })
	if d.dropped {
		return readKnown
	}
	if !d.complete() || e.kind == "" {
		return readBroken
	}
	return e.tell(tell)
}

// member reads one member. Prompts, tool results and pieces of messages are
// not looked at: they are most of a stream, and none of them is an answer.
func (e *claudeEvent) member(d *decoder, key []byte) {
	switch string(key) {
	case "type":
		if e.kind = d.word(); e.kind == "user" || e.kind == "stream_event" {
			d.drop()
		}
	case "subtype":
		e.subtype = d.word()
	case "session_id":
		e.id = d.word()
	case "model":
		e.model = d.word()
	case "parent_tool_use_id":
		e.parent = d.word()
	case "error":
		if d.peek() != '{' {
			e.word = d.word()
			return
		}
		d.object(func(key []byte) {
			if string(key) == "message" {
				e.failure = d.text(errorLimit)
			}
		})
	case "error_status", "api_error_status":
		e.status = int(d.integer())
	case "is_error":
		e.isError = d.boolean()
	case "result":
		e.result = d.text(messageLimit)
	case "errors":
		d.array(func() { e.errors = or(e.errors, d.text(errorLimit)) })
	case "total_cost_usd":
		e.usd, _ = d.number()
	case "model_usage_since_last_result":
		e.sinced = true
		d.object(func([]byte) { e.sinceModel(d) })
	case "usage":
		d.object(func(key []byte) { e.used.member(d, key) })
	case "permission_denials":
		d.array(func() {
			d.object(func(key []byte) {
				if string(key) == "tool_name" && len(e.denied) < 100 {
					e.denied = append(e.denied, d.word())
				}
			})
		})
	case "rate_limit_info":
		d.object(func(key []byte) {
			switch string(key) {
			case "status":
				e.limit = d.word()
			case "rateLimitType":
				e.limitKind = d.word()
			case "resetsAt":
				e.resetsAt, _ = d.number()
			case "isUsingOverage": // goes on, for money
				e.overage = d.boolean()
			}
		})
	case "message":
		d.object(func(key []byte) {
			switch string(key) {
			case "model":
				e.speaker = d.word()
			case "content":
				d.array(func() { e.block(d) })
			}
		})
	}
}

// sinceModel reads what one model was used for since the last result.
func (e *claudeEvent) sinceModel(d *decoder) {
	d.object(func(key []byte) {
		if string(key) == "costUSD" {
			usd, _ := d.number()
			e.since += usd
		}
	})
}

// block reads one block of a message's content. Its type may follow its text.
func (e *claudeEvent) block(d *decoder) {
	var kind, text string
	d.object(func(key []byte) {
		switch string(key) {
		case "type":
			kind = d.word()
		case "text":
			text = d.text(messageLimit)
		}
	})
	switch kind {
	case "text":
		e.text, e.said = text, true
	case "tool_use", "server_tool_use", "mcp_tool_use":
		e.text, e.said, e.acted = "", false, true
	}
}

func (u *claudeUsage) member(d *decoder, key []byte) {
	switch string(key) {
	case "input_tokens":
		u.input = d.integer()
	case "output_tokens":
		u.output = d.integer()
	case "cache_read_input_tokens":
		u.cacheRead = d.integer()
	case "cache_creation_input_tokens":
		u.cacheWrite = d.integer()
	case "total_tokens":
		u.total = d.integer()
	}
}

// tokens counts cached input in, as qwen does and claude does not.
func (u claudeUsage) tokens() Tokens {
	t := Tokens{Input: u.input, Output: u.output, CacheRead: u.cacheRead, CacheWrite: u.cacheWrite}
	if u.total != u.input+u.output {
		t.Input += u.cacheRead + u.cacheWrite
	}
	return t
}

func (e *claudeEvent) tell(tell func(event)) reading {
	switch e.kind {
	case "system":
		switch e.subtype {
		case "init":
			tell(event{kind: eventSession, id: e.id, model: e.model})
		case "api_retry":
			tell(event{kind: eventRetry, status: e.status, word: e.word})
		}
	case "rate_limit_event":
		if e.limit == "rejected" && !e.overage {
			tell(event{kind: eventLimit, word: e.limitKind, until: epoch(e.resetsAt)})
		} else {
			tell(event{kind: eventAllowed})
		}
	case "assistant":
		e.tellMessage(tell)
	case "result":
		e.tellResult(tell)
	case "user", "stream_event": // with its type not in front
	default:
		return readUnknown
	}
	return readKnown
}

func (e *claudeEvent) tellMessage(tell func(event)) {
	switch {
	case e.parent != "": // a subagent's
	case e.speaker == "<synthetic>": // the client's own words
		tell(event{kind: eventTrouble, text: e.text, word: e.word})
	default:
		if e.acted {
			tell(event{kind: eventTool})
		}
		if e.said {
			tell(event{kind: eventText, text: e.text, whole: true})
		}
	}
}

// tellResult reads the end. The subtype "success" means nothing, and qwen says
// of a refused key that all is well.
func (e *claudeEvent) tellResult(tell func(event)) {
	for _, name := range e.denied {
		tell(event{kind: eventDenied, word: name})
	}
	usage := event{kind: eventUsage, tokens: e.used.tokens(), usd: e.usd}
	if e.sinced { // then the total is the session's, of the runs before a --resume too
		usage.usd, usage.add = e.since, true
	}
	tell(usage)
	end := event{kind: eventEnd, status: e.status, word: e.word}
	end.ok = !e.isError && !strings.HasPrefix(e.subtype, "error") && !strings.HasPrefix(e.result, "[API Error")
	if !end.ok {
		end.text = lastText(or(e.result, or(e.errors, e.failure)), errorLimit)
		if strings.HasPrefix(e.subtype, "error_max") {
			end.word = e.subtype
		}
	} else if e.result != "" {
		tell(event{kind: eventText, text: e.result, whole: true})
	}
	tell(end)
}

// epoch reads seconds or milliseconds since 1970; zero for none.
func epoch(n float64) time.Time {
	switch {
	case n >= 1e9 && n < 1e11:
		return time.Unix(int64(n), 0)
	case n >= 1e12 && n < 1e14:
		return time.UnixMilli(int64(n))
	}
	return time.Time{}
}

// errorLimit is how much of a client's error is kept.
const errorLimit = 4 << 10

func lastText(s string, limit int) string { return s[max(0, len(s)-limit):] }
