package stream

// ACPEvent is one line of what package agent/acp prints.
//
//	agent    the program answered: name, version
//	session  id, model
//	text     a piece of the agent's message
//	thought  a piece of its thinking
//	user     a piece of the prompt that it repeats
//	plan     its list of things to do
//	tool     a tool call that began or changed its status
//	allowed  something it asked for, by the kind of the chosen option
//	denied   something it asked for and was kept from: title is what, text is why
//	noise    a line of its output that is none of the protocol's
//	usage    of the session so far
//	error    that need not be the end
//	exited   the program is gone: code or signal
//	end      ok, stop, and what it says of a bad one
type ACPEvent struct {
	Type    string   `json:"type"`
	ID      string   `json:"id,omitempty"`
	Name    string   `json:"name,omitempty"`
	Version string   `json:"version,omitempty"`
	Model   string   `json:"model,omitempty"`
	Kind    string   `json:"kind,omitempty"`
	Status  string   `json:"status,omitempty"`
	Title   string   `json:"title,omitempty"`
	Command string   `json:"command,omitempty"`
	Paths   []string `json:"paths,omitempty"`
	OK      bool     `json:"ok,omitempty"`
	Stop    string   `json:"stop,omitempty"`
	Word    string   `json:"word,omitempty"`
	Code    int      `json:"code,omitempty"`
	Signal  int      `json:"signal,omitempty"`
	Text    string   `json:"text,omitempty"`
	Bytes   int      `json:"bytes,omitempty"`
	*ACPUsage
}

// ACPUsage is what was reported; zero is not known.
type ACPUsage struct {
	Input      int64   `json:"input,omitempty"`
	Output     int64   `json:"output,omitempty"`
	Thought    int64   `json:"thought,omitempty"`
	CacheRead  int64   `json:"cache_read,omitempty"`
	CacheWrite int64   `json:"cache_write,omitempty"`
	Total      int64   `json:"total,omitempty"`
	USD        float64 `json:"usd,omitempty"`
	Context    int64   `json:"context,omitempty"` // tokens in the context now
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
	e := ACPEvent{ACPUsage: &ACPUsage{}}
	if !Decode(line, &e) || e.Type == "" {
		return Noise
	}
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
		tell(Event{Kind: Trouble, Text: lastOf(e.Text), Word: e.Word, Status: e.Code})
	case "exited":
		tell(Event{Kind: Trouble, Text: lastOf(e.Text), Word: e.Type})
	case "end":
		tell(Event{Kind: End, OK: e.OK, Text: lastOf(e.Text), Word: e.Word, Status: e.Code})
	default:
		return Unknown
	}
	return Known
}

// charged counts cached and thought tokens in. Whether they are part of the
// other figures is up to the agent; its total tells.
func (u *ACPUsage) charged() Tokens {
	t := Tokens{Input: u.Input, CacheRead: u.CacheRead, CacheWrite: u.CacheWrite, Output: u.Output}
	if u.Total > t.Input+t.Output {
		t.Input += t.CacheRead + t.CacheWrite
	}
	if u.Total >= t.Input+t.Output+u.Thought {
		t.Output += u.Thought
	}
	return t
}
