package stream

import (
	"bytes"
	"cmp"
	"strconv"
	"strings"

	"descartes/internal/lazyregexp"
)

// codexLine is what is read of a line of `codex exec --json`, of old versions
// (the event is the member "msg") and of newer ones (items).
type codexLine struct {
	Msg *codexEvent `json:"msg"`
	codexEvent
}

type codexEvent struct {
	Type    string     `json:"type"`
	Thread  string     `json:"thread_id"`
	Session string     `json:"session_id"`
	Message string     `json:"message"` // of an error
	Last    string     `json:"last_agent_message"`
	Usage   codexUsage `json:"usage"`
	Info    struct {
		Total codexUsage `json:"total_token_usage"`
	} `json:"info"`
	Failure struct { // of a turn
		Message string `json:"message"`
	} `json:"error"`
	Item struct {
		Type string `json:"type"`
		Old  string `json:"item_type"`
		Text string `json:"text"`
	} `json:"item"`
}

type codexUsage struct {
	Input      number `json:"input_tokens"`
	CacheRead  number `json:"cached_input_tokens"`
	CacheWrite number `json:"cache_write_input_tokens"`
	Output     number `json:"output_tokens"`
}

func (u codexUsage) event() Event {
	return Event{Kind: Usage, Tokens: Tokens{Input: u.Input.int(), CacheRead: u.CacheRead.int(),
		CacheWrite: u.CacheWrite.int(), Output: u.Output.int()}}
}

// codexAgents is the item with which it has a subagent work, or waits for one.
const codexAgents = "collab_tool_call"

// codexTools are the items that are steps which do something.
func codexTools() []string {
	return []string{"command_execution", "file_change", "mcp_tool_call", "web_search", codexAgents}
}

// skimCodex tells of a step without its output.
func skimCodex(kind string, head []byte, tell func(Event)) bool {
	if !strings.HasPrefix(kind, "item.") {
		return false
	}
	head = head[:min(len(head), 256)]
	for _, tool := range codexTools() {
		if bytes.Contains(head, []byte(`"type":"`+tool+`"`)) {
			tell(Event{Kind: Tool})
			if tool == codexAgents {
				tell(Event{Kind: Delegated})
			}
			return true
		}
	}
	return false
}

func readCodex(line []byte, tell func(Event)) LineKind {
	var l codexLine
	if !Decode(line, &l) {
		return Noise
	}
	if l.Msg != nil {
		return l.Msg.old(tell)
	}
	switch e := l.codexEvent; e.Type {
	case "":
		return Noise
	case "thread.started":
		tell(Event{Kind: Session, ID: cmp.Or(e.Thread, e.Session)})
	case "turn.started":
		tell(Event{Kind: Begin})
	case "turn.completed":
		tell(e.Usage.event())
		tell(Event{Kind: End, OK: true})
	case "turn.failed":
		tell(Event{Kind: End, Text: lastOf(e.Failure.Message)})
	case "error":
		if strings.HasPrefix(e.Message, "Reconnecting...") {
			tell(codexRetry(e.Message))
		} else {
			tell(Event{Kind: Trouble, Text: lastOf(e.Message)})
		}
	case "item.started", "item.updated", "item.completed":
		return e.item(tell)
	default:
		return Unknown
	}
	return Known
}

// codexStatus is how codex names the answer that it tries again after.
var codexStatus = lazyregexp.New(`\bstatus:? (\d{3})\b`)

// codexRetry reads the words of a try of its own, which have all that it tells.
func codexRetry(words string) Event {
	e := Event{Kind: Retry, Text: lastOf(words), Away: strings.Contains(words, "waiting for network") ||
		strings.Contains(words, "error sending request")}
	if m := codexStatus.FindStringSubmatch(words); m != nil {
		e.Status, _ = strconv.Atoi(m[1])
	}
	return e
}

// item tells of a step. Items of type error are warnings; the list of
// things to do is printed once more after the last message.
func (e *codexEvent) item(tell func(Event)) LineKind {
	switch kind := cmp.Or(e.Item.Type, e.Item.Old); kind {
	case "agent_message", "assistant_message":
		if e.Type == "item.completed" {
			tell(Event{Kind: Text, Text: e.Item.Text, Whole: true})
		}
	case "reasoning", "todo_list", "error":
	case codexAgents:
		tell(Event{Kind: Tool})
		tell(Event{Kind: Delegated})
	case "command_execution", "file_change", "mcp_tool_call", "web_search":
		tell(Event{Kind: Tool})
	default:
		return Unknown
	}
	return Known
}

// old tells of an event of versions before 0.44.
func (e *codexEvent) old(tell func(Event)) LineKind {
	switch e.Type {
	case "":
		return Noise
	case "session_configured":
		tell(Event{Kind: Session, ID: cmp.Or(e.Thread, e.Session)})
	case "task_started":
		tell(Event{Kind: Begin})
	case "agent_message":
		tell(Event{Kind: Text, Text: e.Message, Whole: true})
	case "exec_command_begin", "patch_apply_begin", "mcp_tool_call_begin", "web_search_begin":
		tell(Event{Kind: Tool})
	case "token_count":
		tell(e.Info.Total.event())
	case "stream_error":
		tell(codexRetry(e.Message))
	case "error":
		tell(Event{Kind: End, Text: lastOf(e.Message)})
	case "task_complete":
		if e.Last != "" {
			tell(Event{Kind: Text, Text: e.Last, Whole: true})
		}
		tell(Event{Kind: End, OK: true})
	default:
		return Unknown
	}
	return Known
}
