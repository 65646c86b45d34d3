package stream

import (
	"bytes"
	"regexp"
	"strconv"

	"descartes/agent/quota"
)

// opencodeLine is what is read of a line of `opencode run --format json`.
type opencodeLine struct {
	Type string `json:"type"`
	ID   string `json:"sessionID"`
	Part struct {
		Reason    string  `json:"reason"`
		Tool      string  `json:"tool"`
		Text      string  `json:"text"`
		Synthetic bool    `json:"synthetic"`
		USD       float64 `json:"cost"`
		Tokens    struct {
			Input     number `json:"input"`
			Output    number `json:"output"`
			Reasoning number `json:"reasoning"`
			Cache     struct {
				Read  number `json:"read"`
				Write number `json:"write"`
			} `json:"cache"`
		} `json:"tokens"`
	} `json:"part"`
	Error struct {
		Name string `json:"name"`
		Data struct {
			Message string `json:"message"`
			Status  number `json:"statusCode"`
			Body    string `json:"responseBody"`
		} `json:"data"`
	} `json:"error"`
}

// opencodeAgents is the tool that has a subagent work, in a session of its own that is not printed.
const opencodeAgents = "task"

func skimOpencode(kind string, head []byte, tell func(Event)) bool {
	if kind == "tool_use" {
		tell(Event{Kind: Tool})
		if bytes.Contains(head, []byte(`"tool":"`+opencodeAgents+`"`)) {
			tell(Event{Kind: Delegated})
		}
		return true
	}
	return false
}

func readOpencode(line []byte, tell func(Event)) LineKind {
	var e opencodeLine
	if !Decode(line, &e) || e.Type == "" {
		return Noise
	}
	switch e.Type {
	case "step_start":
		if e.ID != "" {
			tell(Event{Kind: Session, ID: e.ID})
		}
		tell(Event{Kind: Begin})
	case "text":
		if e.Part.Synthetic { // the client goes on by itself
			tell(Event{Kind: Begin})
		} else {
			tell(Event{Kind: Text, Text: e.Part.Text, Whole: true})
		}
	case "tool_use", "tool":
		tell(Event{Kind: Tool})
		if e.Part.Tool == opencodeAgents {
			tell(Event{Kind: Delegated})
		}
	case "step_finish":
		t := e.Part.Tokens
		read, write := t.Cache.Read.int(), t.Cache.Write.int() // which it leaves out of its input
		tell(Event{Kind: Usage, USD: e.Part.USD, Add: true, Requests: 1,
			Tokens: Tokens{Input: t.Input.int() + read + write, CacheRead: read, CacheWrite: write,
				Output: t.Output.int() + t.Reasoning.int()}})
		if e.Part.Reason == "stop" {
			tell(Event{Kind: End, OK: true})
		}
	case "error":
		e.failure(tell)
	case "reasoning":
	default:
		return Unknown
	}
	return Known
}

// failure tells of an error, which is the end unless another step follows.
func (e *opencodeLine) failure(tell func(Event)) {
	f := Event{Kind: Trouble, Word: e.Error.Name, Text: lastOf(e.Error.Data.Message),
		Status: int(e.Error.Data.Status.int())}
	tell(f)
	body := regexp.MustCompile(`(?i)"(?:resets_at|x-ratelimit-reset)"\s*:\s*"?(\d{10,13})`).FindStringSubmatch(
		lastOf(e.Error.Data.Body))
	if _, limited := quota.Named(f.Text); limited && body != nil {
		at, _ := strconv.ParseFloat(body[1], 64)
		tell(Event{Kind: Limit, Until: quota.Epoch(at)})
	}
	f.Kind, f.Maybe = End, true
	tell(f)
}
