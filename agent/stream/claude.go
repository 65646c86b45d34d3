package stream

import (
	"bytes"
	"cmp"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"descartes/agent/quota"
)

// claudeLine is what is read of a line of Claude Code's stream-json, and of
// those that speak like it (Qwen Code, Amp, Cursor).
type claudeLine struct {
	Type      string          `json:"type"`
	Subtype   string          `json:"subtype"`
	ID        string          `json:"session_id"`
	Model     string          `json:"model"`
	Parent    string          `json:"parent_tool_use_id"`
	Error     json.RawMessage `json:"error"` // a word of an assistant or a retry, or an object
	Status    number          `json:"error_status"`
	APIStatus number          `json:"api_error_status"`
	Delay     number          `json:"retry_delay_ms"`
	IsError   bool            `json:"is_error"`
	Result    string          `json:"result"`
	Errors    []string        `json:"errors"`
	USD       float64         `json:"total_cost_usd"`
	Turns     number          `json:"num_turns"`
	// of every model, subagents and compaction with it: since the start, and since the last result
	AllModels   map[string]modelUsage `json:"modelUsage"`
	SinceModels map[string]modelUsage `json:"model_usage_since_last_result"`
	Usage       claudeUsage           `json:"usage"` // of the main conversation's last turn
	Denied      []struct {
		Tool string `json:"tool_name"`
	} `json:"permission_denials"`
	Limit struct {
		Status   string  `json:"status"`
		Kind     string  `json:"rateLimitType"`
		ResetsAt float64 `json:"resetsAt"`
		Overage  bool    `json:"isUsingOverage"` // goes on, for money
	} `json:"rate_limit_info"`
	Tasks   []struct{} `json:"tasks"`         // that run in the background now
	State   string     `json:"state"`         // of a command
	Wakes   string     `json:"wakeup_source"` // of a command that the client gives itself
	Message struct {
		Model   string `json:"model"`
		Content []struct {
			Type string `json:"type"`
			Text string `json:"text"`
			Name string `json:"name"` // of a tool
		} `json:"content"`
	} `json:"message"`
}

type claudeUsage struct {
	Input      number `json:"input_tokens"`
	Output     number `json:"output_tokens"`
	CacheRead  number `json:"cache_read_input_tokens"`
	CacheWrite number `json:"cache_creation_input_tokens"`
	Total      number `json:"total_tokens"`
}

// modelUsage is what one model was used for.
type modelUsage struct {
	Input      number  `json:"inputTokens"`
	Output     number  `json:"outputTokens"`
	CacheRead  number  `json:"cacheReadInputTokens"`
	CacheWrite number  `json:"cacheCreationInputTokens"`
	USD        float64 `json:"costUSD"`
}

// allTokens sums up models.
func allTokens(models map[string]modelUsage) (sum Tokens) {
	for _, m := range models {
		read, write := m.CacheRead.int(), m.CacheWrite.int()
		sum = sum.Plus(Tokens{Input: m.Input.int() + read + write, CacheRead: read, CacheWrite: write,
			Output: m.Output.int()})
	}
	return sum
}

// tokens counts cached input in, as qwen does and claude does not.
func (u claudeUsage) tokens() Tokens {
	t := Tokens{Input: u.Input.int(), Output: u.Output.int(), CacheRead: u.CacheRead.int(),
		CacheWrite: u.CacheWrite.int()}
	if u.Total != u.Input+u.Output {
		t.Input += t.CacheRead + t.CacheWrite
	}
	return t
}

// skimClaude passes over prompts, tool results and pieces of messages: none of them is an answer. Of the top-level
// agent's messages without a text, which are calls of tools and thoughts, it looks for no more than which of both they
// are. Within a string these words would have their quotes escaped.
func skimClaude(kind string, head []byte, tell func(Event)) bool {
	has := func(word string) bool { return bytes.Contains(head, []byte(word)) }
	switch {
	case kind == "user" || kind == "stream_event":
		return true
	case kind != "assistant" || has(`"type":"text"`) || has(`"<synthetic>"`) || !has(`"parent_tool_use_id":null`) ||
		head[len(head)-1] != '}':
		return false
	}
	if has(`"type":"tool_use"`) || has(`"type":"server_tool_use"`) || has(`"type":"mcp_tool_use"`) {
		if slices.ContainsFunc(Wakers(), func(name string) bool { return has(`"` + name + `"`) }) {
			return false
		}
		tell(Event{Kind: Tool})
	}
	return true
}

// What the client waits for after a result, before it goes on by itself.
const (
	background = "background" // commands and subagents
	wakeup     = "wakeup"
)

