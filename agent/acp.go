package agent

import (
	"fmt"
	"os"
)

// ACPCommand is the hidden command that a main program maps to the bridge:
// it talks with an agent that speaks the Agent Client Protocol and prints what
// happens as events.
const ACPCommand = "__acp"

// bridged is the command line that has a conversation with a program, instead
// of the one that runs it. The bridge asks for the model, unless the program
// has an option for that.
func (b Backend) bridged(argv []string, model string) ([]string, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find our own program: %w", err)
	}
	line := []string{self, ACPCommand}
	if model != "" && len(b.ModelArgs) == 0 {
		line = append(line, "--model", model)
	}
	return append(append(line, "--"), argv...), nil
}

// acpEvent is what is read of a line that the bridge prints.
type acpEvent struct {
	kind, id, model string
	title, text     string
	word            string
	ok              bool
	status          int
	thought, total  int64
	tokens          Tokens
	usd             float64
}

func acpLine(d *decoder, tell func(event)) reading {
	var e acpEvent
	d.object(func(key []byte) { e.member(d, key) })
	if d.dropped {
		if e.kind == "tool" {
			tell(event{kind: eventTool})
		}
		return readKnown
	}
	if !d.complete() || e.kind == "" {
		return readBroken
	}
	return e.tell(tell)
}

func (e *acpEvent) member(d *decoder, key []byte) {
	switch string(key) {
	case "type":
		switch e.kind = d.word(); e.kind {
		case "tool", "thought", "user", "plan", "noise", "allowed":
			d.drop()
		}
	case "id":
		e.id = d.word()
	case "model":
		e.model = d.word()
	case "title":
		e.title = d.text(errorLimit)
	case "text":
		e.text = d.text(messageLimit)
	case "word":
		e.word = d.word()
	case "ok":
		e.ok = d.boolean()
	case "code":
		e.status = int(d.integer())
	case "input":
		e.tokens.Input = d.integer()
	case "output":
		e.tokens.Output = d.integer()
	case "thought":
		e.thought = d.integer()
	case "cache_read":
		e.tokens.CacheRead = d.integer()
	case "cache_write":
		e.tokens.CacheWrite = d.integer()
	case "total":
		e.total = d.integer()
	case "usd":
		e.usd, _ = d.number()
	}
}

func (e *acpEvent) tell(tell func(event)) reading {
	switch e.kind {
	case "agent":
	case "session":
		tell(event{kind: eventSession, id: e.id, model: e.model})
	case "text":
		tell(event{kind: eventText, text: e.text})
	case "denied":
		tell(event{kind: eventKept, word: e.title + " (" + e.text + ")"})
	case "usage":
		tell(event{kind: eventUsage, tokens: e.charged(), usd: e.usd})
	case "error":
		tell(event{kind: eventTrouble, text: lastText(e.text, errorLimit), word: e.word, status: e.status})
	case "exited":
		tell(event{kind: eventTrouble, text: lastText(e.text, errorLimit), word: e.kind})
	case "end":
		tell(event{kind: eventEnd, ok: e.ok, text: lastText(e.text, errorLimit), word: e.word, status: e.status})
	default:
		return readUnknown
	}
	return readKnown
}

// charged counts cached and thought tokens in. Whether they are part of the
// other figures is up to the agent; its total tells.
func (e *acpEvent) charged() Tokens {
	t := e.tokens
	if e.total > t.Input+t.Output {
		t.Input += t.CacheRead + t.CacheWrite
	}
	if e.total >= t.Input+t.Output+e.thought {
		t.Output += e.thought
	}
	return t
}
