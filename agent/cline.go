package agent

// clineEvent is what is read of a line of `cline --json`.
type clineEvent struct {
	kind, inner string
	content     string // kind of the content
	text        string
	reason      string
	used        clineUsage
	message     string
}

type clineUsage struct {
	tokens Tokens
	usd    float64
}

func (u *clineUsage) member(d *decoder, key []byte) {
	switch string(key) {
	case "inputTokens":
		u.tokens.Input = d.integer()
	case "outputTokens":
		u.tokens.Output = d.integer()
	case "cacheReadTokens":
		u.tokens.CacheRead = d.integer()
	case "cacheWriteTokens":
		u.tokens.CacheWrite = d.integer()
	case "totalCost":
		u.usd, _ = d.number()
	}
}

func clineLine(d *decoder, tell func(event)) reading {
	var e clineEvent
	d.object(func(key []byte) {
		switch string(key) {
		case "type":
			e.kind = d.word()
		case "finishReason":
			e.reason = d.word()
		case "text":
			e.text = d.text(messageLimit)
		case "message", "error":
			e.message = or(e.message, d.text(errorLimit))
		case "usage":
			d.object(func(key []byte) { e.used.member(d, key) })
		case "event":
			d.object(func(key []byte) {
				switch string(key) {
				case "type":
					e.inner = d.word()
				case "contentType":
					e.content = d.word()
				case "text":
					e.text = d.text(messageLimit)
				case "message", "error":
					e.message = or(e.message, d.text(errorLimit))
				}
			})
		}
	})
	if !d.complete() || e.kind == "" {
		return readBroken
	}
	return e.tell(tell)
}

func (e *clineEvent) tell(tell func(event)) reading {
	switch e.kind {
	case "agent_event":
		switch {
		case e.content == "tool":
			tell(event{kind: eventTool})
		case e.content == "text" && e.inner == "content_end":
			tell(event{kind: eventText, text: e.text, whole: true})
		case e.inner == "error":
			tell(event{kind: eventTrouble, text: e.message})
		}
	case "run_result":
		tell(event{kind: eventUsage, tokens: e.used.tokens, usd: e.used.usd})
		ok := e.reason == "completed"
		if ok && e.text != "" {
			tell(event{kind: eventText, text: e.text, whole: true})
		}
		tell(event{kind: eventEnd, ok: ok, text: e.message, word: e.reason})
	case "error":
		tell(event{kind: eventTrouble, text: e.message})
	case "hook_event":
	default:
		return readUnknown
	}
	return readKnown
}