// Wakers are the tools of Claude Code with which an agent has itself asked again later.
func Wakers() []string { return []string{"ScheduleWakeup", "CronCreate"} }

func readClaude(line []byte, tell func(Event)) LineKind {
	var e claudeLine
	if !Decode(line, &e) || e.Type == "" {
		return Noise
	}
	switch e.Type {
	case "system":
		switch e.Subtype {
		case "init":
			tell(Event{Kind: Session, ID: e.ID, Model: e.Model})
			tell(Event{Kind: Begin})
		case "background_tasks_changed":
			tell(Event{Kind: Pending, Word: background, OK: len(e.Tasks) > 0})
		case "api_retry":
			e.retry(tell)
		case "retry": // qwen's, whose standard error says why
			tell(Event{Kind: Retry})
		}
	case "rate_limit_event":
		if e.Limit.Status == "rejected" && !e.Limit.Overage {
			tell(Event{Kind: Limit, Word: e.Limit.Kind, Until: quota.Epoch(e.Limit.ResetsAt)})
		} else {
			tell(Event{Kind: Allowed})
		}
	case "assistant":
		e.message(tell)
	case "result":
		e.result(tell)
	case "command_lifecycle":
		if e.Wakes != "" && e.State == "started" {
			tell(Event{Kind: Pending, Word: wakeup})
		}
	case "user", "stream_event": // with its type not in front
	default:
		return Unknown
	}
	return Known
}

func (e *claudeLine) retry(tell func(Event)) {
	r := Event{Kind: Retry, Status: e.status(), Word: e.word(), Away: e.status() == 0,
		Delay: time.Duration(e.Delay.int()) * time.Millisecond}
	if r.Word == "unknown" {
		r.Word = ""
	}
	tell(r)
}

func (e *claudeLine) status() int { return int(max(e.Status.int(), e.APIStatus.int())) }

// word is the error where it is one, failure its message where it is an object.
func (e *claudeLine) word() (word string) {
	_ = json.Unmarshal(e.Error, &word)
	return word
}

func (e *claudeLine) failure() string {
	var o struct {
		Message string `json:"message"`
	}
	_ = json.Unmarshal(e.Error, &o)
	return o.Message
}

func (e *claudeLine) message(tell func(Event)) {
	var text string // after the last tool call
	said, acted, woken := false, false, false
	for _, block := range e.Message.Content {
		switch block.Type {
		case "text":
			text, said = block.Text, true
		case "tool_use", "server_tool_use", "mcp_tool_use":
			text, said, acted = "", false, true
			woken = woken || slices.Contains(Wakers(), block.Name)
		}
	}
	switch {
	case e.Parent != "": // a subagent's
	case e.Message.Model == "<synthetic>": // the client's own words
		tell(Event{Kind: Trouble, Text: text, Word: e.word()})
	default:
		if acted {
			tell(Event{Kind: Tool})
		}
		if woken {
			tell(Event{Kind: Pending, Word: wakeup, OK: true})
		}
		if said {
			tell(Event{Kind: Text, Text: text, Whole: true})
		}
	}
}

// result reads the end. The subtype "success" means nothing, and qwen says
// of a refused key that all is well.
func (e *claudeLine) result(tell func(Event)) {
	for _, d := range e.Denied[:min(len(e.Denied), 100)] {
		tell(Event{Kind: Denied, Word: d.Tool})
	}
	usage := Event{Kind: Usage, Tokens: e.Usage.tokens(), USD: e.USD, Requests: int(e.Turns.int())}
	if len(e.AllModels) > 0 {
		usage.Tokens = allTokens(e.AllModels)
	}
	if e.SinceModels != nil { // then the total is the session's, of the runs before a --resume too
		usage.Tokens, usage.USD, usage.Add = allTokens(e.SinceModels), 0, true
		for _, m := range e.SinceModels {
			usage.USD += m.USD
		}
	}
	tell(usage)
	end := Event{Kind: End, Status: e.status(), Word: e.word()}
	end.OK = !e.IsError && !strings.HasPrefix(e.Subtype, "error") && !strings.HasPrefix(e.Result, "[API Error")
	if !end.OK {
		first := ""
		for _, text := range e.Errors {
			first = cmp.Or(first, text)
		}
		end.Text = lastOf(cmp.Or(e.Result, cmp.Or(first, e.failure())))
		if strings.HasPrefix(e.Subtype, "error_max") {
			end.Word = e.Subtype
		}
	} else if e.Result != "" {
		tell(Event{Kind: Text, Text: e.Result, Whole: true})
	}
	tell(end)
}
