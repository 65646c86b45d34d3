package agent

import (
	"bytes"
	"slices"
	"time"
)

// event is one step of a run, whatever the client that told of it. A dialect
// makes events of a client's lines; everything else knows only these.
type event struct {
	kind   eventKind
	text   string // of eventText; the client's own words of an error or a bad end
	whole  bool   // the text is a whole message, not a piece of one
	ok     bool   // of eventEnd
	maybe  bool   // of eventEnd: another turn may follow
	status int    // HTTP status of an error, 0 where not told
	word   string // the client's word for an error, a limit or a refused tool
	model  string
	id     string    // of the session
	until  time.Time // of eventLimit; zero where not told
	tokens Tokens
	usd    float64
	add    bool // tokens and dollars are of a part of the run
}

// eventKind says what happened.
type eventKind int

const (
	eventSession eventKind = iota
	eventBegin             // a turn begins: an end told before was none
	eventText              // the top-level agent's own words
	eventTool              // what was said before is no last word any more
	eventRetry             // the client tries again by itself
	eventTrouble           // an error that need not be the end
	eventLimit             // the provider refused: a quota is used up
	eventAllowed           // it no longer does
	eventDenied            // the client refused the agent a tool
	eventKept              // we did
	eventUsage
	eventEnd
)

// Tokens are what a run was charged for. Cached ones are part of Input.
type Tokens struct {
	Input      int64
	CacheRead  int64
	CacheWrite int64
	Output     int64
}

func (t Tokens) plus(o Tokens) Tokens {
	return Tokens{t.Input + o.Input, t.CacheRead + o.CacheRead, t.CacheWrite + o.CacheWrite, t.Output + o.Output}
}

// reading says what a line was.
type reading int

const (
	readKnown   reading = iota
	readUnknown         // an event that the dialect does not know
	readBroken          // no event
)

// dialect reads one line, a JSON object, and tells of it only when it was whole.
type dialect func(d *decoder, tell func(event)) reading

// dialectOf is nil for plain text.
func dialectOf(format string) dialect {
	switch format {
	case FormatACP:
		return acpLine
	case FormatClaude:
		return claudeLine
	case FormatOpencode:
		return opencodeLine
	case FormatCodex:
		return codexLine
	case FormatGemini:
		return geminiLine
	case FormatCopilot:
		return copilotLine
	case FormatCline:
		return clineLine
	}
	return nil
}

// messageLimit is how much of a final message is looked at. No model answers
// at such length.
const messageLimit = 1 << 20

// overflowWord is opencode's word for a conversation that the model cannot take.
const overflowWord = "ContextOverflowError"

// story is what the events of a run come to.
type story struct {
	events, unknown, noise int64
	cut                    bool // the last line is not whole
	session, model         string
	message                []byte // own words since the last tool call
	spoke, acted           bool   // any words, any tool
	retries, retryStatus   int
	retrying               string // what the client said last, where that is that it tries again
	moved                  int64  // events that were more than that
	refused                int    // of them, those in a row for a key that was refused
	refusal                string // the client's word for it
	limited                bool
	limit                  event
	denied, kept           []string
	tokens                 Tokens
	usd                    float64
	trouble                event // the last one
	troubled               bool  // nothing was said or done after it
	ended                  bool
	end                    event
	ends                   int64 // how often an end was told
	more                   bool  // something was begun after it
	steps                  int   // turns in a row in which nothing was said or done
	overflows              int   // of the context window, since the last tool call
}

