package agent

import "regexp"

// opencodeEvent is what is read of a line of `opencode run --format json`.
type opencodeEvent struct {
	kind, id  string
	part      string // type of the part
	reason    string
	text      string
	synthetic bool
	tokens    Tokens
	usd       float64
	failure   event
	reset     string
}

func opencodeLine(d *decoder, tell func(event)) reading {
	var e opencodeEvent
	d.object(func(key []byte) {
		switch string(key) {
		case "type":
			if e.kind = d.word(); e.kind == "tool_use" {
				d.drop()
			}
		case "sessionID":
			e.id = d.word()
		case "part":
			d.object(func(key []byte) { e.member(d, key) })
		case "error":
			d.object(func(key []byte) { e.error(d, key) })
		}
	})
	if d.dropped {
		tell(event{kind: eventTool})
		return readKnown
	}
	if !d.complete() || e.kind == "" {
		return readBroken
	}
	return e.tell(tell)
}

func (e *opencodeEvent) member(d *decoder, key []byte) {
	switch string(key) {
	case "type":
		e.part = d.word()
	case "reason":
		e.reason = d.word()
	case "text":
		e.text = d.text(messageLimit)
	case "synthetic":
		e.synthetic = d.boolean()
	case "cost":
		e.usd, _ = d.number()
	case "tokens":
		d.object(func(key []byte) {
			switch string(key) {
			case "input":
				e.tokens.Input += d.integer()
			case "output", "reasoning":
				e.tokens.Output += d.integer()
			case "cache":
				d.object(func(key []byte) { e.cache(d, key) })
			}
		})
	}
}

// cache reads what the client leaves out of its input tokens.
func (e *opencodeEvent) cache(d *decoder, key []byte) {
	switch string(key) {
	case "read":
		e.tokens.CacheRead = d.integer()
		e.tokens.Input += e.tokens.CacheRead
	case "write":
		e.tokens.CacheWrite = d.integer()
		e.tokens.Input += e.tokens.CacheWrite
	}
}

func (e *opencodeEvent) error(d *decoder, key []byte) {
	switch string(key) {
	case "name":
		e.failure.word = d.word()
	case "data":
		d.object(func(key []byte) {
			switch string(key) {
			case "message":
				e.failure.text = d.text(errorLimit)
			case "statusCode":
				e.failure.status = int(d.integer())
			case "responseBody":
				e.reset = d.text(errorLimit)
			}
		})
	}
}

func (e *opencodeEvent) tell(tell func(event)) reading {
	switch e.kind {
	case "step_start":
		if e.id != "" {
			tell(event{kind: eventSession, id: e.id})
		}
		tell(event{kind: eventBegin})
	case "text":
		if e.synthetic { // the client goes on by itself
			tell(event{kind: eventBegin})
		} else {
			tell(event{kind: eventText, text: e.text, whole: true})
		}
	case "tool_use", "tool":
		tell(event{kind: eventTool})
	case "step_finish":
		tell(event{kind: eventUsage, tokens: e.tokens, usd: e.usd, add: true})
		if e.reason == "stop" {
			tell(event{kind: eventEnd, ok: true})
		}
	case "error":
		e.tellError(tell)
	case "reasoning":
	default:
		return readUnknown
	}
	return readKnown
}

// tellError tells of an error, which is the end unless another step follows.
func (e *opencodeEvent) tellError(tell func(event)) {
	f := e.failure
	f.kind = eventTrouble
	tell(f)
	body := regexp.MustCompile(`"resets_at"\s*:\s*(\d{10,13})`).FindStringSubmatch(e.reset)
	if _, limited := limitWords(f.text); limited && body != nil {
		tell(event{kind: eventLimit, until: epochText(body[1])})
	}
	f.kind, f.maybe = eventEnd, true
	tell(f)
}
