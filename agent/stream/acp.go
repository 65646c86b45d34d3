package stream

// acpLine is what is read of a line that package acp prints.
type acpLine struct {
	Type       string  `json:"type"`
	ID         string  `json:"id"`
	Model      string  `json:"model"`
	Title      string  `json:"title"`
	Text       string  `json:"text"`
	Word       string  `json:"word"`
	OK         bool    `json:"ok"`
	Code       number  `json:"code"`
	Input      number  `json:"input"`
	Output     number  `json:"output"`
	Thought    number  `json:"thought"`
	CacheRead  number  `json:"cache_read"`
	CacheWrite number  `json:"cache_write"`
	Total      number  `json:"total"`
	USD        float64 `json:"usd"`
}

func skimACP(kind string, _ []byte, tell func(Event)) bool {
	switch kind {
	case "tool":
		tell(Event{Kind: Tool})
	case "thought", "user", "plan", "noise", "allowed":
	default:
		return false
	}
	return true
}

func readACP(line []byte, tell func(Event)) LineKind {
	var e acpLine
	if !decode(line, &e) || e.Type == "" {
		return Noise
	}
	status := int(e.Code.int())
	switch e.Type {
	case "agent", "thought", "user", "plan", "noise", "allowed":
	case "tool":
		tell(Event{Kind: Tool})
	case "session":
		tell(Event{Kind: Session, ID: e.ID, Model: e.Model})
	case "text":
		tell(Event{Kind: Text, Text: e.Text})
	case "denied":
		tell(Event{Kind: Kept, Word: lastOf(e.Title) + " (" + e.Text + ")"})
	case "usage":
		tell(Event{Kind: Usage, Tokens: e.charged(), USD: e.USD})
	case "error":
		tell(Event{Kind: Trouble, Text: lastOf(e.Text), Word: e.Word, Status: status})
	case "exited":
		tell(Event{Kind: Trouble, Text: lastOf(e.Text), Word: e.Type})
	case "end":
		tell(Event{Kind: End, OK: e.OK, Text: lastOf(e.Text), Word: e.Word, Status: status})
	default:
		return Unknown
	}
	return Known
}

// charged counts cached and thought tokens in. Whether they are part of the
// other figures is up to the agent; its total tells.
func (e *acpLine) charged() Tokens {
	t := Tokens{Input: e.Input.int(), CacheRead: e.CacheRead.int(), CacheWrite: e.CacheWrite.int(), Output: e.Output.int()}
	total, thought := e.Total.int(), e.Thought.int()
	if total > t.Input+t.Output {
		t.Input += t.CacheRead + t.CacheWrite
	}
	if total >= t.Input+t.Output+thought {
		t.Output += thought
	}
	return t
}