// hear takes the next event.
func (s *story) hear(e event) {
	if e.kind == eventRetry {
		s.retrying = or(e.text, or(e.word, "it tries again"))
	} else {
		s.retrying, s.moved = "", s.moved+1
	}
	switch e.kind {
	case eventSession:
		s.session, s.model = or(e.id, s.session), or(e.model, s.model)
		s.more = true
	case eventBegin:
		s.ended, s.troubled, s.more = false, false, true
		s.steps++
	case eventText:
		s.troubled = s.troubled && e.text == "" // it got past it
		if e.whole {
			s.message = s.message[:0]
		}
		s.message = keepEnd(append(s.message, e.text...), messageLimit)
		if e.text != "" {
			s.spoke, s.steps, s.refused = true, 0, 0
		}
	case eventTool:
		s.message, s.acted, s.troubled = s.message[:0], true, false
		s.steps, s.overflows, s.refused, s.more = 0, 0, 0, true
	case eventRetry:
		s.retries, s.retryStatus = s.retries+1, e.status
		if s.refusal = e.word; e.status != 401 && e.status != 403 {
			s.refused = -1
		}
		s.refused++
	case eventTrouble:
		s.trouble, s.troubled = e, true
		if e.word == overflowWord {
			s.overflows++
		}
	case eventLimit:
		s.limit, s.limited = e, true
	case eventAllowed:
		s.limited = false
	case eventDenied:
		if len(s.denied) < 100 && !slices.Contains(s.denied, e.word) {
			s.denied = append(s.denied, e.word)
		}
	case eventKept:
		if len(s.kept) < 100 && !slices.Contains(s.kept, e.word) {
			s.kept = append(s.kept, e.word)
		}
	case eventUsage:
		if e.tokens.Output > 0 {
			s.steps = 0
		}
		if e.add {
			e.tokens, e.usd = s.tokens.plus(e.tokens), s.usd+e.usd
		}
		s.tokens, s.usd = e.tokens, e.usd
	case eventEnd:
		s.end, s.ended, s.more = e, true, false
		s.ends++
		if !e.ok && e.text == "" && s.troubled {
			s.end.text, s.end.word = s.trouble.text, or(e.word, s.trouble.word)
			if e.status == 0 {
				s.end.status = s.trouble.status
			}
		}
	}
}

// read takes a stream. Nothing in it is an error: lines that are no events are
// counted and passed over.
func (s *story) read(l *lines, line dialect) error {
	d, hear := decoder{lines: l}, s.hear
	for s.plain(l); d.next(); s.plain(l) {
		got := readBroken
		if d.start() {
			got = line(&d, hear)
		} else if d.peek() == 0 {
			continue // a blank line
		}
		switch got {
		case readKnown:
			s.events++
		case readUnknown:
			s.events, s.unknown = s.events+1, s.unknown+1
		case readBroken:
			s.noise++
			for d.fill() {
			}
			s.cut = !d.whole // nothing follows
		}
	}
	return d.err
}

// plain passes over lines that are no events, where they are at hand as a whole.
func (s *story) plain(l *lines) {
	if !l.ended {
		return
	}
	p, at := l.rest, 0
	for at < len(p) {
		switch c := p[at]; {
		case c == '\n':
			at++
			continue
		case c == ' ' || c == '\t' || c == '\r' || c == 0xef || c == 0: // blank, perhaps
			l.rest = p[at:]
			return
		case c == '{' && (len(p)-at < 3 || p[at+1] != '}' || p[at+2] != '\n'):
			l.rest = p[at:]
			return
		}
		end := at + 1
		for ; end < len(p) && p[end] != '\n' && end-at < 8; end++ {
		}
		if end == len(p) || p[end] != '\n' {
			n := bytes.IndexByte(p[end:], '\n')
			if n < 0 {
				l.rest = p[at:]
				return
			}
			end += n
		}
		s.noise, s.cut = s.noise+1, false
		at = end + 1
	}
	l.rest = p[at:]
}

// cost is what the run cost, nil where nothing is known. Clients print zeros
// for what they do not know: an answer costs tokens, and tokens cost money.
func (s *story) cost() *Cost {
	var c Cost
	if s.tokens.Input+s.tokens.Output > 0 {
		c.Tokens = &s.tokens
	}
	if s.usd > 0 {
		c.USD = &s.usd
	}
	if c == (Cost{}) {
		return nil
	}
	return &c
}
